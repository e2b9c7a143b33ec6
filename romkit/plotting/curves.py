"""Curves: power spectra of a rollout or of data, and losses of a training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from romkit import metrics
from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.data import even_step, trajectories
from romkit.plotting import style
from romkit.projections import Projection

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
    step = even_step(run["time"].values)
    if step is None:
        got = "uneven steps" if run.sizes["time"] > 1 else "one time"
        fix = "resample the data"
        raise InputError("run", expected="evenly spaced times for a spectrum", got=got, fix=fix)
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
            title = [style.context(run, k, varying=True)]
            if len(states) == 2:
                distances = metrics.hellinger_distance(*(values[k] for values in states))
                title.append(f"distance {float(distances.mean()):.2g}")
            panel.set_title("\n".join(filter(None, title)))
            panel.set(yscale="log", xscale="log")
            panel.set_xlabel(f"frequency{unit}")
            style.plain(panel)
        axes[0, 0].set_ylabel("power density")
        axes[0, 0].legend(frameon=False)
    return figure


@validated
@style.plain_names
def plot_training(model: Projection) -> Figure:
    """Return losses after each epoch, on the training data and, where some were held out, on those;
    the epoch that was kept.

    Args:
        model: a trained projection; each seed of a stack is a line.

    Raises:
        InputError: a projection whose report has no losses.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_training
        >>> figure = plot_training(romkit.load("ncae-lorenz96"))
        >>> figure.axes[0].get_xlabel()
        'epoch'
    """
    reports: Any = model.report.get("seeds", [model.report])
    if not all(report.get("losses") for report in reports):
        raise InputError(
            "model",
            expected="a trained projection",
            got="one without losses",
            fix="give what romkit.fit returned for a method with parameters to train",
        )
    width = 0.7 if len(reports) > 1 else 1.1
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=4.2, height=2.6)
        for number, report in enumerate(reports):
            _draw_losses(axes, report, width, labelled=number == 0)
        axes.set_title(f"{model.name}, {model.latent_dim} latent coordinates")
        axes.set(yscale="log", xlabel="epoch", ylabel="loss")
        style.plain(axes)
        axes.legend(frameon=False)
    return figure


def _draw_losses(axes: Axes, report: Mapping[str, Any], width: float, *, labelled: bool) -> None:
    """Draw the losses of one seed; one seed is enough for the legend."""
    training, held_out, kept = ("training", "held out", "kept") if labelled else (None, None, None)
    losses = report["losses"]
    validation = report.get("validation_losses")
    axes.plot(losses, color=style.BLUE, linewidth=width, label=training)
    if validation:
        axes.plot(validation, color=style.ORANGE, linewidth=width, label=held_out)
        best = report["best_epoch"]
        axes.plot(best, validation[best], "o", color=style.ORANGE, markersize=3.5, label=kept)
    if report.get("diverged"):
        # the last epoch of a seed that was frozen
        axes.axvline(len(losses) - 1, color=style.NEUTRAL, linestyle=":", linewidth=0.8)
