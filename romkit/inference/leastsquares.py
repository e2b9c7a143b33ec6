"""Nonlinear least squares over a context and latent states, of many members at once."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.inference.modelerror import Weight
from romkit.inference.prediction import Prediction, with_derivatives


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

    def eliminated(self, damping: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normal equations of d without w: matrix (M, p, p) and right-hand side (M, p); and w as a
        function of d.

        The last are (M, G, q, p + 1): minus the derivative of the step of w by that of d, and the
        step at d.
        """
        p = self.d.shape[1]
        diagonal = self.blocks.diagonal(dim1=-2, dim2=-1)
        more = damping.reshape(-1, 1, 1) * diagonal + 1e-12 * (1 + diagonal.amax(-1, keepdim=True))
        blocks = torch.cat([self.blocks + torch.diag_embed(more), self.slope.unsqueeze(-1)], dim=-1)
        right = torch.cat([blocks[..., :p], blocks[..., -1:]], dim=-1)
        inner = torch.linalg.solve(blocks[..., p:, p:-1], right[..., p:, :])
        reduced = (right[..., :p, :] - blocks[..., :p, p:-1] @ inner).sum(1)
        return reduced[..., :p], reduced[..., p], inner

    def step(self, damping: Tensor, bound: Tensor) -> tuple[Tensor, Tensor]:
        """Next d, within the bound, and the w that belong to it."""
        matrix, slope, inner = self.eliminated(damping)
        d = (self.d + torch.linalg.solve(matrix, slope)).clamp(-bound, bound)
        return d, self.w + inner[..., -1] - (
            inner[..., :-1] @ (d - self.d)[:, None, :, None]
        ).squeeze(-1)

    def with_(self, which: Tensor, other: "Fit") -> "Fit":
        """Members `which` (k,) replaced by those of another fit."""
        return Fit(
            *(mine.index_copy(0, which, theirs) for mine, theirs in zip(self, other, strict=True))
        )


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
        every = d.repeat_interleave(groups, 0), w.flatten(0, 1)
        x, jacobian = with_derivatives(self.predict, *every)
        x, jacobian = x.unflatten(0, (-1, groups)), jacobian.unflatten(0, (-1, groups))
        y = self.y[members]
        both = torch.cat([jacobian, (y - x).unsqueeze(-1)], dim=-1) / self.sigma.unsqueeze(-1)
        both = torch.where(y.isfinite().unsqueeze(-1), both, 0.0)
        lost = ~both.flatten(1).isfinite().all(1)
        products = self.weight.at(members).product(both.nan_to_num(0.0, 0.0, 0.0))
        mean, precision = self.prior
        blocks, slope = products[..., :-1, :-1].clone(), products[..., :-1, -1].clone()
        blocks[:, 0, :p, :p] += torch.diag(precision)
        slope[:, 0, :p] += precision * (mean[members] - d)
        cost = products[..., -1, -1].sum(1) + (precision * (d - mean[members]) ** 2).sum(1)
        return Fit(d, w, cost.masked_fill(lost, torch.inf), blocks, slope)

    def solved(self, d: Tensor, w: Tensor, steps: int = 10, enough: float = 1e-2) -> Fit:
        """Levenberg-Marquardt from d (M, p) and w (M, G, q), until the sum of squares decreases by
        less than enough.
        """
        members, damping = torch.arange(len(d)), torch.full((len(d),), 1e-3, dtype=d.dtype)
        found = self.at(members, d, w)
        for _ in range(steps):
            now = Fit(*(part[members] for part in found))
            trial = self.at(members, *now.step(damping[members], self.bound))
            gain = now.cost - trial.cost
            better = gain > 0
            found = found.with_(members[better], Fit(*(part[better] for part in trial)))
            damping[members] *= torch.where(better, 0.1, 5.0)
            done = (gain.abs() < enough) | (damping[members] > 1e4)
            members = members[~done]
            if not len(members):
                break
        return found
