"""Nonlinear least squares over a context and latent states, of many members at once."""

from dataclasses import replace

import torch
from torch import Tensor

from romkit.assimilation.modelerror import Weight
from romkit.assimilation.prediction import Prediction, differentiate
from romkit.core.levenberg import levenberg_marquardt
from romkit.core.types import Pair, frozen


@frozen
class Fit:
    """Least squares of M members with G samples each, about one point of each: an `Expansion`.

    Attributes:
        problem: whose members these are.
        members: (M,) their numbers in the problem.
        d, w: (M, p) and (M, G, q).
        cost: (M,).
        blocks: (M, G, p + q, p + q) matrices of the normal equations.
        slope: (M, G, p + q) their right-hand sides.
    """

    problem: "LeastSquares"
    members: Tensor
    d: Tensor
    w: Tensor
    cost: Tensor
    blocks: Tensor
    slope: Tensor

    TENSORS = ("members", "d", "w", "cost", "blocks", "slope")

    def select(self, members: Tensor) -> "Fit":
        chosen = {name: getattr(self, name)[members] for name in self.TENSORS}
        return replace(self, **chosen)

    def replaced(self, members: Tensor, other: "Fit") -> "Fit":
        changed = {}
        for name in self.TENSORS:
            values = getattr(other, name)
            changed[name] = getattr(self, name).index_copy(0, members, values)
        return replace(self, **changed)

    def moved(self, members: Tensor, damping: Tensor) -> "Fit":
        d, w = self.step(damping)
        return self.problem.at(self.members, d, w)

    def step(self, damping: Tensor) -> Pair:
        """Next d, within the bound, and the w that belong to it."""
        bound = self.problem.bound
        matrix, slope, inner = self.eliminated(damping)
        unbounded = self.d + torch.linalg.solve(matrix, slope)
        d = unbounded.clamp(-bound, bound)
        # w follows the step of d that is taken
        change = (d - self.d)[:, None, :, None]  # (M, 1, p, 1)
        by_context = inner[..., :-1]  # (M, G, q, p)
        step = inner[..., -1]  # (M, G, q)
        follows = (by_context @ change).squeeze(-1)
        return d, self.w + step - follows

    def eliminated(self, damping: Tensor, *, share: float = 1e-12) -> tuple[Tensor, Tensor, Tensor]:
        """Return normal equations of d without w: matrix (M, p, p) and right-hand side (M, p); and
        w as a function of d.

        The last are (M, G, q, p + 1): minus the derivative of the step of w by that of d, and the
        step at d.

        `share`: share of the largest diagonal entry that is added to all, for directions that
        nothing determines.
        """
        p = self.d.shape[1]
        diagonal = self.blocks.diagonal(dim1=-2, dim2=-1)  # (M, G, p + q)
        largest = diagonal.amax(-1, keepdim=True)
        ridge = share * (1 + largest)
        added = damping.reshape(-1, 1, 1) * diagonal + ridge
        damped = self.blocks + torch.diag_embed(added)
        slope = self.slope.unsqueeze(-1)
        # of [A B; Bᵀ C] the Schur complement A - B C⁻¹ Bᵀ, and so of the right-hand side
        known = torch.cat([damped[..., :p], slope], dim=-1)  # (M, G, p + q, p + 1)
        B = damped[..., :p, p:]
        C = damped[..., p:, p:]
        inner = torch.linalg.solve(C, known[..., p:, :])
        schur = known[..., :p, :] - B @ inner
        reduced = schur.sum(1)  # (M, p, p + 1)
        return reduced[..., :p], reduced[..., p], inner


@frozen
class LeastSquares:
    """Problem of M members with G samples of N numbers each and one context.

    Attributes:
        predict: (d, w) -> numbers (M, N).
        y: (M, G, N), NaN where missing.
        sigma: (N,) standard deviations of what counts as noise.
        weight: of the samples.
        prior: mean (M, p) and precision (p,) of d.
        bound: (p,) largest |d|.
    """

    predict: Prediction
    y: Tensor
    sigma: Tensor
    weight: Weight
    prior: Pair
    bound: Tensor

    def at(self, members: Tensor, d: Tensor, w: Tensor) -> Fit:
        """Cost and normal equations of some of the members."""
        p = d.shape[1]
        rows, lost = self._rows(members, d, w)
        # one product holds the matrix, the right-hand side and the sum of squares
        products = self.weight.at(members).product(rows)
        blocks = products[..., :-1, :-1].clone()
        slope = products[..., :-1, -1].clone()
        squares = products[..., -1, -1].sum(1)
        # the prior of d counts once, with the first of the samples that share it
        mean, precision = self.prior
        apart = d - mean[members]
        blocks[:, 0, :p, :p] += torch.diag(precision)
        slope[:, 0, :p] -= precision * apart
        by_prior = (precision * apart**2).sum(1)
        cost = squares + by_prior
        cost = cost.masked_fill(lost, torch.inf)
        return Fit(self, members, d, w, cost, blocks, slope)

    def _rows(self, members: Tensor, d: Tensor, w: Tensor) -> Pair:
        """Return derivatives and residual (M, G, N, p + q + 1) in units of the noise, zero where
        missing; which members are lost (M,).
        """
        groups = w.shape[1]
        of_samples = d.repeat_interleave(groups, 0)
        latents = w.flatten(0, 1)
        x, jacobian = differentiate(self.predict, of_samples, latents)
        x = x.unflatten(0, (-1, groups))  # (M, G, N)
        jacobian = jacobian.unflatten(0, (-1, groups))  # (M, G, N, p + q)
        y = self.y[members]
        residual = (y - x).unsqueeze(-1)
        rows = torch.cat([jacobian, residual], dim=-1)
        rows = rows / self.sigma.unsqueeze(-1)
        observed = y.isfinite().unsqueeze(-1)
        rows = torch.where(observed, rows, 0.0)
        lost = ~rows.flatten(1).isfinite().all(1)
        return rows.nan_to_num(0.0, 0.0, 0.0), lost

    def solved(self, d: Tensor, w: Tensor, steps: int = 10, enough: float = 1e-2) -> Fit:
        """Levenberg-Marquardt from d (M, p) and w (M, G, q), until the sum of squares changes by
        less than enough.
        """
        start = self.at(torch.arange(len(d)), d, w)
        return levenberg_marquardt(start, trials=steps, absolute=enough)
