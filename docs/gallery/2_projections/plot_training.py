"""Training with held-out data
===========================

`validation=` holds out the trajectories of some contexts. Training returns the parameters with the smallest loss on
these trajectories.
"""

import romkit
from romkit.plotting import plot_training

data = romkit.systems.Lorenz96().dataset("train", seed=0)
model = romkit.fit("ncae", data, seeds=range(3), validation=0.25, epochs=40)
figure = plot_training(model)
