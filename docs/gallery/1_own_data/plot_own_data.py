"""Data without equations
======================

A travelling pulse whose speed depends on a parameter. No equation is given: projection and law are both
learned from data. They forecast the pulse at a speed that is not in the data.
"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import romkit
from romkit.integrators import NeuralODE

time, points = np.linspace(0, 6, 121), np.linspace(0, 2 * np.pi, 48, endpoint=False)


def pulses(speeds):
    phase = points - np.asarray(speeds)[:, None, None] * time[:, None]
    wave = np.exp(2 * np.cos(phase) - 2)
    rate = 2 * np.sin(phase) * wave * np.asarray(speeds)[:, None, None]
    dims = ("trajectory", "time", "component")
    return xr.Dataset(
        {"state": (dims, wave), "velocity": (dims, rate)},
        {"time": time, "speed": ("trajectory", speeds)},
    )


data = romkit.data.describe(pulses([0.8, 0.9, 1.0, 1.1, 1.2]), context=["speed"])
model = romkit.fit("ncae", data, latent_dim=2, epochs=60)
law = NeuralODE(regression_steps=1000, shooting_steps=50).fit(model, data)

truth = pulses([1.05])
forecast = romkit.forecast(
    model, dynamics=law, initial_state=truth.state.values[0, 0], duration=6, dt=0.05, speed=1.05
)

figure = Figure(figsize=(7, 2.6), layout="constrained")
axes = figure.subplots(1, 2, sharey=True)
for axis, title, field in zip(
    axes, ("truth", "forecast"), (truth.state[0], forecast.state), strict=True
):
    image = axis.pcolormesh(time, points, field.values.T, vmin=0, vmax=1)
    axis.set(title=title, xlabel="time")
axes[0].set_ylabel("angle")
figure.colorbar(image, ax=axes, label="height of the pulse")
