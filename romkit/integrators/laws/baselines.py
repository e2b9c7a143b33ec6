"""Forecasts that need no law: the training run at the nearest context, as it is and shifted in
time.
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
    return states[train[distance.argmin(-1)]]


def shifted_in_time(run: Tensor, start: Tensor) -> Tensor:
    """A run (T, n) from where it is nearest to a start (n,); at its end it goes on from the state in
    its first half that is most like the end.
    """
    T = len(run)
    path = [_nearest(run, start)]
    again = _nearest(run[: max(1, T // 2)], run[-1]) + 1
    while len(path) < T:
        following = path[-1] + 1
        if following == T:
            following = min(again, T - 1)
        path.append(following)
    return run[path]


def _nearest(states: Tensor, state: Tensor) -> int:
    distance = (states - state).square().sum(-1).nan_to_num(torch.inf)
    return int(distance.argmin())


def errors_without_a_law(
    states: Tensor, context: Tensor, held: Tensor, train: Tensor
) -> tuple[float, float]:
    """Mean errors [deviations] of the nearest training run on held-out runs, and of the nearest one
    shifted in time.
    """
    nearest = nearest_runs(states, context, held, train)
    shifted = torch.stack(
        [shifted_in_time(run, exact[0]) for run, exact in zip(nearest, states[held], strict=True)]
    )
    return _mean_error(nearest, states[held]), _mean_error(shifted, states[held])


def _mean_error(forecast: Tensor, truth: Tensor) -> float:
    """Root mean square over components, mean over time and runs (k, T, n)."""
    return float((forecast - truth).square().mean(-1).sqrt().nanmean())
