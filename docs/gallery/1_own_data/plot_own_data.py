"""Data without equations
======================

A travelling pulse whose speed depends on a parameter. No equation is given: `romkit.learn` takes the runs, leaves
them out in turn to judge itself, and forecasts the pulse at a speed that is in none of them, with bars.
"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import romkit

time, angle = np.linspace(0, 6, 121), np.linspace(0, 2 * np.pi, 48, endpoint=False)


def pulses(speeds):
    phase = angle - np.asarray(speeds)[:, None, None] * time[:, None]
    height = np.exp(2 * np.cos(phase) - 2)
    return xr.Dataset(
        {"height": (("run", "time", "angle"), height)},
        {"time": time, "angle": angle, "speed": ("run", speeds)},
    )


model = romkit.learn(pulses([0.8, 0.87, 0.93, 1.0, 1.07, 1.13, 1.2]), "speed")
print(model)

# %%
# The forecast has the variable and the dimensions of the data; `lower_height` and `upper_height` are its bars.

truth = pulses([1.05]).height[0]
forecast = model.forecast(initial_state=truth[0], duration=6, dt=0.05, speed=1.05)
error = forecast.height - truth
bars = (forecast.upper_height - forecast.lower_height) / 2
largest = float(abs(error).max())
shown = {
    "truth": (truth, "viridis", 0, 1),
    "forecast": (forecast.height, "viridis", 0, 1),
    "forecast − truth": (error, "RdBu_r", -largest, largest),
    "half width of the bars": (bars, "viridis", 0, float(bars.max())),
}

figure = Figure(figsize=(7, 4.4), layout="constrained")
axes = figure.subplots(2, 2, sharex=True, sharey=True)
for axis, (title, (field, colours, low, high)) in zip(axes.flat, shown.items(), strict=True):
    image = axis.pcolormesh(time, angle, field.values.T, cmap=colours, vmin=low, vmax=high)
    axis.set_title(title)
    figure.colorbar(image, ax=axis)
for axis in axes[:, 0]:
    axis.set_ylabel("angle")
for axis in axes[1]:
    axis.set_xlabel("time")
