"""Continuation of equilibria and periodic orbits along a context parameter."""

from typing import Annotated, NamedTuple

import numpy as np
import torch
import xarray as xr

from romkit.branches.arclength import Point
from romkit.branches.equations import NEUTRAL
from romkit.branches.line import Line
from romkit.branches.starts import branch_start, state_start
from romkit.core import checks, runtime
from romkit.core.boundary import Count, Finite, Natural, Numbers, Positive, validated
from romkit.core.errors import ExtrapolationWarning, InputError, warn
from romkit.core.types import Array, Entries, Variables
from romkit.data.spelling import complete_keys
from romkit.models import Dynamics
from romkit.models.fields import find_model
from romkit.projections import Projection
from romkit.systems import System

KINDS = ("equilibria", "orbits")

POINTS = 200
"""Points on a branch where none are asked for."""


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
    context: Entries | None = None,
    **named: object,
) -> xr.Dataset:
    """Follow an equilibrium or a periodic orbit of a full or reduced model along one parameter of
    its context.

    The branch is followed by pseudo-arclength, so it turns round folds. Eigenvalues are those of
    the linearised field, multipliers those of the flow over one period (single shooting), so that
    orbits that are very unstable are out of reach. Derivatives are central differences; a
    multiplier that is smaller than their errors follows from Liouville's identity, and several such
    ones are NaN. Steps are relative to the range of the parameter and to the size of the states.

    A field that depends on the time has no equilibria, and orbits of the period of its force alone:
    `kind="orbits"` with this period, or a multiple, which stays, follows the fixed points of the
    flow over it. The period has to be the same at all values of the parameter.

    A branch is also a start: `start=branch, at=k` follows the one that leaves it at its special
    point k, which is another equilibrium at a branch point, periodic orbits at a Hopf point, and
    the doubled orbit at a period doubling. Where several eigenvalues cross zero at once, as a
    symmetry makes them, each is a special point, and they lead to branches of different kinds.

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
        context: parameters by name where one is called like an argument,
            `context={"period": (1.0, 2.0)}`.
        **named: the other parameters: the one that varies as (start, end), the others as numbers.

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
        which none was short enough. `size` holds those of the components, (d,), which a branch that
        leaves this one takes over.

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
    model = find_model(source, dynamics, system)
    name, ends, fixed = _range(complete_keys(named | (context or {}), model.context_names))
    line = Line(model, name, ends, fixed, steps)
    if isinstance(start, xr.Dataset):
        kind, branch, first = branch_start(start, at, line, amplitude)
    else:
        checks.absent("beside a state", "give a branch as start, or drop it", at=at)
        if kind == "orbits" and period is None:
            raise InputError(
                "period", expected="a number", got="none", fix="take it from a simulation"
            )
        branch, first = state_start(start, kind, period, line)
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
    _warn_end(branch.end, points, line, walked[-1])
    _warn_extrapolation(line, walked)
    _warn_neutral(kind, walked)
    return branch_dataset(kind, walked, special, line).assign_attrs(end=branch.end)


def _range(context: Entries) -> tuple[str, tuple[float, float], Entries]:
    """Return the parameter that varies, its ends, and the other parameters."""
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
    low, high = np.asarray(fixed.pop(name), dtype=np.float64).tolist()
    if not np.isfinite([low, high]).all() or low == high:
        raise InputError(
            name, expected="two different ends", got=f"{low:g}, {high:g}", fix="give (start, end)"
        )
    return name, (low, high), fixed


def _is_pair(value: object) -> bool:
    """Tell whether a value is two numbers."""
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError):
        return False
    return numbers.shape == (2,) and numbers.dtype.kind in "iuf"


def _warn_end(end: str, points: int | None, line: Line, final: Point) -> None:
    """Warn where a branch ends inside its range for a reason that the user does not see."""
    if end == "step":
        reason = (
            "Newton's method fails at the shortest step, as where an orbit is too unstable for "
            "single shooting, a canard say; try other steps or another period"
        )
    elif end == "points" and points is None:
        reason = f"its {POINTS} points are used up; give points=..."
    else:
        return
    parameter = line.physical(final.u[-1])
    place = f"{line.name} = {parameter:g}"
    text = f"points: expected the end of the range, got a branch that ends at {place}: {reason}"
    warn(text, RuntimeWarning)


def _warn_neutral(kind: str, walked: list[Point]) -> None:
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


def _warn_extrapolation(line: Line, walked: list[Point]) -> None:
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


def branch_dataset(
    kind: str, walked: list[Point], special: list[Special], line: Line
) -> xr.Dataset:
    u = np.array([point.u for point in walked])  # (K, k)
    at_special = np.array([event.point.u for event in special])
    at_special = at_special.reshape(len(special), u.shape[1])
    variables = line.variables(u, "point", kind)
    variables |= line.variables(at_special, "special", kind, "special_")
    variables |= _decoded(line, u, "point", "decoded")
    variables |= _decoded(line, at_special, "special", "special_decoded")
    spectra = np.array([point.values for point in walked])  # (K, d)
    pairs = np.stack([spectra.real, spectra.imag], -1)
    spectrum = "multiplier" if kind == "orbits" else "eigenvalue"
    variables[spectrum] = (("point", "mode", "part"), pairs)
    variables["stable"] = ("point", [point.unstable == 0 for point in walked])
    kinds = np.array([event.kind for event in special], dtype=str)
    after = np.array([event.after for event in special], dtype=int)
    variables |= {"special_kind": ("special", kinds), "special_after": ("special", after)}
    if kind == "equilibria":
        frequencies = np.array([_frequency(event) for event in special], dtype=float)
        variables["frequency"] = ("special", frequencies)
    coords = {"component": line.model.names, "part": ["real", "imaginary"]}
    return line.named(xr.Dataset(variables, coords, {"kind": kind}))


def _decoded(line: Line, u: Array, dim: str, name: str) -> Variables:
    """Return states of the full model behind unknowns (K, k), where there is another one."""
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
    is_upper = event.point.values.imag > 0
    nearest = np.argmin(abs(event.point.growth[is_upper]))
    return float(event.point.values.imag[is_upper][nearest])
