"""Solvers take a field, an initial state and output times, and return states and a status per
member.
"""

import abc
import enum
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor

from romkit.core import errors, tensors
from romkit.core.boundary import Times, validated
from romkit.core.types import Args, Entries, Field, Kwargs, Pair
from romkit.engine import Engine

Run = Callable[[Tensor, Tensor], Tensor]
"""(y0, times) -> states (T, ..., d): a solver that has been made ready for one field."""

Prepared = tuple[Run, str]
"""A run, and the name of the engine that it goes by."""


class Status(enum.IntEnum):
    """End of the integration of one member, as a code (a divergence is never an exception).

    Example:
        >>> import torch
        >>> from romkit.solvers import RK4, Status
        >>> solution = RK4(0.01)(lambda t, y: y**2, torch.tensor([[-1.0], [5.0]]), torch.linspace(0, 1, 5))
        >>> [Status(code).name for code in solution.status.tolist()]
        ['COMPLETED', 'DIVERGED']
    """

    COMPLETED = 0
    DIVERGED = 1

    @classmethod
    def encode(cls, alive: Tensor) -> Tensor:
        """Codes (...), int8, of members that are alive (...) at the end, or not."""
        return torch.where(alive, cls.COMPLETED, cls.DIVERGED).to(torch.int8)


class Solution(NamedTuple):
    """Times (T,), states (..., T, d) with NaN from a member's divergence on, status (...) of
    `Status` codes, and cost.

    `cost` has `solver` with its settings, `engine` ("compiled", or "torch" with the reason where
    compiling was considered), and `seconds_compiling` and `seconds_computing`.

    Example:
        >>> import torch
        >>> from romkit.solvers import RK4
        >>> solution = RK4(0.1)(lambda t, y: -y, torch.ones(3, 2), torch.linspace(0, 1, 5))
        >>> times, states, status, cost = solution
        >>> times.shape, states.shape, status.shape, sorted(cost)
        (torch.Size([5]), torch.Size([3, 5, 2]), torch.Size([3]), ['engine', 'seconds_compiling',
        'seconds_computing', 'solver'])
    """

    times: Tensor
    states: Tensor
    status: Tensor
    cost: Entries


class WithBounds(Protocol):
    """A solver whose steps may have bounds, and end at jumps."""

    @property
    def max_step(self) -> float | None: ...
    @property
    def forced_step(self) -> float | None: ...
    @property
    def jump_times(self) -> Sequence[float]: ...


class Solver(abc.ABC):
    """Integrates ẏ = f(t, y) for a whole batch; a diverging member never changes its neighbours.

    A member counts as diverged at the first output time at which a component is not finite or
    exceeds `divergence_threshold` in magnitude. Its states are NaN from there on.

    Example:
        >>> from dataclasses import dataclass
        >>> import torch
        >>> from romkit.solvers import Solver
        >>> @dataclass(frozen=True)
        ... class Euler(Solver):
        ...     def prepare(self, field, y0, times, engine, label):
        ...         def run(y, times):
        ...             states = [y]
        ...             for t, h in zip(times[:-1], times.diff()):
        ...                 states.append(states[-1] + h * field(t, states[-1]))
        ...             return torch.stack(states)
        ...         return run, "torch"
        >>> Euler()(lambda t, y: -y, torch.ones(1, 1), torch.tensor([0.0, 0.5, 1.0])).states.flatten()
        tensor([1.0000, 0.5000, 0.2500])
    """

    if TYPE_CHECKING:  # a field or a property of a solver

        @property
        def divergence_threshold(self) -> float: ...
    else:
        divergence_threshold: float = 1e6

    @validated
    def __call__(
        self,
        field: Field,
        y0: Tensor,
        times: Times,
        *,
        engine: Engine = "auto",
        label: str = "integrating",
    ) -> Solution:
        """Integrate from `times[0]` to each of `times`.

        Args:
            field: right-hand side f(t, y), y of shape (..., d).
            y0: (..., d) states at `times[0]`; each entry of the leading axes is a member.
            times: (T,) strictly increasing output times.
            engine: "auto", "torch" or "compiled" (see `romkit.engine`).
            label: what the progress bar says.

        Raises:
            InputError: what cannot be used; a field whose result is not of the shape of the state.
        """
        tensors.axes("y0", y0, "d")
        times_as_y, started = times.to(y0), time.perf_counter()
        run, name = (lambda y, times: y.expand(len(times), *y.shape)), "torch"
        if 0 not in y0.shape:  # no members: not every library can do nothing
            run, name = self.prepare(field, y0, times_as_y, engine, label)
        prepared = time.perf_counter()
        states = run(y0, times_as_y)
        cost = {"solver": str(self), "engine": name, "seconds_compiling": prepared - started}
        cost["seconds_computing"] = time.perf_counter() - prepared
        return Solution(times, *scored(states, self.divergence_threshold), cost)

    @abc.abstractmethod
    def prepare(
        self, field: Field, y0: Tensor, times: Times, engine: Engine, label: str
    ) -> Prepared:
        """Return function that integrates the field, and the name of its engine.

        The function will be called with states like y0 and with `times`, or with one part of them
        after the other. It returns states (T, ..., d); a member that has left
        `divergence_threshold` may be anything from then on.
        """


