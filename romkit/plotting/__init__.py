"""Figures. A figure is a value, never global state.

For example:

    figure = plot_rollout(run)
    save_figure(figure, "rollout.pdf")
"""

from romkit.plotting.branches import plot_branches, plot_sample
from romkit.plotting.curves import plot_spectrum, plot_training
from romkit.plotting.fields import animate, plot_frames, plot_space_time, save_animation
from romkit.plotting.forecasts import plot_calibration, plot_forecast
from romkit.plotting.portraits import plot_latent, plot_phase
from romkit.plotting.rollout import plot_rollout
from romkit.plotting.style import save_figure

__all__ = [
    "animate",
    "plot_branches",
    "plot_calibration",
    "plot_forecast",
    "plot_frames",
    "plot_latent",
    "plot_phase",
    "plot_rollout",
    "plot_sample",
    "plot_space_time",
    "plot_spectrum",
    "plot_training",
    "save_animation",
    "save_figure",
]
