"""Exact at every context
======================

The NcAE satisfies P(P(x)) = P(x) by construction, at contexts far outside the training range too. An ordinary
autoencoder of the same sizes, trained for 100 epochs, does not.
"""

import numpy as np
import torch
from matplotlib.figure import Figure

import romkit

system = romkit.systems.Lorenz96()
data = system.dataset("train", seed=0)
models = {"NcAE": romkit.load("ncae-lorenz96"), "AE": romkit.fit("ae", data, epochs=100)}

F = np.linspace(2.0, 5.0, 61)
states = torch.tensor(data.state.values[0, ::20])  # (time, component), from the training set
figure = Figure(figsize=(5, 3), layout="constrained")
axis = figure.subplots()
for name, model in models.items():
    P = model.double()(F=F)
    with torch.no_grad():
        once = P(states.expand(len(F), -1, -1))
        apart = (P(once) - once).norm(dim=-1).amax(-1)
    axis.semilogy(F, apart, label=name)
axis.axvspan(system.context[0].low, system.context[0].high, color="0.9", label="training range")
axis.set(xlabel="F", ylabel="largest ‖P(P(x)) - P(x)‖")
axis.legend()
