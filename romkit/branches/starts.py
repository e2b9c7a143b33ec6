"""First points of branches: from a state, or from a special point of another branch."""

import numpy as np
import torch
import xarray as xr

from romkit.branches.arclength import Branch, Point
from romkit.branches.equations import Equations, Orbits
from romkit.branches.line import Line
from romkit.branches.switching import crossing, doubled, hopf, leaving, start_orbits
from romkit.core.errors import InputError
from romkit.core.types import Array

LEAVING = ("branch point", "Hopf", "period doubling")
"""Special points that another branch leaves."""


def state_start(
    start: torch.Tensor, kind: str, period: float | None, line: Line
) -> tuple[Branch, Point]:
    """Return the branch near a state at the start of the range, and its first point."""
    context = line.contexts(np.zeros(1))
    state = line.model.start(context, start)
    if period is not None:
        line.period = period
    typical = line.model.typical(context)
    is_orbit = kind == "orbits"
    line.measure(np.stack([state, typical]), line.period if is_orbit else 0.0)
    if is_orbit:
        _take_period(line, state, period)
    else:
        _refuse_force(line)
    branch = line.branch(kind)
    unknowns = state / line.size
    if branch.equations.tail == 2:
        # the period, in its own unit
        unknowns = np.append(unknowns, 1.0)
    guess = np.append(unknowns, 0.0)
    first = branch.at(guess)
    if first is None:
        _refuse_family(branch.equations, guess)
        raise InputError(
            "start",
            expected="a state near an equilibrium or an orbit",
            got="another",
            fix="give a state nearer to it, or let the system settle",
        )
    if isinstance(branch.equations, Orbits):
        _check_least_period(branch.equations, first.u)
    return branch, first


def _refuse_family(
    equations: Equations, u: Array, *, returns: int = 6, closed: float = 1e-6
) -> None:
    """Raise where the state of a guess u comes back to itself, although Newton's method finds no
    orbit: orbits through other states are as good.

    `returns`, `closed`: newton steps to the time after which a state comes back, and its
    distance, relative to its size, from where it began.
    """
    if not isinstance(equations, Orbits):
        return
    w, parameter = u[:-2], u[-1:]
    time = equations.unit * u[-2]
    for _ in range(returns):
        end = equations.after(parameter, w, time)
        rate = equations.rate(end[None], parameter)[0]
        square = float(rate @ rate)
        # a state of rest comes back to itself after any time, and is no orbit
        if square == 0:
            return
        late = float(rate @ (end - w)) / square
        if not abs(late) < time / 2:
            return
        time -= late
    size = 1 + np.abs(w).max()
    if np.abs(end - w).max() > closed * size:
        return
    raise InputError(
        "start",
        expected="a state near an orbit that others approach or leave",
        got=f"one of a family of orbits, of period {time:.6g}, as conservative systems have",
        fix="follow single ones by romkit.simulate, or add the damping and the drive that choose one",
    )


