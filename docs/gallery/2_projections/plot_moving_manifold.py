"""The manifold moves with the context
===================================

The image of the decoder is a manifold, another one at each context. The figure shows the leading principal components
of this manifold at five values of F. The first four waves have eight crests, and their manifolds lie close together;
at F = 3.17 the wave has seven crests, and the manifold has turned into other directions.
"""

import torch
from matplotlib.figure import Figure

import romkit

ncae = romkit.load("ncae-lorenz96")
system = romkit.systems.Lorenz96()
F = [3.13, 3.14, 3.15, 3.16, 3.17]
states = torch.tensor(romkit.simulate(system, F=F, duration=8).state.values, dtype=torch.float32)

with torch.no_grad():
    P = ncae(F=F)
    decoded = P.decode(P.encode(states))  # (context, time, component)
_, _, directions = torch.linalg.svd(
    decoded.flatten(0, 1) - decoded.mean((0, 1)), full_matrices=False
)
leading = (decoded - decoded.mean((0, 1))) @ directions[:3].T

figure = Figure(figsize=(6, 4.5), layout="constrained")
axis = figure.add_subplot(projection="3d")
for number, (value, orbit) in enumerate(zip(F, leading, strict=True)):
    # curves that lie on each other are told apart by their width
    axis.plot(*orbit.T, label=f"F = {value}", linewidth=5 - number)
axis.set(xlabel="component 1", ylabel="component 2", zlabel="component 3")
ticks = [-8, 0, 8]
axis.set(xticks=ticks, yticks=ticks, zticks=ticks)
figure.legend(loc="outside right upper", fontsize=8)
