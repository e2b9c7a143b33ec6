"""Metrics: each is one function of tensors, with its definition, units and source.

The error of a forecast is one everywhere: `nrmse` in the deviations of `pool_units`, over time or its
mean.
"""

import functools
import math
from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np
import torch
import xarray as xr
from annotated_types import Ge, Le
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Count, Positive, Times, validated
from romkit.core.errors import InputError
from romkit.core.tensors import divisor
from romkit.core.types import Array
from romkit.projections import Operator
from romkit.projections.frame import scale_groups

Vectors = Annotated[Tensor, functools.partial(tensors.axes, names="n")]
Energies = Annotated[Tensor, functools.partial(tensors.axes, names="T")]
Series = Annotated[Tensor, functools.partial(tensors.axes, names="T n")]
Samples = Annotated[Tensor, functools.partial(tensors.axes, names="N m")]
"""Tensors with these last axes, none of them empty."""

VALID_THRESHOLD = 0.5
"""NRMSE at which a forecast stops being valid."""


@validated
def diverged(states: Series) -> Tensor:
    """(..., T) true from the first time on at which a component of states (..., T, n) is not
    finite.

    Once diverged, diverged for good, as in the status of a solver (`romkit.solvers.Status`). The
    mean over members is the share that has diverged by each time.

    Example:
        >>> import torch
        >>> import romkit
        >>> states = torch.tensor([[1.0], [torch.nan], [2.0]])
        >>> romkit.metrics.diverged(states)  # for good
        tensor([False,  True,  True])
    """
    return ~states.isfinite().all(-1).cummin(-1).values


def pool_units(std: Array, data: xr.Dataset) -> Array:
    """Return the deviations σ (n,) in which errors are measured: one for all components of a unit,
    or without units of one variable, the root mean square of their standard deviations; 1 where all
    of these are constant.

    Components that hardly move, as cells ahead of a front or the last coordinates in a basis, then
    count as little as they matter.

    Args:
        std: (n,) standard deviation of each component.
        data: dataset with `state`, whose units and variables make the groups.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> std = np.zeros(36)
        >>> std[:9] = 2.0  # of a quarter of the ring
        >>> romkit.metrics.pool_units(std, data)[[0, 35]]
        array([1., 1.])
    """
    group = scale_groups(data)
    square = np.bincount(group, weights=np.square(std)) / np.bincount(group)
    return divisor(np.sqrt(square)[group])


def deviations(data: xr.Dataset) -> Array:
    """Return the deviations (n,) of data in which errors are measured, as `pool_units` has them.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> romkit.metrics.deviations(data).shape
        (36,)
    """
    return pool_units(component_deviation(data), data)


def component_deviation(data: xr.Dataset) -> Array:
    """Return the standard deviation (n,) of each component, without what is missing.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> romkit.metrics.component_deviation(data).shape
        (36,)
    """
    return reduce_chunks(np.nanstd, data["state"].values)


def reduce_chunks(statistic: Callable[..., Array], states: Array, *, piece: int = 2**20) -> Array:
    """Return a statistic (n,) over runs and times of states (C, T, n), in pieces of so many numbers:
    those that look for NaN take the memory of what they are given two or three times.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> romkit.metrics.reduce_chunks(np.nanmean, np.arange(6.0).reshape(1, 2, 3))
        array([1.5, 2.5, 3.5])
    """
    number = max(1, min(states.shape[-1], math.ceil(states.size / piece)))
    pieces = np.array_split(states, number, axis=-1)
    return np.concatenate([statistic(part.astype(float), axis=(0, 1)) for part in pieces])


@validated
def nrmse(truth: Vectors, rom: Tensor, std: Tensor) -> Tensor:
    """NRMSE(t) = √(mean over components of ((x - x̂) / σ)²): (..., T, n) -> (..., T). NaN where x̂
    is.

    σ (n,) is a standard deviation over the training data: everywhere in romkit that of the
    component's unit (`pool_units`). Of each component alone it is the NRMSE of Vlachas et al. (2020),
    Backpropagation algorithms and reservoir computing, eq. 22, where components that hardly move
    count as much as the others.

    Example:
        >>> import torch
        >>> import romkit
        >>> truth = torch.zeros(5, 2)  # times, components
        >>> romkit.metrics.nrmse(truth, truth + 0.3, std=torch.tensor([1.0, 1.0]))
        tensor([0.3000, 0.3000, 0.3000, 0.3000, 0.3000])
    """
    checks.last_axis("rom", rom.shape, truth.shape[-1], "as the truth")
    checks.last_axis("std", std.shape, truth.shape[-1], "as the truth")
    tensors.broadcast(truth=truth, std=std)
    tensors.broadcast(truth=truth, rom=rom)
    return ((truth - rom) / std).square().mean(-1).sqrt()


