"""Finite elements of the channel with a cylinder (quadratic velocities, linear pressures), and the
flow in time.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from romkit.core import checks
from romkit.core.errors import InputError

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
        x, y, ux, uy, vx, vy = (sparse.diags_array(part) for part in self._at_points(u))
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
        k = self.divergence.shape[0]
        below = np.zeros((k, *tested.shape[1:])) if divergence is None else divergence
        found = np.zeros(tested.shape)
        found[self.free] = factors.solve(np.concatenate([tested[self.free], below]))[
            : len(self.free)
        ]
        return found

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
    velocity = skfem.Basis(grid, skfem.ElementVector(skfem.ElementTriP2()))
    pressure = velocity.with_element(skfem.ElementTriP1())
    quadrature = skfem.Basis(grid, skfem.ElementVector(skfem.ElementTriP2()), intorder=QUADRATURE)
    sampled, tested = _at_points(quadrature)
    places, along = velocity.doflocs.T, np.zeros(velocity.N, dtype=int)
    along[np.concatenate([velocity.nodal_dofs[1], velocity.facet_dofs[1]])] = (
        1  # the vertical components
    )
    wall, cylinder, inlet = _boundaries(velocity)
    inflow = np.zeros(velocity.N)
    x = inlet[along[inlet] == 0]
    inflow[x] = 6 * MEAN_INFLOW * places[x, 1] * (HEIGHT - places[x, 1]) / HEIGHT**2
    return Discretisation(
        places,
        along,
        _csr(skfem.BilinearForm(lambda u, v, w: dot(u, v)).assemble(velocity)),
        _csr(skfem.BilinearForm(lambda u, v, w: ddot(grad(u), grad(v))).assemble(velocity)),
        _csr(-skfem.BilinearForm(lambda u, q, w: div(u) * q).assemble(velocity, pressure)),
        sampled,
        tested,
        np.setdiff1d(np.arange(velocity.N), np.concatenate([wall, cylinder, inlet])),
        inflow,
        cylinder,
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
    return tuple(np.unique(velocity.get_dofs(each).all()) for each in facets)


def _at_points(basis: object) -> tuple[sparse.csr_array, sparse.csr_array]:
    """The matrices `sampled` and `tested` of a basis of vectors."""
    cells, points = basis.dx.shape
    row = np.arange(cells * points).reshape(cells, points)
    rows, columns, values = [], [], [[] for _ in range(6)]
    for k in range(basis.Nbfun):
        shape = basis.basis[k][0]
        value = np.broadcast_to(np.asarray(shape), (2, cells, points))
        slope = np.broadcast_to(shape.grad, (2, 2, cells, points))
        rows.append(row.ravel())
        columns.append(np.repeat(basis.element_dofs[k], points))
        for store, part in zip(values, (*value, *slope.reshape(4, cells, points)), strict=True):
            store.append(part.ravel())
    where = (np.concatenate(rows), np.concatenate(columns))
    parts = [
        _csr(sparse.csr_array((np.concatenate(v), where), (row.size, basis.N))) for v in values
    ]
    weights = sparse.diags_array(np.tile(basis.dx.ravel(), 2))
    return _csr(sparse.vstack(parts)), _csr((weights @ sparse.vstack(parts[:2])).T)


def _csr(matrix: object) -> sparse.csr_array:
    """A sparse matrix by rows, without zeros that are stored."""
    csr = sparse.csr_array(matrix)
    csr.eliminate_zeros()
    return csr


NEWTON = 20
"""Iterations at most; six are usual."""

REYNOLDS_STEP = 40.0
"""The steady state is continued in steps of this Reynolds number, which Newton's method follows, or
in halves of it.
"""

SMALLEST_STEP, LOST = 2.0, 10.0
"""Steps that are no longer halved, and a change of velocities in m/s from which Newton's method
does not come back.
"""


def rate(flow: Discretisation, u: np.ndarray, viscosity: float) -> np.ndarray:
    """u̇ (n, ...): the divergence-free part of -N(u, u) - ν K u."""
    return flow.solve(flow.leray, -flow.convection(u, u) - viscosity * (flow.stiffness @ u))


def steady(flow: Discretisation, viscosity: float) -> np.ndarray:
    """(n,) the steady flow, stable or not, by Newton's method; continued from large viscosities
    where it is far.

    Raises:
        InputError: Newton's method does not find it.
    """
    u, reached, step, target = flow.inflow, 0.0, REYNOLDS_STEP, 0.1 / viscosity
    u = u + flow.solve(
        flow.saddle(flow.stiffness), -(flow.stiffness @ u), -(flow.divergence @ u)
    )  # without inertia
    while reached < target:
        reynolds = min(reached + step, target)
        found = _newton(flow, u, viscosity if reynolds == target else 0.1 / reynolds)
        if found is not None:
            u, reached = found, reynolds
        elif (step := step / 2) < SMALLEST_STEP:
            expected, fix = (
                "a steady flow that Newton's method finds",
                "lower it, or take a finer mesh",
            )
            raise InputError("Re", expected=expected, got=f"none beyond Re = {reached:g}", fix=fix)
    return u


def _newton(flow: Discretisation, u: np.ndarray, viscosity: float) -> np.ndarray | None:
    """(n,) the steady flow near u; None where it is not found."""
    for _ in range(NEWTON):
        residual = flow.convection(u, u) + viscosity * (flow.stiffness @ u)
        factors = flow.saddle(flow.linearised_convection(u) + viscosity * flow.stiffness)
        step = flow.solve(factors, -residual, -(flow.divergence @ u))
        u = u + step
        size = np.abs(step).max()
        if size < 1e-11:
            return u
        if not size < LOST:
            break
    return None


def integrate(
    flow: Discretisation, u: np.ndarray, viscosity: float, times: np.ndarray, step: float
) -> Iterator[np.ndarray]:
    """Velocities (n,) at each of `times`, from u at the first.

    Second order in time: implicit for pressure and viscosity (BDF2), extrapolated for convection,
    which limits the step. One factorisation serves all steps of one length.

    Args:
        flow: the finite elements.
        u: (n,) at `times[0]`.
        viscosity: ν.
        times: (T,).
        step: largest time step; output intervals are cut into equal ones.
    """
    yield u
    length, before, below = 0.0, None, -(flow.divergence @ flow.inflow)
    for interval in np.diff(times):
        count = max(1, int(np.ceil(interval / step * (1 - 1e-9))))
        h = interval / count
        if abs(h - length) > 1e-9 * h:
            length = h
            implicit = 1.5 / h * flow.mass + viscosity * flow.stiffness
            factors, boundary = flow.saddle(implicit), implicit @ flow.inflow
            before = u - h * rate(flow, u, viscosity)
            convected, convected_before = flow.convection(u, u), flow.convection(before, before)
        for _ in range(count):
            known = flow.mass @ ((2 * u - 0.5 * before) / h) - (2 * convected - convected_before)
            before, u = u, flow.inflow + flow.solve(factors, known - boundary, below)
            convected, convected_before = flow.convection(u, u), convected
        yield u
