"""Continuation of equilibria and periodic orbits along a context parameter, and what the full model
has there.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
import torch
import xarray as xr
from scipy.optimize import NoConvergence, newton_krylov

from romkit.core import checks, runtime
from romkit.core.boundary import Count, Finite, Natural, Numbers, Positive, validated
from romkit.core.errors import InputError
from romkit.data import Contexts
from romkit.engine.threads import one_thread
from romkit.inference.arclength import ACCURACY, Branch, Equilibria, Orbits, Point
from romkit.models import Dynamics, ReducedModel, check_field
from romkit.projections import Projection
from romkit.solvers import RK4, Solver
from romkit.systems import System

KINDS = ("equilibria", "orbits")

STEPS = 400
"""Runge-Kutta steps in a period of a reduced model."""

DENSE = 600
"""Components up to which Jacobians of the full model are computed, and its bifurcations located."""

BEFORE = 5
"""Points before a special one of a reduced model, from where that of the full model is sought."""

LEAVING = ("branch point", "Hopf", "period doubling")
"""Special points that another branch leaves."""


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
    points: Count = 200,
    steps: Count | None = None,
    **context: object,
) -> xr.Dataset:
    """Follow an equilibrium or a periodic orbit of a full or reduced model along one parameter of
    its context.

    The branch is followed by pseudo-arclength, so it turns round folds. Eigenvalues are those of
    the linearised field, multipliers those of the flow over one period (single shooting), so that
    orbits that are very unstable are out of reach. Derivatives are central differences.

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
        period: of the orbit, roughly.
        at: index of a special point of the branch `start`.
        amplitude: distance from that point to the first one of the new branch, in units of the
            state; negative for its other half.
        dynamics: of a projection, as in `romkit.follow`.
        system: the full model, for dynamics that look at it.
        points: on the branch, at most.
        steps: Runge-Kutta steps in a period; by default 400 for a projection, and a system's own
            solver for a system.
        **context: the parameter that varies as (start, end), the others as numbers.

    Returns:
        Dataset of points: `state` (point, component), `parameter` by its own name, `period` of
        orbits, `stable`, `eigenvalue` (point, mode, part), real and imaginary, or `multiplier`; and
        of special points: `special_kind` ("fold", "branch point", "Hopf", "period doubling" or
        "torus"), `special_state`, the parameter as `special_parameter`, `special_period`,
        `special_after`, the index of the point before, and `frequency`, the angular one of the pair
        at a Hopf point. `decoded` and `special_decoded` are states of the full model (point,
        full_component), for a projection or a system through a basis.

    Raises:
        InputError: no parameter with two ends, or more than one; no equilibrium or orbit near
            `start`; no period; a special point that no branch leaves.

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
    name, ends, others = _range(context)
    model = _model(source, dynamics, system)
    line = _Line(model, name, ends, others, steps)
    if isinstance(start, xr.Dataset):
        kind, leaving = _leaving(start, at, line)
        branch = line.branch(kind)
        first, argument, fix = branch.leaving(*leaving, amplitude), "at", "change amplitude"
    else:
        if at is not None:
            raise InputError(
                "at",
                expected="none for a state",
                got=f"{at}",
                fix="give a branch as start, or drop it",
            )
        if kind == "orbits" and period is None:
            raise InputError(
                "period", expected="a number", got="none", fix="take it from a simulation"
            )
        u = [
            *model.start(line.contexts(np.zeros(1)), start),
            *([period] if kind == "orbits" else []),
            0.0,
        ]
        branch = line.branch(kind)
        first, argument, fix = (
            branch.at(np.array(u)),
            "start",
            "give a state nearer to it, or let the system settle",
        )
    if first is None:
        expected = (
            "a state near an equilibrium or an orbit"
            if argument == "start"
            else "a point that a branch leaves"
        )
        raise InputError(argument, expected=expected, got="another", fix=fix)
    found, special = [], []
    for point in runtime.track(branch.points(first, points), f"{kind} along {name}"):
        special += (
            [(len(found) - 1, *each) for each in branch.special(found[-1], point)] if found else []
        )
        found.append(point)
    return _dataset(kind, found, special, line)


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
    line = _line_of(branch, system)
    kind, state = branch.attrs["kind"], "decoded" if "decoded" in branch else "state"
    guesses, turns, full = (
        line.unknowns(branch, state),
        line.unknowns(branch, f"special_{state}"),
        line.branch(kind),
    )
    rows, small = (
        np.unique([*range(0, len(guesses), every), len(guesses) - 1]),
        len(line.model.names) <= DENSE,
    )

    def solved(guess: np.ndarray) -> tuple[np.ndarray, float]:
        if not small:
            return _by_flow(full, line, guess, time), np.nan
        point = full.at(guess)
        return (guess * np.nan, np.nan) if point is None else (point.u, point.unstable == 0)

    found = [solved(guesses[k]) for k in runtime.track(rows, f"{kind} of the full model")]
    special = [
        solved(turns[k])[0] if not small else _turned(line, branch, guesses, k)
        for k in runtime.track(range(len(turns)), "special points of the full model")
    ]
    solutions = line.variables(np.array([u for u, _ in found]), "point", kind)
    solutions |= line.variables(np.array(special).reshape(turns.shape), "special", kind, "special_")
    for prefix, dim, decoded in (("", "point", guesses[rows]), ("special_", "special", turns)):
        apart = solutions[f"{prefix}state"][1] - decoded[:, : len(line.model.names)]
        solutions[f"{prefix}distance"] = (dim, np.sqrt((apart**2).mean(-1)))
    solutions["stable"] = ("point", np.array([stable for _, stable in found]))
    coords = {
        "component": line.model.names,
        "point": rows,
        "special_kind": ("special", branch["special_kind"].values),
    }
    return line.named(xr.Dataset(solutions, coords, {"kind": kind}))


