"""What a neural ODE is trained on: the rates of the data, then segments of their trajectories that are shot at."""

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.errors import InputError
from romkit.integrators.neural_ode.model import NeuralODEModel
from romkit.integrators.samples import LatentSamples, interval
from romkit.solvers import odeint

STEPS_PER_DEVIATION = 8
"""Default steps while the latent state moves by one standard deviation at its root mean square speed.

The network learns the field that gives the right segments at this step. Where it is too long for the method, that is
another field, and a rollout at a shorter step drifts in phase: on Lorenz96 half as many steps doubled the drift."""


class Paths(NamedTuple):
    """Latent trajectories w (S, C, T, d), rates of the highest order (S, C, T, m), parameters (S or 1, C, T, p), drift
    (S, C, T, m) of z, and dt.

    NaN where samples are missing, in all S alike.
    """

    states: Tensor
    rates: Tensor
    context: Tensor
    drift: Tensor
    dt: float

    @property
    def observed(self) -> Tensor:
        """(C, T) whether a sample is complete."""
        parts = (self.states, self.rates, self.context, self.drift)
        return functools.reduce(torch.logical_and, (part.isfinite().all(-1).all(0) for part in parts))

    def complete(self) -> "Paths":
        """The samples as they are if none is missing, else those that are not, as one path (S, 1, N, ...)."""
        there = self.observed
        if bool(there.all()):
            return self
        return self._replace(states=self.states[:, there].unsqueeze(1), rates=self.rates[:, there].unsqueeze(1))


def make_paths(samples: LatentSamples) -> Paths:
    """The trajectories of samples, and of each its context."""
    if samples.inputs.ndim > 3:
        got = f"a stack of shape {tuple(samples.inputs.shape[:-2])}"
        raise InputError("samples", expected="one problem or a stack of them", got=got, fix="flatten the stack")
    dt = interval(samples)
    parts = (samples.inputs, samples.targets, samples.context, samples.drift)
    stacked = (part if part.ndim == 3 else part.unsqueeze(0) for part in parts)
    return Paths(*(part.unflatten(1, (-1, len(samples.times))) for part in stacked), dt)


def choose_strides(paths: Paths, segment: int, step: float | None) -> Tensor:
    """(S,) samples in one step of a segment."""
    T = paths.states.shape[2]
    longest = (T - 1) // segment
    if step is None:
        m = paths.rates.shape[-1]
        z = paths.complete().states[..., :m].flatten(1, 2)
        speed = _mean((paths.states.diff(dim=2)[..., :m] / paths.dt).square().sum(-1)).sqrt()
        step = z.var(1).sum(-1).sqrt() / speed / STEPS_PER_DEVIATION
        strides = (step / paths.dt).nan_to_num(nan=1.0).round().clamp(min=1, max=max(1, longest)).long()
    else:
        strides = torch.full(paths.states.shape[:1], max(1, round(step / paths.dt)))
    if int(strides.max()) > longest:
        length = segment * int(strides.max())
        fix = "shorten the segment or the step, or give longer trajectories"
        raise InputError("segment", expected=f"at most {T - 1} samples", got=f"{length}", fix=fix)
    return strides


