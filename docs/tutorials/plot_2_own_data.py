"""Your own data
=============

A reduced model can be learned from trajectories alone. In this tutorial SciPy computes a pulse on a ring of
FitzHugh-Nagumo cells, in place of a measurement; romkit is given the trajectories and not the equation. The last
section is a forecast at a parameter that was not measured.
"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp

import romkit

# %%
# A measurement
# -------------

CELLS, EPSILON = 64, np.linspace(0.05, 0.09, 9)
time = np.linspace(0.0, 40.0, 201)


def measure(epsilon):
    """States (time, 2 cells): voltages, then recoveries, of a pulse that goes round."""

    def rate(t, y):
        v, w = y.reshape(2, CELLS)
        diffusion = np.roll(v, 1) - 2 * v + np.roll(v, -1)
        return np.concatenate([v - v**3 / 3 - w + 1.2 * diffusion, epsilon * (v + 0.7 - 0.8 * w)])

    place = np.arange(CELLS)
    start = np.concatenate([np.where(place < 8, 2.0, -1.2), np.where((place > 40), 0.4, -0.6)])
    settled = solve_ivp(rate, (0, 80), start, rtol=1e-6).y[:, -1]
    return solve_ivp(rate, (0, 40), settled, t_eval=time, rtol=1e-6).y.T


dims = ("trajectory", "time", "component")
data = romkit.data.describe(
    xr.Dataset(
        {"state": (dims, np.stack([measure(e) for e in EPSILON]))},
        coords={"time": time, "epsilon": ("trajectory", EPSILON)},
    ),
    context=["epsilon"],
)

# %%
# A projection and a law
# ----------------------
# One trajectory is held out: its parameter is never seen in training. `romkit.law` tries SINDy, operator inference and
# a neural ODE, and returns the law with the best forecasts.

held_out, train = data.isel(trajectory=[4]), data.drop_isel(trajectory=4)
model = romkit.fit("ncae", train, latent_dim=2, epochs=200)
law = romkit.law(model, train)
for tried in law.report:
    print(f"{tried['law']}: error {tried['error']:.2g} on held-out trajectories, {tried['seconds']:.0f} s")

# %%
# How good is it?
# ---------------

run = romkit.rollout(held_out, model, dynamics=law)
print(f"median error: projection {float(run.nrmse_projected.median()):.3f}, forecast {float(run.nrmse.median()):.3f}")
figure = romkit.plotting.plot_rollout(run)

# %%
# A forecast
# ----------
# A forecast starts from one state, at any parameter; no truth is needed.

forecast = romkit.forecast(
    model, dynamics=law, initial_state=held_out.state.values[0, 0], duration=40, dt=0.2, epsilon=0.075
)
picture = Figure(figsize=(6, 2.6), layout="constrained")
axis = picture.subplots()
image = axis.pcolormesh(forecast.time, np.arange(CELLS), forecast.state.values[:, :CELLS].T)
axis.set(xlabel="time", ylabel="cell", title="epsilon = 0.075")
picture.colorbar(image, label="voltage")
