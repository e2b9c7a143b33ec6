"""Errors of hidden contexts, of laws and of forecasts: covariances from the normal equations of the
last fit, and factors on them that left-out groups tell.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from romkit.core.tensors import divisor
from romkit.core.types import frozen
from romkit.hidden.family import Family
from romkit.hidden.joint import HELD, Expanded, Extrapolated, joint_equations
from romkit.hidden.placing import Placed
from romkit.laws.shooting import ROUNDING


@frozen
class Noise:
    """Residuals of a fit, in its units.

    Attributes:
        variance: of a number.
        freedom: numbers less unknowns, by which it is told.
        of_latents: (m,) variance of each latent.
    """

    variance: float
    freedom: int
    of_latents: Tensor


def residual_noise(end: Expanded, unknowns: int) -> Noise:
    """Variance of the residuals of a fit of so many unknowns, beside the starts; of latents it is at
    least the mean square error of forecasts' steps.
    """
    shots = end.fit.shots
    windows = shots.windows
    starts = int(windows.seen[0].sum()) * windows.start.shape[-1]
    freedom = max(1, shots.number - unknowns - starts)
    weights = end.family.weights[shots.group]
    reached = shots.structure.motion.rollout(weights, end.start, windows.course)
    residual = torch.where(windows.seen.unsqueeze(-1), reached - windows.truth, 0.0)
    squares = residual.square().sum((0, 1, 2))  # (m,)
    of_latents = (squares * len(squares) / freedom).clamp(min=ROUNDING)
    variance = max(float(squares.sum()) / freedom, torch.finfo(squares.dtype).eps ** 2)
    return Noise(variance, freedom, of_latents)


@frozen
class Posterior:
    """A family with the errors of a fit.

    Attributes:
        family: of laws, in the gauge.
        noise: of the residuals.
        covariance: (P, P) of θ and of the hidden contexts, P = K q m + G r.
    """

    family: Family
    noise: Noise
    covariance: Tensor

    @classmethod
    def estimate(cls, end: Expanded, *, stiff: float = 1e6) -> "Posterior":
        """Return a family without the error of its steps, and what is left of errors.

        `stiff`: weight of the gauge, relative to the largest information about a context.
        """
        fine, family, start, of_steps = Extrapolated.extrapolate(end)
        shots = fine.fit.shots
        blocks = fine.fit.blocks(family, start)
        matrix, _ = joint_equations(family, blocks)
        matrix = matrix * shots.number
        P, Q = len(matrix), family.theta.numel()
        r = family.hidden.shape[1]
        gauge = _gauge_rows(family)  # (k, G r)
        largest = matrix.diagonal()[Q:].max() if r else 0.0
        matrix[Q:, Q:] += stiff * largest * gauge.mT @ gauge
        matrix.diagonal().add_(HELD * shots.number)
        noise = residual_noise(fine, P - len(gauge))
        scale = divisor(matrix.diagonal().sqrt())
        unit = matrix / scale / scale.unsqueeze(-1)
        covariance = torch.linalg.pinv(unit, hermitian=True) / scale / scale.unsqueeze(-1)
        covariance = noise.variance * covariance + torch.outer(of_steps, of_steps)
        return cls(family, noise, covariance)

    @property
    def of_law(self) -> Tensor:
        """Covariance (K q m, K q m) of θ."""
        Q = self.family.theta.numel()
        return self.covariance[:Q, :Q]

    @property
    def deviations(self) -> Tensor:
        """Deviations (G, r) of the hidden contexts, relative to each other."""
        Q = self.family.theta.numel()
        variance = self.covariance.diagonal()[Q:].clamp(min=0.0)
        return variance.sqrt().reshape(self.family.hidden.shape)

    def of_weights(self, group: int) -> Tensor:
        """Covariance (K m, K m) of the coefficients of a group."""
        Q = self.family.theta.numel()
        r = self.family.hidden.shape[1]
        family = self.family.only(torch.tensor([group]))
        along = torch.cat([law_derivatives(family), family.tangents[0]], -1)
        rows = torch.cat([torch.arange(Q), Q + group * r + torch.arange(r)])
        return along @ self.covariance[rows][:, rows] @ along.mT


def law_derivatives(family: Family) -> Tensor:
    """Return derivatives (K m, K q m) of the coefficients of a single group by θ."""
    K, q, m = family.theta.shape
    latents = torch.eye(K, dtype=torch.float64)
    rates = torch.eye(m, dtype=torch.float64)
    along = torch.einsum("q,ka,mb->kmaqb", family.mix[0], latents, rates)
    return along.reshape(K * m, K * q * m)


def _gauge_rows(family: Family) -> Tensor:
    """Orthonormal rows (k, G r) of changes of contexts that change no law: affine ones."""
    G, r = family.hidden.shape
    affine = torch.cat([torch.ones(G, 1, dtype=torch.float64), family.context], -1)
    basis, _ = torch.linalg.qr(affine[:, : min(G, affine.shape[1])])
    unit = torch.eye(r, dtype=torch.float64)
    return torch.kron(basis.mT.contiguous(), unit)


@frozen
class Estimate:
    """Hidden context of new runs with its covariance, and what forecasts need.

    Attributes:
        at: context and starts of windows.
        noise: of the residuals of these runs and of the training together.
        covariance: (r, r) of the context.
        of_weights: (K m, K m) of the coefficients at the context.
    """

    at: Placed
    noise: Noise
    covariance: Tensor
    of_weights: Tensor

    @classmethod
    def evaluate(cls, at: Placed, posterior: Posterior) -> "Estimate":
        """Return errors of a placed context, by noise of the runs and by errors of the law."""
        fine, family, start, error = Extrapolated.extrapolate(at.end)
        at = replace(at, end=Expanded.expand(fine.fit, family, start))
        of_steps = error[family.theta.numel() :]  # (r,)
        spread = residual_noise(fine, family.hidden.numel())
        # noise of two fits together
        freedom = spread.freedom + posterior.noise.freedom
        weight, complement = spread.freedom / freedom, posterior.noise.freedom / freedom
        variance = weight * spread.variance + complement * posterior.noise.variance
        of_latents = weight * spread.of_latents + complement * posterior.noise.of_latents
        noise = Noise(variance, freedom, of_latents)
        shots = fine.fit.shots
        blocks = fine.fit.blocks(family, start)
        information = blocks.matrix[0] * shots.number  # (K m, K m)
        tangents = family.tangents[0]  # (K m, r)
        along_law = law_derivatives(family)
        of_law = along_law @ posterior.of_law @ along_law.mT
        along = tangents.mT @ information  # (r, K m)
        inverse = torch.linalg.pinv(along @ tangents, hermitian=True)  # (r, r)
        answer = inverse @ along  # (r, K m)
        own_errors = noise.variance * inverse + torch.outer(of_steps, of_steps)
        covariance = own_errors + answer @ of_law @ answer.mT
        residual = torch.eye(len(tangents), dtype=torch.float64) - tangents @ answer
        of_weights = residual @ of_law @ residual.mT
        of_weights = of_weights + tangents @ own_errors @ tangents.mT
        return cls(at, noise, covariance, of_weights)

    def forecast(self, times: Tensor, run: int = 0) -> tuple[Tensor, Tensor]:
        """Return states and deviations (T, m) of measurements of a run at times, in units of the
        fit.

        A change of the coefficients changes the start of the last window, which the data in it
        determine; what is left of the start is an error of its own.
        """
        window = self.at.last_window(run)
        course, places = window.course(times)
        weights = self.at.family.weights
        states, slopes = self.at.motion.sensitivities(weights, window.start, course, by_start=True)
        states = states[places][:, 0, 0]  # (L + 1 + T, m)
        slopes = slopes[places][:, 0, 0]  # (L + 1 + T, m, K m + m)
        size = weights[0].numel()
        inside = slopes[: len(window.inside)][window.seen].flatten(0, 1)
        slopes = slopes[len(window.inside) :]
        if not inside.isfinite().all():
            # the law leaves the data within the window, whose start then nothing determines
            reached = states[len(window.inside) :]
            return reached, torch.full_like(reached, torch.nan)
        of_start = inside[:, size:]
        inverse = torch.linalg.pinv(of_start.mT @ of_start, hermitian=True)
        response = inverse @ of_start.mT @ inside[:, :size]  # (m, K m)
        along = slopes[..., :size] - slopes[..., size:] @ response
        variance = torch.einsum("tmi,ij,tmj->tm", along, self.of_weights, along)
        beside = torch.einsum("tmi,ij,tmj->tm", slopes[..., size:], inverse, slopes[..., size:])
        variance = variance + self.noise.variance * beside + self.noise.of_latents
        return states[len(window.inside) :], variance.clamp(min=0.0).sqrt()


def factor(ratios: Tensor, level: float, width: float) -> float:
    """Return factor on deviations with which a share `level` of further errors, given relative to
    deviations, is within `width` deviations; at least 1 where they are too few to tell.

    Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman (2018), Distribution-free predictive inference
    for regression, for the rank.
    """
    finite = ratios[ratios.isfinite()].abs().sort().values
    rank = math.ceil((len(finite) + 1) * level)
    if rank > len(finite):
        return max([1.0, *(finite / width).tolist()])
    return float(finite[rank - 1]) / width
