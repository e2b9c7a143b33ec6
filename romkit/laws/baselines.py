"""Forecasts that need no law: the training run at the nearest context, as it is and shifted in
time, and runs interpolated in the context.
"""

import torch
from torch import Tensor

from romkit.numerics import Spline


def shift_times(run: Tensor, start: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """Return a run (T, n) from where it is nearest to a start (n,), by distances in a scale (n,); at
    its end it goes on from the state in its first half that is most like the end.
    """
    T = len(run)
    half = max(1, T // 2)
    scaled = run / scale
    place = _nearest(scaled, start / scale)
    like_the_end = _nearest(scaled[:half], scaled[-1])
    path = [place]
    while len(path) < T:
        place += 1
        if place == T:
            place = min(like_the_end + 1, T - 1)
        path.append(place)
    return run[path]


def interpolated_runs(states: Tensor, context: Tensor, wanted: Tensor) -> Tensor:
    """Return states (k, T, n) at equal times between runs, by thin-plate splines in the context, or
    by distances to contexts that lie on a line.

    Args:
        states: (C, T, n) of the runs, finite.
        context: (C, p) of these, scaled.
        wanted: contexts (k, p), scaled likewise.
    """
    weights = Spline().weights(context, wanted)  # (k, C)
    return torch.einsum("kc,ctn->ktn", weights, states.double())


def _nearest(states: Tensor, state: Tensor) -> int:
    distance = (states - state).square().sum(-1).nan_to_num(torch.inf)
    return int(distance.argmin())


def nearest_and_shifted(
    states: Tensor, context: Tensor, wanted: Tensor, starts: Tensor, scale: Tensor | float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return the run (k, T, n) at the context nearest to each wanted one, as it is and shifted in
    time.

    Args:
        states: (C, T, n) of the runs.
        context: (C, p) of these, scaled.
        wanted: contexts (k, p), scaled likewise.
        starts: first states (k, n), to which runs are shifted.
        scale: (n,) that their distances are measured in.
    """
    distance = torch.cdist(wanted, context)
    nearest = states[distance.argmin(-1)]
    shifted = []
    for run, start in zip(nearest, starts, strict=True):
        shifted.append(shift_times(run, start, scale))
    return nearest, torch.stack(shifted)


def mean_error(forecast: Tensor, truth: Tensor) -> float:
    """Root mean square over components, mean over time and runs (k, T, n)."""
    square = (forecast - truth).square().mean(-1)
    return float(square.sqrt().nanmean())