class _Full:
    """A full model as a first-order field."""

    def __init__(self, system: System):
        self.system, self.context_names, self.steps = system, system.context_names, None
        self.names, self.units = (
            system.phase_names,
            {each.name: each.units for each in system.context},
        )

    def field(self, c: torch.Tensor) -> Callable:
        return self.system.phase_field(c)

    def solver(self, c: torch.Tensor) -> Solver:
        return self.system.solver or self.system.make_solver(c)

    def decode(self, c: torch.Tensor, w: torch.Tensor) -> torch.Tensor | None:
        """States (B, n) of the full model behind this one; None if there is no other."""
        return None if self.system.basis is None else self.system.basis.decode(w)

    def start(self, c: torch.Tensor, start: torch.Tensor) -> list[float]:
        checks.last_axis("start", start.shape, len(self.names), "of the state")
        return start.double().tolist()


class _Reduced:
    """A latent field as a first-order field."""

    def __init__(self, projection: Projection, dynamics: Dynamics | None, system: System | None):
        self.model = ReducedModel.of(projection, dynamics, system)
        check_field(self.model.dynamics)
        frame, self.steps = projection.frame, STEPS
        self.context_names = frame.context_names
        self.units = dict(zip(frame.context_names, frame.context_units, strict=True))
        self.names = [f"z{k}" for k in range(self.model.latent_size)]

    def field(self, c: torch.Tensor) -> Callable:
        return self.model.dynamics.field(self.model.at_constant(c).problem)

    def decode(self, c: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cat(self.model.at_constant(c).decode(w), -1)

    def start(self, c: torch.Tensor, start: torch.Tensor) -> list[float]:
        if start.shape == (len(self.names),):
            return start.double().tolist()
        parts = start.double().unsqueeze(0).chunk(self.model.order, -1)
        return (
            self.model.at_constant(c).start(torch.zeros((), dtype=torch.float64), parts)[0].tolist()
        )


class _Line:
    """A model along one parameter of its context, which counts from 0 at `low` to 1 at `low +
    width`.

    Args:
        model: the model.
        name: of the parameter.
        ends: of its range.
        others: values of the other parameters.
        steps: Runge-Kutta steps in a period; None for the model's own solver.
    """

    def __init__(
        self,
        model: "_Full | _Reduced",
        name: str,
        ends: Sequence[float],
        others: dict,
        steps: int | None = None,
    ):
        self.model, self.name, self.others, self.steps = model, name, others, steps or model.steps
        self.low, self.width = ends[0], ends[1] - ends[0]
        self.fixed = Contexts.of(
            model.context_names, {name: self.low, **others}, torch.zeros(1)
        ).initial

    def contexts(self, parameter: np.ndarray) -> torch.Tensor:
        """(B, p)."""
        c = self.fixed.repeat(len(parameter), 1)
        c[:, self.model.context_names.index(self.name)] = torch.from_numpy(
            self.low + self.width * parameter
        )
        return c

    def branch(self, kind: str) -> Branch:
        """Branches of equilibria or orbits of the model."""
        field = lambda parameter: self.model.field(self.contexts(parameter))  # noqa: E731
        return Branch(Equilibria(field) if kind == "equilibria" else Orbits(field, self.flow))

    def flow(self, parameter: np.ndarray, w: torch.Tensor, time: float) -> torch.Tensor:
        """States (B, d) after a time."""
        c = self.contexts(parameter)
        solver = (
            RK4(time / self.steps, divergence_threshold=1e12)
            if self.steps
            else self.model.solver(c)
        )
        return solver(self.model.field(c), w, [0.0, time]).states[:, -1]

    def unknowns(self, branch: xr.Dataset, state: str) -> np.ndarray:
        """(K, d + 1) or (K, d + 2) of the points of a branch, or of its special points."""
        special = state.startswith("special_")
        parameter = (
            branch["special_parameter" if special else self.name].values - self.low
        ) / self.width
        periods = (
            [branch["special_period" if special else "period"].values] if "period" in branch else []
        )
        return np.column_stack([branch[state].values, *periods, parameter])

    def variables(self, u: np.ndarray, dim: str, kind: str, prefix: str = "") -> dict[str, tuple]:
        """State, period and parameter of unknowns."""
        size = len(self.model.names)
        found = {f"{prefix}state": ((dim, "component"), u[:, :size])}
        found |= {f"{prefix}period": (dim, u[:, size])} if kind == "orbits" else {}
        return found | {f"{prefix}parameter": (dim, self.low + self.width * u[:, -1])}

    def named(self, data: xr.Dataset) -> xr.Dataset:
        """A dataset with the parameters of the context as coordinates, and what leads back to them."""
        data = data.assign_attrs(parameter=self.name, range=[self.low, self.low + self.width])
        data["parameter"].attrs["units"] = self.model.units[self.name]
        known = [self.name, "special_kind", "special_parameter"]
        return data.rename(parameter=self.name).set_coords(known).assign_coords(self.others)


def _leaving(start: xr.Dataset, at: int | None, line: _Line) -> tuple[str, tuple[np.ndarray, ...]]:
    """Kind of the branch that leaves another at a special point, that point, the other's tangent,
    and the direction.
    """
    same = start.attrs.get("parameter") == line.name and "special_after" in start
    if not same or start["component"].values.tolist() != line.model.names:
        expected, fix = (
            f"a branch of the same model along {line.name}",
            "give a result of romkit.continuation",
        )
        raise InputError("start", expected=expected, got="another dataset", fix=fix)
    kinds = start["special_kind"].values.tolist()
    if at is None or at >= len(kinds) or kinds[at] not in LEAVING:
        got = "none" if at is None else kinds[at] if at < len(kinds) else f"{at} of {len(kinds)}"
        expected = f"the index of a {', '.join(LEAVING)}"
        raise InputError("at", expected=expected, got=got, fix="see special_kind of the branch")
    points, after = line.unknowns(start, "state"), int(start["special_after"][at])
    u, along, branch = (
        line.unknowns(start, "special_state")[at],
        points[after + 1] - points[after],
        start.attrs["kind"],
    )
    if kinds[at] == "Hopf":
        turn = float(start["frequency"][at])
        direction = line.branch(branch).critical(u, along, 1j * turn)
        return "orbits", (np.insert(u, -1, 2 * np.pi / turn), np.insert(along, -1, 0.0), direction)
    if kinds[at] == "branch point":
        return branch, (u, along, line.branch(branch).critical(u, along))
    direction, twice = line.branch(branch).critical(u, along, -1.0), np.ones(len(u))
    twice[-2], line.steps = 2.0, line.steps and 2 * line.steps
    return branch, (twice * u, twice * along, direction)


def _line_of(branch: xr.Dataset, system: System) -> _Line:
    """The full model along the parameter of a branch."""
    model, name = _Full(system), branch.attrs.get("parameter")
    state = branch.get("decoded", branch.get("state"))
    if (
        "special_after" not in branch
        or name not in system.context_names
        or state.shape[-1] != len(model.names)
    ):
        expected, fix = (
            f"a branch of a reduced model of {system.name}",
            "give a result of romkit.continuation",
        )
        raise InputError("branch", expected=expected, got="another dataset", fix=fix)
    others = {other: float(branch[other]) for other in system.context_names if other != name}
    return _Line(model, name, branch.attrs["range"], others)


def _by_flow(full: Branch, line: _Line, guess: np.ndarray, time: float) -> np.ndarray:
    """A fixed point of the flow over a time, or over its period, near a guess and at its parameter;
    NaN without one.
    """
    parameter, orbit = guess[-1:], isinstance(full.equations, Orbits)
    full.equations.anchor(guess)

    def moved(v: np.ndarray) -> np.ndarray:
        if orbit:
            return full.equations(np.append(v, parameter)[None])[0]
        return line.flow(parameter, torch.from_numpy(v[None]), time).numpy()[0] - v

    try:
        with torch.no_grad(), one_thread(), runtime.bars(False):
            return np.append(
                newton_krylov(moved, guess[:-1], f_tol=ACCURACY, method="gmres", maxiter=20),
                parameter,
            )
    except NoConvergence:
        return guess * np.nan


def _turned(line: _Line, branch: xr.Dataset, guesses: np.ndarray, k: int) -> np.ndarray:
    """Special point of the full model, of the kind of special point k, by following it from a few
    points before.
    """
    after, kind = int(branch["special_after"][k]), str(branch["special_kind"].values[k])
    before = max(0, after - BEFORE)
    onward = np.sign(guesses[before + 1, -1] - guesses[before, -1])
    low = line.low + line.width * guesses[before, -1]
    way = _Line(line.model, line.name, (low, low + onward * line.width), line.others)
    full = way.branch(branch.attrs["kind"])
    one = full.at(np.append(guesses[before, :-1], 0.0))
    for other in full.points(one, 8 * BEFORE) if one else ():
        for found, point in full.special(one, other):
            if found == kind:
                return np.append(point.u[:-1], guesses[before, -1] + onward * point.u[-1])
        one = other
    return guesses[0] * np.nan


def _model(
    source: System | Projection, dynamics: Dynamics | None, system: System | None
) -> _Full | _Reduced:
    if isinstance(source, Projection):
        return _Reduced(source, dynamics, system)
    for name, value in (("dynamics", dynamics), ("system", system)):
        if value is not None:
            raise InputError(
                name, expected="nothing", got="a value", fix="give it with a projection, or drop it"
            )
    return _Full(source)


def _range(context: dict[str, object]) -> tuple[str, tuple[float, float], dict[str, object]]:
    """The parameter that varies, its ends, and the other parameters."""
    varying = [
        name for name, value in context.items() if np.ndim(value) == 1 and np.size(value) == 2
    ]
    if len(varying) != 1:
        got, fix = (
            ", ".join(varying) or "none",
            "give one parameter as (start, end) and the others as numbers",
        )
        raise InputError("context", expected="one parameter with two ends", got=got, fix=fix)
    (name,) = varying
    low, high = (float(end) for end in context[name])
    if not np.isfinite([low, high]).all() or low == high:
        raise InputError(
            name, expected="two different ends", got=f"{low:g}, {high:g}", fix="give (start, end)"
        )
    return name, (low, high), {other: value for other, value in context.items() if other != name}


def _dataset(
    kind: str, found: list[Point], special: list[tuple[int, str, Point]], line: _Line
) -> xr.Dataset:
    u, spectrum = (
        np.array([point.u for point in found]),
        "multiplier" if kind == "orbits" else "eigenvalue",
    )
    values = np.array([point.values for point in found])
    turned = np.array([point.u for *_, point in special]).reshape(len(special), u.shape[1])
    variables = line.variables(u, "point", kind) | line.variables(
        turned, "special", kind, "special_"
    )
    for prefix, dim, rows in (("", "point", u), ("special_", "special", turned)):
        w = torch.from_numpy(rows[:, : len(line.model.names)])
        with torch.no_grad():
            decoded = line.model.decode(line.contexts(rows[:, -1]), w)
        if decoded is not None:
            variables[f"{prefix}decoded"] = ((dim, "full_component"), decoded.numpy())
    variables |= {
        "stable": ("point", [point.unstable == 0 for point in found]),
        spectrum: (("point", "mode", "part"), np.stack([values.real, values.imag], -1)),
        "special_kind": ("special", np.array([name for _, name, _ in special], dtype=str)),
        "special_after": ("special", np.array([after for after, *_ in special], dtype=int)),
    }
    if kind == "equilibria":
        variables["frequency"] = (
            "special",
            [_frequency(p) if name == "Hopf" else np.nan for _, name, p in special],
        )
    coords = {"component": line.model.names, "part": ["real", "imaginary"]}
    return line.named(xr.Dataset(variables, coords, {"kind": kind}))


def _frequency(point: Point) -> float:
    """Angular frequency of the pair of eigenvalues that is nearest to the boundary of stability."""
    turning = point.values.imag > 0
    return float(point.values.imag[turning][np.argmin(abs(point.growth[turning]))])
