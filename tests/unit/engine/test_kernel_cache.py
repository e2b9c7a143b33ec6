"""Compiled code on disk: nothing foreign or damaged is loaded, and no trouble with it stops a computation."""

import ctypes
import errno
import itertools
import os
import shutil
import subprocess
import time
import warnings
from pathlib import Path

import pytest
import torch

from romkit.engine import compiled_if
from romkit.engine.compiled import RungeKutta, Unsupported, build, cache, kernel
from romkit.errors import InputError
from romkit.solvers import RK4

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
T64 = torch.float64
TIMES = torch.tensor([0.0, 0.1], dtype=T64)
SIZES = itertools.count(3)
STATE = {}
"""Each test compiles code of its own, since the system does not load a library twice."""


def decay(t, y):
    return -y


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache of this test, and a process that has compiled and warned of nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    STATE["y"] = torch.ones(2, next(SIZES), dtype=T64)
    for remembered in (build._library, build._version, build.warn_once):
        remembered.cache_clear()
    yield tmp_path
    build._library.cache_clear()


def compiled(engine="auto"):
    """The engine that a long run would take; the compiled one is tried out."""
    build._library.cache_clear()
    found, name = compiled_if(engine, RungeKutta, decay, TIMES, STATE["y"], 1e9)
    if found is not None:
        assert torch.equal(found.evaluate(0.0, STATE["y"]), -STATE["y"])
    return name


def kept(home):
    return sorted((home / "cache" / "romkit").glob("*.so"))


def with_one_warning(match, *, engine):
    with pytest.warns(RuntimeWarning, match=match) as caught:
        found = compiled(), compiled()
    assert found[0].startswith(engine)
    assert len(caught) == 1


def counting(monkeypatch):
    calls, run = [], build._compiled
    monkeypatch.setattr(build, "_compiled", lambda *given: calls.append(1) or run(*given))
    return calls


