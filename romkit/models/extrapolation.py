"""Distance of a run from what its model was trained on, in numbers and in words."""

import torch
import xarray as xr
from torch import Tensor

from romkit.core.errors import ExtrapolationWarning, warn
from romkit.core.types import TensorMap
from romkit.projections import Frame

ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Rounding of the ends of a training range in float32, relative to the context."""

HALF_WIDTHS = "half widths of its range"


def with_extrapolation(
    run: xr.Dataset,
    frame: Frame,
    contexts: Tensor,
    distance: TensorMap | None,
) -> xr.Dataset:
    """Add to a run its distance from the training range and from the samples of a law; warn where
    it leaves them.

    Args:
        run: with `latent`, as `romkit.follow` makes it.
        frame: of the projection; it has the training range.
        contexts: (C, p) or (C, T, p) in physical units.
        distance: (..., T) distance of latent states (..., T, m) from the samples of a law or of a
            sampled system; None for dynamics that see the whole full model.

    Returns:
        The run with `context_distance`, in half widths of the training range beyond its ends, 0
        inside it, and relative to its value where a parameter had a single one; and
        `state_distance`, 1 where the samples of a law end, or the residual of sampled rows is ten
        times that of training data.
    """
    beyond = _beyond_range(contexts, frame)
    run = _with_context_distance(run, beyond)
    reasons = _context_in_words(beyond, frame)
    if distance is not None:
        run = _with_state_distance(run, distance)
        reasons += _state_in_words(run["state_distance"])
    if reasons:
        fix = "context_distance and state_distance of the result say how far"
        warn(
            f"the reduced model leaves what it was trained on: {'; '.join(reasons)}; {fix}",
            ExtrapolationWarning,
        )
    return run


def _beyond_range(contexts: Tensor, frame: Frame) -> Tensor:
    """Distance (C, p) or (C, T, p) of contexts beyond the training range, in half widths of it."""
    shift = frame.context_shift
    scale = frame.context_scale
    # A parameter with one training value has no width: its distance counts from that value.
    half_width = shift.new_tensor([name not in frame.fixed for name in frame.context_names])
    rounding = ROUNDING * (1 + shift.abs() / scale)
    scaled = frame.normalise_context(contexts.to(shift))
    return (scaled.abs() - half_width - rounding).clamp(min=0)


def _with_context_distance(run: xr.Dataset, beyond: Tensor) -> xr.Dataset:
    if beyond.shape[-1] > 0:
        distance = beyond.amax(-1)  # (C,) or (C, T)
    else:
        distance = beyond.new_zeros(beyond.shape[:-1])
    dims = ("trajectory", "time")[: distance.ndim]
    attrs = {"units": "1", "long_name": "distance from the training range, in half widths"}
    return run.assign(context_distance=(dims, distance.double().numpy(), attrs))


def _with_state_distance(run: xr.Dataset, distance: TensorMap) -> xr.Dataset:
    z = torch.from_numpy(run["latent"].values)
    # a region has no distance from NaN; zero stands in for it, and is masked below
    diverged = z.isnan().any(-1)
    values = distance(z.nan_to_num(nan=0.0)).masked_fill(diverged, torch.nan)
    attrs = {
        "units": "1",
        "long_name": "distance from what the latent field is made of, 1 where that ends",
    }
    dims = run["latent"].dims[:-1]
    return run.assign(state_distance=(dims, values.detach().numpy(), attrs))


def _context_in_words(beyond: Tensor, frame: Frame) -> list[str]:
    furthest = beyond.flatten(0, -2).amax(0).tolist()
    middles = frame.context_shift.tolist()
    reasons = []
    for name, distance, middle in zip(frame.context_names, furthest, middles, strict=True):
        if distance <= 0:
            continue
        if name in frame.fixed:
            reasons.append(f"{name}, which was {middle:g} alone")
        else:
            reasons.append(f"{name} by up to {distance:.2g} {HALF_WIDTHS}")
    return reasons


def _state_in_words(distance: xr.DataArray) -> list[str]:
    away = distance > 1
    if not bool(away.any()):
        return []
    left_at = int(_any_along(away, "time").values.argmax())
    begin = float(distance["time"][left_at])
    number = distance.sizes.get("trajectory", 1)
    which = ""
    if number > 1:
        leaving = int(_any_along(away, "trajectory").sum())
        which = f" of {leaving} of {number} trajectories"
    largest = float(distance.max())
    size = f"distance up to {largest:.3g}, and the training states end at 1"
    return [f"the state{which} from t={begin:.4g} on ({size})"]


def _any_along(flags: xr.DataArray, dim: str) -> xr.DataArray:
    """Whether any flag is set, for each entry along a dimension."""
    return flags.any([name for name in flags.dims if name != dim])
