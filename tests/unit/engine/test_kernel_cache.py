"""Compiled code on disk: nothing foreign or damaged is loaded, and no trouble with it stops a computation.

The cases, 41; an audit had 37, of which it listed those that failed, and all of these are here:
  5  a file that is junk, empty, half, flipped in one bit, or without its seal
  3  a loadable library in the place of another, one of wrong numbers, one without the field
  5  a link, a pipe or a folder for the file; a file that others or its group may write
  7  file or folder of another user, folder open to others or its group; a second user at a cache that is open to all,
     to be read, or closed
  8  a cache that cannot be written, is a file, holds a file, has an odd name (4), or no home at all
  3  file systems: noexec for the cache, noexec everywhere, full
  8  a compiler that is misspelt, missing, silent, failing, writes junk, prints junk, no program, slow
  2  four compilations at once, and what killed ones left
"""

import contextlib
import ctypes
import errno
import itertools
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import pytest
import torch

from romkit.core.errors import InputError
from romkit.engine import compiled_if
from romkit.engine.compiled import RungeKutta, Unsupported, build, cache, kernel
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


@pytest.mark.parametrize("planted", ["a link", "a pipe", "writable to others", "writable to the group"])
def test_what_is_no_private_file_is_replaced(home, tmp_path, monkeypatch, planted):
    compiled()
    (file,) = kept(home)
    elsewhere = tmp_path / "elsewhere.so"
    shutil.copy(file, elsewhere)
    content = elsewhere.read_bytes()
    if planted.startswith("writable"):
        file.chmod(0o666 if planted == "writable to others" else 0o660)
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
@pytest.mark.parametrize("foreign", ["file", "folder", "open folder", "folder open to the group"])
def test_what_another_user_planted_is_never_loaded(home, monkeypatch, foreign):
    file, marker = planted(home, monkeypatch)
    if "open" in foreign:
        file.parent.chmod(0o777 if foreign == "open folder" else 0o770)
    else:
        os.chown(file if foreign == "file" else file.parent, 12345, 12345)
    if foreign == "file":
        assert compiled() == "compiled"
        assert file.stat().st_uid == 0
    else:
        with_one_warning("belongs to another user" if foreign == "folder" else "others may write", engine="compiled")
    assert not marker.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to act as two users")
@pytest.mark.parametrize("mode", [0o777, 0o755, 0o700])
def test_a_second_user_never_loads_what_the_first_one_left(monkeypatch, mode):
    """A process of another user id, whose cache is that of root: open to all, to read, or closed."""
    with tempfile.TemporaryDirectory() as shared:
        place = Path(shared)
        monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        file, marker = planted(place, monkeypatch)
        for folder in (place, place / "cache", file.parent):
            folder.chmod(0o777 if folder == place else mode)
        file.chmod(0o644)
        child = os.fork()
        if not child:
            code = 1
            with contextlib.suppress(BaseException):
                os.setgroups([])
                os.setgid(12345)
                os.setuid(12345)
                code = int(not _as_second_user())
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert not marker.exists()


def _as_second_user():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = compiled()
    return found == "compiled" and any("compiled code is not kept" in str(w.message) for w in caught)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_four_processes_compile_at_once(home):
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            code = 1
            with contextlib.suppress(BaseException):
                code = int(compiled() != "compiled")
            os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len(kept(home)) == 1
    assert len(list((home / "cache" / "romkit").iterdir())) == 1


def test_a_library_of_wrong_numbers_is_not_used(home, monkeypatch):
    compile_, wrong = build._compiled, lambda source: source.replace("-", "+")
    monkeypatch.setattr(build, "_compiled", lambda command, source: compile_(command, wrong(source)))
    assert compiled() == "torch (its compiled form disagrees with torch)"


@pytest.mark.parametrize("place", ["a b", "größe/π", "./relative", ""])
def test_odd_places(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", place and (place if place.startswith(".") else str(tmp_path / place)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (compiled(), compiled()) == ("compiled", "compiled")
    assert len([*tmp_path.rglob("*.so")]) == 1


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
