"""What every optimizer of a stack gives: a state of tensors, and a pure function that makes one step for all seeds."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.training.flat import FlatParameters

Loss = Callable[..., Tensor]
"""(theta (S, P), *batch) -> loss of each seed (S,)."""


class State(NamedTuple):
    """Everything that a step changes.

    Attributes:
        theta: (S, P) parameters.
        moments: tensors of the optimizer's own, each with a leading seed axis.
        count: () steps taken.
        alive: (S, 1) whether loss, gradient and parameters of a seed have been finite so far.
    """

    theta: Tensor
    moments: tuple[Tensor, ...]
    count: Tensor
    alive: Tensor


Step = Callable[..., tuple[State, Tensor]]
"""(state, learning rates (S, 1), *batch) -> (state, losses (S,))."""


class Optimizer(abc.ABC):
    """A first-order method for all seeds at once. Rows of theta never mix, and a seed that diverges freezes alone."""

    def moments(self, theta: Tensor, flat: FlatParameters) -> tuple[Tensor, ...]:
        """The optimizer's own tensors before the first step: by default the first and second moment of Adam."""
        return torch.zeros_like(theta), torch.zeros_like(theta)

    @abc.abstractmethod
    def update(
        self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """New theta and moments from the gradient (S, P); `state.count` already counts this step."""

    def between(self, state: State, taken: int) -> State:
        """What is done after `taken` steps and before the next, eagerly, for it is rare or cannot be compiled."""
        return state

    def start(self, theta: Tensor, flat: FlatParameters) -> State:
        """The state before the first step."""
        alive = torch.ones(len(theta), 1, dtype=torch.bool, device=theta.device)
        return State(theta, self.moments(theta, flat), theta.new_zeros(()), alive)

    def make_step(self, loss: Loss, flat: FlatParameters) -> Step:
        """The function that makes one step. A seed that stops being finite keeps its last parameters."""

        @torch.no_grad()
        def step(state: State, lr: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
            gradient, losses = _gradient_and_losses(loss, state.theta, batch)
            state = state._replace(count=state.count + 1)
            theta, moments = self.update(state, gradient, lr, flat)
            finite = [tensor.isfinite().all(1, keepdim=True) for tensor in (gradient, theta, losses.unsqueeze(1))]
            alive = state.alive & finite[0] & finite[1] & finite[2]
            kept = tuple(_where(alive, new, old) for new, old in zip(moments, state.moments, strict=True))
            return State(_where(alive, theta, state.theta), kept, state.count, alive), losses

        return step


def _gradient_and_losses(loss: Loss, theta: Tensor, batch: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """(S, P) gradient of each seed's loss with respect to its own row, and the losses (S,)."""

    def total(theta: Tensor) -> tuple[Tensor, Tensor]:
        losses = loss(theta, *batch)
        return losses.sum(), losses

    if torch.compiler.is_compiling():  # what Dynamo can trace into one graph is twice as slow in eager mode
        return torch.func.grad(total, has_aux=True)(theta)
    with torch.enable_grad():
        variable = theta.detach().requires_grad_()
        value, losses = total(variable)
    return torch.autograd.grad(value, variable)[0], losses.detach()


def clipped(gradient: Tensor, largest: float) -> Tensor:
    """Each seed's gradient (S, P), shortened to at most `largest` in Euclidean norm."""
    return gradient * (largest / gradient.norm(dim=1, keepdim=True)).clamp(max=1.0)


def _where(alive: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(alive.reshape(len(alive), *(1,) * (new.ndim - 1)), new, old)
