"""A system seen through a basis: exact tensors where the field is polynomial, a few sampled rows
where not.
"""

import functools

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis, weigher
from romkit.bases.base import root_of
from romkit.core.boundary import Positive, validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.core.types import ContextFunction, Field
from romkit.data.context import varies
from romkit.engine import Device
from romkit.systems.base import System
from romkit.systems.problem import Parts
from romkit.systems.sampled import (
    Sampled,
    basis_of_rates,
    coordinates_of,
    gives_rows,
    training_data,
)
from romkit.systems.terms import Projected, Quadratic

OVERSAMPLING = 2
"""Rows for each mode of the right-hand sides: with one, the error of sampling is twice as large;
more gain little.
"""

METRIC = 1e-8
"""Largest error of Vᵀ W V = I in the metric of the system."""

SKETCH = 32
"""Random combinations of what lies outside of the subspace: its length is known to an eighth
(1/√64).
"""


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
        self.jump_times = full.jump_times
        self.step = (
            None if full.only_solver else full.step
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
