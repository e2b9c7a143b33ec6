"""Latent orbits
=============

The two latent coordinates of the reduced model move on a closed orbit. The orbit and its speed depend on the context.
"""

from matplotlib.figure import Figure

import romkit

system = romkit.systems.Lorenz96()
ncae = romkit.load("ncae-lorenz96")
run = romkit.rollout(system, ncae, F=[3.14, 3.15, 3.18], duration=20)

figure = Figure(figsize=(3.6, 3.4), layout="constrained")
axis = figure.subplots()
for latent in run.latent:
    axis.plot(*latent.values.T, lw=0.8, label=f"F = {float(latent.F)}")
axis.set(xlabel="z₁", ylabel="z₂", aspect="equal")
axis.legend(fontsize=7)
