"""Many seeds at once
==================

`seeds=` trains a model for each seed, all at once. Results of such a stack have a leading dimension `seed`.
"""

import romkit
from romkit.plotting import plot_rollout

system = romkit.systems.Lorenz96()
data = system.dataset("train", seed=0)
stack = romkit.fit("ncae", data, seeds=range(5), epochs=10)
run = romkit.rollout(system, stack, F=3.15, duration=10)
print(run.nrmse.dims, run.valid_time.values)
figure = plot_rollout(run)
