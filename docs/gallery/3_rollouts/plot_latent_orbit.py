"""Latent orbits
=============

The two latent coordinates of the reduced model move on a closed orbit. The orbit and its speed depend on the context: at
F = 3.14 and 3.15 the wave has eight crests and nearly the same orbit, at F = 3.18 it has seven.
"""

from matplotlib.figure import Figure

import romkit

system = romkit.systems.Lorenz96()
ncae = romkit.load("ncae-lorenz96")
run = romkit.rollout(system, ncae, F=[3.14, 3.15, 3.18], duration=20)

figure = Figure(figsize=(3.6, 3.8), layout="constrained")
axis = figure.subplots()
for latent, width in zip(run.latent, (4, 1.5, 1.5), strict=True):
    axis.plot(*latent.values.T, lw=width, label=f"F = {float(latent.F)}")
axis.set(xlabel="z₁", ylabel="z₂", aspect="equal")
figure.legend(loc="outside lower center", fontsize=8, ncols=3)
