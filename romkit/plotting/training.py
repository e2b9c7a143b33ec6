"""`plot_training`: how a training went."""

from matplotlib.figure import Figure

from romkit.core.boundary import checked
from romkit.core.errors import InputError
from romkit.plotting.style import BLUE, NEUTRAL, ORANGE, panels, plain, style
from romkit.projections import Projection


@checked
def plot_training(model: Projection) -> Figure:
    """Losses after each epoch, on the training data and, where some were held out, on those; the epoch that was kept.

    Args:
        model: a projection that was trained; of a stack every seed is a line.

    Raises:
        InputError: a projection whose report has no losses.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_training
        >>> figure = plot_training(romkit.load("ncae-lorenz96"))
        >>> figure.axes[0].get_xlabel()
        'epoch'
    """
    reports = model.report.get("seeds", [model.report])
    if not all(report.get("losses") for report in reports):
        fix = "give what romkit.fit returned for a method with parameters to train"
        raise InputError("model", expected="a trained projection", got="one without losses", fix=fix)
    with style():
        figure, ((axes,),) = panels(1, 1, width=4.2, height=2.6)
        for k, report in enumerate(reports):
            thin = {"linewidth": 0.7 if len(reports) > 1 else 1.1, "label": None}
            axes.plot(report["losses"], color=BLUE, **thin | {"label": "training" if k == 0 else None})
            if curve := report.get("validation_losses"):
                axes.plot(curve, color=ORANGE, **thin | {"label": "held out" if k == 0 else None})
                best, kept = report["best_epoch"], "kept" if k == 0 else None
                axes.plot(best, curve[best], "o", color=ORANGE, markersize=3.5, label=kept)
            if report.get("diverged"):
                axes.axvline(len(report["losses"]) - 1, color=NEUTRAL, linestyle=":", linewidth=0.8)
        axes.set_yscale("log")
        axes.set_xlabel("epoch")
        axes.set_ylabel("loss")
        plain(axes).legend(frameon=False)
        axes.set_title(f"{model.name}, {model.latent_dim} latent coordinates")
    return figure
