"""Continuation of equilibria and periodic orbits along a context parameter."""

from typing import Annotated, NamedTuple

import numpy as np
import torch
import xarray as xr

from romkit.core import checks, runtime
from romkit.core.boundary import Count, Finite, Natural, Numbers, Positive, validated
from romkit.core.errors import ExtrapolationWarning, InputError, warn
from romkit.core.types import Array
from romkit.data.spelling import by_full_names
from romkit.inference.arclength import Branch, Point
from romkit.inference.equations import NEUTRAL, Equations, Orbits
from romkit.inference.line import Line
from romkit.inference.models import model_of
from romkit.inference.switching import crossing, doubled, hopf, leaving, of_orbits
from romkit.models import Dynamics
from romkit.projections import Projection
from romkit.systems import System

KINDS = ("equilibria", "orbits")

RETURNS, CLOSED = 6, 1e-6
"""Newton steps to the time after which a state comes back, and its distance, relative to its size,
from where it began.
"""

TWELFTHS = 12
"""Parts of a period in which an orbit is looked at, so that two, three and four rounds are seen."""

SAME_PLACE = 1e-5
"""Distance of states, in deviations of their orbit, below which they are one."""

POINTS = 200
"""Points on a branch where none are asked for."""

LEAVING = ("branch point", "Hopf", "period doubling")
"""Special points that another branch leaves."""


class Special(NamedTuple):
    """Special point of a branch.

    Attributes:
        after: index of the point of the branch before it.
        kind: its name.
        point: where it is.
    """

    after: int
    kind: str
    point: Point


@validated
def continuation(
    source: System | Projection,
    *,
    start: Numbers | xr.Dataset,
    kind: Annotated[str, checks.choice(KINDS)] = "equilibria",
    period: Positive | None = None,
    at: Natural | None = None,
    amplitude: Finite = 0.01,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    points: Count | None = None,
    steps: Count | None = None,
    **context: object,
) -> xr.Dataset:
    """Follow an equilibrium or a periodic orbit of a full or reduced model along one parameter of
    its context.

    The branch is followed by pseudo-arclength, so it turns round folds. Eigenvalues are those of
    the linearised field, multipliers those of the flow over one period (single shooting), so that
    orbits that are very unstable are out of reach. Derivatives are central differences. Steps are
    relative to the range of the parameter and to the size of the states.

    A field that depends on the time has no equilibria, and orbits of the period of its force alone:
    `kind="orbits"` with this period, or a multiple, which stays, follows the fixed points of the
    flow over it. The period has to be the same at all values of the parameter.

    A branch is also a start: `start=branch, at=k` follows the one that leaves it at its special
    point k, which is another equilibrium at a branch point, periodic orbits at a Hopf point, and
    the doubled orbit at a period doubling.

    Args:
        source: a system, or a projection, whose latent field is followed.
        start: state near the equilibrium or the orbit at the start of the range: (n,) of a system,
            (n,) or latent (m,) of a projection; with the velocity behind it for mechanical
            problems. Or a branch of the same model.
        kind: "equilibria" or "orbits"; of a branch that leaves another one, the special point
            decides.
        period: of the orbit, roughly, or of the force.
        at: index of a special point of the branch `start`.
        amplitude: distance from that point to the first one of the new branch, relative to the size
            of the state, halved until a solution is found; negative for its other half.
        dynamics: of a projection, as in `romkit.follow`.
        system: the full model, for dynamics that look at it.
        points: on the branch, at most; 200 by default.
        steps: Runge-Kutta steps in a period; by default as many as keep the error of the flow below
            1e-9 of the size of the states. A system with a solver other than `RK4` keeps it.
        **context: the parameter that varies as (start, end), the others as numbers.

    Returns:
        Dataset of points: `state` (point, component), `parameter` by its own name, `period` of
        orbits, `stable`, `eigenvalue` (point, mode, part), real and imaginary, or `multiplier`; and
        of special points: `special_kind` ("fold", "branch point", "Hopf", "period doubling" or
        "torus"), `special_state`, the parameter as `special_parameter`, `special_period`,
        `special_after`, the index of the point before, and `frequency`, the angular one of the pair
        at a Hopf point. `decoded` and `special_decoded` are states of the full model (point,
        full_component), for a projection or a system through a basis. The attribute `end` says why
        the branch ended: "range", whose end is the last point; "points", all of which are used;
        "equilibrium", to which orbits shrank; "closed", back at the first point; or "step", of
        which none was short enough.

    Raises:
        InputError: no parameter with two ends, or more than one; no equilibrium or orbit near
            `start`; no period; equilibria of a forced field, or a period that is not one of its
            force; a special point that no branch leaves.

    Source: Keller (1977); Kuznetsov, Elements of Applied Bifurcation Theory, chapter 10.

    Example:
        >>> import romkit
        >>> ring = romkit.systems.Lorenz96(n=4)
        >>> rest = romkit.continuation(ring, start=[0.5] * 4, F=(0.5, 2.0))
        >>> rest.special_kind.values.tolist(), [round(F, 6) for F in rest.special_parameter.values.tolist()]
        (['Hopf'], [1.0])
        >>> waves = romkit.continuation(ring, start=rest, at=0, F=(0.5, 2.0), points=3)
        >>> waves.kind, round(float(waves.period[0]), 2)  # 2π over the frequency
        ('orbits', 6.28)
    """
    model = model_of(source, dynamics, system)
    name, ends, fixed = _range(by_full_names(context, model.context_names))
    line = Line(model, name, ends, fixed, steps)
    if isinstance(start, xr.Dataset):
        kind, branch, first = _first_of_branch(start, at, line, amplitude)
    else:
        _check_start(at, kind, period)
        branch, first = _first_of_state(start, kind, period, line)
    count = points
    if count is None:
        count = POINTS
    walked: list[Point] = []
    special: list[Special] = []
    walk = branch.points(first, count)
    for point, events in runtime.track(walk, f"{kind} along {name}"):
        for event, at_event in events:
            after = len(walked) - 1
            special.append(Special(after, event, at_event))
        walked.append(point)
    _warn_of_end(branch.end, points, line, walked[-1])
    _warn_of_extrapolation(line, walked)
    _warn_of_neutral(kind, walked)
    return _dataset(kind, walked, special, line).assign_attrs(end=branch.end)


