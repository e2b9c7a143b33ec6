"""Optimizers of a stack of seeds, as pure functions of one matrix of parameters."""

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core import adam
from romkit.core.errors import InputError
from romkit.core.types import Pair, TensorTuple
from romkit.projections.geometry import EuclideanMetric, Fractional, restore
from romkit.training.batches import FlatParameters

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
    moments: TensorTuple
    count: Tensor
    alive: Tensor


Step = Callable[..., tuple[State, Tensor]]
"""(state, learning rates (S, 1), *batch) -> (state, losses (S,))."""


Update = tuple[Tensor, tuple[Tensor, ...]]
"""New theta (S, P) and moments."""


class Optimizer(abc.ABC):
    """A first-order method for all seeds at once. Rows of theta never mix, and a seed that diverges
    freezes alone.
    """

    def moments(self, theta: Tensor, flat: FlatParameters) -> TensorTuple:
        """Return the optimizer's own tensors before the first step: by default the first and second
        moment of Adam.
        """
        return torch.zeros_like(theta), torch.zeros_like(theta)

    @abc.abstractmethod
    def update(self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters) -> Update:
        """Return new theta and moments from the gradient (S, P); `state.count` already counts this
        step.
        """

    def between(self, state: State, taken: int) -> State:
        """Work after `taken` steps and before the next, run eagerly because it is rare or cannot be
        compiled.
        """
        return state

    def start(self, theta: Tensor, flat: FlatParameters) -> State:
        """Return the state before the first step."""
        moments = self.moments(theta, flat)
        return State(theta, moments, theta.new_zeros(()), _all_alive(theta))

    def make_step(self, loss: Loss, flat: FlatParameters) -> Step:
        """Return the function that makes one step. A seed that stops being finite keeps its last
        parameters.
        """

        @torch.no_grad()
        def step(state: State, lr: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
            gradient, losses = _gradient_and_losses(loss, state.theta, batch)
            # counted first: the corrections of Adam's start divide by 1 - βᵗ with t = 1 at once
            state = state._replace(count=state.count + 1)
            theta, moments = self.update(state, gradient, lr, flat)
            # no branch on values: a captured graph takes the same path for every seed
            alive = state.alive
            for tensor in (gradient, theta, losses.unsqueeze(1)):
                alive = alive & tensor.isfinite().all(1, keepdim=True)
            kept = [
                _where(alive, after, before)
                for after, before in zip(moments, state.moments, strict=True)
            ]
            theta = _where(alive, theta, state.theta)
            return State(theta, tuple(kept), state.count, alive), losses

        return step


def _all_alive(theta: Tensor) -> Tensor:
    """(S, 1) that no seed has diverged yet."""
    return torch.ones(len(theta), 1, dtype=torch.bool, device=theta.device)


def _gradient_and_losses(loss: Loss, theta: Tensor, batch: TensorTuple) -> Pair:
    """(S, P) gradient of each seed's loss with respect to its own row, and the losses (S,)."""
    with torch.enable_grad():
        variable = theta.detach().requires_grad_()
        losses = loss(variable, *batch)
        total = losses.sum()
    (gradient,) = torch.autograd.grad(total, variable)
    return gradient, losses.detach()


def clipped(gradient: Tensor, largest: float) -> Tensor:
    """Return each seed's gradient (S, P), shortened to at most `largest` in Euclidean norm."""
    return gradient * (largest / gradient.norm(dim=1, keepdim=True)).clamp(max=1.0)


def _where(alive: Tensor, after: Tensor, before: Tensor) -> Tensor:
    """Return values after a step of seeds that are alive, and before it of others."""
    beside_seeds = (1,) * (after.ndim - 1)
    return torch.where(alive.reshape(len(alive), *beside_seeds), after, before)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam with L2 weight decay added to the gradient, as in torch.optim.Adam, and clipping seed by
    seed.

    With biorthogonal pairs it works on the free matrices behind them, so they stay exactly
    biorthogonal.

    Args:
        clip: largest Euclidean norm of a seed's gradient.
        weight_decay: L2 coefficient.
        beta1, beta2, epsilon: as in the paper.

    Source: Kingma & Ba (2015), algorithm 1.
    """

    clip: float
    weight_decay: float = 0.0
    beta1: float = adam.MEAN
    beta2: float = adam.SQUARE
    epsilon: float = adam.LEAST

    def update(self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters) -> Update:
        slope = self._slope(state, gradient)
        averages = self._averages(state, state.moments[0], slope, slope.square())
        theta = state.theta - lr * averages.mean / averages.scale
        return theta, (averages.momentum, averages.square)

    def _slope(self, state: State, gradient: Tensor) -> Tensor:
        """Return gradient with clipping and weight decay."""
        return clipped(gradient, self.clip) + self.weight_decay * state.theta

    def _averages(
        self, state: State, momentum: Tensor, slope: Tensor, square: Tensor
    ) -> adam.Averages:
        """Averages after a slope and a square of one."""
        return adam.Averages.update(
            (momentum, state.moments[1]),
            slope,
            square,
            state.count,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
        )


@dataclass(frozen=True)
class Soap(Adam):
    """Adam on the parameters of each matrix, turned into slowly moving bases U and V, Uᵀ G V, and
    turned back.

    For a matrix with gradient G the bases are the eigenvectors of the running means of G Gᵀ and of
    Gᵀ G; a vector has one row. They follow by one step of orthogonal iteration every `period`
    steps, between the steps and eagerly: all else is compiled as for Adam. Where the bases are
    those of the coordinates, it is Adam. With biorthogonal pairs it works on the free matrices
    behind them.

    Args:
        clip: largest Euclidean norm of a seed's gradient.
        weight_decay: L2 coefficient, added to the gradient.
        beta1, beta2, epsilon: of Adam's moments.
        memory: of the two running means.
        period: steps between two updates of the bases.

    Source: Vyas et al. (2024), "SOAP: improving and stabilizing Shampoo using Adam", algorithm 3.
    """

    beta1: float = 0.95
    beta2: float = 0.99
    memory: float = 0.95
    period: int = 10

    def moments(self, theta: Tensor, flat: FlatParameters) -> TensorTuple:
        """Return first moment, second moment in the bases, then for each side of a matrix that is
        turned mean, and basis.
        """
        matrices = flat.matrices(theta)
        bases = []
        for k, axis in _sides(matrices):
            x = matrices[k]
            unit = torch.eye(x.shape[axis]).to(x)
            bases.append(unit.expand(*x.shape[:2], -1, -1).clone())
        means = [torch.zeros_like(basis) for basis in bases]
        return torch.zeros_like(theta), torch.zeros_like(theta), *means, *bases

    def update(self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters) -> Update:
        slope = self._slope(state, gradient)
        means, bases = _means_and_bases(state)
        slopes = flat.matrices(slope)
        sides = _sides(slopes)
        new_means = []
        for mean, (k, axis) in zip(means, sides, strict=True):
            side = slopes[k].transpose(axis, -2)
            new_means.append(mean.lerp(side @ side.mT, 1 - self.memory))
        # squares are averaged in the bases, and slopes in the coordinates, for the bases move
        turned = flat.join_matrices(_turned(slopes, sides, bases))
        averages = self._averages(state, state.moments[0], slope, turned.square())
        direction = _turned(flat.matrices(averages.mean), sides, bases)
        scaled = flat.join_matrices(direction) / averages.scale
        inverses = [basis.mT for basis in bases]
        step = flat.join_matrices(_turned(flat.matrices(scaled), sides, inverses))
        moments = (averages.momentum, averages.square, *new_means, *bases)
        return state.theta - lr * step, moments

    @torch.no_grad()
    def between(self, state: State, taken: int) -> State:
        """Every `period` steps, one orthogonal iteration of each basis towards the eigenvectors of
        its mean.
        """
        if taken == 0 or taken % self.period:
            return state
        means, bases = _means_and_bases(state)
        # QR loops over matrices and synchronises a GPU, so it stays out of the compiled step
        turned = []
        for mean, Q in zip(means, bases, strict=True):
            # the basis of what has not moved stays, and that of all else is not changed
            turned.append(torch.linalg.qr(mean @ Q + 1e-30 * Q).Q.contiguous())
        return state._replace(moments=(*state.moments[:2], *means, *turned))


def _sides(matrices: Sequence[Tensor], *, largest: int = 512) -> list[tuple[int, int]]:
    """Return (number of the matrix, axis) of each side that is turned.

    `largest`: sides of a matrix from here on are not turned: a basis of theirs would cost more
    than it gains.
    """
    sides = []
    for axis in (-2, -1):
        for k, x in enumerate(matrices):
            if 1 < x.shape[axis] < largest:
                sides.append((k, axis))
    return sides


def _turned(
    matrices: Sequence[Tensor], sides: Sequence[tuple[int, int]], bases: Sequence[Tensor]
) -> list[Tensor]:
    """Uᵀ X V of each matrix (S, K, a, b)."""
    matrices = list(matrices)
    for (k, axis), Q in zip(sides, bases, strict=True):
        if axis == -2:
            matrices[k] = Q.mT @ matrices[k]
        else:
            matrices[k] = matrices[k] @ Q
    return matrices


def _means_and_bases(state: State) -> tuple[TensorTuple, TensorTuple]:
    """Return running means and bases among the moments of SOAP."""
    _, _, *of_sides = state.moments
    half = len(of_sides) // 2
    return tuple(of_sides[:half]), tuple(of_sides[half:])


@dataclass(frozen=True)
class RiemannianAdam(Adam):
    """Adam whose steps follow the manifold Ψᵀ Φ = I: every (Φ, Ψ) of a `BiorthogonalPair` stays on
    it.

    Each pair is one point x with gradient ξ in the metric, first moment m, a tangent vector that
    moves along, and one second moment v:
        m <- β₁ P m + (1 - β₁) ξ,    v <- β₂ v + (1 - β₂) ⟨ξ, ξ⟩,    u = -lr (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε),
        x <- retraction of u at x,    m <- m carried along.
    The projection P onto the tangent space ends the transport of the step before. It is made where
    ξ is projected too, for what it needs of x is then computed once. The length of a step is thus
    at most about lr per pair, whatever its size, so lr can be tens of times that of Adam. All other
    parameters follow Adam, entry by entry. The steps are those of geoopt's RiemannianAdam on
    `romkit.projections.manifold.BiorthogonalManifold`.

    Args:
        clip: largest Euclidean norm of a seed's gradient, before it is turned into ξ.
        weight_decay: L2 coefficient.
        beta1, beta2, epsilon: as in the paper.
        metric: of the tangent vectors; the paper's by default.
        retraction: along them; the paper's by default.

    Source: Bécigneul & Ganea (2019), "Riemannian adaptive optimization methods", with one factor
    per pair.
    """

    clip: float = math.inf
    metric: EuclideanMetric = field(default_factory=EuclideanMetric)
    retraction: Fractional = field(default_factory=Fractional)

    def start(self, theta: Tensor, flat: FlatParameters) -> State:
        """Return the state before the first step, from parameters whose pairs need not be on the
        manifold yet.
        """
        pairs, rest = flat.split(theta)
        points = [restore(x) for x in pairs]
        return super().start(flat.join(points, rest), flat)

    def update(self, state: State, gradient: Tensor, lr: Tensor, flat: FlatParameters) -> Update:
        points, plain = flat.split(state.theta)
        slopes, plain_slope = flat.split(self._slope(state, gradient))
        momenta, plain_momentum = flat.split(state.moments[0])
        squares = []
        for k, x in enumerate(points):
            slopes[k] = self.metric.gradient(x, slopes[k])
            length = self.metric.inner(x, slopes[k], slopes[k])
            # one second moment for a whole pair: rates of the manifold, not of its entries
            squares.append(length[:, None, None, None].expand_as(x))
            momenta[k] = self.metric.project(x, momenta[k])
        slope = flat.join(slopes, plain_slope)
        square = flat.join(squares, plain_slope.square())
        momentum = flat.join(momenta, plain_momentum)
        averages = self._averages(state, momentum, slope, square)
        steps, plain_step = flat.split(-lr * averages.mean / averages.scale)
        momenta, plain_momentum = flat.split(averages.momentum)
        for k, x in enumerate(points):
            points[k], momenta[k] = self.retraction.retract_and_carry(x, steps[k], momenta[k])
        theta = flat.join(points, plain + plain_step)
        momentum = flat.join(momenta, plain_momentum)
        return theta, (momentum, averages.square)


@dataclass(frozen=True)
class TorchOptimizer:
    """One optimizer of the user's for each seed, one seed after the other, eagerly. Stands in for
    an `Optimizer`.

    One of geoopt's gets each biorthogonal pair as a `geoopt.ManifoldParameter` (2n, r) on
    `romkit.projections.manifold.BiorthogonalManifold`, Φ above Ψ; any other one gets the free
    matrices behind the pair.

    Args:
        factory: parameters -> optimizer.
        learning_rate: the rate of `make_step` at which the optimizer has the rates that the factory
            gave it.
        clip: largest Euclidean norm of a seed's gradient.
    """

    factory: Callable[[Sequence[Tensor]], torch.optim.Optimizer]
    learning_rate: float
    clip: float = math.inf

    def start(self, theta: Tensor, flat: FlatParameters) -> State:
        """Return the state before the first step; moments stay in the optimizers."""
        return State(theta, (), theta.new_zeros(()), _all_alive(theta))

    def between(self, state: State, taken: int) -> State:
        """Nothing."""
        return state

    def make_step(self, loss: Loss, flat: FlatParameters) -> Step:
        """Return the function that makes one step. It remembers, and is for one run from its first
        state to its last.
        """
        seeds: list[_Seed] = []

        def step(state: State, lr: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
            if not seeds:
                for row in state.theta.split(1):
                    seeds.append(_Seed(self, loss, flat, row))
            rates = (lr / self.learning_rate).flatten().tolist()
            of_seeds = [tensor.split(1) for tensor in batch]
            rows = zip(*of_seeds, strict=True)
            losses = []
            for seed, rate, row in zip(seeds, rates, rows, strict=True):
                losses.append(seed.step(rate, row))
            alive = torch.tensor([[seed.alive] for seed in seeds], device=lr.device)
            theta = torch.cat([seed.theta() for seed in seeds])
            return State(theta, (), state.count + 1, alive), torch.stack(losses)

        return step


class _Seed:
    """One seed with its optimizer. If it stops being finite, it keeps its last parameters."""

    def __init__(self, settings: TorchOptimizer, loss: Loss, flat: FlatParameters, theta: Tensor):
        self.loss = loss
        self.clip = settings.clip
        self.alive = True
        self.parameters = flat.leaves(theta)
        self.optimizer = _made(settings.factory, self.parameters)
        origins = [kind.__module__.partition(".")[0] for kind in type(self.optimizer).__mro__]
        if "geoopt" in origins:
            from romkit.projections.manifold import (
                constrain_pair,  # geoopt takes a second to import
            )

            self.parameters = flat.leaves(theta, constrain_pair)
            self.optimizer = _made(settings.factory, self.parameters)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]

    def theta(self) -> Tensor:
        """Its parameters (1, P)."""
        return self._flat().detach().unsqueeze(0)

    def _flat(self) -> Tensor:
        return torch.cat([parameter.flatten() for parameter in self.parameters])

    def step(self, rate: float, batch: TensorTuple) -> Tensor:
        """Return a step at `rate` times the optimizer's own learning rates; the loss () before it."""
        if not self.alive:
            return self.parameters[0].new_full((), torch.nan).detach()
        # an optimizer of the user's changes parameters in place
        before = [parameter.detach().clone() for parameter in self.parameters]
        for group, full_rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * full_rate

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            with torch.enable_grad():
                loss = self.loss(self._flat().unsqueeze(0), *batch).squeeze(0)
            loss.backward()
            gradient = torch.cat([p.grad.flatten() for p in self.parameters])
            factor = (self.clip / gradient.norm()).clamp(max=1.0)
            for parameter in self.parameters:
                parameter.grad.mul_(factor)
            return loss

        loss = self.optimizer.step(closure).detach()
        numbers = torch.cat([self.theta().flatten(), loss.flatten()])
        self.alive = bool(numbers.isfinite().all())
        if not self.alive:
            for parameter, finite in zip(self.parameters, before, strict=True):
                parameter.data.copy_(finite)
        return loss


def _made(factory: Callable[..., object], parameters: list[Tensor]) -> torch.optim.Optimizer:
    """Optimizer that a function of the user makes for these parameters."""
    optimizer = factory(parameters)
    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    raise InputError(
        "optimizer",
        expected="a function that makes an optimizer of torch or geoopt",
        got=type(optimizer).__name__,
        fix="give torch.optim.AdamW, or a function of the parameters",
    )


OPTIMIZERS: dict[str, type[Optimizer]] = {
    "adam": Adam,
    "riemannian-adam": RiemannianAdam,
    "soap": Soap,
}
"""Optimizers by the name that a recipe gives."""
