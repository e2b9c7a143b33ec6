"""Temporal power spectra, and how far two of them are apart: whether a rollout has the right long-term statistics."""

import functools
from typing import Annotated

import torch
from torch import Tensor

from romkit import arrays, checks
from romkit.boundary import checked
from romkit.errors import InputError

WIDEST = 10_000
"""Bins; a wider Gaussian is no smoothing."""

Smoothing = Annotated[float, checks.between(0, WIDEST)]

SMOOTHING = 1.0
"""Standard deviation of the spectral smoothing, in frequency bins (one bin is 1 / (T · dt))."""


@checked
def power_density(states: Tensor, *, smoothing: Smoothing = SMOOTHING) -> Tensor:
    """(..., T // 2 + 1, n) power spectrum over time of each component of states (..., T, n), with sum one.

    The frequencies are those of `torch.fft.rfftfreq(T, dt)`. The mean is removed; the squared magnitudes are smoothed
    over frequency by a Gaussian, then normalised. A component that does not change has all its density at frequency
    zero, and one that is not finite at some time has NaN.

    Args:
        states: (..., T, n) at equal time steps.
        smoothing: standard deviation of the Gaussian in frequency bins, 0 for none.

    Raises:
        InputError: smoothing that is negative or not finite.

    Example:
        >>> import torch
        >>> import romkit
        >>> t = torch.arange(200) * 0.1
        >>> density = romkit.metrics.power_density(torch.sin(2 * torch.pi * t).unsqueeze(-1), smoothing=0)
        >>> density.shape, density.sum().round(decimals=3)
        (torch.Size([101, 1]), tensor(1.))
        >>> torch.fft.rfftfreq(200, 0.1)[density.argmax()].round(decimals=3)
        tensor(1.)
    """
    arrays.axes("states", states, "T n")
    centred = states - states.mean(-2, keepdim=True)
    power = _smoothed(torch.fft.rfft(centred, dim=-2).abs().square(), smoothing)
    low, high = states.amin(-2, keepdim=True), states.amax(-2, keepdim=True)
    rounding = torch.finfo(states.dtype).eps * torch.maximum(high, -low)
    still = (high - low <= rounding) & rounding.isfinite()
    at_zero = torch.zeros_like(power)
    at_zero[..., 0, :] = 1.0
    return torch.where(still, at_zero, power / power.sum(-2, keepdim=True))


@checked
def hellinger_distance(truth: Tensor, rom: Tensor, *, smoothing: Smoothing = SMOOTHING) -> Tensor:
    """(..., n) Hellinger distance between the power spectra of truth and rom (..., T, n), component by component.

    H = √(½ Σ_ω (√p - √q)²) = √(1 - Σ_ω √(p q)) with the densities p, q of `power_density`; from 0 (the same spectrum)
    to 1 (no frequency in common). Blind to phase, so that a rollout that is late is not punished, and to amplitude.
    What is usually reported is the mean over components.

    A member that diverged, at any time, is as far from the truth as can be: 1.

    Args:
        truth: (..., T, n) at equal time steps; where it has fewer leading axes than rom, members share it.
        rom: (..., T, n) at the same times.
        smoothing: standard deviation of the Gaussian in frequency bins. Spectra of periodic motions are lines, and
            without smoothing a frequency that is wrong by one bin counts as much as one that is wrong by many.

    Raises:
        InputError: truth and rom have different numbers of times, or smoothing is negative.

    Source: Mikhaeil, Monfared, Durstewitz (2022), On the difficulty of learning chaotic dynamics with RNNs, where it
    scores reconstructed attractors.

    Example:
        >>> import torch
        >>> import romkit
        >>> t = torch.linspace(0, 20, 401)
        >>> wave, late, fast = (torch.sin(phase).unsqueeze(-1) for phase in (3 * t, 3 * t - 0.5, 6 * t))
        >>> bool(romkit.metrics.hellinger_distance(wave, late) < 0.05)  # blind to phase
        True
        >>> bool(romkit.metrics.hellinger_distance(wave, fast) > 0.9)
        True
    """
    arrays.axes("truth", truth, "T n")
    arrays.axes("rom", rom, "T n")
    checks.last_axis("rom", rom.shape, truth.shape[-1], "as the truth")
    if truth.shape[-2] != rom.shape[-2]:
        expected = f"{truth.shape[-2]} times, as the truth has"
        raise InputError("rom", expected=expected, got=rom.shape[-2], fix="compare equal runs")
    arrays.broadcast(truth=truth, rom=rom)
    p, q = power_density(truth, smoothing=smoothing), power_density(rom, smoothing=smoothing)
    return ((p.sqrt() - q.sqrt()).square().sum(-2) / 2).sqrt().clamp(max=1.0).nan_to_num(nan=1.0)


def _smoothed(power: Tensor, sigma: float) -> Tensor:
    """Power (..., F, n) convolved over F with a Gaussian that is cut at 4 σ."""
    radius = int(4 * sigma + 0.5)
    if radius == 0:
        return power
    offsets = torch.arange(-radius, radius + 1, dtype=power.dtype, device=power.device)
    kernel = torch.exp(-(offsets**2) / (2 * sigma**2))
    padded, number = torch.nn.functional.pad(power, (0, 0, radius, radius)), power.shape[-2]
    parts = ((weight * padded[..., k : k + number, :]) for k, weight in enumerate(kernel / kernel.sum()))
    return functools.reduce(torch.Tensor.add_, parts)
