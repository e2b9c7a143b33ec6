"""Fields over space and time, on the axes of the data: `plot_space_time`, `plot_frames`, `animate`."""

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import xarray as xr
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.figure import Figure

from romkit.core import checks, errors, files
from romkit.core.boundary import Count, FilePath, Natural, validated
from romkit.data.grids import unstacked
from romkit.data.spelling import known_name
from romkit.plotting import style
from romkit.plotting.pictures import Row, axes_of, draw_rows, panels_of, states

WRITERS: dict[str, type[PillowWriter] | type[FFMpegWriter]] = {
    "gif": PillowWriter,
    "mp4": FFMpegWriter,
}
"""Writers of an animation, by the ending of its file."""

INNER = ("latent", "control", "lower", "upper", "spread")
"""Beginnings of the names of variables that are shown only where there is nothing else."""


@validated
@style.plain_names
def plot_space_time(data: xr.Dataset, *, variable: str | None = None) -> Figure:
    """Return variables of one dimension against time, on their own coordinates: a row for each, a
    column for a trajectory.

    Args:
        data: in romkit's schema, a forecast, or a rollout; at most four trajectories are shown.
        variable: name of the variable to show; by default all with one dimension beside time.

    Raises:
        InputError: no variable has one dimension beside time.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import romkit
        >>> from romkit.plotting import plot_space_time
        >>> u = np.random.default_rng(0).normal(size=(5, 4))
        >>> u = xr.DataArray(u, dims=("time", "x"), coords={"time": np.arange(5.0)}, name="u")
        >>> figure = plot_space_time(romkit.data.describe(u))
        trajectories  1 of up to 5 samples, n = 4
        state         u (x 4), float64
        context       none
        time          0 ... 4, every 1
        rates         none given; estimated where needed
        >>> figure.axes[0].get_xlabel()
        'time'
    """
    shown = _shown(data, variable, 1)
    number = shown.sizes["trajectory"]
    columns = min(style.MAX_COLUMNS, number)
    entries = [{"trajectory": k} for k in range(columns)]
    rows = []
    for name, values in shown.data_vars.items():
        panels = panels_of(values, entries)
        rows.append(states(_whose(str(name), data), style.meaning(values), panels))
    with style.style():
        figure, axes = style.panels(len(rows), columns, height=1.7, sharex=True)
        draw_rows(figure, axes, rows)
        titles = [style.context(shown, k, varying=number > 1) for k in range(columns)]
        style.label_columns(axes, titles, style.label(shown["time"]))
        if number > columns:
            figure.suptitle(f"the first {columns} of {number} runs")
    return figure


@validated
@style.plain_names
def plot_frames(
    data: xr.Dataset, *, variable: str | None = None, trajectory: Natural = 0, frames: Count = 4
) -> Figure:
    """Return variables of two dimensions at some times: a row for each variable, a column for a
    time.

    Args:
        data: in romkit's schema, a forecast, or a rollout.
        variable: name of the variable to show; by default all with two dimensions beside time.
        trajectory: number of the trajectory.
        frames: number of times, evenly spread.

    Raises:
        InputError: no variable has two dimensions beside time.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import romkit
        >>> from romkit.plotting import plot_frames
        >>> u = np.random.default_rng(0).normal(size=(5, 3, 4))
        >>> u = xr.DataArray(u, dims=("time", "y", "x"), coords={"time": np.arange(5.0)}, name="u")
        >>> flow = romkit.data.describe(u)
        trajectories  1 of up to 5 samples, n = 12
        state         u (y 3, x 4), float64
        context       none
        time          0 ... 4, every 1
        rates         none given; estimated where needed
        >>> figure = plot_frames(flow, frames=3)
        >>> [axes.get_title() for axes in figure.axes[:3]]
        ['t = 0', 't = 2', 't = 4']
    """
    film = _film(data, variable, trajectory, frames)
    with style.style():
        shape = len(film.rows), len(film.clocks)
        figure, axes = style.panels(*shape, width=1.8, height=1.7, sharex=True, sharey=True)
        # all is said beside the colours
        draw_rows(figure, axes, [row._replace(label="") for row in film.rows])
        style.label_columns(axes, film.clocks, film.across)
        figure.suptitle(film.which)
    return figure


@validated
def animate(
    data: xr.Dataset,
    *,
    variable: str | None = None,
    trajectory: Natural = 0,
    frames: Count = 100,
    per_second: Count = 20,
) -> FuncAnimation:
    """Return variables of two dimensions side by side as an animation, for `save_animation`;
    arguments as of `plot_frames`.

    Raises:
        InputError: no variable has two dimensions beside time.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import romkit
        >>> from romkit.plotting import animate, save_animation
        >>> u = np.random.default_rng(0).normal(size=(5, 3, 4))
        >>> u = xr.DataArray(u, dims=("time", "y", "x"), coords={"time": np.arange(5.0)}, name="u")
        >>> flow = romkit.data.describe(u)
        trajectories  1 of up to 5 samples, n = 12
        state         u (y 3, x 4), float64
        context       none
        time          0 ... 4, every 1
        rates         none given; estimated where needed
        >>> movie = animate(flow, frames=5)
        >>> save_animation(movie, "flow.gif").name
        'flow.gif'
    """
    film = _film(data, variable, trajectory, frames)
    with style.style():
        figure, axes = style.panels(1, len(film.rows), width=2.6)
        # variables stand side by side, each the only panel of its row
        draw_rows(figure, axes.T, [row._replace(panels=row.panels[:1]) for row in film.rows])
        for panel in axes[0]:
            panel.set_xlabel(film.across)
    figure.suptitle(film.which)
    style.show_plain(figure)

    def draw(frame: int) -> list[Any]:
        images = []
        for panel, row in zip(axes[0], film.rows, strict=True):
            (image,) = panel.collections
            image.set_array(row.panels[frame].values)
            images.append(image)
        figure.suptitle(", ".join(filter(None, (film.which, film.clocks[frame]))))
        return images

    return FuncAnimation(figure, draw, frames=len(film.clocks), interval=1000 / per_second)


