"""Kuramoto-Sivashinsky on rings of different length
=================================================

The length of the ring is the context. As it changes, the motion is a steady wave, a travelling wave, an oscillation, or
chaos.
"""

from matplotlib.figure import Figure

import romkit

system = romkit.systems.KuramotoSivashinsky()
lengths = (10.0, 13.0, 18.0, 22.0)
truth = romkit.simulate(system, L=list(lengths), duration=60)

figure = Figure(figsize=(8, 2.8), layout="constrained")
for axis, one, L in zip(figure.subplots(1, 4, sharey=True), truth.state, lengths, strict=True):
    image = axis.pcolormesh(
        range(system.state_size), truth.time, one, cmap="RdBu_r", vmin=-3, vmax=3
    )
    axis.set(title=f"L = {L:g}", xlabel="grid point")
figure.axes[0].set_ylabel("time")
figure.colorbar(image, ax=figure.axes, label="u")

# %%
# Eight latents
# -------------
# The shipped model covers all of these lengths. Where the motion is chaotic, the rollout separates from the truth, as
# any two trajectories of nearby states do.

flow = romkit.load("flow-kuramoto-sivashinsky")
run = romkit.rollout(system, flow, L=list(lengths), duration=60)
print(run.valid_time.to_series())
both = romkit.plotting.plot_rollout(run.isel(trajectory=2))
