"""`romkit.core.files`: a write is complete or did not happen."""

import errno
import multiprocessing
import os
import stat
import time
from pathlib import Path

import pytest
import torch

from romkit.core.errors import FileError
from romkit.core.files import (
    atomic,
    atomic_folder,
    existing,
    read,
    read_list,
    reason,
    temporary_folder,
    write,
    write_list,
)


def test_writes_and_replaces(tmp_path):
    target = tmp_path / "a.txt"
    for text in ("first", "second"):
        with atomic(target) as temporary:
            assert temporary.parent == tmp_path
            temporary.write_text(text)
        assert target.read_text() == text
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("failure", [ValueError("x"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(type(failure)), atomic(target) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise failure
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def fill_the_disk(target):
    with atomic(target) as temporary:
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_an_error_of_the_system_is_a_file_error_on_one_line(tmp_path):
    with pytest.raises(
        FileError, match=r"cannot be written \(No space left on device\); check free space"
    ) as caught:
        fill_the_disk(tmp_path / "a.txt")
    assert "\n" not in str(caught.value)
    with pytest.raises(FileError, match="cannot be written"), atomic(tmp_path / "a.txt"):
        pass  # writes nothing
    assert os.listdir(tmp_path) == []


def test_a_folder_that_becomes_read_only_is_a_file_error(tmp_path, monkeypatch):
    """A raw OSError from the clean-up must not hide it."""

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("replace", "unlink"):
        monkeypatch.setattr(Path, name, refuse)
    with (
        pytest.raises(FileError, match=r"cannot be written \(Read-only file system\)"),
        atomic(tmp_path / "a") as file,
    ):
        file.write_text("whole")


def test_a_missing_folder_and_a_folder_as_target(tmp_path):
    with (
        pytest.raises(FileError, match="folder does not exist; make it first: mkdir -p"),
        atomic(tmp_path / "b" / "a"),
    ):
        pass
    with pytest.raises(FileError, match="is a folder; add a file name"), atomic(tmp_path):
        pass


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_pipe_stays_a_pipe(tmp_path, through_a_link):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    target = pipe
    if through_a_link:
        target = tmp_path / "link"
        target.symlink_to(pipe)
    with pytest.raises(FileError, match="pipe"), atomic(target) as temporary:
        temporary.write_text("a")
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


def test_a_device_is_no_target():
    with pytest.raises(FileError, match="device"), atomic(os.devnull):
        pass


def test_a_name_that_no_file_can_have_is_a_file_error(tmp_path):
    for name in ("y" * 300, f"{'y' * 300}/a"):
        with pytest.raises(FileError), atomic(tmp_path / name) as temporary:
            temporary.write_text("a")
    assert not list(tmp_path.iterdir())


def test_a_link_is_followed_and_a_new_file_has_the_usual_permissions(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    usual = real.stat().st_mode
    link.symlink_to(real)
    with atomic(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert (real.read_text(), real.stat().st_mode) == ("new", usual)


def test_existing_and_reasons_in_one_short_line(tmp_path):
    (tmp_path / "a").write_text("")
    assert existing(tmp_path / "a") == tmp_path / "a"
    for missing, problem in ((tmp_path / "b", "no such file"), (tmp_path, "is a folder")):
        with pytest.raises(FileError, match=f"{problem}; check the path"):
            existing(missing)
    assert reason(ValueError("a\n  b")) == "a b"
    assert len(reason(ValueError("x" * 1000))) == 200


def _write_forever(target):
    for k in range(10**9):
        with atomic(target) as temporary:
            temporary.write_bytes(bytes([k % 256]) * 2_000_000)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_killed_writer_never_leaves_half_a_file(tmp_path):
    target = tmp_path / "a"
    for k in range(6):
        writer = multiprocessing.get_context("fork").Process(target=_write_forever, args=(target,))
        writer.start()
        while not target.exists():
            time.sleep(0.001)
        time.sleep(0.0077 * k)
        writer.kill()
        writer.join()
        content = target.read_bytes()
        assert len(content) == 2_000_000
        assert len(set(content)) == 1


def test_tensors_that_share_memory_are_each_written(tmp_path):
    whole = torch.arange(6.0)
    tensors = {"whole": whole, "again": whole, "part": whole[2:4], "apart": whole.clone()}
    path = write(tmp_path / "a.safetensors", "tensors", {}, tensors)
    _, stored = read(path)
    assert stored.keys() == tensors.keys()
    assert all(torch.equal(stored[name], value) for name, value in tensors.items())


def saved_into(folder, names, version):
    with atomic_folder(folder) as staged:
        for name in names:
            (staged / name).write_text(version + name)
        write_list(staged / "list.json", {"version": version})


@pytest.mark.parametrize("moves", range(1, 6))
def test_a_save_that_is_killed_at_any_move_is_the_earlier_or_the_new_one(
    tmp_path, monkeypatch, moves
):
    """A move of the list into the stage, one that completes the save, and one of each file."""
    folder = tmp_path / "model"
    saved_into(folder, ["a", "b", "z"], "1")
    (folder / "notes").write_text("of the user")
    move, made = Path.replace, []

    def killed(file, target):
        made.append(target)
        if len(made) > moves:
            raise KeyboardInterrupt
        return move(file, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            saved_into(folder, ["a", "c", "z"], "2")
    version = read_list(folder / "list.json")["version"]
    assert version == ("1" if moves == 1 else "2")
    names = {"1": "abz", "2": "acz"}[version]
    assert {file.name for file in folder.iterdir()} == {*names, "list.json", "notes"}
    assert all((folder / name).read_text() == version + name for name in names)


def test_a_full_temporary_folder_is_named(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryDirectory", full)
    with pytest.raises(FileError, match="TMPDIR"), temporary_folder():
        pass
