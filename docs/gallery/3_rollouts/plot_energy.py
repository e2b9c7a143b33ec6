"""Energy of a reduced pendulum
============================

The full model keeps its energy. How far does the energy of the reduced model drift?
"""

import torch
from matplotlib.figure import Figure

import romkit

system = romkit.systems.Pendulum()
ncae = romkit.load("ncae-pendulum")
lengths = {"l1": 0.5, "l2": 0.6, "l3": 0.5, "l4": 0.7}
truth = romkit.simulate(system, **lengths, duration=5)
reduced = romkit.follow(ncae, truth, system=system)

energy_of = system.energy(**lengths)
figure = Figure(figsize=(5, 2.8), layout="constrained")
axis = figure.subplots()
for name, run in (("full model", truth), ("reduced model", reduced)):
    q, v = (torch.tensor(run[part].values[0]) for part in ("state", "velocity"))
    energy = energy_of(q, v)
    axis.plot(run.time, energy - energy[0], label=name)
axis.set(xlabel="time in s", ylabel="E(t) - E(0) in J")
axis.legend()