@validated
def valid_time(times: Times, errors: Tensor, threshold: Positive = VALID_THRESHOLD) -> Tensor:
    """(...) valid prediction time: the last time before NRMSE (..., T) exceeds `threshold` or
    becomes NaN.

    It equals the length of the run where the threshold is never crossed, and 0 where the first
    error exceeds it.
    Source: Vlachas et al. (2020), eq. 23.

    Example:
        >>> import torch
        >>> import romkit
        >>> times, errors = torch.tensor([0.0, 0.1, 0.2, 0.3]), torch.tensor([0.0, 0.2, 0.6, 0.4])
        >>> romkit.metrics.valid_time(times, errors)
        tensor(0.1000)
    """
    checks.last_axis("errors", errors.shape, len(times), "one for each time")
    valid = (errors <= threshold).cummin(-1).values
    last = valid.sum(-1).clamp(min=1) - 1
    return times[last] - times[0]


class Reconstruction(NamedTuple):
    """Root mean square errors of positions and of velocities, in physical units.

    Example:
        >>> import torch
        >>> import romkit
        >>> P, x = romkit.load("ncae-lorenz96")(F=3.15), 3.15 + torch.rand(4, 10, 36)
        >>> errors = romkit.metrics.reconstruction_rmse(P, x, torch.zeros_like(x))
        >>> errors.position.shape, errors.velocity.tolist()
        (torch.Size([4]), [0.0, 0.0, 0.0, 0.0])
    """

    position: Tensor
    velocity: Tensor


@validated
def reconstruction_rmse(P: Operator, x: Series, v: Tensor) -> Reconstruction:
    """RMSE of P(x) against x and of DP(x) v against v, over time and components: (..., T, n) ->
    (...).

    The mean over trajectories is a root mean square too: `rmse.square().mean().sqrt()`.
    Source: Adriaens et al. (2026), section 4.1, "Metrics".

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=3.15)
        >>> x, v, _ = romkit.data.snapshots(data)
        >>> pod = romkit.fit("pod", data, latent_dim=5).double()
        >>> errors = romkit.metrics.reconstruction_rmse(pod(F=3.15), x, v)
        >>> bool(errors.position < x.std())
        True
    """
    tensors.same_shape(x=x, v=v)
    value, tangent = P.jvp(x, v)
    return Reconstruction(
        *((a - b).square().mean((-1, -2)).sqrt() for a, b in ((x, value), (v, tangent)))
    )


@validated
def manifold_distance(P: Operator, x: Tensor, std: Tensor) -> Tensor:
    """(...) distance ‖x - P(x)‖ of states x (..., n) from the learned manifold, in the units of
    NRMSE (see `nrmse`).

    Zero on the manifold of an idempotent projection. P(x) is a point of the manifold but not the
    nearest one, so this is an upper bound of the distance to it. For decoded latents x = φ(z) it is
    how far one more projection would move
    them: zero for exact projections, and what makes others drift when they are re-encoded.

    Args:
        P: the projection operator, at the context of the states.
        x: (..., n) states in physical units.
        std: (n,) deviations in which the distance is measured, `pool_units` of
            `projection.frame.state_std` say.

    NaN where a member has diverged.
    Source: idempotency error of Adriaens et al. (2026), section 4.1, "Metrics", in the norm of
    Vlachas et al. (2020).

    Example:
        >>> import torch
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96").double()
        >>> P, std = ncae(F=3.15), ncae.frame.state_std
        >>> x = 3.15 + torch.rand(5, 36, dtype=torch.float64)
        >>> bool(romkit.metrics.manifold_distance(P, x, std).min() > 0.1)
        True
        >>> bool(romkit.metrics.manifold_distance(P, P(x), std).max() < 1e-9)  # on the manifold
        True
    """
    checks.last_axis("x", x.shape, P.state_size, "state components")
    return nrmse(x, P(x), std)


