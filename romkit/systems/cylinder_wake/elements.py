"""Finite elements of the channel with a cylinder: quadratic velocities, linear pressures."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import scipy
from torch import Tensor

from romkit.core import checks
from romkit.core.types import Array, Floats

CENTRE = (0.2, 0.2)
RADIUS = 0.05
MEAN_INFLOW = 1.0
"""Lengths of the channel and of the cylinder in m, and velocity in m/s (Schäfer & Turek 1996)."""

if TYPE_CHECKING:  # a quarter of a second, which other systems are spared
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import SuperLU

    Matrix: TypeAlias = csr_array
else:
    Matrix = SuperLU = object

T = TypeVar("T", Array, Tensor)

MESHES = {
    file.stem.removeprefix("mesh-"): file
    for file in sorted(Path(__file__).parent.glob("mesh-*.npz"))
}
"""Meshes that ship with romkit, by name, made once with gmsh (studies/wake/README.md)."""


@dataclass(frozen=True, eq=False)
class Discretisation:
    """Matrices and boundary values on one mesh. Velocities have n components, pressures have k.

    Attributes:
        places: (n, 2) where each velocity component sits, and `along` (n,) in which direction it
            points, 0 or 1.
        mass, stiffness: (n, n) of velocities.
        divergence: (k, n), negative, tested by pressures.
        sampled: (6 q, n) values and gradients (u, v, uₓ, u_y, vₓ, v_y) at q quadrature points.
        tested: (n, 2 q) integrals against velocities, of a vector that is given at these points.
        free: velocities that no boundary condition fixes.
        inflow: (n,) boundary values of the velocity.
        cylinder: velocities on the cylinder.
    """

    places: Array
    along: Array
    mass: Matrix
    stiffness: Matrix
    divergence: Matrix
    sampled: Matrix
    tested: Matrix
    free: Array
    inflow: Array
    cylinder: Array

    @property
    def n(self) -> int:
        return len(self.inflow)

    def convection(self, a: Array, b: Array) -> Array:
        """∫ (a · ∇) b · test (n, ...) of velocities a and b (n, ...)."""
        changes = convected(list(self._point_values(a)), list(self._point_values(b)))
        return self.tested @ np.concatenate(changes)

    def linearised_convection(self, u: Array) -> Matrix:
        """(n, n): δ -> (u · ∇) δ + (δ · ∇) u, tested."""
        x, y, ux, uy, vx, vy = (scipy.sparse.diags_array(value) for value in self._point_values(u))
        points = x.shape[0]
        operators = []
        for k in range(6):
            begin = k * points
            operators.append(self.sampled[begin : begin + points])
        X, Y, dUx, dUy, dVx, dVy = operators
        along = x @ dUx + y @ dUy + ux @ X + uy @ Y
        across = x @ dVx + y @ dVy + vx @ X + vy @ Y
        return (self.tested @ scipy.sparse.vstack([along, across])).tocsr()

    def saddle(self, block: Matrix) -> SuperLU:
        """Return the factors of [[A, Bᵀ], [B, 0]] on what is free."""
        A = block[self.free][:, self.free]
        B = self.divergence[:, self.free]
        matrix = scipy.sparse.block_array([[A, B.T], [B, None]])
        return scipy.sparse.linalg.splu(matrix.tocsc(), permc_spec="COLAMD")

    @functools.cached_property
    def leray(self) -> SuperLU:
        """`saddle` of the mass matrix: its velocities are the divergence-free part of what is
        tested.
        """
        return self.saddle(self.mass)

    def solve(self, factors: SuperLU, tested: Array, divergence: Array | None = None) -> Array:
        """Return velocities (n, ...), zero where they are fixed, of a system by `saddle`, with
        right-hand sides.
        """
        if divergence is None:
            pressures = self.divergence.shape[0]
            divergence = np.zeros((pressures, *tested.shape[1:]))
        right = np.concatenate([tested[self.free], divergence])
        solution = factors.solve(right)
        velocities = np.zeros(tested.shape)
        # pressures stand behind the velocities
        velocities[self.free] = solution[: len(self.free)]
        return velocities

    @functools.cached_property
    def force_functionals(self) -> Array:
        """(n, 2) φ with drag and lift = -φᵀ (N(u, u) + ν K u), without pressure or acceleration.

        φ is 1 along its direction on the cylinder, 0 on the other walls, free of divergence, and
        orthogonal to all admissible accelerations: what the momentum equation leaves on the
        cylinder is then all that φ sees (Quartapelle and Napolitano 1983, here for the discrete
        equations, without error).
        """
        unit = np.zeros((self.n, 2))
        direction = self.along[self.cylinder]
        unit[self.cylinder, direction] = 1.0
        tested = -(self.mass @ unit)
        return unit + self.solve(self.leray, tested, -(self.divergence @ unit))

    def _point_values(self, u: Array) -> Array:
        """(6, q, ...)."""
        values = self.sampled @ u
        return values.reshape(6, -1, *u.shape[1:])


def convected(a: Sequence[T], b: Sequence[T]) -> tuple[T, T]:
    """Return (a · ∇) b along and across, from u, v, uₓ, u_y, vₓ and v_y of both at points."""
    u, v, *_ = a
    _, _, ux, uy, vx, vy = b
    along = u * ux + v * uy
    return along, u * vx + v * vy


@functools.lru_cache(maxsize=4)
def discretisation(
    mesh: str, *, height: float = 0.41, mean_inflow: float = 1.0, quadrature: int = 5
) -> Discretisation:
    """Return the finite elements on a mesh of `MESHES`.

    Args:
        mesh: its name.
        height: of the channel in m (Schäfer & Turek 1996).
        mean_inflow: velocity in m/s (the same).
        quadrature: order of the convective term, which is of this degree: it is integrated without
            error.

    Raises:
        InputError: scikit-fem is not installed.
    """
    skfem = checks.extra("CylinderWake", "skfem", "flow")
    from skfem.helpers import ddot, div, dot, grad

    stored = np.load(MESHES[mesh], allow_pickle=False)
    triangles = stored["triangles"].astype(np.int64)
    grid = skfem.MeshTri(stored["points"], triangles)
    # quadratic velocities and linear pressures are stable together (Taylor and Hood)
    quadratic = skfem.ElementVector(skfem.ElementTriP2())
    velocity = skfem.Basis(grid, quadratic)
    pressure = velocity.with_element(skfem.ElementTriP1())
    sampled, tested = _point_values(skfem.Basis(grid, quadratic, intorder=quadrature))
    places = velocity.doflocs.T
    along = np.zeros(velocity.N, dtype=int)
    vertical = np.concatenate([velocity.nodal_dofs[1], velocity.facet_dofs[1]])
    along[vertical] = 1
    wall, cylinder, inlet = _boundaries(velocity, height)
    fixed = np.concatenate([wall, cylinder, inlet])
    entering = inlet[along[inlet] == 0]
    y = places[entering, 1]
    inflow = np.zeros(velocity.N)
    inflow[entering] = 6 * mean_inflow * y * (height - y) / height**2
    mass = skfem.BilinearForm(lambda u, v, w: dot(u, v))
    stiffness = skfem.BilinearForm(lambda u, v, w: ddot(grad(u), grad(v)))
    divergence = skfem.BilinearForm(lambda u, q, w: div(u) * q)
    return Discretisation(
        places=places,
        along=along,
        mass=_csr(mass.assemble(velocity)),
        stiffness=_csr(stiffness.assemble(velocity)),
        divergence=_csr(-divergence.assemble(velocity, pressure)),
        sampled=sampled,
        tested=tested,
        free=np.setdiff1d(np.arange(velocity.N), fixed),
        inflow=inflow,
        cylinder=cylinder,
    )


def _boundaries(
    velocity: Any, height: float, *, centre: Floats = (0.2, 0.2), radius: float = 0.05
) -> tuple[Array, ...]:
    """Return velocity components on the channel's walls, on the cylinder (Schäfer & Turek 1996),
    and at the inlet; the outlet is free of stress.
    """
    tolerance = 1e-9

    def on_cylinder(x: Array) -> Array:
        distance = np.hypot(x[0] - centre[0], x[1] - centre[1])
        return distance < 1.002 * radius

    components = []
    for condition in (
        lambda x: (x[1] < tolerance) | (x[1] > height - tolerance),
        on_cylinder,
        lambda x: x[0] < tolerance,
    ):
        facets = velocity.mesh.facets_satisfying(condition, boundaries_only=True)
        components.append(np.unique(velocity.get_dofs(facets).all()))
    return tuple(components)


def _point_values(basis: Any) -> tuple[Matrix, Matrix]:
    """Return the matrices `sampled` and `tested` of a basis of vectors."""
    cells, points = basis.dx.shape
    numbers = np.arange(cells * points)  # of the quadrature points, cell by cell
    rows, columns = [], []
    values: list[list[Array]] = [
        [] for _ in range(6)
    ]  # u, v, uₓ, u_y, vₓ, v_y of every shape function
    for k in range(basis.Nbfun):
        shape = basis.basis[k][0]
        value = np.broadcast_to(np.asarray(shape), (2, cells, points))
        slope = np.broadcast_to(shape.grad, (2, 2, cells, points))
        slope = slope.reshape(4, cells, points)
        rows.append(numbers)
        columns.append(np.repeat(basis.element_dofs[k], points))
        for column, quantity in zip(values, (*value, *slope), strict=True):
            column.append(quantity.ravel())
    places = np.concatenate(rows), np.concatenate(columns)
    size = (len(numbers), basis.N)
    matrices = []
    for column in values:
        matrix = scipy.sparse.csr_array((np.concatenate(column), places), size)
        matrices.append(_csr(matrix))
    weights = scipy.sparse.diags_array(np.tile(basis.dx.ravel(), 2))
    sampled = scipy.sparse.vstack(matrices)
    tested = weights @ scipy.sparse.vstack(matrices[:2])
    return _csr(sampled), _csr(tested.T)


def _csr(matrix: object) -> Matrix:
    """Return a sparse matrix by rows, without zeros that are stored."""
    csr = scipy.sparse.csr_array(matrix)
    csr.eliminate_zeros()
    return csr
