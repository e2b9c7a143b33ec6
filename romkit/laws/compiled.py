"""Rollouts of polynomial laws and their derivatives in one call of compiled code.

Windows of a law are so small that calls of torch cost tens of times their arithmetic. `Motion` has
the same mathematics in torch, for other terms and where there is no compiler.
"""

import ctypes
import functools
from collections.abc import Callable
from importlib import resources
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.engine import Unavailable
from romkit.engine.build import library
from romkit.laws.courses import Course
from romkit.laws.terms import LatentTerms, MonomialTerms

POINTERS, NUMBERS, COUNTS = 16, 3, 9
"""Numbers of pointers, of real numbers and of counts among the arguments of the compiled function."""

MOST = 64
"""Most variables of a law that is compiled, as `rollout.cpp` has it."""


class Truth(NamedTuple):
    """Observations that rollouts of windows are compared with.

    Attributes:
        states: (L + 1, n, W, d).
        seen: (L + 1, n, W) which of them count.
        lost: distance from them at which the rest of a window is left out.
        steep: derivative at which it is.
    """

    states: Tensor | None
    seen: Tensor | None
    lost: float
    steep: float


class Formula(NamedTuple):
    """Formula of the rate of a motion, with the fields of `Motion`; terms of compiled code are
    monomials.
    """

    terms: LatentTerms
    latent_dim: int
    order: int
    speed: Tensor | None
    shift: Tensor | None
    scale: Tensor | None
    reach: float


def is_compiled(formula: Formula, start: Tensor) -> bool:
    """Tell whether laws of such a formula are rolled out by compiled code from such starts."""
    if not isinstance(formula.terms, MonomialTerms):
        return False
    d = start.shape[-1]
    if start.dtype != torch.float64 or start.device.type != "cpu" or d > MOST:
        return False
    return _function(_known_size(d, formula.latent_dim)) is not None


def _known_size(d: int, m: int, *, unrolled: tuple[int, ...] = (2, 3, 4, 5)) -> int:
    """Return number of variables that the compiler knows; 0 where it does not.

    `unrolled`: numbers of variables of first-order laws that the compiler knows, and unrolls
    loops over.
    """
    if d == m and d in unrolled:
        return d
    return 0


@functools.cache
def _function(size: int) -> Callable[..., int] | None:
    """Return the compiled function for laws of a known size; None where there is no compiler."""
    file = resources.files(__package__).joinpath("rollout.cpp")
    # one size alone, since compiling takes half a second for each
    text = f"#define SIZE {size}\n{file.read_text(encoding='utf-8')}"
    try:
        evaluate = library(text).evaluate
    except Unavailable:
        return None
    evaluate.restype = ctypes.c_long
    pointers = [ctypes.c_void_p] * POINTERS
    numbers = [ctypes.c_double] * NUMBERS
    counts = [ctypes.c_long] * COUNTS
    evaluate.argtypes = [*pointers, *numbers, *counts]
    return evaluate


def rolled_out(formula: Formula, weights: Tensor, start: Tensor, course: Course) -> Tensor:
    """Return states (L + 1, n, W, d) from starts (n, W, d), with coefficients (n, K q, m)."""
    states = _states(start, course)
    _evaluate(formula, weights, course, Output(states))
    return states


def differentiate(
    formula: Formula, weights: Tensor, start: Tensor, course: Course, *, by_start: bool
) -> tuple[Tensor, Tensor]:
    """Return states, and their derivatives (L + 1, n, W, d, K q m) by the coefficients, and by the
    d components of the start behind them.
    """
    states = _states(start, course)
    samples, n, W, d = states.shape
    columns = weights[0].numel()
    if by_start:
        columns += d
    # all of a run side by side, as sums over its samples need them
    by_run = states.new_empty(n, W, samples, d, columns)
    _evaluate(formula, weights, course, Output(states, by_run, by_start=by_start))
    return states, by_run.permute(2, 0, 1, 3, 4)


