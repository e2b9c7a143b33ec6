"""A system seen through a basis: exact tensors where the field is polynomial, a few sampled rows
where not.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import xarray as xr
from scipy import linalg
from torch import Tensor

from romkit.bases import Basis, check_size, weigher
from romkit.bases.base import root_of
from romkit.bases.modes import Summary
from romkit.core.boundary import Positive, validated
from romkit.core.display import Display
from romkit.core.errors import InputError
from romkit.core.tensors import Constants, align
from romkit.core.types import ContextFunction, Field
from romkit.data import times_of, trajectories
from romkit.data.context import context_columns, varies
from romkit.data.layout import component_names
from romkit.data.trajectories import check_components, check_context
from romkit.engine import Device
from romkit.systems.base import System
from romkit.systems.problem import Parts
from romkit.systems.terms import Projected, Quadratic

SNAPSHOTS, BLOCK, MOST = 1000, 100, 256
"""Most training snapshots, evenly out of all; right-hand sides in memory at a time; most modes of
them.
"""

UNKNOWN, SMALLEST = 1e-6, 1e-14
"""Share of energy that right-hand sides may lose: where the basis knows none of its own, and at
least.
"""

OVERSAMPLING = 2
"""Rows for each mode of the right-hand sides: with one, the error of sampling is twice as large;
more gain little.
"""

REACH, ROUNDING = 10.0, 1e-12
"""Residual at distance 1, relative to the largest one of training data; and the least of these,
relative to f̄.
"""

METRIC = 1e-8
"""Largest error of Vᵀ W V = I in the metric of the system."""

SKETCH = 32
"""Random combinations of what lies outside of the subspace: its length is known to an eighth
(1/√64).
"""

TrainingData = tuple[Tensor, Tensor, Tensor]


def basis_of_rates(
    system: System, basis: Basis, data: TrainingData, tolerance: float | None = None
) -> Basis:
    """Modes of f(t, x̄ + V y; c) at the coordinates y of training data.

    A reduced model evaluates f on the subspace and not at the states themselves: with as many modes
    of f at these, the error of sampling is three to nine times larger (studies/large/SAMPLED.md).

    Args:
        system: whose right-hand side f is.
        basis: x̄ and V.
        data: times (N,), coordinates (N, r) and contexts (N, p), see `training_data`.
        tolerance: share of the energy that may be left out; by default what the basis leaves out of
            that of the states, if `MOST` modes are enough for it.

    Raises:
        InputError: a right-hand side that is the same at all data, or not finite; a tolerance that
            `MOST` modes do not reach.
    """
    weigh = weigher(None, basis.size)  # the metric of right-hand sides is the identity
    parts = (Summary.of(x, min(MOST, len(x)), weigh) for x in _blocks(system, basis, *data))
    whole = functools.reduce(lambda a, b: a.merged(b, MOST, weigh), parts)
    share = whole.share
    if not len(share):
        expected, fix = (
            "snapshots at which the right-hand side differs",
            "give more of them, or roll out in full space",
        )
        raise InputError("data", expected=expected, got="the same at all of them", fix=fix)
    left_out = UNKNOWN if basis.energy is None else max(1 - basis.energy[-1].item(), SMALLEST)
    rank = int((1 - share > (left_out if tolerance is None else tolerance)).sum()) + 1
    if rank > len(share) and tolerance is not None:
        got = f"{1 - share[-1].item():.1e} left by {len(share)} modes"
        raise InputError(
            "tolerance",
            expected=f"a tolerance that {len(share)} modes reach",
            got=got,
            fix="raise it",
        )
    return whole.basis(min(rank, len(share)))


def training_data(system: System, basis: Basis, data: xr.Dataset) -> TrainingData:
    """Times (N,), coordinates (N, r) and contexts (N, p) of up to `SNAPSHOTS` snapshots.

    Args:
        system: of the data.
        basis: in which the coordinates are.
        data: of states, or of coordinates (`basis.project`).

    Raises:
        InputError: data of another system or grid.
    """
    t, y, c = coordinates_of(system, basis, data)
    t, y, c = (
        t.expand(len(y), -1).flatten(),
        y.flatten(0, 1),
        c.expand(-1, y.shape[1], -1).flatten(0, 1),
    )
    there = y.isfinite().all(-1).nonzero().flatten()
    taken = there[torch.linspace(0, len(there) - 1, min(SNAPSHOTS, len(there))).round().long()]
    return t[taken], y[taken], c[taken]


def coordinates_of(system: System, basis: Basis, data: xr.Dataset) -> TrainingData:
    """Times (T,), coordinates (C, T, r) and contexts (C, T or 1, p) of data, as `training_data`
    takes them.
    """
    check_context("data", data, system.context_names)
    names = tuple(
        f"y{k}" for k in range(basis.rank)
    )  # not the number, which states have too in a whole basis
    if "component" not in data.dims or component_names(data) != names:
        check_size(basis, data)
        check_components("data", data, system.state_names)
        data = basis.project(data[["state"]])
    y, c = (
        trajectories(data, "state"),
        torch.from_numpy(context_columns(data, system.context_names)),
    )
    return times_of(data), y, c if c.ndim == 3 else c.unsqueeze(1)


def _blocks(system: System, basis: Basis, t: Tensor, y: Tensor, c: Tensor) -> Iterator[Tensor]:
    """Right-hand sides (k, n) at training data, `BLOCK` at a time."""
    for rows in torch.arange(len(y)).split(BLOCK):
        rates = torch.stack([system.field(c[i])(t[i], basis.decode(y[i])) for i in rows])
        if not bool(rates.isfinite().all()):
            expected, fix = (
                "snapshots at which the right-hand side is finite, behind the basis",
                "take more modes",
            )
            raise InputError("data", expected=expected, got="NaN or infinity", fix=fix)
        yield rates


@dataclass(frozen=True, eq=False, repr=False)
class Rows(Display):
    """Rows of f(t, x̄ + V y; c) with weights, from the entries of x that they need: no cost depends
    on n.

    Attributes:
        system: of first order, that gives its rows (`stencil`, `rhs_rows`).
        basis: x̄ and V.
        rows: (s,) of the n.
        weights: of the rows: (s,) of a sum over them, or (s, r) of a rate in the coordinates.
        points: (k,) entries of x, those of the rows first.
    """

    system: System
    basis: Basis
    rows: Tensor
    weights: Tensor

    def __post_init__(self):
        stencil = self.system.stencil(self.rows).long()
        others = stencil.flatten().unique()
        points = torch.cat([self.rows, others[~torch.isin(others, self.rows)]])
        place = torch.full((self.basis.size,), -1).index_put((points,), torch.arange(len(points)))
        parts = {"rows": self.rows, "stencil": place[stencil], "weights": self.weights}
        there = {"mean": self.basis.mean[points], "modes": self.basis.modes[points].mT.contiguous()}
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "constants", Constants(**parts, **there, **self._more()))

    def decode(self, y: Tensor) -> Tensor:
        """x̄ + V y (..., k) at the points."""
        own = self.constants.like(y)
        return own["mean"] + y @ own["modes"]

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        """The rows (..., s) of f at states (..., k) at the points, with c (..., p) broadcastable
        against them.
        """
        own = self.constants.like(x)
        return self.system.rhs_rows(t, own["rows"], x[..., own["stencil"]], c)

    def facts(self) -> dict[str, str]:
        """Numbers of rows and of entries of the state that they need, and the system."""
        seen = f"{len(self.points)} of {self.basis.size}"
        return {
            "system": self.system.name,
            "rows": f"{len(self.rows)} of {self.basis.size}",
            "components seen": seen,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.rows)} of {self.basis.size} rows)"

    def _more(self) -> dict[str, Tensor]:
        """Further constants of a subclass."""
        return {}


@dataclass(frozen=True, eq=False, repr=False)
class Sampled(Rows):
    """Vᵀ W f(x̄ + V y; c) from some rows of f, with f taken to lie in a basis of right-hand sides.

    f = f̄ + U a, with a from s rows by least squares. The matrix `weights` (s, r) leads from these
    rows to ẏ.

    Attributes:
        rates: f̄ and U.
        reach: residual from which on a state is far from the training data, infinite where that is
            not known.

    Source: Chaturantabut, Sorensen (2010), Nonlinear model reduction via discrete empirical
    interpolation; Everson, Sirovich (1995) for least squares.
    """

    rates: Basis
    reach: float = math.inf

    @classmethod
    def of(cls, system: System, basis: Basis, rates: Basis, number: int) -> "Sampled":
        """Choose this many rows."""
        rows = chosen_rows(rates.modes, number)
        weights = basis.dual.mT @ rates.modes @ torch.linalg.pinv(rates.modes[rows])
        return cls(system, basis, rows, weights.mT.contiguous(), rates)

    def _more(self) -> dict[str, Tensor]:
        seen, mean = self.rates.modes[self.rows], self.rates.mean[self.rows]
        return {
            "constant": self.basis.encode_tangent(self.rates.mean) - mean @ self.weights,
            "mean_at_rows": mean,
            "modes_at_rows": self.basis.modes[self.rows].mT.contiguous(),
            "unseen": torch.eye(len(seen), dtype=seen.dtype) - seen @ torch.linalg.pinv(seen),
        }

    def rate(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """ẏ (..., r) at coordinates y (..., r), with c (..., p) broadcastable against their leading
        axes.
        """
        own = self.constants.like(y)
        return own["constant"] + self.rhs(t, self.decode(y), c) @ own["weights"]

    def residual(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Norm (...) of the rows without their part in the modes of right-hand sides: distance of f
        from training.
        """
        own = self.constants.like(y)
        return ((self.rhs(t, self.decode(y), c) - own["mean_at_rows"]) @ own["unseen"]).norm(dim=-1)

    def unresolved(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Share (...) of the rows of f that V ẏ leaves."""
        own, found = self.constants.like(y), self.rhs(t, self.decode(y), c)
        left = found - (own["constant"] + found @ own["weights"]) @ own["modes_at_rows"]
        return left.norm(dim=-1) / found.norm(dim=-1)

    def distance(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Residual (...), 1 at `REACH` times the largest one of the training data."""
        return self.residual(t, y, c) / self.reach

    def calibrated(self, times: Tensor, y: Tensor, c: Tensor) -> "Sampled":
        """Rows that know the residuals at training data: times (N,), coordinates (N, r), contexts
        (N, p).
        """
        largest = max(self.residual(*each).item() for each in zip(times, y, c, strict=True))
        return replace(
            self, reach=REACH * max(largest, ROUNDING * self.rates.mean[self.rows].norm().item())
        )


def gives_rows(system: System) -> bool:
    """Whether a system gives rows of its right-hand side."""
    return type(system).rhs_rows is not System.rhs_rows


def chosen_rows(modes: Tensor, number: int) -> Tensor:
    """Rows (number,) of modes (n, m), number >= m, from which coordinates in the modes are read off
    with small errors.

    The first m are pivots of a QR decomposition; each further one raises the smallest singular
    value of the rows most, by a lower bound of what it becomes.

    Source: Drmač, Gugercin (2016), A new selection operator for the discrete empirical
    interpolation method; Peherstorfer, Drmač, Gugercin (2020), Stability of discrete empirical
    interpolation and gappy POD, algorithm 1.
    """
    count = modes.shape[1]
    _, pivots = linalg.qr(modes.mT.numpy(), mode="r", pivoting=True)
    rows = torch.from_numpy(pivots[:count].astype("int64"))
    lengths = modes.square().sum(-1)
    for _ in range(number - count):
        _, sigma, right = torch.linalg.svd(modes[rows], full_matrices=False)
        gap = sigma[-2] ** 2 - sigma[-1] ** 2 if count > 1 else torch.ones(())
        total = gap + lengths
        gain = total - (total**2 - 4 * gap * (modes @ right[-1]) ** 2).clamp(min=0).sqrt()
        gain[rows] = -1.0
        rows = torch.cat([rows, gain.argmax().unsqueeze(0)])
    return rows


class SystemThroughBasis(System):
    """ẏ = Vᵀ W f(x̄ + V y; c): Galerkin projection onto a basis, which is orthonormal in the metric
    W of the system.

    Where f is a polynomial, tensors of r coordinates replace it without error. Else it is computed
    at a few rows that are chosen on training data. Nothing but `start` depends on n. Galerkin and
    Petrov-Galerkin dynamics of a projection behind the basis see nothing else of the full model: on
    this system they are what they are on the full one, up to the error of sampling if it is
    sampled.

    Args:
        full: the system.
        basis: of its states.
        image: of f in the coordinates, `Projected` from terms or `Sampled`.

    Source: Holmes, Lumley, Berkooz, Rowley (2012), Turbulence, Coherent Structures, Dynamical
    Systems and Symmetry, section 4.
    """

    transient = 0.0

    def __init__(self, full: System, basis: Basis, image: Projected | Sampled):
        self.full, self.basis, self.image = full, basis, image
        self.name, self.context, self.time_units = (
            f"{full.name}-through-basis",
            full.context,
            full.time_units,
        )
        self.context_may_move, self.solver = full.context_may_move, full.solver
        self.dt, self.duration, self.horizon = full.dt, full.duration, full.horizon
        self.step = (
            None if full.simulator else full.step
        )  # RK4's, by which coordinates are integrated too

    @property
    def state_names(self) -> list[str]:
        """y0, ..., y{r-1}, from the largest to the smallest singular value."""
        return [f"y{k}" for k in range(self.basis.rank)]

    @property
    def state_units(self) -> list[str]:
        """Unit of the states, if they share one, times the unit of the root of the weight."""
        unit, *others = {*self.full.state_units}
        return ["mixed" if others else unit] * self.basis.rank

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        return self.image.rate(t, x, c)

    @validated
    def field(
        self, context: Tensor | float | ContextFunction | None = None, **named: object
    ) -> Field:
        """Like `System.field`; tensors are summed at a context that stays once, and not at every
        evaluation.
        """
        if isinstance(self.image, Sampled) or varies(context):
            return super().field(context, **named)
        c, kinds = self._context_tensor(context, named), {}

        def f(t: Tensor, y: Tensor) -> Tensor:
            kind = (y.ndim, y.dtype, y.device)
            if kind not in kinds:
                kinds[kind] = self.image.at(align(c.to(y), y))
            return kinds[kind](y)

        return f

    def quadratic(self, context: Tensor) -> Quadratic | None:
        return self.image.at(context) if isinstance(self.image, Projected) else None

    @validated
    def unresolved(self, data: xr.Dataset) -> xr.DataArray:
        """Share of the full velocity that the subspace does not hold, ‖f - V Vᵀ W f‖ / ‖f‖ at x̄ +
        V y: a residual.

        An estimate of how far to trust a reduced model that needs no run of the full one, and does
        not see n: of terms by a random sketch, whose tensors are computed at the first call (error
        about an eighth); else from the rows.

        Args:
            data: a run, of states or of coordinates, or a forecast.

        Returns:
            (trajectory, time), or (time,) of a run without trajectories, from 0 to 1.

        Raises:
            InputError: data of another system or grid.

        Source: Halko, Martinsson, Tropp (2011), section 4.3, for lengths by random combinations.
        """
        if "trajectory" not in data.dims:
            named = {name: data[name] for name in self.context_names if name in data}
            given = {name: (("trajectory", *c.dims), c.values[None]) for name, c in named.items()}
            whole = data.expand_dims("trajectory").assign_coords(given)
            return self.unresolved(whole).isel(trajectory=0)
        with torch.no_grad():
            shares = self._unresolved(*coordinates_of(self.full, self.basis, data))
        named = {"units": "1", "long_name": "share of the velocity outside of the subspace"}
        coords = {"time": data["time"], **{name: data[name] for name in self.context_names}}
        return xr.DataArray(shares.numpy(), coords, ("trajectory", "time"), attrs=named)

    def _unresolved(self, times: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """(C, T) at times (T,), of coordinates (C, T, r) and contexts (C, T or 1, p)."""
        if isinstance(self.image, Sampled):
            each = zip(times, y.unbind(1), c.expand(-1, len(times), -1).unbind(1), strict=True)
            return torch.stack([self.image.unresolved(*at) for at in each], dim=1)
        outside = self._sketch.at(c)(y).square().mean(-1)
        return (outside / (outside + self.image.at(c)(y).square().sum(-1))).sqrt()

    @functools.cached_property
    def _sketch(self) -> Projected:
        """Ωᵀ f with E[Ω Ωᵀ] = W on what is orthogonal to the subspace, and zero on that."""
        draw, V = torch.Generator().manual_seed(0), self.basis.modes
        tests = torch.randn(len(V), SKETCH, generator=draw, dtype=V.dtype)
        tests = root_of(self.full.weight, len(V))(tests)
        tests = tests - self.basis.dual @ (V.mT @ tests)
        return Projected(self.full.terms(), self.basis, torch.device("cpu"), tests)

    def initial_state(self, contexts: Tensor, rng: np.random.Generator | None) -> Tensor:
        return self.basis.encode(self.full.initial_state(contexts, rng))

    def start(self, contexts: Tensor, rng: np.random.Generator | None = None) -> Parts:
        return tuple(self.basis.encode(part) for part in self.full.start(contexts, rng))

    def train_contexts(self, rng: np.random.Generator) -> np.ndarray:
        return self.full.train_contexts(rng)

    def test_contexts(self) -> np.ndarray:
        return self.full.test_contexts()


@validated
def through(
    self: System,
    basis: Basis,
    data: xr.Dataset | None = None,
    *,
    tolerance: Positive | None = None,
    device: Device = "cpu",
) -> SystemThroughBasis:
    """The system in the coordinates of a basis, at a cost that does not depend on n: see
    `SystemThroughBasis`.

    Exact from the `terms` of the system; with training data from a few rows (`rhs_rows`) that are
    chosen on the data.

    Args:
        self: the system.
        basis: of the states.
        data: training data, or their coordinates in the basis.
        tolerance: share of the energy of right-hand sides that may be left out; by default that of
            the basis.
        device: where tensors are computed: "cpu", or "cuda" where the terms are calls to torch.

    Raises:
        InputError: a system without terms or rows, of second order, of other states or with another
            metric than the basis; data of another system.
    """
    check_fits(self, basis)
    kind = type(self).__name__
    if data is not None:
        if not gives_rows(self):
            fix = f"write stencil() and rhs_rows() of {kind}"
            raise InputError(
                "system", expected="a system with rows", got=f"{self.name} without", fix=fix
            )
        seen = training_data(self, basis, data)
        rates = basis_of_rates(self, basis, seen, tolerance)
        rows = Sampled.of(self, basis, rates, min(OVERSAMPLING * rates.rank, rates.size))
        return SystemThroughBasis(self, basis, rows.calibrated(*seen))
    if terms := self.terms():
        return SystemThroughBasis(self, basis, Projected(terms, basis, device))
    if gives_rows(self):
        expected, fix = "training data, on which rows are chosen", "give the data of the basis"
        raise InputError("data", expected=expected, got="none", fix=fix)
    fix = f"write terms() or rhs_rows() of {kind}, or roll out in full space"
    raise InputError(
        "system", expected="a system with terms or rows", got=f"{self.name}, neither", fix=fix
    )


System.through = (
    through  # a method of every system, defined here because its result is itself a System
)


def check_fits(system: System, basis: Basis) -> None:
    """Raise InputError unless the basis is one of the states of the system, orthonormal in its
    metric.
    """
    if system.order != 1:
        fix = "write it as ẋ = f(x)"
        raise InputError(
            "system", expected="a first-order one", got=f"{system.name}, of second order", fix=fix
        )
    if system.state_size != basis.size:
        expected, fix = (
            f"a basis of {system.state_size} components, as {system.name} has",
            "use one of its data",
        )
        raise InputError("basis", expected=expected, got=f"one of {basis.size}", fix=fix)
    gram = basis.modes.mT @ weigher(system.weight, basis.size)(basis.modes)
    error = (gram - torch.eye(basis.rank, dtype=gram.dtype)).abs().max().item()
    if error > METRIC or (type(system).weigh is not System.weigh and system.weight is None):
        fix = "make it with romkit.basis(data, weight=system.weight)"
        got = f"Vᵀ W V = I up to {error:.1e}"
        raise InputError(
            "basis", expected=f"modes orthonormal in the metric of {system.name}", got=got, fix=fix
        )
