"""Compiled code on disk: nothing foreign or damaged is loaded, and no trouble with it stops a
computation.
"""

import ctypes
import itertools
import os
import shutil
import warnings
from pathlib import Path

import pytest
import torch

from romkit.engine import RungeKutta, build, compiled_if
from romkit.solvers import RK4
from tests.refusals import refused

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
TIMES = torch.tensor([0.0, 0.1], dtype=torch.float64)
SIZES = itertools.count(
    3
)  # each test compiles code of its own, since the system does not load a library twice


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    """Compile a field with an empty cache, in a process that has compiled and warned of nothing
    yet.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    # how fast the code is does not matter here
    monkeypatch.setattr(build, "FLAGS", ("-std=c++17", "-O0", build.NATIVE))
    y = torch.ones(2, next(SIZES), dtype=torch.float64)
    build.warn_once.cache_clear()

    def run(engine="auto"):
        build._library.cache_clear()
        found, name = compiled_if(engine, RungeKutta, lambda t, y: -y, TIMES, y, 1e9)
        assert found is None or torch.equal(found.evaluate(0.0, y), -y)
        return name

    yield run
    build._library.cache_clear()


def test_it_is_compiled_once_and_kept_for_its_owner_only(run, tmp_path, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run() == "compiled"
        (file,) = (tmp_path / "romkit").glob("*.so")
        written = file.stat().st_mtime_ns
        assert run() == "compiled"
    assert file.stat().st_mtime_ns == written
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_damaged_or_foreign_library_is_built_again(run, tmp_path, monkeypatch):
    run()
    (file,) = (tmp_path / "romkit").glob("*.so")
    content, loaded, load = file.read_bytes(), [], ctypes.CDLL
    monkeypatch.setattr(
        ctypes, "CDLL", lambda name: loaded.append(build._intact(Path(name))) or load(name)
    )
    (tmp_path / "x").write_bytes(content)
    for damage in (
        lambda: file.write_bytes(bytes([content[0] ^ 1]) + content[1:]),
        lambda: file.write_bytes(content[: len(content) // 2]),
        lambda: file.symlink_to(tmp_path / "x"),
        lambda: file.write_bytes(content) and file.chmod(0o666),
        *[lambda: file.write_bytes(content) and os.chown(file, 12345, 12345)] * (os.geteuid() == 0),
    ):
        file.unlink()  # the old one is mapped into this process
        damage()
        assert not build._intact(file)
        assert run() == "compiled"
        assert file.stat().st_uid == os.geteuid()
    assert all(loaded)


@pytest.mark.parametrize("cache", ["open to others", "a file", "/proc"])
def test_where_the_cache_cannot_be_used_code_is_not_kept(run, tmp_path, monkeypatch, cache):
    folder = tmp_path / "romkit"
    if cache == "a file":
        folder.write_text("")
    elif cache == "/proc":
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/romkit-test")
    else:
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="compiled code is not kept") as caught:
        assert [run(), run()] == ["compiled"] * 2
    assert len(caught) == 1


COMPILERS = {
    "'c++": "CXX is not a command",
    "/nowhere/c++": "no compiler starts",
    "true": "No such file or directory",
    "printf junk > kernel.so": "invalid ELF header|file too short",
    "printf '\\377\\376 \\033[31m'; exit 1": "the compiler failed",
    "exec sleep 60": "takes longer",
}


@pytest.mark.parametrize("command", COMPILERS)
def test_trouble_with_the_compiler_is_one_warning_and_torch(run, tmp_path, monkeypatch, command):
    monkeypatch.setattr(build, "TIME_LIMIT", 1 if "sleep" in command else 60)
    if " " in command:
        script = tmp_path / "compiler"
        script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit\n{command}\n')
        script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script) if " " in command else command)
    with pytest.warns(RuntimeWarning, match=COMPILERS[command]) as caught:
        engines = run(), run()
    assert all(engine.startswith("torch (") for engine in engines)
    assert len(caught) == 1
    refused(COMPILERS[command], run, "compiled")
    assert not list(tmp_path.rglob("*.so"))


def test_a_library_of_wrong_numbers_is_not_used_and_the_run_goes_on(run, monkeypatch):
    make = build._compiled
    monkeypatch.setattr(
        build,
        "_compiled",
        lambda folder, command, text: make(folder, command, text.replace("-", "+")),
    )
    assert run() == "torch (its compiled form disagrees with torch)"
    monkeypatch.setenv("CXX", "true")
    y0, times = torch.ones(2, 3, dtype=torch.float64), torch.arange(16).double()
    with pytest.warns(RuntimeWarning, match="cannot be kept or loaded"):
        found = RK4(1e-3)(lambda t, y: -y.sin().cos().sin().cos().sin().cos(), y0, times)
    assert found.cost["engine"].startswith("torch (compiled code cannot be kept or loaded")


def test_a_compiler_that_does_not_know_this_processor_is_asked_again(run, tmp_path, monkeypatch):
    script = tmp_path / "old-c++"
    script.write_text('#!/bin/sh\ncase "$*" in *-march=native*) exit 1 ;; esac\nexec c++ "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv("CXX", str(script))
    assert run() == "compiled"


def test_the_wheel_of_zig_compiles_where_there_is_no_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build.shutil, "which", lambda command: None)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda package: package)
    command = build._compiler("CXX", "c++")
    assert command[1:] == ["-m", "ziglang", "c++", "-nostdlib++"]
    monkeypatch.setenv("CXX", "clang++ -v")
    assert build._compiler("CXX", "c++") == ["clang++", "-v"]
