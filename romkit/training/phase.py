"""Refinement of the timing of rollouts, by Gauss-Newton steps.

Phase fitting is for orbits that attract, periodic or not: there the error that grows is that of
time along the trajectory. A reduced wave that is 0.1 % too fast is out of phase after some hundreds
of time units, however small its distance from the manifold is. Over a window that ends at T, the
reduced trajectory x̂ is ahead by

    τ = mean over the last times of ⟨x̂ - x, ẋ⟩ / ‖ẋ‖².

There are as few τ as windows, and thousands of parameters, so Gauss-Newton makes them vanish in
about ten steps:

    min over Δ of  L + gᵀΔ + ½ Δᵀ H Δ + w mean (τ + J Δ)² + μ ‖Δ‖²,

with L the reconstruction loss on snapshots, g and H its gradient and Gauss-Newton matrix, which
keep it, and J the gradient of each window's τ. Steps are no longer than 0.05, and windows grow,
so that τ stays in the linear range.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Positive, validated
from romkit.core.runtime import track
from romkit.core.types import Entries, Pair
from romkit.projections import Projection, stack, unstack
from romkit.training.batches import AnyBatch, Batch, FlatParameters
from romkit.training.latent import EvenTrajectories, FieldName, latent_steps
from romkit.training.loop import Reports
from romkit.training.loss import Objective, Penalty, Reconstruction

TRIES = 8
"""Dampings that are tried for a step."""

SAMPLES, PARTS = 1024, 8
"""Snapshots per part, and parts, by which H is estimated."""


@validated
@dataclass(frozen=True)
class PhaseFit:
    """Settings of a refinement of the timing.

    Attributes:
        steps: of Gauss-Newton.
        weight: w, per squared time unit.
        every, dynamics: samples per RK4 step and latent dynamics; None for those of the rollouts of
            the recipe.

    Example:
        >>> from romkit.training import PhaseFit, Recipe
        >>> Recipe(phase=PhaseFit(steps=3)).timing
        PhaseFit(steps=3, weight=100.0, every=10, dynamics='petrov-galerkin')
    """

    steps: Count = 12
    weight: Positive = 100.0
    every: Count | None = None
    dynamics: FieldName | None = None


class Residual(Objective):
    """Weighted errors of position and velocity (..., 2n), whose square the first term, a
    `Reconstruction`, is.
    """

    def forward(self, y: Tensor, dy: Tensor, c: Tensor, extra: Tensor | None = None) -> Tensor:
        maps = self.projection.at(c)
        scale = self.component_weights.sqrt()
        term = self.terms[0]
        assert isinstance(term, Reconstruction)
        weight = term.velocity_weight**0.5
        z, dz = maps.encode_jvp(y, dy)
        image, velocity = maps.decode_jvp(z, dz)
        return torch.cat([scale * (y - image), weight * scale * (dy - velocity)], dim=-1)


def phase_fit(
    objective: Objective,
    rows: AnyBatch,
    data: xr.Dataset,
    plan: PhaseFit,
    seeds: Sequence[int],
    batch_size: int,
    compiled: bool,
) -> Reports:
    """Refines the timing of every seed of a stack in place, one seed after the other.

    Arguments are those of `refine`, of which the batch size is not used; none of the settings of
    the plan is None.

    Returns:
        The root mean square of τ per time unit, `phase_errors`, before each step of each seed.

    Raises:
        InputError: trajectories that are too short.
    """
    flat = FlatParameters(objective.projection)
    theta = flat.read()
    windows = _Windows(objective, data, plan, compiled)
    snapshots = _Snapshots(objective, rows)
    reports: list[Entries] = []
    for k in track(range(len(seeds)), f"timing {objective.projection.name}"):
        generator = torch.Generator().manual_seed(seeds[k])
        theta[k], errors = _refine_one(theta[k], windows, snapshots, plan, generator)
        reports.append({"phase_errors": errors})
    flat.write(theta)
    return reports


class _Windows:
    """One window of every trajectory at a time: τ and its gradient, window by window.

    Gradients per window come from one backward pass: each window has a copy of the model of its
    own.
    """

    def __init__(self, objective: Objective, data: xr.Dataset, plan: PhaseFit, compiled: bool):
        like = objective.component_weights
        assert plan.every is not None  # as plans are completed by now
        assert plan.dynamics is not None
        assert objective.system is not None
        self.data = EvenTrajectories.from_dataset(data, plan.every, like=like)
        self.count, self.samples = self.data.state.shape[:2]
        variance = self.data.state.var((0, 1), correction=0).sum()
        speed = self.data.velocity.square().mean((0, 1)).sum()
        self.unit = (variance / speed).sqrt()  # of time
        flat = FlatParameters(_copies(objective.projection, self.count))
        self.start, self.advance = latent_steps(
            flat, objective.system, plan.dynamics, self.data, compiled=compiled
        )

    def length(self, progress: float, *, first: int = 80, growth: float = 0.6) -> int:
        """Return steps of the windows at `progress` in [0, 1) of the refinement."""
        longest = self.samples - max(2, self.samples // 25)
        ratio = max(1.0, longest / first)
        return round(min(longest, first * ratio ** min(1.0, progress / growth)))

    def draw(self, length: int, generator: torch.Generator) -> Tensor:
        """Return times (length + 1, C) of one window of every trajectory."""
        begin = torch.randint(self.samples - length, (self.count,), generator=generator)
        return begin + torch.arange(length + 1)[:, None]

    def timing(self, theta: Tensor, along: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the phase lead τ (C,) in time units, its gradient (C, P), and whether each window (C,)
        can be used.
        """
        tau, variable = self._followed(theta, along)
        (gradient,) = torch.autograd.grad(tau.sum(), variable)
        tau = tau.detach()
        usable = _usable(tau / self.unit) & gradient.isfinite().all(1)
        return tau.double(), gradient.double(), usable

    def lost(self, theta: Tensor, along: Tensor, usable: Tensor) -> bool:
        """Tell whether a window that was usable is so no more."""
        tau, _ = self._followed(theta, along)
        return bool((usable & ~_usable(tau.detach() / self.unit)).any())

    def _followed(self, theta: Tensor, along: Tensor) -> Pair:
        """Return τ (C,) of windows, and parameters (C, Q), one copy for each, that it is a function of."""
        # where no gradient is asked for, too: else the latent step would be compiled once more
        with torch.enable_grad():
            variable = theta.repeat(self.count, 1).requires_grad_()
            return self.ahead(variable, along), variable

    def ahead(self, theta: Tensor, along: Tensor, *, span: int = 25) -> Tensor:
        """τ (C,) of a model per window, theta (C, P).

        `span`: steps at the end of a window over which τ is averaged.
        """
        pick = torch.arange(self.count)
        x = self.data.state[pick, along].unsqueeze(2)  # (L + 1, C, 1, n)
        v = self.data.velocity[pick, along].unsqueeze(2)
        c = self.data.context.unsqueeze(1)
        z = self.start(theta, x[0], v[0], c)
        ahead = []
        for k in range(1, len(along)):
            z, image = self.advance(theta, z, c)
            if k >= len(along) - span:
                along_motion = ((image - x[k]) * v[k]).sum((1, 2))
                ahead.append(along_motion / v[k].square().sum((1, 2)))
        return torch.stack(ahead).mean(0)


