"""`plot_forecast` and `plot_calibration`: a forecast with its interval, and how often the truth is within."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from romkit.core.boundary import checked
from romkit.core.errors import InputError
from romkit.data.trajectories import check_components
from romkit.plotting import selection
from romkit.plotting.style import BLUE, DARK, NEUTRAL, ORANGE, label, panels, plain, style


@checked
def plot_forecast(
    band: xr.Dataset, truth: xr.Dataset | None = None, *, components: Sequence[str] | None = None
) -> Figure:
    """Mean and interval of an ensemble over time.

    Args:
        band: what `Ensemble.forecast` or `Ensemble.follow` returned.
        truth: the data that were followed, drawn as a line; missing samples are gaps.
        components: names of those to draw; by default four that vary most.

    Raises:
        InputError: a run without interval, or unknown components.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> from romkit.plotting import plot_forecast
        >>> wave = np.sin(np.linspace(0, 6, 50))[:, None]
        >>> parts = {"lower": wave - 0.1, "state": wave, "upper": wave + 0.1}
        >>> band = {name: (("time", "component"), part) for name, part in parts.items()}
        >>> figure = plot_forecast(xr.Dataset(band, {"time": np.linspace(0, 6, 50), "component": ["x0"]}))
        >>> len(figure.axes)
        1
    """
    if "lower" not in band:
        fix = "give what Ensemble.forecast or Ensemble.follow returned"
        raise InputError("band", expected="a forecast with an interval", got=f"{sorted(map(str, band))}", fix=fix)
    runs = selection.first_seed(band).isel(trajectory=slice(selection.MAX_COLUMNS))
    names = [str(name) for name in runs["component"].values]
    if truth is not None:
        truth = selection.first_seed(truth)
        check_components("truth", truth, names)
        if truth.sizes["trajectory"] < runs.sizes["trajectory"]:
            expected, got = f"{runs.sizes['trajectory']} trajectories, as the band", truth.sizes["trajectory"]
            raise InputError("truth", expected=expected, got=got, fix="give the data that were followed")
    if components is None:
        spread = runs["state"].std(("trajectory", "time")).values
        components = [names[k] for k in np.sort(np.argsort(spread)[::-1][: selection.MAX_CURVES])]
    unknown = [name for name in components if name not in names]
    if unknown or not components:
        got = repr(unknown[0]) if unknown else "none"
        raise InputError("components", expected=f"names among {names[:8]}", got=got, fix="check the names")
    with style():
        figure, axes = panels(len(components), runs.sizes["trajectory"], width=3.0, height=1.3, sharex=True)
        for row, name in zip(axes, components, strict=True):
            for k, panel in enumerate(row):
                run = runs.isel(trajectory=k, component=names.index(name))
                share = f"{run['lower'].attrs.get('level', 0.9):.0%} interval"
                look = {"color": BLUE, "alpha": 0.25, "lw": 0}
                panel.fill_between(run["time"], run["lower"], run["upper"], label=share, **look)
                whole = {"where": np.isinf(run["upper"]), "transform": panel.get_xaxis_transform()}
                panel.fill_between(run["time"], 0, 1, **whole, **look)  # where the interval has no end
                panel.plot(run["time"], run["state"], color=BLUE, label="mean")
                if truth is not None:
                    own = truth.isel(trajectory=k, component=names.index(name))
                    panel.plot(own["time"], own["state"], color=DARK, lw=0.8, label="truth")
                plain(panel)
            row[0].set_ylabel(name)
        for panel in axes[-1]:
            panel.set_xlabel(label(runs["time"]))
        lines, words = axes[0, 0].get_legend_handles_labels()
        figure.legend(lines, words, loc="outside lower center", ncols=3, frameon=False)
    return figure


@checked
def plot_calibration(reliability: xr.Dataset) -> Figure:
    """Coverage against the level of the interval: on the diagonal an ensemble says how wrong it is.

    Args:
        reliability: what `Ensemble.reliability` returned; thin lines are single trajectories.

    Example:
        >>> import xarray as xr
        >>> from romkit.plotting import plot_calibration
        >>> each = [[0.4, 0.5], [0.9, 0.94]]  # level, trajectory
        >>> coverage = {"coverage": ("level", [0.45, 0.92]), "coverage_of": (("level", "trajectory"), each)}
        >>> figure = plot_calibration(xr.Dataset(coverage, {"level": [0.5, 0.9]}))
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('level of the interval', 'share of the truth within')
    """
    missing = [name for name in ("level", "coverage", "coverage_of") if name not in reliability]
    if missing:
        fix = "give what Ensemble.reliability returned"
        raise InputError("reliability", expected="coverage of levels", got=f"none of {', '.join(missing)}", fix=fix)
    with style():
        figure, ((axes,),) = panels(1, 1, width=3.2, height=3.0)
        axes.plot([0, 1], [0, 1], color=NEUTRAL, lw=0.8, ls=":", label="calibrated")
        level = reliability["level"].values
        for own in reliability["coverage_of"].transpose("trajectory", "level").values:
            axes.plot(level, own, color=ORANGE, lw=0.4, alpha=0.6)
        axes.plot(level, reliability["coverage"], "o-", color=ORANGE, markersize=3, label="all trajectories")
        axes.set(xlabel="level of the interval", ylabel="share of the truth within", xlim=(0, 1), ylim=(0, 1))
        plain(axes).legend(frameon=False)
    return figure
