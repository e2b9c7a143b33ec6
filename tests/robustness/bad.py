# ruff: noqa: E501, the tables read better in long lines
"""Values that nobody can mean for an annotation, and values that are unusual: refused, or used as they are."""

import collections.abc
import types
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple, Union, get_args, get_origin

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import boundary
from tests.robustness.examples import FOLDER, world

NAN, INF = float("nan"), float("inf")


class Thing:
    """Nothing that romkit knows."""


class Bad(NamedTuple):
    """A value, what it is called in exceptions to the rule, and whether nobody can mean it."""

    label: str
    value: object
    never: bool = True


JUNK = {"object": Thing(), "complex": 1 + 2j, "bytes": b"ab", "a class": Thing}
TEXT = {"text": "nonsense", "empty text": ""}
NUMBERS = {"nan": NAN, "a list": [1.0, 2.0], "a dict": {}, "True": True, **TEXT}
SIGN = {"-1": -1, "inf": INF, "-inf": -INF}
TENSORS = {
    "complex tensor": torch.ones(2, 4, dtype=torch.complex64),
    "booleans": torch.ones(2, 4, dtype=torch.bool),
    "complex array": np.ones((2, 4)) * 1j,
    "array of text": np.array(["a", "b"]),
    "array of objects": np.array([object(), None]),
    "sparse": torch.eye(4).to_sparse(),
    "meta": torch.empty(2, 4, device="meta"),
    "a ragged list": [[1.0], [1.0, 2.0]],
    "a dict": {},
    **TEXT,
}
UNUSUAL = {
    "empty": torch.zeros(0),
    "no rows": torch.zeros(0, 4),
    "scalar": torch.tensor(1.0),
    "three entries": torch.ones(3),
    "seven rows": torch.ones(7, 4),
    "five axes": torch.ones(2, 1, 3, 1, 4),
    "NaN": torch.full((5, 4), NAN),
    "huge": torch.full((5, 4), 1e300, dtype=torch.float64),
    "integers": torch.ones(5, 4, dtype=torch.int64),
    "float64": torch.ones(5, 4, dtype=torch.float64),
    "half": torch.ones(5, 4, dtype=torch.float16),
    "NumPy": np.ones((5, 4)),
    "a list": [[1.0, 2.0]],
    "a number": 1.5,
}
NEVER: dict[object, dict[str, object]] = {
    float: NUMBERS,
    int: NUMBERS | {"1.5": 1.5, "inf": INF},
    bool: {"text": "yes", "1": 1, "nan": NAN, "a list": [True]},
    str: {"3": 3, "a list": ["a"], "nan": NAN, "True": True},
    Tensor: TENSORS,
    np.ndarray: TENSORS,
    boundary.Positive: NUMBERS | SIGN | {"0": 0},
    boundary.NotNegative: NUMBERS | SIGN,
    boundary.Limit: NUMBERS | {"-1": -1, "0": 0},
    boundary.Share: NUMBERS | SIGN | {"2": 2},
    boundary.Part: NUMBERS | SIGN | {"0": 0, "1": 1, "2": 2},
    boundary.Finite: NUMBERS | {"inf": INF},
    boundary.Count: NUMBERS | SIGN | {"0": 0, "1.5": 1.5},
    boundary.Natural: NUMBERS | SIGN | {"1.5": 1.5},
    boundary.Seed: NUMBERS | SIGN | {"1.5": 1.5, "2^70": 2**70},
    boundary.Sizes: TEXT | {"1": 1, "empty": (), "0": (0, 4), "negative": (-1, 4), "floats": (2.5, 4), "nan": NAN},
    boundary.Widths: TEXT | {"1": 1, "empty": (), "0": (0,), "negative": (-1,), "floats": (2.5,), "nan": NAN},
    boundary.Layered: TEXT | {"1": 1, "empty": (), "0": (0,), "an empty layer": ((),), "floats": ((2.5,),), "nan": NAN},
    boundary.FilePath: {"3": 3, "empty": "", "NUL": "a\0b", "long": "x" * 5000, "a list": ["a"], "nan": NAN},
    boundary.Times: TENSORS
    | {"empty": [], "NaN": [0.0, NAN], "falling": [1.0, 0.0], "equal": [0.0, 0.0], "2-D": [[0.0, 1.0]], "1": 1.0},
    boundary.Numbers: TENSORS | {"NaN": torch.full((5, 4), NAN)},
    boundary.Mask: {k: v for k, v in TENSORS.items() if k != "booleans"} | {"numbers": torch.ones(3)},
}
NEVER[boundary.Order] = NEVER[boundary.Count] | {"3": 3}
NEVER[boundary.Codes] = TENSORS | {"reals": torch.ones(3)}
NEVER[boundary.Time] = TENSORS | {"a list": [1.0, 2.0]}
ODD: dict[object, dict[str, object]] = {
    Tensor: UNUSUAL,
    np.ndarray: UNUSUAL,
    float: {"inf": INF, "tiny": 1e-300, "huge": 1e300},
    int: {"0": 0, "-1": -1, "7": 7},
    boundary.Positive: {"tiny": 1e-300, "huge": 1e300, "NumPy": np.float32(0.5)},
    boundary.Count: {"7": 7, "NumPy": np.int64(3)},
    str: TEXT | {"long": "x" * 300, "control": "\x1b[31m"},
    boundary.Sizes: {"falling": (9, 2), "one entry": (4,)},
    boundary.FilePath: {"a folder": FOLDER, "nowhere": FOLDER / "no" / "where", "of a process": "/proc/self/mem/a"},
    boundary.Seed: {"2^62": 2**62},
}
SIZES = (
    "dt", "step", "duration", "horizon", "transient", "iterations", "tolerance", "steps", "length", "every", "batch", "epochs",
    "weight", "learning_rate", "patience", "seed", "window", "degree", "rank", "threshold", "level",
)  # fmt: skip
"""Arguments that are no negative number, whatever their annotation says."""
ARGUMENTS: dict[str, dict[str, object]] = {
    "initial_state": TENSORS | {"NaN": [NAN] * 4, "infinite": [INF] * 4, "three": [1.0] * 3},
    "context": {"complex": 3j, "nan": NAN, "text": "3", "a list of text": ["a"]},
    "**": {"nan": NAN, "inf": INF, "complex": 3j, "text": "three", "True": True, "empty": [], "None": None, **JUNK},
}
"""For arguments that are annotated by object, by name; `**` for a context parameter by name."""