def _usable(tau: Tensor, *, outlier: float = 1.25) -> Tensor:
    """Windows whose τ [deviations] is within the linear range.

    `outlier`: largest |τ| of a window that takes part, in times in which the state moves by one
    standard deviation.
    """
    return tau.isfinite() & (tau.abs() < outlier)


class _Snapshots:
    """The loss on snapshots: value, gradient, and Gauss-Newton matrix."""

    def __init__(self, objective: Objective, rows: AnyBatch):
        self.rows = Batch(*rows[:3])
        terms = objective.terms
        reconstructions = [term for term in terms if isinstance(term, Reconstruction)]
        penalties = [term for term in terms if isinstance(term, Penalty)]
        kept = [*(reconstructions or [Reconstruction()])[:1], *penalties]
        weighting = objective.component_weighting
        single = _copies(objective.projection, 1)
        many = _copies(objective.projection, SAMPLES)
        self.loss = FlatParameters(single).function(Objective(single, kept, weighting))
        self.residual = FlatParameters(many).function(Residual(many, kept, weighting))

    def loss_and_gradient(self, theta: Tensor, rows: Batch) -> tuple[float, Tensor]:
        with torch.enable_grad():
            variable = theta.unsqueeze(0).requires_grad_()
            batch = [tensor.unsqueeze(0) for tensor in rows]
            loss = self.loss(variable, *batch).sum()
        (gradient,) = torch.autograd.grad(loss, variable)
        return loss.item(), gradient[0].double()

    def curvature(self, theta: Tensor, generator: torch.Generator) -> Tensor:
        """2 E[Jᵀ J] (P, P) of the residuals, from random signs: E[(Jᵀ s)(Jᵀ s)ᵀ] = Jᵀ J."""
        total = theta.new_zeros(len(theta), len(theta))
        # in parts: a copy of the model for every snapshot has to fit memory
        for _ in range(PARTS):
            variable = theta.repeat(SAMPLES, 1).requires_grad_()
            with torch.enable_grad():
                sample = [tensor.unsqueeze(1) for tensor in self.sample(SAMPLES, generator)]
                r = self.residual(variable, *sample)
                bits = torch.randint(0, 2, r.shape, generator=generator).to(r)
                signed = (r * (bits * 2 - 1)).sum()
            (gradient,) = torch.autograd.grad(signed, variable)
            total += gradient.T @ gradient
        return 2 * total.double() / (PARTS * SAMPLES)

    def sample(self, size: int, generator: torch.Generator) -> Batch:
        pick = torch.randint(len(self.rows.y), (size,), generator=generator)
        return Batch(*(tensor[pick] for tensor in self.rows))


