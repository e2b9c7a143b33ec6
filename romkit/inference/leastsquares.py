"""Nonlinear least squares over a context and latent states, of many members at once."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.core.levenberg import levenberg_marquardt
from romkit.inference.modelerror import Weight
from romkit.inference.prediction import Prediction, with_derivatives

RIDGE = 1e-12
"""Share of the largest diagonal entry that is added to all, for directions that nothing determines."""


@dataclass(frozen=True, eq=False)
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
        return replace(self, **{name: getattr(self, name)[members] for name in self.TENSORS})

    def replaced(self, members: Tensor, other: "Fit") -> "Fit":
        changed = {}
        for name in self.TENSORS:
            changed[name] = getattr(self, name).index_copy(0, members, getattr(other, name))
        return replace(self, **changed)

    def moved(self, members: Tensor, damping: Tensor) -> "Fit":
        return self.problem.at(self.members, *self.step(damping))

    def step(self, damping: Tensor) -> tuple[Tensor, Tensor]:
        """Next d, within the bound, and the w that belong to it."""
        bound = self.problem.bound
        matrix, slope, inner = self.eliminated(damping)
        unbounded = self.d + torch.linalg.solve(matrix, slope)
        d = unbounded.clamp(-bound, bound)
        # w follows the step of d that is taken
        change = (d - self.d)[:, None, :, None]  # (M, 1, p, 1)
        by_context, step = inner[..., :-1], inner[..., -1]
        follows = (by_context @ change).squeeze(-1)  # (M, G, q)
        return d, self.w + step - follows

    def eliminated(self, damping: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normal equations of d without w: matrix (M, p, p) and right-hand side (M, p); and w as a
        function of d.

        The last are (M, G, q, p + 1): minus the derivative of the step of w by that of d, and the
        step at d.
        """
        p = self.d.shape[1]
        diagonal = self.blocks.diagonal(dim1=-2, dim2=-1)  # (M, G, p + q)
        ridge = RIDGE * (1 + diagonal.amax(-1, keepdim=True))
        added = damping.reshape(-1, 1, 1) * diagonal + ridge
        damped = self.blocks + torch.diag_embed(added)
        slope = self.slope.unsqueeze(-1)
        # of [A B; Bᵀ C] the Schur complement A - B C⁻¹ Bᵀ, and so of the right-hand side
        of_d, of_w = damped[..., :p], damped[..., p:]
        known = torch.cat([of_d, slope], dim=-1)  # (M, G, p + q, p + 1)
        inner = torch.linalg.solve(of_w[..., p:, :], known[..., p:, :])
        reduced = (known[..., :p, :] - of_w[..., :p, :] @ inner).sum(1)  # (M, p, p + 1)
        return reduced[..., :p], reduced[..., p], inner


@dataclass(frozen=True, eq=False)
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
    prior: tuple[Tensor, Tensor]
    bound: Tensor

    def at(self, members: Tensor, d: Tensor, w: Tensor) -> Fit:
        """Cost and normal equations of some of the members."""
        groups, p = w.shape[1], d.shape[1]
        x, jacobian = with_derivatives(
            self.predict, d.repeat_interleave(groups, 0), w.flatten(0, 1)
        )
        x = x.unflatten(0, (-1, groups))  # (M, G, N)
        jacobian = jacobian.unflatten(0, (-1, groups))  # (M, G, N, p + q)
        y = self.y[members]
        residual = (y - x).unsqueeze(-1)
        rows = torch.cat([jacobian, residual], dim=-1) / self.sigma.unsqueeze(-1)
        rows = torch.where(y.isfinite().unsqueeze(-1), rows, 0.0)
        lost = ~rows.flatten(1).isfinite().all(1)
        # one product holds the matrix, the right-hand side and the sum of squares
        products = self.weight.at(members).product(rows.nan_to_num(0.0, 0.0, 0.0))
        blocks = products[..., :-1, :-1].clone()
        slope = products[..., :-1, -1].clone()
        # the prior of d counts once, with the first of the samples that share it
        mean, precision = self.prior
        apart = d - mean[members]
        blocks[:, 0, :p, :p] += torch.diag(precision)
        slope[:, 0, :p] -= precision * apart
        by_prior = (precision * apart**2).sum(1)
        cost = products[..., -1, -1].sum(1) + by_prior
        return Fit(self, members, d, w, cost.masked_fill(lost, torch.inf), blocks, slope)

    def solved(self, d: Tensor, w: Tensor, steps: int = 10, enough: float = 1e-2) -> Fit:
        """Levenberg-Marquardt from d (M, p) and w (M, G, q), until the sum of squares changes by
        less than enough.
        """
        start = self.at(torch.arange(len(d)), d, w)
        return levenberg_marquardt(start, trials=steps, absolute=enough)