def values(name: str, annotation: object, example: object) -> Iterator[Bad]:
    """What an argument is tried with."""
    optional = type(None) in get_args(annotation) or example is None
    if annotation is object or annotation is None:
        yield from (Bad(label, value, False) for label, value in ({"None": None} | UNUSUAL).items())
        yield from (Bad(label, value) for label, value in JUNK.items())
        yield from (Bad(label, value) for label, value in ARGUMENTS.get(name, {}).items())
        return
    kinds = _kinds(annotation)
    for each in kinds:
        yield from (Bad(label, value, False) for label, value in ODD.get(each, {}).items())
    yield from (Bad(label, value) for label, value in _never(kinds).items())
    if name in SIZES and not isinstance(example, dict):
        yield from (Bad(label, value) for label, value in {"-1": -1, "-inf": -INF, "nan": NAN}.items())
    if not optional:
        yield Bad("None", None)


def _never(kinds: Sequence[object]) -> dict[str, object]:
    """What none of the kinds takes."""
    sets = [NEVER.get(each) or _of_class(each) for each in kinds]
    first, *others = sets
    shared = {label: value for label, value in first.items() if all(label in other for other in others)}
    callables = any(get_origin(each) is collections.abc.Callable or each is type for each in kinds)
    junk = {label: value for label, value in JUNK.items() if not (callables and label == "a class")}
    return shared | (junk if object not in kinds else {})


def _kinds(annotation: object) -> list[object]:
    """The members of a union, one for anything else."""
    if any(annotation is known for known in NEVER):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for part in get_args(annotation) if part is not type(None) for kind in _kinds(part)]
    if get_origin(annotation) is Annotated and annotation not in NEVER:
        return _kinds(annotation.__origin__)
    return [annotation]


def _of_class(kind: object) -> dict[str, object]:
    """For instances of a class, and for lists, dicts and functions."""
    origin = get_origin(kind)
    common = {**TEXT, "3": 3, "nan": NAN, "True": True}
    if kind is xr.Dataset:
        return common | {label: value for label, value in datasets().items() if label == "a DataArray"}
    if isinstance(kind, type) and origin is None:
        return common | {"the class": kind, "a list": [1.0], "a dict": {}, "a tensor": torch.ones(2, 4)}
    if origin is collections.abc.Callable:
        return common | {"a tensor": torch.ones(2)}
    if origin in (collections.abc.Mapping, dict):
        return common | {"a list": [1], "keys that are numbers": {1: 2}}
    return common


def datasets() -> dict[str, object]:
    """Datasets that are damaged, or are none."""
    data = world()["data"]
    state = data["state"]
    return {
        "a DataArray": state,
        "empty": xr.Dataset(),
        "other dimensions": xr.Dataset({"a": (("u", "v"), np.ones((2, 3)))}),
        "no state": data.drop_vars("state"),
        "no velocity": data.drop_vars("velocity"),
        "no time": data.drop_vars("time"),
        "no trajectories": data.isel(trajectory=slice(0)),
        "no times": data.isel(time=slice(0)),
        "no components": data.isel(component=slice(0)),
        "one time": data.isel(time=[0]),
        "complex": data.assign(state=state * 1j),
        "text": data.assign(state=state.astype(str)),
        "objects": data.assign(state=state.astype(object)),
        "dates": data.assign(state=state.astype("datetime64[s]")),
        "NaN": data.assign(state=state * NAN),
        "infinite": data.assign(velocity=data["velocity"] * INF),
        "huge": data.assign(state=state * 1e300),
        "NaN context": data.assign_coords(F=data["F"] * NAN),
        "falling times": data.isel(time=slice(None, None, -1)),
        "text for times": data.assign_coords(time=data["time"].values.astype(str)),
        "a context called state_std": data.rename(F="state_std"),
        "bad range": data.assign_coords(F=data["F"].assign_attrs(training_range="a")),
        "parameters that are no JSON": data.assign_attrs(parameters="{"),
        "parameters of another": data.assign_attrs(parameters='{"m": 3}'),
        "a system that is a list": data.assign_attrs(system=["a"]),
        "a seed that is none": data.assign_attrs(seed=Thing()),
    }
