"""The plain way: PyTorch in eager mode, geoopt's RiemannianAdam, one seed after the other.

Layers and tangents are romkit's: tangents by hand are several times faster here than automatic ones, which favours
this contestant. The weights are points of the manifold, so it has no system of equations to solve in the loss.
"""

import copy

import torch
from geoopt import ManifoldParameter
from geoopt.optim import RiemannianAdam
from torch import Tensor, nn

from benchmarks.training.contestant import Contestant
from benchmarks.training.problem import Problem
from romkit.projections import NcAE
from romkit.projections.layers import layer_pairs
from romkit.projections.manifold import BiorthogonalManifold
from romkit.verbs.presets import PRESETS


class PlainNcAE(nn.Module):
    """The NcAE of one seed with the loss of the paper; `pairs` are points (2n, r), Φ above Ψ."""

    def __init__(self, model: NcAE):
        super().__init__()
        model = copy.deepcopy(model)
        manifold = BiorthogonalManifold()
        self.pairs = nn.ParameterList(
            ManifoldParameter(manifold.projx(torch.cat([w.phi, w.psi]).detach()), manifold=manifold)
            for w in model.weights
        )
        self.slopes, self.biases, self.embedding = model.slopes, model.biases, model.embedding

    def forward(self, y: Tensor, dy: Tensor, c: Tensor) -> Tensor:
        """The loss on a batch: y and dy (B, n), c (B, p)."""
        weights = (pair.chunk(2) for pair in self.pairs)
        maps = layer_pairs(weights, self.slopes, self.biases, self.embedding(c))
        reconstruction, velocity = maps.decode_jvp(*maps.encode_jvp(y, dy))
        return ((y - reconstruction).square().sum(-1) + (dy - velocity).square().sum(-1)).mean()


class Plain(Contestant):
    """The training of the paper as one would write it for a single model, in a loop over seeds."""

    name = "geoopt, eager, one seed after the other"

    def __init__(self, problem: Problem, steps: int):
        self.steps = steps
        plan = PRESETS["paper"](problem.system, "ncae").snapshots
        self.models = [PlainNcAE(model) for model in problem.models]
        self.optimizers = [
            RiemannianAdam(model.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay)
            for model in self.models
        ]
        self.rows, self.batch_size = problem.rows, problem.plan.snapshots.batch_size

    def run(self) -> None:
        for model, optimizer in zip(self.models, self.optimizers, strict=True):
            order = torch.randperm(len(self.rows.y))[: self.steps * self.batch_size]
            for batch in order.split(self.batch_size):
                optimizer.zero_grad()
                loss = model(*(tensor[batch] for tensor in self.rows))
                loss.backward()
                optimizer.step()
