"""Discovering an equation
=======================

Position and velocity of van der Pol's oscillator are measured at five dampings. Sparse regression finds the equation, with
the damping in it. The projection is the identity, so that the equation is one of the measured variables.
"""

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

import romkit
from romkit.laws import SINDy
from romkit.plotting import plot_phase, plot_rollout

time = np.linspace(0, 20, 401)


def measured(dampings):
    paths = []
    for mu in dampings:
        rate = lambda t, s, mu=mu: [s[1], mu * (1 - s[0] ** 2) * s[1] - s[0]]  # noqa: E731
        paths.append(solve_ivp(rate, (0, 20), [0.5, 0.0], t_eval=time, rtol=1e-8).y)
    x, v = np.swapaxes(paths, 0, 1)  # (run, time) each
    data = xr.Dataset({"x": (("run", "time"), x), "v": (("run", "time"), v)})
    data = data.assign_coords(time=time, mu=("run", dampings))
    return romkit.data.describe(data, context=["mu"])


data = measured([0.5, 0.8, 1.1, 1.4, 1.7])
identity = romkit.fit("identity", data)
law = SINDy(degree=3, threshold=0.05).fit(identity, data)
print(*law.formulas(), sep="\n")

# %%
# The equation at two dampings that were not measured.

run = romkit.rollout(measured([0.95, 1.6]), identity, dynamics=law)
figure = plot_rollout(run)

# %%
# All five limit cycles, by the equation.

cycles = romkit.rollout(data, identity, dynamics=law)
portrait = plot_phase(cycles, "x", "v", variable="rom", colour="mu")
