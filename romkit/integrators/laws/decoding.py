"""Judges that compare decoded states, so that errors compare across latent dimensions."""

import copy

import torch
import xarray as xr
from torch import Tensor

from romkit.integrators.laws.judge import Judge
from romkit.integrators.laws.samples import LatentSamples
from romkit.integrators.laws.sources import Encoder, ProjectionFamily

COMPONENTS = 2048
"""Most state components by which forecasts are judged, evenly out of all."""


def judge_of(projection: ProjectionFamily, data: xr.Dataset, samples: LatentSamples) -> Judge:
    """Judge of states of a dataset, each in its deviation, whose latents the samples are."""
    encoder = Encoder.of(projection, data)
    x = encoder.variable("state").double()  # (..., C, T, n)
    number = min(COMPONENTS, x.shape[-1])
    chosen = torch.linspace(0, x.shape[-1] - 1, number).round().long()
    x = x[..., chosen]
    mean = x.nanmean((-3, -2), keepdim=True)
    variance = (x - mean).square().nanmean((-3, -2), keepdim=True)
    deviation = variance.sqrt()
    largest = deviation.amax(-1, keepdim=True)
    # components at rest count nothing
    deviation = torch.where(deviation <= 1e-12 * largest, torch.inf, deviation)
    family = copy.deepcopy(projection).double()

    def decode(z: Tensor, rows: Tensor, first: int) -> Tensor:
        runs = encoder.data.isel(trajectory=rows.numpy(), time=slice(first, None))
        with torch.no_grad():
            states = family(runs).decode(z)
        return (states[..., chosen] - mean) / deviation

    return Judge(samples, decode, (x - mean) / deviation)
