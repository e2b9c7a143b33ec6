"""Levenberg-Marquardt for nonlinear least squares, many independent problems at once."""

from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor


class Expansion(Protocol):
    """Quadratic models of M sums of squares, each about a point of its own."""

    @property
    def cost(self) -> Tensor:
        """Return the sums of squares (M,) at the points, infinite where they have none."""
        ...

    def select(self, members: Tensor) -> Self:
        """Return models of some of the members (k,)."""
        ...

    def replaced(self, members: Tensor, other: Self) -> Self:
        """Return these models, with those of `members` (k,) replaced."""
        ...

    def moved(self, members: Tensor, damping: Tensor) -> Self:
        """Return models about the points that damped steps of Gauss-Newton lead to; both are (M,)."""
        ...


Model = TypeVar("Model", bound=Expansion)


def levenberg_marquardt(
    model: Model,
    *,
    trials: int,
    absolute: float = 0.0,
    relative: float = 0.0,
    shrinkage: float = 0.1,
    largest: float = 1e4,
    start: float = 1e-3,
    growth: float = 5.0,
    smallest: float = 1e-9,
) -> Model:
    """Minimise sums of squares by damped steps of Gauss-Newton.

    A step that lowers the sum is taken, and the next one is damped less. A step that does not is
    damped more, and tried again.

    Args:
        model: the expansions about the starts.
        trials: most steps that are tried.
        absolute: a member is done after a step that changes its sum of squares by less than this.
        relative: likewise, for a step that lowers the sum by less than this share of it.
        shrinkage: factor on the damping after a step that was taken.
        largest: damping at which a member is given up.
        start: damping of the first step, relative to the diagonal of the normal equations.
        growth: factor on the damping after a step that was refused.
        smallest: damping below which it makes no difference.

    Source: Marquardt (1963), An algorithm for least-squares estimation of nonlinear parameters.
    """
    damping = torch.full_like(model.cost, start)
    members = torch.arange(len(damping), device=damping.device)
    for _ in range(trials):
        current = model.select(members)
        trial = current.moved(members, damping[members])
        gain = current.cost - trial.cost
        lower = gain > 0
        rows = lower.nonzero().squeeze(-1)
        model = model.replaced(members[lower], trial.select(rows))
        factor = torch.where(lower, shrinkage, growth).to(damping)
        damping[members] = (damping[members] * factor).clamp(min=smallest)
        settled = (gain.abs() < absolute) | (lower & (gain < relative * current.cost))
        members = members[~(settled | (damping[members] > largest))]
        if not len(members):
            break
    return model
