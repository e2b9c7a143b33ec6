"""`plot_spectrum`: how the motion is spread over frequencies."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from romkit.core.boundary import checked
from romkit.core.errors import InputError
from romkit.data import even_step, trajectories
from romkit.metrics import hellinger_distance, power_density
from romkit.plotting import selection
from romkit.plotting.style import DARK, ORANGE, panels, plain, style


@checked
def plot_spectrum(run: xr.Dataset) -> Figure:
    """Power spectra of the truth and of the reduced model, the mean over components; one panel for each trajectory.

    Args:
        run: of `romkit.rollout`; or a dataset or forecast, of which the spectrum of `state` is shown.

    The title has the Hellinger distance of the two, the mean over components (`romkit.metrics.hellinger_distance`).

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
    run = selection.first_seed(run)
    selection.check_numbers("run", run, *(("truth", "rom") if "truth" in run else ("state",)))
    step = even_step(run["time"].values)
    if step is None:
        got, fix = "uneven steps" if run.sizes["time"] > 1 else "one time", "resample the data"
        raise InputError("run", expected="evenly spaced times for a spectrum", got=got, fix=fix)
    pairs = [("truth", DARK, "full model"), ("rom", ORANGE, "reduced model")]
    drawn = pairs if "truth" in run else [("state", DARK, "state")]
    shown = [(trajectories(run, name), colour, text) for name, colour, text in drawn]
    if not bool(shown[0][0].isfinite().all()):
        fix = "select trajectories and times without gaps"
        raise InputError("run", expected="whole trajectories for a spectrum", got="missing samples", fix=fix)
    frequency = np.fft.rfftfreq(run.sizes["time"], step)
    along = f"frequency{selection.unit(run['time'], ' (1/{})')}"
    with style():
        figure, axes = panels(1, min(selection.MAX_COLUMNS, len(shown[0][0])), sharey=True)
        for k, panel in enumerate(axes[0]):
            for values, colour, text in shown:
                density = power_density(values[k]).mean(-1).numpy()
                panel.plot(frequency[1:], density[1:], color=colour, label=text)
            if len(shown) == 2:
                apart = float(hellinger_distance(shown[0][0][k], shown[1][0][k]).mean())
                panel.set_title(f"distance {apart:.2g}")
            panel.set(yscale="log", xscale="log", xlabel=along)
            plain(panel)
        axes[0, 0].set_ylabel("power density")
        axes[0, 0].legend(frameon=False)
    return figure
