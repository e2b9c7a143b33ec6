"""FMUs for other platforms: each library has the format, the machine and the functions of its own."""

import struct
import zipfile

import pytest

import romkit
from romkit.engine.build import Unavailable, compile_c
from romkit.systems import Lorenz96
from romkit.verbs import fmu
from tests.refusals import refused

ELF, MACH_O, PE = b"\x7fELF", b"\xcf\xfa\xed\xfe", b"MZ"
MACHINES = {
    # e_machine of the ELF header; cputype of Mach-O; Machine of the COFF header
    "x86_64-linux": 62,
    "aarch64-linux": 183,
    "x86_64-darwin": 0x01000007,
    "aarch64-darwin": 0x0100000C,
    "x86_64-windows": 0x8664,
}
KINDS = {"linux": (ELF, 3), "darwin": (MACH_O, 6), "windows": (PE, None)}
"""First bytes of each format, and its number for shared libraries."""


def kind_and_machine(library):
    """First bytes, kind and machine of a library."""
    if library.startswith(ELF):
        kind, machine = struct.unpack_from("<HH", library, 16)
        return ELF, kind, machine
    if library.startswith(MACH_O):
        machine, _, kind = struct.unpack_from("<III", library, 4)
        return MACH_O, kind, machine
    (header,) = struct.unpack_from("<I", library, 0x3C)
    assert library[header : header + 4] == b"PE\0\0"
    (machine,) = struct.unpack_from("<H", library, header + 4)
    (flags,) = struct.unpack_from("<H", library, header + 22)
    assert flags & 0x2000  # a DLL
    return PE, None, machine


def model():
    system = Lorenz96(n=4, transient=0.0)
    data = system.dataset(F=[3.14, 3.18], duration=0.2)
    return system, romkit.fit("pod", data, latent_dim=2, verbose=False)


@pytest.mark.slow
def test_libraries_of_all_platforms_are_what_they_say(tmp_path):
    pytest.importorskip("ziglang")
    system, pod = model()
    path = romkit.export(pod, tmp_path / "waves.fmu", system=system, platforms=list(MACHINES))
    with zipfile.ZipFile(path) as archive:
        places = [name for name in archive.namelist() if name.startswith("binaries/")]
        assert len(places) == len(MACHINES)
        for platform, number in MACHINES.items():
            name = platform.rpartition("-")[2]
            library = archive.read(f"binaries/{platform}/waves.{fmu.SUFFIXES[name]}")
            magic, kind = KINDS[name]
            assert kind_and_machine(library) == (magic, kind, number)
            assert b"fmi3DoStep" in library


def test_each_platform_has_a_folder_and_its_compiler(tmp_path, monkeypatch):
    targets = []

    def compiled(folder, sources, target):
        targets.append(target)
        (folder / "library").write_bytes(b"library")
        return folder / "library"

    monkeypatch.setattr(fmu, "compile_c", compiled)
    monkeypatch.setattr(fmu, "this_platform", lambda: "aarch64-darwin")
    system, pod = model()
    platforms = ["x86_64-windows", "aarch64-darwin"]
    path = romkit.export(pod, tmp_path / "waves.fmu", system=system, platforms=platforms)
    assert targets == ["x86_64-windows-gnu", None]
    names = zipfile.ZipFile(path).namelist()
    assert {"binaries/x86_64-windows/waves.dll", "binaries/aarch64-darwin/waves.dylib"} <= {*names}


def test_platforms_that_cannot_be_made_are_refused(tmp_path, monkeypatch):
    system, pod = model()
    path = tmp_path / "waves.fmu"
    for platforms in (["amiga"], ["x86_64-win"], [1]):
        refused("platforms.*", romkit.export, pod, path, system=system, platforms=platforms)
    plain = tmp_path / "waves.c"
    refused("platforms: ", romkit.export, pod, plain, system=system, platforms=["x86_64-linux"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="compiler"):
        compile_c(tmp_path, ["model.c"], "x86_64-windows-gnu")
