"""What a neural ODE is trained on: the rates of the data, then segments of their trajectories that are shot at."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.errors import InputError
from romkit.integrators.neural_ode.model import NeuralODEModel
from romkit.integrators.samples import LatentSamples
from romkit.solvers import odeint

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


def make_paths(samples: LatentSamples) -> Paths:
    """The trajectories of samples, and of each its context."""
    if samples.inputs.ndim > 3:
        got = f"a stack of shape {tuple(samples.inputs.shape[:-2])}"
        raise InputError("samples", expected="one problem or a stack of them", got=got, fix="flatten the stack")
    times = samples.times
    if times is None:
        fix = "give z (C, T, m) and times (T,), neither joined nor thinned out"
        raise InputError("samples", expected="whole trajectories with their times", got="single ones", fix=fix)
    steps = times.diff()
    if len(times) < 2 or bool((steps <= 0).any()) or not torch.allclose(steps, steps.mean(), rtol=1e-3):
        raise InputError("times", expected="equally spaced times", got=f"{len(times)} others", fix="resample the data")
    parts = (
        part if part.ndim == 3 else part.unsqueeze(0) for part in (samples.inputs, samples.targets, samples.context)
    )
    states, rates, context = (part.unflatten(1, (-1, len(times))) for part in parts)
    if not torch.equal(context, context[:, :, :1].expand_as(context)):
        fix = "fit SINDy, or trajectories of constant context"
        raise InputError("context", expected="one for each trajectory", got="one that moves", fix=fix)
    return Paths(states, rates, context[:, :, 0], steps.mean().item())


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


class Shooting(NamedTuple):
    """Segments of `length` steps; a step of field s is strides[s] (S,) samples long."""

    paths: Paths
    strides: Tensor
    length: int

    def error(self, field: NeuralODEModel, batch: int, noise: float, draw: torch.Generator) -> Tensor:
        """(S,) mean squared error along `batch` random segments, in standard deviations of w."""
        w, _, c, dt = self.paths
        S, C, T, d = w.shape
        path = torch.randint(C, (batch,), generator=draw)
        first = torch.rand(batch, generator=draw, dtype=w.dtype) * (T - self.length * self.strides).unsqueeze(-1)
        index = first.long() + self.strides.unsqueeze(-1) * torch.arange(self.length + 1).view(-1, 1, 1)
        truth = w[torch.arange(S).unsqueeze(-1), path, index]  # (length + 1, S, batch, d)
        start = truth[0] + noise * field.scale.unsqueeze(1) * torch.randn(batch, d, generator=draw, dtype=w.dtype)
        motion, step = field.motion(c[:, path]), dt * self.strides.view(-1, 1, 1)
        ticks = torch.arange(self.length + 1, dtype=w.dtype)
        reached = odeint(lambda t, w: step * motion(t, w), start, ticks)
        return ((reached - truth)[1:] / field.scale.unsqueeze(1)).square().mean((0, 2, 3))


def regression_error(field: NeuralODEModel, paths: Paths, batch: int, draw: torch.Generator) -> Tensor:
    """(S,) mean squared error of the rates at `batch` random samples, in units of `field.rate`."""
    w, rates, c, _ = paths
    path, k = (torch.randint(size, (batch,), generator=draw) for size in w.shape[1:3])
    error = field.right_hand_side(c[:, path])(w[:, path, k]) - rates[:, path, k]
    return (error / field.rate.unsqueeze(1)).square().mean((1, 2))
