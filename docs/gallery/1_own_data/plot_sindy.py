"""Discovering an equation
=======================

Sparse regression finds an equation of the latent coordinates from data. The equation can be printed, and
used in rollouts as any other latent dynamics.
"""

import romkit
from romkit.integrators import SINDy
from romkit.plotting import plot_rollout

system = romkit.systems.Lorenz96()
ncae = romkit.load("ncae-lorenz96")
data = system.dataset("train", seed=0)
law = SINDy(degree=3, threshold=0.01).fit(ncae, data)
print(*law.formulas(), sep="\n\n")

# %%
run = romkit.rollout(system, ncae, F=3.15, duration=10, dynamics=law)
figure = plot_rollout(run)
