"""States of the full model on a branch of its reduced model."""

import functools

import numpy as np
import torch
import xarray as xr
from scipy.optimize import NoConvergence, newton_krylov

from romkit.branches.arclength import ACCURACY, Branch
from romkit.branches.equations import Equilibria
from romkit.branches.line import Line
from romkit.core import runtime
from romkit.core.boundary import Count, Positive, validated
from romkit.core.errors import InputError
from romkit.core.types import Array, Variables
from romkit.engine.threads import one_thread
from romkit.models.fields import FullModel
from romkit.systems import System

DENSE = 600
"""Components up to which Jacobians of the full model are computed, and its bifurcations located."""


@validated
def verify(
    branch: xr.Dataset, system: System, *, every: Count = 10, time: Positive = 1.0
) -> xr.Dataset:
    """Solve the full model from the decoded points of a branch of its reduced model, by Newton's
    method.

    Up to 600 components, Jacobians are central differences, and bifurcations are those of the full
    model's own branch, which is followed from a few points before each special point of the reduced
    one. Beyond that, a Newton-Krylov method finds fixed points of the flow over `time`, or over a
    period.

    Args:
        branch: result of `romkit.continuation` of a projection, or of a system through a basis.
        system: the full model.
        every: distance of the points of the branch that are verified.
        time: over which the flow of a large system is computed, several times that in which its
            fast parts decay.

    Returns:
        Dataset with the index `point` of each in the branch: `state` (point, component) of the full
        model, `distance` from the decoded one, the root of the mean square over components,
        `period` of orbits, and `stable`, up to 600 components. Of the special points: the parameter
        as `special_parameter`, `special_state`, `special_period` and `special_distance`. NaN where
        nothing was found.

    Raises:
        InputError: no branch of such a model, or of another system.

    Source: Sánchez, Net, García-Archilla, Simó (2004), Newton-Krylov continuation of periodic
    orbits.

    Example:
        >>> import romkit
        >>> ring = romkit.systems.Lorenz96(n=4)
        >>> rest = romkit.continuation(ring, start=[0.5] * 4, F=(0.5, 2.0))
        >>> found = romkit.verify(rest, ring)
        >>> bool(found.distance.max() < 1e-9), [round(F, 6) for F in found.special_parameter.values.tolist()]
        (True, [1.0])
    """
    line = _verify_line(branch, system)
    kind = branch.attrs["kind"]
    state = "state"
    if "decoded" in branch:
        state = "decoded"
    guesses = line.unknowns(branch, state)
    turns = line.unknowns(branch, f"special_{state}")
    end = len(guesses) - 1
    rows = np.unique([*range(0, end, every), end])
    full = line.branch(kind)
    is_small = len(line.model.names) <= DENSE
    if is_small:
        solved = _solve_newton
    else:
        solved = functools.partial(_solve_flow, line=line, time=time)
    solutions, stable = [], []
    for k in runtime.track(rows, f"{kind} of the full model"):
        u, is_stable = solved(full, guesses[k])
        solutions.append(u)
        stable.append(is_stable)
    special = []
    for k in runtime.track(range(len(turns)), "special points of the full model"):
        if is_small:
            u = _full_special(line, branch, guesses, k)
        else:
            u, _ = solved(full, turns[k])
        special.append(u)
    special = np.array(special).reshape(turns.shape)
    variables = _compared(line, kind, np.array(solutions), guesses[rows], "point")
    variables |= _compared(line, kind, special, turns, "special")
    variables["stable"] = ("point", np.array(stable))
    coords = {
        "component": line.model.names,
        "point": rows,
        "special_kind": ("special", branch["special_kind"].values),
    }
    return line.named(xr.Dataset(variables, coords, {"kind": kind}))


