"""Pieces of one computation, mapped over an executor: processes, jobs of submitit, workers of a
dask cluster.
"""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, TypeVar, cast

from romkit.core import checks, runtime
from romkit.core.errors import InputError, warn

T = TypeVar("T")

PIECES = 16
"""Largest number of pieces: enough to keep some workers busy until the end, and few enough that
stacks still pay.
"""


def _executor(argument: str, value: object) -> Any:
    if callable(getattr(value, "submit", None)):
        return value
    raise InputError(
        argument,
        expected="an executor with submit(function, *arguments), as in concurrent.futures",
        got=checks.shown(value),
        fix="give a ProcessPoolExecutor, a dask.distributed.Client or a submitit.AutoExecutor",
    )


Pool = Annotated[Any, _executor]
"""Anything whose `submit(function, *arguments)` gives a future with `result()`."""


def cut(number: int, executor: Pool | None) -> list[slice]:
    """Slices of `number` items: one piece without an executor, else up to `PIECES` of nearly equal
    length.
    """
    count = 1
    if executor is not None:
        count = max(1, min(number, PIECES))
    ends = [number * k // count for k in range(count + 1)]
    return [slice(start, end) for start, end in itertools.pairwise(ends)]


def mapped(
    function: Callable[..., T], pieces: Sequence[tuple[Any, ...]], executor: Pool | None, label: str
) -> list[T]:
    """function(*piece) of each piece, in their order; a piece whose worker is lost is computed in
    this process.

    Args:
        function: importable by its name, with arguments that can be pickled.
        pieces: arguments of each call.
        executor: where they are computed; in this process by default.
        label: of the progress bar.

    Raises:
        Exception: of the function, as in a loop.
    """
    if executor is None:
        return [function(*piece) for piece in pieces]
    futures = [_submitted(executor, function, piece) for piece in pieces]
    pairs = list(zip(pieces, futures, strict=True))
    values = []
    for piece, future in runtime.track(pairs, label):
        try:
            value, error = future.result()
        # the executor's own errors: one of the function's comes back as a value
        except Exception as lost:
            kind = type(lost).__name__
            text = f"a worker was lost ({kind}); its piece is computed in this process"
            warn(text, RuntimeWarning)
            value, error = _outcome(function, piece)
        if error is not None:
            raise error
        values.append(cast("T", value))
    return values


def _submitted(executor: Pool, function: Callable[..., Any], piece: tuple[Any, ...]) -> Any:
    """Return the future of a piece, whose executor may break down before it takes it."""
    try:
        return executor.submit(_outcome, function, piece)
    except Exception as broken:
        future: Future[Any] = Future()
        future.set_exception(broken)
        return future


def _outcome(
    function: Callable[..., T], piece: tuple[Any, ...]
) -> tuple[T | None, Exception | None]:
    with runtime.bars(False):
        try:
            return function(*piece), None
        except Exception as error:
            return None, error
