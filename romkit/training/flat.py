"""All parameters of a stack as one (S, P) tensor: the optimizer is then a handful of operations for all seeds."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from romkit.projections import Projection


class FlatParameters:
    """Reads and writes the trainable parameters of a stack of S seeds as one tensor theta (S, P)."""

    def __init__(self, stacked: Projection):
        self.stacked = stacked
        parameters = {name: p for name, p in stacked.named_parameters() if p.requires_grad}
        self.names = list(parameters)
        self.shapes = [p.shape for p in parameters.values()]
        self.sizes = [p[0].numel() for p in parameters.values()]

    def read(self) -> Tensor:
        """theta (S, P), a copy."""
        parameters = dict(self.stacked.named_parameters())
        return torch.cat([parameters[name].detach().flatten(1) for name in self.names], dim=1)

    def write(self, theta: Tensor) -> None:
        """Puts theta (S, P) into the parameters of the stack."""
        parameters = dict(self.stacked.named_parameters())
        for name, value in self._split(theta).items():
            parameters[name].data.copy_(value)

    def bind(self, objective: nn.Module) -> Callable[..., Tensor]:
        """`objective`, whose attribute `projection` is the stack, as a function of (theta, *batch)."""

        def loss(theta: Tensor, *batch: Tensor) -> Tensor:
            views = {f"projection.{name}": value for name, value in self._split(theta).items()}
            return torch.func.functional_call(objective, views, batch)

        return loss

    def _split(self, theta: Tensor) -> dict[str, Tensor]:
        blocks = theta.split(self.sizes, dim=1)
        return {name: b.reshape(shape) for name, b, shape in zip(self.names, blocks, self.shapes, strict=True)}