@validated
def save_animation(animation: FuncAnimation, path: FilePath) -> Path:
    """Write an animation as GIF or MP4 (which needs the program ffmpeg), all of it or nothing at
    all.

    Raises:
        InputError: another ending, or no ffmpeg.
        FileError: the file cannot be written.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import romkit
        >>> from romkit.plotting import animate, save_animation
        >>> u = np.random.default_rng(0).normal(size=(2, 3, 4))
        >>> u = xr.DataArray(u, dims=("time", "y", "x"), coords={"time": np.arange(2.0)}, name="u")
        >>> flow = romkit.data.describe(u)
        trajectories  1 of up to 2 samples, n = 12
        state         u (y 3, x 4), float64
        context       none
        time          0 ... 1, every 1
        rates         none given; estimated where needed
        >>> save_animation(animate(flow, frames=2), "flow.gif").name
        'flow.gif'
    """
    path = files.expanded(path)
    ending = checks.ending("path", path, WRITERS)
    writer = WRITERS[ending]
    if not writer.isAvailable():
        raise errors.InputError(
            "path",
            expected="a program that writes mp4",
            got="no ffmpeg",
            fix="install it, or write a .gif",
        )
    per_second = 1000 / cast("Any", animation)._interval
    with tempfile.TemporaryDirectory() as folder, files.atomic(path) as temporary:
        # writers choose the format by the ending
        named = Path(folder) / path.name
        animation.save(named, writer=writer(fps=per_second))
        shutil.copyfile(named, temporary)
    return path


def _shown(data: xr.Dataset, variable: str | None, dimensions: int) -> xr.Dataset:
    """Return variables with this many dimensions of space, for each trajectory."""
    variables = style.members(unstacked(data)).isel(seed=0, drop=True)
    for name, values in variables.data_vars.items():
        half = style.half_width(variables, name)
        if half is not None:
            variables = variables.assign({f"± {name}": half.assign_attrs(values.attrs)})
    if variable is not None:
        names = [str(name) for name in variables.data_vars]
        variable = known_name("variable", variable, names)
        variables = variables[[variable]]
    fitting = _fitting(variables, dimensions)
    style.check_numbers("data", variables, "time", *fitting)
    return variables[fitting]


def _fitting(variables: xr.Dataset, dimensions: int) -> list[str]:
    """Return names of the variables over time and this many dimensions of space, without those that
    are shown only where there is nothing else.
    """
    fitting = []
    for name, values in variables.data_vars.items():
        of_plane = dimensions == 2 and style.plane(values) is not None
        if "time" in values.dims and (of_plane or len(style.space(values)) == dimensions):
            fitting.append(str(name))
    if not fitting:
        raise errors.InputError(
            "data",
            expected=f"a variable over time and {dimensions} dimensions of space",
            got=", ".join(f"{name}{values.dims}" for name, values in variables.data_vars.items()),
            fix="give data of romkit.data.describe with such a variable",
        )
    return [name for name in fitting if not name.startswith(INNER)] or fitting


class Film(NamedTuple):
    """Variables over a plane at some times.

    Attributes:
        rows: a row for each variable, a panel for each time.
        clocks: times in words.
        across: what is to the right.
        which: context of the run among others; empty where it is alone.
    """

    rows: list[Row]
    clocks: list[str]
    across: str
    which: str


def _film(data: xr.Dataset, variable: str | None, trajectory: int, frames: int) -> Film:
    """Return variables of one trajectory at evenly spread times."""
    shown = _shown(data, variable, 2)
    count = shown.sizes["trajectory"]
    number = checks.index("trajectory", trajectory, count)
    times = np.unique(style.spread(shown, frames)).tolist()
    entries = [{"trajectory": number, "time": k} for k in times]
    rows = []
    for name, values in shown.data_vars.items():
        kind = _whose(str(name), data)
        rows.append(states(kind, f"{kind}{style.unit(values)}", panels_of(values, entries)))
    which = ""
    if count > 1:
        context = style.context(shown, number, varying=True)
        which = ", ".join(filter(None, (context, f"one of {count} runs")))
    _, across = axes_of(rows[-1].panels[0])
    clocks = [style.clock(shown, k) for k in times]
    return Film(rows, clocks, style.label(shown[across]), which)


def _whose(name: str, data: xr.Dataset) -> str:
    """Return name of a variable; of a rollout, whether it is of the truth or of the reduced model."""
    kind, _, variable = name.partition("_")
    models = {"rom": "reduced model", "projected": "projection"}
    if "truth" not in data:
        return name
    models["truth"] = style.truth(data)
    if kind not in models:
        return name
    return f"{models[kind]}: {variable}"
