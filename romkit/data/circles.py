"""Quantities that go round a circle: angles that wrap in runs, and parameters of a full turn."""

import numpy as np
import xarray as xr

from romkit.core.errors import DataWarning, warn
from romkit.core.types import Array
from romkit.data.context import context_names, contexts_of
from romkit.data.schema import DIMS

TURNS = {2 * np.pi: "2π", 360.0: "360"}
"""A turn in radians and in degrees, in words."""

ROUNDING = 1e-4
"""Share of a turn by which values may exceed it, or a step differ from the others."""

FEWEST = 4
"""Values of a parameter, at least, that can go round a circle."""


def warn_of_circles(data: xr.Dataset) -> None:
    """Warn of components of runs in romkit's schema that jump by a turn, and of parameters whose even
    values close a circle.

    Laws are smooth functions of states, and of parameters on a line.
    """
    for name, turn, run, time in _wrapped(data):
        warn(
            f"{name} jumps by {turn}, at time {time:.4g} of run {run} first: an angle that wraps, of "
            f"which a law sees the jump. Give its cosine and sine as two components, or, where turns "
            f"count, numpy.unwrap(..., period={_in_code(turn)}) along time",
            DataWarning,
        )
    for name, turn in _closed(data):
        angle = name if turn == "2π" else f"numpy.deg2rad({name})"
        warn(
            f"{name} goes round a circle of {turn}, whose ends are neighbours, and is taken for a "
            f"number on a line; give its cosine and sine as parameters in its place, "
            f"numpy.cos({angle}) and numpy.sin({angle})",
            DataWarning,
        )


def _in_code(turn: str) -> str:
    return "2 * numpy.pi" if turn == "2π" else turn


def _wrapped(data: xr.Dataset, *, full: float = 0.9) -> list[tuple[str, str, int, float]]:
    """List components that wrap: name, turn, run and time of the first jump.

    `full`: share of a turn that values of an angle that wraps cover, at least.
    """
    state = data["state"].transpose(*DIMS)
    if state.chunks or state.sizes["time"] < FEWEST:
        return []
    low, high = _ends(state.values)
    found = []
    for turn, words in TURNS.items():
        covered = (high - low) / turn  # (n,)
        for k in np.flatnonzero((covered > full) & (covered < 1 + ROUNDING)):
            jump = _first_jump(state.values[..., k].astype(float), turn)
            if jump is not None:
                run, time = jump
                name = str(data["component"].values[k])
                found.append((name, words, run, float(data["time"].values[time])))
    return found


def _ends(states: Array) -> tuple[Array, Array]:
    """Return least and largest value (n,) of the components of states (C, T, n)."""
    return np.fmin.reduce(states, (0, 1)), np.fmax.reduce(states, (0, 1))


def _first_jump(courses: Array, turn: float) -> tuple[int, int] | None:
    """Return run and sample behind the first jump by a turn of courses (C, T); None where there is
    none, or a course jumps by less, too, and is no angle of a smooth motion.
    """
    step = np.diff(courses)  # (C, T - 1)
    jumps = np.abs(step) > turn / 2
    if not jumps.any():
        return None
    unwrapped = np.where(jumps, step - turn * np.sign(step), step)
    # a smooth motion moves by much less than half a turn between samples, and is everywhere
    values = np.sort(courses[np.isfinite(courses)])
    longest = max(np.fmax.reduce(np.abs(unwrapped), (0, 1)), np.diff(values).max())
    if longest > turn / 4:
        return None
    run, sample = np.argwhere(jumps)[0]
    return int(run), int(sample) + 1


def _closed(data: xr.Dataset) -> list[tuple[str, str]]:
    """List parameters whose values are even and close a turn with one step more."""
    if any("time" in data[name].dims for name in context_names(data)):
        return []
    found = []
    for name, column in zip(context_names(data), contexts_of(data).T, strict=True):
        values = np.unique(column)
        if len(values) < FEWEST:
            continue
        steps = np.diff(values)
        for turn, words in TURNS.items():
            around = [*steps, values[0] + turn - values[-1]]
            if np.ptp(around) < ROUNDING * turn:
                found.append((name, words))
    return found
