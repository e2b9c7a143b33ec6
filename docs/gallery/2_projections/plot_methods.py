"""Methods side by side
====================

Projection errors of five methods against the context. Each network is trained for 20 epochs, a few seconds: errors of
methods that are trained to the end are in :doc:`the study of exactness </measured/studies/exactness/README>`.
"""

import numpy as np
import torch
from matplotlib.figure import Figure

import romkit

system = romkit.systems.Lorenz96()
train = system.dataset("train", seed=0)
test = romkit.simulate(system, F=np.linspace(3.13, 3.19, 13), duration=10, dt=0.1)
states = torch.tensor(test.state.values, dtype=torch.float32)

figure = Figure(figsize=(6, 3), layout="constrained")
axis = figure.subplots()
for method in ("pod", "ae", "cae", "film-ae", "ncae"):
    model = romkit.fit(method, train, epochs=20, **({"latent_dim": 2} if method == "pod" else {}))
    with torch.no_grad():
        error = (model(F=test.F.values)(states) - states).square().mean((1, 2)).sqrt()
    axis.semilogy(test.F, error, "o-", ms=3, label=method)
axis.set(xlabel="F", ylabel="RMSE of P(x)")
figure.legend(loc="outside right upper", fontsize=8)
