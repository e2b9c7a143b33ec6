"""Scores of rollouts: how far, how fast and in what way they leave the truth.

Waves live on a periodic grid of n components; wave number k has k wavelengths on the ring, and its
Fourier coefficient is a(t) = Σⱼ xⱼ(t) exp(-2πi k j / n). The mode that is followed is the dominant
one of the truth, that with the most power on average over time; the mean, k = 0, does not count.
"""

import math

import torch
from torch import Tensor

from romkit.core.types import Field
from romkit.metrics import (
    diverged,
    hellinger_distance,
    manifold_distance,
    nrmse,
    peak_energy_drift,
    valid_time,
)
from romkit.projections import Operator
from romkit.systems import MechanicalSystem
from romkit.systems.problem import Parts

QUANTILES = (0.1, 0.5, 0.9)
"""Of the error over contexts, along time."""
CURVE = 60
"""Times of the error curve, equally spaced in their logarithm."""
SAMPLES = 100
"""Latent states, from the second half of a rollout, over which its stability is averaged."""


Members = dict[str, Tensor]
"""Scores (seed, context) by name."""


def scores(
    times: Tensor, truth: Tensor, rom: Tensor, P: Operator, std: Tensor, more: Members
) -> dict[str, tuple]:
    """Return dimensions and values of each score of rollouts.

    Args:
        times: (T,).
        truth: (context, T, n) of the full model.
        rom: (seed, context, T, n), NaN from a member's divergence on.
        P: operator at the contexts.
        std: (n,) standard deviation of each component.
        more: scores that only some systems have.
    """
    errors = nrmse(truth, rom, std)
    kept = curve_indices(len(times))
    curves = torch.quantile(
        errors[..., kept].nan_to_num(nan=torch.inf), torch.tensor(QUANTILES).to(errors), dim=1
    )
    members = {
        "valid_time": valid_time(times, errors),
        "valid_time_strict": valid_time(times, errors, 0.05),
        "diverged": diverged(rom)[..., -1].to(torch.int8),
        "hellinger_distance": hellinger_distance(truth, rom).mean(-1),
        "manifold_distance": manifold_distance(P, rom[..., kept, :], std).amax(-1),
    }
    found = {name: (("seed", "context"), value.numpy()) for name, value in (members | more).items()}
    return found | {"nrmse": (("quantile", "seed", "curve_time"), curves.float().numpy())}


def wave_scores(times: Tensor, truth: Tensor, rom: Tensor) -> Members:
    """Return how a travelling wave drifts: (seed, context) each."""
    return {
        "phase_drift": phase_drift(times, truth, rom),
        "amplitude_drift": amplitude_drift(times, truth, rom),
        "wave_number_agreement": wave_number_agreement(truth, rom),
    }


