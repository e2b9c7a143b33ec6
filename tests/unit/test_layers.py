"""Imports run one way, and each heavy dependency has one door. The table is that of docs/design.md."""

import ast
from collections import defaultdict
from pathlib import Path

import romkit

ROOT = Path(romkit.__file__).parent
LAYERS = (
    {
        "display",
        "errors",
        "checks",
        "arrays",
        "boundary",
        "converters",
        "types",
        "problem",
        "broadcast",
        "progress",
        "provenance",
        "files",
        "sealed",
    },
    {"engine"},
    {"data", "solvers"},
    {"bases"},
    {"systems", "projections", "integrators", "metrics", "tasks"},
    {"certificates"},
    {"training", "testing", "extrapolation", "folding", "reduced_mesh"},
    {"presets", "reduced", "saving"},
    {"fit", "simulate", "follow", "score"},
    {"rollout", "forecast"},
    {"ensemble", "compare"},
    {"plotting"},
    {"explorer"},
    {"cli"},
)
FOUNDATIONS = LAYERS[0]
LAYER = {room: depth for depth, rooms in enumerate(LAYERS) for room in rooms}
HEAVY = {"mujoco", "geoopt", "torchdiffeq", "torchode", "pysindy", "cvxpy", "matplotlib"}


def files():
    return [file for file in sorted(ROOT.rglob("*.py")) if file != ROOT / "__init__.py"]


def room(file):
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(file):
    """Dotted names of everything that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_used(file):
    """Rooms of romkit that a file imports. `import romkit` itself means the surface, which only the top may use."""
    for name in imported(file):
        if name == "romkit":
            yield "rollout"
        elif name.startswith("romkit."):
            yield name.split(".")[1]


def test_every_room_has_a_layer():
    assert {room(file) for file in files()} == set(LAYER), "put the new room into LAYERS and docs/design.md"


def test_imports_run_one_way():
    wrong = [
        f"{file.relative_to(ROOT)} imports {used}"
        for file in files()
        for used in rooms_used(file)
        if used != room(file) and not {used, room(file)} <= FOUNDATIONS and LAYER[used] >= LAYER[room(file)]
    ]
    assert not wrong


def test_heavy_dependencies_have_one_door():
    doors = defaultdict(set)
    for file in files():
        for name in imported(file):
            if (package := name.split(".")[0]) in HEAVY:
                doors[package].add(str(file.relative_to(ROOT)))
    assert all(file.startswith("plotting/") for file in doors.pop("matplotlib"))
    assert all(len(found) == 1 for found in doors.values()), dict(doors)


def test_the_design_page_has_this_table():
    page = (ROOT.parent / "docs" / "design.md").read_text(encoding="utf-8")
    for name in LAYER:
        assert f"`{name}`" in page


def test_files_and_functions_stay_readable():
    long = [f"{file.name}: {n} lines" for file in files() if (n := len(file.read_text().splitlines())) > 300]
    for file in files():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (n := lines(node)) > 60:
                long.append(f"{file.name}: {node.name} has {n} lines")
    assert not long


def lines(function):
    """How many a function has, beside the example in its docstring."""
    example = (ast.get_docstring(function) or "").partition("\n\nExample:\n")[1:]
    return function.end_lineno - function.lineno + 1 - "".join(example).count("\n")
