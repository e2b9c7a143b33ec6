"""Pseudo-arclength continuation of equilibria and periodic orbits along a context parameter, with bifurcations."""

from collections.abc import Callable, Iterator
from typing import Annotated, NamedTuple

import numpy as np
import torch
import xarray as xr
from scipy.optimize import brentq

from romkit.core import checks, runtime
from romkit.core.boundary import Count, Numbers, Positive, validated
from romkit.core.errors import InputError
from romkit.data import Contexts
from romkit.engine.threads import one_thread
from romkit.integrators import LatentField
from romkit.projections import Projection
from romkit.solvers import RK4
from romkit.systems import System
from romkit.verbs.reduced import Dynamics, ReducedModel

KINDS = ("equilibria", "orbits")

DIFFERENCE = 1e-6
"""Step of central differences, relative to a number of size one or larger: the cube root of the rounding error."""

ACCURACY = 1e-8
"""Length of Newton's last step; with differences for derivatives the next one would be some 1e-9 of it."""

SMALLEST, LARGEST = 1e-5, 0.05
"""Shortest and longest step along a branch, where the range of the parameter has length one."""

NEUTRAL = 1e-6
"""Distance from the boundary of stability below which an eigenvalue has no side, such as that of a symmetry."""

Field = Callable[[np.ndarray], Callable]
"""Parameters (B,) -> the field f(t, y) of torch for B members."""


class Point(NamedTuple):
    """Point of a branch.

    Attributes:
        u: (d + 1,) state and parameter of an equilibrium, (d + 2,) state, period and parameter of an orbit; the
            parameter is 0 at the start of its range and 1 at the end.
        tangent: of the branch, of length one.
        jacobian: of the equations at u.
        values: eigenvalues of the linearised field, or nontrivial multipliers of an orbit; least stable first.
        growth: (d,) real parts of eigenvalues, or logarithms of moduli of multipliers.
    """

    u: np.ndarray
    tangent: np.ndarray
    jacobian: np.ndarray
    values: np.ndarray
    growth: np.ndarray

    @property
    def unstable(self) -> int:
        """Number of directions that grow."""
        return int((self.growth > NEUTRAL).sum())


