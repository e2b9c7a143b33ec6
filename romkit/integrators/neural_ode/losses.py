"""What a neural ODE is trained on: the rates of the data, then segments of their trajectories."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.integrators.neural_ode.model import NeuralODEModel
from romkit.integrators.neural_ode.paths import Paths
from romkit.solvers import odeint


class Shooting(NamedTuple):
    """Segments of `length` steps; a step of field s is strides[s] (S,) samples long."""

    paths: Paths
    strides: Tensor
    length: int

    def error(self, field: NeuralODEModel, batch: int, noise: float, draw: torch.Generator) -> Tensor:
        """(S,) mean squared error along `batch` random segments, in standard deviations of w."""
        w, _, c, dt = self.paths
        S, C, T, d = w.shape
        path = torch.randint(C, (batch,), generator=draw)
        first = torch.rand(batch, generator=draw, dtype=w.dtype) * (T - self.length * self.strides).unsqueeze(-1)
        index = first.long() + self.strides.unsqueeze(-1) * torch.arange(self.length + 1).view(-1, 1, 1)
        truth = w[torch.arange(S).unsqueeze(-1), path, index]  # (length + 1, S, batch, d)
        start = truth[0] + noise * field.scale.unsqueeze(1) * torch.randn(batch, d, generator=draw, dtype=w.dtype)
        motion, step = field.motion(c[:, path]), dt * self.strides.view(-1, 1, 1)
        ticks = torch.arange(self.length + 1, dtype=w.dtype)
        reached = odeint(lambda t, w: step * motion(t, w), start, ticks)
        return ((reached - truth)[1:] / field.scale.unsqueeze(1)).square().mean((0, 2, 3))


def regression_error(field: NeuralODEModel, paths: Paths, batch: int, draw: torch.Generator) -> Tensor:
    """(S,) mean squared error of the rates at `batch` random samples, in units of `field.rate`."""
    w, rates, c, _ = paths
    path, k = (torch.randint(size, (batch,), generator=draw) for size in w.shape[1:3])
    error = field.network(c[:, path])(w[:, path, k]) - rates[:, path, k]
    return (error / field.rate.unsqueeze(1)).square().mean((1, 2))
