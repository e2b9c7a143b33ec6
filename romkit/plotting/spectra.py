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

COLOURS = (style.DARK, style.ORANGE)
"""Labels of the truth, or of data; and of the reduced model."""


@validated
@style.plain_names
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
    run = style.members(run)
    run = run.isel(seed=0, drop=True, missing_dims="ignore")
    names = {"state": "state"}
    if "truth" in run:
        names = {"truth": style.truth(run), "rom": "reduced model"}
    style.check_numbers("run", run, "time", *names)
    step = _checked_step(run)
    states = [trajectories(run, name) for name in names]  # each (C, T, n)
    if not bool(states[0].isfinite().all()):
        raise InputError(
            "run",
            expected="whole trajectories for a spectrum",
            got="missing samples",
            fix="select trajectories without gaps",
        )
    # without the mean, which a logarithmic axis has no place for
    samples = run.sizes["time"]
    frequency = np.fft.rfftfreq(samples, step)[1:]
    unit = style.unit(run["time"], " (1/{})")
    with style.style():
        columns = min(style.MAX_COLUMNS, len(states[0]))
        figure, axes = style.panels(1, columns, sharey=True)
        for k, panel in enumerate(axes[0]):
            looks = zip(states, COLOURS, names.values(), strict=False)
            for values, colour, label in looks:
                density = metrics.power_density(values[k])  # (frequency, n)
                mean = density.mean(-1).numpy()
                panel.plot(frequency, mean[1:], color=colour, label=label)
            panel.set_title(_title(run, states, k))
            panel.set(yscale="log", xscale="log")
            panel.set_xlabel(f"frequency{unit}")
            style.plain(panel)
        axes[0, 0].set_ylabel("power density")
        axes[0, 0].legend(frameon=False)
    return figure


def _checked_step(run: xr.Dataset) -> float:
    """Return interval of evenly spaced times."""
    step = even_step(run["time"].values)
    if step is not None:
        return step
    got = "one time"
    if run.sizes["time"] > 1:
        got = "uneven steps"
    raise InputError(
        "run", expected="evenly spaced times for a spectrum", got=got, fix="resample the data"
    )


def _title(run: xr.Dataset, states: list[Tensor], trajectory: int) -> str:
    """Context of a trajectory, and the distance of the two spectra of a rollout."""
    lines = []
    context = style.context(run, trajectory, varying=True)
    if context:
        lines.append(context)
    if len(states) == 2:
        truth, reduced = (values[trajectory] for values in states)
        distances = metrics.hellinger_distance(truth, reduced)
        distance = float(distances.mean())
        lines.append(f"distance {distance:.2g}")
    return "\n".join(lines)
