"""SOAP: Adam in the eigenbases of Shampoo's preconditioner, for a stack of seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.training.flat import FlatParameters
from romkit.training.optimizers.base import Optimizer, State, clipped

TINY = 1e-30
"""Keeps a basis where its mean is still zero."""

LARGEST = 512
"""Sides of a matrix from here on are not turned: a basis of theirs would cost more than it gains."""


@dataclass(frozen=True)
class Soap(Optimizer):
    """Adam on the parameters of each matrix, turned into slowly moving bases U and V, Uᵀ G V, and turned back.

    For a matrix with gradient G the bases are the eigenvectors of the running means of G Gᵀ and of Gᵀ G; a vector has
    one row. They follow by one step of orthogonal iteration every `period` steps, between the steps and eagerly: all
    else is compiled as for Adam. Where the bases are those of the coordinates, it is Adam. With biorthogonal pairs it
    works on the free matrices behind them.

    Args:
        clip: largest Euclidean norm of a seed's gradient.
        weight_decay: L2 coefficient, added to the gradient.
        beta1, beta2, epsilon: of Adam's moments.
        memory: of the two running means.
        period: steps between two updates of the bases.

    Source: Vyas et al. (2024), "SOAP: improving and stabilizing Shampoo using Adam", algorithm 3.
    """

    clip: float
    weight_decay: float = 0.0
    beta1: float = 0.95
    beta2: float = 0.99
    epsilon: float = 1e-8
    memory: float = 0.95
    period: int = 10

    def moments(self, theta: Tensor, flat: FlatParameters) -> tuple[Tensor, ...]:
        """First moment, second moment in the bases, then for each side of a matrix that is turned mean, and basis."""
        matrices = flat.matrices(theta)
        bases = [_identity(matrices[k], axis) for k, axis in _sides(matrices)]
        return torch.zeros_like(theta), torch.zeros_like(theta), *map(torch.zeros_like, bases), *bases

    def update(
        self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        gradient = clipped(gradient, self.clip) + self.weight_decay * state.theta
        means, bases = _means_and_bases(state)
        slopes = flat.matrices(gradient)
        sides = _sides(slopes)
        squares = [_gram(slopes[k], axis) for k, axis in sides]
        means = [mean.lerp(square, 1 - self.memory) for mean, square in zip(means, squares, strict=True)]
        turned = flat.from_matrices(_turned(slopes, sides, bases))
        first = state.moments[0].lerp(gradient, 1 - self.beta1)
        second = state.moments[1].lerp(turned.square(), 1 - self.beta2)
        momentum = flat.from_matrices(_turned(flat.matrices(first), sides, bases)) / (1 - self.beta1**state.count)
        step = momentum / ((second / (1 - self.beta2**state.count)).sqrt() + self.epsilon)
        back = _turned(flat.matrices(step), sides, [basis.mT for basis in bases])
        return state.theta - lr * flat.from_matrices(back), (first, second, *means, *bases)

    @torch.no_grad()
    def between(self, state: State, taken: int) -> State:
        """Every `period` steps, one orthogonal iteration of each basis towards the eigenvectors of its mean."""
        if taken == 0 or taken % self.period:
            return state
        means, bases = _means_and_bases(state)
        bases = [torch.linalg.qr(mean @ Q + TINY * Q).Q.contiguous() for mean, Q in zip(means, bases, strict=True)]
        return state._replace(moments=(*state.moments[:2], *means, *bases))


def _sides(matrices: Sequence[Tensor]) -> list[tuple[int, int]]:
    """(number of the matrix, axis) of each side that is turned."""
    return [(k, axis) for axis in (-2, -1) for k, x in enumerate(matrices) if 1 < x.shape[axis] < LARGEST]


def _identity(matrix: Tensor, axis: int) -> Tensor:
    size = matrix.shape[axis]
    return torch.eye(size).to(matrix).expand(*matrix.shape[:2], size, size).clone()


def _gram(G: Tensor, axis: int) -> Tensor:
    """G Gᵀ or Gᵀ G, whose eigenvectors turn that side."""
    return G @ G.mT if axis == -2 else G.mT @ G


def _turned(matrices: Sequence[Tensor], sides: Sequence[tuple[int, int]], bases: Sequence[Tensor]) -> list[Tensor]:
    """Uᵀ X V of each matrix (S, K, a, b)."""
    matrices = list(matrices)
    for (k, axis), Q in zip(sides, bases, strict=True):
        matrices[k] = Q.mT @ matrices[k] if axis == -2 else matrices[k] @ Q
    return matrices


def _means_and_bases(state: State) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    both = state.moments[2:]
    return both[: len(both) // 2], both[len(both) // 2 :]
