"""Pseudo-arclength: branches of solutions of R(u) = 0, and their special points."""

import bisect
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from romkit.branches.equations import TINY, Equations
from romkit.core.types import Array, Floats

ACCURACY = 1e-8
"""Length of Newton's last step; with differences for derivatives the next one would be some 1e-9 of
it.
"""


NEWTON, PATIENT = 10, 40
"""Most steps of Newton's method, along a branch and near its special points, where it may converge
linearly.
"""

SMALLEST, LARGEST = 1e-5, 0.05
"""Shortest and longest step along a branch, relative to the range of the parameter and to the size
of the state.
"""

BEND = 0.45
"""Largest change of the tangent in a step, a turn of 26 degrees."""

OFF = 10 * ACCURACY
"""Distance of a point from where its step was aimed that counts as none, relative to the size of the
unknowns.
"""

TURN = 1e-6
"""Part of the tangent along the parameter below which its sign is rounding."""

NEAR = 1e-3
"""Distance of two special points, relative to the step, below which they are one."""


class Point(NamedTuple):
    """Point of a branch.

    Attributes:
        u: (k,) state, period of an autonomous orbit, and parameter.
        tangent: of the branch, of length one (`Branch._length`).
        jacobian: of the equations at u.
        values: eigenvalues of the linearised field, or nontrivial multipliers of an orbit; least
            stable first.
        growth: (d,) real parts of eigenvalues, or logarithms of moduli of multipliers, less what is
            rounding in them.
    """

    u: Array
    tangent: Array
    jacobian: Array
    values: Array
    growth: Array

    @property
    def unstable(self) -> int:
        """Number of directions that grow."""
        return int((self.growth > 0).sum())


Sample = tuple[float, Point]
"""Distance along a step, and the point there."""

Located = tuple[float, str, Point]
"""Distance along a step, name and point of an event."""

Events = list[tuple[str, Point]]
"""Names and points of folds and changes of stability, in order."""

Solution = tuple[Array, Array]
"""A point (k,) and the Jacobian of the equations there."""

Test = Callable[[Point], float]
"""Function of points whose sign changes at an event."""


