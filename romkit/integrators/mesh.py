"""`romkit.reduced_mesh`: a few weighted rows of a system, on which LSPG finds what it finds on all of them."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import xarray as xr
from torch import Tensor
from torch.nn.functional import normalize

from romkit.bases import Basis
from romkit.core.boundary import Part, Positive, validated
from romkit.core.display import Display
from romkit.core.errors import InputError
from romkit.core.tensors import Constants, align
from romkit.core.types import Dual
from romkit.data import times_of
from romkit.engine.threads import one_thread
from romkit.integrators import Galerkin
from romkit.integrators.base import T0
from romkit.integrators.lspg import Trapezoidal
from romkit.integrators.region import TrustRegion
from romkit.projections import Operator, Path, Projection
from romkit.systems import System
from romkit.systems.problem import FirstOrder, Problem
from romkit.systems.through import check_fits, gives_rows, training_data


def cubature(parts: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Rows (s,) and positive weights (s,) with Σ weightᵢ partsᵢ = Σ partsᵢ up to the tolerance, relative.

    The row whose parts point most along what is missing joins; then all weights are fitted anew, and a row whose weight
    would turn negative leaves. Positive weights keep sums of squares positive.

    Args:
        parts: (n, q), what each row adds to q sums.
        tolerance: above 0.

    Raises:
        InputError: a tolerance that is not reached.

    Source: Chapman, Avery, Collins, Farhat (2017), Accelerated mesh sampling for the hyper reduction of nonlinear
    computational models, algorithm 1 (Lawson & Hanson's with an end).
    """
    total, n = parts.sum(0), len(parts)
    rows, weights, before = torch.zeros(0, dtype=torch.int64), parts.new_zeros(0), torch.inf
    while (left := ((total - weights @ parts[rows]).norm() / total.norm()).item()) > tolerance:
        gain = parts @ (total - weights @ parts[rows])
        gain[rows] = -torch.inf
        if not left < before or len(rows) == min(parts.shape):
            fix = f"raise it, or give more data: sums are compared in {parts.shape[1]} numbers"
            got = f"{left:.1e} left by {len(rows)} of {n} rows"
            raise InputError("tolerance", expected="one that can be reached", got=got, fix=fix)
        rows, weights = _fitted(parts, total, torch.cat([rows, gain.argmax().unsqueeze(0)]), weights)
        before = left
    return rows, weights