def stability_scores(field: Field, states: Tensor) -> Members:
    """Tell whether a latent field draws neighbours in to the trajectories (..., T, m) that it made:
    (seed, context) each.
    """
    half = states.shape[-2] // 2
    return {"lyapunov_sum": lyapunov_sum(field, states[..., half :: max(1, half // SAMPLES), :])}


def energy_scores(system: MechanicalSystem, context: Tensor, truth: Parts, rom: Parts) -> Members:
    """Return how well a motion keeps its energy, from positions and velocities: (seed, context)
    each.
    """
    start = system.energy(context)(*(x[:, :1] for x in truth))[..., 0]
    energy = system.energy(context.expand(*rom[0].shape[:2], -1))(*rom)
    return {"peak_energy_drift": peak_energy_drift(energy, start.expand(energy.shape[:2]))}


def curve_indices(number: int) -> Tensor:
    """Return indices of up to CURVE of `number` times, 0 not among them, equally spaced in their
    logarithm.
    """
    return (
        torch.logspace(0, torch.log10(torch.tensor(number - 1.0)).item(), CURVE)
        .round()
        .long()
        .unique()
    )


def lyapunov_sum(field: Field, states: Tensor) -> Tensor:
    """(...) sum of the Lyapunov exponents along trajectories: time average of div g = tr ∂g/∂z, per
    time unit.

    It is the rate at which volumes of the reduced state space grow. On a periodic orbit of two
    latent coordinates one exponent is zero, so it is the other one, the Floquet exponent: negative
    where the orbit attracts, positive where it is unstable, however well the manifold fits the data
    on it.

    Args:
        field: g(t, z), autonomous and differentiable in forward mode, for all members at a time.
        states: (..., T, m) latent states at equally spaced times, after transients and over many
            periods.

    NaN where a member has diverged.
    Source: Guckenheimer & Holmes (1983), section 1.5, by the identity of Abel, Jacobi and
    Liouville.
    """
    start = states.new_zeros(())

    def divergence(z: Tensor) -> Tensor:
        axes = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        slopes = [
            torch.func.jvp(lambda z: field(start, z), (z,), (axis.expand_as(z),))[1]
            for axis in axes
        ]
        return torch.stack(slopes, dim=-1).diagonal(dim1=-2, dim2=-1).sum(-1)

    return torch.stack([divergence(z) for z in states.unbind(-2)]).mean(0)


def phase_drift(times: Tensor, truth: Tensor, rom: Tensor) -> Tensor:
    """(...) rate in rad per time unit at which the reduced wave runs ahead of the true one (behind:
    negative).

    The least-squares slope of the unwrapped phase difference arg â(t) - arg a(t) of the dominant
    mode of the truth, counted in the direction in which the true wave travels (that of growing
    phase if it stands still). One wavelength is 2π.

    Args:
        times: (T,), dense enough that the phase difference changes by less than π between two of
            them.
        truth: (..., T, n) full-order states.
        rom: (..., T, n) reduced-order states.

    A diverged member is scored by its times before the divergence; NaN if there are fewer than two,
    or if the truth has no wave. Where the reduced wave has lost the wave number, the phase means
    nothing: see `wave_number_agreement`.
    Source: phase from the Fourier mode, as in the method of slices, Budanur et al. (2015),
    "Reduction of SO(2) symmetry for spatially extended dynamical systems"; the rate is romkit's.
    """
    a, b, valid = _modes(truth, rom)
    difference = _unwrapped((b * a.conj()).angle())
    forward = _slope(times, _unwrapped(a.angle()), valid) >= 0
    rate = _slope(times, difference, valid)
    return torch.where(forward, rate, -rate)


def amplitude_drift(times: Tensor, truth: Tensor, rom: Tensor) -> Tensor:
    """(...) relative rate per time unit at which the reduced wave grows against the true one
    (decays: negative).

    The least-squares slope of ln |â(t)| / |a(t)| for the dominant mode of the truth: a reduced wave
    that decays as exp(-γt) has -γ. An amplitude below rounding, that of a wave that is gone, counts
    as rounding.

    Args:
        times: (T,).
        truth: (..., T, n) full-order states.
        rom: (..., T, n) reduced-order states.

    A diverged member is scored by its times before the divergence; NaN if there are fewer than two,
    or if the truth has no wave.
    Source: as `phase_drift`.
    """
    a, b, valid = _modes(truth, rom)
    ratio = (b.abs() / a.abs()).clamp(min=torch.finfo(truth.dtype).eps)
    return _slope(times, ratio.log(), valid)


def wave_number_agreement(truth: Tensor, rom: Tensor) -> Tensor:
    """(...) share of times at which truth and rom (..., T, n) have the same dominant wave number,
    from 0 to 1.

    The dominant wave number of a snapshot is the one with the most power. From its divergence on, a
    member disagrees.
    Source: the wave number of Lorenz96 in Adriaens et al. (2026), appendix "Lorenz96"; the share is
    romkit's.
    """
    alive = ~diverged(rom)
    same = _power(truth).argmax(-1) == _power(torch.where(alive.unsqueeze(-1), rom, 0.0)).argmax(-1)
    return (same & alive).to(truth.dtype).mean(-1)


def _power(states: Tensor) -> Tensor:
    """(..., n // 2) power of the wave numbers 1, 2, ..."""
    return torch.fft.rfft(states, dim=-1)[..., 1:].abs().square()


def _modes(truth: Tensor, rom: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return coefficients (..., T) of the truth's dominant mode in both, and the times (..., T)
    before the divergence.
    """
    dominant = 1 + _power(truth).mean(-2).argmax(-1)
    a, b = (_coefficient(x, dominant) for x in (truth, rom))
    a, valid = torch.where(_is_wave(a, truth), a, torch.nan), ~diverged(rom)
    return (
        a.expand_as(b),
        torch.where(valid, b, a),
        valid,
    )  # what the mask takes out is finite wherever a is


def _coefficient(states: Tensor, wave_number: Tensor) -> Tensor:
    """(..., T) Fourier coefficient of states (..., T, n) at a wave number (...)."""
    grid = torch.arange(states.shape[-1], dtype=states.dtype, device=states.device)
    angle = (-2 * math.pi / states.shape[-1]) * (wave_number.unsqueeze(-1) * grid)
    return torch.complex(
        *((states @ part.unsqueeze(-1)).squeeze(-1) for part in (angle.cos(), angle.sin()))
    )


def _is_wave(a: Tensor, truth: Tensor) -> Tensor:
    """(..., T) whether the mode stands out of the rounding of the transform."""
    return a.abs() > torch.finfo(truth.dtype).eps * truth.shape[-1] * truth.abs().amax(-1)


def _unwrapped(angle: Tensor) -> Tensor:
    """Angles (..., T) without jumps of 2π."""
    steps = angle.diff(dim=-1)
    steps = torch.atan2(steps.sin(), steps.cos())
    return torch.cat([angle[..., :1], angle[..., :1] + steps.cumsum(-1)], dim=-1)


def _slope(times: Tensor, values: Tensor, valid: Tensor) -> Tensor:
    """(...) least-squares slope of values (..., T) over the valid times; NaN where fewer than two
    are valid.
    """
    weight = valid.to(values.dtype)
    count = weight.sum(-1, keepdim=True)
    t = (times.to(values) - (weight * times.to(values)).sum(-1, keepdim=True) / count) * weight
    return torch.where(count.squeeze(-1) >= 2, (t * values).sum(-1) / t.square().sum(-1), torch.nan)
