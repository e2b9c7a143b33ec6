"""Fields over space and time, on the axes of the data: `plot_space_time`, `plot_frames`, `animate`."""

import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from romkit.core import checks, display, errors, files
from romkit.core.boundary import Count, FilePath, Natural, validated
from romkit.core.types import Array
from romkit.data.grids import unstacked
from romkit.data.spelling import known_name
from romkit.plotting import style

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
        velocity      none; estimated where it is needed
        >>> figure.axes[0].get_xlabel()
        'time'
    """
    shown = _shown(data, variable, 1)
    rows = len(shown.data_vars)
    columns = min(style.MAX_COLUMNS, shown.sizes["trajectory"])
    with style.style():
        figure, axes = style.panels(rows, columns, height=1.7, sharex=True)
        for row, (name, values) in zip(axes, shown.data_vars.items(), strict=True):
            (space,) = style.space(values)
            for k, panel in enumerate(row):
                one_run = values.isel(trajectory=k)
                image = _draw(panel, one_run, values, space, "time")
            kind = _whose(str(name), data)
            place = style.label(shown[space])
            row[0].set_ylabel(f"{kind}\n{place}")
            meaning = style.meaning(values)
            figure.colorbar(image, ax=row.tolist(), label=meaning)
        for k, panel in enumerate(axes[0]):
            title = _context(shown.isel(trajectory=k))
            panel.set_title(title)
        time = style.label(shown["time"])
        for panel in axes[-1]:
            panel.set_xlabel(time)
        number = shown.sizes["trajectory"]
        if number > columns:
            figure.suptitle(f"the first {columns} of {number} runs")
    return figure


def _context(run: xr.Dataset, *, most_parameters: int = 3) -> str:
    """Return the first constant parameters of one trajectory; more do not fit above a panel.

    `most_parameters`: largest number of parameters in the title of a panel.
    """
    words = []
    for name, value in display.parameters(run).items():
        if value.ndim == 0:
            words.append(f"{name} = {float(value):.4g}{style.unit(value, ' {}')}")
    fitting = words[:most_parameters]
    return ", ".join(fitting)


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
        velocity      none; estimated where it is needed
        >>> figure = plot_frames(flow, frames=3)
        >>> [axes.get_title() for axes in figure.axes[:3]]
        ['t = 0', 't = 2', 't = 4']
    """
    shown, times = _one(data, variable, trajectory, frames)
    with style.style():
        rows = len(shown.data_vars)
        figure, axes = style.panels(rows, frames, width=1.8, height=1.7, sharex=True, sharey=True)
        for row, (name, values) in zip(axes, shown.data_vars.items(), strict=True):
            down, across = style.space(values)
            for panel, k in zip(row, times, strict=True):
                snapshot = values.isel(time=k)
                image = _draw(panel, snapshot, values, down, across)
            row[0].set_ylabel(style.label(shown[down]))
            kind = _whose(str(name), data)
            unit = style.unit(values)
            figure.colorbar(image, ax=row.tolist(), label=f"{kind}{unit}")
        for panel, k in zip(axes[0], times, strict=True):
            panel.set_title(style.clock(shown, k))
        horizontal = style.label(shown[across])
        for panel in axes[-1]:
            panel.set_xlabel(horizontal)
        figure.suptitle(_which(data, variable, trajectory))
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
        velocity      none; estimated where it is needed
        >>> movie = animate(flow, frames=5)
        >>> save_animation(movie, "flow.gif").name
        'flow.gif'
    """
    shown, times = _one(data, variable, trajectory, frames)
    with style.style():
        columns = len(shown.data_vars)
        figure, axes = style.panels(1, columns, width=2.6)
        images = []
        for panel, (name, values) in zip(axes[0], shown.data_vars.items(), strict=True):
            down, across = style.space(values)
            first = values.isel(time=0)
            image = _draw(panel, first, values, down, across)
            images.append(image)
            kind = _whose(str(name), data)
            panel.set_title(kind)
            panel.set_ylabel(style.label(shown[down]))
            panel.set_xlabel(style.label(shown[across]))
            meaning = style.meaning(values)
            figure.colorbar(image, ax=panel, label=meaning)

    which = _which(data, variable, trajectory)
    figure.suptitle(which)
    style.show_plain(figure)

    def draw(k: int) -> list[Any]:
        for image, values in zip(images, shown.data_vars.values(), strict=True):
            down, across = style.space(values)
            snapshot = values.isel(time=k).transpose(down, across)
            image.set_array(snapshot.values)
        words = (which, style.clock(shown, k))
        figure.suptitle(", ".join(filter(None, words)))
        return images

    samples = np.unique(times).tolist()
    return FuncAnimation(figure, draw, frames=samples, interval=1000 / per_second)


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
        velocity      none; estimated where it is needed
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
    variables = _with_bars(variables)
    if variable is not None:
        names = [str(name) for name in variables.data_vars]
        variable = known_name("variable", variable, names)
        variables = variables[[variable]]
    fitting = _fitting(variables, dimensions)
    outer = [name for name in fitting if not name.startswith(INNER)]
    if outer:
        fitting = outer
    style.check_numbers("data", variables, "time", *fitting)
    return variables[fitting]


def _with_bars(variables: xr.Dataset) -> xr.Dataset:
    """Return variables of a forecast, with half the width of the interval of each that has one."""
    bars = {}
    for name, values in variables.data_vars.items():
        lower = variables.get(f"lower_{name}")
        upper = variables.get(f"upper_{name}")
        if lower is None or upper is None:
            continue
        half = (upper - lower) / 2
        bars[f"± {name}"] = half.assign_attrs(values.attrs)
    return variables.assign(bars)


def _fitting(variables: xr.Dataset, dimensions: int) -> list[str]:
    """Return names of the variables over time and this many dimensions of space."""
    fitting = []
    others = []
    for name, values in variables.data_vars.items():
        space = style.space(values)
        if "time" in values.dims and len(space) == dimensions:
            fitting.append(str(name))
        else:
            others.append(f"{name}{values.dims}")
    if fitting:
        return fitting
    raise errors.InputError(
        "data",
        expected=f"a variable over time and {dimensions} dimensions of space",
        got=", ".join(others),
        fix="give data of romkit.data.describe with such a variable",
    )


def _one(
    data: xr.Dataset, variable: str | None, trajectory: int, frames: int
) -> tuple[xr.Dataset, Array]:
    """Return variables with two dimensions of space of one trajectory, and numbers of evenly spread
    times.
    """
    shown = _shown(data, variable, 2)
    count = shown.sizes["trajectory"]
    number = checks.index("trajectory", trajectory, count)
    one_run = shown.isel(trajectory=number)
    return one_run, style.spread(shown, frames)


def _which(data: xr.Dataset, variable: str | None, trajectory: int) -> str:
    """Return the context of a trajectory that is shown, and the number of all; empty where it is
    alone.
    """
    runs = _shown(data, variable, 2)
    count = runs.sizes["trajectory"]
    if count == 1:
        return ""
    number = checks.index("trajectory", trajectory, count)
    context = style.context(runs, number, varying=True)
    return ", ".join(filter(None, (context, f"one of {count} runs")))


def _draw(
    panel: Axes, values: xr.DataArray, whole: xr.DataArray, down: str, across: str
) -> QuadMesh:
    """Draw values on their coordinates, in the colours of the whole that they are a part of; planes
    are to scale.
    """
    if across != "time":
        panel.set_aspect("equal", adjustable="box")
    low = float(whole.min())
    high = float(whole.max())
    x = style.places(values, across)
    y = style.places(values, down)
    upwards = values.transpose(down, across).values
    return style.draw_mesh(panel, (x, y), upwards, style.STATE_MAP, (low, high))


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
