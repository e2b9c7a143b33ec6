"""A training that watches itself
==============================

`validation=` holds trajectories out by context; the parameters that are kept are the best ones there.
"""

import romkit
from romkit.plotting import plot_training

data = romkit.systems.Lorenz96().dataset("train", seed=0)
model = romkit.fit("ncae", data, seeds=range(3), validation=0.25, epochs=40)
figure = plot_training(model)
