"""`romkit plot`: a picture of what a file holds, or an animation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import romkit
from romkit.cli import inputs, output, results

if TYPE_CHECKING:
    import xarray as xr

    from romkit.plotting.style import Figure

MOVIES = (".gif", ".mp4")
"""Endings for which fields over a plane are animated."""


def plot(
    sources: Annotated[list[str], Argument(metavar="FILE")],
    variable: str | None = None,
    truth: Annotated[str | None, Option(metavar="FILE")] = None,
    out: Path | None = None,
) -> None:
    """Draw what a file holds.

    A rollout is drawn as truth, reduced model and difference; a forecast with its interval; fields
    over a plane as maps at some times, and as an animation where the picture is a .gif or .mp4;
    fields along a line against time; other states as curves. Data that romkit did not write are
    described first.

    \b
    Examples:
      romkit plot runs/rollout-lorenz96/rollout.nc
      romkit plot runs/forecast/forecast.nc --truth held-out.nc --out forecast.pdf
      romkit plot flow.nc --variable u --out flow.gif

    Args:
        sources: Data, forecasts or rollouts; a picture for each.
        variable: The variable of a field to show.
        truth: Data to draw beside a forecast.
        out: Picture to write, of one file; NAME.png by default.
    """
    for source, target in results.targets_of(sources, out, "{}.png").items():
        _draw(source, target, variable, truth)


def _draw(source: str, target: Path, variable: str | None, truth: str | None) -> None:
    from romkit import plotting

    data = _opened(source)
    output.add(**{source: str(target)})
    if target.suffix.lower() in MOVIES:
        movie = plotting.animate(data, variable=variable)
        output.wrote(plotting.save_animation(movie, target))
        return
    output.wrote(plotting.save_figure(_figure(data, variable, truth), target))


def _opened(source: str) -> "xr.Dataset":
    """Return data of romkit, or of its user's habit, which are described first."""
    if Path(source).suffix.lower() == ".csv":
        return romkit.data.describe(inputs.read_own(source))
    data = romkit.data.open_dataset(source)
    of_romkit = "component" in data.dims or "layout" in data.attrs
    if of_romkit or "truth" in data:
        return data
    return romkit.data.describe(data)


def _figure(data: "xr.Dataset", variable: str | None, truth: str | None) -> "Figure":
    """Return the figure that suits the data."""
    from romkit import plotting
    from romkit.data.grids import in_components
    from romkit.plotting.forecasts import plot_courses

    if "truth" in data and variable is None:
        return plotting.plot_rollout(data)
    data = in_components(data)
    if "lower" in data and variable is None:
        beside = None
        if truth is not None:
            beside = romkit.data.open_dataset(truth)
        return plotting.plot_forecast(data, beside)
    dimensions = _dimensions(data, variable)
    if 2 in dimensions:
        return plotting.plot_frames(data, variable=variable)
    if 1 in dimensions:
        return plotting.plot_space_time(data, variable=variable)
    return plot_courses(data)


def _dimensions(data: "xr.Dataset", variable: str | None) -> list[int]:
    """Return numbers of dimensions of the variables, or of the one that is named."""
    from romkit.data.layout import layout_of
    from romkit.data.spelling import known_name

    dimensions = {entry.name: len(entry.dims) for entry in layout_of(data).variables}
    if variable is None:
        return list(dimensions.values())
    return [dimensions[known_name("variable", variable, dimensions)]]
