"""A context that changes in time
==============================

For first-order systems the context may be a function of time. The manifold then changes while the
latent state moves, and all latent dynamics take this into account.
"""

from matplotlib.figure import Figure

import romkit

system = romkit.systems.Lorenz96()
ncae = romkit.load("ncae-lorenz96")
run = romkit.rollout(system, ncae, F=lambda t: 3.14 + 0.004 * t, duration=8, dt=0.05)

figure = Figure(figsize=(5, 3.6), layout="constrained")
above, below = figure.subplots(2, 1, sharex=True)
above.plot(run.time, run.F)
above.set_ylabel("F")
below.semilogy(run.time, run.nrmse, label="reduced model")
below.semilogy(run.time, run.nrmse_projected, label="projection alone")
below.set(xlabel="time", ylabel="NRMSE")
below.legend()
