"""A shock that crosses a square
=============================

Burgers' equation in two dimensions, on a small grid. The context is the speed of the inflow and the growth of the
source.
"""

import numpy as np
from matplotlib.figure import Figure

import romkit

system = romkit.systems.Burgers2D(cells=50)
truth = romkit.simulate(system, mu1=4.56, mu2=0.019, duration=25, dt=0.5)
u = truth.state.values[0].reshape(len(truth.time), 2, 50, 50)[:, 0]

figure = Figure(figsize=(8, 2.6), layout="constrained")
axes = figure.subplots(1, 3, sharey=True)
for axis, k in zip(axes, (10, 30, 50), strict=True):
    image = axis.imshow(u[k], origin="lower", extent=(0, 100, 0, 100), vmin=1, vmax=6)
    axis.set(title=f"t = {float(truth.time[k]):g}", xlabel="x")
axes[0].set_ylabel("y")
figure.colorbar(image, ax=axes, label="u")

# %%
# A shock needs many modes: the singular values of one run fall slowly.

values = romkit.basis(truth, rank=40).singular_values.numpy()
spectrum = Figure(figsize=(4, 2.6), layout="constrained")
axis = spectrum.subplots()
axis.semilogy(np.arange(1, 41), values / values[0], "o-", ms=3)
axis.set(xlabel="mode", ylabel="singular value, relative")
