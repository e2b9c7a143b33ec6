"""Muon: steps of orthogonal direction on the weights of the layers, Adam on everything else."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from romkit.training.batches import FlatParameters
from romkit.training.optimizers import Adam, Optimizer, State, clipped

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Odd quintic a x + b x³ + c x⁵, whose iterates bring singular values near one fastest (Jordan et al. 2024)."""
RMS = 0.2
"""Root mean square of the entries of a step at learning rate 1, about that of Adam's steps (Liu et al. 2025)."""


@dataclass(frozen=True)
class Muon(Optimizer):
    """Nesterov momentum, orthogonalised, on the free matrices behind each (Φ, Ψ); Adam on the rest.

    Args:
        momentum: of the matrices.
        iterations: of Newton-Schulz.
        adam: what moves the rest; its `clip` holds for the gradient of all.

    Source: Jordan et al. (2024), "Muon: an optimizer for hidden layers in neural networks"; the length of a step as
    in Liu et al. (2025), "Muon is scalable for LLM training", so that one learning rate serves both parts.
    """

    momentum: float = 0.95
    iterations: int = 5
    adam: Adam = field(default_factory=lambda: Adam(clip=10.0))

    def moments(self, theta: Tensor, flat: FlatParameters) -> tuple[Tensor, ...]:
        return self.adam.moments(theta, flat)

    def update(
        self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        plain, (first, second) = self.adam.update(state, gradient, lr, flat)
        points, _ = flat.split(state.theta)
        slopes, _ = flat.split(clipped(gradient, self.adam.clip))
        before, _ = flat.split(state.moments[0])
        momenta = [self.momentum * m + g for m, g in zip(before, slopes, strict=True)]
        moved = [
            x - lr[:, :, None, None] * self._direction(g + self.momentum * m)
            for x, m, g in zip(points, momenta, slopes, strict=True)
        ]
        _, rest = flat.split(plain)
        _, first_of_rest = flat.split(first)
        return flat.join(moved, rest), (flat.join(momenta, first_of_rest), second)

    def _direction(self, momentum: Tensor) -> Tensor:
        return RMS * max(momentum.shape[-2:]) ** 0.5 * orthogonalised(momentum, self.iterations)


def orthogonalised(matrix: Tensor, iterations: int) -> Tensor:
    """U Vᵀ of each (..., n, r) = U Σ Vᵀ with n >= r, roughly: singular values end between 0.7 and 1.2."""
    a, b, c = COEFFICIENTS
    x = matrix / (torch.linalg.matrix_norm(matrix, keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x.mT @ x
        x = a * x + x @ (b * gram + c * gram @ gram)
    return x
