"""Bifurcations
============

When the context passes a critical value, the long-time motion changes. A reduced model can find this value. In the
example it is the forcing at which the wave of Lorenz96 changes its number of crests, computed by the full and the
reduced model.
"""

import numpy as np
from matplotlib.figure import Figure

import romkit

system = romkit.systems.Lorenz96()
ncae = romkit.load("ncae-lorenz96")
F = np.linspace(3.13, 3.19, 31)
truth = romkit.simulate(system, F=F, duration=20, dt=0.05)
reduced = romkit.follow(ncae, truth, system=system)

# %%
# Crests and frequency
# --------------------
# The strongest Fourier mode along the ring is the number of crests; the strongest one in time is the frequency.


def crests(states):
    return np.abs(np.fft.rfft(states, axis=-1)).mean(1)[:, 1:].argmax(-1) + 1


def frequency(states, dt=0.05):
    signal = states[..., 0] - states[..., 0].mean(1, keepdims=True)
    power = np.abs(
        np.fft.rfft(signal * np.hanning(signal.shape[1]), axis=1, n=16 * signal.shape[1])
    )
    return power.argmax(1) / (16 * signal.shape[1] * dt)


figure = Figure(figsize=(5, 4), layout="constrained")
above, below = figure.subplots(2, 1, sharex=True)
for name, run, style in (("full model", truth, "o"), ("reduced model", reduced, "x")):
    states = run.state.values
    above.plot(F, crests(states), style, label=name)
    below.plot(F, frequency(states), style)
above.set_ylabel("crests")
above.legend()
below.set(xlabel="F", ylabel="frequency, 1 / time unit")
