"""A field from somebody else
==========================

Winters of the Pacific: the package eofs ships anomalies of the sea surface temperature, with land. romkit takes the
field as it is and returns it in its own dimensions, and its modes are those of eofs. ``studies/public_data`` has the
whole comparison.
"""

import importlib.resources

import numpy as np
import torch
import xarray as xr
from eofs.xarray import Eof
from matplotlib.figure import Figure

import romkit

# %%
# The field
# ---------
# One run of 50 winters without a parameter. Cells that are always NaN are land, and no part of the state.

sst = xr.open_dataset(importlib.resources.files("eofs") / "examples/example_data/sst_ndjfm_anom.nc")["sst"]
data = romkit.data.describe(sst)

# %%
# Modes, weighted by area
# -----------------------
# A basis takes the weight of each cell of the state. Its modes and scores are those of eofs, up to signs.

area = np.cos(np.deg2rad(sst.latitude)).broadcast_like(sst[0])
(variable,) = romkit.data.layout_of(data).variables
basis = romkit.basis(data, rank=20, weight=area.values.ravel()[variable.cells])

solver = Eof(sst, weights=np.sqrt(area).values)
theirs = solver.pcs(npcs=2).values
ours = basis.encode(torch.from_numpy(data.state.values[0])).numpy()[:, :2]
apart = np.abs(np.abs(ours) - np.abs(theirs)).max() / np.abs(theirs).max()
print(f"scores differ by at most {apart:.0e} of the largest one")

# %%
# One latent
# ----------
# POD has one pattern; a quadratic manifold adds a second one, multiplied by the square of the latent, so that a strong
# El Niño is not a weak one times a factor. Both projections work on the 20 coordinates of the basis.

methods = {name: romkit.fit(name, data, basis=basis, latent_dim=1) for name in ("pod", "quadratic-manifold")}
images = {name: projection()(sst) for name, projection in methods.items()}
for name, image in images.items():
    left = ((image - sst) ** 2).weighted(area).sum() / ((sst - sst.mean("time")) ** 2).weighted(area).sum()
    print(f"{name}: {100 * (1 - float(left)):.1f} % of the variance of all winters")

# %%
# Back in the dimensions of the field
# -----------------------------------
# An image has latitude, longitude and time again, and land is NaN.

winter = int(np.abs(theirs[:, 0]).argmax())
figure = Figure(figsize=(8, 2.2), layout="constrained")
for axis, (name, field) in zip(figure.subplots(1, 3, sharey=True), {"eofs' field": sst, **images}.items(), strict=True):
    values = field.isel(time=winter).transpose("latitude", "longitude")
    mesh = axis.pcolormesh(sst.longitude, sst.latitude, values, vmin=-3, vmax=3, cmap="RdBu_r")
    axis.set(title=f"{name}, {str(sst.time.values[winter])[:4]}", xlabel="longitude, degrees east")
figure.axes[0].set_ylabel("latitude, degrees north")
figure.colorbar(mesh, ax=figure.axes, label="anomaly, K")
