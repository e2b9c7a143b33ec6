"""Right-hand sides from a few of their rows, which are chosen on training data."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import scipy
import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis, check_size, weigher
from romkit.bases.modes import Summary
from romkit.core import tensors
from romkit.core.broadcast import Constants
from romkit.core.display import Display
from romkit.core.errors import InputError
from romkit.core.types import Facts, Tensors
from romkit.data import times_of, trajectories
from romkit.data.context import context_columns
from romkit.data.layout import component_names
from romkit.data.trajectories import check_components, check_context
from romkit.systems.equation import EvolutionEquation

TrainingData = tuple[Tensor, Tensor, Tensor]


def rate_basis(
    system: EvolutionEquation,
    basis: Basis,
    data: TrainingData,
    tolerance: float | None = None,
    *,
    modes: int = 256,
) -> Basis:
    """Modes of f(t, x̄ + V y; c) at the coordinates y of training data.

    A reduced model evaluates f on the subspace and not at the states themselves: with as many modes
    of f at these, the error of sampling is three to nine times larger (studies/large/SAMPLED.md).

    Args:
        system: whose right-hand side f is.
        basis: x̄ and V.
        data: times (N,), coordinates (N, r) and contexts (N, p), see `training_data`.
        tolerance: share of the energy that may be left out; by default what the basis leaves out of
            that of the states, if `modes` are enough for it.
        modes: at most.

    Raises:
        InputError: a right-hand side that is the same at all data, or not finite; a tolerance that
            `modes` do not reach.
    """
    weigh = weigher(None, basis.size)
    blocks = _blocks(system, basis, *data)
    summaries = (Summary.summarise(block, min(modes, len(block)), weigh) for block in blocks)
    total = functools.reduce(lambda a, b: a.merged(b, modes, weigh), summaries)
    held = total.share  # of the energy, by the number of modes
    most = len(held)
    if most == 0:
        raise InputError(
            "data",
            expected="snapshots at which the right-hand side differs",
            got="the same at all of them",
            fix="give more of them, or roll out in full space",
        )
    left_out = tolerance or 1e-6
    if tolerance is None and basis.energy is not None:
        # shares are sums, and know the rest to rounding alone
        left_out = max(1 - basis.energy[-1].item(), 1e-14)
    rank = int((1 - held > left_out).sum()) + 1
    if rank > most and tolerance is not None:
        raise InputError(
            "tolerance",
            expected=f"a tolerance that {most} modes reach",
            got=f"{1 - held[-1].item():.1e} left by {most} modes",
            fix="raise it",
        )
    return total.basis(min(rank, most))


def training_data(
    system: EvolutionEquation, basis: Basis, data: xr.Dataset, *, snapshots: int = 1000
) -> TrainingData:
    """Return times (N,), coordinates (N, r) and contexts (N, p) of up to `snapshots` of them, evenly.

    Args:
        system: of the data.
        basis: in which the coordinates are.
        data: of states, or of coordinates (`basis.project`).
        snapshots: at most.

    Raises:
        InputError: data of another system or grid.
    """
    t, y, c = coordinates_of(system, basis, data)
    runs, times = y.shape[:2]
    t = t.expand(runs, -1).flatten()  # (N,)
    c = c.expand(-1, times, -1).flatten(0, 1)  # (N, p)
    y = y.flatten(0, 1)  # (N, r)
    complete = y.isfinite().all(-1).nonzero().flatten()
    rows = complete[tensors.evenly(len(complete), snapshots)]
    return t[rows], y[rows], c[rows]


def coordinates_of(system: EvolutionEquation, basis: Basis, data: xr.Dataset) -> TrainingData:
    """Return times (T,), coordinates (C, T, r) and contexts (C, T or 1, p) of data, as
    `training_data` takes them.
    """
    check_context("data", data, system.context_names)
    # by their names: states of a whole basis are as many as coordinates
    names = tuple(f"y{k}" for k in range(basis.rank))
    if "component" not in data.dims or component_names(data) != names:
        check_size(basis, data)
        check_components("data", data, system.state_names)
        data = basis.project(data[["state"]])
    c = torch.from_numpy(context_columns(data, system.context_names))
    if c.ndim == 2:
        c = c.unsqueeze(1)  # (C, 1, p)
    return times_of(data), trajectories(data, "state"), c


def _blocks(
    system: EvolutionEquation, basis: Basis, t: Tensor, y: Tensor, c: Tensor
) -> Iterator[Tensor]:
    """Right-hand sides (k, n) at training data, a hundred at a time."""
    for numbers in torch.arange(len(y)).split(100):
        rates = []
        for i in numbers:
            field = system.field(c[i])
            x = basis.decode(y[i])
            rates.append(field(t[i], x))
        rates = torch.stack(rates)
        if not bool(rates.isfinite().all()):
            raise InputError(
                "data",
                expected="snapshots at which the right-hand side is finite, behind the basis",
                got="NaN or infinity",
                fix="take more modes",
            )
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

    system: EvolutionEquation
    basis: Basis
    rows: Tensor
    weights: Tensor

    def __post_init__(self):
        stencil = self.system.stencil(self.rows).long()  # (s, k)
        entries = stencil.flatten().unique()
        is_row = torch.isin(entries, self.rows)
        points = torch.cat([self.rows, entries[~is_row]])
        # number of each entry of x among the points
        number = torch.full((self.basis.size,), -1)
        number[points] = torch.arange(len(points))
        constants = {
            "rows": self.rows,
            "stencil": number[stencil],
            "weights": self.weights,
            "mean": self.basis.mean[points],
            "modes": self.basis.modes[points].mT.contiguous(),
        }
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "constants", Constants(**constants, **self._more()))

    def decode(self, y: Tensor) -> Tensor:
        """x̄ + V y (..., k) at the points."""
        constants = self.constants.like(y)
        return constants["mean"] + y @ constants["modes"]

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        """Return the rows (..., s) of f at states (..., k) at the points, with c (..., p)
        broadcastable against them.
        """
        constants = self.constants.like(x)
        entries = x[..., constants["stencil"]]
        return self.system.rhs_rows(t, constants["rows"], entries, c)

    def facts(self) -> Facts:
        """Return numbers of rows and of entries of the state that they need, and the system."""
        size = self.basis.size
        return {
            "system": self.system.name,
            "rows": f"{len(self.rows)} of {size}",
            "components seen": f"{len(self.points)} of {size}",
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.rows)} of {self.basis.size} rows)"

    def _more(self) -> Tensors:
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
    def choose(
        cls, system: EvolutionEquation, basis: Basis, rates: Basis, number: int
    ) -> "Sampled":
        """Choose this many rows."""
        rows = chosen_rows(rates.modes, number)
        interpolated = torch.linalg.pinv(rates.modes[rows])
        weights = basis.dual.mT @ rates.modes @ interpolated
        return cls(system, basis, rows, weights.mT.contiguous(), rates)

    def _more(self) -> Tensors:
        seen = self.rates.modes[self.rows]  # (s, m)
        mean = self.rates.mean[self.rows]
        identity = torch.eye(len(seen), dtype=seen.dtype)
        return {
            "constant": self.basis.encode_tangent(self.rates.mean) - mean @ self.weights,
            "mean_at_rows": mean,
            "modes_at_rows": self.basis.modes[self.rows].mT.contiguous(),
            "unseen": identity - seen @ torch.linalg.pinv(seen),
        }

    def rate(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """ẏ (..., r) at coordinates y (..., r), with c (..., p) broadcastable against their leading
        axes.
        """
        return self._rate(self._velocity(t, y, c))

    def _velocity(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Return the rows (..., s) of f at coordinates."""
        return self.rhs(t, self.decode(y), c)

    def _rate(self, velocity: Tensor) -> Tensor:
        """ẏ (..., r) by rows (..., s) of f."""
        constants = self.constants.like(velocity)
        return constants["constant"] + velocity @ constants["weights"]

    def residual(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Norm (...) of the rows without their part in the modes of right-hand sides: distance of f
        from training.
        """
        constants = self.constants.like(y)
        deviation = self._velocity(t, y, c) - constants["mean_at_rows"]  # (..., s)
        return (deviation @ constants["unseen"]).norm(dim=-1)

    def unresolved(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Return share (...) of the rows of f that V ẏ leaves."""
        constants = self.constants.like(y)
        velocity = self._velocity(t, y, c)
        outside = velocity - self._rate(velocity) @ constants["modes_at_rows"]
        return outside.norm(dim=-1) / velocity.norm(dim=-1)

    def distance(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Return residual (...), 1 at ten times the largest one of the training data."""
        return self.residual(t, y, c) / self.reach

    def calibrated(
        self,
        times: Tensor,
        y: Tensor,
        c: Tensor,
        *,
        factor: float = 10.0,
        rounding: float = 1e-12,
    ) -> "Sampled":
        """Return rows that know the residuals at training data: times (N,), coordinates (N, r),
        contexts (N, p); the least of these is rounding, relative to f̄.
        """
        largest = rounding * self.rates.mean[self.rows].norm().item()
        for sample in zip(times, y, c, strict=True):
            largest = max(self.residual(*sample).item(), largest)
        return replace(self, reach=factor * largest)


def gives_rows(system: EvolutionEquation) -> bool:
    """Tell whether a system gives rows of its right-hand side."""
    return type(system).rhs_rows is not EvolutionEquation.rhs_rows


def chosen_rows(modes: Tensor, number: int) -> Tensor:
    """Return rows (number,) of modes (n, m), number >= m, from which coordinates in the modes are
    read off with small errors.

    The first m are pivots of a QR decomposition; each further one raises the smallest singular
    value of the rows most, by a lower bound of what it becomes.

    Source: Drmač, Gugercin (2016), A new selection operator for the discrete empirical
    interpolation method; Peherstorfer, Drmač, Gugercin (2020), Stability of discrete empirical
    interpolation and gappy POD, algorithm 1.
    """
    count = modes.shape[1]
    _, pivots = scipy.linalg.qr(modes.mT.numpy(), mode="r", pivoting=True)
    rows = torch.from_numpy(pivots[:count].astype("int64"))
    lengths = modes.square().sum(-1)
    # the bound is of the smallest singular value, on which the error of sampling depends
    for _ in range(number - count):
        _, sigma, right = torch.linalg.svd(modes[rows], full_matrices=False)
        gap = torch.ones(())
        squares = sigma**2
        if count > 1:
            gap = squares[-2] - squares[-1]
        total = gap + lengths
        along_weakest = modes @ right[-1]  # (n,)
        discriminant = total**2 - 4 * gap * along_weakest**2
        gain = total - discriminant.clamp(min=0).sqrt()
        # a row counts once
        gain[rows] = -1.0
        rows = torch.cat([rows, gain.argmax().unsqueeze(0)])
    return rows
