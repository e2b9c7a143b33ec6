"""Distance of a run from what its model was trained on, in numbers and in words."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.errors import ExtrapolationWarning, warn
from romkit.core.types import Array, TensorMap
from romkit.projections import Frame

ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Rounding of the ends of a training range in float32, relative to the context."""

SHARE = 0.1
"""Share of the largest part of a way from which on a parameter is named."""

HALF_WIDTHS = "half widths of its range"


def add_extrapolation(
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
        The run with `context_distance`, in half widths of the training range from the hull of the
        training contexts, 0 inside it, and relative to its value where a parameter had a single one;
        and
        `state_distance`, 1 where the samples of a law end, or the residual of sampled rows is ten
        times that of training data.
    """
    # A parameter with one training value has no width: its distance counts from that value.
    half_width = torch.tensor([float(name not in frame.fixed) for name in frame.context_names])
    shift, scale = frame.context_shift.double(), frame.context_scale.double()
    rounding = ROUNDING * (1 + shift.abs() / scale)
    scaled = (contexts.double() - shift) / scale
    beyond = (scaled.abs() - half_width - rounding).clamp(min=0)
    way = _hull_offset(contexts, frame)
    run = _add_context_distance(run, beyond, way)
    reasons = _describe_context(beyond, frame) + _describe_hull(beyond, way, frame)
    if distance is not None:
        z = torch.from_numpy(run["latent"].values)
        # a region has no distance from NaN; zero stands in for it, and is masked below
        diverged = z.isnan().any(-1)
        values = distance(z.nan_to_num(nan=0.0)).masked_fill(diverged, torch.nan)
        attrs = {
            "units": "1",
            "long_name": "distance from what the latent field is made of, 1 where that ends",
        }
        dims = run["latent"].dims[:-1]
        run = run.assign(state_distance=(dims, values.detach().numpy(), attrs))
        reasons += _describe_state(run["state_distance"])
    if reasons:
        fix = "context_distance and state_distance of the result say how far"
        warn(
            f"the reduced model leaves what it was trained on: {'; '.join(reasons)}; {fix}",
            ExtrapolationWarning,
        )
    return run


def _hull_offset(contexts: Tensor, frame: Frame) -> Tensor:
    """Way (C, p) or (C, T, p) to contexts from the nearest point of the hull of those of the training,
    in half widths; zero where the range of each parameter says what is known.

    A hull is without the corners where nothing was run, and flat where parameters were not varied
    apart.
    """
    way = torch.zeros(contexts.shape, dtype=torch.float64)
    known = frame.exact.get("contexts")
    if known is None:
        return way
    free = [k for k, name in enumerate(frame.context_names) if name not in frame.fixed]
    shift, scale = frame.exact["context_shift"][free], frame.exact["context_scale"][free]
    points = (known[:, free] - shift) / scale
    wanted = (contexts.double()[..., free] - shift) / scale
    way[..., free] = _ways(points.numpy(), wanted)
    rounding = ROUNDING * (1 + shift.abs() / scale).amax()
    way[way.norm(dim=-1) <= rounding] = 0
    return way


def _ways(points: Array, wanted: Tensor, *, most_solved: int = 2000) -> Tensor:
    """Ways (C, q) or (C, T, q) from the nearest points of the hull of points (K, q).

    Along courses of many times, those at some of them, and lines between.

    `most_solved`: contexts of courses whose distance from a hull is solved for: a tenth of a
    second.
    """
    if wanted.ndim == 2:
        return torch.from_numpy(_split_ways(points, wanted.numpy()))
    number = wanted.shape[1]
    solved = max(2, most_solved // len(wanted))
    rows = np.unique(np.linspace(0, number - 1, solved).round().astype(int))
    courses = []
    for course in wanted.numpy():
        ways = _split_ways(points, course[rows])
        columns = [np.interp(np.arange(number), rows, column) for column in ways.T]
        courses.append(np.stack(columns, axis=-1))
    return torch.from_numpy(np.stack(courses))


def _split_ways(points: Array, wanted: Array, *, one: float = 1e3) -> Array:
    """Ways (N, q) from the hull, by the least squares over weights of the points that are not negative
    and sum to one.

    `one`: weight of the sum of the weights beside the contexts: a millionth of a distance is
    off.
    """
    from scipy.optimize import nnls  # slow to import, and seldom needed

    sums = np.full((1, len(points)), one)
    matrix = np.concatenate([points.T, sums])
    ways = np.empty_like(wanted)
    for k, context in enumerate(wanted):
        weights, _ = nnls(matrix, np.append(context, one))
        ways[k] = context - weights @ points / weights.sum()
    return ways


def _add_context_distance(run: xr.Dataset, beyond: Tensor, way: Tensor) -> xr.Dataset:
    if beyond.shape[-1] > 0:
        distance = torch.maximum(beyond.amax(-1), way.norm(dim=-1))  # (C,) or (C, T)
    else:
        distance = beyond.new_zeros(beyond.shape[:-1])
    dims = ("trajectory", "time")[: distance.ndim]
    attrs = {"units": "1", "long_name": "distance from the training contexts, in half widths"}
    return run.assign(context_distance=(dims, distance.double().numpy(), attrs))


def _describe_context(beyond: Tensor, frame: Frame) -> list[str]:
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


def _describe_hull(beyond: Tensor, way: Tensor, frame: Frame) -> list[str]:
    """Return parameters whose values are each within the range, but not together."""
    within = (beyond == 0).all(-1)
    apart = way[within]  # (N, p)
    if len(apart) == 0:
        return []
    furthest = apart[apart.norm(dim=-1).argmax()]
    distance = float(furthest.norm())
    if distance == 0:
        return []
    matters = furthest.abs() >= SHARE * furthest.abs().amax()
    names = [name for name, is_one in zip(frame.context_names, matters, strict=True) if is_one]
    joint = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return [f"{joint} together by up to {distance:.2g} half widths from what lies between runs"]


def _describe_state(distance: xr.DataArray) -> list[str]:
    away = distance > 1
    if not bool(away.any()):
        return []
    left_at = int(_any_sample(away, "time").values.argmax())
    begin = float(distance["time"][left_at])
    number = distance.sizes.get("trajectory", 1)
    which = ""
    if number > 1:
        leaving = int(_any_sample(away, "trajectory").sum())
        which = f" of {leaving} of {number} trajectories"
    largest = float(distance.max())
    size = f"distance up to {largest:.3g}, and the training states end at 1"
    return [f"the state{which} from t={begin:.4g} on ({size})"]


def _any_sample(flags: xr.DataArray, dim: str) -> xr.DataArray:
    """Tell whether any flag is set, for each entry along a dimension."""
    return flags.any([name for name in flags.dims if name != dim])
