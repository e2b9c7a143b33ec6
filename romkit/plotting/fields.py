"""Fields over space and time, on the axes of the data: `plot_space_time`, `plot_frames`, `animate`."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from romkit.core import checks, display, errors, files
from romkit.core.boundary import Count, FilePath, Natural, validated
from romkit.data.layout import unstacked
from romkit.plotting import style

WRITERS = {"gif": PillowWriter, "mp4": FFMpegWriter}
"""Writers of an animation, by the ending of its file."""

MOST_PARAMETERS = 3
"""Largest number of parameters in the title of a panel."""

INNER = ("latent", "control")
"""Beginnings of the names of variables that are shown only where there is nothing else."""

NO_SPACE = ("trajectory", "time", "input", "latent_component")
"""Dimensions that are none of space."""


@validated
def plot_space_time(data: xr.Dataset, *, variable: str | None = None) -> Figure:
    """Variables of one dimension against time, on their own coordinates: a row for each, a column
    for a trajectory.

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
    columns = min(style.MAX_COLUMNS, shown.sizes["trajectory"])
    with style.style():
        figure, axes = style.panels(len(shown.data_vars), columns, height=1.7, sharex=True)
        for row, (name, values) in zip(axes, shown.data_vars.items(), strict=True):
            (space,) = _space(values)
            for k, panel in enumerate(row):
                image = _draw(panel, values.isel(trajectory=k), values, space, "time")
            row[0].set_ylabel(f"{_whose(str(name), data)}\n{style.label(shown[space])}")
            figure.colorbar(image, ax=row.tolist(), label=style.meaning(values))
        for k in range(columns):
            axes[0, k].set_title(_context(shown.isel(trajectory=k)))
            axes[-1, k].set_xlabel(style.label(shown["time"]))
    return figure


def _context(run: xr.Dataset) -> str:
    """The first constant parameters of one trajectory; more do not fit above a panel."""
    words = []
    for name, value in display.parameters(run).items():
        if value.ndim == 0:
            words.append(f"{name} = {float(value):.4g}")
    return ", ".join(words[:MOST_PARAMETERS])


@validated
def plot_frames(
    data: xr.Dataset, *, variable: str | None = None, trajectory: Natural = 0, frames: Count = 4
) -> Figure:
    """Variables of two dimensions at some times: a row for each variable, a column for a time.

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
        figure, axes = style.panels(
            len(shown.data_vars), frames, width=1.8, height=1.7, sharex=True, sharey=True
        )
        for row, (name, values) in zip(axes, shown.data_vars.items(), strict=True):
            down, across = _space(values)
            for panel, k in zip(row, times, strict=True):
                image = _draw(panel, values.isel(time=k), values, down, across)
            row[0].set_ylabel(style.label(shown[down]))
            bar = f"{_whose(str(name), data)}{style.unit(values)}"
            figure.colorbar(image, ax=row.tolist(), label=bar)
        for column, k in enumerate(times):
            axes[0, column].set_title(_clock(shown, k))
            axes[-1, column].set_xlabel(style.label(shown[across]))
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
    """Variables of two dimensions side by side as an animation, for `save_animation`; arguments as
    of `plot_frames`.

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
        figure, axes = style.panels(1, len(shown.data_vars), width=2.6)
        images = []
        for panel, (name, values) in zip(axes[0], shown.data_vars.items(), strict=True):
            down, across = _space(values)
            panel.set_title(_whose(str(name), data))
            images.append((_draw(panel, values.isel(time=0), values, down, across), values))
            panel.set(ylabel=style.label(shown[down]), xlabel=style.label(shown[across]))
            figure.colorbar(images[-1][0], ax=panel, label=style.meaning(values))

    def draw(k: int) -> list:
        for image, values in images:
            image.set_array(values.isel(time=k).values)
        figure.suptitle(_clock(shown, k))
        return [image for image, _ in images]

    return FuncAnimation(figure, draw, frames=np.unique(times).tolist(), interval=1000 / per_second)


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
    writer = WRITERS[checks.ending("path", path, WRITERS)]
    if not writer.isAvailable():
        got, fix = "no ffmpeg", "install it, or write a .gif"
        raise errors.InputError("path", expected="a program that writes mp4", got=got, fix=fix)
    with tempfile.TemporaryDirectory() as folder, files.atomic(path) as temporary:
        named = Path(folder) / path.name  # writers choose the format by the ending
        animation.save(named, writer=writer(fps=1000 / animation._interval))
        shutil.copyfile(named, temporary)
    return path


def _shown(data: xr.Dataset, variable: str | None, dimensions: int) -> xr.Dataset:
    """Variables with this many dimensions of space, for each trajectory."""
    variables = style.members(unstacked(data)).isel(seed=0, drop=True)
    if variable is not None:
        names = [str(name) for name in variables.data_vars]
        variables = variables[[checks.one_of("variable", variable, names)]]
    fitting = []
    for name, values in variables.data_vars.items():
        if "time" in values.dims and len(_space(values)) == dimensions:
            fitting.append(str(name))
    if not fitting:
        expected = f"a variable over time and {dimensions} dimensions of space"
        got = ", ".join(f"{name}{values.dims}" for name, values in variables.data_vars.items())
        fix = "give data of romkit.data.describe with such a variable"
        raise errors.InputError("data", expected=expected, got=got, fix=fix)
    chosen = [name for name in fitting if not name.startswith(INNER)]
    if not chosen:
        chosen = fitting
    style.check_numbers("data", variables, "time", *chosen)
    return variables[chosen]


def _one(
    data: xr.Dataset, variable: str | None, trajectory: int, frames: int
) -> tuple[xr.Dataset, np.ndarray]:
    """Variables with two dimensions of space of one trajectory, and numbers of evenly spread times."""
    shown = _shown(data, variable, 2)
    number = checks.index("trajectory", trajectory, shown.sizes["trajectory"])
    times = np.linspace(0, shown.sizes["time"] - 1, frames).round().astype(int)
    return shown.isel(trajectory=number), times


def _space(values: xr.DataArray) -> list[str]:
    """Dimensions of space of a variable."""
    return [str(dim) for dim in values.dims if dim not in NO_SPACE]


def _places(values: xr.DataArray, dim: str) -> np.ndarray:
    """Coordinates along a dimension, or numbers of points where they are no numbers."""
    coordinate = values[dim].values
    if coordinate.dtype.kind in "iuf":
        return coordinate
    return np.arange(len(coordinate))


def _draw(
    panel: Axes, values: xr.DataArray, whole: xr.DataArray, down: str, across: str
) -> QuadMesh:
    """Draw values on their coordinates, in the colours of the whole that they are a part of; planes
    are to scale.
    """
    if across != "time":
        panel.set_aspect("equal", adjustable="box")
    low, high = float(whole.min()), float(whole.max())
    look = {"cmap": style.STATE_MAP, "vmin": low, "vmax": high, "rasterized": True}
    places = _places(values, across), _places(values, down)
    return panel.pcolormesh(*places, values.transpose(down, across).values, **look)


def _whose(name: str, data: xr.Dataset) -> str:
    """Name of a variable; of a rollout, whether it is of the truth or of the reduced model."""
    kind, _, variable = name.partition("_")
    models = {"rom": "reduced model", "projected": "projection"}
    if "truth" in data:
        models["truth"] = style.truth(data)
    if "truth" not in data or kind not in models:
        return name
    return f"{models[kind]}: {variable}"


def _clock(data: xr.Dataset, k: int) -> str:
    return f"t = {float(data['time'][k]):.4g}{style.unit(data['time'], ' {}')}"
