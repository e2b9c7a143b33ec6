"""Figures of rollouts. A figure is a value, never global state.

figure = plot_rollout(run)
save_figure(figure, "rollout.pdf")
"""

from romkit.plotting.rollout import plot_rollout, save_figure

__all__ = ["plot_rollout", "save_figure"]
