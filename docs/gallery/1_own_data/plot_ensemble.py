"""Error bars of a forecast
========================

Six noisy sensors measure van der Pol's oscillator at several dampings. Twenty equations are fitted, each to
trajectories that are drawn with replacement. The spread of their forecasts gives an interval. Trajectories that were
used in no fit show how often the truth lies in the interval.
"""

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

import romkit
from romkit.laws import SINDy
from romkit.plotting import plot_calibration, plot_forecast

times = np.linspace(0, 8, 81)


def sensors(dampings, seed):
    rng, mix = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(2, 6))
    starts = rng.uniform(-2, 2, (len(dampings), 2))
    paths = [
        solve_ivp(
            lambda t, y, mu=mu: [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]],
            (0, 8),
            start,
            t_eval=times,
        ).y.T
        for mu, start in zip(dampings, starts, strict=True)
    ]
    state = np.stack(paths) @ mix
    state += 0.02 * state.std() * rng.normal(size=state.shape)
    data = xr.Dataset({"state": (("trajectory", "time", "component"), state)})
    data = data.assign_coords(time=times, mu=("trajectory", np.asarray(dampings)))
    return romkit.data.with_velocity(romkit.data.describe(data, context=["mu"]))


train, unseen = (
    sensors(np.linspace(0.4, 1.2, 16), seed=1),
    sensors(np.linspace(0.43, 1.17, 12), seed=2),
)
projection = romkit.fit("pod", train, latent_dim=2)
ensemble = romkit.bootstrap(projection, SINDy(degree=3, threshold=0.02), train, members=20)

band = ensemble.follow(unseen)
figure = plot_forecast(
    band.isel(trajectory=[2, 5]), unseen.isel(trajectory=[2, 5]), components=["x0", "x3"]
)

# %%
# About 90 % of the intervals of 90 % should contain the truth.

figure = plot_calibration(ensemble.reliability(unseen))

# %%
# A forecast at a damping that was not measured, with its interval.

forecast = ensemble.forecast(initial_state=unseen.state.values[0, 0], duration=8, dt=0.1, mu=0.8)
picture = plot_forecast(forecast, components=["x0", "x3"])
