"""A field from somebody else
==========================

The package eofs ships anomalies of the sea surface temperature of the Pacific in winter, in which cells on land are
NaN. romkit takes the field as it is and returns results in the field's own dimensions. Its modes are those of eofs;
``studies/public_data`` has the whole comparison.
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
# The data are one run of 50 winters, without a parameter. Cells that are always NaN are land, and are left out of the
# state.

sst = xr.open_dataset(
    importlib.resources.files("eofs") / "examples/example_data/sst_ndjfm_anom.nc"
)["sst"]
data = romkit.data.describe(sst)

# %%
# Modes, weighted by area
# -----------------------
# `weight` is the area of each cell of the state. The modes and scores of the basis are then those of eofs, up to signs.

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
# POD has one pattern; a polynomial manifold adds further ones, multiplied by powers of the latent, so that a strong
# El Niño is not a weak one times a factor. Both projections work on the 20 coordinates of the basis.

methods = {
    name: romkit.fit(name, data, basis=basis, latent_dim=1)
    for name in ("pod", "polynomial-manifold")
}
images = {name: projection()(sst) for name, projection in methods.items()}
for name, image in images.items():
    left = ((image - sst) ** 2).weighted(area).sum() / ((sst - sst.mean("time")) ** 2).weighted(
        area
    ).sum()
    print(f"{name}: {100 * (1 - float(left)):.1f} % of the variance of all winters")

# %%
# Back in the dimensions of the field
# -----------------------------------
# A projected field has latitude, longitude and time again, and is NaN on land.

winter = int(np.abs(theirs[:, 0]).argmax())
figure = Figure(figsize=(8, 2.2), layout="constrained")
for axis, (name, field) in zip(
    figure.subplots(1, 3, sharey=True), {"eofs' field": sst, **images}.items(), strict=True
):
    values = field.isel(time=winter).transpose("latitude", "longitude")
    mesh = axis.pcolormesh(sst.longitude, sst.latitude, values, vmin=-3, vmax=3, cmap="RdBu_r")
    axis.set(title=f"{name}, {str(sst.time.values[winter])[:4]}", xlabel="longitude, degrees east")
figure.axes[0].set_ylabel("latitude, degrees north")
figure.colorbar(mesh, ax=figure.axes, label="anomaly, K")
