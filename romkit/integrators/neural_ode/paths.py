"""Latent trajectories, and the segments of them that are shot at."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.errors import InputError
from romkit.integrators.sindy import LatentSamples

STEPS_PER_DEVIATION = 8
"""Default steps while the latent state moves by one standard deviation at its root mean square speed.

The network learns the field that gives the right segments at this step. Where it is too long for the method, that is
another field, and a rollout at a shorter step drifts in phase: on Lorenz96 half as many steps doubled the drift."""


class Paths(NamedTuple):
    """Latent trajectories w (S, C, T, d) with rates of the highest order (S, C, T, m), contexts (S or 1, C, p), dt."""

    states: Tensor
    rates: Tensor
    context: Tensor
    dt: float


def make_paths(samples: LatentSamples, times: Tensor) -> Paths:
    if samples.inputs.ndim > 3:
        got = f"a stack of shape {tuple(samples.inputs.shape[:-2])}"
        raise InputError("samples", expected="one problem or a stack of them", got=got, fix="flatten the stack")
    T = len(times)
    steps = times.double().diff()
    if T < 2 or bool((steps <= 0).any()) or not torch.allclose(steps, steps.mean(), rtol=1e-3):
        raise InputError("times", expected="equally spaced times", got=f"{T} others", fix="resample the data")
    if len(samples) % T:
        expected, fix = f"whole trajectories of {T} samples", "give all samples of every trajectory, in their order"
        raise InputError("samples", expected=expected, got=f"{len(samples)} samples", fix=fix)
    stacked = [part if part.ndim == 3 else part.unsqueeze(0) for part in (samples.inputs, samples.targets)]
    context = samples.context if samples.context.ndim == 3 else samples.context.unsqueeze(0)
    states, rates = (part.unflatten(1, (-1, T)) for part in stacked)
    return Paths(states, rates, context[:, ::T], steps.mean().item())


def choose_strides(paths: Paths, segment: int, step: float | None) -> Tensor:
    """(S,) samples in one step of a segment."""
    T = paths.states.shape[2]
    longest = (T - 1) // segment
    if step is None:
        m = paths.rates.shape[-1]
        z = paths.states[..., :m].flatten(1, 2)
        speed = (paths.states.diff(dim=2)[..., :m] / paths.dt).square().sum(-1).mean((1, 2)).sqrt()
        step = z.var(1).sum(-1).sqrt() / speed / STEPS_PER_DEVIATION
        strides = (step / paths.dt).round().clamp(min=1, max=max(1, longest)).long()
    else:
        strides = torch.full(paths.states.shape[:1], max(1, round(step / paths.dt)))
    if int(strides.max()) > longest:
        length = segment * int(strides.max())
        fix = "shorten the segment or the step, or give longer trajectories"
        raise InputError("segment", expected=f"at most {T - 1} samples", got=f"{length}", fix=fix)
    return strides
