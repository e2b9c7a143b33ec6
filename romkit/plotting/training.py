"""Losses of a training."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.plotting import style
from romkit.projections import Projection


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
    width = 1.1
    if len(reports) > 1:
        width = 0.7
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=4.2, height=2.6)
        for number, report in enumerate(reports):
            _draw_losses(axes, report, width, labelled=number == 0)
        title = f"{model.name}, {model.latent_dim} latent coordinates"
        axes.set_title(title)
        axes.set_yscale("log")
        axes.set_xlabel("epoch")
        axes.set_ylabel("loss")
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
