"""`romkit plot`: a picture of what a file holds, or an animation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import romkit
from romkit.cli import options
from romkit.core import checks

if TYPE_CHECKING:
    import xarray as xr

MOVIES = (".gif", ".mp4")
"""Endings for which fields over a plane are animated."""


def plot(
    source: Annotated[str, Argument(metavar="FILE", help="A dataset, forecast or rollout.")],
    variable: Annotated[str | None, Option(help="The variable of a field to show.")] = None,
    truth: Annotated[
        str | None, Option(metavar="FILE", help="Data to draw beside a forecast.")
    ] = None,
    out: Annotated[Path | None, Option(help="Picture to write; NAME.png by default.")] = None,
) -> None:
    """Draw what a file holds.

    A rollout is drawn as truth, reduced model and difference; a forecast with its interval; fields
    over a plane as maps at some times, and as an animation where the picture is a .gif or .mp4;
    fields along a line against time; other states as curves.

    \b
    Examples:
      romkit plot runs/rollout-lorenz96/rollout.nc
      romkit plot runs/forecast/forecast.nc --truth held-out.nc --out forecast.pdf
      romkit plot flow.nc --variable u --out flow.gif
    """  # noqa: D301, typer keeps the lines after \b as they are
    from romkit import plotting

    data = romkit.data.open_dataset(source)
    target = options.writable(out or Path(f"{Path(source).stem}.png"))
    if target.suffix.lower() in MOVIES:
        print(plotting.save_animation(plotting.animate(data, variable=variable), target))
        return
    print(plotting.save_figure(_figure(data, variable, truth), target))


def _figure(data: "xr.Dataset", variable: str | None, truth: str | None) -> object:
    from romkit import plotting
    from romkit.data.layout import layout_of

    if "truth" in data and variable is None:
        return plotting.plot_rollout(data)
    if "lower" in data:
        beside = None if truth is None else romkit.data.open_dataset(truth)
        return plotting.plot_forecast(data, beside)
    dimensions = [len(each.dims) for each in layout_of(data).variables]
    if variable is not None:
        names = [each.name for each in layout_of(data).variables]
        checks.one_of("variable", variable, names)
        dimensions = [dimensions[names.index(variable)]]
    if 2 in dimensions:
        return plotting.plot_frames(data, variable=variable)
    if 1 in dimensions:
        return plotting.plot_space_time(data, variable=variable)
    names = [str(name) for name in data["component"].values]
    return plotting.plot_phase(data, names[0], names[min(1, len(names) - 1)])
