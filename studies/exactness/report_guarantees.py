"""The section of REPORT.md on certificates and energies."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from studies.exactness.tasks import TITLES
from studies.markdown import table

MAPS = {"encoder": "ρ", "decoder": "φ", "projection": "P"}


HEAD = ("system", "method", "map", "radius", "upper", "lower", "upper / lower", "pairs / bound", "seconds")
OF_CONTEXT = ("upper, median", "largest", "upper / lower, median", "largest")


def guarantees(found: list[xr.Dataset]) -> Iterator[str]:
    """The tables of the preset."""
    certified = [(run, which) for run in found if run.attrs["kind"] == "certificates" for which in MAPS]
    if certified:
        yield "\n## Certificates\n\nLargest of each over random contexts of the range.\n"
        yield table(HEAD, [_bound(*one) for one in certified])
    if moved := [row for one in certified if (row := _moved(*one))]:
        yield "\n## Certificates of the context\n\nHow far a unit of it moves each map; over random contexts.\n"
        yield table((*HEAD[:4], "of contexts", *OF_CONTEXT), moved)
    motions = [run for run in found if run.attrs["kind"] == "energy"]
    if motions:
        yield "\n## Energy of the pendulum's reduced motion\n\nRelative to the first; the trend is a fitted line's.\n"
        yield table(
            ("solver", "steps", "largest error", "change by the trend", "lift"), [_energy(run) for run in motions]
        )


def _bound(run: xr.Dataset, which: str) -> list[str]:
    row = run.sel(map=which)
    ratios = [(row.upper / row.lower).max(), row.of_pairs.max(), row.seconds.max()]
    sizes = [f"{float(x):.3g}" for x in (row.radius.max(), row.upper.max(), row.lower.max())]
    return [*_certified(run, which), *sizes, *(f"{float(x):.2f}" for x in ratios)]


def _moved(run: xr.Dataset, which: str) -> list[str]:
    row = run.sel(map=which)
    ratio = row.context_upper / row.context_lower
    if not np.isfinite(ratio).all():  # all states, or a map that no context moves
        return []
    numbers = (row.radius.max(), run.attrs["context_radius"], row.context_upper.median(), row.context_upper.max())
    quotients = [f"{float(x):.2f}" for x in (ratio.median(), ratio.max())]
    return [*_certified(run, which), *(f"{float(x):.3g}" for x in numbers), *quotients]


def _certified(run: xr.Dataset, which: str) -> tuple[str, str, str]:
    return TITLES[run.attrs["system"]], run.attrs["method"], MAPS[which]


def _energy(run: xr.Dataset) -> list[str]:
    error, time = run.energy_error.values, run.time.values
    trend = np.polyfit(time, error, 1)[0] * time[-1]
    sizes = [f"{x:.1e}" for x in (np.abs(error).max(), trend, run.attrs["symplecticity"])]
    return [str(run.attrs["solver"]).split(", iter")[0].split(", div")[0] + ")", str(run.attrs["steps"]), *sizes]