@validated
def idempotency_error(P: Operator, x: Tensor, *, steps: Count = 1) -> Tensor:
    """Return (steps, ...) norms ‖Pᵏ⁺¹(x) - Pᵏ(x)‖, k = 1 ... steps, of states x (..., n).

    Source: Adriaens et al. (2026), section 4.3.

    Example:
        >>> import torch
        >>> import romkit
        >>> P = romkit.load("ncae-lorenz96").double()(F=3.15)
        >>> x = 3.15 + torch.rand(10, 36, dtype=torch.float64)
        >>> errors = romkit.metrics.idempotency_error(P, x, steps=3)
        >>> errors.shape, bool(errors.max() < 1e-9)
        (torch.Size([3, 10]), True)
    """
    errors, y = [], P(x)
    for _ in range(steps):
        y, before = P(y), y
        errors.append((y - before).norm(dim=-1))
    return torch.stack(errors)


@validated
def latent_condition_number(z: Samples) -> Tensor:
    """(...) condition number CN = λ_max / λ_min of the covariance of latents z (..., N, m) over
    their N samples.

    Dimensionless, at least 1: 1 for axes of equal scale, infinite where an axis has collapsed. NaN
    where a latent is not finite.

    Example:
        >>> import torch
        >>> import romkit
        >>> t = torch.linspace(0, 2 * torch.pi, 101)[:-1]
        >>> romkit.metrics.latent_condition_number(torch.stack([t.cos(), 3 * t.sin()], dim=-1)).round(decimals=3)
        tensor(9.)
    """
    finite = z.isfinite().all(-1).all(-1)
    z = torch.where(
        finite.unsqueeze(-1).unsqueeze(-1), z, 0.0
    )  # eigvalsh fails for all members if one is not finite
    centred = z - z.mean(-2, keepdim=True)
    eigenvalues = torch.linalg.eigvalsh(centred.mT @ centred / z.shape[-2])
    number = torch.where(
        eigenvalues[..., 0] > 0, eigenvalues[..., -1] / eigenvalues[..., 0], torch.inf
    )
    return torch.where(finite, number, torch.nan)


@validated
def latent_speed_variation(dz: Samples) -> Tensor:
    """(...) coefficient of variation CV = std / mean of the speed ‖ż‖ over the N samples of dz
    (..., N, m).

    Dimensionless: 0 for a motion of constant speed. The latent velocity is ż = Dρ(x) ẋ,
    `P.encode_jvp(x, v).tangent`. NaN where a velocity is not finite or nothing moves.

    Example:
        >>> import torch
        >>> import romkit
        >>> t = torch.linspace(0, 2 * torch.pi, 101)
        >>> rate = torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> bool(romkit.metrics.latent_speed_variation(rate) < 1e-6)  # constant speed
        True
        >>> bool(romkit.metrics.latent_speed_variation(t[:, None] * rate) > 0.5)
        True
    """
    # of all samples, not an estimate for a population
    speed = dz.norm(dim=-1)
    return speed.std(-1, correction=0) / speed.mean(-1)


WIDEST = 10_000
"""Bins; a wider Gaussian is no smoothing."""

Smoothing = Annotated[float, Ge(0), Le(WIDEST)]

SMOOTHING = 1.0
"""Standard deviation of the spectral smoothing, in frequency bins (one bin is 1 / (T · dt))."""


