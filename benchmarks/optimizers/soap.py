"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from romkit.training.flat import FlatParameters
from romkit.training.optimizers import Adam, Optimizer, State
from romkit.training.optimizers.base import Loss, Step, clipped

TINY = 1e-30
"""Keeps a basis where its mean is still zero."""


@dataclass(frozen=True)
class SOAP(Optimizer):
    """Adam on the free matrices behind each (Φ, Ψ), turned into slowly moving eigenbases; Adam on the rest.

    For a matrix with gradient G the bases are those of the running means of G Gᵀ and of Gᵀ G. They follow by one
    step of orthogonal iteration every `period` steps.

    Args:
        memory: of the two running means.
        period: steps between two updates of the bases.
        adam: rates of the moments, and `clip` for the gradient of all.

    Source: Vyas et al. (2024), "SOAP: improving and stabilizing Shampoo using Adam", algorithm 3.
    """

    memory: float = 0.95
    period: int = 10
    adam: Adam = field(default_factory=lambda: Adam(clip=10.0, beta1=0.95, beta2=0.99))

    def moments(self, theta: Tensor, flat: FlatParameters) -> tuple[Tensor, ...]:
        """First and second moment (the latter in the bases), then left and right means, then left and right bases."""
        points, _ = flat.split(theta)
        sides = [x.new_zeros(*x.shape[:2], n, n) for axis in (2, 3) for x in points for n in (x.shape[axis],)]
        bases = [torch.eye(side.shape[-1]).to(side).expand_as(side).clone() for side in sides]
        return torch.zeros_like(theta), torch.zeros_like(theta), *sides, *bases

    def make_step(self, loss: Loss, flat: FlatParameters) -> Step:
        """Steps of `update`, with the bases brought up to date every `period` steps."""
        plain = super().make_step(loss, flat)

        def step(state: State, lr: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
            if state.count % self.period == 0:
                state = _turned(state)
            return plain(state, lr, *batch)

        return step

    def update(
        self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        left, right, u, v = _groups(state.moments[2:])
        slopes, rest = flat.split(clipped(gradient, self.adam.clip))
        left = [a.lerp(g @ g.mT, 1 - self.memory) for a, g in zip(left, slopes, strict=True)]
        right = [a.lerp(g.mT @ g, 1 - self.memory) for a, g in zip(right, slopes, strict=True)]
        first = state.moments[0].lerp(flat.join(slopes, rest), 1 - self.adam.beta1)
        turned = [a.mT @ g @ b for a, g, b in zip(u, slopes, v, strict=True)]
        second = state.moments[1].lerp(flat.join(turned, rest).square(), 1 - self.adam.beta2)
        momenta, momentum_of_rest = flat.split(first / (1 - self.adam.beta1**state.count))
        scales, scale_of_rest = flat.split((second / (1 - self.adam.beta2**state.count)).sqrt() + self.adam.epsilon)
        steps = [a @ ((a.mT @ m @ b) / s) @ b.mT for a, m, s, b in zip(u, momenta, scales, v, strict=True)]
        theta = state.theta - lr * flat.join(steps, momentum_of_rest / scale_of_rest)
        return theta, (first, second, *left, *right, *u, *v)


def _groups(moments: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    """Left means, right means, left bases, right bases."""
    size = len(moments) // 4
    return [moments[k * size : (k + 1) * size] for k in range(4)]


@torch.compiler.disable
@torch.no_grad()
def _turned(state: State) -> State:
    """One orthogonal iteration of each basis towards the eigenvectors of its mean, which is zero at the start."""
    left, right, u, v = _groups(state.moments[2:])
    bases = [torch.linalg.qr(a @ q + TINY * q).Q for a, q in zip(left + right, u + v, strict=True)]
    return state._replace(moments=(*state.moments[:2], *left, *right, *bases))
