"""How a travelling wave drifts: its phase, its amplitude and its wave number against those of the true wave.

Waves live on a periodic grid of n components; wave number k has k wavelengths on the ring, and its Fourier
coefficient is a(t) = Σⱼ xⱼ(t) exp(-2πi k j / n). The mode that is followed is the dominant one of the truth, that
with the most power on average over time; the mean, k = 0, does not count.
"""

import math

import torch
from torch import Tensor

from romkit.metrics import diverged


def phase_drift(times: Tensor, truth: Tensor, rom: Tensor) -> Tensor:
    """(...) rate in rad per time unit at which the reduced wave runs ahead of the true one (behind: negative).

    The least-squares slope of the unwrapped phase difference arg â(t) - arg a(t) of the dominant mode of the truth,
    counted in the direction in which the true wave travels (that of growing phase if it stands still). One wavelength
    is 2π.

    Args:
        times: (T,), dense enough that the phase difference changes by less than π between two of them.
        truth: (..., T, n) full-order states.
        rom: (..., T, n) reduced-order states.

    A diverged member is scored by its times before the divergence; NaN if there are fewer than two, or if the truth
    has no wave. Where the reduced wave has lost the wave number, the phase means nothing: see
    `wave_number_agreement`.
    Source: phase from the Fourier mode, as in the method of slices, Budanur et al. (2015), "Reduction of SO(2)
    symmetry for spatially extended dynamical systems"; the rate is romkit's.
    """
    a, b, valid = _modes(truth, rom)
    difference = _unwrapped((b * a.conj()).angle())
    forward = _slope(times, _unwrapped(a.angle()), valid) >= 0
    rate = _slope(times, difference, valid)
    return torch.where(forward, rate, -rate)


def amplitude_drift(times: Tensor, truth: Tensor, rom: Tensor) -> Tensor:
    """(...) relative rate per time unit at which the reduced wave grows against the true one (decays: negative).

    The least-squares slope of ln |â(t)| / |a(t)| for the dominant mode of the truth: a reduced wave that decays as
    exp(-γt) has -γ. An amplitude below rounding, that of a wave that is gone, counts as rounding.

    Args:
        times: (T,).
        truth: (..., T, n) full-order states.
        rom: (..., T, n) reduced-order states.

    A diverged member is scored by its times before the divergence; NaN if there are fewer than two, or if the truth
    has no wave.
    Source: as `phase_drift`.
    """
    a, b, valid = _modes(truth, rom)
    ratio = (b.abs() / a.abs()).clamp(min=torch.finfo(truth.dtype).eps)
    return _slope(times, ratio.log(), valid)


def wave_number_agreement(truth: Tensor, rom: Tensor) -> Tensor:
    """(...) share of times at which truth and rom (..., T, n) have the same dominant wave number, from 0 to 1.

    The dominant wave number of a snapshot is the one with the most power. From its divergence on, a member disagrees.
    Source: the wave number of Lorenz96 in Adriaens et al. (2026), appendix "Lorenz96"; the share is romkit's.
    """
    alive = ~diverged(rom)
    same = _power(truth).argmax(-1) == _power(torch.where(alive.unsqueeze(-1), rom, 0.0)).argmax(-1)
    return (same & alive).to(truth.dtype).mean(-1)


def _power(states: Tensor) -> Tensor:
    """(..., n // 2) power of the wave numbers 1, 2, ..."""
    return torch.fft.rfft(states, dim=-1)[..., 1:].abs().square()


def _modes(truth: Tensor, rom: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients (..., T) of the truth's dominant mode in both, and the times (..., T) before the divergence."""
    dominant = 1 + _power(truth).mean(-2).argmax(-1)
    a, b = (_coefficient(x, dominant) for x in (truth, rom))
    a, valid = torch.where(_is_wave(a, truth), a, torch.nan), ~diverged(rom)
    return a.expand_as(b), torch.where(valid, b, a), valid  # what the mask takes out is finite wherever a is


def _coefficient(states: Tensor, wave_number: Tensor) -> Tensor:
    """(..., T) Fourier coefficient of states (..., T, n) at a wave number (...)."""
    grid = torch.arange(states.shape[-1], dtype=states.dtype, device=states.device)
    angle = (-2 * math.pi / states.shape[-1]) * (wave_number.unsqueeze(-1) * grid)
    return torch.complex(*((states @ part.unsqueeze(-1)).squeeze(-1) for part in (angle.cos(), angle.sin())))


def _is_wave(a: Tensor, truth: Tensor) -> Tensor:
    """(..., T) whether the mode stands out of the rounding of the transform."""
    return a.abs() > torch.finfo(truth.dtype).eps * truth.shape[-1] * truth.abs().amax(-1)


def _unwrapped(angle: Tensor) -> Tensor:
    """Angles (..., T) without jumps of 2π."""
    steps = angle.diff(dim=-1)
    steps = torch.atan2(steps.sin(), steps.cos())
    return torch.cat([angle[..., :1], angle[..., :1] + steps.cumsum(-1)], dim=-1)


def _slope(times: Tensor, values: Tensor, valid: Tensor) -> Tensor:
    """(...) least-squares slope of values (..., T) over the valid times; NaN where fewer than two are valid."""
    weight = valid.to(values.dtype)
    count = weight.sum(-1, keepdim=True)
    t = (times.to(values) - (weight * times.to(values)).sum(-1, keepdim=True) / count) * weight
    return torch.where(count.squeeze(-1) >= 2, (t * values).sum(-1) / t.square().sum(-1), torch.nan)
