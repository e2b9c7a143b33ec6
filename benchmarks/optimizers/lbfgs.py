"""L-BFGS on the whole training set, each seed with its own history and line search."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.optimizers.method import Method, begin, choose, dot, value_and_gradient
from romkit.training.batches import FlatParameters
from romkit.training.optimizers import Loss, State, Step


class Point(NamedTuple):
    """Parameters (S, P), losses (S,) and gradients (S, P)."""

    theta: Tensor
    loss: Tensor
    gradient: Tensor


@dataclass(frozen=True)
class LBFGS(Method):
    """Limited-memory BFGS with a line search for the weak Wolfe conditions by bisection.

    The learning rate is the length, in units of the quasi-Newton step, that a line search tries first.

    Args:
        memory: pairs of steps and gradient differences that are kept.
        decrease, curvature: constants of the Wolfe conditions.
        evaluations: of the loss that a line search may take.

    Source: Nocedal & Wright (2006), algorithm 7.4; Lewis & Overton (2013), algorithm 2.6.
    """

    memory: int = 30
    decrease: float = 1e-4
    curvature: float = 0.9
    evaluations: int = 12

    def start(self, theta: Tensor, flat: FlatParameters) -> State:
        """The state before the first step: no steps, no gradient differences, loss and gradient still unknown."""
        empty = theta.new_zeros(len(theta), self.memory, theta.shape[1])
        return begin(theta, (empty, empty, theta.new_zeros(len(theta)), torch.zeros_like(theta)))

    def make_step(self, loss: Loss, flat: FlatParameters) -> Step:
        """One line search of every seed, all on one batch. Who finds nothing better forgets its history."""

        @torch.compiler.disable(recursive=False)  # its branches follow the data; what it calls is compiled
        @torch.no_grad()
        def step(state: State, lr: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
            *history, value, gradient = state.moments
            if state.count == 0:
                value, gradient = value_and_gradient(loss, state.theta, *batch)
            here = Point(state.theta, value, gradient)
            direction = -_inverse_times(gradient, *history)
            there, better = self._search(loss, here, direction, lr.squeeze(1), batch)
            s, y = there.theta - here.theta, there.gradient - here.gradient
            alive = state.alive & here.loss.isfinite().unsqueeze(1)
            useful = better & (dot(s, y) > 1e-10 * dot(y, y))
            history = [
                choose(useful, torch.cat([old[:, 1:], new.unsqueeze(1)], 1), old * better[:, None, None])
                for old, new in zip(history, (s, y), strict=True)
            ]
            return State(there.theta, (*history, there.loss, there.gradient), state.count + 1, alive), here.loss

        return step

    @torch.compiler.disable(recursive=False)
    def _search(
        self, loss: Loss, here: Point, direction: Tensor, first: Tensor, batch: tuple[Tensor, ...]
    ) -> tuple[Point, Tensor]:
        """The last point of each seed that decreased the loss enough, and whether there was one (S,)."""
        slope = dot(here.gradient, direction)
        length, low, high = first, torch.zeros_like(first), torch.full_like(first, math.inf)
        found, better = here, torch.zeros_like(first, dtype=torch.bool)
        for _ in range(self.evaluations):
            theta = here.theta + length[:, None] * direction
            point = Point(theta, *value_and_gradient(loss, theta, *batch))
            lower = point.loss <= here.loss + self.decrease * length * slope  # False where not finite
            steep = dot(point.gradient, direction) < self.curvature * slope
            take = lower & (length > low)
            found = Point(*(choose(take, new, old) for new, old in zip(point, found, strict=True)))
            better = better | take
            low, high = torch.where(take, length, low), torch.where(lower, high, length)
            done = lower & ~steep
            if done.all():
                break
            middle = torch.where(high.isinf(), 2 * low, (low + high) / 2)
            length = torch.where(done, length, middle)
        return found, better


@torch.compiler.disable
def _inverse_times(gradient: Tensor, steps: Tensor, differences: Tensor) -> Tensor:
    """H g (S, P) for the inverse Hessian H of the histories (S, memory, P), oldest first; zero rows do nothing."""
    products = (steps * differences).sum(2)
    inverse = torch.where(products > 0, 1 / products, 0.0)
    q, weights = gradient, []
    for s, y, rho in reversed(list(zip(steps.unbind(1), differences.unbind(1), inverse.unbind(1), strict=True))):
        weights.append(rho * dot(s, q))
        q = q - weights[-1][:, None] * y
    newest = dot(differences[:, -1], differences[:, -1])
    known = newest > 0
    q = torch.where(known, products[:, -1] / newest, 1 / gradient.norm(dim=1).clamp(min=1.0))[:, None] * q
    for s, y, rho in zip(steps.unbind(1), differences.unbind(1), inverse.unbind(1), strict=True):
        q = q + (weights.pop() - rho * dot(y, q))[:, None] * s
    return q
