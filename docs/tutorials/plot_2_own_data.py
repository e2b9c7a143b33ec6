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
from romkit.laws import Steady

# %%
# A measurement
# -------------

CELLS, EPSILON = 64, np.linspace(0.05, 0.09, 9)
time = np.linspace(0.0, 40.0, 201)


def measure(epsilon):
    """Voltages and recoveries (time, 2, cells) of a pulse that goes round."""

    def rate(t, y):
        v, w = y.reshape(2, CELLS)
        diffusion = np.roll(v, 1) - 2 * v + np.roll(v, -1)
        return np.concatenate([v - v**3 / 3 - w + 1.2 * diffusion, epsilon * (v + 0.7 - 0.8 * w)])

    place = np.arange(CELLS)
    start = np.concatenate([np.where(place < 8, 2.0, -1.2), np.where((place > 40), 0.4, -0.6)])
    settled = solve_ivp(rate, (0, 80), start, rtol=1e-6).y[:, -1]
    return solve_ivp(rate, (0, 40), settled, t_eval=time, rtol=1e-6).y.T.reshape(-1, 2, CELLS)


runs, dims = np.stack([measure(epsilon) for epsilon in EPSILON]), ("run", "time", "cell")
measured = xr.Dataset(
    {"voltage": (dims, runs[:, :, 0]), "recovery": (dims, runs[:, :, 1])},
    coords={"time": time, "epsilon": ("run", EPSILON)},
)

# %%
# `describe` reads datasets of any names and dimensions, from `xarray.open_dataset` for example, and prints how it read
# them. `context` names the parameters in which the runs differ, and `time="instant"` a time that is not called time or
# t; a force u(t) would be an input, `control=["force"]`. `with_velocity` estimates velocities once, which every fit and
# law would do again.

data = romkit.data.with_velocity(romkit.data.describe(measured, context=["epsilon"]))

# %%
# A projection and a law
# ----------------------
# One trajectory is held out: its parameter is never seen in training. The manifold is fitted by least squares;
# `romkit.law` fits polynomial laws to whole trajectories, and returns the one with the best forecasts. `romkit.learn`
# takes all these steps in one call.

held_out, train = data.isel(trajectory=[4]), data.drop_isel(trajectory=4)
model = romkit.fit("polynomial-manifold", train, latent_dim=3)
law = romkit.law(model, train)
for tried in law.report:  # the best first
    print(
        f"{tried['settings']}: error {tried['error']:.2g} on left-out runs, {tried['seconds']:.1f} s"
    )

# %%
# How good is it?
# ---------------

run = romkit.rollout(held_out, model, dynamics=law)
print(
    f"median error: projection {float(run.nrmse_projected.median()):.3f}, forecast {float(run.nrmse.median()):.3f}"
)
figure = romkit.plotting.plot_rollout(run)

# %%
# A forecast
# ----------
# A forecast starts from one state, at any parameter; no truth is needed. It has the variables of the data.

start = measured.isel(run=4, time=0)
forecast = romkit.forecast(
    model, dynamics=law, initial_state=start, duration=40, dt=0.2, epsilon=0.075
)
picture = Figure(figsize=(6, 2.6), layout="constrained")
axis = picture.subplots()
image = axis.pcolormesh(forecast.time, np.arange(CELLS), forecast.voltage.T)
axis.set(xlabel="time", ylabel="cell", title="epsilon = 0.075")
picture.colorbar(image, label="voltage")

# %%
# Waves that travel
# -----------------
# This pulse keeps its shape and travels round the ring. With the shifts of the ring factored out, one latent coordinate
# holds the shape and another one the phase; `Steady` is the law of a wave that only travels.

wave = romkit.fit("ncae", train, latent_dim=1, epochs=20, symmetry="shift")
travelling = romkit.rollout(held_out, wave, dynamics=Steady().fit(wave, train))
print(f"median error of the forecast {float(travelling.nrmse.median()):.3f}")
