"""Context and latent state from observations by least squares, weighted by noise and the error of the reduced model."""

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, runtime
from romkit.core.boundary import Count, Numbers, Part, Positive, validated
from romkit.core.errors import InputError
from romkit.data import Trajectories
from romkit.engine import Engine
from romkit.inference.modelerror import ModelError, Weight
from romkit.inference.observations import Observations
from romkit.inference.prediction import Prediction, with_derivatives
from romkit.projections import Projection
from romkit.solvers import Solver
from romkit.systems import System, system_of
from romkit.verbs.reduced import Dynamics

ITERATIONS = 20
"""Largest number of Levenberg-Marquardt steps."""

ROUNDS = 3
"""Times that the error of the reduced model is evaluated anew, where the estimate has led."""

GAIN = 1e-2
"""Decrease of the sum of squares, in units of the noise, below which a member has converged."""

SAMPLES, FITS = 400, 200
"""Largest numbers, about, of training samples, and of them that are estimated to see how well that goes."""

KNOWN = 1e12
"""Precision of a normalised context that is known."""

FEWEST = 4
"""Smallest number of training contexts: errors are measured at contexts that are left out."""

FALSE_ALARMS = 0.01
"""Share of observations that the model explains and that are said to be unexplained."""

NUMBERS = 20_000_000
"""Largest number of predicted numbers held at once; more trajectories are estimated in parts."""


