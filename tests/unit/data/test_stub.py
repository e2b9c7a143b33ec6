"""The stub that type checkers read has the names that `romkit.data` has."""

import ast
from pathlib import Path

import romkit.data


def test_the_stub_names_what_the_room_does():
    tree = ast.parse(Path(romkit.data.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    named = [alias.asname for node in imports for alias in node.names]
    assert sorted(named) == sorted(romkit.data.__all__)
    assert all(hasattr(romkit.data, name) for name in named)
