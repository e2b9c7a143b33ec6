"""How long a reduced model can be trusted
=======================================

Valid time against the context, from 41 rollouts that are computed together. The valid time is short near the forcing at
which the number of crests changes.
"""

import numpy as np
from matplotlib.figure import Figure

import romkit

system = romkit.systems.Lorenz96()
ncae = romkit.load("ncae-lorenz96")
run = romkit.rollout(system, ncae, F=np.linspace(3.13, 3.19, 41), duration=50, dt=0.02)

figure = Figure(figsize=(5, 2.8), layout="constrained")
axis = figure.subplots()
axis.plot(run.F, run.valid_time, "o-", ms=3)
axis.set(xlabel="F", ylabel="valid time", ylim=(0, None))
