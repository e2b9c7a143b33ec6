"""Evolution equations: names and units, the field at a context, simulation, and datasets."""

import abc
import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
import torch
import xarray as xr
from numpy.random import Generator
from torch import Tensor

from romkit.bases import Basis, Weight
from romkit.core import checks, runtime, tensors
from romkit.core.boundary import Positive, Seed, Times, unchecked, validated
from romkit.core.broadcast import align
from romkit.core.display import Display, append_unit, first_line
from romkit.core.errors import InputError
from romkit.core.memory import refuse_too_large
from romkit.core.types import (
    Array,
    ContextFunction,
    Entries,
    Facts,
    Field,
    Floats,
    Kwargs,
    Metric,
    Names,
    TensorFunction,
)
from romkit.data import ContextParameter, check_states, make_dataset
from romkit.data.contexts import bound_context, context_rows, ends_of, one_context, varies
from romkit.data.conversions import convert_parameters
from romkit.data.layout import Layout, Variable
from romkit.data.schema import shared_unit
from romkit.data.units import Units
from romkit.engine import Engine
from romkit.engine.threads import one_thread
from romkit.projections import Path, Shifts
from romkit.solvers import RK4, Adaptive, Solution, Solver
from romkit.systems.derivatives import differentiable
from romkit.systems.effects import check_motion
from romkit.systems.motion import Motion, warn_lost
from romkit.systems.naming import recorded_name
from romkit.systems.problem import FirstOrder, Parts, Problem, euclidean
from romkit.systems.terms import Quadratic, Term

Recorded = Annotated[xr.Dataset, lambda argument, value: check_states(value)]
"""Trajectories in romkit's schema."""


def bound(rhs: TensorFunction, context: Tensor | ContextFunction) -> Field:
    """f(t, x) of a right-hand side (t, x, c), at a context (..., p) that stays or is a function of
    time.
    """
    moves = varies(context)
    rate = differentiable(rhs)

    def f(t: Tensor, x: Tensor) -> Tensor:
        c = context
        if moves:
            c = context(t)
        return rate(t, x, align(c.to(x), x))

    return f


