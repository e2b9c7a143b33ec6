"""Adam for a stack: every seed has its own gradient clipping, and freezes alone when it diverges."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class State(NamedTuple):
    """Everything that one step changes: theta, both moments (S, P), the step count (), and who is alive (S, 1)."""

    theta: Tensor
    first: Tensor
    second: Tensor
    count: Tensor
    alive: Tensor

    @classmethod
    def start(cls, theta: Tensor) -> "State":
        zero = torch.zeros_like(theta)
        alive = torch.ones(len(theta), 1, dtype=torch.bool, device=theta.device)
        return cls(theta, zero, zero.clone(), theta.new_zeros(()), alive)


def make_step(loss: Callable[..., Tensor], *, clip: float, weight_decay: float) -> Callable[..., tuple[State, Tensor]]:
    """The function (state, lr, *batch) -> (state, loss per seed) of one Adam step on all seeds.

    A seed whose loss or gradient is not finite keeps its last parameters from then on; rows never mix, so the
    others are exactly what they would be without it.

    Args:
        loss: (theta (S, P), *batch) -> (S,).
        clip: largest Euclidean norm of a seed's gradient.
        weight_decay: L2 coefficient, added to the gradient as torch.optim.Adam does.

    Source: Kingma & Ba (2015), algorithm 1.
    """

    def total(theta: Tensor, *batch: Tensor) -> tuple[Tensor, Tensor]:
        losses = loss(theta, *batch)
        return losses.sum(), losses

    def step(state: State, lr: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
        gradient, losses = torch.func.grad(total, has_aux=True)(state.theta, *batch)
        norm = gradient.norm(dim=1, keepdim=True)
        alive = state.alive & norm.isfinite() & losses.isfinite().unsqueeze(1)
        gradient = gradient * (clip / norm).clamp(max=1.0) + weight_decay * state.theta
        count = state.count + 1
        first = state.first.lerp(gradient, 1 - BETA1)
        second = state.second.lerp(gradient.square(), 1 - BETA2)
        direction = (first / (1 - BETA1**count)) / ((second / (1 - BETA2**count)).sqrt() + EPSILON)
        kept = [
            torch.where(alive, new, old)
            for new, old in zip((state.theta - lr * direction, first, second), state, strict=False)
        ]
        return State(*kept, count, alive), losses

    return step
