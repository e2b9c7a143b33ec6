"""Two regimes of Lorenz96
=======================

Between F = 3.14 and 3.18 the travelling wave of Lorenz96 changes its number of crests.
"""

from matplotlib.figure import Figure

import romkit

system = romkit.systems.Lorenz96()
truth = romkit.simulate(system, F=[3.14, 3.18], duration=20)

figure = Figure(figsize=(7, 3), layout="constrained")
axes = figure.subplots(1, 2, sharey=True)
for axis, one in zip(axes, truth.transpose("trajectory", "component", "time").state, strict=True):
    image = axis.pcolormesh(truth.time, range(system.state_size), one, cmap="viridis")
    axis.set(title=f"F = {float(one.F)}", xlabel="time")
axes[0].set_ylabel("component")
figure.colorbar(image, ax=axes, label="state")
