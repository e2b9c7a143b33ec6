"""Sizes, colours, labels and checks that all figures share, and `save_figure`."""

import functools
import json
import textwrap
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, ParamSpec

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure as Figure
from matplotlib.gridspec import GridSpec
from matplotlib.text import Text

from romkit.core import checks, display, errors, files, tensors
from romkit.core.boundary import FilePath, validated
from romkit.core.types import Args, Array

P = ParamSpec("P")

MAX_COLUMNS = 4
"""Largest number of contexts, or trajectories, in one figure."""

MAX_CURVES = 4
"""Largest number of components that one figure shows as curves."""

STATE_MAP = "viridis"
"""Colours of states, and of what has an order."""

NO_SPACE = ("seed", "trajectory", "time", "input", "latent_component")
"""Dimensions that are none of space."""

DEGREES = {"degrees_north": "°N", "degrees_east": "°E", "degrees": "°"}
"""Units of places in the words of a map."""

TO_THE_RIGHT = ("x", "lon", "longitude")
"""Names of dimensions that maps show from left to right, wherever they stand in the data."""

LAWS = {"Equation": "a learned equation"}
"""Dynamics whose class says too little."""

# Okabe and Ito's colours, which colour-blind eyes can tell apart
DARK = "#222222"
ORANGE = "#D55E00"
BLUE = "#0072B2"
NEUTRAL = "#777777"

RC = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "figure.titlesize": 9,
    "lines.linewidth": 1.1,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}
"""Settings of matplotlib in which all figures are drawn."""


def style() -> AbstractContextManager[None]:
    """Block in which a figure is drawn."""
    return matplotlib.rc_context(RC)


