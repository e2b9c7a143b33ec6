"""Kuramoto-Sivashinsky on rings of different length
=================================================

The length of the ring is the context: a steady wave, a travelling one, an oscillation, chaos.
"""

from matplotlib.figure import Figure

import romkit

system = romkit.systems.KuramotoSivashinsky()
lengths = (10.0, 13.0, 18.0, 22.0)
truth = romkit.simulate(system, L=list(lengths), duration=60)

figure = Figure(figsize=(8, 2.8), layout="constrained")
for axis, one, L in zip(figure.subplots(1, 4, sharey=True), truth.state, lengths, strict=True):
    image = axis.pcolormesh(range(system.state_size), truth.time, one, cmap="RdBu_r", vmin=-3, vmax=3)
    axis.set(title=f"L = {L:g}", xlabel="grid point")
figure.axes[0].set_ylabel("time")
figure.colorbar(image, ax=figure.axes)

# %%
# Eight latents
# -------------
# The model that ships follows all of these. Where the motion is chaotic it leaves the truth, as any two runs do.

flow = romkit.load("flow-kuramoto-sivashinsky")
run = romkit.rollout(system, flow, L=list(lengths), duration=60)
print(run.valid_time.to_series())
both = romkit.plotting.plot_rollout(run.isel(trajectory=2))
