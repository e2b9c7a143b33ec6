"""What races: a state of tensors and a function that makes one step for all seeds."""

from typing import Protocol

import torch
from torch import Tensor

from romkit.training.batches import FlatParameters
from romkit.training.optimizers import Loss, State, Step


class Method(Protocol):
    """What the race needs of an optimizer; `romkit.training.optimizers.Optimizer` has it."""

    def start(self, theta: Tensor, flat: FlatParameters) -> State:
        """The state before the first step, from parameters theta (S, P)."""

    def make_step(self, loss: Loss, flat: FlatParameters) -> Step:
        """(state, learning rates (S, 1), *batch) -> (state, losses (S,))."""

    def between(self, state: State, taken: int) -> State:
        """What is done after `taken` steps and before the next, eagerly."""
        return state


def begin(theta: Tensor, moments: tuple[Tensor, ...]) -> State:
    """A state before the first step in which every seed is alive."""
    alive = torch.ones(len(theta), 1, dtype=torch.bool, device=theta.device)
    return State(theta, moments, theta.new_zeros(()), alive)


def value_and_gradient(loss: Loss, theta: Tensor, *batch: Tensor) -> tuple[Tensor, Tensor]:
    """Losses (S,) and the gradient (S, P) of each with respect to its own row of theta."""

    def total(theta: Tensor) -> tuple[Tensor, Tensor]:
        losses = loss(theta, *batch)
        return losses.sum(), losses

    gradient, losses = torch.func.grad(total, has_aux=True)(theta)
    return losses, gradient


def choose(which: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Seed by seed `new` (S, ...) where `which` (S,) says so, else `old`."""
    return torch.where(which.reshape(len(which), *(1,) * (new.ndim - 1)), new, old)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """(S,) inner products of the rows of a and b (S, P)."""
    return (a * b).sum(1)
