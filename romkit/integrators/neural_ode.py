"""A neural ODE as latent dynamics: a small network for the latent field, the black box beside Galerkin and SINDy.

model = NeuralODE().fit(ncae, data)
run = romkit.rollout(system, ncae, dynamics=model, F=3.15)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
import xarray as xr
from torch import Tensor

from romkit import checks
from romkit.broadcast import align, matmul
from romkit.errors import InputError
from romkit.integrators.base import LearnedField, tangent_bundle_field
from romkit.integrators.sindy import LatentSamples, Scaling, differentiated_samples, encoded_samples
from romkit.integrators.sindy.latent_data import Projection
from romkit.progress import track
from romkit.solvers import odeint
from romkit.threads import one_thread
from romkit.types import Field, Mass, ProjectionOperator, SecondOrderField

STEPS_PER_DEVIATION = 8
"""Default steps while the latent state moves by one standard deviation at its root mean square speed.

The network learns the field that gives the right segments at this step. Where it is too long for the method, that is
another field, and a rollout at a shorter step drifts in phase: on Lorenz96 half as many steps doubled the drift."""

CLIP = 1.0
"""Largest norm of a field's gradient."""

TEST_BATCH = 1024
"""Samples, or segments, by which the errors of a fitted field are measured."""

Layers = tuple[tuple[Tensor, Tensor], ...]
"""Weights (..., inputs, outputs) and biases (..., outputs); the leading axis, if any, is the stack."""


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

    def fit(self, projection: Projection, data: xr.Dataset, *, seed: int = 0) -> "NeuralODEModel":
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

    def fit_samples(self, samples: LatentSamples, times: Tensor, *, seed: int = 0) -> "NeuralODEModel":
        """The latent field of samples that are whole trajectories one after the other, each at `times` (T,)."""
        paths = _paths(samples, times)
        draw = torch.Generator().manual_seed(seed)
        shoot = _Shooting(paths, _strides(self, paths), self.segment)
        field = _initial_field(self.hidden, samples, paths, draw)
        with one_thread():
            regression = lambda: _velocity_error(field, paths, self.batch_size, draw)  # noqa: E731
            self._minimise(field, regression, self.regression_steps, "neural ODE: regression")
            shooting = lambda: shoot.error(field, self.batch_size, self.noise, draw)  # noqa: E731
            self._minimise(field, shooting, self.shooting_steps, "neural ODE: shooting")
            with torch.no_grad():
                velocity_error = _velocity_error(field, paths, TEST_BATCH, draw).sqrt()
                trajectory_error = shoot.error(field, TEST_BATCH, 0.0, draw).sqrt()
        fitted = replace(field, velocity_error=velocity_error, trajectory_error=trajectory_error)
        return fitted.detached(single=samples.inputs.ndim == 2)

    def _minimise(self, field: "NeuralODEModel", errors: Callable[[], Tensor], steps: int, label: str) -> None:
        """Updates the layers of `field` in place to lower `errors()` (S,), each field of the stack on its own."""
        parameters = [tensor for layer in field.layers for tensor in layer]
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate)
        for k in track(range(steps), label):
            optimizer.param_groups[0]["lr"] = self.learning_rate * (1 + math.cos(math.pi * k / steps)) / 2
            optimizer.zero_grad()
            errors().sum().backward()
            _clip([parameter.grad for parameter in parameters])
            optimizer.step()