def residual_rows(
    formula: Formula, weights: Tensor, start: Tensor, course: Course, truth: Truth
) -> list[Tensor]:
    """Return rows (N, K q m + 1) of each run, for each component of the samples that are seen
    before their window is lost: derivatives by the coefficients, and behind them the distance from
    the truth.
    """
    n, W, d = start.shape
    length = weights[0].numel() + 1
    rows = start.new_empty(n, W * len(course.ends) * d, length)
    numbers = torch.zeros(n, dtype=torch.long)
    states = start.unsqueeze(0)
    _evaluate(formula, weights, course, Output(states, rows=rows, numbers=numbers, truth=truth))
    return [of_run[:number] for of_run, number in zip(rows, numbers.tolist(), strict=True)]


class Output(NamedTuple):
    """Memory for what the compiled function computes.

    Attributes:
        states: (L + 1, n, W, d), with the starts in the first place; with rows the starts alone.
        derivatives: (n, W, L + 1, d, columns), or none.
        rows: (n, W L d, K q m + 1) see `residual_rows`, or none.
        numbers: (n,) of rows, zeros.
        truth: which rows are compared with.
        by_start: whether derivatives by the starts are among them.
    """

    states: Tensor
    derivatives: Tensor | None = None
    rows: Tensor | None = None
    numbers: Tensor | None = None
    truth: Truth | None = None
    by_start: bool = False


def _states(start: Tensor, course: Course) -> Tensor:
    """Memory for the states at all samples, with the starts in the first place."""
    states = start.new_empty(len(course.ends) + 1, *start.shape)
    states[0] = start
    return states


def _evaluate(formula: Formula, weights: Tensor, course: Course, output: Output) -> None:
    _, n, W, d = output.states.shape
    terms = formula.terms
    M = len(course.steps)
    is_end = torch.zeros(M, dtype=torch.bool)
    is_end[torch.tensor(course.ends, dtype=torch.long) - 1] = True
    shift = formula.shift
    scale = formula.scale
    if scale is None:
        shift = weights.new_zeros(d)
        scale = weights.new_ones(d)
    q = 1
    if course.factors is not None:
        q = course.factors.shape[-1]
    truth = output.truth
    if truth is None:
        truth = Truth(None, None, 0.0, 0.0)
    assert isinstance(terms, MonomialTerms)  # as those that are compiled
    # coefficients and steps may be the same for all runs, or all windows
    tensors = [
        output.states,
        output.derivatives,
        output.rows,
        output.numbers,
        truth.states,
        truth.seen,
        weights.expand(n, *weights.shape[1:]),
        course.steps.expand(M, n, W, 1),
        _expand_windows(course.factors, n, W),
        _expand_windows(course.drift, n, W),
        shift,
        scale,
        formula.speed,
        is_end,
        terms.parents,
        terms.last_factors,
    ]
    # rows of numbers without strides, which live until the call is over
    rows = [None if tensor is None else _row(tensor) for tensor in tensors]
    pointers = [None if row is None else row.data_ptr() for row in rows]
    numbers = [formula.reach, truth.lost, truth.steep]
    m = formula.latent_dim
    counts = [d, m, terms.number, q, n, W, M, len(course.ends), int(output.by_start)]
    function = _function(_known_size(d, m))
    assert function is not None  # as asked before
    failed = function(*pointers, *numbers, *counts)
    if failed:
        raise MemoryError("rollouts of a law")


def _row(tensor: Tensor) -> Tensor:
    """Return numbers without strides, in float64 where they are real."""
    if tensor.is_floating_point():
        tensor = tensor.double()
    return tensor.contiguous()


def _expand_windows(values: Tensor | None, runs: int, windows: int) -> Tensor | None:
    """Return values (M, 3, n, W, k) of the stages of steps, with an entry for each window."""
    if values is None:
        return None
    M, stages, *_, k = values.shape
    return values.expand(M, stages, runs, windows, k)