class EvolutionEquation(Display):
    """A family of dynamical systems ẋ = f(t, x; c), indexed by the context c: its names and units,
    field, simulation and datasets. `System` adds its image in a basis, and lists the attributes.
    """

    __dataclass_fields__: ClassVar[Kwargs]  # a subclass is a dataclass

    name: ClassVar[str]
    order: ClassVar[int] = 1
    context_may_move: ClassVar[bool] = True
    context: ClassVar[tuple[ContextParameter, ...]] = ()
    basis: Basis | None = None
    symmetry: Shifts | None = None
    grid: ClassVar[Mapping[str, Sequence[float]]] = {}
    time_units: ClassVar[str] = "1"
    dt: float
    duration: float
    transient: float = 0.0
    horizon: float
    step: float | None = None
    jump_times: Floats = ()
    solver: Solver | None = None

    if TYPE_CHECKING:  # of which a subclass may make class attributes, fields or properties

        @property
        def state_names(self) -> Sequence[str]: ...
        @property
        def only_solver(self) -> str | None: ...
        @property
        def weight(self) -> Weight: ...
    else:
        weight: Weight = None
        state_names: Sequence[str]
        only_solver: str | None = None

    # -- written by a subclass -----------------------------------------------------------------------

    @abc.abstractmethod
    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        """ẋ (..., n) at a time t and states x (..., n), with c (..., p) broadcastable against the
        leading axes of x.
        """

    @abc.abstractmethod
    def initial_state(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        """(C, n) states before the transient, for contexts (C, p); `rng` is None where they are not
        to be random.
        """

    # -- overridden where the default does not fit ----------------------------------------------------

    def train_contexts(self, rng: Generator) -> Array:
        """(C, p) contexts of the training set: by default 20, uniform over the training range."""
        low, high = ends_of(self.context)
        return rng.uniform(low, high, size=(20, len(self.context)))

    def test_contexts(self) -> Array:
        """(C, p) contexts of the test set: by default 10 points per parameter, all combinations."""
        axes = [np.linspace(p.low, p.high, 10) for p in self.context]
        return np.array(list(itertools.product(*axes)))

    def weigh(self, x: Tensor, u: Tensor, c: Tensor) -> Tensor:
        """W(x; c) u for columns u (..., n, k): identity, inertia, or the weights of a quadrature
        over cells.
        """
        return u

    def terms(self) -> Sequence[Term]:
        """Return terms that add up to `rhs`, if it is a polynomial of x of degree two: none by
        default (see `Term`).
        """
        return ()

    def stencil(self, rows: Tensor) -> Tensor:
        """(s, k) which entries of x the rows (s,) of `rhs` depend on, of a system that gives its
        rows (`rhs_rows`).
        """
        raise self._rows_refusal()

    def rhs_rows(self, t: Tensor, rows: Tensor, x: Tensor, c: Tensor) -> Tensor:
        """Return rows (s,) of `rhs`, (..., s), from the entries x (..., s, k) of their stencils,
        for `through`.
        """
        raise self._rows_refusal()

    def default_solver(self, context: Tensor | ContextFunction) -> Solver:
        """Solver of the full model at contexts (..., p), where no other is given by `using`: RK4,
        and `Adaptive` where the field jumps, unless overridden.
        """
        step = self.step or self.dt
        if self.jump_times:
            # steps of one length cannot end at the jumps
            return unchecked(Adaptive)(max_step=step)
        # large, since in pascal 10⁶ is an ordinary value
        return unchecked(RK4)(step, divergence_threshold=1e12)

    def advice(self, context: Tensor | ContextFunction) -> str:
        """Remedy for a simulation that is lost, of this system with its solver."""
        shorter = f"shorten its step, which is {self.step or self.dt:g}"
        if self.only_solver:
            return shorter
        if self.solver is None:
            return f"{shorter}, or take system.using(romkit.solvers.SciPy('BDF'))"
        return f"shorten the step or the tolerance of {self.solver}, or end the run before"

    def annotate(self, data: Recorded) -> xr.Dataset:
        """Return hook to add variables of the system's own to a dataset, one value per trajectory."""
        return data

    # -- names ----------------------------------------------------------------------------------------

    @functools.cached_property
    def state_units(self) -> Sequence[str]:
        """One entry per component of x: dimensionless, unless overridden."""
        return ["1"] * self.state_size

    @property
    def known_units(self) -> Units:
        """Units of states, contexts and times; "" where the class does not declare them.

        A class that declares its unit of time means it where its states are left dimensionless.
        """
        has_time = self._declares("time_units")
        state = list(self.state_units)
        if not has_time and not self._declares("state_units"):
            state = [""] * len(state)
        time = ""
        if has_time:
            time = self.time_units
        contexts = [parameter.units for parameter in self.context]
        return Units(state, contexts, time)

    @classmethod
    def _declares(cls, name: str) -> bool:
        """Tell whether the class, or one between it and `EvolutionEquation`, has an attribute of
        its own.
        """
        below = cls.__mro__[: cls.__mro__.index(EvolutionEquation)]
        return any(name in vars(kind) for kind in below)

    def facts(self) -> Facts:
        """Return equation, state, context with its ranges, and times."""
        unit = "time units" if self.time_units == "1" else self.time_units
        low, *_, high = (*self.state_names, self.state_names[-1])
        ranges = []
        for parameter in self.context:
            span = f"{parameter.low:g} ... {parameter.high:g}{append_unit(parameter.units)}"
            ranges.append(f"{parameter.name} {span} ({parameter.long_name})")
        sampling = f"{self.duration:g} {unit} per trajectory, every {self.dt:g}"
        return {
            "system": f"{self.name}: {first_line(type(self))}",
            "state": f"{self.state_size} components, {low} ... {high}",
            "context": "\n".join(ranges) or "none",
            "dataset": f"{sampling}; transient {self.transient:g}",
            "rollout": f"{self.horizon:g} {unit} by default",
        }

    @property
    def state_size(self) -> int:
        """n, the number of state components."""
        return len(self.state_names)

    @property
    def phase_names(self) -> list[str]:
        """Names of the components of what `rhs` takes."""
        names = list(self.state_names)
        if self.order == 2:
            names += [f"velocity of {name}" for name in self.state_names]
        return names

    @property
    def context_names(self) -> Names:
        """Names of the context parameters, in the order of the last axis of a context tensor."""
        for parameter in self.context:
            if not isinstance(parameter, ContextParameter):
                raise InputError(
                    "context",
                    expected="ContextParameters",
                    got=repr(parameter),
                    fix="write ContextParameter(name, units, low, high)",
                )
            if parameter.low > parameter.high:
                raise InputError(
                    "context",
                    expected=f"a range of {parameter.name} from low to high",
                    got=f"{parameter.low:g} ... {parameter.high:g}",
                    fix="write its smaller end first",
                )
        return tuple(parameter.name for parameter in self.context)

    # -- the field ------------------------------------------------------------------------------------

    def field(
        self, context: Tensor | float | ContextFunction | None = None, **named: object
    ) -> Field:
        """Return the right-hand side f(t, x) with the context bound, by name (`F=3.15`) or as a
        tensor (..., p).

        A context that varies in time is a function of the scalar t that gives such a tensor.
        """
        if not varies(context):
            context = bound_context(self.context_names, context, named)
        return bound(self.rhs, context)

    def phase_field(self, context: Tensor | ContextFunction) -> Field:
        """Return field of first order, of (q, q̇) of a mechanical system, at a context (..., p) or
        one that varies in time.
        """
        if self.order == 1:
            return self.field(context)
        return EvolutionEquation.field(self, context)

    def commutator(self, shifts: Shifts, x: Tensor, c: Tensor) -> float:
        """Return largest difference of f(g x) and g f(x), relative to f, for a shift g by one
        point, at states x (..., n).
        """
        f = self.field(c)
        t = torch.zeros((), dtype=x.dtype)
        rate = f(t, x)
        # one point generates all shifts
        difference = f(t, shifts.turned(x)) - shifts.turned(rate)
        return float(difference.abs().max() / rate.abs().max())

    def quadratic(self, context: Tensor) -> Quadratic | None:
        """Return the field at contexts (..., p), where its coefficients are at hand: of systems by
        `through`.
        """
        return None

    def metric(self, context: Tensor | ContextFunction) -> Metric:
        """Return the metric of states at a context (..., p); at that of time 0 where it varies in
        time.
        """
        if varies(context):
            c = context(torch.zeros(()))
        else:
            c = bound_context(self.context_names, context)
        if type(self).weigh is EvolutionEquation.weigh:
            return euclidean
        return lambda x, u: self.weigh(x, u, align(c.to(x), x))

    def problem(self, path: Path, context: Tensor | ContextFunction) -> Problem:
        """Return the system as it is reduced by the operators along a path; `context` (..., p) is
        that of the path.
        """
        return FirstOrder(
            path, self.field(context), self.metric(context), jump_times=tuple(self.jump_times)
        )

    # -- simulation -----------------------------------------------------------------------------------

    def start(self, contexts: Tensor, rng: Generator | None = None) -> Parts:
        """(x,) or (q, q̇), each (C, n), after the transient: where datasets begin and, by default,
        rollouts too.
        """
        states = self._initial_parts(contexts, rng)
        if self.transient == 0:
            return states
        # datasets begin at time 0; the bar moves at each of these samples
        times = torch.linspace(-self.transient, 0, 101, dtype=states[0].dtype)
        motion = unchecked(self.simulate)(states, contexts, times, label="transient")
        state = motion.state[..., -1, :]
        settled = state, motion.velocity[..., -1, :]
        return settled[: self.order]

    @validated
    def simulate(
        self,
        parts: Parts,
        context: Tensor | ContextFunction,
        times: Times,
        *,
        engine: Engine = "auto",
        label: str = "full model",
    ) -> Motion:
        """Integrate from a state at `times[0]` with the system's own solver.

        Args:
            parts: (x,), or (q, q̇) of a mechanical system, each (..., n); the motion has their
                precision.
            context: (..., p), or a function of t that gives it; leading axes match those of the
                parts from the left.
            times: (T,) increasing output times.
            engine: "auto", "torch" or "compiled" (see `romkit.engine`).
            label: what the progress bar says.
        """
        tensors.parts("parts", parts, self.order, self.state_size)
        begin, context = _starting(parts, context, self.context_names)
        solution = self.solution(begin, context, times, engine=engine, label=label)
        states = solution.states.chunk(self.order, dim=-1)  # each (..., T, n)
        with torch.no_grad():
            highest = self.rates(context, times, *states)
        tensors_of_motion = [part.to(parts[0].dtype) for part in (*states, highest)]
        if self.order == 1:
            tensors_of_motion.append(None)  # no acceleration
        motion = Motion(*tensors_of_motion, solution.status, solution.cost)
        warn_lost(
            motion.state,
            motion.status,
            torch.cat(begin, dim=-1),
            f"{label} of {self.name}",
            times,
            self.advice(context),
            self.context_names,
            context,
        )
        return motion

    def solution(
        self,
        parts: Parts,
        context: Tensor | ContextFunction,
        times: Tensor,
        *,
        engine: str = "auto",
        label: str,
    ) -> Solution:
        """Return states (..., T, order · n) as of `simulate`, without rates, which of large systems
        may take longer.
        """
        solver = self.solver_at(context)
        # a pulse that is shorter than a step, or ends within one, must be seen
        if getattr(solver, "forced_step", 0.0) is None:
            solver = dataclasses.replace(solver, forced_step=self.step or self.dt)
        if self.jump_times and getattr(solver, "jump_times", None) == ():
            solver = dataclasses.replace(solver, jump_times=tuple(self.jump_times))
        field = self.phase_field(context)
        y = torch.cat(parts, dim=-1)
        with torch.no_grad(), one_thread():
            return unchecked(solver.__call__)(field, y, times, engine=engine, label=label)

    def solver_at(self, context: Tensor | ContextFunction) -> Solver:
        """Return the solver of the full model at contexts (..., p)."""
        if self.solver is not None:
            return self.solver
        return self.default_solver(context)

    def rates(self, context: Tensor | ContextFunction, times: Tensor, *states: Tensor) -> Tensor:
        """Highest rate (..., T, n) along a motion, whose states are (..., T, n), at a context with
        their leading axes.

        The field gives all times at once if torch can do that.
        """
        field = differentiable(self.field(context))  # one that reads its time goes time by time
        axes = (0, *(-2,) * len(states))
        return torch.func.vmap(field, in_dims=axes, out_dims=-2)(times, *states)

    @validated
    def using(self, solver: Solver) -> Self:
        """Copy of the system that another solver integrates: `system.using(SciPy("BDF"))` where it
        is stiff.

        Raises:
            InputError: no solver, or a system that simulates itself.
        """
        if self.only_solver:
            raise InputError(
                "solver",
                expected=f"none, since {self.only_solver} simulates it",
                got=f"{solver}",
                fix="leave it out; the step can be given",
            )
        # systems may be frozen dataclasses
        copied = copy.copy(self)
        object.__setattr__(copied, "solver", solver)
        return copied

    # -- datasets -------------------------------------------------------------------------------------

    @validated
    def dataset(
        self,
        split: str | None = None,
        *,
        seed: Seed = 0,
        duration: Positive | None = None,
        context: Entries | None = None,
        **named: object,
    ) -> xr.Dataset:
        """Simulate trajectories and return them in romkit's schema (see `romkit.data.schema`).

        Args:
            split: "train" (random contexts, from `seed`) or "test"; leave it out to give contexts
                by name.
            seed: seed of the training contexts and of random initial states.
            duration: length of each trajectory; the system's own by default.
            context: parameters by name where one is called like an argument,
                `context={"seed": [1.0, 2.0]}`.
            **named: the other parameters, scalars or arrays of one length: `F=[3.14, 3.15]`.

        Raises:
            InputError: unknown split or context name, a missing context, a duration that is not
                positive.
        """
        contexts, rng = self._contexts(split, seed, named | (context or {}))
        count = checks.steps(duration or self.duration, self.dt)
        start = self.start(contexts, rng)
        state = start[0]
        # states, their rates, and a copy of both while they are put together
        fix = "a shorter one, a larger dt, or fewer contexts"
        refuse_too_large("duration", 8 * count * state.numel(), multiple=4, fix=fix)
        times = torch.arange(count, dtype=torch.float64) * self.dt
        motion = unchecked(self.simulate)(start, contexts, times)
        attrs = {"split": split or "explicit contexts", "seed": seed}
        return self.annotate(self.record(motion, times, contexts, attrs))

    def record(self, motion: Motion, times: Times, contexts: Tensor, attrs: Entries) -> xr.Dataset:
        """Return a motion as a dataset in romkit's schema, with provenance and further attributes.

        Raises:
            InputError: a right-hand side that mixes trajectories or writes into its arguments, or
                a parameter of the context that the system does not depend on.
        """
        self._check_motion(motion, times, contexts)
        variables = {"state": motion.state.numpy(), "velocity": motion.velocity.numpy()}
        if motion.acceleration is not None:
            variables["acceleration"] = motion.acceleration.numpy()
        if self.grid:
            attrs = attrs | {"layout": self._layout().to_json()}
        return unchecked(make_dataset)(
            variables,
            times=times.numpy(),
            time_units=self.time_units,
            state_names=self.state_names,
            state_units=self.state_units,
            contexts=contexts.numpy(),
            context=self.context,
            attrs=self.provenance() | attrs,
        )

    def _layout(self) -> Layout:
        """Layout of the state as one field on the grid.

        Raises:
            InputError: a grid of another number of points than the state has components.
        """
        shape = tuple(len(places) for places in self.grid.values())
        if math.prod(shape) != self.state_size:
            raise InputError(
                "grid",
                expected=f"a grid of {self.state_size} points, one for each component",
                got=" x ".join(map(str, shape)),
                fix="give the places of the states",
            )
        units = self.known_units
        field = Variable("state", tuple(self.grid), shape, units=shared_unit(units.state, ""))
        coords = {}
        for name, places in self.grid.items():
            coords[name] = {"values": np.asarray(places).tolist(), "attrs": {}, "dims": [name]}
        return unchecked(Layout)((field,), coords, time_units=units.time)

    def provenance(self) -> Entries:
        """Attributes of a file that identify the system: name, parameters, solver, step, transient,
        versions.
        """
        parameters = {}
        if dataclasses.is_dataclass(self):
            parameters = dataclasses.asdict(self)
        solver = self.only_solver or self.solver
        if solver is None:
            middle = np.mean(ends_of(self.context), axis=0)
            solver = type(self.default_solver(torch.from_numpy(middle))).__name__
        return {
            "system": recorded_name(type(self), self.name, EvolutionEquation),
            "parameters": parameters,
            "solver": str(solver),
            "dt": self.dt,
            "step": self.step or self.dt,
            "transient": self.transient,
            "versions": runtime.versions(),
        }

    def at_rest(self, contexts: Tensor) -> Parts:
        """Return states to be replaced by given ones, each (C, n): with no velocity, where a system
        has any.
        """
        return (contexts.new_zeros(len(contexts), self.state_size),) * self.order

    # -- inside ---------------------------------------------------------------------------------------

    def _rows_refusal(self) -> InputError:
        return InputError(
            "rows",
            expected="a system that gives them",
            got=self.name,
            fix="write stencil and rhs_rows",
        )

    def _check_motion(self, motion: Motion, times: Tensor, contexts: Tensor) -> None:
        check_motion(self, motion, times, contexts)

    def _initial_parts(self, contexts: Tensor, rng: Generator | None) -> Parts:
        # users write it in NumPy, too
        return (tensors.tensor("initial_state", self.initial_state(contexts, rng)),)

    def _contexts(
        self, split: str | None, seed: int, named: Mapping[str, object]
    ) -> tuple[Tensor, Generator | None]:
        """Return contexts (C, p) of a split, or given by name, and a generator for initial states
        where those are random.
        """
        if split is None:
            names = self.context_names
            values = convert_parameters(named, names, self.known_units.context)
            return torch.from_numpy(context_rows(names, values)), None
        checks.one_of("split", split, ("train", "test"))
        if named:
            raise InputError(
                "split",
                expected="a split or contexts by name",
                got=f"both {split!r} and {sorted(named)}",
                fix="drop the split, or the contexts",
            )
        if split == "test":
            return torch.from_numpy(self.test_contexts()), None
        rng = np.random.default_rng(seed)
        return torch.from_numpy(self.train_contexts(rng)), rng


def _starting(
    parts: Parts, context: Tensor | ContextFunction, names: Sequence[str]
) -> tuple[Parts, Tensor | ContextFunction]:
    """Start and context (..., p) of a motion in float64, each with all leading axes of both, if
    they fit.
    """
    states = [part.double() for part in parts]
    if callable(context):
        return tuple(states), context
    given = [one_context(context, names).double(), *states]
    like = given[0].new_empty((1,) * max(x.ndim for x in given))
    c, *states = [align(x, like) for x in given]
    for x in states:
        # without their last axes, since there may be no parameters
        tensors.broadcast(contexts=c.sum(-1), parts=x.sum(-1))
    lead = torch.broadcast_shapes(c.shape[:-1], *(x.shape[:-1] for x in states))
    return tuple(x.expand(*lead, -1) for x in states), c.expand(*lead, -1)