def _verify_line(branch: xr.Dataset, system: System) -> Line:
    """Return the full model along the parameter of a branch."""
    model = FullModel(system)
    name = branch.attrs.get("parameter")
    state = branch.get("decoded", branch.get("state"))
    is_branch = "special_after" in branch and name in system.context_names
    if not is_branch or not _are_states(state, len(model.names)):
        raise InputError(
            "branch",
            expected=f"a branch of a reduced model of {system.name}",
            got="another dataset",
            fix="give a result of romkit.continuation",
        )
    fixed = {
        parameter: float(branch[parameter])
        for parameter in system.context_names
        if parameter != name
    }
    line = Line(model, name, branch.attrs["range"], fixed)
    if "period" in branch:
        line.period = float(branch["period"][0])
    start = state.values[0]
    largest = np.abs(state.values).max(0)
    line.measure(np.stack([start, largest]))
    return line


def _are_states(state: xr.DataArray, size: int) -> bool:
    """Tell whether a variable has states (K, size) in numbers that torch has, all finite."""
    if state is None or state.dtype not in (np.float32, np.float64) or state.shape[-1] != size:
        return False
    return state.size > 0 and bool(np.isfinite(state.values).all())


def _solve_newton(full: Branch, guess: Array) -> tuple[Array, float]:
    """Solution at the parameter of a guess, and whether it is stable; NaN without one."""
    point = full.at(guess)
    if point is None:
        return guess * np.nan, np.nan
    return point.u, point.unstable == 0


def _solve_flow(full: Branch, guess: Array, *, line: Line, time: float) -> tuple[Array, float]:
    """Return a fixed point of the flow over a time, or over its period, near a guess and at its
    parameter; NaN without one.
    """
    parameter = guess[-1:]
    equations = full.equations
    equations.anchor(guess)

    def moved(v: Array) -> Array:
        if isinstance(equations, Equilibria):
            start = torch.from_numpy(v[None])
            return line.flow(parameter, start, time).numpy()[0] - v
        u = np.append(v, parameter)
        return equations(u[None])[0]

    try:
        with torch.no_grad(), one_thread(), runtime.bars(False):
            v = newton_krylov(moved, guess[:-1], f_tol=ACCURACY, method="gmres", maxiter=20)
    except NoConvergence:
        return guess * np.nan, np.nan
    return np.append(v, parameter), np.nan


def _full_special(
    line: Line, branch: xr.Dataset, guesses: Array, k: int, *, before_special: int = 5
) -> Array:
    """Return special point of the full model, of the kind of special point k, by following it from
    a few points before.

    `before_special`: points before a special one of a reduced model, from where that of the full
    model is sought.
    """
    after = int(branch["special_after"][k])
    kind = str(branch["special_kind"].values[k])
    before = max(0, after - before_special)
    origin = guesses[before, -1]
    onward = np.sign(guesses[before + 1, -1] - origin)
    # a line of its own, on which a branch goes forwards from 0 at a place of another line
    low = line.physical(origin)
    high = low + onward * line.width
    ahead = Line(line.model, line.name, (low, high), line.others)
    ahead.size = line.size
    ahead.period = line.period
    ahead.forced = line.forced
    full = ahead.branch(branch.attrs["kind"])
    guess = np.append(guesses[before, :-1], 0.0)
    start = full.at(guess)
    if start is None:
        return guesses[0] * np.nan
    for _, events in full.points(start, 8 * before_special):
        for name, point in events:
            if name == kind:
                parameter = origin + onward * point.u[-1]
                return np.append(point.u[:-1], parameter)
    return guesses[0] * np.nan


def _compared(line: Line, kind: str, solutions: Array, decoded: Array, dim: str) -> Variables:
    """Return variables of solutions of the full model, and their distance from decoded points."""
    prefix = ""
    if dim == "special":
        prefix = "special_"
    variables = line.variables(solutions, dim, kind, prefix)
    squares = line.states(solutions - decoded) ** 2
    distance = np.sqrt(squares.mean(-1))
    variables[f"{prefix}distance"] = (dim, distance)
    return variables
