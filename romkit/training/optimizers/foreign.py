"""Optimizers of torch and geoopt on the parameters of a stack."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.errors import InputError
from romkit.training.flat import FlatParameters
from romkit.training.optimizers.base import Loss, State, Step


@dataclass(frozen=True)
class Foreign:
    """One optimizer of the user's for each seed, one seed after the other, eagerly. Stands in for an `Optimizer`.

    One of geoopt's gets each biorthogonal pair as a `geoopt.ManifoldParameter` (2n, r) on
    `romkit.projections.manifold.BiorthogonalManifold`, Φ above Ψ; any other one gets the free matrices behind the pair.

    Args:
        factory: parameters -> optimizer.
        learning_rate: the rate of `make_step` at which the optimizer has the rates that the factory gave it.
        clip: largest Euclidean norm of a seed's gradient.
    """

    factory: Callable[[Sequence[Tensor]], torch.optim.Optimizer]
    learning_rate: float
    clip: float = math.inf

    def start(self, theta: Tensor, flat: FlatParameters) -> State:
        """The state before the first step; moments stay in the optimizers."""
        return State(theta, (), theta.new_zeros(()), torch.ones(len(theta), 1, dtype=torch.bool, device=theta.device))

    def between(self, state: State, taken: int) -> State:
        """Nothing."""
        return state

    def make_step(self, loss: Loss, flat: FlatParameters) -> Step:
        """The function that makes one step. It remembers, and is for one run from its first state to its last."""
        seeds: list[_Seed] = []

        def step(state: State, lr: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
            if not seeds:
                seeds.extend(_Seed(self, loss, flat, row) for row in state.theta.split(1))
            rates, rows = (lr / self.learning_rate).flatten().tolist(), zip(*(t.split(1) for t in batch), strict=True)
            losses = torch.stack([s.step(rate, row) for s, rate, row in zip(seeds, rates, rows, strict=True)])
            alive = torch.tensor([[seed.alive] for seed in seeds], device=lr.device)
            return State(torch.cat([seed.theta() for seed in seeds]), (), state.count + 1, alive), losses

        return step


class _Seed:
    """One seed with its optimizer. If it stops being finite, it keeps its last parameters."""

    def __init__(self, settings: Foreign, loss: Loss, flat: FlatParameters, theta: Tensor):
        self.loss, self.clip, self.alive = loss, settings.clip, True
        self.parameters = flat.leaves(theta)
        self.optimizer = _made(settings.factory, self.parameters)
        if any(kind.__module__.partition(".")[0] == "geoopt" for kind in type(self.optimizer).__mro__):
            from romkit.projections.manifold import on_manifold  # geoopt takes a second to import

            self.parameters = flat.leaves(theta, on_manifold)
            self.optimizer = _made(settings.factory, self.parameters)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]

    def theta(self) -> Tensor:
        """Its parameters (1, P)."""
        return torch.cat([parameter.flatten() for parameter in self.parameters]).detach().unsqueeze(0)

    def step(self, rate: float, batch: tuple[Tensor, ...]) -> Tensor:
        """A step at `rate` times the optimizer's own learning rates; the loss () before it."""
        if not self.alive:
            return self.parameters[0].new_full((), torch.nan).detach()
        before = [parameter.detach().clone() for parameter in self.parameters]
        for group, own in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * own

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            with torch.enable_grad():
                loss = self.loss(torch.cat([p.flatten() for p in self.parameters]).unsqueeze(0), *batch).squeeze(0)
            loss.backward()
            norm = torch.cat([p.grad.flatten() for p in self.parameters]).norm()
            for parameter in self.parameters:
                parameter.grad.mul_((self.clip / norm).clamp(max=1.0))
            return loss

        loss = self.optimizer.step(closure).detach()
        self.alive = bool(torch.isfinite(torch.cat([self.theta().flatten(), loss.flatten()])).all())
        if not self.alive:
            for parameter, last in zip(self.parameters, before, strict=True):
                parameter.data.copy_(last)
        return loss


def _made(factory: Callable[..., object], parameters: list[Tensor]) -> torch.optim.Optimizer:
    optimizer = factory(parameters)
    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    got, fix = type(optimizer).__name__, "give torch.optim.AdamW, or a function of the parameters"
    raise InputError("optimizer", expected="what makes an optimizer of torch or geoopt", got=got, fix=fix)