def check_field(field: Field, t: Tensor, y: Tensor) -> None:
    """Raise unless the rate has the shape of the state: another shape would broadcast without a
    word.
    """
    rate = field(t, y.clone())  # derivatives along a path need numbers with memory of their own
    got = type(rate).__name__
    if isinstance(rate, Tensor):
        # of half precision, three digits would be left
        is_precise = rate.is_floating_point() and rate.dtype.itemsize >= 4
        if rate.shape == y.shape and is_precise:
            return
        got = f"shape {tuple(rate.shape)}, {rate.dtype}"
    raise errors.InputError(
        "field",
        expected=f"a field that gives real numbers of shape {tuple(y.shape)}, as the state",
        got=got,
        fix="return a rate for each component",
    )


def is_time_dependent(field: Field, t: Tensor, y: Tensor) -> bool:
    """Tell whether the field looks at its time at all; one that does may depend on it elsewhere."""
    looks = []

    class Watched(Tensor):
        """A time that notices when a function of torch reads it."""

        @classmethod
        def __torch_function__(
            cls,
            function: object,
            types: object,
            args: Args = (),
            kwargs: Kwargs | None = None,
        ) -> object:
            # an attribute, such as the dtype, says nothing of when it is
            looks.append(getattr(function, "__name__", "") != "__get__")
            return super().__torch_function__(function, types, args, kwargs)

    field(t.clone().as_subclass(Watched), y.clone())
    return any(looks)


def forcing(
    solver: WithBounds, field: Field, y0: Tensor, times: Tensor, *, forced_steps: int = 100
) -> tuple[float, Tensor]:
    """Return the longest step that a solver may take, and the times (J,) at which steps have to
    end.

    Without a setting for it, steps of a field that depends on time are bounded too: an estimate of
    the error sees a short pulse only where a stage falls into it.

    Args:
        solver: with `max_step`, `forced_step` and `jump_times`.
        field: f(t, y).
        y0: (..., d) where it starts.
        times: (T,) of the output.
        forced_steps: steps in a run of a field that depends on time, at least, where nothing else
            bounds them.
    """
    start, end = times[0], times[-1]
    span = float(end - start)
    # steps begin and end a run anyway
    jumps = times.new_tensor(sorted(solver.jump_times))
    jumps = jumps[(jumps > start) & (jumps < end)]
    is_forced = is_time_dependent(field, start, y0)
    if not is_forced:
        jumps = jumps[:0]
    if solver.max_step is not None:
        return solver.max_step, jumps
    if not is_forced:
        return span, jumps
    if solver.forced_step is not None:
        return solver.forced_step, jumps
    return span / forced_steps, jumps


def stated(options: Mapping[str, float | None]) -> list[str]:
    """Return options that are set, as they are written."""
    return [f"{name}={value:g}" for name, value in options.items() if value is not None]


def is_bounded(y: Tensor, threshold: float) -> Tensor:
    """(..., 1) mask of the members that are finite and within the threshold (NaN compares false)."""
    return (y.abs() <= threshold).all(-1, keepdim=True)


def scored(states: Tensor, threshold: float) -> Pair:
    """Return states (..., T, d) of (T, ..., d), NaN from a member's divergence on, and `Status`
    codes (...).
    """
    alive = is_bounded(states, threshold).cummin(0).values  # once out, out for good
    solution = torch.where(alive, states, torch.nan).movedim(0, -2)
    status = Status.encode(alive[-1, ..., 0])
    return solution, status
