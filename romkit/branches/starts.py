"""First points of branches: from a state, or from a special point of another branch."""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from romkit.branches.arclength import Branch, Point
from romkit.branches.equations import TINY, Equations, Equilibria, Orbits
from romkit.branches.line import Line
from romkit.core.errors import InputError
from romkit.core.types import Array, ArrayPair

LEAVING = ("branch point", "Hopf", "period doubling")
"""Special points that another branch leaves."""


AIMED = 3
"""Solutions by which the direction of a branch is found, each aimed at by the one before."""


class Start(NamedTuple):
    """A special point, and the direction of the branch that leaves it.

    Attributes:
        u: unknowns of the branch that leaves, at its special point.
        across: (k,) direction that the branch leaves in, of length one.
        curvature: (k,) second-order part of the branch: u + a · across + a² · curvature.
    """

    u: Array
    across: Array
    curvature: Array


def leaving(branch: Branch, start: Start, amplitude: float, *, halvings: int = 8) -> Point | None:
    """Return the first point of a branch that leaves another one; None if none is found.

    The amplitude is halved until Newton's method gets there: all errors of the guess are of third
    order, those of the linearised equations of first.

    `halvings`: times that an amplitude is halved where no solution is found.
    """
    onward = np.sign(amplitude) * start.across
    for _ in range(halvings):
        bend = amplitude**2 * start.curvature
        guess = start.u + amplitude * start.across + bend
        point = branch.through(guess, start.across, onward)
        if point is not None and 0 <= point.u[-1] <= 1:
            return point
        amplitude /= 2
    return None


def crossing(
    branch: Branch,
    u: Array,
    along: Array,
    several: int,
    number: int,
    amplitude: float,
    *,
    alike: float = 0.02,
) -> Start | None:
    """Return a branch that crosses this one, whose tangent is `along`, at a branch point u.

    Where several eigenvalues cross zero at once, branches of different kinds may leave: `number`
    counts them. Copies that a symmetry makes of one have the same parameter and spectrum, and are
    one kind.

    Args:
        branch: of the equations.
        u: the branch point.
        along: tangent of the branch.
        several: eigenvalues that cross there.
        number: of the kind, from zero.
        amplitude: distance at which branches are sought.
        alike: difference of parameters and growth, relative to the largest, of two branches of one
            kind.

    Source: Golubitsky, Stewart, Schaeffer, Singularities and Groups in Bifurcation Theory II,
    chapter XIII, for the kinds.
    """
    branch.equations.anchor(u)
    _, jacobian = branch.equations.linearised(u)
    border = np.vstack([jacobian, along])
    _, _, right = np.linalg.svd(border)
    null = right[-several:]  # (m, k)
    basis = np.array([vector - _project(vector, along) for vector in null])
    if several == 1:
        return Start(u, _oriented(branch, basis[0]), 0 * u)
    kinds: list[ArrayPair] = []
    for share in _shares(several):
        direction = _direction(branch, u, basis, share, abs(amplitude))
        if direction is None:
            continue
        across, signature = direction
        if not any(np.abs(signature - function).max() < alike for function, _ in kinds):
            kinds.append((signature, across))
    if not kinds:
        return None
    kinds.sort(key=lambda kind: tuple(kind[0].round(3)))
    _, across = kinds[number % len(kinds)]
    return Start(u, across, 0 * u)


def _shares(count: int, *, half_circle: int = 24) -> Array:
    """(N, m) directions in a null space, evenly of a half circle or at random on a sphere.

    `half_circle`: directions of a plane in which branches are sought: less than 8 degrees from
    any of them, where rings of up to eleven cells have them 16 degrees apart.
    """
    if count == 2:
        angles = np.pi * np.arange(half_circle) / half_circle
        return np.column_stack([np.cos(angles), np.sin(angles)])
    normal = np.random.default_rng(0).standard_normal((half_circle * count, count))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


def _direction(
    branch: Branch, u: Array, basis: Array, share: Array, amplitude: float
) -> ArrayPair | None:
    """Direction in a null space of the branch that is met from this share (m,) of its basis (m, k),
    and what tells its kind: parameter and growth at the amplitude, relative to it.
    """
    for _ in range(AIMED):
        across = branch.direction(share @ basis)
        guess = _distinct_point(branch, u + amplitude * across, basis)
        point = branch.through(guess, across, across)
        if point is None:
            return None
        chord = point.u - u
        share, *_ = np.linalg.lstsq(basis.T, chord, rcond=None)
        inside = share @ basis
        # Newton's method may come back to the branch that is crossed
        if np.linalg.norm(inside) < np.linalg.norm(chord) / 2:
            return None
    across = branch.direction(inside)
    assert point is not None  # of the last aim
    # those that were zero tell the kinds apart
    nearest = np.argsort(np.abs(point.growth))[: len(basis)]
    signature = np.append(point.u[-1] - u[-1], np.sort(point.growth[nearest]))
    return across, signature / np.abs(signature).max().clip(TINY)