def _refine_one(
    theta: Tensor,
    windows: _Windows,
    snapshots: _Snapshots,
    plan: PhaseFit,
    generator: torch.Generator,
    *,
    renew: int = 3,
    least: float = 1e-2,
) -> tuple[Tensor, list[float]]:
    """Return parameters (P,) of one seed after the steps of Gauss-Newton, and its errors before
    each.

    `renew`: steps after which H is estimated again.
    """
    rows = snapshots.sample(SAMPLES * PARTS, generator)
    damping = least
    errors = []
    for k in range(plan.steps):
        if k % renew == 0:
            curvature = snapshots.curvature(theta, generator)
            unit = curvature.diagonal().mean() * torch.eye(len(theta)).to(curvature)
        # windows grow with the steps, so that τ stays in the linear range
        length = windows.length(k / plan.steps)
        along = windows.draw(length, generator)
        tau, J, usable = windows.timing(theta, along)
        tau, J = tau[usable], J[usable]
        error = tau.square().mean().sqrt() / (length * windows.data.h)
        errors.append(error.item())
        loss, gradient = snapshots.loss_and_gradient(theta, rows)
        weight = 2 * plan.weight / max(1, len(tau))
        matrix = curvature + weight * J.T @ J
        slope = gradient + weight * J.T @ tau

        def is_usable(
            moved: Tensor, loss: float = loss, along: Tensor = along, usable: Tensor = usable
        ) -> bool:
            after, _ = snapshots.loss_and_gradient(moved, rows)
            return after < 1.05 * loss + 0.01 and not windows.lost(moved, along, usable)

        theta, damping = _damped_step(theta, matrix, slope, unit, damping, is_usable)
        damping = max(least, damping)
    return theta, errors


def _damped_step(
    theta: Tensor,
    matrix: Tensor,
    slope: Tensor,
    unit: Tensor,
    damping: float,
    is_usable: Callable[[Tensor], bool],
    *,
    radius: float = 0.05,
) -> tuple[Tensor, float]:
    """Return parameters (P,) after a step that is short enough and usable, and the damping for the
    next; as they were where no damping that is tried gives one.
    """
    for _ in range(TRIES):
        solution = torch.linalg.solve_ex(matrix + damping * unit, slope.unsqueeze(1)).result
        step = -solution.squeeze(1)
        moved = theta + step.to(theta)
        if step.norm() <= radius and is_usable(moved):
            return moved, damping / 3
        damping *= 4
    return theta, damping


def _copies(stacked: Projection, number: int) -> Projection:
    """Return a stack of `number` models like one of `stacked`."""
    return stack(unstack(stacked)[:1] * number)