class Branch:
    """Points along a branch, and the special points between them.

    Args:
        equations: of an equilibrium or an orbit.

    Attributes:
        end: why `points` ended: "range" of the parameter, "points" used up, "equilibrium" that an
            orbit has shrunk to, "closed" branch, or "step" too short.
    """

    def __init__(self, equations: Equations):
        self.equations = equations
        self.end = ""

    def at(self, u: Array) -> Point | None:
        """Return the solution at the parameter of a guess u, from where the parameter grows; None
        if none is found.
        """
        along = np.eye(len(u))[-1]
        return self.through(u, along, along)

    def through(self, u: Array, across: Array, onward: Array) -> Point | None:
        """Return the solution on the plane through a guess u across a direction; None if none is
        found.

        `onward` is the side that the branch goes on to.
        """
        self.equations.anchor(u)
        solution = self.solved(u, across, NEWTON)
        if solution is None or self.equations.at_rest(solution[0]):
            return None
        return self._point(*solution, onward)

    def points(self, first: Point, count: int) -> Iterator[tuple[Point, Events]]:
        """Yield points until the branch ends, `count` at most, each with the special points before
        it; the last one is at the end of the range.

        `end` says why afterwards.
        """
        point = first
        step = LARGEST / 4
        self.end = "points"
        yield first, []
        for _ in range(count - 1):
            taken = self._step(point, step)
            if taken is None:
                self.end = "step"
                return
            ahead, step = taken
            events = self.special(point, ahead)
            # a branch may leave the range and turn back to it within a step
            inside = [*itertools.takewhile(lambda event: _is_allowed(event[1]), events)]
            reason = self._reason(first, point, ahead)
            if len(inside) < len(events) or reason == "range":
                reason = "range"
                beyond = [turn for _, turn in events[len(inside) :]]
                # what lies at the end itself is seen from beyond it alone
                events = inside
                ahead = self._end_point(point, [*beyond, ahead][0])
            yield ahead, events
            if reason:
                self.end = reason
                return
            point = ahead
            step = min(1.3 * step, self._longest(ahead))

    def ahead(self, point: Point, step: float) -> Point | None:
        """Return the point of the branch on the plane across its tangent at this distance; None
        where Newton fails.
        """
        guess = point.u + step * point.tangent
        return self.near(point, guess, NEWTON)

    def near(self, origin: Point, guess: Array, most: int = PATIENT) -> Point | None:
        """Return the point near a guess, on the plane across the tangent at another point."""
        self.equations.anchor(origin.u)
        solution = self.solved(guess, origin.tangent, most)
        if solution is None:
            return None
        return self._point(*solution, origin.tangent)

    def taken(self, u: Array, along: Array) -> Point:
        """Return a point that is as it is given."""
        self.equations.anchor(u)
        _, jacobian = self.equations.linearised(u)
        return self._point(u, jacobian, along)

    def apart(self, point: Point, other: Point) -> float:
        """Length of the difference of two tangents."""
        return self._length(point.tangent - other.tangent)

    def special(self, before: Point, after: Point) -> Events:
        """Folds, and points where eigenvalues cross the boundary of stability, between neighbouring
        points, in order.
        """
        events = self._turnings(before, after)
        turns = [length for length, *_ in events]
        reach = NEAR * abs(_distance(before, after))
        for length, kind, point in self._changes(before, after):
            # the eigenvalue that is zero at a fold or a branch point is no second event
            is_at_turn = any(abs(length - turn) < reach for turn in turns)
            if kind == "branch point" and is_at_turn:
                continue
            events.append((length, kind, point))
        events.sort(key=lambda event: event[0])
        return [(kind, point) for _, kind, point in events]

    def _turnings(self, before: Point, after: Point) -> list[Located]:
        """Point where the parameter turns back, one at most."""
        if not self._turns(before, after):
            return []
        turn = self._located(before, after, lambda point: point.tangent[-1])
        if turn is None:
            return []
        length, point = turn
        kind = "fold"
        if self._crosses(before, after):
            kind = "branch point"
        return [(length, kind, point)]

    def solved(self, u: Array, along: Array, most: int, *, left: float = 1e-5) -> Solution | None:
        """Newton's method on the plane through u across `along`: the point and the Jacobian there.

        `left`: part of a residual that Newton's last step leaves, in units of its derivative, for
        it to be none.
        """
        origin = u
        for _ in range(most):
            residual, jacobian = self.equations.linearised(u)
            if not np.isfinite(jacobian).all():
                return None
            rate = _largest(jacobian)
            matrix = np.vstack([jacobian / rate, along])
            off_plane = (u - origin) @ along
            defect = np.append(residual / rate, off_plane)
            move = self._least(matrix, -defect)
            u = u + move
            size = max(1.0, np.abs(u).max())
            if np.abs(move).max() >= ACCURACY * size:
                continue
            # where no move lessens a residual, as at the minimum of one, there is no solution
            missed = np.abs(matrix @ move + defect)
            rows = np.abs(matrix).max(axis=1)
            if (missed > left * size * rows).any():
                return None
            return u, self.equations.update_jacobian(u, jacobian)
        return None

    def _least(self, matrix: Array, target: Array) -> Array:
        """Return the shortest move (k,) that solves equations and plane (k, k), and keeps what they
        conserve.

        A symmetry makes the matrix singular, and the shortest move has no share along it; so does a
        quantity that the field conserves, whose value at the start goes on to hold.
        """
        move, _, rank, _ = np.linalg.lstsq(matrix, target, rcond=self.equations.rank)
        if rank == len(matrix):
            return move
        gradients = self._conserved(matrix)
        if not len(gradients):
            return move
        kept = np.zeros(len(gradients))
        extended = np.vstack([matrix, gradients])
        return np.linalg.lstsq(extended, np.append(target, kept), rcond=self.equations.rank)[0]

    def _conserved(self, matrix: Array, *, conserved: float = 1e-6) -> Array:
        """(m, k) gradients of quantities that the equations conserve, none where they choose no
        solution among a family.

        `conserved`: least cosine between the directions of conserved quantities and those
        of their families of solutions, the root of what counts as zero: at a right angle a
        quantity does not choose a solution.
        """
        left, values, _ = np.linalg.svd(matrix[:-1])
        _, all_values, right = np.linalg.svd(matrix)
        zero = self.equations.rank * values[0]
        size = matrix.shape[1] - self.equations.tail
        # combinations of the rates that are zero at all states
        gradients = np.zeros((int((values <= zero).sum()), matrix.shape[1]))
        gradients[:, :size] = left.T[len(values) - len(gradients) :, :size]
        family = right[all_values <= zero]
        cosines = np.linalg.svd(gradients @ family.T, compute_uv=False)
        if len(family) < len(gradients) or cosines.min(initial=1.0) < conserved:
            return gradients[:0]
        return gradients

    def direction(self, move: Array) -> Array:
        """Return a move of length one."""
        return move / self._length(move)

    def _step(self, point: Point, step: float) -> tuple[Point, float] | None:
        """Return the next point and the step to it, halved until Newton's method gets there."""
        while step >= SMALLEST:
            ahead = self.ahead(point, step)
            if ahead is not None and self._continues(point, ahead, step):
                return ahead, step
            step /= 2
        return None

    def _follows(self, point: Point, ahead: Point, step: float, *, bent: float = 2 / 3) -> bool:
        """Tell whether the point ahead lies on the same branch as one before.

        A branch whose tangent turns by an angle leaves its first tangent by less than the step
        times that angle; a point farther off is one of another branch, or the step hides a bend.
        Where another branch seems to be crossed, the two may come near and part instead.

        `bent`: distance of a point from the tangent of the one before, in steps times the
        turn of the tangent: a half where the curvature stays, so much where it falls to
        zero within the step.
        """
        turned = self.apart(ahead, point)
        correction = ahead.u - point.u - step * point.tangent
        # in the plane of a step, which counts components, and not their mean, it may lean backwards
        backwards = self._product(correction, point.tangent)
        off = self._length(correction - backwards * point.tangent)
        size = max(1.0, np.abs(ahead.u).max())
        return bool(turned < BEND and off <= bent * step * turned + OFF * size)

    def _meets(self, before: Point, after: Point, *, bisections: int = 8) -> bool:
        """Tell whether a branch between two points runs up to where another one crosses it.

        `bisections`: halvings of a step over a branch point, so that a gap of a 256th of it
        between two branches that do not meet is seen.
        """
        for _ in range(bisections):
            half = _distance(before, after) / 2
            middle = self.ahead(before, half)
            # next to a branch point Newton's method may fail
            if middle is None:
                return True
            if not self._follows(before, middle, half):
                return False
            if self._crosses(before, middle):
                after = middle
            else:
                before = middle
        return True

    def _reason(self, first: Point, point: Point, ahead: Point) -> str:
        """Why a branch ends at the point ahead, or nothing."""
        if not 0 <= ahead.u[-1] <= 1:
            return "range"
        # an orbit that went through an equilibrium crosses this plane backwards
        self.equations.anchor(point.u)
        if self.equations.at_rest(ahead.u):
            return "equilibrium"
        if self._returns(first, point, ahead):
            return "closed"
        return ""

    def _end_point(self, point: Point, ahead: Point) -> Point:
        """Return the point at the end of the range, between two."""
        bound = float(ahead.u[-1] > 1)

        located = self._located(point, ahead, lambda point: point.u[-1] - bound)
        return ahead if located is None else located[1]

    def _returns(self, first: Point, point: Point, ahead: Point) -> bool:
        """Tell whether the first point lies on the step from a point to the one ahead."""
        if point is first:
            return False
        to_first = first.u - point.u
        from_first = ahead.u - first.u
        if to_first @ first.tangent <= 0 or from_first @ first.tangent < 0:
            return False
        step = self._length(ahead.u - point.u)
        distance = max(self._length(to_first), self._length(from_first))
        is_parallel = self.apart(ahead, first) < 2 * BEND
        return bool(distance <= step and is_parallel)

    def _longest(self, point: Point) -> float:
        """Longest step from a point: a part of the range, and of the size of the state."""
        tail = self.equations.tail
        state = point.u[:-tail]
        size = max(1.0, _mean_root(state))
        of_state = _mean_root(point.tangent[:-tail]) / size
        of_tail = np.abs(point.tangent[-tail:]).max()
        return LARGEST / max(of_tail, of_state)

    def _turns(self, before: Point, after: Point) -> bool:
        """Tell whether the parameter turns back, by more than rounding."""
        begin = before.tangent[-1]
        end = after.tangent[-1]
        if (begin >= 0) == (end >= 0):
            return False
        return max(abs(begin), abs(end)) > TURN

    def _crosses(self, before: Point, after: Point, *, zero: int = 100) -> bool:
        """Tell whether another branch crosses between two points: the determinant of the equations
        with the tangent changes its sign there, and at a fold it does not.

        `zero`: singular value of a symmetry along a branch, in units of what counts as zero
        for Newton's method.
        """
        border = _bordered(before)
        border_after = _bordered(after)
        left, values, right = np.linalg.svd(border)
        # a symmetry has singular values that are zero all along: these directions are filled in
        smallest = zero * self.equations.rank * values[0]
        null = values <= smallest
        filled = values[0] * left[:, null] @ right[null]
        sign, _ = np.linalg.slogdet(border + filled)
        sign_after, _ = np.linalg.slogdet(border_after + filled)
        return bool(sign * sign_after < 0)

    def _continues(self, point: Point, ahead: Point, step: float) -> bool:
        """Tell whether a point follows another, and no branch that crosses was taken for it."""
        if not self._follows(point, ahead, step):
            return False
        return not self._crosses(point, ahead) or self._meets(point, ahead)

    def _changes(self, before: Point, after: Point) -> Iterator[Located]:
        """Yield changes of stability."""
        crossing, upper = sorted((before.unstable, after.unstable))
        while crossing < upper:
            located = self._located(before, after, _growth(crossing))
            if located is None:
                return
            length, point = located
            is_pair = False
            if crossing + 1 < upper:
                is_pair = self.equations.is_pair(point.values, crossing)
            kind = self.equations.bifurcation(point.values[crossing], is_pair)
            yield length, kind, point
            crossing += 1
            if is_pair:
                crossing += 1

    def _located(
        self,
        before: Point,
        after: Point,
        test: Test,
        *,
        around: Floats = (0.1, 0.01, 0.001),
    ) -> Sample | None:
        """Return distance from a point and the point between it and the next where a test function
        changes its sign; None where that is rounding.

        `around`: distances from a branch point, relative to the step, of points that it is
        interpolated from.
        """
        if test(before) * test(after) > 0:
            return None
        stretch = _Stretch(self, before, after)
        root = stretch.root(test)
        if not stretch.knows(root):
            # Newton's method fails near a branch point: it is between points that come nearer
            for share in around:
                stretch.look(root - share * stretch.step)
                stretch.look(root + share * stretch.step)
                root = stretch.root(test)
        return root, stretch.at(root)

    def _point(self, u: Array, jacobian: Array, along: Array) -> Point:
        # the plane of the phase goes through u itself, else the tangent would be in another one
        phase = self.equations.anchor(u)
        count = len(jacobian) - len(phase)
        jacobian = np.vstack([jacobian[:count], phase])
        matrix = np.vstack([jacobian / _largest(jacobian), along])
        target = np.eye(len(u))[-1]
        tangent = self._least(matrix, target)
        values, growth = self.equations.spectrum(u, jacobian)
        return Point(u, self.direction(tangent), jacobian, values, growth)

    def _length(self, move: Array) -> float:
        """Length of a move along a branch, where states have their root mean square, whatever their
        number.
        """
        return float(np.sqrt(self._product(move, move)))

    def _product(self, move: Array, other: Array) -> float:
        """Return product of two moves whose square is that of a length."""
        state, tail = np.split(move * other, [-self.equations.tail])
        return float(state.mean() + tail.sum())


