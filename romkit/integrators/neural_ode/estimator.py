"""Training of a neural ODE."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
import xarray as xr
from torch import Tensor

from romkit import checks
from romkit.engine.threads import one_thread
from romkit.errors import InputError
from romkit.integrators.neural_ode.losses import Shooting, regression_error
from romkit.integrators.neural_ode.model import NeuralODEModel
from romkit.integrators.neural_ode.network import clip, random_layer
from romkit.integrators.neural_ode.paths import Paths, choose_strides, make_paths
from romkit.integrators.sindy import LatentSamples, differentiated_samples, encoded_samples
from romkit.integrators.sindy.latent_data import ProjectionFamily
from romkit.progress import track

TEST_BATCH = 1024
"""Samples, or segments, by which the errors of a fitted field are measured."""


@dataclass(frozen=True)
class NeuralODE:
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

    Source: Chen, Rubanova, Bettencourt, Duvenaud (2018), Neural ordinary differential equations; multiple shooting
    of Bock & Plitt (1984), with the encoded data as the starts of all segments.
    """

    hidden: tuple[int, ...] = (32, 32)
    segment: int = 8
    step: float | None = None
    noise: float = 0.02
    regression_steps: int = 8000
    shooting_steps: int = 2000
    batch_size: int = 256
    learning_rate: float = 5e-3

    def __post_init__(self):
        if not self.hidden or any(type(width) is not int or width < 1 for width in self.hidden):
            fix = "give hidden=(32, 32), say"
            raise InputError("hidden", expected="one or more positive integers", got=repr(self.hidden), fix=fix)
        if self.step is not None:
            checks.positive("step", self.step)
        for name, minimum in (("segment", 1), ("batch_size", 1), ("regression_steps", 0), ("shooting_steps", 0)):
            checks.at_least(name, getattr(self, name), minimum)
        checks.not_negative("noise", self.noise)
        checks.positive("learning_rate", self.learning_rate)

    def fit(self, projection: ProjectionFamily, data: xr.Dataset, *, seed: int = 0) -> NeuralODEModel:
        """The latent field of a projection on a dataset; of second order where that has a variable `acceleration`.

        Args:
            projection: trained on such data; a stack of seeds trains a stack of fields at once.
            data: in romkit's schema; without `velocity`, latent velocities come from differentiation in time.
            seed: of the initial weights, the batches and the noise, the same for all fields of a stack.

        Raises:
            InputError: times that are not equally spaced, or trajectories shorter than a segment.
        """
        samples = (encoded_samples if "velocity" in data else differentiated_samples)(projection, data)
        return self.fit_samples(samples, torch.tensor(data["time"].values), seed=seed)

    def fit_samples(self, samples: LatentSamples, times: Tensor, *, seed: int = 0) -> NeuralODEModel:
        """The latent field of samples that are whole trajectories one after the other, each at `times` (T,)."""
        paths = make_paths(samples, times)
        draw = torch.Generator().manual_seed(seed)
        shoot = Shooting(paths, choose_strides(paths, self.segment, self.step), self.segment)
        field = _initial_field(self.hidden, samples, paths, draw)
        with one_thread():
            regression = lambda: regression_error(field, paths, self.batch_size, draw)  # noqa: E731
            self._minimise(field, regression, self.regression_steps, "neural ODE: regression")
            shooting = lambda: shoot.error(field, self.batch_size, self.noise, draw)  # noqa: E731
            self._minimise(field, shooting, self.shooting_steps, "neural ODE: shooting")
            with torch.no_grad():
                velocity_error = regression_error(field, paths, TEST_BATCH, draw).sqrt()
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
            clip([parameter.grad for parameter in parameters])
            optimizer.step()


def _initial_field(
    hidden: tuple[int, ...], samples: LatentSamples, paths: Paths, draw: torch.Generator
) -> NeuralODEModel:
    """A stack of fields with equal random weights and the scaling of each one's data."""
    w, rates, c, _ = paths
    S, d, m = len(w), w.shape[-1], rates.shape[-1]
    sizes = (d + c.shape[-1], *hidden, m)
    shift, scale = w.mean((1, 2)), w.flatten(1, 2).std(1)
    if samples.order == 2:
        shift[:, m:], scale[:, m:] = 0.0, w[..., m:].square().mean((1, 2)).sqrt()
    rate = rates.square().mean((1, 2)).sqrt()
    layers = tuple(random_layer(S, *pair, draw, w) for pair in pairwise(sizes))
    unknown = torch.full((S,), torch.nan, dtype=w.dtype)
    return NeuralODEModel(
        layers, shift, _nonzero(scale), _nonzero(rate), samples.parameters, samples.order, unknown, unknown
    )


def _nonzero(scale: Tensor) -> Tensor:
    return torch.where(scale > 0, scale, 1.0)
