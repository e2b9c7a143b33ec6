"""Calibration of a reduced model: its errors on data with known contexts, and those of estimates
there.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, runtime
from romkit.core.boundary import Count, Numbers, Positive, validated
from romkit.core.errors import InputError
from romkit.data.trajectories import Trajectories
from romkit.engine import Engine
from romkit.inference.leastsquares import LeastSquares
from romkit.inference.modelerror import ModelError, Weight
from romkit.inference.observations import Observations
from romkit.inference.prediction import Prediction
from romkit.models import Dynamics
from romkit.projections import Projection
from romkit.solvers import Solver
from romkit.systems import System

ROUNDS = (10, 1, 1)
"""Steps, at most, before the error of the reduced model is evaluated anew, where the estimate has
led.
"""

FIRST = {"steps": 5, "enough": 1.0}
"""Searches from several starts, before the best of them goes on."""

SAMPLES, FITS = 400, 200
"""Largest numbers, about, of training samples, and of them that are estimated to see how well that
goes.
"""

FOLDS = 5
"""Parts of the training trajectories; estimates of each are tried by a calibration with the others."""

KNOWN = 1e12
"""Precision of a normalised context that is known."""

FEWEST = 4
"""Smallest number of training contexts: errors are measured at contexts that are left out."""

NUMBERS = 20_000_000
"""Largest number of predicted numbers held at once; more trajectories are estimated in parts."""


class Estimates(NamedTuple):
    """Contexts and latent states of B observations.

    Attributes:
        d, w: (B, p), normalised, and (B, G, q).
        covariance, std: (B, p, p) and (B, p) of d.
        residual: (B,) root of the sum of squares over its degrees of freedom.
        strange: (B, 2) how far the sum of squares is above its expectation, and how far beyond the
            range a context would explain more; each in standard deviations.
    """

    d: Tensor
    w: Tensor
    covariance: Tensor
    std: Tensor
    residual: Tensor
    strange: Tensor


@dataclass(frozen=True, eq=False)
class Calibration:
    """Errors of a reduced model, and of estimates with it, on windows of data with known contexts.

    `romkit.calibrate` makes one, and `romkit.infer` takes it for all observations of these sensors
    and times.

    Attributes:
        predict: observed numbers as functions of context and latent state.
        error: mean and covariance of their error.
        d, w: (K, p), (K, q) of the training samples.
        values: (K, N) of them.
        noise: (N,) standard deviations.
        scores: (n, p) errors of estimates of the contexts of training samples, in their standard
            deviations.
        votes: (n,) of these samples: one for each trajectory, shared by its samples, which are much
            alike.
        strange: (n, 2) how strange these samples look (see `Estimates`).
        residual: mean of their residuals.
    """

    predict: Prediction
    error: ModelError
    d: Tensor
    w: Tensor
    values: Tensor
    noise: Tensor
    scores: Tensor
    votes: Tensor
    strange: Tensor
    residual: float

    def quantile(self, scores: Tensor, level: float) -> Tensor:
        """Values (k,) that scores (n, k) of a new sample do not exceed in the share `level`, if
        there are enough.

        The new sample has a vote too, so that trajectories fewer than level / (1 - level) give the
        largest score.
        """
        found, order = scores.sort(dim=0)
        below = self.votes[order].cumsum(0) < level * (1 + self.votes.sum()) - 1e-9
        return found.gather(0, below.sum(0, keepdim=True).clamp(max=len(found) - 1)).squeeze(0)

    def estimates(self, y: Tensor, prior: tuple[Tensor, Tensor], starts: int) -> "Estimates":
        """Contexts and latent states of observations (B, G, N)."""
        unknowns = 1 + 2 * (self.d.shape[1] + self.w.shape[1])
        at_once = max(1, NUMBERS // (starts * unknowns * y[0].numel()))
        parts = [
            self._estimates(some, prior, starts)
            for some in runtime.track(y.split(at_once), "estimates")
        ]
        return Estimates(*map(torch.cat, zip(*parts, strict=True)))

    def _estimates(self, y: Tensor, prior: tuple[Tensor, Tensor], starts: int) -> "Estimates":
        d, w = self._starts(y, starts)
        number, each = d.shape[:2]
        problem = self._problem(
            y.repeat_interleave(each, 0), d.flatten(0, 1), w.flatten(0, 1), prior
        )
        found = problem.solved(d.flatten(0, 1), w.flatten(0, 1), **FIRST)
        cost = found.cost + problem.weight.logdet
        best = cost.unflatten(0, (number, each)).argmin(1) + each * torch.arange(number)
        d, w = found.d[best], found.w[best]
        for steps in ROUNDS:
            found = self._problem(y, d, w, prior).solved(d, w, steps)
            d, w = found.d, found.w
        matrix, slope, _ = found.eliminated(torch.zeros(number, dtype=y.dtype))
        covariance = torch.linalg.inv(matrix)
        std = covariance.diagonal(dim1=1, dim2=2).sqrt()
        mean, precision = prior
        squares, freedom = found.cost - (precision * (d - mean) ** 2).sum(1), self.freedom(y)
        beyond = (d + torch.linalg.solve(matrix, slope)).abs() - self.bound
        strange = torch.stack(
            [(squares - freedom) / (2 * freedom).sqrt(), (beyond / std).amax(1)], dim=1
        )
        return Estimates(d, w, covariance, std, (squares / freedom).sqrt(), strange)

    def _starts(self, y: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Contexts (B, S, p) and latent states (B, S, G, q) of the training samples that are
        nearest to (B, G, N).
        """
        there, y, known = y.isfinite() / self.noise**2, y.nan_to_num(0.0), self.values
        gap = (
            (there * y**2).sum(-1, keepdim=True)
            - 2 * (there * y) @ known.mT
            + there @ (known**2).mT
        )  # (B, G, K)
        trajectory = self.error.trajectory
        near = [gap[..., trajectory == k].min(-1) for k in range(int(trajectory.max()) + 1)]
        first = torch.searchsorted(trajectory, torch.arange(len(near)))
        rows = torch.stack([each.indices for each in near], dim=1) + first[:, None]
        best = torch.stack([each.values.sum(1) for each in near], dim=1).topk(
            min(count, len(near)), largest=False
        )
        rows = rows.gather(1, best.indices.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))
        return self.d[rows[..., 0]], self.w[rows]

    def _problem(
        self, y: Tensor, d: Tensor, w: Tensor, prior: tuple[Tensor, Tensor]
    ) -> LeastSquares:
        """Least squares with the mean error and the weights at d (M, p) and w (M, G, q)."""
        groups, white = w.shape[1], (1 + self.error.rest).sqrt()
        mean = self.error(d.repeat_interleave(groups, 0), w.flatten(0, 1)).unflatten(
            0, (-1, groups)
        )
        weight = Weight.of(self.error.modes / white, self.error.covariance(d), y.isfinite())
        prior = prior[0].expand(len(y), -1), prior[1]
        return LeastSquares(
            self.predict, y - self.noise * mean, white * self.noise, weight, prior, self.bound
        )

    @property
    def bound(self) -> Tensor:
        """Largest |d| (p,) that is sought: the range of the projection, and that of the samples."""
        return self.d.abs().amax(0).clamp(min=1.0)

    def prior(self, given: Mapping[str, Sequence[float]]) -> tuple[Tensor, Tensor]:
        """Mean and precision (p,) of d; parameters that had a single value in training have it
        still.
        """
        frame = self.predict.frame
        mean = torch.zeros_like(self.d[0])
        precision = mean.new_tensor([KNOWN * (name in frame.fixed) for name in frame.context_names])
        for name, pair in given.items():
            k = frame.context_names.index(checks.one_of("prior", name, frame.context_names))
            if len(pair) != 2 or not pair[1] > 0:
                got, fix = str(pair), f"give prior={{{name!r}: (1.0, 0.1)}}, say"
                raise InputError(
                    "prior", expected="a mean and a positive standard deviation", got=got, fix=fix
                )
            centre, std = pair
            scale = self.predict.scale[k]
            mean[k], precision[k] = (centre - self.predict.shift[k]) / scale, (scale / std) ** 2
        return mean, precision

    def tried(
        self, part: Callable[[Tensor], "Calibration"], groups: int, starts: int
    ) -> "Calibration":
        """Calibration with the scores of estimates of its own samples, with noise, by `part` of the
        others.

        A sample of a trajectory that the error was learned from would look less strange than a new
        one, since modes and lengths of the error know it.
        """
        trajectory = self.error.trajectory
        of_each = [torch.nonzero(trajectory == k).squeeze(-1) for k in trajectory.unique()]
        together = min(groups, *map(len, of_each))
        rows = torch.cat(
            [own[: len(own) // together * together].unflatten(0, (-1, together)) for own in of_each]
        )
        rows = rows[torch.linspace(0, len(rows) - 1, min(FITS, len(rows))).round().long().unique()]
        generator, prior, found = torch.Generator().manual_seed(len(self.d)), self.prior({}), []
        for fold in trajectory.remainder(FOLDS).unique():
            some = rows[trajectory[rows[:, 0]] % FOLDS == fold]
            y = self.values[some]
            y = y + self.noise * torch.randn(y.shape, generator=generator, dtype=y.dtype)
            each = part(trajectory % FOLDS != fold).estimates(y, prior, starts)
            votes = 1 / (trajectory[some[:, :1]] == trajectory[some[:, 0]]).sum(1).double()
            found.append(
                ((each.d - self.d[some[:, 0]]).abs() / each.std, votes, each.strange, each.residual)
            )
        scores, votes, strange, residual = map(torch.cat, zip(*found, strict=True))
        return dataclasses.replace(
            self, scores=scores, votes=votes, strange=strange, residual=float(residual.mean())
        )

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
    """Measure the errors of a reduced model, and of contexts estimated with it, on data with known
    contexts.

    Args:
        projection: a single one, with a context.
        training: trajectories of some ten contexts or more, not shorter than the observations, in
            which the times of the observations recur. Contexts between those that the projection
            was fitted to show its errors best.
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
    predict = Prediction(
        projection, given.times, given.rows, training, dynamics, system, solver, engine
    )
    y = samples_of(given, dynamics)
    std = projection.frame.state_std.double()[given.rows].repeat(y.shape[-1] // len(given.rows))
    d, w, values, trajectory = training_samples(predict, training)
    flat, known = torch.zeros_like(d[0]), values.unsqueeze(1)
    noise_alone = Weight.of(
        std.new_zeros(len(std), 1), std.new_zeros(len(d), 1, 1), known.isfinite()
    )
    exact = LeastSquares(
        predict, known, 1e-3 * std, noise_alone, (d, flat + KNOWN), flat + torch.inf
    )
    w = exact.solved(d, w.unsqueeze(1)).w.squeeze(1)
    errors = values - predict(d, w)

    def of(noise: Tensor, some: Tensor | slice = slice(None)) -> Calibration:
        numbers = trajectory[some].unique(return_inverse=True)[1]
        error = ModelError.of(d[some], w[some], numbers, errors[some] / noise)
        return Calibration(
            predict, error, d[some], w[some], values[some], noise, *[torch.zeros(0)] * 3, 1.0
        )

    new = of(
        0.1 * std
        if noise is None
        else noises_of(noise, given.rows).repeat(len(std) // len(given.rows))
    )
    if noise is None:
        found = new.estimates(y, new.prior({}), starts)
        x = predict(found.d.repeat_interleave(y.shape[1], 0), found.w.flatten(0, 1)).reshape(
            y.shape
        )
        new = of(std * ((y - x) / std).square().nanmean().sqrt())
    return new.tried(functools.partial(of, new.noise), y.shape[1], starts)


def samples_of(given: Observations, dynamics: Dynamics | None) -> Tensor:
    """Observations as (B, G, N): a window is one sample, without dynamics each time is one."""
    if dynamics is None:
        return given.values
    if len(given.times) != given.values.shape[1] or bool((given.times.diff() <= 0).any()):
        got, fix = (
            "none" if len(given.times) == 1 else "others",
            "add a coordinate `time`, or leave out dynamics",
        )
        raise InputError("observations", expected="times that increase", got=got, fix=fix)
    return given.values.flatten(1).unsqueeze(1)


def noises_of(noise: float | Tensor, rows: Tensor) -> Tensor:
    """Standard deviations (s,) of the noise of sensors."""
    noise = torch.as_tensor(noise, dtype=torch.float64)
    if (
        noise.ndim > 1
        or (noise.ndim == 1 and len(noise) != len(rows))
        or not bool((noise > 0).all())
    ):
        expected = f"a positive number, or {len(rows)} of them, one for each sensor"
        raise InputError(
            "noise",
            expected=expected,
            got=f"{noise.tolist()!r:.40}",
            fix="give standard deviations",
        )
    return noise.expand(len(rows))


def training_samples(
    predict: Prediction, training: xr.Dataset
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Contexts (K, p), latent states (K, q), observed numbers (K, N), and numbers of the
    trajectories (K,).
    """
    frame = predict.frame
    data = Trajectories.of(
        training, frame.context_names, frame.state_names, frame.fields, units=frame.units
    )
    contexts = data.contexts.initial.unique(dim=0)
    if data.contexts.path is not None or len(contexts) < FEWEST:
        got = f"{len(contexts)}" if data.contexts.path is None else "some that vary in time"
        fix = "give more trajectories"
        raise InputError(
            "training", expected=f"{FEWEST} constant contexts or more", got=got, fix=fix
        )
    parts = (data.states, data.velocities)[: predict.order]
    if parts[-1] is None:
        raise InputError(
            "training",
            expected="a variable 'velocity'",
            got="none",
            fix="see romkit.data.with_velocity",
        )
    at = torch.zeros(1, dtype=torch.long)
    if predict.dynamics is not None:
        step = float(data.times.diff().median()) if len(data.times) > 1 else 1.0
        at = (predict.times / step).round().long()
        if int(at[-1]) >= len(data.times) or not torch.allclose(
            step * at.double(), predict.times, atol=1e-3 * step
        ):
            expected = f"trajectories of {float(predict.times[-1]):g} or longer, with all times of the observations"
            got = f"{float(data.times[-1] - data.times[0]):g} in steps of {step:g}"
            fix = "simulate longer, with this interval or a part of it"
            raise InputError("training", expected=expected, got=got, fix=fix)
    number, last = len(data.states), len(data.times) - int(at[-1]) - 1
    offsets = (
        torch.linspace(0, last, max(1, min(last + 1, SAMPLES // number))).round().long().unique()
    )
    values = data.states[:, offsets[:, None] + at][..., predict.rows].flatten(2).flatten(0, 1)
    starts = [part[:, offsets].flatten(0, 1) for part in parts]
    d = ((data.contexts.initial - predict.shift) / predict.scale).repeat_interleave(len(offsets), 0)
    trajectory = torch.arange(number).repeat_interleave(len(offsets))
    whole = torch.cat([values, *starts], dim=1).isfinite().all(1)
    d, values, trajectory, *starts = (part[whole] for part in (d, values, trajectory, *starts))
    trajectory = trajectory.unique(return_inverse=True)[1]
    return d, predict.encode(d, starts), values, trajectory
