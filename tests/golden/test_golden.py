"""Numbers and files of before: what `make_golden` wrote down must come out, and old files must be read or refused."""

import json
import shutil

import pytest
from romkit.errors import FileError

from tests.golden.make_golden import FILES, NUMBERS, ROOMS, TOLERANCES, computed, distance, read

STORED = json.loads(NUMBERS.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_numbers_are_those_of_before(room):
    found = computed(room)
    errors = {name: distance(numbers, STORED[name]["numbers"]) for name, numbers in found.items()}
    wrong = {
        name: {"error": error, "now": found[name], "before": STORED[name]["numbers"]}
        for name, error in errors.items()
        if not error <= TOLERANCES[STORED[name]["tolerance"]]
    }
    assert not wrong, "\n".join(f"{name}: {each}" for name, each in wrong.items())


def test_every_number_of_before_is_computed():
    assert {name for room in ROOMS for name in computed(room)} == set(STORED)


@pytest.mark.parametrize(
    "file", sorted(path for path in FILES.rglob("*") if path.is_file()), ids=lambda path: path.name
)
@pytest.mark.parametrize("damage", ["a flipped bit", "truncated"])
def test_damaged_files_are_refused(file, damage, tmp_path):
    within = file.relative_to(FILES)
    top = tmp_path / within.parts[0]
    (shutil.copytree if (FILES / top.name).is_dir() else shutil.copy)(FILES / top.name, top)
    content = bytearray(file.read_bytes())
    content[2 * len(content) // 3] ^= 16
    (tmp_path / within).write_bytes(content if damage == "a flipped bit" else file.read_bytes()[: len(content) // 2])
    with pytest.raises(FileError):
        read(top)