def plain_names(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Return a function of a figure whose names and units are drawn as they are: two dollars in a
    name of the data are no formula.
    """

    @functools.wraps(draw)
    def drawn(*args: P.args, **named: P.kwargs) -> Figure:
        figure = draw(*args, **named)
        show_plain(figure)
        return figure

    return drawn


def show_plain(figure: Figure) -> None:
    """Draw all text of a figure as it is, but for numbers of axes, which may be powers."""
    of_axes = set()
    for panel in figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            of_axes.update([*axis.get_ticklabels(), *axis.get_ticklabels(minor=True)])
    for text in figure.findobj(Text):
        is_power = "mathdefault" in text.get_text() or not text.get_text()
        if text not in of_axes or not is_power:
            text.set_parse_math(False)


def panels(
    rows: int, columns: int, *, width: float = 2.4, height: float = 2.2, **shared: Any
) -> Args:
    """Return figure with a grid (rows, columns) of panels, each of this size in inches."""
    full_width = max(3.4, width * columns)
    full_height = max(2.4, height * rows + 0.3)
    figure = Figure(figsize=(full_width, full_height), layout="constrained", dpi=200)
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    return figure, grid


def panel_grid(figure: Figure, grid: GridSpec, rows: int, columns: int) -> Array:
    """Panels (rows, columns) in the places of a grid, with numbers on the outer axes alone."""
    panels = np.empty((rows, columns), dtype=object)
    lowest = rows - 1
    for row, column in np.ndindex(rows, columns):
        place = grid[row, column]
        panel = figure.add_subplot(place)
        panel.tick_params(labelbottom=row == lowest, labelleft=column == 0)
        panels[row, column] = panel
    return panels


def label_columns(
    panels: Array, titles: Iterable[str], below: str, loc: Literal["center", "left"] = "center"
) -> None:
    """Write titles above columns of panels (rows, columns), and what is to the right below them."""
    for panel, title in zip(panels[0], titles, strict=True):
        lines = (title, panel.get_title(loc))
        panel.set_title("\n".join(filter(None, lines)), loc=loc)
    for panel in panels[-1]:
        panel.set_xlabel(below)


def entitle(figure: Figure, text: str, *, an_inch: float = 13.0) -> None:
    """Write a title above a figure, whose lines are broken where the figure ends.

    `an_inch`: letters that have room in it.
    """
    width = int(an_inch * figure.get_figwidth())
    lines = [textwrap.fill(line, width, break_on_hyphens=False) for line in text.splitlines()]
    with style():
        figure.suptitle("\n".join(filter(None, lines)))


def plain(axes: Axes) -> Axes:
    """Panel without the lines at its top and right."""
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def colours(values: Array) -> matplotlib.cm.ScalarMappable:
    """Colours for values, and for their colour bar."""
    scale = Normalize(*widen_scale(np.nanmin(values), np.nanmax(values)))
    return matplotlib.cm.ScalarMappable(scale, STATE_MAP)


def widen_scale(low: float, high: float) -> tuple[float, float]:
    """Return ends of a scale, which has some room beside a single value."""
    if low != high:
        return low, high
    room = 0.05 * abs(low) or 1.0
    return low - room, high + room


def limits(values: Array) -> tuple[float, float]:
    """Return smallest and largest finite value; zeros where there is none."""
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return 0.0, 0.0
    low = float(finite.min())
    high = float(finite.max())
    return low, high


def unit(variable: xr.DataArray, pattern: str = " ({})") -> str:
    """Return unit of a variable, put into `pattern`; nothing where it has none."""
    name = str(variable.attrs.get("units", ""))
    return display.append_unit(DEGREES.get(name, name), pattern)


def label(variable: xr.DataArray) -> str:
    """Return name and unit of a coordinate or variable."""
    return f"{variable.name}{unit(variable)}"


def meaning(variable: xr.DataArray) -> str:
    """Long name, if a variable has one, and unit."""
    name = variable.attrs.get("long_name", variable.name)
    return f"{name}{unit(variable)}"


def half_width(fields: xr.Dataset, name: Hashable) -> xr.DataArray | None:
    """Return half the width of the interval of a variable, where it has one."""
    lower, upper = (fields.get(f"{end}_{name}") for end in ("lower", "upper"))
    return None if lower is None or upper is None else (upper - lower) / 2


def clock(data: xr.Dataset, sample: int) -> str:
    """Time of a sample, as the title of a panel."""
    time = data["time"]
    value = float(time[sample])
    return f"t = {value:.4g}{unit(time, ' {}')}"


def spread(data: xr.Dataset, number: int) -> Array:
    """Return numbers of samples, evenly spread from the first to the last."""
    end = data.sizes["time"] - 1
    samples = np.linspace(0, end, number)
    return samples.round().astype(int)


def space(values: xr.DataArray) -> list[str]:
    """Return dimensions of space of a variable; of two, that called x, which maps show to the right,
    is the last.
    """
    dims = [str(dim) for dim in values.dims if dim not in NO_SPACE]
    return sorted(dims, key=lambda dim: dim.lower() in TO_THE_RIGHT)


def plane(values: xr.DataArray) -> tuple[str, str] | None:
    """Return coordinates (upwards, to the right) of a variable over a plane: its two dimensions, or
    those of the points of a mesh, which is along one; None of others.
    """
    dims = space(values)
    if len(dims) == 2:
        return dims[0], dims[1]
    if len(dims) != 1 or dims[0] in values.coords:
        return None
    along = [str(name) for name, at in values.coords.items() if at.dims == (dims[0],)]
    along = [name for name in along if values[name].dtype.kind in "iuf"]
    if len(along) != 2:
        return None
    points = np.stack([values[name].values for name in along], -1).astype(float)  # (P, 2)
    if _are_collinear(points):  # which spans no triangles
        return None
    upwards, across = sorted(along, key=lambda name: name.lower() in TO_THE_RIGHT)
    return upwards, across


def _are_collinear(points: np.ndarray, *, narrow: float = 1e-6) -> bool:
    """Tell whether points (P, 2) are on a line, but for a share `narrow` of its length."""
    sizes = np.linalg.svd(points - points.mean(0), compute_uv=False)
    return len(points) < 3 or not sizes[1] > narrow * sizes[0]


def is_mesh(values: xr.DataArray) -> bool:
    """Tell whether a variable is at points of a plane that are on no grid."""
    return len(space(values)) == 1 and plane(values) is not None


def places(values: xr.DataArray, dim: Hashable) -> Array:
    """Return coordinates along a dimension, or numbers of points where they are no numbers."""
    coordinate = values[dim].values
    if coordinate.dtype.kind in "iuf":
        return coordinate
    return np.arange(len(coordinate))


def forecaster(run: xr.Dataset) -> str:
    """Return what made a forecast, in words: the attribute `forecast_by`, or law and latents; empty
    where nothing is known.
    """
    attrs = run.attrs
    if "forecast_by" in attrs:
        return str(attrs["forecast_by"])
    method, law = (str(attrs.get(name) or "") for name in ("projection", "dynamics"))
    law = LAWS.get(law, law.removesuffix("Model"))
    if method == "identity":
        return f"{law} of the state itself"
    number = json.loads(attrs.get("projection_config", "{}")).get("latent_dim")
    of_latents = f"{number} latents, {method}" if number else method
    return f"{law} of {of_latents}" if law and of_latents else law or of_latents


def truth(run: xr.Dataset) -> str:
    """Return name of the truth in a rollout: the full model, or data."""
    return run["truth"].attrs.get("long_name", "full model")


def context(run: xr.Dataset, trajectory: int, *, varying: bool, parameters_a_line: int = 4) -> str:
    """Context parameters of a trajectory that differ between trajectories, or those that do not.

    `parameters_a_line`: largest number of context parameters on one line of a title.
    """
    values = []
    for name, coord in display.parameters(run).items():
        if coord.dims != ("trajectory",):
            continue
        differs = len(np.unique(coord.values)) > 1
        if differs == varying:
            value = coord.values[trajectory]
            values.append(f"{name} = {value:.4g}{unit(coord, ' {}')}")
    lines = []
    for start in range(0, len(values), parameters_a_line):
        line = values[start : start + parameters_a_line]
        lines.append(", ".join(line))
    return ",\n".join(lines)


def members(run: xr.Dataset) -> xr.Dataset:
    """Run with the dimensions seed, trajectory, time in front, also those that `romkit.rollout`
    leaves out.
    """
    if "trajectory" not in run.dims:
        # run of one trajectory along a dimension of its own, its parameters too
        parameters = {
            name: coord.expand_dims("trajectory")
            for name, coord in run.coords.items()
            if coord.ndim == 0
        }
        expanded = run.expand_dims("trajectory")
        run = expanded.assign_coords(parameters)
    if "seed" not in run.dims:
        run = run.expand_dims("seed")
    return run.transpose("seed", "trajectory", "time", ..., missing_dims="ignore")


def check_numbers(
    argument: str, data: xr.Dataset, *names: str, fix: str = "give data or a run of romkit"
) -> None:
    """Raise unless these variables hold real numbers along dimensions with entries, and times, if
    any, increase.
    """
    faults = []
    for name in names:
        if name not in data.variables:
            faults.append(f"no {name}")
        elif data[name].dtype.kind not in "fiu":
            faults.append(f"{data[name].dtype} in {name}")
    for dim, size in data.sizes.items():
        if size == 0:
            faults.append(f"no entries along {dim}")
    if faults:
        raise errors.InputError(argument, expected="real numbers", got=", ".join(faults), fix=fix)
    if "time" in names:
        tensors.times(f"{argument}.time", data["time"].values)


@validated
def save_figure(figure: Figure, path: FilePath) -> Path:
    """Write a figure in the format of its ending (png, pdf, svg, ...), all of it or nothing at all.

    Raises:
        InputError: an ending that is not a format.
        FileError: the file cannot be written.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_phase, save_figure
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.2)
        >>> save_figure(plot_phase(data, "x0", "x9"), "phase.svg").name
        'phase.svg'
    """
    path = files.expanded(path)
    ending = checks.ending("path", path, figure.canvas.get_supported_filetypes())
    with files.atomic(path) as temporary:
        figure.savefig(temporary, format=ending)
    return path
