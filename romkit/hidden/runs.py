"""Door of `romkit.learn`: described runs with their hidden context."""

from collections.abc import Sequence

import xarray as xr

from romkit.core.errors import InputError
from romkit.hidden.context import HiddenContext, hidden_context

HIDDEN = "hidden"
"""Name in `context` that asks for hidden parameters."""


def wants_hidden(context: str | Sequence[str] | None) -> bool:
    """Tell whether hidden parameters are asked for, alone or beside known ones."""
    names = [context] if isinstance(context, str) else context
    return names is not None and HIDDEN in names


def with_hidden_context(
    runs: xr.Dataset, context: str | Sequence[str], group: str | None
) -> tuple[xr.Dataset, HiddenContext]:
    """Find the hidden context of runs, and add it to them as parameters.

    Args:
        runs: in romkit's schema, or to be described.
        context: "hidden", or with it the names of known parameters.
        group: name of the coordinate of runs that share a context.

    Raises:
        InputError: no hidden parameter, and none that is known.
    """
    names = [context] if isinstance(context, str) else list(context)
    known = [name for name in names if name != HIDDEN]
    found = hidden_context(runs, group, context=known)
    if found.number == 0 and not known:
        expected = "runs that differ by a hidden parameter"
        fix = "leave context out, or romkit.law for one law of all"
        raise InputError("context", expected=expected, got="runs of one law", fix=fix)
    return found.runs, found
