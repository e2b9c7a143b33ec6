"""Equations of equilibria, of periodic orbits and of forced orbits, with their derivatives and
spectra.
"""

import abc
from collections.abc import Callable

import numpy as np
import torch

from romkit.core import runtime
from romkit.engine.threads import one_thread

DIFFERENCE = 1e-6
"""Step of central differences, relative to a number of size one or larger: the cube root of the
rounding error.
"""

STRETCHED = 5.0
"""Largest derivative of a flow for which this step is right."""

SECOND_DIFFERENCE = 1e-4
"""Step of second differences: the fourth root of the rounding error."""

ROUNDING, NEUTRAL = 1e-8, 1e-6
"""Growth that counts as none, since that of a symmetry is zero but for rounding: of an equilibrium,
relative to the largest eigenvalue, and of an orbit, over a period, by differences."""

AT_REST = 1e-4
"""Length of an orbit, relative to the size of states, below which it counts as an equilibrium."""

TINY = 1e-300

Field = Callable[[np.ndarray], Callable]
"""Parameters (B,) -> the field f(t, y) of torch for B members."""

Flow = Callable[[np.ndarray, torch.Tensor, float], torch.Tensor]
"""Parameters (B,), states (B, d) and a time -> states (B, d) after that time."""


class Equations(abc.ABC):
    """Equations R(u) = 0 of one fewer than the unknowns u: a state, what else is unknown, and the
    parameter, which is 0 at the start of its range and 1 at the end.

    Args:
        field: of B members.

    Attributes:
        tail: number of unknowns behind the state.
        rank: singular value, relative to the largest, that counts as zero in Newton's method: a
            symmetry makes it so.
        noise: relative error of the derivatives.
    """

    tail: int
    rank: float
    noise: float

    def __init__(self, field: Field):
        self.field = field

    def rate(self, w: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """f (B, d) at states (B, d) and parameters (B,)."""
        y = torch.from_numpy(w)
        with torch.no_grad(), one_thread():
            return self.field(parameter)(torch.zeros((), dtype=torch.float64), y).numpy()

    def anchor(self, u: np.ndarray) -> np.ndarray:
        """Fix the phase at u; the rows of the Jacobian that do so, none by default."""
        return np.zeros((0, len(u)))

    def at_rest(self, u: np.ndarray) -> bool:
        """Whether an orbit has shrunk to an equilibrium."""
        return False

    @abc.abstractmethod
    def linearised(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residual (k,) and Jacobian (k, k + 1) at u (k + 1,)."""

    @abc.abstractmethod
    def linear(self, jacobian: np.ndarray) -> np.ndarray:
        """(d, d) linearised field, or flow over a period."""

    @abc.abstractmethod
    def spectrum(self, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues or multipliers, least stable first, and their growth."""

    @abc.abstractmethod
    def bifurcation(self, value: complex, pair: bool) -> str:
        """Name of the point where this eigenvalue, or pair of eigenvalues, changes its side."""

    def is_pair(self, values: np.ndarray, k: int) -> bool:
        """Whether value k has a complex conjugate, and is no double real one that errors split."""
        error = np.sqrt(self.noise * np.abs(values).max())
        return k + 1 < len(values) and bool(abs(values[k].imag) > 10 * error)


class Equilibria(Equations):
    """f(w; λ) = 0 of u = (w, λ)."""

    tail, rank, noise = 1, 1e-9, 2e-16

    def linearised(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w, parameter = torch.from_numpy(u[:-1]), u[-1]
        size, t = len(w), torch.zeros((), dtype=torch.float64)
        field = self.field(np.full(size, parameter))
        # a member for each direction
        members, directions = w.repeat(size, 1), torch.eye(size, dtype=torch.float64)
        with torch.no_grad(), one_thread():
            _, slopes = torch.func.jvp(lambda y: field(t, y), (members,), (directions,))
        by_state = slopes.numpy().T  # (d, d)
        parameters = parameter + DIFFERENCE * np.arange(-1.0, 2.0)
        below, rate, above = self.rate(np.tile(u[:-1], (3, 1)), parameters)
        by_parameter = (above - below) / (2 * DIFFERENCE)
        return rate, np.column_stack([by_state, by_parameter])

    def linear(self, jacobian: np.ndarray) -> np.ndarray:
        return jacobian[:, :-1]

    def spectrum(self, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = np.linalg.eigvals(self.linear(jacobian))
        values = values[np.argsort(-values.real, kind="stable")]
        # less than rounding is no growth
        rounding = ROUNDING * (1 + abs(values).max())
        return values, values.real - rounding

    def bifurcation(self, value: complex, pair: bool) -> str:
        if pair:
            return "Hopf"
        return "branch point"

    def bent(self, u: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Second derivatives D²f(v, v) (k, d) of the field along moves v (k, d)."""
        steps = SECOND_DIFFERENCE * moves
        states = u[:-1] + np.concatenate([0 * steps[:1], steps, -steps])  # (1 + 2k, d)
        rates = self.rate(states, np.full(len(states), u[-1]))
        middle, ahead, behind = np.split(rates, [1, 1 + len(moves)])
        return (ahead - 2 * middle + behind) / SECOND_DIFFERENCE**2


class Orbits(Equations):
    """φ_T(w; λ) = w of u = (w, T, λ), with w on a plane across the field.

    Args:
        flow: parameters (B,), states (B, d) and a time -> states at that time.
        unit: of the period, so that T is about one.
    """

    tail, rank, noise = 2, 1e-7, 1e-9

    def __init__(self, field: Field, flow: Flow, unit: float = 1.0):
        super().__init__(field)
        self.flow, self.unit, self.step = flow, unit, DIFFERENCE

    def anchor(self, u: np.ndarray) -> np.ndarray:
        """Lay the plane through the state of u; its row (1, d + 2) of the Jacobian."""
        self.origin = u[:-2]
        rate = self.rate(u[None, :-2], u[-1:])[0]
        # along the field, the direction in which the phase of an orbit is free
        self.normal = rate / np.linalg.norm(rate).clip(TINY)
        return np.concatenate([self.normal, [0.0, 0.0]])[None]

    def at_rest(self, u: np.ndarray) -> bool:
        """Whether the orbit has shrunk to an equilibrium, or through it, so that it crosses the
        plane backwards.
        """
        w, period, parameter = u[:-2], self.unit * u[-2], u[-1:]
        speed = float(self.rate(w[None], parameter)[0] @ self.normal)
        length = speed * period / np.sqrt(len(w))
        size = 1 + np.sqrt((w**2).mean())
        return length < AT_REST * size

    def linearised(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residual and Jacobian at u, by one call for all differences; NaN where Newton's method
        left all periods.
        """
        if u[-2] <= 0:
            shape = (len(u) - 1, len(u))
            return np.full(shape[0], np.nan), np.full(shape, np.nan)
        residual, jacobian = _by_differences(self, u, self.step)
        self.step = _step(jacobian)
        return residual, jacobian

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Residuals (B, d + 1) at u (B, d + 2), whose periods differ from the first one by small
        steps.
        """
        w, period, parameter = u[:, :-2], u[:, -2], u[:, -1]
        late = self.unit * (period - period[0])
        ends = _ends(self.flow, parameter, w, self.unit * float(period[0]))
        # one run serves all periods: the steps of differences are too short to bend the orbit
        ends = ends + late[:, None] * self.rate(ends, parameter)
        return np.column_stack([ends - w, (w - self.origin) @ self.normal])

    def linear(self, jacobian: np.ndarray) -> np.ndarray:
        return jacobian[:-1, :-2] + np.eye(len(jacobian) - 1)

    def spectrum(self, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Multipliers but the trivial one, and logarithms of their moduli."""
        values = np.linalg.eigvals(self.linear(jacobian))
        # the one along the orbit is 1, and says nothing
        return _by_modulus(np.delete(values, np.argmin(abs(values - 1))))

    def bifurcation(self, value: complex, pair: bool) -> str:
        return _of_multiplier(value, pair)


class ForcedOrbits(Equations):
    """φ_T(w; λ) = w of u = (w, λ), where T is a multiple of the period of the force.

    No phase is free and no multiplier is trivial.
    """

    tail, rank, noise = 1, 1e-7, 1e-9

    def __init__(self, field: Field, flow: Flow, period: float):
        super().__init__(field)
        self.flow, self.period, self.step = flow, period, DIFFERENCE

    def linearised(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual, jacobian = _by_differences(self, u, self.step)
        self.step = _step(jacobian)
        return residual, jacobian

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Residuals (B, d) at u (B, d + 1)."""
        w, parameter = u[:, :-1], u[:, -1]
        return _ends(self.flow, parameter, w, self.period) - w

    def linear(self, jacobian: np.ndarray) -> np.ndarray:
        return jacobian[:, :-1] + np.eye(len(jacobian))

    def spectrum(self, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Multipliers, and logarithms of their moduli."""
        return _by_modulus(np.linalg.eigvals(self.linear(jacobian)))

    def bifurcation(self, value: complex, pair: bool) -> str:
        return _of_multiplier(value, pair)


def _ends(flow: Flow, parameter: np.ndarray, w: np.ndarray, time: float) -> np.ndarray:
    with torch.no_grad(), one_thread(), runtime.bars(False):
        return flow(parameter, torch.from_numpy(w.copy()), time).numpy()


def _step(jacobian: np.ndarray) -> float:
    """Step of differences of a flow that stretches: its third derivatives grow like the cube of its
    first ones, and its rounding errors like these.
    """
    stretching = np.abs(jacobian).max() / STRETCHED
    return DIFFERENCE * max(1.0, stretching) ** (-2 / 3)


def _by_differences(
    residuals: Callable[[np.ndarray], np.ndarray], u: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Residual (k,) and Jacobian (k, k + 1) at u (k + 1,), by one call."""
    lengths = step * np.maximum(1.0, np.abs(u))
    steps = np.diag(lengths)
    values = residuals(np.vstack([u, u + steps, u - steps]))
    residual, ahead, behind = np.split(values, [1, 1 + len(u)])
    slopes = (ahead - behind) / (2 * lengths[:, None])  # (k + 1, k)
    return residual[0], slopes.T


def _by_modulus(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = values[np.argsort(-abs(values), kind="stable")]
    return values, np.log(abs(values).clip(TINY)) - NEUTRAL


def _of_multiplier(value: complex, pair: bool) -> str:
    if pair:
        return "torus"
    if value.real < 0:
        return "period doubling"
    return "branch point"
