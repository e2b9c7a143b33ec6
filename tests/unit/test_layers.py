"""Imports run one way, lazy ones too, and each heavy dependency has one door. The table is that of
docs/design.md.
"""

import ast
import functools
from collections import defaultdict
from pathlib import Path

import pytest

import romkit

ROOT = Path(romkit.__file__).parent
FLOORS = (
    {"core"},
    {"numerics", "select"},
    {"engine", "data"},
    {"solvers", "bases"},
    {"projections"},
    {"readers"},
    {"systems", "metrics"},
    {"certificates", "integrators"},
    {"laws"},
    {"training", "testing", "hidden"},
    {"models"},
    {"tasks"},
    {"verbs"},
    {"assimilation", "branches"},
    {"plotting"},
    {"learning"},
    {"explorer"},
    {"cli"},
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
FACE = {"broadcast", "ensemble", "errors", "presets", "problem", "types"}
"""Public files that only name what stands in rooms; no room imports them."""
HEAVY = {"mujoco", "geoopt", "torchdiffeq", "pysindy", "cvxpy", "matplotlib", "sklearn"}


def files():
    """Files of the rooms."""
    face = {ROOT / f"{name}.py" for name in (*FACE, "__init__", "__main__")}
    return [file for file in sorted(ROOT.rglob("*.py")) if file not in face]


def room(file):
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def module(file):
    return ".".join(("romkit", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


@functools.cache
def imported(file):
    """Dotted names of everything that a file imports, anywhere in it."""
    names = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def rooms_used(file):
    """Rooms of romkit that a file imports. `import romkit` itself means the verbs, which only the
    top may use.
    """
    for name in imported(file):
        if name == "romkit":
            yield "verbs"
        elif name.startswith("romkit."):
            yield name.split(".")[1]


def test_every_room_has_a_floor_and_imports_run_one_way():
    assert {room(file) for file in files()} == set(FLOOR), (
        "put the new room into FLOORS and docs/design.md"
    )
    wrong = {
        f"{file.relative_to(ROOT)} imports {used}"
        for file in files()
        for used in rooms_used(file)
        if used != room(file) and FLOOR[used] >= FLOOR[room(file)]
    }
    assert not wrong


def test_files_of_the_face_import_and_list_names():
    for name in FACE:
        docstring, *imports, listed = ast.parse((ROOT / f"{name}.py").read_text("utf-8")).body
        assert isinstance(docstring, ast.Expr)
        assert isinstance(listed, ast.Assign)
        assert all(isinstance(statement, ast.ImportFrom) for statement in imports)
        names = [alias.name for statement in imports for alias in statement.names]
        assert {*names} == {*ast.literal_eval(listed.value)}


def test_every_public_name_is_found_where_the_stub_says():
    for name in romkit.__all__:
        assert getattr(romkit, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'rolout'"):
        romkit.rolout  # noqa: B018
    assert {*romkit.__all__} <= {*dir(romkit)}


def test_no_circles():
    """No circle of imports among files; those inside of functions and for type checkers count."""
    own = {module(file): file for file in files() if file.name != "__init__.py"}
    arrows = {
        name: {
            found
            for each in imported(file)
            for found in (each, each.rpartition(".")[0])
            if found in own
        }
        - {name}
        for name, file in own.items()
    }
    while free := [name for name, used in arrows.items() if not used]:
        arrows = {name: used - {*free} for name, used in arrows.items() if name not in free}
    assert not arrows


def test_heavy_dependencies_have_one_door():
    doors = defaultdict(set)
    for file in files():
        for name in imported(file):
            if (package := name.split(".")[0]) in HEAVY:
                doors[package].add(str(file.relative_to(ROOT)))
    assert all(file.startswith("plotting/") for file in doors.pop("matplotlib"))
    assert all(len(found) == 1 for found in doors.values()), dict(doors)


def test_the_design_page_draws_this_house():
    """Each row of the picture holds rooms of one floor, from the top floor down."""
    picture = (ROOT.parent / "docs" / "design.md").read_text(encoding="utf-8").split("```")[1]
    rows = [set(row[24:60].split()) & set(FLOOR) for row in picture.splitlines()]
    assert [rooms for rooms in rows if rooms] == list(reversed(FLOORS))
