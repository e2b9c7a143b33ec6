"""Systems, and their images in a basis: exact tensors where the field is polynomial, a few sampled
rows where not.
"""

import functools

import torch
import xarray as xr
from numpy.random import Generator
from torch import Tensor

from romkit.bases import Basis, weigher
from romkit.bases.base import root_of
from romkit.core import tensors
from romkit.core.boundary import Positive, validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.core.types import Args, Array, ContextFunction, Entries, Field
from romkit.data.contexts import bound_context, varies
from romkit.data.schema import shared_unit
from romkit.data.units import Units, check_same
from romkit.engine import Device
from romkit.systems.equation import EvolutionEquation
from romkit.systems.problem import Parts
from romkit.systems.sampled import (
    Sampled,
    coordinates_of,
    gives_rows,
    rate_basis,
    training_data,
)
from romkit.systems.terms import Projected, Quadratic


class System(EvolutionEquation):
    """A family of dynamical systems ẋ = f(t, x; c), indexed by the context c.

    A subclass names its state and context and writes `rhs` and `initial_state`; it inherits the
    rest. Shapes: x is (..., n), c is (..., p), and leading axes match from the left (a context (C,
    p) goes with states (C, T, n)). A user's own system in twenty lines is in docs/extending.md.

    Attributes:
        name: how the system is called in files and on the command line.
        state_names, state_units: one entry per component of x; dimensionless by default.
        context: the parameters that c is made of, with their training range.
        time_units: unit of t.
        dt: sampling interval, and integration step unless `step` is given.
        step: largest integration step of the full model.
        jump_times: times at which the field jumps, where steps end: a relay, a pulse. A solver with
            steps of one length, given by `using`, does not look at them.
        solver: in place of `default_solver`; `using` sets it.
        only_solver: name of a default solver that no other can replace, as that of a program; else
            None.
        duration: length of the trajectories in a dataset, sampled at 0, dt, ..., duration - dt.
        transient: time that is simulated and thrown away before the first sample.
        horizon: default length of a rollout, which ends with the datasets where they are as long.
        context_may_move: whether the context may be a function of time.
        basis: whose coordinates the states are, None but for systems by `through`.
        weight: W of the metric of states where it is the same everywhere, for bases; None for the
            identity.
        grid: places along each axis, `{"x": places}`, of a state that is one field in C order of the
            axes; datasets, forecasts and pictures have them then.
        symmetry: shifts of a ring that commute with the field, which `romkit.fit(symmetry="shift")`
            factors out.

    Example:
        >>> import romkit
        >>> class Decay(romkit.systems.System):
        ...     name, state_names, state_units, dt, duration, horizon = "decay", ("x",), ("1",), 0.1, 1.0, 1.0
        ...     def rhs(self, t, x, c): return -x
        ...     def initial_state(self, contexts, rng): return contexts.new_ones(len(contexts), 1)
        >>> dict(romkit.simulate(Decay()).state.sizes)
        {'trajectory': 1, 'time': 11, 'component': 1}
    """

    @validated
    def through(
        self,
        basis: Basis,
        data: xr.Dataset | None = None,
        *,
        tolerance: Positive | None = None,
        device: Device = "cpu",
    ) -> "SystemThroughBasis":
        """Return the system in the coordinates of a basis, at a cost that does not depend on n: see
        `SystemThroughBasis`.

        Exact from the `terms` of the system; with training data from a few rows (`rhs_rows`) that
        are chosen on the data.

        Args:
            basis: of the states.
            data: training data, or their coordinates in the basis.
            tolerance: share of the energy of right-hand sides that may be left out; by default that
                of the basis.
            device: where tensors are computed: "cpu", or "cuda" where the terms are calls to torch.

        Raises:
            InputError: a system without terms or rows, of second order, of other states or with
                another metric than the basis; data of another system.
        """
        check_fits(self, basis)
        if data is not None:
            return SystemThroughBasis(self, basis, _sampled(self, basis, data, tolerance))
        terms = self.terms()
        if terms:
            return SystemThroughBasis(self, basis, Projected(terms, basis, device))
        if gives_rows(self):
            raise InputError(
                "data",
                expected="training data, on which rows are chosen",
                got="none",
                fix="give the data of the basis",
            )
        raise InputError(
            "system",
            expected="a system with terms or rows",
            got=f"{self.name}, neither",
            fix=f"write terms() or rhs_rows() of {type(self).__name__}, or roll out in full space",
        )


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
        self.name = f"{full.name}-through-basis"
        shared = ("context", "time_units", "context_may_move", "solver", "jump_times")
        for name in (*shared, "dt", "duration", "horizon"):
            setattr(self, name, getattr(full, name))
        # the step of another program says nothing of the coordinates, which RK4 integrates
        self.step = None if full.only_solver else full.step

    def __getstate__(self) -> Entries:
        """Attributes without the functions among the terms of the full system, which need not have
        names that another process knows.
        """
        state = dict(vars(self))
        state.pop("sketch", None)
        if isinstance(self.image, Projected):
            state["image"] = self.image.replace_coefficients([])
        return state

    def __setstate__(self, state: Entries) -> None:
        vars(self).update(state)
        if isinstance(self.image, Projected):
            coefficients = [term.coefficient for term in self.full.terms()]
            self.image = self.image.replace_coefficients(coefficients)

    @property
    def state_names(self) -> list[str]:
        """y0, ..., y{r-1}, from the largest to the smallest singular value."""
        return [f"y{k}" for k in range(self.basis.rank)]

    @property
    def state_units(self) -> list[str]:
        """Unit of the states, if they share one, times the unit of the root of the weight."""
        return [shared_unit(self.full.state_units, "mixed")] * self.basis.rank

    @property
    def known_units(self) -> Units:
        full = self.full.known_units
        return full._replace(state=[shared_unit(full.state, "mixed")] * self.basis.rank)

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        return self.image.rate(t, x, c)

    @validated
    def field(
        self, context: Tensor | float | ContextFunction | None = None, **named: object
    ) -> Field:
        """Like `System.field`; tensors are summed at a constant context once, and not at every
        evaluation.
        """
        if isinstance(self.image, Sampled) or varies(context):
            return super().field(context, **named)
        c = bound_context(self.context_names, context, named)
        polynomials: dict[Args, Quadratic] = {}

        def f(t: Tensor, y: Tensor) -> Tensor:
            kind = (y.ndim, y.dtype, y.device)
            # the sum over terms costs as much as many evaluations
            if kind not in polynomials:
                c_of_kind = align(c.to(y), y)
                polynomials[kind] = self.image.at(c_of_kind)
            return polynomials[kind](y)

        return f

    def quadratic(self, context: Tensor) -> Quadratic | None:
        if isinstance(self.image, Sampled):
            return None
        return self.image.at(context)

    @validated
    def unresolved(self, data: xr.Dataset) -> xr.DataArray:
        """Return share of the full velocity that the subspace does not hold, ‖f - V Vᵀ W f‖ / ‖f‖
        at x̄ + V y: a residual.

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
            contexts = {}
            for name in set(self.context_names) & set(data.variables):
                parameter = data[name]
                contexts[name] = (("trajectory", *parameter.dims), parameter.values[None])
            run = data.expand_dims("trajectory").assign_coords(contexts)
            return self.unresolved(run).isel(trajectory=0)
        times, y, c = coordinates_of(self.full, self.basis, data)
        with torch.no_grad():
            shares = self._shares(times, y, c)
        coords = {name: data[name] for name in ("time", *self.context_names)}
        attrs = {"units": "1", "long_name": "share of the velocity outside of the subspace"}
        return xr.DataArray(shares.numpy(), coords, ("trajectory", "time"), attrs=attrs)

    def _shares(self, times: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Return shares (C, T) of the velocity outside of the subspace at coordinates (C, T, r)."""
        if isinstance(self.image, Sampled):
            contexts = c.expand(-1, len(times), -1)
            shares = [
                self.image.unresolved(t, y[:, k], contexts[:, k])  # (C,)
                for k, t in enumerate(times)
            ]
            return torch.stack(shares, dim=1)
        # the mean square of random combinations is the square of the length
        outside = self.sketch.at(c)(y).square().mean(-1)
        inside = self.image.at(c)(y).square().sum(-1)
        return (outside / (outside + inside)).sqrt()

    @functools.cached_property
    def sketch(self) -> Projected:
        """Random combinations of W^(1/2) times the velocity outside of the subspace, for
        `unresolved`; of 32 a length has an error of about an eighth.
        """
        modes = self.basis.modes  # (n, r)
        n = len(modes)
        draw = torch.Generator().manual_seed(0)
        normal = torch.randn(n, 32, generator=draw, dtype=modes.dtype)
        tests = root_of(self.full.weight, n)(normal)
        tests = tests - self.basis.dual @ (modes.mT @ tests)
        return Projected(self.full.terms(), self.basis, torch.device("cpu"), tests)

    def initial_state(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        start = tensors.tensor("initial_state", self.full.initial_state(contexts, rng))
        return self.basis.encode(start)

    def start(self, contexts: Tensor, rng: Generator | None = None) -> Parts:
        return tuple(self.basis.encode(state) for state in self.full.start(contexts, rng))

    def train_contexts(self, rng: Generator) -> Array:
        return self.full.train_contexts(rng)

    def test_contexts(self) -> Array:
        return self.full.test_contexts()


def _sampled(
    system: System,
    basis: Basis,
    data: xr.Dataset,
    tolerance: float | None,
    *,
    oversampling: int = 2,
) -> Sampled:
    """Return image of the field from a few rows; of as many as `oversampling` times the modes of
    right-hand sides.
    """
    if not gives_rows(system):
        raise InputError(
            "system",
            expected="a system with rows",
            got=f"{system.name} without",
            fix=f"write stencil() and rhs_rows() of {type(system).__name__}",
        )
    seen = training_data(system, basis, data)
    rates = rate_basis(system, basis, seen, tolerance)
    number = min(oversampling * rates.rank, rates.size)
    return Sampled.choose(system, basis, rates, number).calibrated(*seen)


def check_fits(system: System, basis: Basis, *, metric: float = 1e-8) -> None:
    """Raise InputError unless the basis is one of the states of the system, orthonormal in its
    metric.

    `metric`: largest error of Vᵀ W V = I in the metric of the system.
    """
    if system.order != 1:
        raise InputError(
            "system",
            expected="a first-order one",
            got=f"{system.name}, of second order",
            fix="write it as ẋ = f(x)",
        )
    if system.state_size != basis.size:
        raise InputError(
            "basis",
            expected=f"a basis of {system.state_size} components, as {system.name} has",
            got=f"one of {basis.size}",
            fix="use one of its data",
        )
    if basis.units:
        check_same(
            "basis",
            Units(basis.units, []),
            Units(system.known_units.state, []),
            components=system.state_names,
            context=[],
            fix=f"make it of data in the units of {system.name}",
        )
    weigh = weigher(system.weight, basis.size)
    gram = basis.modes.mT @ weigh(basis.modes)
    identity = torch.eye(basis.rank, dtype=gram.dtype)
    error = (gram - identity).abs().max().item()
    # a metric that depends on the state has no matrix to compare with
    metric_moves = type(system).weigh is not System.weigh and system.weight is None
    if error > metric or metric_moves:
        raise InputError(
            "basis",
            expected=f"modes orthonormal in the metric of {system.name}",
            got=f"Vᵀ W V = I up to {error:.1e}",
            fix="make it with romkit.basis(data, weight=system.weight)",
        )
