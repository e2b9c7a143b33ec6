"""The context of noisy observations
===================================

Twelve of the 36 components of Lorenz96 are observed for two time units, with noise. `romkit.infer` estimates the
forcing; its intervals include the error of the reduced model.
"""

import numpy as np
from matplotlib.figure import Figure

import romkit

system, flow = romkit.systems.Lorenz96(), romkit.load("flow-lorenz96")
rng = np.random.default_rng(0)


def windows(forcings, duration):
    return system.dataset(F=forcings, duration=duration).isel(time=slice(None, None, 5))


known = windows(rng.uniform(3.133, 3.193, 40), duration=10)
truth = np.sort(rng.uniform(3.133, 3.193, 20))
seen = windows(truth, duration=2)[["state"]].drop_vars("F")
seen = seen + 0.075 * rng.standard_normal(seen.state.shape)

model = {
    "dynamics": romkit.integrators.PetrovGalerkin(),
    "system": system,
    "sensors": range(0, 36, 3),
    "noise": 0.075,
}
found = romkit.infer(flow, seen, training=known, **model)

figure = Figure(figsize=(5, 3), layout="constrained")
axis = figure.subplots()
estimate, lower, upper = (found[name].values[:, 0] for name in ("estimate", "lower", "upper"))
axis.errorbar(truth, estimate, yerr=[estimate - lower, upper - estimate], fmt="o", ms=3, lw=0.8)
axis.plot(truth, truth, color="0.6", lw=0.8)
axis.set(xlabel="true F", ylabel="estimate of F, with 90 % interval")
