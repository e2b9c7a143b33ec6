"""Forecasts that need no law: the training run at the nearest context, as it is and shifted in
time, and runs interpolated in the context.
"""

import torch
from torch import Tensor


def nearest_runs(states: Tensor, context: Tensor, held: Tensor, train: Tensor) -> Tensor:
    """States (k, T, n) of the training run at the context nearest to that of each held-out run.

    Args:
        states: (C, T, n) of all runs.
        context: (C, p), scaled.
        held: numbers (k,) of runs.
        train: numbers of the runs to take.
    """
    distance = torch.cdist(context[held], context[train])
    nearest = train[distance.argmin(-1)]
    return states[nearest]


def shifted_in_time(run: Tensor, start: Tensor) -> Tensor:
    """A run (T, n) from where it is nearest to a start (n,); at its end it goes on from the state in
    its first half that is most like the end.
    """
    T = len(run)
    half = max(1, T // 2)
    place = _nearest(run, start)
    like_the_end = _nearest(run[:half], run[-1])
    path = [place]
    while len(path) < T:
        place += 1
        if place == T:
            place = min(like_the_end + 1, T - 1)
        path.append(place)
    return run[path]


def interpolated_runs(states: Tensor, context: Tensor, held: Tensor, train: Tensor) -> Tensor:
    """States (k, T, n) at equal times between the training runs, by thin-plate splines in the
    context, or by distances to contexts that lie on a line.

    Args:
        states: (C, T, n) of all runs.
        context: (C, p), scaled.
        held: numbers (k,) of runs.
        train: numbers of the runs to take.
    """
    from scipy.interpolate import RBFInterpolator  # slow to import, and seldom needed

    # runs at one context are one point of the spline
    points, group = torch.unique(context[train], dim=0, return_inverse=True)
    count = torch.bincount(group)[:, None, None]
    total = states.new_zeros(len(points), *states.shape[1:])
    means = total.index_add(0, group, states[train]) / count
    # its plane needs points that do not lie in a smaller one
    kernel = "linear"
    if int(torch.linalg.matrix_rank(points - points.mean(0))) == points.shape[-1]:
        kernel = "thin_plate_spline"
    spline = RBFInterpolator(points.numpy(), means.flatten(1).numpy(), kernel=kernel)
    values = torch.from_numpy(spline(context[held].numpy()))
    return values.unflatten(1, states.shape[1:])


def _nearest(states: Tensor, state: Tensor) -> int:
    distance = (states - state).square().sum(-1).nan_to_num(torch.inf)
    return int(distance.argmin())


def errors_without_a_law(
    states: Tensor, context: Tensor, held: Tensor, train: Tensor
) -> tuple[float, float]:
    """Mean errors [deviations] of the nearest training run on held-out runs, and of the nearest one
    shifted in time.
    """
    truth = states[held]
    nearest = nearest_runs(states, context, held, train)
    shifted = []
    for run, exact in zip(nearest, truth, strict=True):
        shifted.append(shifted_in_time(run, exact[0]))
    return _mean_error(nearest, truth), _mean_error(torch.stack(shifted), truth)


def _mean_error(forecast: Tensor, truth: Tensor) -> float:
    """Root mean square over components, mean over time and runs (k, T, n)."""
    square = (forecast - truth).square().mean(-1)
    return float(square.sqrt().nanmean())