def _range(context: dict[str, object]) -> tuple[str, tuple[float, float], dict[str, object]]:
    """The parameter that varies, its ends, and the other parameters."""
    fixed = dict(context)
    varying = [name for name, value in context.items() if _is_pair(value)]
    if len(varying) != 1:
        raise InputError(
            "context",
            expected="one parameter with two ends",
            got=", ".join(varying) or "none",
            fix="give one parameter as (start, end) and the others as numbers",
        )
    name = varying[0]
    low, high = map(float, fixed.pop(name))
    if not np.isfinite([low, high]).all() or low == high:
        raise InputError(
            name, expected="two different ends", got=f"{low:g}, {high:g}", fix="give (start, end)"
        )
    return name, (low, high), fixed


def _is_pair(value: object) -> bool:
    """Whether a value is two numbers."""
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError):
        return False
    return numbers.shape == (2,) and numbers.dtype.kind in "iuf"


def _check_start(at: int | None, kind: str, period: float | None) -> None:
    """Raise where a state is given with the index of a special point, or an orbit without period."""
    if at is not None:
        raise InputError(
            "at", expected="none for a state", got=f"{at}", fix="give a branch as start, or drop it"
        )
    if kind == "orbits" and period is None:
        raise InputError("period", expected="a number", got="none", fix="take it from a simulation")


def _first_of_state(
    start: torch.Tensor, kind: str, period: float | None, line: Line
) -> tuple[Branch, Point]:
    """The branch near a state at the start of the range, and its first point."""
    context = line.contexts(np.zeros(1))
    state = line.model.start(context, start)
    if period is not None:
        line.period = period
    typical = line.model.typical(context)
    line.measure(np.stack([state, typical]))
    if kind == "orbits":
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


def _refuse_family(equations: Equations, u: Array) -> None:
    """Raise where the state of a guess u comes back to itself, although Newton's method finds no
    orbit: orbits through other states are as good.
    """
    if not isinstance(equations, Orbits):
        return
    w, parameter = u[:-2], u[-1:]
    time = equations.unit * u[-2]
    for _ in range(RETURNS):
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
    if np.abs(end - w).max() > CLOSED * size:
        return
    raise InputError(
        "start",
        expected="a state near an orbit that others approach or leave",
        got=f"one of a family of orbits, of period {time:.6g}, as conservative systems have",
        fix="follow single ones by romkit.simulate, or add the damping and the drive that choose one",
    )


