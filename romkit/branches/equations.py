"""Equations of equilibria, of periodic orbits and of forced orbits, with their derivatives and
spectra.
"""

import abc
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import eig, matrix_balance

from romkit.core import runtime
from romkit.core.types import Array, Operation
from romkit.engine.threads import one_thread

DIFFERENCE = 1e-6
"""Step of central differences, relative to a number of size one or larger: the cube root of the
rounding error.
"""


ROUNDING, DEFECTIVE = 2e-12, 1e-8
"""Errors of eigenvalues relative to the size of their matrix, ten thousand roundings and the root of
one: of an eigenvector at a right angle to the others, and the largest, where two meet."""

NEUTRAL = 1e-6
"""Growth of an orbit over a period, by differences, that counts as none."""

UNSEEN = 1e-7
"""Multiplier, relative to one or a larger stretching over a period, that errors of differences hide."""


TINY = 1e-300

Linearisation = tuple[Array, Array]
"""Residual (k,) of equations and their Jacobian (k, k + 1)."""

Spectrum = tuple[Array, Array]
"""Eigenvalues or multipliers, least stable first, and their growth."""


class Scaled(NamedTuple):
    """A field of states in units of their size."""

    field: Operation
    size: torch.Tensor

    def __call__(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.field(t, self.size * y) / self.size

    def along(self, t: torch.Tensor, y: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """Return derivatives (B, d) of the field at states (B, d) along directions (B, d).

        Sizes stay outside of what torch differentiates: products of a number that has no derivative
        take it milliseconds.
        """
        rate = functools.partial(self.field, t)
        _, slopes = torch.func.jvp(rate, (self.size * y,), (self.size * directions,))
        return slopes / self.size

    def slopes(self, w: Array) -> Array:
        """Return derivatives (d, d) of a field of d members by a state (d,), a direction for each."""
        t = torch.zeros((), dtype=torch.float64)
        members = torch.from_numpy(w).repeat(len(w), 1)
        with torch.no_grad(), one_thread():
            return self.along(t, members, torch.eye(len(w), dtype=members.dtype)).numpy().T


Field = Callable[[Array], Scaled]
"""Parameters (B,) -> the field f(t, y) of torch for B members."""

Flow = Callable[[Array, torch.Tensor, float], torch.Tensor]
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

    def rate(self, w: Array, parameter: Array) -> Array:
        """f (B, d) at states (B, d) and parameters (B,)."""
        t = torch.zeros((), dtype=torch.float64)
        y = torch.from_numpy(w)
        with torch.no_grad(), one_thread():
            field = self.field(parameter)
            return field(t, y).numpy()

    def anchor(self, u: Array) -> Array:
        """Fix the phase at u; the rows of the Jacobian that do so, none by default."""
        return np.zeros((0, len(u)))

    def at_rest(self, u: Array) -> bool:
        """Tell whether an orbit has shrunk to an equilibrium."""
        return False

    @abc.abstractmethod
    def linearised(self, u: Array) -> Linearisation:
        """Return residual (k,) and Jacobian (k, k + 1) at u (k + 1,)."""

    def update_jacobian(self, u: Array, jacobian: Array) -> Array:
        """Return jacobian at a solution u, from that at the last but one step of Newton's method."""
        return jacobian

    @abc.abstractmethod
    def linear(self, jacobian: Array) -> Array:
        """(d, d) linearised field, or flow over a period."""

    @abc.abstractmethod
    def spectrum(self, u: Array, jacobian: Array) -> Spectrum:
        """Return eigenvalues or multipliers, least stable first, and their growth."""

    @abc.abstractmethod
    def bifurcation(self, value: complex, pair: bool) -> str:
        """Return name of the point where this eigenvalue, or pair of eigenvalues, changes its side."""

    def is_pair(self, values: Array, k: int) -> bool:
        """Tell whether value k has a complex conjugate, and is no double real one that errors
        split.
        """
        if k + 1 == len(values):
            return False
        largest = np.nanmax(np.abs(values))
        error = np.sqrt(self.noise * largest)
        imaginary = abs(values[k].imag)
        return bool(imaginary > 10 * error)


class Equilibria(Equations):
    """f(w; λ) = 0 of u = (w, λ)."""

    tail = 1
    rank = 1e-9
    noise = 2e-16

    def linearised(self, u: Array) -> Linearisation:
        w = u[:-1]
        parameter = u[-1]
        parameters = parameter + DIFFERENCE * np.arange(-1.0, 2.0)
        states = np.tile(w, (3, 1))
        below, rate, above = self.rate(states, parameters)
        by_parameter = (above - below) / (2 * DIFFERENCE)
        by_state = self.field(np.full(len(w), parameter)).slopes(w)
        return rate, np.column_stack([by_state, by_parameter])

    def update_jacobian(self, u: Array, jacobian: Array) -> Array:
        # the last step may be 1e-8, and slow growth beside fast decay is less
        w, parameter = u[:-1], u[-1]
        by_state = self.field(np.full(len(w), parameter)).slopes(w)
        return np.column_stack([by_state, jacobian[:, -1]])

    def linear(self, jacobian: Array) -> Array:
        return jacobian[:, :-1]

    def spectrum(self, u: Array, jacobian: Array) -> Spectrum:
        # units of the components stretch eigenvectors, and say nothing of errors
        matrix, _ = matrix_balance(self.linear(jacobian))
        values, left, right = eig(matrix, left=True)
        order = np.argsort(-values.real, kind="stable")
        values = values[order]
        # the growth of a symmetry is zero but for rounding
        cosines = np.abs((left.conj() * right).sum(0))[order]
        error = np.minimum(ROUNDING / cosines.clip(TINY), DEFECTIVE)
        return values, values.real - error * np.linalg.norm(matrix)

    def bifurcation(self, value: complex, pair: bool) -> str:
        if pair:
            return "Hopf"
        return "branch point"

    def bent(self, u: Array, moves: Array, *, step: float = 1e-4) -> Array:
        """Second derivatives D²f(v, v) (k, d) of the field along moves v (k, d).

        `step`: step of second differences: the fourth root of the rounding error.
        """
        w = u[:-1]
        parameter = u[-1]
        steps = step * moves
        none = 0 * steps[:1]
        states = w + np.concatenate([none, steps, -steps])  # (1 + 2k, d)
        parameters = np.full(len(states), parameter)
        rates = self.rate(states, parameters)
        middle, moved = np.split(rates, [1])
        ahead, behind = np.split(moved, 2)
        difference = ahead - 2 * middle + behind
        return difference / step**2


class Returns(Equations):
    """Equations of states that a flow leads back to, whose Jacobian is one of differences.

    Args:
        flow: parameters (B,), states (B, d) and a time -> states at that time.
        course: parameter (1,), state (1, d) and a time -> states (N, d) at even times up to it.
        period: of a force, or unit of the period, so that T is about one.
    """

    rank = 1e-7
    noise = 1e-9

    def __init__(self, field: Field, flow: Flow, course: Flow, period: float):
        super().__init__(field)
        self.flow = flow
        self.course = course
        self.period = period
        self.step = DIFFERENCE

    @abc.abstractmethod
    def __call__(self, u: Array) -> Array:
        """Return residuals (B, k) at u (B, k + 1)."""

    def ends(self, parameter: Array, w: Array, time: float) -> Array:
        """Return states (B, d) after a time of states w (B, d), at parameters (B,)."""
        with torch.no_grad(), one_thread(), runtime.bars(False):
            return self.flow(parameter, torch.from_numpy(w.copy()), time).numpy()

    def linearised(self, u: Array) -> Linearisation:
        """Return residual and Jacobian at u, by one call for all differences."""
        # residual (k,) and Jacobian (k, k + 1) at u (k + 1,), by one call
        lengths = self.step * np.maximum(1.0, np.abs(u))
        steps = np.diag(lengths)
        points = np.vstack([u, u + steps, u - steps])
        values = self(points)
        middle, moved = np.split(values, [1])
        ahead, behind = np.split(moved, 2)
        slopes = (ahead - behind) / (2 * lengths[:, None])  # (k + 1, k)
        residual, jacobian = middle[0], slopes.T
        self.step = _step(jacobian)
        return residual, jacobian

    def bifurcation(self, value: complex, pair: bool) -> str:
        if pair:
            return "torus"
        if value.real < 0:
            return "period doubling"
        return "branch point"

    def multipliers(self, u: Array, matrix: Array, time: float) -> Array:
        """Return eigenvalues (d,) of the flow over a time, linearised, whose matrix has errors of
        differences.

        One that is smaller than these follows from Liouville's identity: the product of all is the
        exponential of the integral of the trace of the field's derivative. Several are NaN.
        """
        values = np.linalg.eigvals(matrix)
        is_lost = np.abs(values) < UNSEEN * max(1.0, float(np.linalg.norm(matrix, 2)))
        if not is_lost.any() or not np.isfinite(values).all():
            return values
        values[is_lost] = np.nan
        if is_lost.sum() == 1:
            product = np.prod(values[~is_lost]).real
            log = self.contraction(u, time) - np.log(np.abs(product))
            values[is_lost] = np.sign(product) * np.exp(log)
        return values

    def contraction(self, u: Array, time: float) -> float:
        """Integral of the trace of the field's derivative along an orbit, the logarithm of how it
        changes volumes.
        """
        size = len(u) - self.tail
        with torch.no_grad(), one_thread(), runtime.bars(False):
            w = self.course(u[-1:], torch.from_numpy(u[None, :size]), time)  # (N, d)
            traces = self.traces(w, u[-1], time)
        # the trapezoidal rule, best of all where the motion is periodic
        return float(traces.mean() * time)

    def traces(self, w: torch.Tensor, parameter: float, time: float) -> torch.Tensor:
        """Traces (N,) of the field's derivative at states (N, d) at even times up to `time`."""
        return self._traces(0.0, w, parameter)

    def _traces(self, time: float, w: torch.Tensor, parameter: float) -> torch.Tensor:
        """Traces (N,) at one time."""
        t = torch.tensor(time, dtype=w.dtype)
        field = self.field(np.full(len(w), parameter))
        trace = torch.zeros(len(w), dtype=w.dtype)
        for k in range(w.shape[1]):
            along = torch.zeros_like(w)
            along[:, k] = 1.0
            trace += field.along(t, w, along)[:, k]
        return trace


class Orbits(Returns):
    """φ_T(w; λ) = w of u = (w, T, λ), with w on a plane across the field."""

    tail = 2

    def anchor(self, u: Array) -> Array:
        """Lay the plane through the state of u; its row (1, d + 2) of the Jacobian."""
        self.origin = u[:-2]
        rate = self._rate(u)
        # along the field, the direction in which the phase of an orbit is free
        speed = np.linalg.norm(rate).clip(TINY)
        self.normal = rate / speed
        row = np.append(self.normal, [0.0, 0.0])
        return row[None]

    def at_rest(self, u: Array, *, shortest: float = 1e-4) -> bool:
        """Tell whether the orbit has shrunk to an equilibrium, or through it, so that it crosses
        the plane backwards.

        `shortest`: length of an orbit, relative to the size of states, below which it counts as an
        equilibrium.
        """
        w = u[:-2]
        period = self.period * u[-2]
        speed = float(self._rate(u) @ self.normal)
        length = speed * period / np.sqrt(len(w))
        size = 1 + np.sqrt((w**2).mean())
        return length < shortest * size

    def _rate(self, u: Array) -> Array:
        """f (d,) at the state of u."""
        w = u[None, :-2]
        return self.rate(w, u[-1:])[0]

    def linearised(self, u: Array) -> Linearisation:
        """Return residual and Jacobian at u; NaN where Newton's method left all periods."""
        if u[-2] > 0:
            return super().linearised(u)
        count = len(u) - 1
        return np.full(count, np.nan), np.full((count, count + 1), np.nan)

    def __call__(self, u: Array) -> Array:
        """Return residuals (B, d + 1) at u (B, d + 2), whose periods differ from the first one by
        small steps.
        """
        w = u[:, :-2]
        periods = u[:, -2]
        parameter = u[:, -1]
        period = periods[0]
        time = self.period * float(period)
        ends = self.ends(parameter, w, time)
        # one run serves all periods: the steps of differences are too short to bend the orbit
        late = self.period * (periods - period)
        rates = self.rate(ends, parameter)
        ends = ends + late[:, None] * rates
        distance = (w - self.origin) @ self.normal
        return np.column_stack([ends - w, distance])

    def linear(self, jacobian: Array) -> Array:
        count = len(jacobian) - 1
        return jacobian[:-1, :-2] + np.eye(count)

    def spectrum(self, u: Array, jacobian: Array) -> Spectrum:
        """Multipliers but the trivial one, and logarithms of their moduli."""
        values = self.multipliers(u, self.linear(jacobian), self.period * float(u[-2]))
        # the one along the orbit is 1, and says nothing
        trivial = np.nanargmin(abs(values - 1))
        return _sort_key(np.delete(values, trivial))


class ForcedOrbits(Returns):
    """φ_T(w; λ) = w of u = (w, λ), where T is a multiple of the period of the force.

    No phase is free and no multiplier is trivial.
    """

    tail = 1

    def __call__(self, u: Array) -> Array:
        """Return residuals (B, d) at u (B, d + 1)."""
        w = u[:, :-1]
        parameter = u[:, -1]
        ends = self.ends(parameter, w, self.period)
        return ends - w

    def traces(
        self, w: torch.Tensor, parameter: float, time: float, *, looks: int = 256
    ) -> torch.Tensor:
        # a field that depends on the time is asked at one time after the other
        rows = range(len(w) - 1, -1, -max(1, len(w) // looks))
        of_rows = [self._traces(time * (k + 1) / len(w), w[k : k + 1], parameter) for k in rows]
        return torch.cat(of_rows)

    def linear(self, jacobian: Array) -> Array:
        return jacobian[:, :-1] + np.eye(len(jacobian))

    def spectrum(self, u: Array, jacobian: Array) -> Spectrum:
        """Multipliers, and logarithms of their moduli."""
        values = self.multipliers(u, self.linear(jacobian), self.period)
        return _sort_key(values)


def _step(jacobian: Array, *, stretched: float = 5.0) -> float:
    """Step of differences of a flow that stretches: its third derivatives grow like the cube of its
    first ones, and its rounding errors like these.

    `stretched`: largest derivative of a flow for which this step is right.
    """
    stretching = np.abs(jacobian).max() / stretched
    return DIFFERENCE * max(1.0, stretching) ** (-2 / 3)


def _sort_key(values: Array) -> Spectrum:
    order = np.argsort(-abs(values), kind="stable")
    values = values[order]
    # those that differences do not see decay
    moduli = np.nan_to_num(abs(values)).clip(TINY)
    return values, np.log(moduli) - NEUTRAL
