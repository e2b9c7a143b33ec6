"""Judges that compare decoded states, so that errors compare across latent dimensions."""

import copy
import functools

import torch
import xarray as xr
from torch import Tensor

from romkit.core import tensors
from romkit.laws.judge import Judge
from romkit.laws.samples import LatentSamples
from romkit.laws.sources import Encoder, ProjectionFamily
from romkit.projections.frame import scale_groups
from romkit.projections.operator import Operator

COMPONENTS = 2048
"""Most state components by which forecasts are judged, evenly out of all."""


def make_judge(
    projection: ProjectionFamily, data: xr.Dataset, samples: LatentSamples, *, kept: int = 8
) -> Judge:
    """Judge of states of a dataset, each in the deviation of the components of its unit, whose
    latents the samples are.

    `kept`: decoders at contexts of runs that are kept: those of whole runs, and of their
    segments.
    """
    encoder = Encoder.match(projection, data)
    x = encoder.variable("state").double()  # (..., C, T, n)
    chosen = tensors.evenly(x.shape[-1], COMPONENTS)
    x = x[..., chosen]
    group = torch.from_numpy(scale_groups(encoder.data))[chosen]
    mean = x.nanmean((-3, -2), keepdim=True)
    deviation = _deviation(x - mean, group)
    family = copy.deepcopy(projection).double()

    @functools.lru_cache(kept)
    def operator(rows: tuple[int, ...], first: int, end: int) -> Operator:
        return family(encoder.data.isel(trajectory=[*rows], time=slice(first, end)))

    def decode(z: Tensor, rows: Tensor, first: int) -> Tensor:
        with torch.no_grad():
            states = operator((*rows.tolist(),), first, first + z.shape[-2]).decode(z)
        return (states[..., chosen] - mean) / deviation

    return Judge(samples, decode, (x - mean) / deviation)


def _deviation(distance: Tensor, group: Tensor, *, resting: float = 1e-24) -> Tensor:
    """Return deviation (..., 1, 1, n) of components from their means (..., C, T, n), shared by
    those of one group; infinite of components at rest, which count nothing.

    `resting`: variance, relative to the largest, up to which a component is at rest.
    """
    variance = distance.square().nanmean((-3, -2), keepdim=True)
    # of POD coordinates one by one, the least would count as much as the first
    shared = torch.zeros_like(variance)
    for k in group.unique():
        members = group == k
        shared[..., members] = variance[..., members].mean(-1, keepdim=True)
    largest = variance.amax(-1, keepdim=True)
    at_rest = variance <= resting * largest
    return shared.sqrt().masked_fill(at_rest, torch.inf)
