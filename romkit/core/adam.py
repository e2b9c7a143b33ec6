"""Running averages of Adam, for every optimizer that makes its steps."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import Pair

MEAN, SQUARE, LEAST = 0.9, 0.999, 1e-8
"""Memory of both averages, and the least unit of a step, as in the paper."""


class Averages(NamedTuple):
    """Running averages of slopes and of their squares.

    Attributes:
        momentum, square: first and second moment.
        mean: the first without the bias of its start.
        scale: the unit of steps, by the second without that bias.

    Source: Kingma, Ba (2015), Adam: a method for stochastic optimization, algorithm 1.
    """

    momentum: Tensor
    square: Tensor
    mean: Tensor
    scale: Tensor

    @classmethod
    def update(
        cls,
        moments: Pair,
        slope: Tensor,
        square: Tensor,
        count: Tensor | int,
        *,
        beta1: float = MEAN,
        beta2: float = SQUARE,
        epsilon: float = LEAST,
    ) -> "Averages":
        """Averages after a slope and its square.

        Args:
            moments: before.
            slope: of this step.
            square: of the slope.
            count: of steps, with this one.
            beta1: memory of slopes.
            beta2: memory of squares.
            epsilon: least unit of a step.
        """
        momentum = moments[0].lerp(slope, 1 - beta1)
        mean_square = moments[1].lerp(square, 1 - beta2)
        mean = momentum / (1 - beta1**count)
        scale = (mean_square / (1 - beta2**count)).sqrt() + epsilon
        return cls(momentum, mean_square, mean, scale)


class Adam:
    """Adam with its usual constants, of parameters that it changes in place. That of torch imports
    a compiler, which takes longer than a short training.
    """

    def __init__(self, parameters: list[Tensor]):
        self.parameters = parameters
        self._moments = [(torch.zeros_like(x), torch.zeros_like(x)) for x in parameters]
        self._count = 0

    @torch.no_grad()
    def step(self, gradients: list[Tensor], rate: float) -> None:
        """Update the parameters in place."""
        self._count += 1
        for k, gradient in enumerate(gradients):
            averages = Averages.update(self._moments[k], gradient, gradient.square(), self._count)
            self._moments[k] = averages.momentum, averages.square
            self.parameters[k].addcdiv_(averages.mean, averages.scale, value=-rate)
