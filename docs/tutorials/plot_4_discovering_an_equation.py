"""Discovering an equation
=======================

The latent coordinates of a good projection obey a short equation. Sparse regression (SINDy) finds it from data, with
the context among its variables.
"""

import romkit
from romkit.laws import SINDy

# %%
# Latent data
# -----------

system = romkit.systems.Lorenz96()
ncae = romkit.load("ncae-lorenz96")
data = system.dataset("train", seed=0)

# %%
# A law
# -----
# `fit` encodes the data and scales the latent coordinates. `residual` is the part of the rate that each equation does
# not explain.

law = SINDy(degree=3, threshold=0.01).fit(ncae, data)
for name, residual in zip(("z0'", "z1'"), law.residual.tolist(), strict=True):
    print(f"the equation of {name} explains {100 * (1 - residual**2):.2f} % of its variance")
print(*law.formulas(), sep="\n\n")

# %%
# Settings chosen by rollouts
# ---------------------------
# Threshold and degree are best chosen by rollouts, along trajectories to which the law was not fitted.

chosen = SINDy().fit(ncae, data, select={"degree": (1, 3), "threshold": (0.003, 0.03)})
print(chosen.source)

# %%
# A rollout
# ---------

run = romkit.rollout(system, ncae, F=3.15, duration=10, dynamics=chosen)
print("valid for", float(run.valid_time), "of", float(run.time[-1]), "time units")
figure = romkit.plotting.plot_rollout(run)
