"""FMUs for other platforms: each library has the format, the machine and the functions of its own."""

import struct
import subprocess
import zipfile

import pytest

import romkit
from romkit.engine import build
from romkit.engine.build import Unavailable, compile_c
from romkit.systems import Lorenz96
from romkit.verbs import fmu
from tests.refusals import refused

ELF, MACH_O = b"\x7fELF", b"\xcf\xfa\xed\xfe"
MACHINES = {
    # e_machine of the ELF header; cputype of Mach-O; Machine of the COFF header
    "aarch64-linux": 183,
    "aarch64-darwin": 0x0100000C,
    "x86_64-windows": 0x8664,
}
KINDS = {"linux": (ELF, 3), "darwin": (MACH_O, 6)}
"""First bytes of each format, and its number for shared libraries."""


def kind_and_machine(library):
    """First bytes, kind and machine of a library."""
    if library.startswith(ELF):
        kind, machine = struct.unpack_from("<HH", library, 16)
        return ELF, kind, machine
    assert library.startswith(MACH_O)
    machine, _, kind = struct.unpack_from("<III", library, 4)
    return MACH_O, kind, machine


def model():
    system = Lorenz96(n=4, transient=0.0)
    data = system.dataset(F=[3.14, 3.18], duration=0.2)
    return system, romkit.fit("pod", data, latent_dim=2, verbose=False)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """An FMU whose libraries are for machines that are not those of most tests."""
    pytest.importorskip("ziglang")
    system, pod = model()
    path = tmp_path_factory.mktemp("fmu") / "waves.fmu"
    return romkit.export(pod, path, system=system, platforms=["aarch64-linux", "aarch64-darwin"])


def test_libraries_of_other_platforms_are_what_they_say(exported):
    with zipfile.ZipFile(exported) as archive:
        places = [name for name in archive.namelist() if name.startswith("binaries/")]
        assert len(places) == 2
        for place in places:
            _, platform, file = place.split("/")
            name = platform.rpartition("-")[2]
            library = archive.read(place)
            magic, kind = KINDS[name]
            assert file == f"waves.{fmu.SUFFIXES[name]}"
            assert kind_and_machine(library) == (magic, kind, MACHINES[platform])
            assert b"fmi3DoStep" in library


def test_sources_compile_for_windows(exported, tmp_path):
    """To objects: a DLL needs the library of C of Windows, which takes minutes to compile."""
    with zipfile.ZipFile(exported) as archive:
        archive.extractall(tmp_path)
    folder = next(tmp_path.rglob("fmi3.c")).parent
    compiler = build._cross_compiler(fmu.PLATFORMS["x86_64-windows"])
    for source in ("model.c", "fmi3.c"):
        command = [*compiler, "-std=c99", "-O2", "-c", source, "-o", "object"]
        subprocess.run(command, cwd=folder, check=True)
        compiled = (folder / "object").read_bytes()
        assert struct.unpack_from("<H", compiled) == (MACHINES["x86_64-windows"],)
    assert b"fmi3DoStep" in compiled


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
