"""The context of a state
======================

The residual of the projection is smallest at the context that a state belongs to. Here the link lengths of a pendulum
are found from its angles alone.
"""

import numpy as np
import torch
from matplotlib.figure import Figure

import romkit

system = romkit.systems.Pendulum()
ncae = romkit.load("ncae-pendulum")
true = {"l1": 0.5, "l2": 0.55, "l3": 0.6, "l4": 0.7}
states = torch.tensor(
    romkit.simulate(system, **true, duration=2).state.values[0, ::20], dtype=torch.float32
)

figure = Figure(figsize=(7, 2.4), layout="constrained")
for axis, name in zip(figure.subplots(1, 4, sharey=True), true, strict=True):
    tried = np.linspace(0.4, 0.8, 41)
    with torch.no_grad():
        P = ncae(**true | {name: tried})
        residual = (P(states.expand(len(tried), -1, -1)) - states).square().mean((1, 2)).sqrt()
    axis.semilogy(tried, residual)
    axis.axvline(true[name], color="0.6", lw=0.8)
    axis.set(xlabel=f"{name} in m")
figure.axes[0].set_ylabel("residual in rad")
