"""Pseudo-arclength: branches of solutions of f(u) = 0, their bifurcations, and the branches that
leave there.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq

from romkit.core import runtime
from romkit.engine.threads import one_thread

DIFFERENCE = 1e-6
"""Step of central differences, relative to a number of size one or larger: the cube root of the
rounding error.
"""

ACCURACY = 1e-8
"""Length of Newton's last step; with differences for derivatives the next one would be some 1e-9 of
it.
"""

SMALLEST, LARGEST = 1e-5, 0.05
"""Shortest and longest step along a branch, where the range of the parameter has length one."""

BEND = 0.45
"""Largest change of the tangent in a step, a turn of 26 degrees."""

ROUNDING, NEUTRAL = 1e-8, 1e-6
"""Growth that counts as none, since that of a symmetry is zero but for rounding: of an equilibrium,
relative to the largest eigenvalue, and of an orbit, over a period, by differences."""

Field = Callable[[np.ndarray], Callable]
"""Parameters (B,) -> the field f(t, y) of torch for B members."""

Flow = Callable[[np.ndarray, torch.Tensor, float], torch.Tensor]
"""Parameters (B,), states (B, d) and a time -> states (B, d) after that time."""


class Point(NamedTuple):
    """Point of a branch.

    Attributes:
        u: (d + 1,) state and parameter of an equilibrium, (d + 2,) state, period and parameter of
            an orbit; the parameter is 0 at the start of its range and 1 at the end.
        tangent: of the branch, of length one (`Branch._length`).
        jacobian: of the equations at u.
        values: eigenvalues of the linearised field, or nontrivial multipliers of an orbit; least
            stable first.
        growth: (d,) real parts of eigenvalues, or logarithms of moduli of multipliers, less what is
            rounding in them.
    """

    u: np.ndarray
    tangent: np.ndarray
    jacobian: np.ndarray
    values: np.ndarray
    growth: np.ndarray

    @property
    def unstable(self) -> int:
        """Number of directions that grow."""
        return int((self.growth > 0).sum())


class Equilibria:
    """Equations f(w; λ) = 0.

    Args:
        field: of B members.
    """

    rank = 1e-9
    """Singular value, relative to the largest one, that counts as zero in Newton's method: a
    symmetry makes it so.
    """

    def __init__(self, field: Field):
        self.field = field

    def rate(self, w: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """f (B, d) at states (B, d) and parameters (B,)."""
        y = torch.from_numpy(w)
        with torch.no_grad(), one_thread():
            return self.field(parameter)(torch.zeros((), dtype=torch.float64), y).numpy()

    def anchor(self, u: np.ndarray) -> np.ndarray:
        """No rows of the Jacobian: an equilibrium has no phase."""
        return np.zeros((0, len(u)))

    def at_rest(self, u: np.ndarray) -> bool:
        """False: to be at rest is no failure here."""
        return False

    def linearised(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residual (d,) and Jacobian (d, d + 1) at u (d + 1,); in the parameter by differences."""
        w, now = torch.from_numpy(u[:-1]), torch.zeros((), dtype=torch.float64)
        with one_thread():
            jacobian = (
                torch.func.jacfwd(lambda w: self.field(u[-1:])(now, w.unsqueeze(0))[0])(w)
                .detach()
                .numpy()
            )
        rates = self.rate(np.tile(u[:-1], (3, 1)), u[-1] + DIFFERENCE * np.arange(-1.0, 2.0))
        return rates[1], np.column_stack([jacobian, (rates[2] - rates[0]) / (2 * DIFFERENCE)])

    def linear(self, jacobian: np.ndarray) -> np.ndarray:
        """(d, d) linearised field."""
        return jacobian[:, :-1]

    def spectrum(self, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and their real parts, the largest first."""
        values = np.linalg.eigvals(self.linear(jacobian))
        values = values[np.argsort(-values.real, kind="stable")]
        return values, values.real - ROUNDING * (1 + abs(values).max())

    def bifurcation(self, value: complex, pair: bool) -> str:
        """Name of the point where this eigenvalue, or pair of eigenvalues, changes its side."""
        return "Hopf" if pair else "branch point"


class Orbits(Equilibria):
    """Equations φ_T(w; λ) = w of the flow over one period, and a phase condition: w on a plane
    across the field.

    Args:
        flow: parameters (B,), states (B, d) and a time -> states at that time.
    """

    rank = 1e-7

    def __init__(self, field: Field, flow: Flow):
        super().__init__(field)
        self.flow = flow

    def anchor(self, u: np.ndarray) -> np.ndarray:
        """Lay the plane through the state of u; its row (1, d + 2) of the Jacobian."""
        self.origin = u[:-2]
        rate = self.rate(u[None, :-2], u[-1:])[0]
        self.normal = rate / np.linalg.norm(rate).clip(1e-300)
        return np.concatenate([self.normal, [0.0, 0.0]])[None]

    def at_rest(self, u: np.ndarray) -> bool:
        """Whether the orbit has shrunk to an equilibrium, or through it, so that it no longer
        crosses the plane.
        """
        speed = float(self.rate(u[None, :-2], u[-1:])[0] @ self.normal)
        return speed * u[-2] < 1e-4 * (1 + np.linalg.norm(u[:-2]))

    def linearised(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residual and Jacobian at u, by one call for all differences; NaN where Newton's method
        left all periods.
        """
        if u[-2] <= 0:
            return np.full(len(u) - 1, np.nan), np.full((len(u) - 1, len(u)), np.nan)
        steps = np.diag(DIFFERENCE * np.maximum(1.0, np.abs(u)))
        found = self(np.vstack([u, u + steps, u - steps]))
        forward, backward = found[1 : len(u) + 1], found[len(u) + 1 :]
        return found[0], ((forward - backward) / (2 * steps.diagonal()[:, None])).T

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Residuals (B, d + 1) at u (B, d + 2), whose periods differ from the first one by small
        steps.
        """
        w, parameter, late = u[:, :-2], u[:, -1], u[:, -2:-1] - u[0, -2]
        with torch.no_grad(), one_thread(), runtime.bars(False):
            ends = self.flow(parameter, torch.from_numpy(w), float(u[0, -2])).numpy()
        ends = ends + late * self.rate(ends, parameter)
        return np.column_stack([ends - w, (w - self.origin) @ self.normal])

    def linear(self, jacobian: np.ndarray) -> np.ndarray:
        """(d, d) linearised flow over a period."""
        return jacobian[:-1, :-2] + np.eye(len(jacobian) - 1)

    def spectrum(self, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Multipliers but the trivial one, and logarithms of their moduli."""
        values = np.linalg.eigvals(self.linear(jacobian))
        values = np.delete(values, np.argmin(abs(values - 1)))
        values = values[np.argsort(-abs(values), kind="stable")]
        return values, np.log(abs(values).clip(1e-300)) - NEUTRAL

    def bifurcation(self, value: complex, pair: bool) -> str:
        return "torus" if pair else "period doubling" if value.real < 0 else "branch point"


class Branch:
    """Points along a branch, and the special points between them.

    Args:
        equations: of an equilibrium or an orbit.
    """

    def __init__(self, equations: Equilibria):
        self.equations = equations

    def at(self, u: np.ndarray) -> Point | None:
        """The solution at the parameter of a guess u, from where the parameter grows; None if none
        is found.
        """
        along = np.eye(len(u))[-1]
        self.equations.anchor(u)
        return self._arrived(self.solved(u, along), along)

    def critical(
        self, u: np.ndarray, along: np.ndarray, value: complex | None = None
    ) -> np.ndarray:
        """Direction (d,) of the states of the branch that leaves this one at its special point u.

        Args:
            u: special point.
            along: tangent of this branch there.
            value: eigenvalue whose vector it is; by default the direction is the null vector
                besides `along`.
        """
        self.equations.anchor(u)
        jacobian = self.equations.linearised(u)[1]
        d = len(self.equations.linear(jacobian))
        if value is None:
            return np.linalg.svd(np.vstack([jacobian, along]))[2][-1, :d]
        values, vectors = np.linalg.eig(self.equations.linear(jacobian))
        vector = vectors[:, np.argmin(abs(values - value))]
        return (
            vector * np.exp(-0.5j * np.angle(vector @ vector))
        ).real  # the field at it is across

    def leaving(
        self, u: np.ndarray, along: np.ndarray, direction: np.ndarray, amplitude: float
    ) -> Point | None:
        """The first point of the branch that leaves another one, whose tangent is `along`, in a
        direction; or None.
        """
        across = np.append(direction, np.zeros(len(u) - len(direction)))
        across -= (across @ along) / (along @ along) * along
        across *= np.sign(across[np.argmax(abs(across))]) / self._length(across)
        guess = u + amplitude * across
        self.equations.anchor(guess)
        return self._arrived(self.solved(guess, across), np.sign(amplitude) * across)

    def points(self, first: Point, count: int) -> Iterator[Point]:
        """Points until the parameter leaves its range or an orbit shrinks to an equilibrium,
        `count` at most.
        """
        point, step = first, LARGEST / 4
        yield point
        for _ in range(count - 1):
            while True:
                found = self.ahead(point, step)
                if found is not None and self._length(found.tangent - point.tangent) < BEND:
                    break
                step /= 2
                if step < SMALLEST:
                    return
            self.equations.anchor(
                point.u
            )  # an orbit that went through an equilibrium crosses this plane backwards
            ended = not 0 <= found.u[-1] <= 1 or self.equations.at_rest(found.u)
            point, step = found, min(1.3 * step, LARGEST)
            yield point
            if ended:
                return

    def ahead(self, point: Point, step: float) -> Point | None:
        """The point of the branch on the plane across its tangent at this distance; None where
        Newton fails.
        """
        self.equations.anchor(point.u)
        found = self.solved(point.u + step * point.tangent, point.tangent)
        return None if found is None else self._point(*found, point.tangent)

    def special(self, one: Point, other: Point) -> Iterator[tuple[str, Point]]:
        """Folds, and points where eigenvalues cross the boundary of stability, between neighbouring
        points.
        """
        step = float((other.u - one.u) @ one.tangent) / float(one.tangent @ one.tangent)
        turns = one.tangent[-1] * other.tangent[-1] < 0
        if turns:
            yield "fold", self._located(one, step, lambda point: point.tangent[-1])
        lower, upper = sorted((one.unstable, other.unstable))
        crossing = lower
        while crossing < upper:
            found = self._located(one, step, lambda point, k=crossing: point.growth[k])
            if found is None:
                return
            pair = found.values[crossing].imag != 0 and crossing + 1 < upper
            kind = self.equations.bifurcation(found.values[crossing], pair)
            if not (turns and kind == "branch point"):
                yield kind, found
            crossing += 2 if pair else 1

    def _located(self, one: Point, step: float, test: Callable[[Point], float]) -> Point | None:
        """The point between one and the next where a test function changes its sign; None where
        that is rounding.
        """
        known = {0.0: one}

        def value(length: float) -> float:
            if length not in known:
                known[length] = self.ahead(one, length) or one
            return test(known[length])

        if value(0.0) * value(step) > 0:
            return None
        length = brentq(value, 0.0, step, xtol=1e-12 * max(1.0, step), rtol=1e-12)
        value(length)
        return known[length]

    def solved(self, u: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Newton's method on the plane through u across `along`: the point and the Jacobian there."""
        origin = u
        for _ in range(8):
            residual, jacobian = self.equations.linearised(u)
            if not np.isfinite(jacobian).all():
                return None
            matrix = np.vstack([jacobian, along])
            move = np.linalg.lstsq(
                matrix, -np.append(residual, (u - origin) @ along), rcond=self.equations.rank
            )[0]
            u = u + move
            if np.abs(move).max() < ACCURACY * max(1.0, np.abs(u).max()):
                return u, jacobian
        return None

    def _point(self, u: np.ndarray, jacobian: np.ndarray, along: np.ndarray) -> Point:
        phase = self.equations.anchor(u)
        jacobian = np.vstack(
            [jacobian[: len(jacobian) - len(phase)], phase]
        )  # else the tangent is in another plane
        tangent = np.linalg.lstsq(
            np.vstack([jacobian, along]), np.eye(len(u))[-1], rcond=self.equations.rank
        )[0]
        return Point(
            u, tangent / self._length(tangent), jacobian, *self.equations.spectrum(jacobian)
        )

    def _arrived(
        self, found: tuple[np.ndarray, np.ndarray] | None, along: np.ndarray
    ) -> Point | None:
        return (
            None
            if found is None or self.equations.at_rest(found[0])
            else self._point(*found, along)
        )

    def _length(self, move: np.ndarray) -> float:
        """Length of a move along a branch, where states have their root mean square, whatever their
        number.
        """
        d = len(move) - 1 - isinstance(self.equations, Orbits)
        return float(np.sqrt((move[:d] ** 2).mean() + (move[d:] ** 2).sum()))
