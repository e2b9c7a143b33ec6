"""Fields over space and time, on the axes of the data: `plot_space_time`, `plot_frames`, `animate`."""

from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.figure import Figure

from romkit.core import checks
from romkit.core.boundary import Count, FilePath, Natural, checked
from romkit.core.errors import InputError
from romkit.core.files import atomic, expanded
from romkit.data import fields
from romkit.plotting import selection
from romkit.plotting.style import STATE_MAP, label, panels, style

WRITERS = {"gif": PillowWriter, "mp4": FFMpegWriter}


@checked
def plot_space_time(data: xr.Dataset, *, variable: str | None = None) -> Figure:
    """Variables of one dimension against time, on their own coordinates: a row for each, a column for a trajectory.

    Args:
        data: in romkit's schema, a forecast, or a rollout; at most four trajectories are shown.
        variable: the only one to show; by default all with one dimension beside time.

    Raises:
        InputError: none has one.

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
    with style():
        columns = min(selection.MAX_COLUMNS, shown.sizes["trajectory"])
        figure, axes = panels(len(shown.data_vars), columns, height=1.7, sharex=True)
        for row, (name, values) in zip(axes, shown.data_vars.items(), strict=True):
            (space,) = _space(values)
            low, high = _range(values)
            for k, panel in enumerate(row):
                part = values.isel(trajectory=k).transpose(space, "time")
                image = panel.pcolormesh(
                    part["time"], _axis(part, space), part.values, cmap=STATE_MAP, vmin=low, vmax=high, rasterized=True
                )
            row[0].set_ylabel(f"{name}\n{label(shown[space])}")
            figure.colorbar(image, ax=row.tolist(), label=label(values))
        for k in range(columns):
            axes[0, k].set_title(_title(shown.isel(trajectory=k)))
            axes[-1, k].set_xlabel(label(shown["time"]))
    return figure


@checked
def plot_frames(data: xr.Dataset, *, variable: str | None = None, trajectory: Natural = 0, frames: Count = 4) -> Figure:
    """Variables of two dimensions at some times: a row for each variable, a column for a time.

    Args:
        data: in romkit's schema, a forecast, or a rollout.
        variable: the only one to show; by default all with two dimensions beside time.
        trajectory: its number.
        frames: how many times, evenly spread.

    Raises:
        InputError: none has two.

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
    shown = _one_trajectory(_shown(data, variable, 2), trajectory)
    times = np.linspace(0, shown.sizes["time"] - 1, frames).round().astype(int)
    with style():
        figure, axes = panels(len(shown.data_vars), frames, width=1.8, height=1.7, sharex=True, sharey=True)
        for row, values in zip(axes, shown.data_vars.values(), strict=True):
            for panel, k in zip(row, times, strict=True):
                image = _frame(panel, values, k)
            down, across = _space(values)
            row[0].set_ylabel(label(shown[down]))
            figure.colorbar(image, ax=row.tolist(), label=label(values))
        for column, k in enumerate(times):
            axes[0, column].set_title(_clock(shown, k))
            axes[-1, column].set_xlabel(label(shown[across]))
    return figure


