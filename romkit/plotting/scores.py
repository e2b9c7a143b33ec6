"""Panels of the error over time below the pictures of a rollout."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from romkit.core.types import Array
from romkit.metrics import VALID_THRESHOLD
from romkit.plotting import style

ERRORS = ("nrmse", "nrmse_projected")
"""Errors of the reduced model, and of the projection of the truth."""


def median_seed(run: xr.Dataset) -> int:
    """Seed whose valid prediction time, averaged over the contexts, is the (lower) median."""
    mean_over_contexts = run["valid_time"].mean("trajectory")
    valid = mean_over_contexts.values  # (seed,)
    order = np.argsort(valid, kind="stable")
    middle = (len(order) - 1) // 2
    return int(order[middle])


def error_limits(run: xr.Dataset) -> tuple[float, float]:
    """Return ends of the logarithmic axis that all error panels of a figure share."""
    errors = [run[name].values.ravel() for name in ERRORS]
    values = np.concatenate(errors)
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    if len(positive) == 0:
        return VALID_THRESHOLD / 10, VALID_THRESHOLD * 10
    # a floor that single good instants do not drag down, and room above the threshold
    floor = np.quantile(positive, 0.005)
    low = min(floor, VALID_THRESHOLD) / 2
    ceiling = max(1.0, positive.max())
    high = min(ceiling, 10.0) * 1.6
    return low, high


def draw_error(panel: Axes, run: xr.Dataset, seed: int) -> None:
    """Draw the errors of one trajectory over time, of all seeds, and mark the valid prediction time
    of one.
    """
    time = run["time"].values
    projection = f"projection of the {style.truth(run)}"
    of_projection = run["nrmse_projected"].values
    of_model = run["nrmse"].values
    _draw_seeds(panel, time, of_projection, seed, style.BLUE, projection)
    _draw_seeds(panel, time, of_model, seed, style.ORANGE, "reduced model")
    label = f"NRMSE = {VALID_THRESHOLD:g}"
    panel.axhline(VALID_THRESHOLD, label=label, color=style.NEUTRAL, linestyle="--", linewidth=0.8)
    _mark_valid_time(panel, run, seed)
    panel.set_yscale("log")
    panel.set_xlim(time[0], time[-1])
    panel.set_xlabel(style.label(run["time"]))
    style.plain(panel)


def _draw_seeds(
    panel: Axes,
    time: Array,
    errors: Array,
    seed: int,
    colour: str,
    label: str,
    *,
    most_points: int = 2000,
) -> None:
    """Draw errors (seed, T), all but one seed as thin lines without a label.

    `most_points`: points of a curve beyond which more cannot be seen.
    """
    step = max(1, len(time) // most_points)
    every = slice(None, None, step)
    # a logarithmic axis has no place for zero
    positive = np.where(errors > 0, errors, np.nan)
    drawn = positive[:, every]
    for number, curve in enumerate(drawn):
        look: dict[str, Any] = {"linewidth": 0.4, "alpha": 0.5}
        if number == seed:
            look = {"label": label, "zorder": 3}
        panel.plot(time[every], curve, color=colour, **look)


def _mark_valid_time(panel: Axes, run: xr.Dataset, seed: int) -> None:
    time = run["time"].values
    valid = float(run["valid_time"][seed])
    at = time[0] + valid
    text = "valid to the end"
    # a run that was measured for a shorter time than the others ends with its last sample
    measured = time[np.isfinite(run["nrmse_projected"].values[seed])]
    end = measured[-1] if len(measured) else time[-1]
    if at < end:
        panel.axvline(at, color=style.ORANGE, linestyle=":", linewidth=0.9)
        panel.plot(at, VALID_THRESHOLD, "o", color=style.ORANGE, markersize=3.5, clip_on=False)
        unit = style.unit(run["time"], " {}")
        text = f"valid for {valid:.3g}{unit}"
        if run["status"][seed] != 0:
            text += ", then diverges"
    panel.set_title(text, loc="right", color=style.ORANGE)
