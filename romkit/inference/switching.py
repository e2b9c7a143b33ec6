"""First points of the branches that leave a special point."""

from typing import NamedTuple

import numpy as np

from romkit.inference.arclength import Branch, Point
from romkit.inference.equations import Equilibria

HALVINGS = 8
"""Times that an amplitude is halved where no solution is found."""


class Start(NamedTuple):
    """A special point, and the direction of the branch that leaves it.

    Attributes:
        u: unknowns of the branch that leaves, at its special point.
        across: (k,) direction that the branch leaves in, of length one.
        curvature: (k,) second-order part of the branch: u + a · across + a² · curvature.
    """

    u: np.ndarray
    across: np.ndarray
    curvature: np.ndarray


def leaving(branch: Branch, start: Start, amplitude: float) -> Point | None:
    """The first point of a branch that leaves another one; None if none is found.

    The amplitude is halved until Newton's method gets there: all errors of the guess are of third
    order, those of the linearised equations of first.
    """
    onward = np.sign(amplitude) * start.across
    for _ in range(HALVINGS):
        guess = start.u + amplitude * start.across + amplitude**2 * start.curvature
        point = branch.through(guess, start.across, onward)
        if point is not None:
            return point
        amplitude /= 2
    return None


def crossing(branch: Branch, u: np.ndarray, along: np.ndarray) -> Start:
    """The branch that crosses this one, whose tangent is `along`, at a branch point u."""
    branch.equations.anchor(u)
    _, jacobian = branch.equations.linearised(u)
    _, _, right = np.linalg.svd(np.vstack([jacobian, along]))
    null = right[-1]
    return Start(u, _oriented(branch, null - _along(null, along)), 0 * u)


def doubled(branch: Branch, u: np.ndarray, along: np.ndarray) -> Start:
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
    vector = _vector(equations.linear(jacobian), -1.0).real
    across = np.append(vector, np.zeros(equations.tail))
    return Start(u, _oriented(branch, across - _along(across, along)), 0 * u)


def hopf(rest: Equilibria, u: np.ndarray, frequency: float) -> tuple[np.ndarray, ...]:
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
    q = q / np.sqrt((q.real**2).mean())
    r, s = q.real, q.imag
    B_rr, B_ss, plus, minus = rest.bent(u, np.stack([r, s, r + s, r - s]))
    B_rs = (plus - minus) / 4  # by polarisation
    B_qq, B_q_conjugate = B_rr - B_ss + 2j * B_rs, B_rr + B_ss
    # A may be singular, where a symmetry makes it so
    h11, *_ = np.linalg.lstsq(A, -B_q_conjugate, rcond=rest.rank)
    twice = 2j * frequency * np.eye(len(A)) - A
    h20, *_ = np.linalg.lstsq(twice, B_qq, rcond=rest.rank)
    # the largest component grows first, so that the sign of an eigenvector does not matter
    sign = np.sign(r[np.argmax(abs(r))])
    return sign * r, (h11 + h20.real) / 4


def of_orbits(u: np.ndarray, direction: np.ndarray, bend: np.ndarray) -> Start:
    """Start of orbits at a Hopf point, as unknowns of orbits u (d + 2,)."""
    return Start(u, np.append(direction, [0.0, 0.0]), np.append(bend, [0.0, 0.0]))


def _vector(matrix: np.ndarray, value: complex) -> np.ndarray:
    """Eigenvector (d,) of an eigenvalue, whose real part is longest and across its imaginary part."""
    values, vectors = np.linalg.eig(matrix)
    vector = vectors[:, np.argmin(abs(values - value))]
    return vector * np.exp(-0.5j * np.angle(vector @ vector))


def _along(vector: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Projection of a vector onto a direction."""
    return (vector @ along) / (along @ along) * along


def _oriented(branch: Branch, across: np.ndarray) -> np.ndarray:
    """Direction of length one whose largest number is positive."""
    return branch.direction(np.sign(across[np.argmax(abs(across))]) * across)
