"""How far a reduced model is from what it was trained on: in its context, at its start, and in its latent state."""

from collections.abc import Callable

import torch
import xarray as xr
from torch import Tensor

from romkit.errors import ExtrapolationWarning, warn
from romkit.projections import Projection, Signature

ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Of the ends of a range, in which projections are trained; relative to the context."""

HALF_WIDTHS = "half widths of its range"


def noted(
    run: xr.Dataset, projection: Projection, distance: Callable[[Tensor], Tensor] | None, contexts: Tensor
) -> xr.Dataset:
    """The run of a reduced model with its distance from what it was trained on; a warning where it leaves that.

    Args:
        run: with `latent`, as `romkit.follow` makes it.
        projection: knows the range of the context.
        distance: how far (..., T) latent states (..., T, m) are from those that a law was fitted to or a system sampled
            on; None for other dynamics, which look at the whole full model instead.
        contexts: (C, p) or (C, T, p) in physical units.

    Returns:
        `context_distance` in half widths of the training range beyond its ends, 0 inside it, and relative to its value
        where a parameter had a single one; and `state_distance`, 1 where the samples of a law end, or the residual of
        sampled rows is ten times that of training data.
    """
    shift, scale = projection.normalization.context_shift, projection.normalization.context_scale
    signature = projection.normalization.signature
    half = shift.new_tensor([name not in signature.fixed for name in signature.context_names])
    scaled = projection.normalization.normalise_context(contexts.to(shift))
    beyond = (scaled.abs() - half - ROUNDING * (1 + shift.abs() / scale)).clamp(min=0)
    apart = beyond.amax(-1) if beyond.shape[-1] else contexts.new_zeros(contexts.shape[:-1])
    dims = ("trajectory", "time")[: apart.ndim]
    named = {"units": "1", "long_name": "distance from the training range, in half widths"}
    run = run.assign(context_distance=(dims, apart.double().numpy(), named))
    said = _context_in_words(beyond, signature, shift)
    if distance is not None:
        z = torch.from_numpy(run["latent"].values)
        apart = distance(z.nan_to_num(nan=0.0)).masked_fill(z.isnan().any(-1), torch.nan)
        named = {"units": "1", "long_name": "distance from what the latent field is made of, 1 where that ends"}
        run = run.assign(state_distance=(run["latent"].dims[:-1], apart.detach().numpy(), named))
        said += _state_in_words(run["state_distance"])
    if said:
        fix = "context_distance and state_distance of the result say how far"
        warn(f"the reduced model leaves what it was trained on: {'; '.join(said)}; {fix}", ExtrapolationWarning)
    return run


def _context_in_words(beyond: Tensor, signature: Signature, value: Tensor) -> list[str]:
    worst = zip(signature.context_names, beyond.flatten(0, -2).amax(0).tolist(), value.tolist(), strict=True)
    return [
        f"{name}, which was {value:g} alone" if name in signature.fixed else f"{name} by up to {far:.2g} {HALF_WIDTHS}"
        for name, far, value in worst
        if far > 0
    ]


def _state_in_words(distance: xr.DataArray) -> list[str]:
    away = distance > 1
    if not bool(away.any()):
        return []
    trajectories = int(away.any([dim for dim in away.dims if dim != "trajectory"]).sum())
    ever = away.any([dim for dim in away.dims if dim != "time"])
    first, far = float(distance["time"][int(ever.values.argmax())]), float(distance.max())
    return [f"the state of {trajectories} trajectories from t={first:.4g} on (distance up to {far:.2g})"]
