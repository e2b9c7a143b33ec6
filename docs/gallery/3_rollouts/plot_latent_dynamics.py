"""Galerkin, Petrov-Galerkin, LSPG
===============================

Three latent dynamics that follow from the equations of the system, without training, from the same initial state.
"""

from matplotlib.figure import Figure

import romkit
from romkit.integrators import LSPG, Galerkin, PetrovGalerkin

system = romkit.systems.Lorenz96()
ncae = romkit.load("ncae-lorenz96")
truth = romkit.simulate(system, F=3.15, duration=20, dt=0.05)

figure = Figure(figsize=(6.5, 3), layout="constrained")
axis = figure.subplots()
for dynamics in (Galerkin(), PetrovGalerkin(), LSPG(dt=0.05)):
    errors = romkit.score(truth, romkit.follow(ncae, truth, dynamics=dynamics, system=system))
    axis.semilogy(errors.time, errors.nrmse.squeeze(), label=type(dynamics).__name__)
axis.axhline(0.5, color="0.5", ls="--", lw=0.8, label="valid up to 0.5")
axis.set(xlabel="time", ylabel="NRMSE", ylim=(1e-3, 3))
figure.legend(loc="outside right upper", fontsize=8)