@dataclass(frozen=True, eq=False, repr=False)
class NeuralODEModel(LearnedField):
    """The latent field that `NeuralODE.fit` returns. A stack of fields drives a stack of projections.

    The network sees latents as (w - shift) / scale, w = z or (z, ż), and contexts scaled to [-1, 1] over the training
    range; its output is multiplied by `rate`.

    Attributes:
        layers: weights and biases; the inputs are those for w, then those for the context.
        shift, scale: (..., d) mean and standard deviation of w over the training data; the mean of ż counts as 0.
        rate: (..., m) root mean square of ż, or of z̈, over the training data.
        context: names and scaling of the context.
        order: 1 or 2.
        velocity_error: (...) root mean square error of the rates of the training data, in units of `rate`.
        trajectory_error: (...) root mean square error along a segment, in units of `scale`.
    """

    layers: Layers
    shift: Tensor
    scale: Tensor
    rate: Tensor
    context: Scaling
    order: int
    velocity_error: Tensor
    trajectory_error: Tensor

    def latent_field(self, P: ProjectionOperator, f: Field | None = None) -> Field:
        """g(t, z) at the context of P; the full-order field is not used."""
        g = self._at(P, 1)
        return lambda t, z: g(z)

    def latent_acceleration(
        self, P: ProjectionOperator, f: SecondOrderField | None = None, mass: Mass | None = None
    ) -> SecondOrderField:
        """h(t, z, ż) at the context of P; neither the full-order field nor the inertia is used."""
        g = self._at(P, 2)
        return lambda t, z, dz: g(torch.cat([z, dz], dim=-1))

    def bind(self, c: Tensor) -> Callable[[Tensor], Tensor]:
        """w (..., d) -> ż or z̈ (..., m) at a context c (..., p) in physical units."""
        d = self.scale.shape[-1]
        (first, offset), *rest = self._scaled(c)
        if self.context.names:
            towards = matmul(self.context.on(c)(c), first[..., d:, :])
            offset = towards + align(offset, towards)

        def g(w: Tensor) -> Tensor:
            y = _affine(w, first[..., :d, :], offset)
            for weight, bias in rest:
                y = _affine(y.tanh(), weight, bias)
            return y

        return g

    def motion(self, c: Tensor) -> Field:
        """ẇ (..., d) of w = z or (z, ż) at a context c (..., p)."""
        g = self.bind(c)
        if self.order == 1:
            return lambda t, w: g(w)
        return tangent_bundle_field(lambda t, z, dz: g(torch.cat([z, dz], dim=-1)))

    def detached(self, *, single: bool) -> "NeuralODEModel":
        """A copy without gradients; with `single`, the only field of its stack, without the leading axis."""
        plain = lambda tensor: tensor.detach()[0] if single else tensor.detach()  # noqa: E731
        parts = ("shift", "scale", "rate", "velocity_error", "trajectory_error")
        layers = tuple((plain(weight), plain(bias)) for weight, bias in self.layers)
        return replace(self, layers=layers, **{part: plain(getattr(self, part)) for part in parts})

    def _scaled(self, like: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The layers with shift, scale and rate put into the first and the last, so that a call has no more to do."""
        layers = [(weight.to(like), bias.to(like)) for weight, bias in self.layers]
        shift, scale, rate = (value.to(like).unsqueeze(-2) for value in (self.shift, self.scale, self.rate))
        d = scale.shape[-1]
        weight, bias = layers[0]
        inner = weight[..., :d, :] / scale.mT
        layers[0] = torch.cat([inner, weight[..., d:, :]], dim=-2), bias - (shift @ inner).squeeze(-2)
        weight, bias = layers[-1]
        layers[-1] = weight * rate, bias * rate.squeeze(-2)
        return layers

    def __repr__(self) -> str:
        widths = " -> ".join(str(weight.shape[-2]) for weight, _ in self.layers) + f" -> {self.rate.shape[-1]}"
        names = ", ".join(self.context.names) or "none"
        errors = f"velocity {self.velocity_error.max():.1e}, trajectory {self.trajectory_error.max():.1e}"
        return f"NeuralODEModel(order {self.order}, {widths}, context {names}; training errors: {errors})"

    def _at(self, P: ProjectionOperator, order: int) -> Callable[[Tensor], Tensor]:
        if order != self.order:
            raise InputError(
                "dynamics",
                expected=f"a field of order {order}, as the system",
                got=f"one of order {self.order}",
                fix="fit it on data of this system, with `acceleration` if it is mechanical",
            )
        if P.latent_dim != self.rate.shape[-1]:
            expected, fix = f"{self.rate.shape[-1]} latent coordinates", "use the one that the field was fitted on"
            raise InputError("projection", expected=expected, got=str(P.latent_dim), fix=fix)
        p = len(self.context.names)
        checks.last_axis("context", P.context.shape, p, f"({', '.join(self.context.names)})")
        return self.bind(P.context)


class _Paths(NamedTuple):
    """Latent trajectories w (S, C, T, d) with rates of the highest order (S, C, T, m), contexts (S or 1, C, p), dt."""

    states: Tensor
    rates: Tensor
    context: Tensor
    dt: float


class _Shooting(NamedTuple):
    """Segments of `length` steps; a step of field s is strides[s] (S,) samples long."""

    paths: _Paths
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


def _velocity_error(field: NeuralODEModel, paths: _Paths, batch: int, draw: torch.Generator) -> Tensor:
    """(S,) mean squared error of the rates at `batch` random samples, in units of `field.rate`."""
    w, rates, c, _ = paths
    path, k = (torch.randint(size, (batch,), generator=draw) for size in w.shape[1:3])
    error = field.bind(c[:, path])(w[:, path, k]) - rates[:, path, k]
    return (error / field.rate.unsqueeze(1)).square().mean((1, 2))


def _paths(samples: LatentSamples, times: Tensor) -> _Paths:
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
    return _Paths(states, rates, context[:, ::T], steps.mean().item())


def _strides(plan: NeuralODE, paths: _Paths) -> Tensor:
    """(S,) samples in one step of a segment."""
    T = paths.states.shape[2]
    longest = (T - 1) // plan.segment
    if plan.step is None:
        m = paths.rates.shape[-1]
        z = paths.states[..., :m].flatten(1, 2)
        speed = (paths.states.diff(dim=2)[..., :m] / paths.dt).square().sum(-1).mean((1, 2)).sqrt()
        step = z.var(1).sum(-1).sqrt() / speed / STEPS_PER_DEVIATION
        strides = (step / paths.dt).round().clamp(min=1, max=max(1, longest)).long()
    else:
        strides = torch.full(paths.states.shape[:1], max(1, round(plan.step / paths.dt)))
    if int(strides.max()) > longest:
        length = plan.segment * int(strides.max())
        fix = "shorten the segment or the step, or give longer trajectories"
        raise InputError("segment", expected=f"at most {T - 1} samples", got=f"{length}", fix=fix)
    return strides


def _initial_field(hidden: tuple[int, ...], samples: LatentSamples, paths: _Paths, draw: torch.Generator):
    """A stack of fields with equal random weights and the scaling of each one's data."""
    w, rates, c, _ = paths
    S, d, m = len(w), w.shape[-1], rates.shape[-1]
    sizes = (d + c.shape[-1], *hidden, m)
    shift, scale = w.mean((1, 2)), w.flatten(1, 2).std(1)
    if samples.order == 2:
        shift[:, m:], scale[:, m:] = 0.0, w[..., m:].square().mean((1, 2)).sqrt()
    rate = rates.square().mean((1, 2)).sqrt()
    layers = tuple(_layer(S, *pair, draw, w) for pair in pairwise(sizes))
    unknown = torch.full((S,), torch.nan, dtype=w.dtype)
    return NeuralODEModel(
        layers, shift, _nonzero(scale), _nonzero(rate), samples.parameters, samples.order, unknown, unknown
    )


def _layer(S: int, inputs: int, outputs: int, draw: torch.Generator, like: Tensor) -> tuple[Tensor, Tensor]:
    """Uniform in ±1 / √inputs, as torch.nn.Linear, and the same for each of the S fields."""
    values = (2 * torch.rand(inputs + 1, outputs, generator=draw, dtype=like.dtype) - 1) / math.sqrt(inputs)
    weight, bias = (part.expand(S, *part.shape).clone().requires_grad_() for part in (values[:-1], values[-1]))
    return weight, bias


def _affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W + b along the last axis of x, for one layer or one per seed; b may have axes of x as well."""
    if x.ndim == weight.ndim == 3 and len(x) == len(weight):
        return torch.baddbmm(bias if bias.ndim == 3 else bias.unsqueeze(1), x, weight)
    y = matmul(x, weight)
    return y + align(bias, y)


def _clip(gradients: list[Tensor]) -> None:
    """Scales the gradients (S, ...) of each field to a norm of at most CLIP."""
    norm = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
    for g in gradients:
        g.mul_((CLIP / norm.clamp(min=CLIP)).view(-1, *(1,) * (g.ndim - 1)))


def _nonzero(scale: Tensor) -> Tensor:
    return torch.where(scale > 0, scale, 1.0)