@validated
def power_density(states: Series, *, smoothing: Smoothing = SMOOTHING) -> Tensor:
    """(..., T // 2 + 1, n) power spectrum over time of each component of states (..., T, n), with
    sum one.

    The frequencies are those of `torch.fft.rfftfreq(T, dt)`. The mean is removed; the squared
    magnitudes are smoothed over frequency by a Gaussian, then normalised. A component that does not
    change has all its density at frequency zero, and one that is not finite at some time has NaN.

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
    centred = states - states.mean(-2, keepdim=True)
    power = _smoothed(torch.fft.rfft(centred, dim=-2).abs().square(), smoothing)
    low, high = states.amin(-2, keepdim=True), states.amax(-2, keepdim=True)
    rounding = torch.finfo(states.dtype).eps * torch.maximum(high, -low)
    still = (high - low <= rounding) & rounding.isfinite()
    at_zero = torch.zeros_like(power)
    at_zero[..., 0, :] = 1.0
    return torch.where(still, at_zero, power / power.sum(-2, keepdim=True))


@validated
def hellinger_distance(truth: Series, rom: Series, *, smoothing: Smoothing = SMOOTHING) -> Tensor:
    """(..., n) Hellinger distance between the power spectra of truth and rom (..., T, n), component
    by component.

    H = √(½ Σ_ω (√p - √q)²) = √(1 - Σ_ω √(p q)) with the densities p, q of `power_density`; from 0
    (the same spectrum) to 1 (no frequency in common). Blind to phase, so that a rollout that is
    late is not punished, and to amplitude. What is usually reported is the mean over components.

    A member that diverged, at any time, is as far from the truth as can be: 1.

    Args:
        truth: (..., T, n) at equal time steps; where it has fewer leading axes than rom, members
            share it.
        rom: (..., T, n) at the same times.
        smoothing: standard deviation of the Gaussian in frequency bins. Spectra of periodic motions
            are lines, and without smoothing a frequency that is wrong by one bin counts as much as
            one that is wrong by many.

    Raises:
        InputError: truth and rom have different numbers of times, or smoothing is negative.

    Source: Mikhaeil, Monfared, Durstewitz (2022), On the difficulty of learning chaotic dynamics
    with RNNs, where it scores reconstructed attractors.

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
    checks.last_axis("rom", rom.shape, truth.shape[-1], "as the truth")
    if truth.shape[-2] != rom.shape[-2]:
        raise InputError(
            "rom",
            expected=f"{truth.shape[-2]} times, as the truth has",
            got=rom.shape[-2],
            fix="compare equal runs",
        )
    tensors.broadcast(truth=truth, rom=rom)
    p, q = power_density(truth, smoothing=smoothing), power_density(rom, smoothing=smoothing)
    return ((p.sqrt() - q.sqrt()).square().sum(-2) / 2).sqrt().clamp(max=1.0).nan_to_num(nan=1.0)


def _smoothed(power: Tensor, sigma: float) -> Tensor:
    """Power (..., F, n) convolved over F with a Gaussian that is cut at 4 σ."""
    from scipy.ndimage import gaussian_filter1d  # slow to import, and seldom needed

    if sigma < 0.125:  # which reaches no other bin
        return power
    smooth = gaussian_filter1d(
        power.numpy(force=True), sigma, axis=-2, mode="constant", truncate=4.0
    )
    return torch.from_numpy(smooth).to(power)


@validated
def energy_drift(energy: Energies, scale: Tensor) -> Tensor:
    """(E(t) - E(0)) / E₀: (..., T) -> (..., T), dimensionless; zero at all times for an energy that
    is kept.

    Args:
        energy: (..., T) of the reduced trajectory, for the pendulum `system.energy(context)(q, q̇)`
            in J, with q = φ(z) and q̇ = Dφ(z) ż.
        scale: (...) energy E₀ > 0 of the motion above its equilibrium, in the same unit: the
            initial energy of the full model, where the equilibrium has energy zero, as the
            pendulum's has.

    From the divergence of a member on its energy is NaN, and so is its drift; `peak_energy_drift`
    scores it.
    Source: Hairer, Lubich, Wanner (2006), Geometric Numerical Integration, section I.1 (error of
    the Hamiltonian).

    Example:
        >>> import torch
        >>> import romkit
        >>> romkit.metrics.energy_drift(torch.tensor([2.0, 2.0, 2.5]), scale=torch.tensor(2.0))
        tensor([0.0000, 0.0000, 0.2500])
    """
    tensors.broadcast(energy=energy[..., 0], scale=scale)
    return (energy - energy[..., :1]) / scale.unsqueeze(-1)


@validated
def peak_energy_drift(energy: Tensor, scale: Tensor) -> Tensor:
    """(...) largest |`energy_drift`| over time, infinite for a diverged member.

    Example:
        >>> import torch
        >>> import romkit
        >>> energy = torch.tensor([[2.0, 1.5, 2.0], [2.0, 2.5, torch.nan]])
        >>> romkit.metrics.peak_energy_drift(energy, scale=torch.tensor([2.0, 2.0]))
        tensor([0.2500,    inf])
    """
    return energy_drift(energy, scale).abs().nan_to_num(nan=torch.inf, posinf=torch.inf).amax(-1)
