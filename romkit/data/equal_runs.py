"""Runs that are equal although their parameters differ: a parameter that was not applied."""

import hashlib

import numpy as np
import xarray as xr

from romkit.core.display import listed
from romkit.core.errors import DataWarning, warn
from romkit.core.types import Array
from romkit.data.context import context_names
from romkit.data.schema import DIMS


def warn_of_equal_runs(data: xr.Dataset) -> None:
    """Warn of runs in romkit's schema that are equal to the last bit, with the same inputs, at
    different contexts.

    No model of the context is right at both. Runs at rest are no such runs: equilibria may not depend
    on the context. Data in chunks are read run by run.
    """
    names = [name for name in context_names(data) if data[name].dims == DIMS[:1]]
    if not names or data.sizes["trajectory"] < 2:
        return
    contexts = np.stack([data[name].values for name in names], axis=-1)  # (C, p)
    pairs = _equal_ones(data, contexts)
    if not pairs:
        return
    first, second = pairs[0]
    is_other = contexts[first] != contexts[second]  # (p,)
    differing = [name for name, other in zip(names, is_other, strict=True) if other]
    parameters = " and ".join(differing)
    values = f"{_context(data, differing, first)} and {_context(data, differing, second)}"
    besides = _besides([number for _, number in pairs[1:]])
    warn(
        f"runs {first} and {second} are equal to the last bit at {values}{besides}: check whether "
        f"{parameters} was applied in both, and leave the wrong one out",
        DataWarning,
    )


def _context(data: xr.Dataset, names: list[str], run: int) -> str:
    """Say the values of parameters of a run."""
    return ", ".join(f"{name} = {data[name].values[run]:.6g}" for name in names)


def _besides(runs: list[int], *, shown: int = 8) -> str:
    """Say which other runs are equal to earlier ones.

    `shown`: runs that are named, at most.
    """
    if not runs:
        return ""
    return f"; equal to earlier ones, too: {len(runs)} runs, {listed(runs[:shown])}"


def _equal_ones(data: xr.Dataset, contexts: Array) -> list[tuple[int, int]]:
    """Return numbers of runs that are equal to an earlier one at another context, behind that one."""
    seen: dict[bytes, int] = {}
    pairs = []
    for number in range(data.sizes["trajectory"]):
        digest = _digest(data.isel(trajectory=number))
        if digest is None:
            continue
        first = seen.setdefault(digest, number)
        if (contexts[first] != contexts[number]).any():
            pairs.append((first, number))
    return pairs


def _digest(run: xr.Dataset) -> bytes | None:
    """Digest of the states and inputs of a run; None of one that does not move."""
    states = run["state"].transpose(*DIMS[1:]).values
    known = states[~np.isnan(states).all(-1)]
    if len(known) < 2 or (known == known[0]).all():
        return None
    # one bit pattern for each of the zeros, and for all that is missing
    content = [np.where(np.isnan(states), np.nan, states + 0.0)]
    if "control" in run:
        content.append(run["control"].transpose("time", "input").values + 0.0)
    digest = hashlib.sha256()
    for values in content:
        digest.update(np.ascontiguousarray(values).data)
    return digest.digest()