def _distinct_point(branch: Branch, guess: Array, basis: Array) -> Array:
    """Return the point (k,) whose residual is least among those that differ from a guess across a
    null space alone, so by the parameter: in it the derivatives at the guess itself are zero.
    """
    for _ in range(AIMED):
        residual, jacobian = branch.equations.linearised(guess)
        matrix = np.vstack([jacobian, basis * np.abs(jacobian).max()])
        target = np.append(-residual, np.zeros(len(basis)))
        guess = guess + np.linalg.lstsq(matrix, target, rcond=branch.equations.rank)[0]
    return guess


def doubled(branch: Branch, u: Array, along: Array) -> Start:
    """Return the orbit of twice the period that leaves a period doubling u.

    Args:
        branch: of single orbits.
        u: special point.
        along: tangent of the branch there.
    """
    equations = branch.equations
    equations.anchor(u)
    _, jacobian = equations.linearised(u)
    # a perturbation along it is its negative after a period, and itself after two
    flip = _vector(equations.linear(jacobian), -1.0).real
    flip = np.append(flip, np.zeros(equations.tail))
    across = flip - _project(flip, along)
    return Start(u, _oriented(branch, across), 0 * u)


def hopf(rest: Equilibria, u: Array, frequency: float) -> ArrayPair:
    """Orbits near a Hopf point u, to second order in the amplitude.

    With A q = iω q an orbit is w = w* + Re(a q e^{iωt}) + a²/4 (h₁₁ + Re(h₂₀ e^{2iωt})), where A
    h₁₁ = -B(q, q̄), (2iω - A) h₂₀ = B(q, q), and B is the second derivative of the field.

    Returns:
        (d,) direction Re q with mean square one, where the field is across; and the second-order
        part at time 0.

    Source: Kuznetsov, Elements of Applied Bifurcation Theory, section 5.4.
    """
    _, jacobian = rest.linearised(u)
    A = rest.linear(jacobian)
    q = _vector(A, 1j * frequency)
    size = np.sqrt((q.real**2).mean())
    q = q / size
    r = q.real
    s = q.imag
    moves = np.stack([r, s, r + s, r - s])
    B_rr, B_ss, plus, minus = rest.bent(u, moves)
    B_rs = (plus - minus) / 4  # by polarisation
    B_qq = B_rr - B_ss + 2j * B_rs
    B_q_conjugate = B_rr + B_ss
    # A may be singular, where a symmetry makes it so
    h11, *_ = np.linalg.lstsq(A, -B_q_conjugate, rcond=rest.rank)
    identity = np.eye(len(A))
    twice = 2j * frequency * identity - A
    h20, *_ = np.linalg.lstsq(twice, B_qq, rcond=rest.rank)
    # the largest component grows first, so that the sign of an eigenvector does not matter
    return _largest_positive(r), (h11 + h20.real) / 4


def start_orbits(u: Array, direction: Array, bend: Array) -> Start:
    """Start of orbits at a Hopf point, as unknowns of orbits u (d + 2,)."""
    # period and parameter stay to second order
    across = np.append(direction, [0.0, 0.0])
    curvature = np.append(bend, [0.0, 0.0])
    return Start(u, across, curvature)


def _vector(matrix: Array, value: complex) -> Array:
    """Eigenvector (d,) of an eigenvalue, whose real part is longest and across its imaginary part."""
    values, vectors = np.linalg.eig(matrix)
    nearest = np.argmin(abs(values - value))
    vector = vectors[:, nearest]
    phase = np.angle(vector @ vector)
    return vector * np.exp(-0.5j * phase)


def _project(vector: Array, along: Array) -> Array:
    """Return projection of a vector onto a direction."""
    share = (vector @ along) / (along @ along)
    return share * along


def _oriented(branch: Branch, across: Array) -> Array:
    """Direction of length one whose largest number is positive."""
    return branch.direction(_largest_positive(across))


def _largest_positive(vector: Array) -> Array:
    """Return a vector, or its negative, whose largest number is positive."""
    largest = np.argmax(abs(vector))
    return np.sign(vector[largest]) * vector


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
    time = equations.period * u[-2]
    for _ in range(returns):
        end = equations.ends(parameter, w[None], time)[0]
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
    period = equations.period * u[-2]
    states = [u[:-2]]
    for _ in range(twelfths - 1):
        ends = equations.ends(u[-1:], states[-1][None], period / twelfths)
        states.append(ends[0])
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
