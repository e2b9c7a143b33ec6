"""Power spectra of a rollout, or of data."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from torch import Tensor

from romkit import metrics
from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.data import even_step, trajectories
from romkit.plotting import style


@validated
def plot_spectrum(run: xr.Dataset) -> Figure:
    """Power spectra of the truth and of the reduced model, the mean over components; one panel for
    each trajectory.

    Args:
        run: a rollout; or a dataset or forecast, whose `state` is shown.

    Titles have the context, and the Hellinger distance of the two, the mean over components
    (`romkit.metrics.hellinger_distance`).

    Raises:
        InputError: uneven times, or missing samples.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_spectrum
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.5)
        >>> figure = plot_spectrum(data)
        >>> figure.axes[0].get_xlabel()
        'frequency'
    """
    run = style.members(run).isel(seed=0, drop=True, missing_dims="ignore")
    names = ("truth", "rom") if "truth" in run else ("state",)
    style.check_numbers("run", run, "time", *names)
    step = _checked_step(run)
    states = [trajectories(run, name) for name in names]  # each (C, T, n)
    if not bool(states[0].isfinite().all()):
        expected, fix = "whole trajectories for a spectrum", "select trajectories without gaps"
        raise InputError("run", expected=expected, got="missing samples", fix=fix)
    texts = (style.truth(run), "reduced model") if "truth" in run else names
    frequency = np.fft.rfftfreq(run.sizes["time"], step)[1:]
    with style.style():
        columns = min(style.MAX_COLUMNS, len(states[0]))
        figure, axes = style.panels(1, columns, sharey=True)
        for k, panel in enumerate(axes[0]):
            for values, colour, text in zip(
                states, (style.DARK, style.ORANGE), texts, strict=False
            ):
                density = metrics.power_density(values[k]).mean(-1).numpy()  # (frequency,)
                panel.plot(frequency, density[1:], color=colour, label=text)
            panel.set_title(_title(run, states, k))
            along = f"frequency{style.unit(run['time'], ' (1/{})')}"
            panel.set(yscale="log", xscale="log", xlabel=along)
            style.plain(panel)
        axes[0, 0].set_ylabel("power density")
        axes[0, 0].legend(frameon=False)
    return figure


def _checked_step(run: xr.Dataset) -> float:
    """Interval of evenly spaced times."""
    step = even_step(run["time"].values)
    if step is not None:
        return step
    got = "uneven steps" if run.sizes["time"] > 1 else "one time"
    expected = "evenly spaced times for a spectrum"
    raise InputError("run", expected=expected, got=got, fix="resample the data")


def _title(run: xr.Dataset, states: list[Tensor], trajectory: int) -> str:
    """Context of a trajectory, and the distance of the two spectra of a rollout."""
    lines = [style.context(run, trajectory, varying=True)]
    if len(states) == 2:
        truth, rom = (values[trajectory] for values in states)
        distance = float(metrics.hellinger_distance(truth, rom).mean())
        lines.append(f"distance {distance:.2g}")
    return "\n".join(filter(None, lines))
