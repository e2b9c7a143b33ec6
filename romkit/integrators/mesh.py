"""Reduced meshes: few rows of the equations, with weights, that give the sums over all of them."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import xarray as xr
from torch import Tensor
from torch.nn.functional import normalize

from romkit.bases import Basis
from romkit.core import tensors
from romkit.core.boundary import Count, Part, Positive, validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.core.types import Dual, Pair, Tensors, TensorTuple
from romkit.data import times_of
from romkit.engine.threads import one_thread
from romkit.integrators.base import T0
from romkit.integrators.galerkin import Galerkin
from romkit.integrators.lspg_rules import TrapezoidalRule
from romkit.integrators.region import Region
from romkit.projections import Operator, Path, Projection
from romkit.systems import System
from romkit.systems.base import check_fits
from romkit.systems.problem import FirstOrder, Problem
from romkit.systems.sampled import Rows, gives_rows, training_data


def cubature(shares: Tensor, tolerance: float) -> Pair:
    """Return rows (s,) and positive weights (s,) with Σ weightᵢ shareᵢ = Σ shareᵢ up to the
    tolerance, relative.

    The row whose shares point most along what is missing joins; then all weights are fitted anew,
    and a row whose weight would turn negative leaves. Positive weights keep sums of squares
    positive.

    Args:
        shares: (n, q), what each row adds to q sums.
        tolerance: above 0.

    Raises:
        InputError: a tolerance that is not reached.

    Source: Chapman, Avery, Collins, Farhat (2017), Accelerated mesh sampling for the hyper
    reduction of nonlinear computational models, algorithm 1 (Lawson & Hanson's with an end).
    """
    n, sums = shares.shape
    total = shares.sum(0)
    rows = torch.zeros(0, dtype=torch.int64)
    weights = shares.new_zeros(0)
    smallest = torch.inf
    while True:
        missing = total - weights @ shares[rows]
        error = (missing.norm() / total.norm()).item()
        if error <= tolerance:
            return rows, weights
        if not error < smallest or len(rows) == min(n, sums):
            raise InputError(
                "tolerance",
                expected="one that can be reached",
                got=f"{error:.1e} left by {len(rows)} of {n} rows",
                fix=f"raise it, or give more data: sums are compared in {sums} numbers",
            )
        smallest = error
        gain = shares @ missing
        # a row joins once
        gain[rows] = -torch.inf
        joined = torch.cat([rows, gain.argmax().unsqueeze(0)])
        rows, weights = _fitted(shares, total, joined, weights)


def _fitted(shares: Tensor, total: Tensor, rows: Tensor, before: Tensor) -> Pair:
    """Return rows and weights of the best fit that is positive, on the way from the weights before,
    of all rows but the last.

    Where the fit on all rows has negative weights, one goes towards it until the first weight is
    zero, and that row leaves.
    """
    weights = torch.cat([before, before.new_zeros(1)])
    while True:
        chosen = shares[rows]
        goal = torch.linalg.solve(chosen @ chosen.mT, chosen @ total)
        down = goal <= 0
        if not bool(down.any()):
            return rows, goal
        # as far towards the fit as all weights stay positive
        weights = weights + (weights / (weights - goal))[down].min() * (goal - weights)
        kept = weights > 1e-12 * weights.max()
        rows = rows[kept]
        weights = weights[kept]


@dataclass(frozen=True, eq=False, repr=False)
class ReducedMesh(Rows):
    """Rows of a system with positive weights (s,), with those of the system's metric in them.

    Made by `romkit.reduced_mesh`, used by `LSPG(mesh=...)`, behind the basis of the projection they
    were chosen with.

    Attributes:
        region: latent states of the training data.
    """

    region: Region

    def _more(self) -> Tensors:
        weights = torch.nn.functional.pad(self.weights, (0, self._unweighed))
        return {"metric": weights.unsqueeze(-1)}

    @property
    def _unweighed(self) -> int:
        """Number of points that are no rows."""
        return len(self.points) - len(self.rows)

    def problem(self, path: Path) -> Problem:
        """Return the full problem at the points of the mesh alone; the path is that of coordinates
        in the basis.
        """
        size = path.at(T0).state_size
        if size != self.basis.rank:
            raise InputError(
                "projection",
                expected=f"a model behind the {self.basis} of the mesh",
                got=f"one of {size} components",
                fix="use the projection, or the basis, that the mesh was chosen with",
            )

        def field(t: Tensor, x: Tensor) -> Tensor:
            rates = self.rhs(t, x, align(path.at(t).context.to(x), x))
            # points that are no rows serve the rows alone, and have weight zero
            return torch.nn.functional.pad(rates, (0, self._unweighed))

        def metric(x: Tensor, u: Tensor) -> Tensor:
            return self.constants.like(u)["metric"] * u

        at_points = path.mapped(lambda P: _AtPoints(P, self))
        return FirstOrder(at_points, field, metric)


@validated
def reduced_mesh(
    system: System,
    projection: Projection,
    data: xr.Dataset,
    *,
    dt: Positive | None = None,
    tolerance: Part = 0.01,
    snapshots: Count = 100,
) -> ReducedMesh:
    """Choose the rows of a system on which `LSPG` runs, at a cost that does not depend on n.

    The sums over all rows that a Gauss-Newton step is made of, at training data, become weighted
    sums over few rows, up to a tolerance (energy-conserving sampling and weighting, with the parts
    of one row for those of one element).

    Args:
        system: of first order, that gives its rows (`stencil`, `rhs_rows`), with weights of
            components as its metric.
        projection: a single one behind a basis (`romkit.fit(..., basis=...)`).
        data: training data of states, or their coordinates in the basis.
        dt: step of `LSPG`; the interval of the data by default.
        tolerance: relative error of the sums, below 1.
        snapshots: of the training data at which sums are compared, evenly out of all.

    Raises:
        InputError: a system without rows or of second order, a projection without a basis or a
            stack of them, or of another context, data of another system or of a single time, a
            tolerance that is not reached.

    Source: Farhat, Chapman, Avery (2015), Structure-preserving, stability, and accuracy properties
    of the energy-conserving sampling and weighting method; Grimberg, Farhat, Tezaur, Bou-Mosleh
    (2021), Mesh sampling and weighting for the hyperreduction of nonlinear Petrov-Galerkin
    reduced-order models.

    Example:
        >>> import romkit
        >>> from romkit.integrators import LSPG
        >>> burgers = romkit.systems.Burgers2D(cells=6, duration=0.5)
        >>> data = burgers.dataset("train")
        >>> model = romkit.fit("pod", data, basis=6, latent_dim=3)
        >>> mesh = romkit.reduced_mesh(burgers, model, data, tolerance=0.1)
        >>> mesh
        ReducedMesh(... of 72 rows)
        >>> run = romkit.follow(model, data, dynamics=LSPG(dt=0.1, mesh=mesh))
        >>> int(run.status.max()), bool((run.state_distance <= 1.5).all())
        (0, True)
    """
    basis = _checked(system, projection)
    weights = torch.ones(basis.size, dtype=torch.float64)
    if system.weight is not None:
        weights = torch.as_tensor(system.weight, dtype=torch.float64)
    times, y, c = training_data(system, basis, data)
    if dt is None:
        steps = times_of(data).diff()
        if not len(steps):
            raise InputError(
                "dt",
                expected="a step",
                got="none, and data of a single time",
                fix="give dt=0.1, say",
            )
        dt = float(steps.min())
    h = times.new_tensor(dt)
    # sums of neighbours in time are alike
    taken = tensors.evenly(len(y), snapshots)
    model = copy.deepcopy(projection).double()
    with torch.no_grad(), one_thread():
        z = model.of_coordinates().operator(c).encode(y)
        samples = zip(times[taken], z[taken], c[taken], strict=True)
        sums = _sums(system, model, h, weights, samples)
    rows, factors = cubature(sums, tolerance)
    return ReducedMesh(system, basis, rows, factors * weights[rows], Region.ellipsoid(z))


def _checked(system: System, projection: Projection) -> Basis:
    """Return the basis in front of a projection.

    Raises:
        InputError: a system without rows or with another metric, a stack, or a projection without a
            basis or of other contexts.
    """
    if system.order != 1 or not gives_rows(system):
        raise InputError(
            "system",
            expected="one of first order that gives its rows",
            got=system.name,
            fix="write stencil() and rhs_rows(), see System",
        )
    is_diagonal = getattr(system.weight, "ndim", 2) == 1
    if system.weight is None:
        is_diagonal = type(system).weigh is System.weigh
    if not is_diagonal:
        raise InputError(
            "system",
            expected="a metric that weighs each component alone",
            got=f"another metric of {system.name}",
            fix="write the system in such unknowns",
        )
    basis = projection.basis
    if basis is None or projection.seeds is not None:
        raise InputError(
            "projection",
            expected="a single one behind a basis",
            got="one without" if basis is None else f"a stack of {projection.seeds} seeds",
            fix="fit it with basis=..., and take one seed, unstack(projection)[0]",
        )
    check_fits(system, basis)
    names = projection.frame.context_names
    if names != system.context_names:
        raise InputError(
            "projection",
            expected=f"one with the context {', '.join(system.context_names)}",
            got=f"one with {', '.join(names)}",
            fix="fit it to data of this system",
        )
    return basis


def _sums(
    system: System,
    model: Projection,
    h: Tensor,
    weights: Tensor,
    snapshots: Iterable[TensorTuple],
    combinations: int = 1000,
    memory: int = 100_000_000,
) -> Tensor:
    """(n, q) what each row adds to q random combinations of the sums that first Gauss-Newton steps
    are made of: so many combinations as that they take at most so many numbers.

    From each snapshot (t, z, c), in coordinates in which the matrix of the normal equations is the
    identity and the residual has length one: of row i, ±(aᵀQᵢ)² of the matrix and (bᵀQᵢ) rᵢ of the
    vector, with a and b drawn anew.
    """
    draw = torch.Generator().manual_seed(0)
    n = len(weights)
    roots = weights.sqrt()
    count = min(combinations, memory // n)
    sums = torch.zeros(n, count, dtype=torch.float64)
    for t, z, c in snapshots:
        problem = system.problem(Path.constant(model.operator(c)), c)
        rule = TrapezoidalRule(problem)
        known, u = rule.begin(t, z, Galerkin().latent_rate(problem)(t, z), h)
        _, slopes, residual = rule.linearised(t + h, known, u)
        Q, _ = torch.linalg.qr(roots.unsqueeze(-1) * slopes)  # (n, m)
        residual = normalize(roots * residual, dim=0, eps=torch.finfo(torch.float64).tiny)
        a, b = torch.randn(2, Q.shape[-1], count, generator=draw, dtype=torch.float64)
        # positive squares would add up to the same combination
        signs = torch.randn(count, generator=draw, dtype=torch.float64).sign()
        sums.addcmul_((Q @ a).square_(), signs)
        sums.addcmul_(Q @ b, residual.unsqueeze(-1))
    return sums


@dataclass(frozen=True)
class _AtPoints:
    """Decoder of an operator of coordinates at the points of some rows: x = x̄ + V φ(z)."""

    operator: Operator
    rows: Rows

    def decode(self, z: Tensor) -> Tensor:
        return self.rows.decode(self.operator.decode(z))

    def decode_jacobian(self, z: Tensor) -> Dual:
        y, J = self.operator.decode_jacobian(z)
        return Dual(self.rows.decode(y), self.rows.constants.like(z)["modes"].mT @ J)
