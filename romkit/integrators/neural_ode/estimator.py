"""Training of a neural ODE."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from romkit.boundary import Count, Natural, NotNegative, Positive, Widths, checked
from romkit.engine.threads import one_thread
from romkit.integrators.estimator import Estimator
from romkit.integrators.neural_ode.model import NeuralODEModel
from romkit.integrators.neural_ode.shooting import Paths, Shooting, choose_strides, make_paths, regression_error
from romkit.integrators.samples import LatentSamples
from romkit.progress import track

CLIP = 1.0
"""Largest norm of a field's gradient."""

AT_REST = 1e-30
"""Unit of the rate of a latent that never moves, so that it stays where it is, whatever the unit of time."""

TEST_BATCH = 1024
"""Samples, or segments, by which the errors of a fitted field are measured."""


@checked
@dataclass(frozen=True)
class NeuralODE(Estimator):
    """Settings of a fit; `fit` returns the latent field: a tanh network for ż = g(z, c) or z̈ = g(z, ż, c).

    Training has two stages, both by Adam with a cosine schedule: regression on the latent velocities of the data (fast,
    but blind to how errors add up), then multiple shooting. There, short segments of encoded trajectories are
    integrated from their first point, and the loss is the mean squared distance from the rest of the segment, in
    standard deviations of the latent state.

    Args:
        hidden: widths of the hidden layers.
        segment: steps in a segment.
        step: length of a step, rounded to the sampling of the data; by default an eighth of the time in which the
            latent state moves by one standard deviation, and no more than lets a segment fit into a trajectory.
        noise: standard deviation of what is added to the first point of a segment, in those of the latent state. The
            field learns to return to the data, which by themselves say nothing about directions across an attractor.
        regression_steps, shooting_steps: updates in each stage.
        batch_size: samples, or segments, per update.
        learning_rate: highest rate of each stage.

    Samples have to be whole trajectories at equally spaced times: arrays z (C, T, m) with `times` (T,). Segments lie
    where no sample is missing; parameters that move, inputs say, go on straight lines between samples.

    Source: Chen, Rubanova, Bettencourt, Duvenaud (2018), Neural ordinary differential equations; multiple shooting
    of Bock & Plitt (1984), with the encoded data as the starts of all segments.

    Example:
        >>> import torch
        >>> from romkit.integrators import NeuralODE
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> settings = NeuralODE(hidden=(8,), regression_steps=5, shooting_steps=1)
        >>> law = settings.fit_samples(z[None], rate[None], times=t)
        >>> law.latent_dim, law.order
        (2, 1)
    """

    hidden: Widths = (32, 32)
    segment: Count = 8
    step: Positive | None = None
    noise: NotNegative = 0.02
    regression_steps: Natural = 8000
    shooting_steps: Natural = 2000
    batch_size: Count = 256
    learning_rate: Positive = 5e-3

    def _fit(self, samples: LatentSamples, seed: int) -> NeuralODEModel:
        paths = make_paths(samples)
        draw = torch.Generator().manual_seed(seed)
        shoot = Shooting.along(paths, choose_strides(paths, self.segment, self.step), self.segment)
        there = None if bool(paths.observed.all()) else paths.observed.nonzero()
        field = _initial_field(self.hidden, samples, paths, draw)
        with one_thread():
            regression = lambda: regression_error(field, paths, self.batch_size, draw, there)  # noqa: E731
            self._minimise(field, regression, self.regression_steps, "neural ODE: regression")
            shooting = lambda: shoot.error(field, self.batch_size, self.noise, draw)  # noqa: E731
            self._minimise(field, shooting, self.shooting_steps, "neural ODE: shooting")
            with torch.no_grad():
                velocity_error = regression_error(field, paths, TEST_BATCH, draw, there).sqrt()
                trajectory_error = shoot.error(field, TEST_BATCH, 0.0, draw).sqrt()
        fitted = replace(field, velocity_error=velocity_error, trajectory_error=trajectory_error)
        return fitted.detached(single=samples.inputs.ndim == 2)

    def _minimise(self, field: NeuralODEModel, errors: Callable[[], Tensor], steps: int, label: str) -> None:
        """Updates the layers of `field` in place to lower `errors()` (S,), each field of the stack on its own."""
        parameters = [tensor for layer in field.layers for tensor in layer]
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate)
        for k in track(range(steps), label):
            optimizer.param_groups[0]["lr"] = self.learning_rate * (1 + math.cos(math.pi * k / steps)) / 2
            optimizer.zero_grad()
            errors().sum().backward()
            _clip([parameter.grad for parameter in parameters])
            optimizer.step()


def _initial_field(
    hidden: tuple[int, ...], samples: LatentSamples, paths: Paths, draw: torch.Generator
) -> NeuralODEModel:
    """A stack of fields with equal random weights and the scaling of each one's data."""
    w, rates, c, *_ = paths.complete()
    S, d, m = len(w), w.shape[-1], rates.shape[-1]
    sizes = (d + c.shape[-1], *hidden, m)
    shift, scale = w.mean((1, 2)), w.flatten(1, 2).std(1)
    if samples.order == 2:
        shift[:, m:], scale[:, m:] = 0.0, w[..., m:].square().mean((1, 2)).sqrt()
    rate = rates.square().mean((1, 2)).sqrt()
    layers = tuple(_random_layer(S, *pair, draw, w) for pair in pairwise(sizes))
    unknown = torch.full((S,), torch.nan, dtype=w.dtype)
    return NeuralODEModel(
        layers=layers,
        shift=shift,
        scale=torch.where(scale > 0, scale, 1.0),
        rate=torch.where(rate > 0, rate, AT_REST),
        context=samples.parameters,
        order=samples.order,
        source=samples.source,
        control_names=samples.control_names,
        samples=int(paths.observed.sum()),
        velocity_error=unknown,
        trajectory_error=unknown,
    )


def _random_layer(S: int, inputs: int, outputs: int, draw: torch.Generator, like: Tensor) -> tuple[Tensor, Tensor]:
    """Uniform in ±1 / √inputs, as torch.nn.Linear, and the same for each of the S fields."""
    values = (2 * torch.rand(inputs + 1, outputs, generator=draw, dtype=like.dtype) - 1) / math.sqrt(inputs)
    weight, bias = (part.expand(S, *part.shape).clone().requires_grad_() for part in (values[:-1], values[-1]))
    return weight, bias


def _clip(gradients: list[Tensor]) -> None:
    """Scales the gradients (S, ...) of each field to a norm of at most CLIP."""
    norm = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
    for g in gradients:
        g.mul_((CLIP / norm.clamp(min=CLIP)).view(-1, *(1,) * (g.ndim - 1)))
