"""A projection of coordinates in a basis
======================================

A basis of r modes replaces the n components of a state by r coordinates. A projection that is trained on these
coordinates costs as much as one for r components, in training and in rollouts, and is still exact.
"""

import numpy as np
from matplotlib.figure import Figure

import romkit

system = romkit.systems.Lorenz96()
data = system.dataset("train", seed=0)
ranks = (4, 6, 8, 12, 16, 24, 36)
bases = [romkit.basis(data, rank=rank) for rank in ranks]

figure = Figure(figsize=(5, 2.8), layout="constrained")
axis = figure.subplots()
values = bases[-1].singular_values.numpy()
axis.semilogy(np.arange(1, len(values) + 1), values / values[0], "o-", ms=3)
axis.set(xlabel="mode", ylabel="singular value, relative")

# %%
# The same model, trained on the coordinates in a basis of twelve modes:

behind = romkit.fit("ncae", data, basis=bases[3], latent_dim=2, epochs=200)
run = romkit.rollout(system, behind, F=3.15, duration=5)
print(f"error after 5 time units: {float(run.nrmse[-1]):.3f}")
