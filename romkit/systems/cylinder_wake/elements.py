"""Finite elements of the channel with a cylinder: quadratic velocities, linear pressures."""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from romkit.core import checks

HEIGHT, CENTRE, RADIUS, MEAN_INFLOW = 0.41, (0.2, 0.2), 0.05, 1.0
"""Lengths of the channel and of the cylinder in m, and velocity in m/s (Schäfer & Turek 1996)."""

MESHES = {
    file.stem.removeprefix("mesh-"): file
    for file in sorted(Path(__file__).parent.glob("mesh-*.npz"))
}
"""Meshes that ship with romkit, by name, made once with gmsh (studies/wake/README.md)."""

QUADRATURE = 5
"""Order of the quadrature of the convective term, which is of this degree: it is integrated without
error.
"""


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

    places: np.ndarray
    along: np.ndarray
    mass: sparse.csr_array
    stiffness: sparse.csr_array
    divergence: sparse.csr_array
    sampled: sparse.csr_array
    tested: sparse.csr_array
    free: np.ndarray
    inflow: np.ndarray
    cylinder: np.ndarray

    @property
    def n(self) -> int:
        return len(self.inflow)

    def convection(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """∫ (a · ∇) b · test (n, ...) of velocities a and b (n, ...)."""
        u, v, *_ = self._at_points(a)
        _, _, ux, uy, vx, vy = self._at_points(b)
        return self.tested @ np.concatenate([u * ux + v * uy, u * vx + v * vy])

    def linearised_convection(self, u: np.ndarray) -> sparse.csr_array:
        """(n, n): δ -> (u · ∇) δ + (δ · ∇) u, tested."""
        x, y, ux, uy, vx, vy = (sparse.diags_array(value) for value in self._at_points(u))
        X, Y, dUx, dUy, dVx, dVy = (
            self.sampled[k * x.shape[0] : (k + 1) * x.shape[0]] for k in range(6)
        )
        first, second = x @ dUx + y @ dUy + ux @ X + uy @ Y, x @ dVx + y @ dVy + vx @ X + vy @ Y
        return (self.tested @ sparse.vstack([first, second])).tocsr()

    def saddle(self, block: sparse.csr_array) -> SuperLU:
        """The factors of [[A, Bᵀ], [B, 0]] on what is free."""
        B = self.divergence[:, self.free]
        matrix = sparse.block_array([[block[self.free][:, self.free], B.T], [B, None]]).tocsc()
        return splu(matrix, permc_spec="COLAMD")

    @functools.cached_property
    def leray(self) -> SuperLU:
        """`saddle` of the mass matrix: its velocities are the divergence-free part of what is
        tested.
        """
        return self.saddle(self.mass)

    def solve(
        self, factors: SuperLU, tested: np.ndarray, divergence: np.ndarray | None = None
    ) -> np.ndarray:
        """Velocities (n, ...), zero where they are fixed, of a system by `saddle`, with right-hand
        sides.
        """
        if divergence is None:
            divergence = np.zeros((self.divergence.shape[0], *tested.shape[1:]))
        solution = factors.solve(np.concatenate([tested[self.free], divergence]))
        velocities = np.zeros(tested.shape)
        # pressures stand behind the velocities
        velocities[self.free] = solution[: len(self.free)]
        return velocities

    @functools.cached_property
    def force_functionals(self) -> np.ndarray:
        """(n, 2) φ with drag and lift = -φᵀ (N(u, u) + ν K u), without pressure or acceleration.

        φ is 1 along its direction on the cylinder, 0 on the other walls, free of divergence, and
        orthogonal to all admissible accelerations: what the momentum equation leaves on the
        cylinder is then all that φ sees (Quartapelle and Napolitano 1983, here for the discrete
        equations, without error).
        """
        unit = np.zeros((self.n, 2))
        for direction in range(2):
            unit[self.cylinder[self.along[self.cylinder] == direction], direction] = 1.0
        return unit + self.solve(self.leray, -(self.mass @ unit), -(self.divergence @ unit))

    def _at_points(self, u: np.ndarray) -> np.ndarray:
        """(6, q, ...)."""
        values = self.sampled @ u
        return values.reshape(6, -1, *u.shape[1:])


@functools.lru_cache(maxsize=4)
def discretisation(mesh: str) -> Discretisation:
    """The finite elements on a mesh of `MESHES`.

    Raises:
        InputError: scikit-fem is not installed.
    """
    skfem = checks.extra("CylinderWake", "skfem", "flow")
    from skfem.helpers import ddot, div, dot, grad

    stored = np.load(MESHES[mesh], allow_pickle=False)
    grid = skfem.MeshTri(stored["points"], stored["triangles"].astype(np.int64))
    # quadratic velocities and linear pressures are stable together (Taylor and Hood)
    velocity = skfem.Basis(grid, skfem.ElementVector(skfem.ElementTriP2()))
    pressure = velocity.with_element(skfem.ElementTriP1())
    quadrature = skfem.Basis(grid, skfem.ElementVector(skfem.ElementTriP2()), intorder=QUADRATURE)
    sampled, tested = _at_points(quadrature)
    places, along = velocity.doflocs.T, np.zeros(velocity.N, dtype=int)
    vertical = np.concatenate([velocity.nodal_dofs[1], velocity.facet_dofs[1]])
    along[vertical] = 1
    wall, cylinder, inlet = _boundaries(velocity)
    inflow = np.zeros(velocity.N)
    entering = inlet[along[inlet] == 0]
    y = places[entering, 1]
    inflow[entering] = 6 * MEAN_INFLOW * y * (HEIGHT - y) / HEIGHT**2
    mass = skfem.BilinearForm(lambda u, v, w: dot(u, v))
    stiffness = skfem.BilinearForm(lambda u, v, w: ddot(grad(u), grad(v)))
    divergence = skfem.BilinearForm(lambda u, q, w: div(u) * q)
    fixed = np.concatenate([wall, cylinder, inlet])
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


def _boundaries(velocity: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Velocity components on the channel's walls, on the cylinder, and at the inlet; the outlet is
    free of stress.
    """
    tolerance = 1e-9
    conditions = (
        lambda x: (x[1] < tolerance) | (x[1] > HEIGHT - tolerance),
        lambda x: np.hypot(x[0] - CENTRE[0], x[1] - CENTRE[1]) < 1.002 * RADIUS,
        lambda x: x[0] < tolerance,
    )
    mesh = velocity.mesh
    facets = [mesh.facets_satisfying(condition, boundaries_only=True) for condition in conditions]
    return tuple(np.unique(velocity.get_dofs(boundary).all()) for boundary in facets)


def _at_points(basis: object) -> tuple[sparse.csr_array, sparse.csr_array]:
    """The matrices `sampled` and `tested` of a basis of vectors."""
    cells, points = basis.dx.shape
    numbers = np.arange(cells * points)  # of the quadrature points, cell by cell
    rows, columns = [], []
    values = [[] for _ in range(6)]  # u, v, uₓ, u_y, vₓ, v_y of every shape function
    for k in range(basis.Nbfun):
        shape = basis.basis[k][0]
        value = np.broadcast_to(np.asarray(shape), (2, cells, points))
        slope = np.broadcast_to(shape.grad, (2, 2, cells, points)).reshape(4, cells, points)
        rows.append(numbers)
        columns.append(np.repeat(basis.element_dofs[k], points))
        for column, quantity in zip(values, (*value, *slope), strict=True):
            column.append(quantity.ravel())
    where = (np.concatenate(rows), np.concatenate(columns))
    size = (len(numbers), basis.N)
    matrices = [_csr(sparse.csr_array((np.concatenate(v), where), size)) for v in values]
    weights = sparse.diags_array(np.tile(basis.dx.ravel(), 2))
    sampled = sparse.vstack(matrices)
    tested = (weights @ sparse.vstack(matrices[:2])).T
    return _csr(sampled), _csr(tested)


def _csr(matrix: object) -> sparse.csr_array:
    """A sparse matrix by rows, without zeros that are stored."""
    csr = sparse.csr_array(matrix)
    csr.eliminate_zeros()
    return csr
