"""What all figures share: sizes, colours, labels with units, colour scales."""

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from romkit.plotting.selection import unit

STATE_MAP, ERROR_MAP = "viridis", "RdBu_r"
DARK, ORANGE, BLUE, NEUTRAL = "#222222", "#D55E00", "#0072B2", "#777777"  # Okabe & Ito: safe for colour-blind eyes
RC = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "figure.titlesize": 9,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


def panels(rows: int, columns: int, *, width: float = 2.4, height: float = 2.2, **shared: object) -> tuple:
    """A figure with a grid (rows, columns) of panels, each of this size in inches."""
    size = (max(3.4, width * columns), max(2.4, height * rows + 0.3))
    figure = Figure(figsize=size, layout="constrained", dpi=200)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def label(variable: xr.DataArray) -> str:
    """Name and unit of a coordinate or variable."""
    return f"{variable.name}{unit(variable, ' ({})')}"


def plain(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def colours(values: np.ndarray) -> matplotlib.cm.ScalarMappable:
    """What gives a colour to each value, and a colour bar."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return matplotlib.cm.ScalarMappable(Normalize(low, high if high > low else low + 1), STATE_MAP)


def style() -> object:
    """The block in which a figure is drawn."""
    return matplotlib.rc_context(RC)
