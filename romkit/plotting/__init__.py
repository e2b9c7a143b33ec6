"""Figures of rollouts. A figure is a value, never global state.

figure = romkit.plotting.plot_rollout(run)
figure.savefig("rollout.pdf")
"""

from romkit.plotting.rollout import plot_rollout

__all__ = ["plot_rollout"]