def test_it_is_compiled_once_and_kept_for_its_owner_only(home, monkeypatch):
    calls = counting(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (compiled(), compiled()) == ("compiled", "compiled")
    (file,) = kept(home)
    assert len(calls) == 1
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


def damaged(content):
    half, flipped = content[: len(content) // 2], bytearray(content)
    flipped[len(content) // 3] ^= 1
    return {"junk": b"junk", "empty": b"", "half": half, "one bit": bytes(flipped), "unsealed": content[:-32]}


@pytest.mark.parametrize("damage", ["junk", "empty", "half", "one bit", "unsealed"])
def test_a_damaged_library_is_built_again(home, monkeypatch, damage):
    compiled()
    (file,) = kept(home)
    before = file.read_bytes()
    file.unlink()  # the old one is mapped into this process
    file.write_bytes(damaged(before)[damage])
    file.chmod(0o600)
    calls = counting(monkeypatch)
    assert compiled() == "compiled"
    assert len(calls) == 1
    assert file.read_bytes()[-32:] == cache._digest(file.read_bytes()[:-32], file.name)
    assert len(file.read_bytes()) == len(before)


def test_one_library_cannot_stand_in_for_another(home):
    compiled()
    (file,) = kept(home)
    assert cache.intact(file, file.name)
    assert not cache.intact(file, "another.so")


@pytest.mark.parametrize("planted", ["a link", "a pipe", "writable to others"])
def test_what_is_no_private_file_is_replaced(home, tmp_path, monkeypatch, planted):
    compiled()
    (file,) = kept(home)
    elsewhere = tmp_path / "elsewhere.so"
    shutil.copy(file, elsewhere)
    content = elsewhere.read_bytes()
    if planted == "writable to others":
        file.chmod(0o666)
    else:
        file.unlink()
        file.symlink_to(elsewhere) if planted == "a link" else os.mkfifo(file)
    calls = counting(monkeypatch)
    assert compiled() == "compiled"
    assert len(calls) == 1
    assert file.is_file()
    assert not file.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600
    assert elsewhere.read_bytes() == content


def test_a_folder_in_the_place_of_a_library_is_left_alone(home):
    compiled()
    (file,) = kept(home)
    file.unlink()
    file.mkdir()
    with_one_warning("compiled code is not kept", engine="compiled")
    assert file.is_dir()


def planted(home, monkeypatch):
    """A library that leaves a mark when it is loaded, sealed as one of ours, before there is one."""
    sources = []
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "library", lambda source: sources.append(source) or _stop())
        compiled()
    file = home / "cache" / "romkit" / build._name(build.compiler(), sources[0])
    file.parent.mkdir(parents=True, mode=0o700)
    marker, source = home / "mark", home / "planted.cpp"
    body = f'FILE *f = fopen("{marker}", "w"); if (f) fclose(f);'
    source.write_text(f"#include <cstdio>\n__attribute__((constructor)) static void mark() {{ {body} }}\n")
    subprocess.run(["c++", "-shared", "-fPIC", str(source), "-o", str(file)], check=True)
    content = file.read_bytes()
    file.write_bytes(content + cache._digest(content, file.name))
    file.chmod(0o600)
    return file, marker


def _stop():
    raise Unsupported("not yet")


def test_the_trap_works(home, monkeypatch):
    _, marker = planted(home, monkeypatch)
    with pytest.warns(RuntimeWarning, match="without the compiled field"):
        compiled()
    assert marker.exists()  # written by ourselves, so it was loaded


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to act as two users")
@pytest.mark.parametrize("foreign", ["file", "folder", "open folder"])
def test_what_another_user_planted_is_never_loaded(home, monkeypatch, foreign):
    file, marker = planted(home, monkeypatch)
    if foreign == "open folder":
        file.parent.chmod(0o777)
    else:
        os.chown(file if foreign == "file" else file.parent, 12345, 12345)
    if foreign == "file":
        assert compiled() == "compiled"
        assert file.stat().st_uid == 0
    else:
        with_one_warning("belongs to another user" if foreign == "folder" else "others may write", engine="compiled")
    assert not marker.exists()


@pytest.mark.parametrize("cache_home", ["/proc/romkit-test", "a file", "with a file"])
def test_a_cache_that_cannot_be_written_is_done_without(home, tmp_path, monkeypatch, cache_home):
    if cache_home == "a file":
        (tmp_path / "cache").write_text("")
    elif cache_home == "with a file":
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache" / "romkit").write_text("")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    with_one_warning("compiled code is not kept", engine="compiled")


def test_without_a_home_folder(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home folder")))
    with_one_warning("no home folder", engine="compiled")


def test_the_temporary_folder_is_private():
    assert cache.passing().stat().st_mode & 0o777 == 0o700
    assert cache.passing() == cache.passing()


def refuse_to_load(monkeypatch, *, within):
    """As a file system that is mounted noexec does."""
    load = ctypes.CDLL

    def loader(name, *rest, **more):
        if within in os.path.realpath(name):
            raise OSError(f"{name}: failed to map segment from shared object")
        return load(name, *rest, **more)

    monkeypatch.setattr(ctypes, "CDLL", loader)


def test_a_cache_that_may_not_hold_programs(home, monkeypatch):
    refuse_to_load(monkeypatch, within=str(home))
    with_one_warning("failed to map segment", engine="compiled")
    assert kept(home) == []


def test_no_place_for_programs_at_all(home, monkeypatch):
    refuse_to_load(monkeypatch, within="/")
    with_one_warning("cannot be kept or loaded", engine="torch (compiled code cannot be kept or loaded")


def test_a_full_disk(home, monkeypatch):
    def full(file, name, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache, "seal", full)
    with_one_warning("No space left on device", engine="torch (")


def script(folder, text):
    file = folder / "compiler"
    file.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit\n{text}\n')
    file.chmod(0o755)
    return str(file)


COMPILERS = {
    "unbalanced quotes": ("'c++", "CXX is not a command"),
    "none": ("/nowhere/c++", "there is no C\\+\\+ compiler"),
    "does nothing": ("true", "left no library"),
    "fails": ("false", "the C\\+\\+ compiler failed"),
    "writes junk": ("script: printf junk > kernel.so", "invalid ELF header|file too short"),
    "prints junk": ("script: printf '\\377\\376 \\033[31m'; exit 1", "the C\\+\\+ compiler failed"),
    "is no program": ("file", "cannot be started"),
    "makes another library": ("script: c++ -shared -o kernel.so -x c++ /dev/null", "without the compiled field"),
    "takes for ever": ("script: exec sleep 60", "takes longer"),
}


@pytest.mark.parametrize("name", COMPILERS)
def test_trouble_with_the_compiler_is_one_warning_and_torch(home, tmp_path, monkeypatch, name):
    command, complaint = COMPILERS[name]
    monkeypatch.setattr(build, "TIME_LIMIT", 1 if name == "takes for ever" else 60)
    if command.startswith("script: "):
        command = script(tmp_path, command.removeprefix("script: "))
    elif command == "file":
        command = script(tmp_path, "")
        Path(command).write_bytes(b"\177ELF junk")
    monkeypatch.setenv("CXX", command)
    with_one_warning(complaint, engine="torch (")
    assert kept(home) == []
    with pytest.raises(InputError, match=complaint) as caught:
        compiled("compiled")
    assert "\033" not in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_run_goes_on_in_torch(monkeypatch):
    monkeypatch.setenv("CXX", "true")
    with pytest.warns(RuntimeWarning, match="left no library"):
        run = RK4(1e-3)(lambda t, y: -y.sin().cos().sin().cos().sin().cos(), STATE["y"], torch.arange(16).to(T64))
    assert run.cost["engine"].startswith("torch (the C++ compiler left no library")


def test_what_killed_processes_left_is_removed(home, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    folder, temporary = tmp_path / "cache" / "romkit", tmp_path / "tmp"
    folder.mkdir(parents=True, mode=0o700)
    temporary.mkdir()
    old, new, work, others = (
        folder / "k.so.1.tmp",
        folder / "k.so.2.tmp",
        temporary / "romkit-x.tmp",
        temporary / "y.tmp",
    )
    work.mkdir()
    for file in (old, new, work / "kernel.cpp", others):
        file.write_text("")
    for file in (old, work, others):
        os.utime(file, (time.time() - 7200,) * 2)
    assert compiled() == "compiled"
    assert [file.exists() for file in (old, new, work, others)] == [False, True, False, True]
