"""States of a few components against time, as they were measured."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from romkit.plotting import style
from romkit.plotting.places import quantity, telling_components


@style.plain_names
def plot_courses(data: xr.Dataset) -> Figure:
    """Components against time: a row for each, a column for a trajectory, at most four of both.

    Samples that are missing are passed over, so that runs with times of their own are curves.

    Args:
        data: in romkit's schema, or a forecast.
    """
    style.check_numbers("data", data, "time", "state", fix="give data by romkit.data.describe")
    runs = style.members(data).isel(seed=0, drop=True)
    number = runs.sizes["trajectory"]
    shown = runs.isel(trajectory=slice(style.MAX_COLUMNS))
    columns = shown.sizes["trajectory"]
    components = telling_components(shown, style.MAX_CURVES)
    with style.style():
        figure, axes = style.panels(
            len(components), columns, width=3.0, height=1.3, sharex=True, sharey="row"
        )
        for row, component in zip(axes, components, strict=True):
            for k, panel in enumerate(row):
                course = shown["state"].isel(trajectory=k, component=component).values
                present = np.isfinite(course)
                panel.plot(shown["time"].values[present], course[present], color=style.DARK)
                style.plain(panel)
            row[0].set_ylabel(quantity(shown, component))
        for k, panel in enumerate(axes[0]):
            panel.set_title(style.context(shown, k, varying=columns > 1), loc="left")
        for panel in axes[-1]:
            panel.set_xlabel(style.label(shown["time"]))
        figure.suptitle(omitted(number, runs.sizes["component"], len(components)))
    return figure


def omitted(trajectories: int, components: int, drawn: int) -> str:
    """Return runs and components that a figure leaves out, in words; empty where it shows all."""
    words = []
    if trajectories > style.MAX_COLUMNS:
        words.append(f"the first {style.MAX_COLUMNS} of {trajectories} runs")
    if components > drawn:
        words.append(f"{drawn} of {components} components")
    return ", ".join(words)
