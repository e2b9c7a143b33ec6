"""Adam on the parameters of a stack."""

from dataclasses import dataclass

from torch import Tensor

from romkit.training.flat import FlatParameters
from romkit.training.optimizers.base import Optimizer, State, clipped


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam with L2 weight decay added to the gradient, as in torch.optim.Adam, and clipping seed by seed.

    With biorthogonal pairs it works on the free matrices behind them, so they stay exactly biorthogonal.

    Args:
        clip: largest Euclidean norm of a seed's gradient.
        weight_decay: L2 coefficient.
        beta1, beta2, epsilon: as in the paper.

    Source: Kingma & Ba (2015), algorithm 1.
    """

    clip: float
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def update(
        self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        gradient = clipped(gradient, self.clip) + self.weight_decay * state.theta
        first = state.moments[0].lerp(gradient, 1 - self.beta1)
        second = state.moments[1].lerp(gradient.square(), 1 - self.beta2)
        scale = (second / (1 - self.beta2**state.count)).sqrt() + self.epsilon
        return state.theta - lr * (first / (1 - self.beta1**state.count)) / scale, (first, second)