class Shooting(NamedTuple):
    """Segments of `length` steps without missing samples; a step of field s is strides[s] (S,) samples long."""

    paths: Paths
    strides: Tensor
    length: int
    starts: list[Tensor] | None

    @classmethod
    def along(cls, paths: Paths, strides: Tensor, length: int) -> "Shooting":
        """Of all segments that the paths have.

        Raises:
            InputError: every segment has a missing sample.
        """
        observed = paths.observed
        if bool(observed.all()):
            return cls(paths, strides, length, None)
        starts = [_starts(observed, length * int(stride)) for stride in strides]
        if min(map(len, starts)) == 0:
            got, fix = "a missing sample in every one", "shorten the segment or the step, or fit SINDy"
            raise InputError("segment", expected=f"stretches of {length} steps", got=got, fix=fix)
        return cls(paths, strides, length, starts)

    def error(self, field: NeuralODEModel, batch: int, noise: float, draw: torch.Generator) -> Tensor:
        """(S,) mean squared error along `batch` random segments, in standard deviations of w."""
        w, _, c, drift, dt = self.paths
        S, *_, d = w.shape
        path, first = self._draw(batch, draw)
        index = first + self.strides.unsqueeze(-1) * torch.arange(self.length + 1).view(-1, 1, 1)
        each = torch.arange(S).unsqueeze(-1)
        truth = w[each, path, index]  # (length + 1, S, batch, d)
        start = truth[0] + noise * field.scale.unsqueeze(1) * torch.randn(batch, d, generator=draw, dtype=w.dtype)
        step, ticks = dt * self.strides.view(-1, 1, 1), torch.arange(self.length + 1, dtype=w.dtype)
        if moves(c):
            parameters = c.expand(S, *c.shape[1:])[each, path, index]  # (length + 1, S, batch, p)
            beside = torch.nn.functional.pad(drift, (0, d - drift.shape[-1]))[each, path, index]
            motion = lambda t, w: field.motion(_between(parameters, t))(t, w) + _between(beside, t)  # noqa: E731
        else:
            motion = field.motion(c[each if len(c) > 1 else each[:1], path, 0])
        reached = odeint(lambda t, w: step * motion(t, w), start, ticks)
        return ((reached - truth)[1:] / field.scale.unsqueeze(1)).square().mean((0, 2, 3))

    def _draw(self, batch: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        """Paths (batch,), or (S, batch) where samples are missing, and first samples (S, batch) of random segments."""
        w = self.paths.states
        if self.starts is not None:
            picked = [own[torch.randint(len(own), (batch,), generator=draw)] for own in self.starts]
            return torch.stack(picked).unbind(-1)
        path = torch.randint(w.shape[1], (batch,), generator=draw)
        room = (w.shape[2] - self.length * self.strides).unsqueeze(-1)
        return path, (torch.rand(batch, generator=draw, dtype=w.dtype) * room).long()


def moves(c: Tensor) -> bool:
    """Whether parameters (S, C, T, p) vary along a trajectory."""
    return not torch.equal(c, c[:, :, :1].expand_as(c))


def _between(parameters: Tensor, t: Tensor) -> Tensor:
    """Parameters (steps + 1, ...) at t steps, on straight lines between them."""
    k = min(max(int(t), 0), len(parameters) - 2)
    return parameters[k] + (t - k) * (parameters[k + 1] - parameters[k])


def _starts(observed: Tensor, samples: int) -> Tensor:
    """(K, 2) path and first sample of every stretch of `samples` further ones without a missing one."""
    count = torch.nn.functional.pad((~observed).long().cumsum(1), (1, 0))
    return (count[:, samples + 1 :] == count[:, : -samples - 1]).nonzero()


def _mean(values: Tensor) -> Tensor:
    """(S,) mean of (S, C, T) without what is missing."""
    return values.nanmean((1, 2)) if bool(values.isnan().any()) else values.mean((1, 2))


def regression_error(
    field: NeuralODEModel, paths: Paths, batch: int, draw: torch.Generator, there: Tensor | None = None
) -> Tensor:
    """(S,) mean squared error of the rates at `batch` random samples, in units of `field.rate`.

    `there` (K, 2) are path and number of the samples that are not missing, None for all.
    """
    w, rates, c, *_ = paths
    if there is None:
        path, k = (torch.randint(size, (batch,), generator=draw) for size in w.shape[1:3])
    else:
        path, k = there[torch.randint(len(there), (batch,), generator=draw)].unbind(-1)
    error = field.right_hand_side(c[:, path, k])(w[:, path, k]) - rates[:, path, k]
    return (error / field.rate.unsqueeze(1)).square().mean((1, 2))