def _check_least_period(equations: Orbits, u: Array) -> None:
    """Raise where an orbit goes round several times in its period: its multipliers would be powers
    of those of the orbit.

    Args:
        equations: of the orbit.
        u: state, period and parameter.
    """
    period = equations.unit * u[-2]
    states = [u[:-2]]
    for _ in range(TWELFTHS - 1):
        states.append(equations.after(u[-1:], states[-1], period / TWELFTHS))
    course = np.stack(states)  # (12, d)
    size = course.std(axis=0).max()
    for rounds in (4, 3, 2):
        later = np.roll(course, -TWELFTHS // rounds, axis=0)
        if np.abs(later - course).max() < SAME_PLACE * size:
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


def _first_of_branch(
    start: xr.Dataset, at: int | None, line: Line, amplitude: float
) -> tuple[str, Branch, Point]:
    """Kind and branch of what leaves another branch at a special point, and its first point."""
    special = _checked_special(start, at, line)
    kind = start.attrs["kind"]
    special_state = start["special_state"].values[at]
    c = line.contexts(np.zeros(1))
    typical = line.model.typical(c)
    largest = np.abs(start["state"].values).max(0)
    line.measure(np.stack([special_state, largest, typical]))
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
        begin = of_orbits(with_period, direction, bend)
    elif special == "branch point":
        begin = crossing(branch, u, _chord(start, at, line))
    else:
        begin = doubled(branch, u, _chord(start, at, line))
        line.double()
        branch = line.branch(kind)
    first = leaving(branch, begin, amplitude)
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


def _warn_of_end(end: str, points: int | None, line: Line, final: Point) -> None:
    """Warn where a branch ends inside its range for a reason that the user does not see."""
    if end == "step":
        reason = "Newton's method fails at the shortest step; try other steps or another period"
    elif end == "points" and points is None:
        reason = f"its {POINTS} points are used up; give points=..."
    else:
        return
    parameter = line.physical(final.u[-1])
    place = f"{line.name} = {parameter:g}"
    text = f"points: expected the end of the range, got a branch that ends at {place}: {reason}"
    warn(text, RuntimeWarning)


def _warn_of_neutral(kind: str, walked: list[Point]) -> None:
    """Warn of orbits whose stability is within the errors of their multipliers."""
    if kind != "orbits":
        return
    growth = np.array([point.growth.max(initial=-np.inf) for point in walked])
    neutral = int((np.abs(growth + NEUTRAL) <= NEUTRAL).sum())
    if neutral:
        warn(
            f"stable: {neutral} of {len(walked)} orbits neither grow nor decay by more than {NEUTRAL:g} "
            "in a period, which multipliers by differences do not see; they count as stable",
            RuntimeWarning,
        )


def _warn_of_extrapolation(line: Line, walked: list[Point]) -> None:
    """Warn where a law is asked for states that its samples do not come near."""
    domain = line.model.domain
    if domain is None:
        return
    u = np.array([point.u for point in walked])  # (K, k)
    states = torch.from_numpy(line.states(u))
    size = domain.scale.shape[-1]
    latents = states[:, :size]  # a velocity stands behind them
    distance = domain.distance(latents).numpy()
    farthest = int(distance.argmax())
    if distance[farthest] <= 1:
        return
    outside = int((distance > 1).sum())
    parameter = line.physical(u[farthest, -1])
    place = f"{line.name} = {parameter:g}"
    text = (
        f"start: {outside} of {len(walked)} points are beyond the samples of the "
        f"law, up to a distance of {distance[farthest]:.2g} at {place}"
    )
    fix = "stability is extrapolated there: fit the law to runs that start near these states"
    warn(f"{text}; {fix}", ExtrapolationWarning)


def _dataset(kind: str, walked: list[Point], special: list[Special], line: Line) -> xr.Dataset:
    u = np.array([point.u for point in walked])  # (K, k)
    at_special = np.array([event.point.u for event in special])
    at_special = at_special.reshape(len(special), u.shape[1])
    variables = line.variables(u, "point", kind)
    variables |= line.variables(at_special, "special", kind, "special_")
    variables |= _decoded(line, u, "point", "decoded")
    variables |= _decoded(line, at_special, "special", "special_decoded")
    variables |= _stability(kind, walked)
    variables |= _events(kind, special)
    coords = {"component": line.model.names, "part": ["real", "imaginary"]}
    return line.named(xr.Dataset(variables, coords, {"kind": kind}))


def _stability(kind: str, walked: list[Point]) -> dict[str, tuple]:
    """Variables of the spectra of the points of a branch."""
    spectrum = "eigenvalue"
    if kind == "orbits":
        spectrum = "multiplier"
    values = np.array([point.values for point in walked])  # (K, d)
    parts = np.stack([values.real, values.imag], -1)
    stable = [point.unstable == 0 for point in walked]
    return {"stable": ("point", stable), spectrum: (("point", "mode", "part"), parts)}


def _events(kind: str, special: list[Special]) -> dict[str, tuple]:
    """Variables of the special points of a branch."""
    kinds = np.array([event.kind for event in special], dtype=str)
    after = np.array([event.after for event in special], dtype=int)
    variables = {"special_kind": ("special", kinds), "special_after": ("special", after)}
    if kind == "equilibria":
        frequencies = np.array([_frequency(event) for event in special], dtype=float)
        variables["frequency"] = ("special", frequencies)
    return variables


def _decoded(line: Line, u: Array, dim: str, name: str) -> dict[str, tuple]:
    """States of the full model behind unknowns (K, k), where there is another one."""
    w = torch.from_numpy(line.states(u))
    context = line.contexts(u[:, -1])
    with torch.no_grad():
        states = line.model.decode(context, w)
    if states is None:
        return {}
    return {name: ((dim, "full_component"), states.numpy())}


def _frequency(event: Special) -> float:
    """Angular frequency of the pair of eigenvalues that is nearest to the boundary of stability."""
    if event.kind != "Hopf":
        return np.nan
    values = event.point.values
    is_upper = values.imag > 0
    growth = event.point.growth[is_upper]
    nearest = np.argmin(abs(growth))
    return float(values.imag[is_upper][nearest])