class _Stretch:
    """The branch between two neighbouring points.

    Attributes:
        step: distance of the points.
        known: distances from the first point, in order, and the points there.
    """

    def __init__(self, branch: Branch, before: Point, after: Point):
        self.branch = branch
        self.before = before
        self.step = _distance(before, after)
        self.known = {0.0: before, self.step: after}

    def root(self, test: Test) -> float:
        """Return distance where a test function of points is zero; it is interpolated where
        Newton's method fails.
        """

        def value(length: float) -> float:
            if self.look(length):
                return test(self.at(length))
            left, right, share = self._neighbours(length)
            return (1 - share) * test(left) + share * test(right)

        accuracy = 1e-12 * max(1.0, self.step)
        return brentq(value, 0.0, self.step, xtol=accuracy, rtol=1e-12)

    def knows(self, length: float) -> bool:
        """Tell whether there is a point at this distance."""
        return length in self.known

    def look(self, length: float) -> bool:
        """Solve at a distance; whether there is a point."""
        if not 0 <= length <= self.step:
            return False
        if self.knows(length):
            return True
        guess = self._guess(length)
        point = self.branch.near(self.before, guess)
        if point is None:
            return False
        # near a branch point Newton's method may reach the branch that crosses
        if self.branch.apart(point, self.before) > 2 * BEND:
            return False
        self.known[length] = point
        return True

    def at(self, length: float) -> Point:
        """Return the point at a distance, or the one that its neighbours give."""
        if length in self.known:
            return self.known[length]
        return self.branch.taken(self._guess(length), self.before.tangent)

    def _guess(self, length: float) -> Array:
        left, right, share = self._neighbours(length)
        return left.u + share * (right.u - left.u)

    def _neighbours(self, length: float) -> tuple[Point, Point, float]:
        """Known points at most, and at least, so far, and the share of the way between them."""
        places = sorted(self.known)
        after = min(max(bisect.bisect_right(places, length), 1), len(places) - 1)
        low, high = places[after - 1 : after + 1]
        return self.known[low], self.known[high], (length - low) / (high - low)


def _largest(jacobian: Array) -> float:
    """Return unit of the equations, so that a slow field has no smaller rank than a fast one."""
    return float(np.abs(jacobian).max().clip(TINY))


def _bordered(point: Point) -> Array:
    """(k, k) the equations at a point, in their unit, with the tangent below."""
    equations = point.jacobian / _largest(point.jacobian)
    return np.vstack([equations, point.tangent])


def _distance(before: Point, after: Point) -> float:
    """Step along the tangent of a point whose plane holds the next one."""
    tangent = before.tangent
    along = float((after.u - before.u) @ tangent)
    square = float(tangent @ tangent)
    return along / square


def _is_allowed(point: Point) -> bool:
    """Tell whether the parameter is in its range, but for rounding."""
    parameter = point.u[-1]
    return bool(-TURN <= parameter <= 1 + TURN)


def _mean_root(state: Array) -> float:
    return float(np.sqrt((state**2).mean()))


def _growth(place: int) -> Callable[[Point], float]:
    """Return the function that gives this growth of a point."""
    return lambda point: float(point.growth[place])