def _check_least_period(
    equations: Orbits, u: Array, *, twelfths: int = 12, same_place: float = 1e-5
) -> None:
    """Raise where an orbit goes round several times in its period: its multipliers would be powers
    of those of the orbit.

    Args:
        equations: of the orbit.
        u: state, period and parameter.
        twelfths: parts of a period in which an orbit is looked at, so that two, three and four
            rounds are seen.
        same_place: distance of states, in deviations of their orbit, below which they are one.
    """
    period = equations.unit * u[-2]
    states = [u[:-2]]
    for _ in range(twelfths - 1):
        states.append(equations.after(u[-1:], states[-1], period / twelfths))
    course = np.stack(states)  # (12, d)
    size = course.std(axis=0).max()
    for rounds in (4, 3, 2):
        later = np.roll(course, -twelfths // rounds, axis=0)
        if np.abs(later - course).max() < same_place * size:
            raise InputError(
                "period",
                expected=f"the time of one round, {period / rounds:.6g}",
                got=f"that of {rounds}, {period:.6g}",
                fix=f"give period={period / rounds:.6g}",
            )


def _take_period(line: Line, state: Array, period: float) -> None:
    """Set the period of orbits; raise where it is none of the force."""
    if line.take_period(state, period):
        return
    raise InputError(
        "period",
        expected=f"a period of the force, or a multiple, at every {line.name} in the range",
        got=f"{period:g}",
        fix="give it exactly; a force whose period varies needs a time in units of its period",
    )


def branch_start(
    start: xr.Dataset, at: int | None, line: Line, amplitude: float
) -> tuple[str, Branch, Point]:
    """Kind and branch of what leaves another branch at a special point, and its first point."""
    special = _checked_special(start, at, line)
    kind = start.attrs["kind"]
    special_state = start["special_state"].values[at]
    largest = np.abs(start["state"].values).max(0)
    typical = line.model.typical(line.contexts(np.zeros(1)))
    size = np.asarray(start.attrs["size"])
    line.resume(np.stack([special_state, largest, typical]), size)
    if kind == "orbits":
        line.period = float(start["special_period"][at])
    else:
        _refuse_force(line)
    u = line.unknowns(start, "special_state")[at]
    branch = line.branch(kind)
    if special == "Hopf":
        frequency = float(start["frequency"][at])
        direction, bend = hopf(branch.equations, u, frequency)
        kind = "orbits"
        line.period = 2 * np.pi / frequency
        branch = line.branch(kind)
        with_period = np.insert(u, -1, 1.0)
        begin = start_orbits(with_period, direction, bend)
    elif special == "branch point":
        coincident, number = _coincident(start, at, line)
        begin = crossing(branch, u, _chord(start, at, line), coincident, number, amplitude)
    else:
        begin = doubled(branch, u, _chord(start, at, line))
        line.double()
        branch = line.branch(kind)
    first = None if begin is None else leaving(branch, begin, amplitude)
    if first is None:
        raise InputError(
            "at", expected="a point that a branch leaves", got="another", fix="change amplitude"
        )
    return kind, branch, first


def _chord(branch: xr.Dataset, at: int, line: Line) -> Array:
    """Step (k,) of a branch over its special point of this number."""
    points = line.unknowns(branch, "state")
    after = int(branch["special_after"][at])
    return points[after + 1] - points[after]


def _coincident(
    branch: xr.Dataset, at: int, line: Line, *, together: float = 1e-5
) -> tuple[int, int]:
    """Return number of branch points at the place of this one, one for each eigenvalue that crosses
    there, and which of them it is.

    `together`: distance of branch points, relative to range and states, below which they are
    one: beyond the accuracy with which a double one is located, the root of that of Newton's
    method.
    """
    points = line.unknowns(branch, "special_state")
    apart = np.abs(points - points[at]).max(1)
    is_same = (apart < together) & (branch["special_kind"].values == "branch point")
    return int(is_same.sum()), int(is_same[:at].sum())


def _checked_special(start: xr.Dataset, at: int | None, line: Line) -> str:
    """Kind of the special point of a branch that another one leaves."""
    is_branch = start.attrs.get("parameter") == line.name and "special_after" in start
    if not is_branch or start["component"].values.tolist() != line.model.names:
        raise InputError(
            "start",
            expected=f"a branch of the same model along {line.name}",
            got="another dataset",
            fix="give a result of romkit.continuation",
        )
    kinds = start["special_kind"].values.tolist()
    if at is None:
        got = "none"
    elif at < len(kinds):
        got = kinds[at]
    else:
        got = f"{at} of {len(kinds)}"
    if got not in LEAVING:
        raise InputError(
            "at",
            expected=f"the index of a {', '.join(LEAVING)}",
            got=got,
            fix="see special_kind of the branch",
        )
    return got


def _refuse_force(line: Line) -> None:
    """Raise where the field depends on the time, so that it has no equilibria."""
    if not line.forced:
        return
    raise InputError(
        "source",
        expected="a field that does not depend on the time",
        got="a forced one",
        fix="continue its orbits, kind='orbits' with the period of the force, or take a mean force",
    )
