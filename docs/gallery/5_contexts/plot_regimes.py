"""Branches of a reduced model over those of the full one
=========================================================

Near F = 3.163 the wave number of the travelling wave of Lorenz96 changes from 8 to 7. `romkit.continuation` follows the
waves of the reduced model, from there to both sides. `romkit.verify` computes the waves of the full model by Newton's
method, which starts from decoded states. The figure compares the periods of both models.
"""

import torch

import romkit
from romkit.integrators import Galerkin
from romkit.plotting import plot_branches

system, ncae = romkit.systems.Lorenz96(), romkit.load("ncae-lorenz96")
model = {"dynamics": Galerkin(), "system": system}
shown = []
for first, last, period in ((3.155, 3.133, 3.09), (3.17, 3.193, 2.55)):
    wave = system.start(torch.tensor([[first]], dtype=torch.float64))[0][0]
    run = romkit.forecast(ncae, initial_state=wave, duration=30, dt=0.01, F=first, **model)
    start = {"kind": "orbits", "start": run.latent.values[-1], "period": period}
    branch = romkit.continuation(ncae, **start, points=12, steps=100, F=(first, last), **model)
    shown += [branch, romkit.verify(branch, system, every=4)]
figure = plot_branches(
    *shown, labels=["wave number 8", "full model", "wave number 7", "full model"]
)
