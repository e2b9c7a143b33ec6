"""Full and reduced model
======================

A rollout integrates the full and the reduced model from the same state. The full model is Lorenz96 with 36 components,
the reduced model has two latent coordinates.
"""

import romkit
from romkit.plotting import plot_rollout

system = romkit.systems.Lorenz96()
ncae = romkit.load("ncae-lorenz96")
run = romkit.rollout(system, ncae, F=3.15)
figure = plot_rollout(run)

# %%
# `nrmse` is the error over time, and `valid_time` the time until which this error is below 0.5.

print(
    f"valid for {float(run.valid_time):.1f} time units; error at the end {float(run.nrmse[-1]):.3f}"
)
