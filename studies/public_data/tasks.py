"""A field with land that eofs ships: its modes, and variance of held-out winters, beside those of
eofs.
"""

import importlib.resources
from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

import romkit
from studies.runner import Numbers, Study

METHODS = {
    "pod": ("pod", {}),
    "quadratic-manifold": ("polynomial-manifold", {"degree": 2, "context_degree": 0}),
    "cae": ("cae", {}),
}
"""Name and settings by the label in the table."""


def tasks(preset: str) -> list[Numbers]:
    """Return the one task of a preset."""
    return [Numbers.of("winters", winters, **Study("public_data").presets[preset]["winters"])]


def winters(modes: Sequence[int], folds: int, epochs: int) -> dict[str, object]:
    """Variance of held-out winters that so many latents explain, in %, for eofs and romkit;
    distance of the modes.
    """
    from eofs.xarray import Eof

    sst = xr.open_dataset(
        importlib.resources.files("eofs") / "examples/example_data/sst_ndjfm_anom.nc"
    )["sst"]
    area = np.cos(np.deg2rad(sst["latitude"])).broadcast_like(sst[0])
    data = romkit.data.describe(sst)
    (cells,) = (variable.cells for variable in romkit.data.layout_of(data).variables)
    weight, x = area.values.ravel()[cells], data["state"].values[0]

    theirs = Eof(sst, weights=np.sqrt(area).values)
    basis = romkit.basis(data, rank=max(modes), weight=weight)
    scores = theirs.pcs(npcs=max(modes)).values
    ours = basis.encode(torch.from_numpy(x)).numpy()
    apart = np.abs(ours * np.sign((ours * scores).sum(0)) - scores).max() / np.abs(scores).max()

    left = {name: np.zeros(len(modes)) for name in ("eofs", *METHODS)}
    total = 0.0
    for held in np.array_split(np.arange(len(x)), folds):
        seen = np.setdiff1d(np.arange(len(x)), held)
        mean = x[seen].mean(0)
        total += (weight * (x[held] - mean) ** 2).sum()
        solver = Eof(sst[seen], weights=np.sqrt(area).values)
        full = romkit.basis(data.isel(time=seen), rank=len(seen) // 2, weight=weight)
        for k, m in enumerate(modes):
            scores = solver.projectField(
                sst[held] - sst[seen].mean("time"), neofs=m, eofscaling=0
            ).values
            eofs = solver.eofs(neofs=m).values.reshape(m, -1)[:, cells]
            images = {"eofs": mean + scores @ eofs / np.sqrt(weight)}
            for method in METHODS:
                name, own = METHODS[method]
                settings = {"basis": full} | ({"epochs": epochs} if method == "cae" else own)
                reducer = romkit.ProjectionTransformer(name, latent_dim=m, settings=settings)
                reducer.fit(x[seen])
                images[method] = reducer.inverse_transform(reducer.transform(x[held]))
            for method, image in images.items():
                left[method][k] += (weight * (x[held] - image) ** 2).sum()
    explained = {method: (100 * (1 - each / total)).tolist() for method, each in left.items()}
    fractions = (100 * theirs.varianceFraction(max(modes)).values).tolist()
    return {
        "explained": explained,
        "modes": modes,
        "distance of scores": apart,
        "all winters": fractions,
    }
