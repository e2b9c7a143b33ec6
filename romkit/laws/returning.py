"""Displaced samples that lead back, for data that say nothing about what is beside them."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.laws.courses import Runs
from romkit.laws.sensitivities import Motion

SPREAD, COPIES = 0.05, 4
"""Deviation of displaced samples [largest latent], and their number for each sample."""


class Returning(NamedTuple):
    """Normal equations of displaced samples for each group: (G, K, K), and (G, K, m)."""

    matrix: Tensor
    target: Tensor

    @classmethod
    def of(cls, motion: Motion, runs: Runs) -> "Returning":
        """Return samples displaced across the motion by a, whose rates differ by -a from those
        beside.

        In second order the displacements of z and ż together make the difference, as those of a
        damped oscillator do.
        """
        draw = torch.Generator().manual_seed(0)
        w = runs.states.nan_to_num(0.0)  # (n, T, d)
        along = torch.nn.functional.normalize(torch.gradient(w, dim=1)[0], dim=-1)
        observed = runs.observed.unsqueeze(-1)
        beside = _terms(motion, runs, w)
        groups = len(runs.mix)
        K = beside.shape[-1]
        matrix = w.new_zeros(groups, K, K)
        target = w.new_zeros(groups, K, motion.latent_dim)
        for _ in range(COPIES):
            apart = SPREAD * torch.randn(w.shape, generator=draw, dtype=w.dtype).to(w)
            across = apart - (apart * along).sum(-1, keepdim=True) * along
            across = across * observed
            difference = _terms(motion, runs, w + across) - beside  # (n, T, K)
            lead_back = across.unflatten(-1, (motion.order, motion.latent_dim)).sum(-2)
            matrix.index_add_(0, runs.group, difference.mT @ difference)
            target.index_add_(0, runs.group, difference.mT @ lead_back)
        number = COPIES * w.shape[1] * len(w)
        return cls(matrix / number, target / number)

    def cost(self, W: Tensor) -> Tensor:
        """Return mean square of what rates of laws (G, K, m) differ from leading back, up to a
        constant.
        """
        square = torch.einsum("gkm,gkl,glm->", W, self.matrix, W)
        product = (W * self.target).sum()
        return square + 2 * product

    def normal_equations(self, W: Tensor) -> tuple[Tensor, Tensor]:
        """Half the derivatives of the cost by W: (G, K m, K m), and (G, K m)."""
        unit = torch.eye(W.shape[-1], dtype=W.dtype, device=W.device)
        matrix = torch.einsum("gkl,ab->gkalb", self.matrix, unit)
        size = W[0].numel()
        slope = self.matrix @ W + self.target
        return matrix.reshape(-1, size, size), slope.flatten(1)


def _terms(motion: Motion, runs: Runs, w: Tensor) -> Tensor:
    """Return terms (n, T, K) of a law at states, those of a context that moves included."""
    terms = motion.terms(motion.variables(w))
    if runs.moving is None:
        return terms
    assert runs.factors is not None  # of a context that moves
    factors = runs.factors(runs.moving.nan_to_num(0.0)).unsqueeze(-2)  # (n, T, 1, q)
    return (terms.unsqueeze(-1) * factors).flatten(-2)
