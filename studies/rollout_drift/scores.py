"""What is measured on rollouts: how far, how fast and in what way they leave the truth."""

import torch
from torch import Tensor

from romkit.core.types import Field
from romkit.metrics import diverged, hellinger_distance, manifold_distance, nrmse, peak_energy_drift, valid_time
from romkit.projections import Operator
from romkit.systems import MechanicalSystem
from romkit.systems.problem import Parts
from studies.rollout_drift.stability import lyapunov_sum
from studies.rollout_drift.travelling_wave import amplitude_drift, phase_drift, wave_number_agreement

QUANTILES = (0.1, 0.5, 0.9)
"""Of the error over contexts, along time."""
CURVE = 60
"""Times of the error curve, equally spaced in their logarithm."""
SAMPLES = 100
"""Latent states, from the second half of a rollout, over which its stability is averaged."""


Members = dict[str, Tensor]
"""Scores (seed, context) by name."""


def scores(times: Tensor, truth: Tensor, rom: Tensor, P: Operator, std: Tensor, more: Members) -> dict[str, tuple]:
    """Dimensions and values of each score of rollouts.

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
    curves = torch.quantile(errors[..., kept].nan_to_num(nan=torch.inf), torch.tensor(QUANTILES).to(errors), dim=1)
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
    """How a travelling wave drifts: (seed, context) each."""
    return {
        "phase_drift": phase_drift(times, truth, rom),
        "amplitude_drift": amplitude_drift(times, truth, rom),
        "wave_number_agreement": wave_number_agreement(truth, rom),
    }


def stability_scores(field: Field, states: Tensor) -> Members:
    """Whether a latent field draws neighbours in to the trajectories (..., T, m) that it made: (seed, context) each."""
    half = states.shape[-2] // 2
    return {"lyapunov_sum": lyapunov_sum(field, states[..., half :: max(1, half // SAMPLES), :])}


def energy_scores(system: MechanicalSystem, context: Tensor, truth: Parts, rom: Parts) -> Members:
    """How well a motion keeps its energy, from positions and velocities: (seed, context) each."""
    start = system.energy(context)(*(x[:, :1] for x in truth))[..., 0]
    energy = system.energy(context.expand(*rom[0].shape[:2], -1))(*rom)
    return {"peak_energy_drift": peak_energy_drift(energy, start.expand(energy.shape[:2]))}


def curve_indices(number: int) -> Tensor:
    """Indices of up to CURVE of `number` times, 0 not among them, equally spaced in their logarithm."""
    return torch.logspace(0, torch.log10(torch.tensor(number - 1.0)).item(), CURVE).round().long().unique()
