"""Calibration of a reduced model: its errors on data with known contexts, and those of estimates
there.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.assimilation.leastsquares import LeastSquares
from romkit.assimilation.modelerror import ModelError, Weight, trajectory_rows
from romkit.assimilation.observations import Observations
from romkit.assimilation.prediction import Prediction
from romkit.core import runtime, tensors
from romkit.core.errors import InputError
from romkit.core.types import Kwargs, Pair, frozen
from romkit.data.spelling import known_name
from romkit.models import Dynamics

ROUNDS = (10, 1, 1)
"""Steps, at most, before the error of the reduced model is evaluated anew, where the estimate has
led.
"""

FIRST: Kwargs = {"steps": 5, "enough": 1.0}
"""Searches from several starts, before the best of them goes on."""

SAMPLES, FITS = 400, 200
"""Largest numbers, about, of training samples, and of them that are estimated to see how well that
goes.
"""

FOLDS = 5
"""Parts of the training trajectories; estimates of each are tried by a calibration with the others."""

KNOWN = 1e12
"""Precision of a normalised context that is known."""

ROUNDING = 1e-9
"""Votes that a sum may lack by rounding."""

NUMBERS = 20_000_000
"""Largest number of predicted numbers held at once; more trajectories are estimated in parts."""


Prior = Pair
"""Mean and precision (p,) of normalised contexts."""


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


@frozen
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
        """Return values (k,) that scores (n, k) of a new sample do not exceed in the share `level`,
        if there are enough.

        The new sample has a vote too, so that trajectories fewer than level / (1 - level) give the
        largest score.
        """
        values, order = scores.sort(dim=0)
        votes = self.votes[order].cumsum(0)  # (n, k)
        # the new sample has a vote
        total = 1 + self.votes.sum()
        below = votes < level * total - ROUNDING
        number = below.sum(0, keepdim=True)
        number = number.clamp(max=len(values) - 1)
        return values.gather(0, number).squeeze(0)

    def estimates(self, y: Tensor, prior: Prior, starts: int) -> "Estimates":
        """Return contexts and latent states of observations (B, G, N)."""
        unknowns = self.d.shape[1] + self.w.shape[1]
        # each start has differences to both sides of all unknowns
        moves = 1 + 2 * unknowns
        predicted = starts * moves * y[0].numel()
        at_once = max(1, NUMBERS // predicted)
        pieces = [
            self._estimates(piece, prior, starts)
            for piece in runtime.track(y.split(at_once), "estimates")
        ]
        fields = zip(*pieces, strict=True)
        return Estimates(*map(torch.cat, fields))

    def _estimates(self, y: Tensor, prior: Prior, starts: int) -> "Estimates":
        d, w = self._best_start(y, prior, starts)
        for steps in ROUNDS:
            problem = self._problem(y, d, w, prior)
            fit = problem.solved(d, w, steps)
            d = fit.d
            w = fit.w
        undamped = torch.zeros(len(y), dtype=y.dtype)
        matrix, slope, _ = fit.eliminated(undamped)
        covariance = torch.linalg.inv(matrix)
        std = covariance.diagonal(dim1=1, dim2=2).sqrt()
        mean, precision = prior
        by_prior = (precision * (d - mean) ** 2).sum(1)
        squares = fit.cost - by_prior
        freedom = self.freedom(y)
        residual = (squares / freedom).sqrt()
        excess = (squares - freedom) / (2 * freedom).sqrt()
        # a step without a bound says where the search would go from the end of the range
        unbounded = d + torch.linalg.solve(matrix, slope)
        beyond = (unbounded.abs() - self.bound) / std
        farthest = beyond.amax(1)
        strange = torch.stack([excess, farthest], dim=1)
        return Estimates(d, w, covariance, std, residual, strange)

    def _best_start(self, y: Tensor, prior: Prior, starts: int) -> Pair:
        """d (B, p) and w (B, G, q) to which a short search from several samples leads."""
        d, w = self._starts(y, starts)
        members, count = d.shape[:2]
        d = d.flatten(0, 1)  # (B S, p)
        w = w.flatten(0, 1)
        repeated = y.repeat_interleave(count, 0)
        problem = self._problem(repeated, d, w, prior)
        fit = problem.solved(d, w, **FIRST)
        cost = fit.cost + problem.weight.logdet
        best = cost.unflatten(0, (members, count)).argmin(1)
        rows = best + count * torch.arange(members)
        return fit.d[rows], fit.w[rows]

    def _starts(self, y: Tensor, count: int) -> Pair:
        """Return contexts (B, S, p) and latent states (B, S, G, q) of the training samples that are
        nearest to (B, G, N).
        """
        gap = self._gaps(y)
        trajectory = self.error.trajectory
        distances, rows = [], []
        # of each trajectory the nearest sample, so that starts are of several
        for k in range(int(trajectory.max()) + 1):
            smallest = gap[..., trajectory == k].min(-1)
            begin = torch.searchsorted(trajectory, torch.tensor(k))
            distances.append(smallest.values.sum(1))
            rows.append(smallest.indices + begin)
        distance = torch.stack(distances, dim=1)  # (B, C)
        of_all = torch.stack(rows, dim=1)  # (B, C, G)
        count = min(count, distance.shape[1])
        nearest = distance.topk(count, largest=False).indices.unsqueeze(-1)  # (B, S, 1)
        groups = of_all.shape[-1]
        of_all = of_all.gather(1, nearest.expand(-1, -1, groups))  # (B, S, G)
        # all samples of a trajectory have one context
        return self.d[of_all[..., 0]], self.w[of_all]

    def _gaps(self, y: Tensor) -> Tensor:
        """Squared distances (B, G, K) of observations from the samples, in deviations."""
        precision = y.isfinite() / self.noise**2
        y = y.nan_to_num(0.0)
        # (y - x)² by products of matrices, which need no array (B, G, K, N)
        squares = (precision * y**2).sum(-1, keepdim=True)
        products = (precision * y) @ self.values.mT
        known_squares = precision @ (self.values**2).mT
        return squares - 2 * products + known_squares

    def _problem(self, y: Tensor, d: Tensor, w: Tensor, prior: Prior) -> LeastSquares:
        """Least squares with the mean error and the weights at d (M, p) and w (M, G, q)."""
        groups = w.shape[1]
        # what the modes of the error leave out counts as noise
        noise = (1 + self.error.rest).sqrt()
        of_samples = d.repeat_interleave(groups, 0)
        error = self.error(of_samples, w.flatten(0, 1))
        error = error.unflatten(0, (-1, groups))  # (M, G, N)
        covariance = self.error.covariance(d)
        modes = self.error.modes / noise
        weight = Weight.build(modes, covariance, y.isfinite())
        corrected = y - self.noise * error
        mean, precision = prior
        priors = mean.expand(len(y), -1), precision
        sigma = noise * self.noise
        return LeastSquares(self.predict, corrected, sigma, weight, priors, self.bound)

    @property
    def bound(self) -> Tensor:
        """Largest |d| (p,) that is sought: the range of the projection, and that of the samples."""
        return self.d.abs().amax(0).clamp(min=1.0)

    def prior(self, stated: Mapping[str, Sequence[float]]) -> Prior:
        """Return mean and precision (p,) of d; parameters that had a single value in training have
        it still.
        """
        frame = self.predict.frame
        names = frame.context_names
        mean = torch.zeros_like(self.d[0])
        is_fixed = mean.new_tensor([name in frame.fixed for name in names])
        precision = KNOWN * is_fixed
        for name, pair in stated.items():
            k = names.index(known_name("prior", name, names))
            if len(pair) != 2 or not pair[1] > 0:
                raise InputError(
                    "prior",
                    expected="a mean and a positive standard deviation",
                    got=str(pair),
                    fix=f"give prior={{{name!r}: (1.0, 0.1)}}, say",
                )
            centre, std = pair
            scale = self.predict.scale[k]
            mean[k] = (centre - self.predict.shift[k]) / scale
            precision[k] = (scale / std) ** 2
        return mean, precision

    def tried(
        self, calibrated: Callable[[Tensor], "Calibration"], groups: int, starts: int
    ) -> "Calibration":
        """Calibration with the scores of estimates of its own samples, with noise, by one of the
        others: `calibrated` of a mask (K,).

        A sample of a trajectory that the error was learned from would look less strange than a new
        one, since modes and lengths of the error know it.
        """
        trajectory = self.error.trajectory
        rows = _spread_groups(trajectory, groups)  # (n, G)
        fold = trajectory % FOLDS
        generator = torch.Generator().manual_seed(len(self.d))
        prior = self.prior({})
        trials = []
        for number in fold.unique():
            tested = rows[fold[rows[:, 0]] == number]
            y = self.values[tested]  # (B, G, N)
            normal = torch.randn(y.shape, generator=generator, dtype=y.dtype)
            estimator = calibrated(fold != number)
            estimates = estimator.estimates(y + self.noise * normal, prior, starts)
            origin = tested[:, 0]
            error = (estimates.d - self.d[origin]).abs()
            alike = trajectory[origin][:, None] == trajectory[origin]
            votes = 1 / alike.sum(1).double()
            score = error / estimates.std
            trials.append((score, votes, estimates.strange, estimates.residual))
        columns = zip(*trials, strict=True)
        scores, votes, strange, residual = map(torch.cat, columns)
        mean = float(residual.mean())
        return dataclasses.replace(self, scores=scores, votes=votes, strange=strange, residual=mean)

    def freedom(self, y: Tensor) -> Tensor:
        """Degrees of freedom (B,) of a fit of observations (B, G, N)."""
        numbers, unknowns = self.counted(y)
        return (numbers - unknowns).clamp(min=1).double()

    def counted(self, y: Tensor) -> Pair:
        """Return numbers (B,) in observations (B, G, N), and unknowns (B,) of a fit to them."""
        observed = y.isfinite()
        samples = observed.any(-1).sum(1)
        unknowns = self.d.shape[1] + self.w.shape[1] * samples
        return observed.sum((1, 2)), unknowns


def _spread_groups(trajectory: Tensor, groups: int) -> Tensor:
    """Return rows (n, G) of samples that are tried together, of one trajectory each, FITS at most."""
    of_trajectories = trajectory_rows(trajectory)
    together = min(groups, *map(len, of_trajectories))
    pieces = []
    for samples in of_trajectories:
        complete = len(samples) // together * together
        groups_of_samples = samples[:complete].unflatten(0, (-1, together))
        pieces.append(groups_of_samples)
    rows = torch.cat(pieces)
    chosen = tensors.evenly(len(rows), FITS)
    return rows[chosen.unique()]


def samples_of(seen: Observations, dynamics: Dynamics | None) -> Tensor:
    """Observations as (B, G, N): a window is one sample, without dynamics each time is one."""
    if dynamics is None:
        return seen.values
    increase = bool((seen.times.diff() > 0).all())
    if len(seen.times) != seen.values.shape[1] or not increase:
        got = "others"
        if len(seen.times) == 1:
            got = "none"
        raise InputError(
            "observations",
            expected="times that increase",
            got=got,
            fix="add a coordinate `time`, or leave out dynamics",
        )
    return seen.values.flatten(1).unsqueeze(1)