class Fit(NamedTuple):
    """Least squares of M members with G samples each.

    Attributes:
        d, w: (M, p) and (M, G, q).
        cost: (M,).
        blocks: (M, G, p + q, p + q) matrices of the normal equations.
        slope: (M, G, p + q) their right-hand sides.
    """

    d: Tensor
    w: Tensor
    cost: Tensor
    blocks: Tensor
    slope: Tensor

    def step(self, damping: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Steps of d (M, p) and w (M, G, q), and the matrix (M, p, p) of d when w has been eliminated."""
        p = self.d.shape[1]
        diagonal = self.blocks.diagonal(dim1=-2, dim2=-1)
        more = damping.reshape(-1, 1, 1) * diagonal + 1e-12 * (1 + diagonal.amax(-1, keepdim=True))
        blocks = self.blocks + torch.diag_embed(more)
        known = torch.cat([blocks[..., p:, :p], self.slope[..., p:, None]], dim=-1)
        inner = torch.linalg.solve(blocks[..., p:, p:], known)
        reduced = (torch.cat([blocks[..., :p, :p], self.slope[..., :p, None]], -1) - blocks[..., :p, p:] @ inner).sum(1)
        matrix, slope = reduced[..., :p], reduced[..., p]
        dd = torch.linalg.solve(matrix, slope)
        dw = inner[..., p] - (inner[..., :p] @ dd[:, None, :, None]).squeeze(-1)
        return dd, dw, matrix

    def with_(self, which: Tensor, other: "Fit") -> "Fit":
        """Members `which` (k,) replaced by those of another fit."""
        return Fit(*(mine.index_copy(0, which, theirs) for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Problem of M members with G samples of N numbers each and one context.

    Attributes:
        predict: (d, w) -> numbers (M, N).
        y: (M, G, N), NaN where missing.
        noise: (N,) standard deviations.
        white: of what counts as noise, in units of the noise.
        weight: of the samples.
        prior: mean (M, p) and precision (p,) of d.
        bound: (p,) largest |d|.
    """

    predict: Prediction
    y: Tensor
    noise: Tensor
    white: float
    weight: Weight | None
    prior: tuple[Tensor, Tensor]
    bound: Tensor

    def at(self, members: Tensor, d: Tensor, w: Tensor) -> Fit:
        """Cost and normal equations of some of the members."""
        groups, p = w.shape[1], d.shape[1]
        every = d.repeat_interleave(groups, 0), w.flatten(0, 1)
        x, jacobian = with_derivatives(self.predict, *every)
        x, jacobian = x.unflatten(0, (-1, groups)), jacobian.unflatten(0, (-1, groups))
        y = self.y[members]
        there = y.isfinite()
        sigma = self.white * self.noise
        r = torch.where(there, (y - x) / sigma, 0.0).unsqueeze(-1)
        J = torch.where(there.unsqueeze(-1), jacobian / sigma.unsqueeze(-1), 0.0)
        lost = ~(r.flatten(1).isfinite().all(1) & J.flatten(1).isfinite().all(1))
        both = torch.cat([J, r], dim=-1).nan_to_num(0.0, 0.0, 0.0)
        products = both.mT @ both if self.weight is None else self.weight.at(members).product(both, both)
        mean, precision = self.prior
        blocks, slope = products[..., :-1, :-1].clone(), products[..., :-1, -1].clone()
        blocks[:, 0, :p, :p] += torch.diag(precision)
        slope[:, 0, :p] += precision * (mean[members] - d)
        cost = products[..., -1, -1].sum(1) + (precision * (d - mean[members]) ** 2).sum(1)
        return Fit(d, w, cost.masked_fill(lost, torch.inf), blocks, slope)

    def solved(self, d: Tensor, w: Tensor) -> Fit:
        """Levenberg-Marquardt from d (M, p) and w (M, G, q)."""
        members, damping = torch.arange(len(d)), torch.full((len(d),), 1e-3, dtype=d.dtype)
        found = self.at(members, d, w)
        for _ in range(ITERATIONS):
            now = Fit(*(part[members] for part in found))
            dd, dw, _ = now.step(damping[members])
            trial = self.at(members, (now.d + dd).clamp(-self.bound, self.bound), now.w + dw)
            gain = now.cost - trial.cost
            better = gain > 0
            found = found.with_(members[better], Fit(*(part[better] for part in trial)))
            damping[members] *= torch.where(better, 0.1, 5.0)
            done = (gain.abs() < GAIN) | (damping[members] > 1e4)
            members = members[~done]
            if not len(members):
                break
        return found


@dataclass(frozen=True, eq=False)
class Calibration:
    """Errors of a reduced model, and of estimates with it, on windows of data with known contexts.

    `romkit.calibrate` makes one, and `romkit.infer` takes it for all observations of these sensors and times.

    Attributes:
        predict: observed numbers as functions of context and latent state.
        error: mean and covariance of their error.
        d, w: (K, p), (K, q) of the training samples.
        values: (K, N) of them.
        noise: (N,) standard deviations.
        scores: (n, p) errors of estimates of the contexts of training samples, in their standard deviations, sorted.
        excess: (n,) (residual - its expectation) / its standard deviation of these estimates, sorted.
        residual: mean of the residual of these estimates.
    """

    predict: Prediction
    error: ModelError
    d: Tensor
    w: Tensor
    values: Tensor
    noise: Tensor
    scores: Tensor
    excess: Tensor
    residual: float

    def estimates(
        self, y: Tensor, prior: tuple[Tensor, Tensor], starts: int, without: Tensor | None = None
    ) -> tuple[Fit, Tensor, Tensor]:
        """Fit of observations (B, G, N), covariance (B, p, p) of d, and residual sum of squares (B,)."""
        unknowns = 1 + 2 * (self.d.shape[1] + self.w.shape[1])
        at_once = max(1, NUMBERS // (starts * unknowns * y[0].numel()))
        parts = []
        for first in runtime.track(range(0, len(y), at_once), "estimates"):
            some = slice(first, first + at_once)
            parts.append(self._estimates(y[some], prior, starts, None if without is None else without[some]))
        fits, covariances, costs = zip(*parts, strict=True)
        return Fit(*map(torch.cat, zip(*fits, strict=True))), torch.cat(covariances), torch.cat(costs)

    def _estimates(
        self, y: Tensor, prior: tuple[Tensor, Tensor], starts: int, without: Tensor | None
    ) -> tuple[Fit, Tensor, Tensor]:
        d, w = self._starts(y, starts, without)
        number, each = d.shape[:2]
        apart = None if without is None else without.repeat_interleave(each)
        problem = self._problem(y.repeat_interleave(each, 0), d.flatten(0, 1), w.flatten(0, 1), prior, apart)
        found = problem.solved(d.flatten(0, 1), w.flatten(0, 1))
        cost = found.cost + problem.weight.logdet.sum(1)
        best = cost.unflatten(0, (number, each)).argmin(1) + each * torch.arange(number)
        d, w = found.d[best], found.w[best]
        for _ in range(ROUNDS):
            found = self._problem(y, d, w, prior, without).solved(d, w)
            d, w = found.d, found.w
        covariance = torch.linalg.inv(found.step(torch.zeros(number, dtype=y.dtype))[2])
        mean, precision = prior
        return found, covariance, found.cost - (precision * (d - mean) ** 2).sum(1)

    def _starts(self, y: Tensor, count: int, without: Tensor | None) -> tuple[Tensor, Tensor]:
        """Contexts (B, S, p) and latent states (B, S, G, q) of the training samples that are nearest to (B, G, N)."""
        there, y, known = y.isfinite() / self.noise**2, y.nan_to_num(0.0), self.values
        gap = (there * y**2).sum(-1, keepdim=True) - 2 * (there * y) @ known.mT + there @ (known**2).mT  # (B, G, K)
        trajectory = self.error.trajectory
        if without is not None:
            gap = gap.masked_fill((without[:, None] == trajectory).unsqueeze(1), torch.inf)
        near = [gap[..., trajectory == k].min(-1) for k in range(int(trajectory.max()) + 1)]
        first = torch.searchsorted(trajectory, torch.arange(len(near)))
        rows = torch.stack([each.indices for each in near], dim=1) + first[:, None]
        best = torch.stack([each.values.sum(1) for each in near], dim=1).topk(min(count, len(near)), largest=False)
        rows = rows.gather(1, best.indices.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))
        return self.d[rows[..., 0]], self.w[rows]

    def _problem(
        self, y: Tensor, d: Tensor, w: Tensor, prior: tuple[Tensor, Tensor], without: Tensor | None
    ) -> LeastSquares:
        """Least squares with the mean error and the weights at d (M, p) and w (M, G, q)."""
        groups, white = w.shape[1], math.sqrt(1 + self.error.rest)
        apart = None if without is None else without.repeat_interleave(groups)
        mean = self.error(d.repeat_interleave(groups, 0), w.flatten(0, 1), apart).unflatten(0, (-1, groups))
        covariance = self.error.covariance(d, without).unsqueeze(1)
        weight = Weight.of(self.error.modes / white, covariance, y.isfinite())
        prior = prior[0].expand(len(y), -1), prior[1]
        return LeastSquares(self.predict, y - self.noise * mean, self.noise, white, weight, prior, self.bound)

    @property
    def bound(self) -> Tensor:
        """Largest |d| (p,) that is sought: the range of the projection, and that of the samples."""
        return self.d.abs().amax(0).clamp(min=1.0)

    def prior(self, given: Mapping[str, Sequence[float]]) -> tuple[Tensor, Tensor]:
        """Mean and precision (p,) of d; parameters that had a single value in training have it still."""
        frame = self.predict.frame
        mean = torch.zeros_like(self.d[0])
        precision = mean.new_tensor([KNOWN * (name in frame.fixed) for name in frame.context_names])
        for name, pair in given.items():
            k = frame.context_names.index(checks.one_of("prior", name, frame.context_names))
            if len(pair) != 2 or not pair[1] > 0:
                got, fix = str(pair), f"give prior={{{name!r}: (1.0, 0.1)}}, say"
                raise InputError("prior", expected="a mean and a positive standard deviation", got=got, fix=fix)
            centre, std = pair
            scale = self.predict.scale[k]
            mean[k], precision[k] = (centre - self.predict.shift[k]) / scale, (scale / std) ** 2
        return mean, precision

    def tried(self, groups: int, starts: int) -> "Calibration":
        """Calibration with the scores of estimates of its own samples, each without its trajectory, with noise."""
        trajectory, number = self.error.trajectory, len(self.d)
        of_each = [torch.nonzero(trajectory == k).squeeze(-1) for k in trajectory.unique()]
        together = min(groups, *map(len, of_each))
        rows = torch.cat([own[: len(own) // together * together].unflatten(0, (-1, together)) for own in of_each])
        rows = rows[torch.linspace(0, len(rows) - 1, min(FITS, len(rows))).round().long().unique()]
        generator = torch.Generator().manual_seed(number)
        y = self.values[rows]
        y = y + self.noise * torch.randn(y.shape, generator=generator, dtype=y.dtype)
        found, covariance, cost = self.estimates(y, self.prior({}), starts, trajectory[rows[:, 0]])
        scores = (found.d - self.d[rows[:, 0]]).abs() / covariance.diagonal(dim1=1, dim2=2).sqrt()
        dof = self.freedom(y)
        residual = float((cost / dof).sqrt().mean())
        excess = (cost - dof) / (2 * dof).sqrt()
        return dataclasses.replace(self, scores=scores.sort(0).values, excess=excess.sort().values, residual=residual)

    def freedom(self, y: Tensor) -> Tensor:
        """Degrees of freedom (B,) of a fit of observations (B, G, N)."""
        there = y.isfinite()
        unknowns = self.d.shape[1] + self.w.shape[1] * there.any(-1).sum(1)
        return (there.sum((1, 2)) - unknowns).clamp(min=1).double()


@validated
def calibrate(
    projection: Projection,
    training: xr.Dataset,
    observations: xr.Dataset,
    *,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    sensors: Sequence[object] | None = None,
    noise: Positive | Numbers | None = None,
    solver: Solver | None = None,
    engine: Engine = "compiled",
    starts: Count = 4,
) -> Calibration:
    """Measure the errors of a reduced model, and of contexts estimated with it, on data with known contexts.

    Args:
        projection: a single one, with a context.
        training: trajectories of some ten contexts or more, not shorter than the observations, in which the times of
            the observations recur. Contexts between those that the projection was fitted to show its errors best.
        observations: such as will be made: their times, and without `noise` their values, count.
        dynamics: as of `romkit.infer`, and so are all that follow.
        system: the full model.
        sensors: the observed components.
        noise: its standard deviation.
        solver: of the latent equation.
        engine: that integrates it.
        starts: training samples that a search starts from.

    Returns:
        Calibration for all observations of these sensors at these times since the first.

    Raises:
        InputError: training data of too few contexts, too short, or at other times.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> data = system.dataset(F=[3.14, 3.15, 3.16, 3.17, 3.18], duration=1.0)
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> calibration = romkit.calibrate(ncae, data, data.isel(time=[0]), noise=0.1)
        >>> calibration.d.shape[1], calibration.values.shape[1]
        (1, 36)
    """
    given = Observations.of(projection, observations, sensors)
    if system is None and dynamics is not None and dynamics.needs != "nothing":
        system = system_of(training)
    predict = Prediction(
        projection, given.times, given.rows, dynamics=dynamics, system=system, solver=solver, engine=engine
    )
    y = _samples(given, dynamics)
    std = projection.frame.state_std.double()[given.rows].repeat(y.shape[-1] // len(given.rows))
    d, w, values, trajectory = _training(predict, training, given)
    flat = torch.zeros_like(d[0])
    exact = LeastSquares(predict, values.unsqueeze(1), 1e-3 * std, 1.0, None, (d, flat + KNOWN), flat + torch.inf)
    w = exact.solved(d, w.unsqueeze(1)).w.squeeze(1)
    errors = values - predict(d, w)

    def of(noise: Tensor) -> Calibration:
        error = ModelError.of(d, w, trajectory, errors / noise)
        return Calibration(predict, error, d, w, values, noise, torch.zeros(0), torch.zeros(0), 1.0)

    new = of(_noise(noise, std, given))
    if noise is None:
        found, *_ = new.estimates(y, new.prior({}), starts)
        groups = y.shape[1]
        x = predict(found.d.repeat_interleave(groups, 0), found.w.flatten(0, 1)).reshape(y.shape)
        new = of(std * ((y - x) / std).square().nanmean().sqrt())
    return new.tried(y.shape[1], starts)


def _samples(given: Observations, dynamics: Dynamics | None) -> Tensor:
    """Observations as (B, G, N): a window is one sample, without dynamics each time is one."""
    if dynamics is None:
        return given.values
    if len(given.times) != given.values.shape[1] or bool((given.times.diff() <= 0).any()):
        got, fix = "none" if len(given.times) == 1 else "others", "add a coordinate `time`, or leave out dynamics"
        raise InputError("observations", expected="times that increase", got=got, fix=fix)
    return given.values.flatten(1).unsqueeze(1)


def _noise(noise: float | Tensor | None, std: Tensor, given: Observations) -> Tensor:
    """Standard deviations (N,) of the noise; a tenth of that of the components where none is known yet."""
    if noise is None:
        return 0.1 * std
    noise = torch.as_tensor(noise, dtype=torch.float64)
    if noise.ndim > 1 or (noise.ndim == 1 and len(noise) != len(given.rows)) or not bool((noise > 0).all()):
        expected = f"a positive number, or {len(given.rows)} of them, one for each sensor"
        raise InputError("noise", expected=expected, got=f"{noise.tolist()!r:.40}", fix="give standard deviations")
    return (torch.ones_like(given.rows) * noise).repeat(len(std) // len(given.rows)).double()


def _training(predict: Prediction, training: xr.Dataset, given: Observations) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Contexts (K, p), latent states (K, q), observed numbers (K, N), and numbers of the trajectories (K,)."""
    frame = predict.frame
    data = Trajectories.of(training, frame.context_names, frame.state_names, frame.fields)
    contexts = data.contexts.initial.unique(dim=0)
    if data.contexts.path is not None or len(contexts) < FEWEST:
        got = f"{len(contexts)}" if data.contexts.path is None else "some that vary in time"
        fix = "give more trajectories"
        raise InputError("training", expected=f"{FEWEST} constant contexts or more", got=got, fix=fix)
    parts = (data.states, data.velocities)[: predict.order]
    if parts[-1] is None:
        raise InputError("training", expected="a variable 'velocity'", got="none", fix="record it")
    at = torch.zeros(1, dtype=torch.long)
    if predict.dynamics is not None:
        step = float(data.times.diff().median()) if len(data.times) > 1 else 1.0
        at = (predict.times / step).round().long()
        if int(at[-1]) >= len(data.times) or not torch.allclose(step * at.double(), predict.times, atol=1e-3 * step):
            expected = f"trajectories of {float(predict.times[-1]):g} or longer, with all times of the observations"
            got = f"{float(data.times[-1] - data.times[0]):g} in steps of {step:g}"
            fix = "simulate longer, with this interval or a part of it"
            raise InputError("training", expected=expected, got=got, fix=fix)
    number, last = len(data.states), len(data.times) - int(at[-1]) - 1
    offsets = torch.linspace(0, last, max(1, min(last + 1, SAMPLES // number))).round().long().unique()
    values = data.states[:, offsets[:, None] + at][..., given.rows].flatten(2).flatten(0, 1)
    starts = [part[:, offsets].flatten(0, 1) for part in parts]
    d = ((data.contexts.initial - predict.shift) / predict.scale).repeat_interleave(len(offsets), 0)
    trajectory = torch.arange(number).repeat_interleave(len(offsets))
    whole = torch.cat([values, *starts], dim=1).isfinite().all(1)
    d, values, trajectory, *starts = (part[whole] for part in (d, values, trajectory, *starts))
    trajectory = trajectory.unique(return_inverse=True)[1]
    return d, predict.encode(d, starts), values, trajectory


@validated
def infer(
    source: Projection | Calibration,
    observations: xr.Dataset,
    *,
    training: xr.Dataset | None = None,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    sensors: Sequence[object] | None = None,
    noise: Positive | Numbers | None = None,
    prior: Mapping[str, Sequence[float]] | None = None,
    solver: Solver | None = None,
    engine: Engine = "compiled",
    starts: Count = 4,
    level: Part = 0.9,
) -> xr.Dataset:
    """Estimate context and latent state of each trajectory of observations.

    Nonlinear least squares over both at once, weighted by the noise and by the error of the reduced model. The mean of
    this error is learned from data with known contexts and subtracted, its scatter enters the weights; intervals are
    those that hold on such data.

    Args:
        source: a projection; or what `romkit.calibrate` returned, for observations of the same sensors at the same
            times, which then takes a fraction of a second.
        observations: `state` (trajectory, time, component), NaN where it is missing; snapshots need no times.
        training: data with known contexts (see `romkit.calibrate`).
        dynamics: law of the latent state, as in `romkit.follow`; without, each snapshot has its own latent state.
        system: the full model, for dynamics that look at it.
        sensors: names or numbers of the observed components, all by default.
        noise: standard deviation of the noise, a number or one for each sensor; without, it is estimated from the
            residual of all observations.
        prior: mean and standard deviation of parameters, by name; without, any value in the range of the training.
        solver: of the latent equation; `RK4` with the interval of the observations by default.
        engine: "compiled", or "torch" where a field cannot be compiled (see `romkit.engine`).
        starts: training samples that the search starts from.
        level: of the intervals.

    Returns:
        Dataset of trajectories: `estimate`, `std`, `lower`, `upper` (…, parameter), `covariance` (…, parameter,
        parameter_2), `latent`, of the first time with dynamics, or of each time; `residual` of the fit, as the root of
        a mean square in units of the noise, `expected_residual`, and `explained`, false where no context in the range
        explains the observations, with one false alarm in a hundred. Attributes record settings and seconds.

    Raises:
        InputError: fewer observations than unknowns; sensors, times or training data that do not fit.

    Source: Kaipio, Somersalo (2007), of the error of the model; Vovk, Gammerman, Shafer (2005), of the intervals.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> data = system.dataset(F=[3.14, 3.15, 3.16, 3.17, 3.18], duration=1.0)
        >>> found = romkit.infer(romkit.load("ncae-lorenz96"), data.isel(time=[0, 50]), training=data, noise=0.1)
        >>> found.estimate.dims, found.latent.dims
        (('trajectory', 'parameter'), ('trajectory', 'time', 'latent_component'))
    """
    started = time.perf_counter()
    own = {"training": training, "dynamics": dynamics, "system": system, "sensors": sensors, "noise": noise}
    if isinstance(source, Calibration):
        for name, value in own.items():
            if value is not None:
                fix = "drop it, or give it to romkit.calibrate"
                raise InputError(name, expected="nothing, since the calibration has it", got="a value", fix=fix)
    else:
        if training is None:
            fix = "give data with known contexts, such as the projection was fitted to"
            raise InputError("training", expected="a dataset", got="none", fix=fix)
        source = calibrate(source, observations=observations, **own, solver=solver, engine=engine, starts=starts)
    frame, predict = source.predict.frame, source.predict
    given = Observations.of(source.predict.projection, observations, predict.rows.tolist())
    y = _samples(given, predict.dynamics)
    _check(source, given, y)
    found, covariance, cost = source.estimates(y, source.prior(prior or {}), starts)
    dof = source.freedom(y)
    limit = (1 + source.excess.quantile(1 - FALSE_ALARMS) * (2 / dof).sqrt()).clamp(min=0).sqrt()
    residual, estimate = (cost / dof).sqrt(), predict.context(found.d)
    covariance = covariance * predict.scale * predict.scale.unsqueeze(-1)
    std = covariance.diagonal(dim1=1, dim2=2).sqrt()
    half = std * source.scores.quantile(level, dim=0)
    latent = found.w if predict.dynamics is None else found.w.squeeze(1)
    each, latents = ("trajectory", "parameter"), ("trajectory", "time", "latent_component")
    variables = {
        "estimate": (each, estimate, {"long_name": "estimate of the context"}),
        "std": (each, std, {"long_name": "standard deviation"}),
        "lower": (each, estimate - half, {"long_name": f"lower end of the {level:.0%} interval"}),
        "upper": (each, estimate + half, {"long_name": f"upper end of the {level:.0%} interval"}),
        "covariance": ((*each, "parameter_2"), covariance, {"long_name": "covariance of the context"}),
        "latent": (latents[: latent.ndim] if latent.ndim == 3 else latents[::2], latent, {"long_name": "latent state"}),
        "residual": ("trajectory", residual, {"units": "1", "long_name": "root mean square residual, weighted"}),
        "expected_residual": ("trajectory", torch.full_like(residual, source.residual), {"units": "1"}),
        "explained": ("trajectory", residual <= limit, {"long_name": "whether a context explains the observations"}),
    }
    names = list(frame.context_names)
    coords = {"parameter": names, "parameter_2": names, "units": ("parameter", list(frame.context_units))}
    attrs = {
        "projection": frame.system or type(predict.projection).__name__,
        "dynamics": "none" if predict.dynamics is None else type(predict.dynamics).__name__,
        "sensors": [frame.state_names[row] for row in predict.rows],
        "noise": sorted({*source.noise.tolist()}),
        "level": level,
        "starts": starts,
        "seconds": time.perf_counter() - started,
    }
    return xr.Dataset({k: (dims, x.numpy(), a) for k, (dims, x, a) in variables.items()}, coords, attrs)


def _check(source: Calibration, given: Observations, y: Tensor) -> None:
    """Raise where observations are at other times than those of the calibration, or fewer than unknowns."""
    times, known = given.times - given.times[0], source.predict.times
    if source.predict.dynamics is not None and (
        y.shape[-1] != source.values.shape[1]
        or len(times) != len(known)
        or not torch.allclose(times, known, atol=1e-6 * float(1 + known[-1]))
    ):
        got, fix = f"{len(given.values[0])} times", "observe at these times, NaN where a number is missing"
        expected = f"the {len(known)} times of the calibration"
        raise InputError("observations", expected=expected, got=got, fix=fix)
    there = y.isfinite()
    unknowns = source.d.shape[1] + source.w.shape[1] * there.any(-1).sum(1)
    few = there.sum((1, 2)) < unknowns
    if bool(few.any()):
        k = int(few.nonzero()[0])
        got, fix = f"{int(there[k].sum())} in trajectory {k}", "observe more components, or a longer window"
        raise InputError("observations", expected=f"{int(unknowns[k])} numbers or more", got=got, fix=fix)
