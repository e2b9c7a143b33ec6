"""SINDy in weak form: the equation is integrated against test functions, and the data are never differentiated."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.polynomial import Polynomial as Series
from torch import Tensor

from romkit.boundary import Count, Positive, checked
from romkit.errors import InputError
from romkit.integrators.samples import LatentSamples, trajectory_times
from romkit.integrators.sindy.estimator import SINDy
from romkit.integrators.sindy.regression import Design

LAGS = 3.0
"""Half width of a window, in times in which the latent state moves by one deviation: half a period of a wave."""


@checked
@dataclass(frozen=True)
class WeakSINDy(SINDy):
    """Settings of a fit for noisy data; `fit` returns the equation. Rates of the data are not looked at.

    Integration by parts over windows of time, with a test function φ that vanishes at their ends, makes of ż = g(z, c)

        - ∫ φ' z dt - ∫ φ d dt = Σₖ ξₖ ∫ φ θₖ(z, c) dt,        φ = (1 - s²)^p,  s in [-1, 1],

    with the drift d of a context that moves (see `LatentSamples`): one equation for each window, solved for ξ as
    `SINDy` does. Integrals are exact for what is linear between samples, so samples need not be evenly spaced, and
    windows in which one is missing are left out. In second order, ż of the samples takes the place of z on the left.

    Args:
        windows: for each trajectory, evenly spread; they overlap.
        width: length of a window, in the time unit of the data; by default six times the time in which the latent state
            moves by one standard deviation, at most a quarter of a trajectory. Wider ones average more.
        smoothness: p.

    The others are those of `SINDy`. Samples have to be whole trajectories, with their times.

    Source: Messenger, Bortz (2021), Weak SINDy; Reinbold, Gurevich, Grigoriev (2020); weights as in pysindy's
    WeakPDELibrary.

    Example:
        >>> import torch
        >>> from romkit.integrators import WeakSINDy
        >>> t = torch.linspace(0, 12, 601, dtype=torch.float64)
        >>> z = torch.stack([t.cos(), t.sin()], dim=-1)[None]
        >>> unseen = torch.zeros_like(z)  # rates are not looked at
        >>> law = WeakSINDy(degree=1, windows=50).fit_samples(z, unseen, times=t)
        >>> law.predict(torch.tensor([1.0, 0.0], dtype=torch.float64)).round(decimals=2) + 0.0
        tensor([0., 1.], dtype=torch.float64)
    """

    windows: Count = 200
    width: Positive | None = None
    smoothness: Count = 4

    def _design(self, samples: LatentSamples) -> Design:
        basis = self._basis(samples)
        times = trajectory_times(samples)
        spans = spread_windows(times, self.width or default_width(samples), self.windows)
        within, across = weak_weights(times, spans, self.smoothness)
        z, drift = basis.scaled(samples.inputs, samples.drift)
        terms = torch.stack(torch.broadcast_tensors(*basis.terms_of_scaled(z, samples.context)), dim=-1)
        m = samples.targets.shape[-1]
        known = (terms, z[..., -m:], drift)
        whole = _whole(torch.cat(known, dim=-1), spans, len(times))
        theta, z, drift = (x.nan_to_num(nan=0.0).unflatten(-2, (-1, len(times))) for x in known)
        columns = [within @ theta, -across @ z - within @ drift]
        scale = within.sum(-1).mean()  # so that a row weighs as much as a sample
        rows = torch.cat(columns, dim=-1).flatten(-3, -2)[..., whole, :] / scale
        rows = rows.unsqueeze(0) if rows.ndim == 2 else rows.flatten(0, -3)
        if rows.shape[1] < len(basis.names):
            expected, fix = f"at least {len(basis.names)} windows, one per term", "raise windows or lower the degree"
            raise InputError("windows", expected=expected, got=f"{rows.shape[1]}", fix=fix)
        return Rows(basis, rows, samples.context, rows[..., -m:])


class Rows(Design):
    """A design whose rows (S, N, K + m) of terms and targets are known; they stand in `inputs`."""

    def write(self, out: Tensor, problems: slice, samples: slice) -> None:
        out.copy_(self.inputs[problems, samples].mT)


def weak_weights(times: Tensor, spans: Sequence[tuple[int, int]], p: int) -> tuple[Tensor, Tensor]:
    """(R, T) weights w, w' with Σ wₖ f(tₖ) = ∫ φ f dt and Σ w'ₖ f(tₖ) = ∫ φ' f dt over each window.

    Exact for f that are linear between samples.

    Args:
        times: (T,) increasing.
        spans: first and last sample of each window.
        p: exponent of φ = (1 - s²)^p.
    """
    bump = Series([1.0, 0.0, -1.0]) ** p
    t, rows = times.numpy(), np.zeros((2, len(spans), len(times)))
    for row, (first, last) in enumerate(spans):
        half = (t[last] - t[first]) / 2
        s = (t[first : last + 1] - t[first]) / half - 1
        for k, (function, factor) in enumerate(((bump, half), (bump.deriv(), 1.0))):
            area, moment = (
                np.diff(integral(s)) for integral in (function.integ(), (Series([0.0, 1.0]) * function).integ())
            )
            rows[k, row, first:last] += factor * (s[1:] * area - moment) / np.diff(s)
            rows[k, row, first + 1 : last + 1] += factor * (moment - s[:-1] * area) / np.diff(s)
    within, across = torch.from_numpy(rows)
    return within, across


def spread_windows(times: Tensor, width: float, number: int) -> list[tuple[int, int]]:
    """First and last sample of windows no longer than `width`, spread evenly over the times (T,).

    Raises:
        InputError: no window has three samples.
    """
    t = times.numpy()
    half = min(width, t[-1] - t[0]) / 2
    centres = np.linspace(t[0] + half, t[-1] - half, number)
    tolerance = 1e-9 * (t[-1] - t[0])
    first = np.searchsorted(t, centres - half - tolerance)
    last = np.searchsorted(t, centres + half + tolerance) - 1
    spans = sorted({(int(a), int(b)) for a, b in zip(first, last, strict=True) if b - a >= 2})
    if not spans:
        got = f"{width:g} with {len(t)} samples over {t[-1] - t[0]:g}"
        raise InputError("width", expected="windows of three samples or more", got=got, fix="widen the windows")
    return spans


def _whole(samples: Tensor, spans: Sequence[tuple[int, int]], T: int) -> Tensor:
    """(C · R,) whether no sample (..., C · T, k) is missing in each window of each trajectory."""
    missing = samples.isnan().any(-1).reshape(-1, samples.shape[-2]).any(0).view(-1, T)
    before = torch.nn.functional.pad(missing.cumsum(-1), (1, 0))
    return torch.stack([before[:, last + 1] == before[:, first] for first, last in spans], dim=-1).flatten()


def default_width(samples: LatentSamples) -> float:
    """2 `LAGS` times the time in which the latent state moves by one standard deviation, the mean over a stack.

    At most a quarter of a trajectory. Read from the distance of samples that are some time apart, which noise
    changes little.
    """
    times = trajectory_times(samples)
    m = samples.targets.shape[-1]
    z = samples.inputs[..., :m].double().unflatten(-2, (-1, len(times)))
    mean = z.nanmean((-3, -2), keepdim=True)
    variance = (z - mean).square().nanmean((-3, -2)).sum(-1)
    step, longest = float(times.diff().mean()), max(1, int((len(times) - 1) / (8 * LAGS)))
    lags = []
    for total, path in zip(variance.reshape(-1), z.reshape(-1, *z.shape[-3:]), strict=True):
        moved = (lag for lag in range(1, longest + 1) if _moved(path, lag) >= total)
        lags.append(next(moved, longest))
    return 2 * LAGS * step * sum(lags) / len(lags)


def _moved(z: Tensor, lag: int) -> Tensor:
    """Mean squared distance of samples of z (C, T, m) that are `lag` steps apart."""
    return (z[:, lag:] - z[:, :-lag]).square().sum(-1).nanmean()