class Equilibria:
    """Equations f(w; λ) = 0.

    Args:
        field: of B members.
    """

    def __init__(self, field: Field):
        self.field = field

    def rate(self, w: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """f (B, d) at states (B, d) and parameters (B,)."""
        y = torch.from_numpy(w)
        with torch.no_grad(), one_thread():
            return self.field(parameter)(torch.zeros((), dtype=torch.float64), y).numpy()

    def anchor(self, u: np.ndarray) -> None:
        """Nothing: an equilibrium has no phase."""

    def at_rest(self, u: np.ndarray) -> bool:
        """False: to be at rest is no failure here."""
        return False

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Residuals (B, d) at u (B, d + 1)."""
        return self.rate(u[:, :-1], u[:, -1])

    def spectrum(self, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and their real parts, the largest first."""
        values = np.linalg.eigvals(jacobian[:, :-1])
        values = values[np.argsort(-values.real, kind="stable")]
        return values, values.real

    def bifurcation(self, value: complex, pair: bool) -> str:
        """Name of the point where this eigenvalue, or pair of eigenvalues, changes its side."""
        return "Hopf" if pair else "branch point"


class Orbits(Equilibria):
    """Equations φ_T(w; λ) = w of the flow over one period, and a phase condition: w on a plane across the field.

    Args:
        steps: Runge-Kutta steps in a period.
    """

    def __init__(self, field: Field, steps: int):
        super().__init__(field)
        self.solver = RK4(1 / steps, divergence_threshold=1e12)

    def anchor(self, u: np.ndarray) -> None:
        """Lay the plane through the state of u."""
        self.origin = u[:-2]
        rate = self.rate(u[None, :-2], u[-1:])[0]
        self.normal = rate / np.linalg.norm(rate).clip(1e-300)

    def at_rest(self, u: np.ndarray) -> bool:
        """Whether the orbit has shrunk to an equilibrium, or through it, so that it no longer crosses the plane."""
        speed = float(self.rate(u[None, :-2], u[-1:])[0] @ self.normal)
        return speed * u[-2] < 1e-4 * (1 + np.linalg.norm(u[:-2]))

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Residuals (B, d + 1) at u (B, d + 2)."""
        w, period = u[:, :-2], torch.from_numpy(u[:, -2:-1])
        field = self.field(u[:, -1])
        with torch.no_grad(), one_thread(), runtime.bars(False):
            ends = self.solver(lambda t, y: period * field(t * 0, y), torch.from_numpy(w), [0.0, 1.0]).states[:, -1]
        return np.column_stack([ends.numpy() - w, (w - self.origin) @ self.normal])

    def spectrum(self, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Multipliers but the trivial one, and logarithms of their moduli."""
        d = len(jacobian) - 1
        values = np.linalg.eigvals(jacobian[:d, :d] + np.eye(d))
        values = np.delete(values, np.argmin(abs(values - 1)))
        values = values[np.argsort(-abs(values), kind="stable")]
        return values, np.log(abs(values).clip(1e-300))

    def bifurcation(self, value: complex, pair: bool) -> str:
        return "torus" if pair else "period doubling" if value.real < 0 else "branch point"


class Branch:
    """Points along a branch, and the special points between them.

    Args:
        equations: of an equilibrium or an orbit.
    """

    def __init__(self, equations: Equilibria):
        self.equations = equations

    def first(self, u: np.ndarray) -> Point:
        """The point of the branch at the parameter of a guess u; the parameter grows from there.

        Raises:
            InputError: Newton's method finds none.
        """
        along = np.zeros_like(u)
        along[-1] = 1.0
        self.equations.anchor(u)
        found = self._corrected(u, along)
        if found is None or self.equations.at_rest(found[0]):
            got = "another" if found is None else "one that comes to rest"
            fix = "give start=... nearer to it, or run the system until it has settled"
            raise InputError("start", expected="a state near an equilibrium or an orbit", got=got, fix=fix)
        return self._point(*found, along)

    def points(self, first: Point, count: int) -> Iterator[Point]:
        """Points until the parameter leaves its range or an orbit shrinks to an equilibrium, `count` at most."""
        point, step = first, LARGEST / 4
        yield point
        for _ in range(count - 1):
            while True:
                found = self.ahead(point, step)
                if found is not None and found.tangent @ point.tangent > 0.9:
                    break
                step /= 2
                if step < SMALLEST:
                    return
            point, step = found, min(1.3 * step, LARGEST)
            yield point
            if not 0 <= point.u[-1] <= 1 or self.equations.at_rest(point.u):
                return

    def ahead(self, point: Point, step: float) -> Point | None:
        """The point of the branch on the plane across its tangent at this distance; None where Newton fails."""
        self.equations.anchor(point.u)
        found = self._corrected(point.u + step * point.tangent, point.tangent)
        return None if found is None else self._point(*found, point.tangent)

    def special(self, one: Point, other: Point) -> Iterator[tuple[str, Point]]:
        """Folds, and points where eigenvalues cross the boundary of stability, between neighbouring points."""
        step = float((other.u - one.u) @ one.tangent)
        turns = one.tangent[-1] * other.tangent[-1] < 0
        if turns:
            yield "fold", self._located(one, step, lambda point: point.tangent[-1])
        lower, upper = sorted((one.unstable, other.unstable))
        crossing = lower
        while crossing < upper:
            found = self._located(one, step, lambda point, k=crossing: point.growth[k])
            pair = abs(found.values[crossing].imag) > NEUTRAL and crossing + 1 < upper
            kind = self.equations.bifurcation(found.values[crossing], pair)
            if not (turns and kind == "branch point"):
                yield kind, found
            crossing += 2 if pair else 1

    def _located(self, one: Point, step: float, test: Callable[[Point], float]) -> Point:
        """The point between one and the next where a test function changes its sign."""
        known = {0.0: one}

        def value(length: float) -> float:
            if length not in known:
                known[length] = self.ahead(one, length) or one
            return test(known[length])

        if value(0.0) * value(step) > 0:  # a neutral eigenvalue, which has a sign by rounding alone
            return min(known.values(), key=lambda point: abs(test(point)))
        length = brentq(value, 0.0, step, xtol=1e-12 * max(1.0, step), rtol=1e-12)
        value(length)
        return known[length]

    def _corrected(self, u: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Newton's method on the plane through u across `along`: the point and the Jacobian there."""
        origin = u
        for _ in range(8):
            residual, jacobian = self._linearised(u)
            if not np.isfinite(jacobian).all():
                return None
            matrix = np.vstack([jacobian, along])
            move = np.linalg.lstsq(matrix, -np.append(residual, (u - origin) @ along), rcond=1e-13)[0]
            u = u + move
            if np.abs(move).max() < ACCURACY * max(1.0, np.abs(u).max()):
                return u, jacobian
        return None

    def _linearised(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residual and Jacobian at u, by one call for all differences."""
        steps = np.diag(DIFFERENCE * np.maximum(1.0, np.abs(u)))
        found = self.equations(np.vstack([u, u + steps, u - steps]))
        forward, backward = found[1 : len(u) + 1], found[len(u) + 1 :]
        return found[0], ((forward - backward) / (2 * steps.diagonal()[:, None])).T

    def _point(self, u: np.ndarray, jacobian: np.ndarray, along: np.ndarray) -> Point:
        tangent = np.linalg.lstsq(np.vstack([jacobian, along]), np.eye(len(u))[-1], rcond=1e-13)[0]
        return Point(u, tangent / np.linalg.norm(tangent), jacobian, *self.equations.spectrum(jacobian))


@validated
def continuation(
    source: System | Projection,
    *,
    kind: Annotated[str, checks.choice(KINDS)] = "equilibria",
    start: Numbers,
    period: Positive | None = None,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    points: Count = 200,
    steps: Count = 400,
    **context: object,
) -> xr.Dataset:
    """Follow an equilibrium or a periodic orbit of a full or reduced model along one parameter of its context.

    The branch is followed by pseudo-arclength, so it turns round folds. Eigenvalues are those of the linearised field,
    multipliers those of the flow over one period (single shooting), so that orbits that are very unstable are out of
    reach. Derivatives are central differences.

    Args:
        source: a system, or a projection, whose latent field is followed.
        kind: "equilibria" or "orbits".
        start: state near the equilibrium or the orbit at the start of the range: (n,) of a system, (n,) or latent
            (m,) of a projection; with the velocity behind it for mechanical problems.
        period: of the orbit, roughly.
        dynamics: of a projection, as in `romkit.follow`.
        system: the full model, for dynamics that look at it.
        points: on the branch, at most.
        steps: Runge-Kutta steps in a period.
        **context: the parameter that varies as (start, end), the others as numbers.

    Returns:
        Dataset of points: `state` (point, component), `parameter` by its own name, `period` of orbits, `stable`,
        `eigenvalue` (point, mode), or `multiplier`, complex; and of special points: `special_kind` ("fold",
        "branch point", "Hopf", "period doubling" or "torus"), `special_state`, the parameter as `special_parameter`,
        `special_period`, and `frequency`, the angular one of the pair at a Hopf point.

    Raises:
        InputError: no parameter with two ends, or more than one; no equilibrium or orbit near `start`; no period.

    Source: Keller (1977); Kuznetsov, Elements of Applied Bifurcation Theory, chapter 10.

    Example:
        >>> import romkit
        >>> branch = romkit.continuation(romkit.systems.Lorenz96(n=4), start=[0.5] * 4, F=(0.5, 2.0))
        >>> branch.special_kind.values.tolist(), [round(F, 6) for F in branch.special_parameter.values.tolist()]
        (['Hopf'], [1.0])
    """
    name, (low, high), others = _range(context)
    model = _model(source, dynamics, system)
    names = model.context_names
    fixed = Contexts.of(names, {name: low, **others}, torch.zeros(1)).initial
    column = names.index(name)

    def field(parameter: np.ndarray) -> Callable:
        c = fixed.repeat(len(parameter), 1)
        c[:, column] = torch.from_numpy(low + (high - low) * parameter)
        return model.field(c)

    state = model.start(fixed, start)
    if kind == "orbits":
        if period is None:
            raise InputError("period", expected="a number", got="none", fix="measure it on a simulation")
        branch, u = Branch(Orbits(field, steps)), [*state, period, 0.0]
    else:
        branch, u = Branch(Equilibria(field)), [*state, 0.0]
    first, found, special = branch.first(np.array(u)), [], []
    for point in runtime.track(branch.points(first, points), f"{kind} along {name}"):
        special += branch.special(found[-1], point) if found else []
        found.append(point)
    return _dataset(kind, name, low, high - low, found, special, model)


class _Full:
    """A full model as a first-order field."""

    def __init__(self, system: System):
        self.system, self.context_names = system, system.context_names
        self.names = list(system.state_names)
        if system.order == 2:
            self.names += [f"velocity of {name}" for name in system.state_names]

    def unit(self, name: str) -> str:
        """Unit of a parameter."""
        return next(parameter.units for parameter in self.system.context if parameter.name == name)

    def field(self, c: torch.Tensor) -> Callable:
        f = self.system.field(c)
        if self.system.order == 1:
            return f

        def first_order(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            q, v = y.chunk(2, dim=-1)
            return torch.cat([v, f(t, q, v)], dim=-1)

        return first_order

    def start(self, c: torch.Tensor, start: torch.Tensor) -> list[float]:
        checks.last_axis("start", start.shape, len(self.names), "of the state")
        return start.double().tolist()


class _Reduced:
    """A latent field as a first-order field."""

    def __init__(self, projection: Projection, dynamics: Dynamics | None, system: System | None):
        frame = projection.frame
        middle = frame.context_shift.double().unsqueeze(0)
        self.model = ReducedModel(projection, dynamics, Contexts(middle, middle), system)
        if not isinstance(self.model.dynamics, LatentField):
            fix = "take Galerkin, PetrovGalerkin or a law"
            got = type(self.model.dynamics).__name__
            raise InputError("dynamics", expected="one with a latent field", got=got, fix=fix)
        self.context_names = frame.context_names
        self.size = self.model.problem.order * projection.latent_dim
        self.names = [f"z{k}" for k in range(self.size)]

    def unit(self, name: str) -> str:
        """Unit of a parameter."""
        return self.model.projection.frame.context_units[self.context_names.index(name)]

    def field(self, c: torch.Tensor) -> Callable:
        model = self.model.at(Contexts(c, c))
        return model.dynamics.field(model.problem)

    def start(self, c: torch.Tensor, start: torch.Tensor) -> list[float]:
        if start.shape == (self.size,):
            return start.double().tolist()
        parts = start.double().unsqueeze(0).chunk(self.model.problem.order, -1)
        return self.model.at(Contexts(c, c)).start(torch.zeros((), dtype=torch.float64), parts)[0].tolist()


def _model(source: System | Projection, dynamics: Dynamics | None, system: System | None) -> _Full | _Reduced:
    if isinstance(source, Projection):
        return _Reduced(source, dynamics, system)
    for name, value in (("dynamics", dynamics), ("system", system)):
        if value is not None:
            raise InputError(name, expected="nothing", got="a value", fix="give it with a projection, or drop it")
    return _Full(source)


def _range(context: dict[str, object]) -> tuple[str, tuple[float, float], dict[str, object]]:
    """The parameter that varies, its ends, and the other parameters."""
    varying = [name for name, value in context.items() if np.ndim(value) == 1 and np.size(value) == 2]
    if len(varying) != 1:
        got, fix = ", ".join(varying) or "none", "give one parameter as (start, end) and the others as numbers"
        raise InputError("context", expected="one parameter with two ends", got=got, fix=fix)
    (name,) = varying
    low, high = (float(end) for end in context[name])
    if not np.isfinite([low, high]).all() or low == high:
        raise InputError(name, expected="two different ends", got=f"{low:g}, {high:g}", fix="give (start, end)")
    return name, (low, high), {other: value for other, value in context.items() if other != name}


def _dataset(
    kind: str,
    name: str,
    low: float,
    width: float,
    found: list[Point],
    special: list[tuple[str, Point]],
    model: _Full | _Reduced,
) -> xr.Dataset:
    orbits = kind == "orbits"
    size, spectrum = len(model.names), "multiplier" if orbits else "eigenvalue"

    def rows(points: list[Point], dim: str, prefix: str) -> dict[str, tuple]:
        u = np.array([point.u for point in points]).reshape(len(points), size + 1 + orbits)
        values = {"state": ((dim, "component"), u[:, :size]), "parameter": (dim, low + width * u[:, -1])}
        values |= {"period": (dim, u[:, size])} if orbits else {}
        return {prefix + key: value for key, value in values.items()}

    variables = rows(found, "point", "") | rows([point for _, point in special], "special", "special_")
    variables |= {
        "stable": ("point", [point.unstable == 0 for point in found]),
        spectrum: (("point", "mode"), np.array([point.values for point in found])),
        "special_kind": ("special", np.array([kind for kind, _ in special], dtype=str)),
    }
    if not orbits:
        frequency = [abs(p.values[np.argmin(abs(p.growth))].imag) if k == "Hopf" else np.nan for k, p in special]
        variables["frequency"] = ("special", np.array(frequency))
    data = xr.Dataset(variables, {"component": model.names}, {"kind": kind, "parameter": name})
    data["parameter"].attrs["units"] = model.unit(name)
    return data.rename(parameter=name).set_coords([name, "special_kind", "special_parameter"])
