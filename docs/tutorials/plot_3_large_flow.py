"""A large flow
============

A system of many thousand unknowns is reduced in two steps: first to coordinates in a basis of modes, then by a
nonlinear projection of these coordinates. A step of the reduced model then costs the same for every size of the full
model. In the example a front crosses a square; the speed of the inflow and the growth of the source are the context.
"""

import numpy as np
from matplotlib.figure import Figure

import romkit

CELLS = 100
system = romkit.systems.Burgers2D(cells=CELLS)
print(f"{system.state_size} unknowns")

# %%
# Data over the range of the context
# ----------------------------------
# The state has two velocities at every cell. Nine runs are sampled every half time unit.

inflow, growth = (
    values.ravel() for values in np.meshgrid([4.25, 4.875, 5.5], [0.015, 0.0225, 0.03])
)
data = romkit.simulate(system, mu1=inflow, mu2=growth, duration=25, dt=0.5)
print(dict(data.sizes))

# %%
# A basis
# -------
# The figure shows the share of the energy that is left out by the first modes. A front needs many modes, since its
# singular values fall slowly.

basis = romkit.basis(data, rank=40)
print(basis)

figure = Figure(figsize=(4.5, 2.6), layout="constrained")
axis = figure.subplots()
axis.semilogy(1 - basis.energy.numpy(), "o-", ms=3)
axis.set(xlabel="modes", ylabel="energy left out")

# %%
# The system in its coordinates
# -----------------------------
# Burgers' equation is a polynomial of the state, and so it is a polynomial of the coordinates: `through` projects it
# exactly, once. The result is a system of 40 components, the POD-Galerkin model.

small = system.through(basis)
pod = romkit.fit("pod", data, basis=basis, latent_dim=40)
context = {"mu1": 4.56, "mu2": 0.019}  # in no run above
run = romkit.rollout(system, pod, duration=25, dt=0.5, **context)
print(
    f"POD-Galerkin: error {float(run.nrmse.median()):.3f}, of the projection {float(run.nrmse_projected.median()):.3f}"
)

# %%
# What it saves
# -------------
# Runs record the cost of both models. A run at one context is too short to be compiled, and much of its time is
# decoding. Runs at many contexts are compiled; their cost does not depend on the grid, and that of the full model grows
# with it.

full, reduced = (run.attrs[f"seconds_computing_{model}_model"] for model in ("full", "reduced"))
alone = romkit.simulate(small, duration=25, dt=0.5, engine="compiled", **context).attrs
print(f"full model {full:.3f} s, reduced model {reduced:.3f} s")
print(
    f"in its coordinates {alone['seconds_computing']:.4f} s, after {alone['seconds_compiling']:.1f} s of compiling"
)

u = [run[name].values.reshape(len(run.time), 2, CELLS, CELLS)[:, 0] for name in ("truth", "rom")]
front = Figure(figsize=(7, 2.6), layout="constrained")
axes = front.subplots(1, 3, sharey=True)
last = len(run.time) - 1
for axis, field, title in zip(
    axes, (u[0], u[1], u[1] - u[0]), ("full", "reduced", "difference"), strict=True
):
    limits = (
        {"vmin": 1, "vmax": 6}
        if title != "difference"
        else {"vmin": -1, "vmax": 1, "cmap": "RdBu_r"}
    )
    image = axis.imshow(field[last], origin="lower", extent=(0, 100, 0, 100), **limits)
    axis.set(title=title, xlabel="x")
    front.colorbar(image, ax=axis, shrink=0.8)
axes[0].set_ylabel("y")

# %%
# Fewer latents than modes
# ------------------------
# A network reduces the 40 coordinates in the basis to five. The cost of its training does not depend on the grid.

ncae = romkit.fit("ncae", data, basis=basis, latent_dim=5, epochs=300)
flat = romkit.fit("pod", data, basis=basis, latent_dim=5)
for projection in (ncae, flat):
    bent = romkit.rollout(system, projection, duration=25, dt=0.5, **context)
    errors = [float(error.median()) for error in (bent.nrmse_projected, bent.nrmse)]
    print(f"{projection.name}: projection {errors[0]:.3f}, rollout {errors[1]:.3f}")
