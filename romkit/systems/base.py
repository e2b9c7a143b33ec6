"""What every system gives: names and units, the field at a context, initial states, simulations, datasets."""

import abc
import copy
import itertools
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import checks
from romkit.bases import Basis, Weight
from romkit.boundary import Codes, Hooks, Positive, Seed, Time, Times, checked, hook
from romkit.data import ContextParameter
from romkit.data.context import bound_context, varies
from romkit.engine import Engine
from romkit.engine.devices import Device
from romkit.engine.threads import one_thread
from romkit.errors import InputError
from romkit.problem import FirstOrder, Parts, Problem, euclidean
from romkit.solvers import RK4, Solution, Solver
from romkit.systems.axes import Columns, Context, ContextRows, Phases, Recorded, States
from romkit.systems.binding import bound, weighing
from romkit.systems.motion import LARGEST, Motion, along, at_each_time, rounded, starting, warn_of_divergence
from romkit.systems.quadratic import Quadratic
from romkit.systems.records import identity, recorded
from romkit.systems.splits import contexts_of
from romkit.systems.terms import Term
from romkit.types import ContextFunction, Field, Metric, OperatorPath


class System(Hooks, abc.ABC):
    """A family of dynamical systems ẋ = f(t, x; c), indexed by the context c.

    A subclass names its state and context and writes `rhs` and `initial_state`; it inherits the rest. Shapes:
    x is (..., n), c is (..., p), and leading axes match from the left (a context (C, p) goes with states
    (C, T, n)). A user's own system in twenty lines is in docs/extending.md.

    Attributes:
        name: how the system is called in files and on the command line.
        state_names, state_units: one entry per component of x.
        context: the parameters that c is made of, with their training range.
        time_units: unit of t.
        dt: sampling interval, and integration step unless `step` is given.
        step: largest integration step of the full model.
        solver: of the full model in place of its own; `using` changes it.
        own_solver, simulator: name of its own solver; of what simulates it where that is no `Solver`, else None.
        duration: length of the trajectories in a dataset, sampled at 0, dt, ..., duration - dt.
        transient: time that is simulated and thrown away before the first sample.
        horizon: default length of a rollout.
        context_may_move: whether the context may be a function of time.
        basis: whose coordinates the states are, None but for systems by `through`.
        weight: W of the metric of states where it is the same everywhere, for bases; None for the identity.

    Example:
        >>> import romkit
        >>> class Decay(romkit.systems.System):
        ...     name, state_names, state_units, dt, duration, horizon = "decay", ("x",), ("1",), 0.1, 1.0, 1.0
        ...     def rhs(self, t, x, c): return -x
        ...     def initial_state(self, contexts, rng): return contexts.new_ones(len(contexts), 1)
        >>> dict(romkit.simulate(Decay()).state.sizes)
        {'trajectory': 1, 'time': 11, 'component': 1}
    """

    name: ClassVar[str]
    own_solver: ClassVar[str] = "RK4"
    simulator: str | None = None
    context_may_move: ClassVar[bool] = True
    context: ClassVar[tuple[ContextParameter, ...]] = ()
    weight: Weight = None
    basis: Basis | None = None
    time_units: ClassVar[str] = "1"
    state_names: Sequence[str]
    state_units: Sequence[str]
    dt: float
    duration: float
    transient: float = 0.0
    horizon: float
    step: float | None = None
    solver: Solver | None = None

    # -- what a subclass writes ------------------------------------------------------------------------------------

    @hook
    @abc.abstractmethod
    def rhs(self, t: Tensor, x: Phases, c: Context) -> Tensor:
        """ẋ (..., n) at a time t and states x (..., n), with c (..., p) broadcastable against the leading axes of x."""

    @hook
    @abc.abstractmethod
    def initial_state(self, contexts: Context, rng: np.random.Generator | None) -> Tensor:
        """(C, n) states before the transient, for contexts (C, p); `rng` is None where they are not to be random."""

    @hook
    def train_contexts(self, rng: np.random.Generator) -> np.ndarray:
        """(C, p) contexts of the training set: by default 20, uniform over the training range."""
        low, high = self._ranges()
        return rng.uniform(low, high, size=(20, len(self.context)))

    def test_contexts(self) -> np.ndarray:
        """(C, p) contexts of the test set: by default 10 points per parameter, all combinations."""
        axes = [np.linspace(p.low, p.high, 10) for p in self.context]
        return np.array(list(itertools.product(*axes)))

    @hook
    def weigh(self, x: States, u: Columns, c: Context) -> Tensor:
        """W(x; c) u for columns u (..., n, k): identity, inertia, or the weights of a quadrature over cells."""
        return u

    def terms(self) -> Sequence[Term]:
        """What `rhs` is the sum of, if it is a polynomial of x of degree two: none by default (see `Term`)."""
        return ()

    @hook
    def stencil(self, rows: Codes) -> Tensor:
        """(s, k) which entries of x the rows (s,) of `rhs` depend on, of a system that gives its rows (`rhs_rows`)."""
        raise InputError("rows", expected="a system that gives them", got=self.name, fix="write stencil and rhs_rows")

    @hook
    def rhs_rows(self, t: Time, rows: Codes, x: Tensor, c: Context) -> Tensor:
        """Rows (s,) of `rhs`, (..., s), from the entries x (..., s, k) of their stencils, for `through`."""
        raise InputError("rows", expected="a system that gives them", got=self.name, fix="write stencil and rhs_rows")

    @hook
    def annotate(self, data: Recorded) -> xr.Dataset:
        """Hook to add variables of the system's own to a dataset, one value per trajectory."""
        return data

    order: ClassVar[int] = 1

    @property
    def state_size(self) -> int:
        """n, the number of state components."""
        return len(self.state_names)

    @property
    def phase_size(self) -> int:
        """Components of what `rhs` takes: n, or 2n of a mechanical system."""
        return self.order * self.state_size

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the context parameters, in the order of the last axis of a context tensor."""
        return tuple(parameter.name for parameter in self.context)

    def field(self, context: Tensor | float | ContextFunction | None = None, **named: object) -> Field:
        """The right-hand side f(t, x) with the context bound, by name (`F=3.15`) or as a tensor (..., p).

        A context that varies in time is a function of the scalar t that gives such a tensor.
        """
        return bound(self.rhs, context if varies(context) else self._context_tensor(context, named))

    @checked
    def through(
        self, basis: Basis, data: xr.Dataset | None = None, *, tolerance: Positive | None = None, device: Device = "cpu"
    ) -> "System":
        """The system in the coordinates of a basis, at a cost that does not depend on n: see `SystemThroughBasis`.

        Without error from its `terms`; with training data from a few rows (`rhs_rows`) that are chosen on them.

        Args:
            basis: of the states.
            data: training data, or their coordinates in the basis.
            tolerance: share of the energy of right-hand sides that may be left out; by default that of the basis.
            device: where tensors are computed: "cpu", or "cuda" where the terms are calls to torch.
        """
        from romkit.systems.through import through  # to a System itself

        return through(self, basis, data, tolerance, device)

    @hook
    def quadratic(self, context: Context) -> Quadratic | None:
        """The field at contexts (..., p), where its coefficients are at hand: of systems by `through`."""
        return None

    def metric(self, context: Tensor | ContextFunction) -> Metric:
        """The metric of states at a context (..., p); at that of time 0 where it varies in time."""
        c = context(torch.zeros(())) if varies(context) else self._context_tensor(context, {})
        if type(self).weigh is System.weigh:
            return euclidean
        return weighing(self.weigh, c)

    @hook
    def problem(self, path: OperatorPath, context: Context | ContextFunction) -> Problem:
        """The system as it is reduced by the operators along a path; `context` (..., p) is that of the path."""
        return FirstOrder(path, self.field(context), self.metric(context))

    @hook
    def start(self, contexts: Context, rng: np.random.Generator | None = None) -> Parts:
        """(x,) or (q, q̇), each (C, n), after the transient: where datasets begin and, by default, rollouts too."""
        parts = self._initial_parts(contexts, rng)
        if self.transient == 0:
            return parts
        span = torch.linspace(-self.transient, 0, 101, dtype=parts[0].dtype)  # datasets begin at 0
        motion = self.simulate(parts, contexts, span, label="transient")
        return (motion.state[..., -1, :], motion.velocity[..., -1, :])[: self.order]

    @checked
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
            parts: (x,), or (q, q̇) of a mechanical system, each (..., n); the motion has their precision.
            context: (..., p), or a function of t that gives it; leading axes match those of the parts from the left.
            times: (T,) increasing output times.
            engine: "auto", "torch" or "compiled" (see `romkit.engine`).
            label: what the progress bar says.
        """
        begin, context = starting(parts, context, self.order, self.state_size, self.context_names)
        with torch.no_grad():
            motion = self._simulate(begin, context, times, engine, label)
        warn_of_divergence(motion, begin, times, f"{label} of {self.name}", self.context_names, context)
        return rounded(motion, parts[0].dtype)

    @checked
    def using(self, solver: Solver) -> Self:
        """The same system, integrated by another solver: `system.using(SciPy("BDF"))` where it is stiff.

        Raises:
            InputError: no solver, or a system that simulates itself.
        """
        if self.simulator:
            expected = f"none, since {self.simulator} simulates it"
            raise InputError("solver", expected=expected, got=f"{solver}", fix="leave it out; the step can be given")
        other = copy.copy(self)
        object.__setattr__(other, "solver", solver)
        return other

    @checked
    def dataset(
        self, split: str | None = None, *, seed: Seed = 0, duration: Positive | None = None, **context: object
    ) -> xr.Dataset:
        """Simulate trajectories and return them in romkit's schema (see `romkit.data.schema`).

        Args:
            split: "train" (random contexts, from `seed`) or "test"; leave it out to give contexts by name.
            seed: seed of the training contexts and of random initial states.
            duration: length of each trajectory; the system's own by default.
            **context: values by name, scalars or arrays of one length: `F=[3.14, 3.15]`.

        Raises:
            InputError: unknown split or context name, a missing context, a duration that is not positive.
        """
        contexts, rng = contexts_of(self, split, seed, context)
        times = torch.arange(checks.steps(duration or self.duration, self.dt), dtype=torch.float64) * self.dt
        motion = self.simulate(self.start(contexts, rng), contexts, times)
        attrs = {"split": split or "explicit contexts", "seed": seed}
        return self.annotate(self.record(motion, times, contexts, attrs))

    @hook
    def record(self, motion: Motion, times: Times, contexts: ContextRows, attrs: dict[str, object]) -> xr.Dataset:
        """A motion as a dataset in romkit's schema, with provenance and further attributes."""
        return recorded(self, motion, times, contexts, self.provenance() | attrs)

    def provenance(self) -> dict[str, object]:
        """What identifies the system in a file: name, parameters, solver, step, transient, versions."""
        return identity(self)

    @hook
    def at_rest(self, contexts: ContextRows) -> Parts:
        """States to be replaced by given ones, each (C, n): with no velocity, where a system has any."""
        return (contexts.new_zeros(len(contexts), self.state_size),) * self.order

    def _initial_parts(self, contexts: Tensor, rng: np.random.Generator | None) -> Parts:
        return (self.initial_state(contexts, rng),)

    def _simulate(
        self, parts: Parts, context: Tensor | ContextFunction, times: Tensor, engine: str, label: str
    ) -> Motion:
        f = self.field(context)
        solution = self._solve(f, parts, context, times, engine, label)
        velocity = (at_each_time if callable(context) else along)(f, times, solution.states)
        return Motion(solution.states, velocity, None, solution.status, solution.cost)

    def _solve(
        self, f: Field, parts: Parts, context: Tensor | ContextFunction, times: Tensor, engine: str, label: str
    ) -> Solution:
        with one_thread():
            solver = self.solver or self._own_solver(context)
            return solver(f, torch.cat(parts, dim=-1), times, engine=engine, label=label)

    def _own_solver(self, context: Tensor | ContextFunction) -> Solver:
        return RK4(self.step or self.dt, divergence_threshold=LARGEST)

    def _context_tensor(self, context: Tensor | float | None, named: dict) -> Tensor:
        return bound_context(self.context_names, context, named)

    def _ranges(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([p.low for p in self.context]), np.array([p.high for p in self.context])
