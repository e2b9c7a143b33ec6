"""Neural ODEs: a small network for the latent field, trained on rates and then on segments of
trajectories.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.adam import Adam
from romkit.core.boundary import Count, Natural, NotNegative, Positive, Widths, validated
from romkit.core.errors import InputError
from romkit.core.runtime import bars, track
from romkit.core.tensors import divisor
from romkit.core.types import Field
from romkit.data.controls import course
from romkit.engine.threads import one_thread
from romkit.laws.base import Estimator
from romkit.laws.network import Layers, NeuralODEModel
from romkit.laws.samples import LatentSamples, interval
from romkit.laws.scaling import Scaling
from romkit.solvers import odeint

STEPS_PER_DEVIATION = 8
"""Default steps while the latent state moves by one standard deviation at its root mean square
speed.

The network learns the field that gives the right segments at this step. Where it is too long for
the method, that is another field, and a rollout at a shorter step drifts in phase: on Lorenz96 half
as many steps doubled the drift."""


class Paths(NamedTuple):
    """Latent trajectories w (S, C, T, d), rates of the highest order (S, C, T, m), parameters (S or
    1, C, T, p), drift (S, C, T, m) of z, which samples are complete (C, T); scaled, with the
    `origin` and `unit` (S, d) of w.

    The scaled w is (w - origin) / unit, time is in sampling intervals `dt`, and numbers of any
    dtype are rounded to single precision. So training sees the same numbers whatever the units of
    the data, ties in rounding apart, and does not amplify differences of rounding. Numbers are NaN
    where samples are missing, in all S alike.
    """

    states: Tensor
    rates: Tensor
    context: Tensor
    drift: Tensor
    observed: Tensor
    origin: Tensor
    unit: Tensor
    dt: float
    held: int = 0
    """Number of inputs that are held, the last parameters."""


def make_paths(samples: LatentSamples) -> Paths:
    """Scaled trajectories of samples, and the context of each."""
    if samples.inputs.ndim > 3:
        expected = "one problem or a stack of them"
        got = f"a stack of shape {tuple(samples.inputs.shape[:-2])}"
        raise InputError("samples", expected=expected, got=got, fix="flatten the stack")
    dt = interval(samples)
    order = samples.order
    context = samples.parameters.on(samples.context)(samples.context)
    w, rates, c, drift = samples.paths(samples.inputs, samples.targets, context, samples.drift)
    assert samples.times is not None  # of whole trajectories
    observed = samples.observed.unflatten(0, (-1, len(samples.times)))  # (C, T)
    z = w[:, observed][..., : rates.shape[-1]]  # (S, N, m)
    mean = z.mean(1)
    deviation = z.std(1)
    deviation = divisor(deviation)
    still = torch.zeros_like(mean)
    origin = torch.cat([mean, still][:order], dim=-1)
    unit = torch.cat([deviation, deviation / dt][:order], dim=-1)
    per = deviation[:, None, None]
    scaled = [
        (w - origin[:, None, None]) / unit[:, None, None],
        rates * dt**order / per,
        c,
        drift * dt / per,
    ]
    held = 0
    if samples.held:
        held = len(samples.control_names)
    w, rates, c, drift = (numbers.float().to(numbers) for numbers in scaled)
    return Paths(w, rates, c, drift, observed, origin, unit, dt, held)


def choose_strides(paths: Paths, segment: int, step: float | None) -> Tensor:
    """Return samples (S,) in one step of a segment."""
    S, _, T, _ = paths.states.shape
    longest = (T - 1) // segment
    if step is not None:
        # a longer one is refused below, and may be too long for an integer
        stride = max(1, round(min(step / paths.dt, T)))
        strides = torch.full((S,), stride, device=paths.states.device)
    else:
        strides = _motion_steps(paths)
        strides = strides.clamp(min=1, max=max(1, longest)).long()
    largest = int(strides.max())
    if largest > longest:
        expected = f"at most {T - 1} samples"
        fix = "shorten the segment or the step, or give longer trajectories"
        raise InputError("segment", expected=expected, got=f"{segment * largest}", fix=fix)
    return strides


def _motion_steps(paths: Paths) -> Tensor:
    """Return samples (S,) in a step of which there are `STEPS_PER_DEVIATION` while the latents move
    by one deviation; 1 where they do not move.
    """
    m = paths.rates.shape[-1]
    unit = paths.unit[:, None, None, :m]
    z = paths.states[..., :m] * unit  # (S, C, T, m)
    step = z.diff(dim=2).square().sum(-1)
    speed = step.nanmean((1, 2)).sqrt()
    variance = z[:, paths.observed].var(1)
    deviation = variance.sum(-1).sqrt()
    samples = deviation / speed / STEPS_PER_DEVIATION
    return samples.nan_to_num(nan=1.0).round()


Index = tuple[Tensor, Tensor, Tensor]
"""Problem (S, 1), path and sample (length + 1, S, batch) of segments."""


class Shooting(NamedTuple):
    """Segments of `length` steps without missing samples; a step of field s is strides[s] (S,)
    samples long.

    Where samples are missing, `starts` has the path and the first sample (K, 2) of each segment of
    each field.
    """

    paths: Paths
    strides: Tensor
    length: int
    starts: list[Tensor] | None

    @classmethod
    def cut(cls, paths: Paths, strides: Tensor, length: int) -> "Shooting":
        """Return all segments of the paths.

        Raises:
            InputError: every segment has a missing sample.
        """
        missing = ~paths.observed
        if not bool(missing.any()):
            return cls(paths, strides, length, None)
        count = missing.long().cumsum(1)
        count = torch.nn.functional.pad(count, (1, 0))  # before each sample
        starts = []
        for size in (length * strides).tolist():
            before = count[:, : -size - 1]
            behind = count[:, size + 1 :]
            complete = behind == before
            starts.append(complete.nonzero())
        if min(map(len, starts)) == 0:
            expected = f"stretches of {length} steps"
            got = "a missing sample in every one"
            fix = "shorten the segment or the step, or fit SINDy"
            raise InputError("segment", expected=expected, got=got, fix=fix)
        return cls(paths, strides, length, starts)

    def error(
        self, field: NeuralODEModel, batch: int, noise: float, draw: torch.Generator
    ) -> Tensor:
        """Return mean squared error (S,) along `batch` random segments, in standard deviations of
        w.
        """
        w = self.paths.states
        index = self._drawn(batch, draw)
        truth = w[index]  # (length + 1, S, batch, d)
        # noise makes the field return to the data
        # random numbers are those of the CPU, so that fits are the same on every device
        displaced = torch.randn(batch, w.shape[-1], generator=draw, dtype=w.dtype).to(w)
        scale = field.scale.unsqueeze(1)
        start = truth[0] + noise * scale * displaced
        step = self.strides.view(-1, 1, 1)
        ticks = torch.arange(self.length + 1, dtype=w.dtype, device=w.device)
        motion = self._motion(field, index, ticks)
        reached = odeint(lambda t, w: step * motion(t, w), start, ticks)
        error = (reached - truth)[1:] / scale
        return error.square().mean((0, 2, 3))

    def _drawn(self, batch: int, draw: torch.Generator) -> "Index":
        """Return places of random segments in the paths."""
        S, C, T, _ = self.paths.states.shape
        w = self.paths.states
        if self.starts is None:
            path = torch.randint(C, (batch,), generator=draw).to(w.device)
            room = (T - self.length * self.strides).unsqueeze(-1)
            share = torch.rand(batch, generator=draw, dtype=w.dtype).to(w)
            begin = (share * room).long()
        else:
            picked = []
            for starts in self.starts:
                rows = torch.randint(len(starts), (batch,), generator=draw)
                picked.append(starts[rows])
            path, begin = torch.stack(picked).unbind(-1)
        steps = torch.arange(self.length + 1, device=w.device).view(-1, 1, 1)
        sample = begin + self.strides.unsqueeze(-1) * steps
        problem = torch.arange(S, device=w.device).unsqueeze(-1)
        return problem, path, sample

    def _motion(self, field: NeuralODEModel, index: "Index", ticks: Tensor) -> Field:
        """Return field along segments, with the context and the drift that they have."""
        c = self.paths.context
        drift = self.paths.drift
        S, *_, d = self.paths.states.shape
        problem, path, _ = index
        start = c[:, :, :1]
        if torch.equal(c, start.expand_as(c)):
            if len(c) == 1:
                problem = problem[:1]
            return field.motion(c[problem, path, 0])
        c = c.expand(S, *c.shape[1:])
        context = course(ticks, c[index], self.paths.held)
        # the drift is that of positions, behind which velocities stand
        missing = d - drift.shape[-1]
        drift = torch.nn.functional.pad(drift, (0, missing))
        beside = course(ticks, drift[index])
        return lambda t, w: field.motion(context(t))(t, w) + beside(t)


def regression_error(
    field: NeuralODEModel,
    paths: Paths,
    batch: int,
    draw: torch.Generator,
    rows: Tensor | None = None,
) -> Tensor:
    """Return mean squared error (S,) of the rates at `batch` random samples, in units of
    `field.rate`.

    `rows` (K, 2) are path and number of the samples that are not missing, None for all.
    """
    w = paths.states
    rates = paths.rates
    c = paths.context
    if rows is None:
        _, number, times, _ = w.shape
        path = torch.randint(number, (batch,), generator=draw)
        k = torch.randint(times, (batch,), generator=draw)
    else:
        drawn = torch.randint(len(rows), (batch,), generator=draw)
        path, k = rows[drawn].unbind(-1)
    law = field.right_hand_side(c[:, path, k])
    predicted = law(w[:, path, k])
    error = (predicted - rates[:, path, k]) / field.rate.unsqueeze(1)
    return error.square().mean((1, 2))


TRIAL = 100
"""Share of the steps, as its inverse, that tells how long all of them take."""

MOST_HALVED = 4
"""Times that the steps are halved, at most, to fit into the time that there is."""

TEST_BATCH = 1024
"""Samples, or segments, by which the errors of a fitted field are measured."""


@validated
@dataclass(frozen=True)
class NeuralODE(Estimator):
    """Settings of a fit; `fit` returns the latent field: a tanh network for ż = g(z, c) or z̈ =
    g(z, ż, c).

    Training has two stages, both by Adam with a cosine schedule: regression on the latent
    velocities of the data (fast, but blind to how errors add up), then multiple shooting. There,
    short segments of encoded trajectories are integrated from their first point, and the loss is
    the mean squared distance from the rest of the segment, in standard deviations of the latent
    state.

    Args:
        hidden: widths of the hidden layers.
        segment: steps in a segment.
        step: length of a step, rounded to the sampling of the data; by default an eighth of the
            time in which the latent state moves by one standard deviation, and no more than lets a
            segment fit into a trajectory.
        noise: standard deviation of noise on the first point of a segment, in those of the latent
            state. The field learns to return to the data, which by themselves say nothing about
            directions across an attractor.
        regression_steps, shooting_steps: updates in each stage.
        batch_size: samples, or segments, per update.
        learning_rate: highest rate of each stage.

    Samples have to be whole trajectories at equally spaced times: arrays z (C, T, m) with `times`
    (T,). Segments lie where no sample is missing; parameters that move, inputs say, go on straight
    lines between samples.

    Source: Chen, Rubanova, Bettencourt, Duvenaud (2018), Neural ordinary differential equations;
    multiple shooting of Bock & Plitt (1984), with the encoded data as the starts of all segments.

    Example:
        >>> import torch
        >>> from romkit.laws import NeuralODE
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

    def affordable(self, samples: LatentSamples, seconds: float) -> "list[NeuralODE]":
        """List these settings, with steps halved until a fit takes no longer than half of the time:
        one to be judged, and one of all runs; none where a sixteenth of the steps do.

        A hundredth of the steps tells how long they take.
        """
        once = replace(self, regression_steps=1, shooting_steps=1)
        trial = self._shortened(lambda steps: steps // TRIAL)
        with bars(False):
            once._fit(samples, 0)  # what is slow at first
            started = time.process_time()
            trial._fit(samples, 0)
        expected = (time.process_time() - started) * TRIAL
        # whole powers of two, so that a small change of load changes nothing
        halved = max(0, math.ceil(math.log2(2 * expected / seconds)))
        if halved > MOST_HALVED:
            raise InputError(
                "seconds",
                expected=f"{2 * expected / 2**MOST_HALVED:.2g} or more for a neural ODE",
                got=f"{seconds:.2g}",
                fix="give more, or fewer steps",
            )
        return [self._shortened(lambda steps: steps >> halved)]

    def _shortened(self, change: Callable[[int], int]) -> "NeuralODE":
        """Return these settings with fewer steps in both stages."""
        regression = change(self.regression_steps)
        shooting = change(self.shooting_steps)
        return replace(self, regression_steps=regression, shooting_steps=shooting)

    def _fit(self, samples: LatentSamples, seed: int) -> NeuralODEModel:
        paths = make_paths(samples)
        draw = torch.Generator().manual_seed(seed)
        strides = choose_strides(paths, self.segment, self.step)
        shoot = Shooting.cut(paths, strides, self.segment)
        rows = None
        if shoot.starts is not None:
            rows = paths.observed.nonzero()
        field = self._initial(samples, paths, draw)

        def rate_errors(batch: int = self.batch_size) -> Tensor:
            return regression_error(field, paths, batch, draw, rows)

        def path_errors(batch: int = self.batch_size, noise: float = self.noise) -> Tensor:
            return shoot.error(field, batch, noise, draw)

        with one_thread():
            self._minimise(field, rate_errors, self.regression_steps, "neural ODE: regression")
            self._minimise(field, path_errors, self.shooting_steps, "neural ODE: shooting")
            with torch.no_grad():
                velocity_error = rate_errors(TEST_BATCH).sqrt()
                trajectory_error = path_errors(TEST_BATCH, 0.0).sqrt()
        unit_of_rate = paths.unit[:, -field.latent_dim :] / paths.dt
        fitted = replace(
            field,
            shift=paths.origin + paths.unit * field.shift,
            scale=paths.unit * field.scale,
            rate=unit_of_rate * field.rate,
            context=samples.parameters,
            velocity_error=velocity_error,
            trajectory_error=trajectory_error,
        )
        return fitted.detached(single=samples.inputs.ndim == 2)

    def _minimise(
        self, field: NeuralODEModel, errors: Callable[[], Tensor], steps: int, label: str
    ) -> None:
        """Update the layers of `field` in place to lower `errors()` (S,), each field of the stack
        on its own.
        """
        parameters = [tensor for layer in field.layers for tensor in layer]
        adam = Adam(parameters)
        for k in track(range(steps), label):
            cosine = math.cos(math.pi * k / steps)
            loss = errors().sum()
            gradients = torch.autograd.grad(loss, parameters)
            adam.step(_clipped(gradients), self.learning_rate * (1 + cosine) / 2)

    def _initial(
        self, samples: LatentSamples, paths: Paths, draw: torch.Generator, *, at_rest: float = 1e-30
    ) -> NeuralODEModel:
        """Return a stack of fields with equal random weights, uniform in ±1 / √inputs, and the
        scaling of each one's paths.

        `at_rest`: unit of the rate of a latent that never moves, so that it stays where it
        is, whatever the unit of time.
        """
        w = paths.states[:, paths.observed]  # (S, N, d)
        rates = paths.rates[:, paths.observed]  # (S, N, m)
        S = len(w)
        m = rates.shape[-1]
        shift = w.mean(1)
        scale = w.std(1)
        # ż counts from zero, where a system of second order rests
        shift[:, m:] = 0.0
        square = w[..., m:].square()
        scale[:, m:] = square.mean(1).sqrt()
        rate = rates.square().mean(1).sqrt()
        inputs = w.shape[-1] + paths.context.shape[-1]
        unknown = w.new_full((S,), torch.nan)
        return NeuralODEModel(
            layers=_random_layers((inputs, *self.hidden, m), S, draw, w),
            shift=shift,
            scale=divisor(scale),
            rate=torch.where(rate > 0, rate, at_rest),
            context=Scaling.none(samples.parameters.names),  # scaled already
            order=samples.order,
            source=samples.source,
            samples=int(paths.observed.sum()),
            velocity_error=unknown,
            trajectory_error=unknown,
            control_names=samples.control_names,
            held=samples.held,
            control_unit=samples.control_unit,
        )


def _clipped(gradients: Sequence[Tensor], *, clip: float = 1.0) -> list[Tensor]:
    """Return gradients (S, ...), those that are too long made shorter, each field of the stack by
    its own norm.

    `clip`: largest norm of the gradient of a field.
    """
    squares = [gradient.flatten(1).square().sum(1) for gradient in gradients]
    norm = torch.stack(squares).sum(0).sqrt()  # (S,)
    factor = clip / norm.clamp(min=clip)
    clipped = []
    for gradient in gradients:
        axes = (1,) * (gradient.ndim - 1)
        clipped.append(gradient * factor.view(-1, *axes))
    return clipped


def _random_layers(
    widths: Sequence[int], number: int, draw: torch.Generator, like: Tensor
) -> Layers:
    """Layers of so many fields, equal at first."""
    layers = []
    for inputs, outputs in pairwise(widths):
        uniform = torch.rand(inputs + 1, outputs, generator=draw, dtype=like.dtype).to(like)
        values = (2 * uniform - 1) / math.sqrt(inputs)
        weight = values[:-1]
        bias = values[-1]
        layers.append((_stack_parameters(weight, number), _stack_parameters(bias, number)))
    return tuple(layers)


def _stack_parameters(values: Tensor, number: int) -> Tensor:
    """Return parameters of a stack of so many fields, equal at first."""
    repeated = values.expand(number, *values.shape)
    return repeated.clone().requires_grad_()