def _fitted(parts: Tensor, total: Tensor, rows: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and weights of the best fit that is positive, on the way from the weights before, of all rows but the last.

    Where the fit on all rows has negative weights, one goes towards it until the first weight is zero, and that row
    leaves.
    """
    weights = torch.cat([before, before.new_zeros(1)])
    while True:
        chosen = parts[rows]
        goal = torch.linalg.solve(chosen @ chosen.mT, chosen @ total)
        down = goal <= 0
        if not bool(down.any()):
            return rows, goal
        share = (weights / (weights - goal))[down].min()
        weights = weights + share * (goal - weights)
        kept = weights > 1e-12 * weights.max()
        rows, weights = rows[kept], weights[kept]


SNAPSHOTS = 100
"""Training snapshots at which sums over rows are compared, evenly out of all."""

COMBINATIONS, MEMORY = 1000, 100_000_000
"""Random combinations of the sums that are compared, and numbers that they may take."""

TINY = torch.finfo(torch.float64).tiny
"""Least length that a residual is divided by: that of a state at rest is zero."""


@dataclass(frozen=True, eq=False, repr=False)
class ReducedMesh(Display):
    """Rows of a system with weights, and the entries of the state that these need.

    Made by `romkit.reduced_mesh`, used by `LSPG(mesh=...)`.

    Attributes:
        system: whose rows they are.
        basis: of the projection behind which they were chosen.
        rows: (s,) of the n.
        weights: (s,) positive, with those of the system's metric in them.
        region: latent states of the training data.
    """

    system: System
    basis: Basis
    rows: Tensor
    weights: Tensor
    region: TrustRegion

    def __post_init__(self):
        stencil = self.system.stencil(self.rows)
        others = stencil.flatten().unique()
        points = torch.cat([self.rows, others[~torch.isin(others, self.rows)]])
        place = torch.full((self.basis.size,), -1).index_put((points,), torch.arange(len(points)))
        weights = torch.cat([self.weights, self.weights.new_zeros(len(points) - len(self.rows))])
        parts = {"rows": self.rows, "stencil": place[stencil], "weights": weights.unsqueeze(-1)}
        there = {"mean": self.basis.mean[points], "modes": self.basis.modes[points].mT.contiguous()}
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "_constants", Constants(**parts, **there))

    def problem(self, path: Path) -> Problem:
        """The full problem at the points of the mesh alone; the path is that of coordinates in the basis."""
        if (size := path.at(T0).state_size) != self.basis.rank:
            fix = "use the projection, or the basis, that the mesh was chosen with"
            expected, got = f"one behind the {self.basis} of the mesh", f"one of {size} components"
            raise InputError("projection", expected=expected, got=got, fix=fix)
        rhs_rows, constants, others = self.system.rhs_rows, self._constants, len(self.points) - len(self.rows)

        def field(t: Tensor, x: Tensor) -> Tensor:
            own = constants.like(x)
            found = rhs_rows(t, own["rows"], x[..., own["stencil"]], align(path.at(t).context.to(x), x))
            return torch.cat([found, found.new_zeros(*found.shape[:-1], others)], dim=-1)

        return FirstOrder(
            path.mapped(lambda P: _AtPoints(P, constants)), field, lambda x, u: constants.like(u)["weights"] * u
        )

    def facts(self) -> dict[str, str]:
        """Numbers of rows and of entries of the state that they need, and the system."""
        seen = f"{len(self.points)} of {self.basis.size}"
        return {"system": self.system.name, "rows": f"{len(self.rows)} of {self.basis.size}", "components seen": seen}

    def __repr__(self) -> str:
        return f"ReducedMesh({len(self.rows)} of {self.basis.size} rows)"


@validated
def reduced_mesh(
    system: System, projection: Projection, data: xr.Dataset, *, dt: Positive | None = None, tolerance: Part = 0.01
) -> ReducedMesh:
    """Choose the rows of a system on which `LSPG` runs, at a cost that does not depend on n.

    The sums over all rows that a Gauss-Newton step is made of, at training data, become weighted sums over few rows,
    up to a tolerance (energy-conserving sampling and weighting, with the parts of one row for those of one element).

    Args:
        system: of first order, that gives its rows (`stencil`, `rhs_rows`), with weights of components as its metric.
        projection: a single one behind a basis (`romkit.fit(..., basis=...)`).
        data: training data of states, or their coordinates in the basis.
        dt: step of `LSPG`; the interval of the data by default.
        tolerance: relative error of the sums, below 1.

    Raises:
        InputError: a system without rows or of second order, a projection without a basis or a stack of them, or of
            another context, data of another system or of a single time, a tolerance that is not reached.

    Source: Farhat, Chapman, Avery (2015), Structure-preserving, stability, and accuracy properties of the
    energy-conserving sampling and weighting method; Grimberg, Farhat, Tezaur, Bou-Mosleh (2021), Mesh sampling and
    weighting for the hyperreduction of nonlinear Petrov-Galerkin reduced-order models.

    Example:
        >>> import romkit
        >>> from romkit.integrators import LSPG
        >>> burgers = romkit.systems.Burgers2D(cells=8, duration=2.0)
        >>> data = burgers.dataset("train")
        >>> model = romkit.fit("pod", data, basis=6, latent_dim=3)
        >>> mesh = romkit.reduced_mesh(burgers, model, data, tolerance=0.1)
        >>> mesh
        ReducedMesh(... of 128 rows)
        >>> run = romkit.follow(model, data, dynamics=LSPG(dt=0.1, mesh=mesh))
        >>> int(run.status.max()), bool((run.state_distance <= 1.5).all())
        (0, True)
    """
    basis = _checked(system, projection)
    weights = torch.ones(basis.size, dtype=torch.float64)
    weights = weights if system.weight is None else torch.as_tensor(system.weight, dtype=torch.float64)
    times, y, c = training_data(system, basis, data)
    h = times.new_tensor(_interval(data) if dt is None else dt)
    taken = torch.linspace(0, len(y) - 1, min(SNAPSHOTS, len(y))).round().long()
    model = copy.deepcopy(projection).double()
    with torch.no_grad(), one_thread():
        z = model.of_coordinates().operator(c).encode(y)
        snapshots = zip(times[taken], z[taken], c[taken], strict=True)
        parts = _parts(system, model, h, weights, snapshots)
    rows, factors = cubature(parts, tolerance)
    return ReducedMesh(system, basis, rows, factors * weights[rows], TrustRegion.of(z))


def _interval(data: xr.Dataset) -> float:
    """The shortest one of the data."""
    times = times_of(data)
    if len(times) < 2:
        raise InputError("dt", expected="a step", got="none, and data of a single time", fix="give dt=0.1, say")
    return float(times.diff().min())


def _checked(system: System, projection: Projection) -> Basis:
    """The basis in front of the projection."""
    if system.order != 1 or not gives_rows(system):
        expected, fix = "one of first order that gives its rows", "write stencil() and rhs_rows(), see System"
        raise InputError("system", expected=expected, got=system.name, fix=fix)
    diagonal = system.weight is None or getattr(system.weight, "ndim", 2) == 1
    if not diagonal or (system.weight is None and type(system).weigh is not System.weigh):
        expected, fix = "a metric that weighs each component alone", "write the system in such unknowns"
        raise InputError("system", expected=expected, got=f"another metric of {system.name}", fix=fix)
    if projection.basis is None or projection.seeds is not None:
        got = "one without" if projection.basis is None else f"a stack of {projection.seeds} seeds"
        fix = "fit it with basis=..., and take one seed, unstack(projection)[0]"
        raise InputError("projection", expected="a single one behind a basis", got=got, fix=fix)
    check_fits(system, projection.basis)
    names = projection.normalization.signature.context_names
    if names != system.context_names:
        expected, fix = f"one with the context {', '.join(system.context_names)}", "fit it to data of this system"
        raise InputError("projection", expected=expected, got=f"one with {', '.join(names)}", fix=fix)
    return projection.basis


def _parts(
    system: System, model: Projection, h: Tensor, weights: Tensor, snapshots: Iterable[tuple[Tensor, ...]]
) -> Tensor:
    """(n, q) what each row adds to q random combinations of the sums that first Gauss-Newton steps are made of.

    From each snapshot (t, z, c), in coordinates in which the matrix of the normal equations is the identity and the
    residual has length one: of row i, ±(aᵀQᵢ)² of the matrix and (bᵀQᵢ) rᵢ of the vector, with a and b drawn anew.
    """
    n, draw = len(weights), torch.Generator().manual_seed(0)
    parts, roots = torch.zeros(n, min(COMBINATIONS, MEMORY // n), dtype=torch.float64), weights.sqrt()
    for t, z, c in snapshots:
        problem = system.problem(Path.constant(model.operator(c)), c)
        rule = Trapezoidal(problem)
        known, u = rule.begin(t, z, Galerkin().latent_rate(problem)(t, z), h)
        _, slopes, residual = rule.linearised(t + h, known, u)
        Q, residual = torch.linalg.qr(roots.unsqueeze(-1) * slopes).Q, roots * residual
        a, b = torch.randn(2, Q.shape[-1], parts.shape[-1], generator=draw, dtype=torch.float64)
        signs = torch.randn(parts.shape[-1], generator=draw, dtype=torch.float64).sign()
        parts.addcmul_((Q @ a).square_(), signs).addcmul_(Q @ b, normalize(residual, dim=0, eps=TINY).unsqueeze(-1))
    return parts


@dataclass(frozen=True)
class _AtPoints:
    """Decoder of an operator of coordinates at the points of a mesh: x = x̄ + V φ(z)."""

    operator: Operator
    constants: Constants

    def decode(self, z: Tensor) -> Tensor:
        own = self.constants.like(z)
        return own["mean"] + self.operator.decode(z) @ own["modes"]

    def decode_jacobian(self, z: Tensor) -> Dual:
        own, (y, J) = self.constants.like(z), self.operator.decode_jacobian(z)
        return Dual(own["mean"] + y @ own["modes"], own["modes"].mT @ J)
