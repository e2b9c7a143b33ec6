"""Levenberg-Marquardt on big batches, with a damping of its own for each seed."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.optimizers.method import Method, begin, choose, dot, value_and_gradient
from romkit.projections import Projection
from romkit.training.batches import FlatParameters
from romkit.training.optimizers import Loss, State, Step

SMALLEST, LARGEST = 1e-6, 1e6
"""Bounds of the damping."""


class Residuals(nn.Module):
    """What the objective squares: position and velocity errors (S, B, 2n)."""

    def __init__(self, projection: Projection):
        super().__init__()
        self.projection = projection

    def forward(self, y: Tensor, dy: Tensor, c: Tensor) -> Tensor:
        maps = self.projection.at(c)
        value, velocity = maps.decode_jvp(*maps.encode_jvp(y, dy))
        return torch.cat([value - y, velocity - dy], dim=-1)


@dataclass(frozen=True)
class LevenbergMarquardt(Method):
    """Steps δ with (H + λ diag H) δ = -g, where H = 2 E[Jᵀ J] is a running mean over batches.

    E[Jᵀ J] takes one random combination w of the 2n residuals of each row, with E[w wᵀ] = I: what a row of the
    Jacobian costs then buys a new row of data. The damping λ halves where the loss of the batch falls as the
    quadratic model says, and doubles where it does not; a step that raises the loss is not taken.

    Args:
        memory: of the running mean.
        damping: λ at the start.

    Source: Nocedal & Wright (2006), section 10.3; Martens (2010), section 4.1 for the damping.
    """

    memory: float = 0.9
    damping: float = 1.0

    def start(self, theta: Tensor, flat: FlatParameters) -> State:
        """The state before the first step: no curvature yet."""
        S, P = theta.shape
        return begin(theta, (theta.new_zeros(S, P, P), theta.new_full((S, 1), self.damping)))

    def make_step(self, loss: Loss, flat: FlatParameters) -> Step:
        """One damped step of every seed."""
        residuals = flat.function(Residuals(flat.stacked))

        @torch.no_grad()
        def step(state: State, lr: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
            count = state.count + 1
            mean = state.moments[0].lerp(gauss_newton(residuals, state.theta, *batch), 1 - self.memory)
            H, damping = mean / (1 - self.memory**count), state.moments[1]
            before, g = value_and_gradient(loss, state.theta, *batch)
            delta, solved = damped_step(H, g, damping)
            delta = lr * delta
            after = loss(state.theta + delta, *batch)
            expected = -dot(delta, g + 0.5 * (H @ delta.unsqueeze(2)).squeeze(2))
            gain = (before - after) / expected
            accepted = (after < before) & solved
            factor = torch.where(gain > 0.75, 0.5, torch.where(accepted & (gain > 0.25), 1.0, 2.0))
            damping = (damping * factor[:, None]).clamp(SMALLEST, LARGEST)
            alive = state.alive & before.isfinite()[:, None]
            return State(choose(accepted, state.theta + delta, state.theta), (mean, damping), count, alive), before

        return step


def gauss_newton(residuals: Loss, theta: Tensor, y: Tensor, dy: Tensor, c: Tensor) -> Tensor:
    """(S, P, P) estimate of 2 E[Jᵀ J] over the batch, one random combination of residuals per row."""
    signs = torch.randint(0, 2, (y.shape[1], 2 * y.shape[2])).to(theta) * 2 - 1

    def combination(theta: Tensor, w: Tensor, *row: Tensor) -> Tensor:
        return (residuals(theta, *(part.unsqueeze(1) for part in row)).squeeze(1) @ w).sum()

    J = torch.func.vmap(torch.func.grad(combination), in_dims=(None, 0, 1, 1, 1), out_dims=1)(theta, signs, y, dy, c)
    return 2 * (J.mT @ J) / y.shape[1]


def damped_step(H: Tensor, g: Tensor, damping: Tensor) -> tuple[Tensor, Tensor]:
    """δ (S, P), and whether H + λ diag H was positive definite (S,)."""
    diagonal = H.diagonal(dim1=1, dim2=2)
    shift = damping * (diagonal + 1e-4 * diagonal.mean(1, keepdim=True))
    factor, info = torch.linalg.cholesky_ex(H + torch.diag_embed(shift))
    return -torch.cholesky_solve(g.unsqueeze(2), factor).squeeze(2), info == 0
