"""A pendulum of four links
========================

MuJoCo simulates sixteen angles; the reduced model has four latent coordinates. The link lengths, the context, can be
changed.
"""

import romkit
from romkit.plotting import plot_rollout

system = romkit.systems.Pendulum()
ncae = romkit.load("ncae-pendulum")
run = romkit.rollout(system, ncae, l1=0.5, l2=0.6, l3=0.5, l4=0.7, duration=2, dt=0.005)
figure = plot_rollout(run)
