"""First points of the branches that leave a special point."""

from typing import NamedTuple

import numpy as np

from romkit.branches.arclength import Branch, Point
from romkit.branches.equations import Equilibria
from romkit.core.types import Array

HALVINGS = 8
"""Times that an amplitude is halved where no solution is found."""


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


def leaving(branch: Branch, start: Start, amplitude: float) -> Point | None:
    """The first point of a branch that leaves another one; None if none is found.

    The amplitude is halved until Newton's method gets there: all errors of the guess are of third
    order, those of the linearised equations of first.
    """
    onward = np.sign(amplitude) * start.across
    for _ in range(HALVINGS):
        bend = amplitude**2 * start.curvature
        guess = start.u + amplitude * start.across + bend
        point = branch.through(guess, start.across, onward)
        if point is not None:
            return point
        amplitude /= 2
    return None


def crossing(branch: Branch, u: Array, along: Array) -> Start:
    """The branch that crosses this one, whose tangent is `along`, at a branch point u."""
    branch.equations.anchor(u)
    _, jacobian = branch.equations.linearised(u)
    border = np.vstack([jacobian, along])
    _, _, right = np.linalg.svd(border)
    null = right[-1]
    across = null - _along(null, along)
    return Start(u, _oriented(branch, across), 0 * u)


def doubled(branch: Branch, u: Array, along: Array) -> Start:
    """The orbit of twice the period that leaves a period doubling u.

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
    across = flip - _along(flip, along)
    return Start(u, _oriented(branch, across), 0 * u)


def hopf(rest: Equilibria, u: Array, frequency: float) -> tuple[Array, Array]:
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


def of_orbits(u: Array, direction: Array, bend: Array) -> Start:
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


def _along(vector: Array, along: Array) -> Array:
    """Projection of a vector onto a direction."""
    share = (vector @ along) / (along @ along)
    return share * along


def _oriented(branch: Branch, across: Array) -> Array:
    """Direction of length one whose largest number is positive."""
    return branch.direction(_largest_positive(across))


def _largest_positive(vector: Array) -> Array:
    """A vector, or its negative, whose largest number is positive."""
    largest = np.argmax(abs(vector))
    return np.sign(vector[largest]) * vector
