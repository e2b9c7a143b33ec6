"""Numbers and files of before: what `make_golden` wrote down must come out, and old files must be read or refused."""

import json
import shutil

import pytest
from romkit.errors import FileError

from tests.golden.make_golden import ENTRIES, FILES, NUMBERS, TOLERANCES, computed, distance, read

STORED = json.loads(NUMBERS.read_text())

pytestmark = pytest.mark.filterwarnings("ignore::romkit.errors.ExtrapolationWarning")


@pytest.mark.parametrize("name", STORED)
def test_numbers_are_those_of_before(name):
    assert ENTRIES[name][0] == STORED[name]["tolerance"]
    found, stored = computed(name), STORED[name]["numbers"]
    assert distance(found, stored) <= TOLERANCES[STORED[name]["tolerance"]], f"{found}, before {stored}"


def test_every_entry_has_numbers():
    assert set(ENTRIES) == set(STORED)


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