@checked
def animate(
    data: xr.Dataset,
    *,
    variable: str | None = None,
    trajectory: Natural = 0,
    frames: Count = 100,
    per_second: Count = 20,
) -> FuncAnimation:
    """Variables of two dimensions side by side as an animation, for `save_animation`; arguments as of `plot_frames`.

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
    shown = _one_trajectory(_shown(data, variable, 2), trajectory)
    times = np.unique(np.linspace(0, shown.sizes["time"] - 1, frames).round().astype(int))
    with style():
        figure, axes = panels(1, len(shown.data_vars), width=2.6)
        images = []
        for panel, values in zip(axes[0], shown.data_vars.values(), strict=True):
            images.append((_frame(panel, values, 0), values))
            down, across = _space(values)
            panel.set(ylabel=label(shown[down]), xlabel=label(shown[across]))
            figure.colorbar(images[-1][0], ax=panel, label=label(values))

    def draw(k: int) -> list:
        for image, values in images:
            image.set_array(values.isel(time=k).transpose(*_space(values)).values)
        figure.suptitle(_clock(shown, k))
        return [image for image, _ in images]

    return FuncAnimation(figure, draw, frames=times.tolist(), interval=1000 / per_second)


@checked
def save_animation(animation: FuncAnimation, path: FilePath) -> Path:
    """Write an animation as GIF or MP4 (which needs the program ffmpeg), all of it or nothing at all.

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
    path = expanded(path)
    writer = WRITERS[checks.ending("path", path, WRITERS)]
    if not writer.isAvailable():
        got, fix = "no ffmpeg", "install it, or write a .gif"
        raise InputError("path", expected="a program that writes mp4", got=got, fix=fix)
    with atomic(path) as temporary:
        named = temporary.with_name(f"{temporary.name}{path.suffix}")  # writers choose the format by the ending
        try:
            animation.save(named, writer=writer(fps=1000 / animation._interval))
            named.replace(temporary)
        finally:
            named.unlink(missing_ok=True)
    return path


def _shown(data: xr.Dataset, variable: str | None, dimensions: int) -> xr.Dataset:
    """The variables that have this many dimensions of space, for each trajectory."""
    own = selection.first_seed(fields(data))
    if variable is not None:
        own = own[[checks.one_of("variable", variable, [str(name) for name in own.data_vars])]]
    moving = {str(name): values for name, values in own.data_vars.items() if "time" in values.dims}
    fitting = [name for name, values in moving.items() if len(_space(values)) == dimensions]
    if not fitting:
        expected = f"a variable over time and {dimensions} dimensions of space"
        got = ", ".join(f"{name}{values.dims}" for name, values in own.data_vars.items())
        fix = "give data of romkit.data.describe with such a variable"
        raise InputError("data", expected=expected, got=got, fix=fix)
    chosen = [name for name in fitting if not name.startswith(("latent", "control"))] or fitting
    selection.check_numbers("data", own, *chosen)
    return own[chosen]


def _space(values: xr.DataArray) -> list[str]:
    lead = ("trajectory", "time", "input", "latent_component")
    return [str(dim) for dim in values.dims if dim not in lead]


def _one_trajectory(data: xr.Dataset, trajectory: int) -> xr.Dataset:
    if trajectory >= data.sizes["trajectory"]:
        expected, fix = f"a number below {data.sizes['trajectory']}", "give trajectory=0, say"
        raise InputError("trajectory", expected=expected, got=repr(trajectory), fix=fix)
    return data.isel(trajectory=trajectory)


def _frame(panel: object, values: xr.DataArray, k: int) -> object:
    low, high = _range(values)
    down, across = _space(values)
    part = values.isel(time=k).transpose(down, across)
    panel.set_aspect("equal", adjustable="box")
    return panel.pcolormesh(_axis(part, across), _axis(part, down), part.values, cmap=STATE_MAP, vmin=low, vmax=high)


def _axis(values: xr.DataArray, dim: str) -> np.ndarray:
    """Physical values along a dimension, or places on it."""
    coord = values[dim].values
    return coord if coord.dtype.kind in "iuf" else np.arange(len(coord))


def _range(values: xr.DataArray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _title(one: xr.Dataset) -> str:
    """The first parameters of a trajectory."""
    parts = [
        f"{name} = {float(coord):.4g}"
        for name, coord in one.coords.items()
        if coord.ndim == 0 and coord.dtype.kind in "iuf" and coord.attrs.get("role") != "label"
    ]
    return ", ".join(parts[:3])


def _clock(data: xr.Dataset, k: int) -> str:
    return f"t = {float(data['time'][k]):.4g}{selection.unit(data['time'], ' {}')}"
