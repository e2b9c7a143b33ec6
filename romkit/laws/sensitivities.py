"""Rollouts of laws that are linear in their coefficients, and exact derivatives by these."""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.laws import compiled
from romkit.laws.courses import Course
from romkit.laws.terms import LatentTerms

RUN_FIRST = (2, 0, 1, 3, 4)
"""Axes that make (n, M, 4, W, k) of (M, 4, n, W, k)."""

FARTHEST = 1e3
"""Distance [largest latent] at which a rollout is lost, and held so that it stays finite."""


@dataclass(frozen=True, eq=False)
class Motion:
    """ẇ = φ(w) W, or ẇ = (s ż, φ(w) W), of a law with coefficients W of each run.

    Attributes:
        terms: φ.
        latent_dim: m.
        order: 1 or 2.
        speed: (m,) rates of scaled latents, relative to the scaled ż that are variables of a law of
            second order.
        shift, scale: (d,) of the variables of the terms, as shift + scale · w; None where these are
            w itself.
        reach: largest |w|; a rollout that gets there is held.
    """

    terms: LatentTerms
    latent_dim: int
    order: int
    speed: Tensor | None = None
    shift: Tensor | None = None
    scale: Tensor | None = None
    reach: float = FARTHEST

    @property
    def size(self) -> int:
        """d, the size of w."""
        return self.order * self.latent_dim

    def rollout(self, weights: Tensor, start: Tensor, course: Course) -> Tensor:
        """Return states (L + 1, n, W, d) from starts (n, W, d), with coefficients (n, K, m)."""
        if compiled.is_compiled(self._formula, start):
            return compiled.rolled_out(self._formula, weights, start, course)
        return self._states(weights, start, course, None)

    def sensitivities(
        self, weights: Tensor, start: Tensor, course: Course, *, by_start: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return states (L + 1, n, W, d), and their derivatives (L + 1, n, W, d, K m).

        Derivatives are those of the steps of RK4 themselves, so that they are exact whatever the
        step is. They are by the coefficients of the run itself, of which there are fewer than in
        the law: see `shooting`.

        Args:
            weights: coefficients (n, K, m).
            start: (n, W, d).
            course: the steps.
            by_start: whether derivatives by the d components of the start follow.
        """
        if compiled.is_compiled(self._formula, start):
            return compiled.differentiate(self._formula, weights, start, course, by_start=by_start)
        return self._sensitivities(weights, start, course, by_start=by_start)

    def residual_rows(
        self, weights: Tensor, start: Tensor, course: Course, truth: compiled.Truth
    ) -> list[Tensor]:
        """Return rows (N, K m + 1) of each run, for each component of the samples that are seen
        before their window is lost: derivatives by the coefficients of the run, and behind them the
        distance from the truth.
        """
        if compiled.is_compiled(self._formula, start):
            return compiled.residual_rows(self._formula, weights, start, course, truth)
        states, derivatives = self.sensitivities(weights, start, course)
        distance = states - truth.states
        counts = kept(distance, derivatives, truth)
        rows = torch.cat([derivatives, distance.unsqueeze(-1)], -1)  # (L + 1, n, W, d, K m + 1)
        return [rows[:, run][counts[:, run]].flatten(0, 1) for run in range(len(start))]

    @property
    def _formula(self) -> compiled.Formula:
        return compiled.Formula(
            self.terms,
            self.latent_dim,
            self.order,
            self.speed,
            self.shift,
            self.scale,
            self.reach,
        )

    def _sensitivities(
        self, weights: Tensor, start: Tensor, course: Course, *, by_start: bool
    ) -> tuple[Tensor, Tensor]:
        """Return states and derivatives by calls of torch."""
        stages: list[Tensor] = []
        states = self._states(weights, start, course, stages)
        tangent, forcing = self._linearised(weights, stages, course)
        _, n, W, d, k = forcing.shape
        change = forcing.new_zeros(n * W, d, k)
        if by_start:
            forcing = torch.nn.functional.pad(forcing, (0, d))
            of_start = torch.eye(d, dtype=change.dtype, device=change.device).expand(n * W, d, d)
            change = torch.cat([change, of_start], -1)
        derivatives = [change]
        ends = set(course.ends)
        # the only loop: everything else of a step was made for all steps at once
        steps = zip(tangent.flatten(1, 2), forcing.flatten(1, 2), strict=True)
        for number, (step, added) in enumerate(steps, 1):
            change = torch.baddbmm(added, step, change)
            if number in ends:
                derivatives.append(change)
        return states, torch.stack(derivatives).unflatten(1, (n, W))

    def _states(
        self, weights: Tensor, start: Tensor, course: Course, stages: list[Tensor] | None
    ) -> Tensor:
        """Return states at the samples; the points and terms of all stages are appended to
        `stages`.
        """
        state = start
        states = [start]
        ends = set(course.ends)
        for number, h in enumerate(course.steps):
            points, terms, rates = self._stages(weights, state, course, number)
            start_rate, middle_rate, corrected_rate, end_rate = rates
            slope = start_rate + 2 * middle_rate + 2 * corrected_rate + end_rate
            state = state + h / 6 * slope
            state = state.clamp(-self.reach, self.reach)
            if stages is not None:
                stages.append((torch.stack(points), torch.stack(terms)))
            if number + 1 in ends:
                states.append(state)
        return torch.stack(states)

    def _stages(
        self,
        weights: Tensor,
        state: Tensor,
        course: Course,
        number: int,
        *,
        tableau: tuple[tuple[int, ...], ...] = ((0.0, 0), (0.5, 1), (0.5, 1), (1.0, 2)),
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Return points, terms and rates at the four stages of a step of RK4.

        `tableau`: part of a step after which each stage of RK4 is, and its number among
        `STAGES`.
        """
        h = course.steps[number]
        points, terms, rates = [], [], []
        point, factors = state, None
        for weight, place in tableau:
            if rates:
                point = state + weight * h * rates[-1]
            if course.factors is not None:
                factors = course.factors[number, place]
            phi = self._terms(point, factors)
            rate = self._motion(point, phi @ weights)
            if course.drift is not None:
                rate = rate + course.drift[number, place]
            points.append(point)
            terms.append(phi)
            rates.append(rate)
        return points, terms, rates

    def _terms(self, point: Tensor, factors: Tensor | None) -> Tensor:
        """Return terms (n, W, K), those of a context that moves running faster."""
        phi = self.terms(self.variables(point))
        if factors is None:
            return phi
        return (phi.unsqueeze(-1) * factors.unsqueeze(-2)).flatten(-2)

    def variables(self, w: Tensor) -> Tensor:
        """Return variables of the terms."""
        return w if self.scale is None else self.shift + self.scale * w

    def _motion(self, point: Tensor, rate: Tensor) -> Tensor:
        if self.order == 1:
            return rate
        velocity = self.speed * point[..., self.latent_dim :]
        return torch.cat([velocity, rate], -1)

    def _linearised(
        self, weights: Tensor, stages: list[tuple[Tensor, Tensor]], course: Course
    ) -> tuple[Tensor, Tensor]:
        """Tangent A (M, n, W, d, d) and forcing B (M, n, W, d, K m) of all steps: S -> A S + B.

        With the Jacobians Jₛ and terms φₛ at the four stages,
            M₄ = 1, M₃ = 2 + h J₄, M₂ = 2 + h/2 M₃ J₃, M₁ = 1 + h/2 M₂ J₂,
            A = 1 + h/6 Σₛ Mₛ Jₛ,    B = h/6 Σₛ Mₛ E ⊗ φₛ,
        where E puts a latent rate into ẇ.
        """
        points = torch.stack([point for point, _ in stages])  # (M, 4, n, W, d)
        phi = torch.stack([phi for _, phi in stages])  # (M, 4, n, W, K)
        J1, J2, J3, J4 = self._jacobians(weights, points, phi, course).unbind(1)
        h = course.steps.unsqueeze(-1)  # (M, n, W, 1, 1)
        half = h / 2
        sixth = h / 6
        unit = torch.eye(self.size, dtype=J1.dtype, device=J1.device).expand_as(J1)
        M3 = 2 * unit + h * J4
        M2 = 2 * unit + half * M3 @ J3
        M1 = unit + half * M2 @ J2
        slope = M1 @ J1 + M2 @ J2 + M3 @ J3 + J4
        tangent = unit + sixth * slope
        m = self.latent_dim
        # only the last m rates depend on coefficients
        factors = torch.stack([M1, M2, M3, unit], -1)
        factors = factors[..., -m:, :] * sixth.unsqueeze(-1)  # (M, n, W, d, m, 4)
        by_stage = phi.permute(0, 2, 3, 1, 4)  # (M, n, W, 4, K)
        forcing = factors.flatten(-3, -2) @ by_stage  # (M, n, W, d m, K)
        forcing = forcing.unflatten(-2, (self.size, m)).mT
        return tangent, forcing.flatten(-2)

    def _jacobians(self, weights: Tensor, points: Tensor, phi: Tensor, course: Course) -> Tensor:
        """Return derivatives (M, 4, n, W, d, d) of ẇ by w at all stages."""
        by_run = points.permute(RUN_FIRST)  # (n, M, 4, W, d)
        lead = by_run.shape[1:-1]
        flat = self.variables(by_run.flatten(1, -2))
        if course.factors is None:
            of_points = phi.permute(RUN_FIRST).flatten(1, -2)
            slopes = self.terms.jacobians(flat, of_points, weights)
        else:
            slopes = self._moving_jacobians(weights, flat, course)
        if self.scale is not None:
            slopes = slopes * self.scale
        slopes = slopes.unflatten(1, lead)
        slopes = slopes.permute(1, 2, 0, 3, 4, 5)  # (M, 4, n, W, m, d)
        if self.order == 1:
            return slopes
        of_positions = torch.zeros_like(slopes)
        of_positions[..., self.latent_dim :] = torch.diag(self.speed)
        return torch.cat([of_positions, slopes], -2)

    def _moving_jacobians(self, weights: Tensor, flat: Tensor, course: Course) -> Tensor:
        """Jacobians (n, N, m, d) where each stage has coefficients of its own context."""
        q = course.factors.shape[-1]
        phi = self.terms(flat)
        factors = course.factors[:, [0, 1, 1, 2]]  # (M, 4, n, W, q), of the four stages
        factors = factors.permute(RUN_FIRST).flatten(1, -2)  # (n, N, q)
        grid = weights.unflatten(1, (-1, q))  # (n, K, q, m)
        total = 0.0
        for k in range(q):
            slopes = self.terms.jacobians(flat, phi, grid[:, :, k])
            factor = factors[..., k, None, None]
            total = total + factor * slopes
        return total


def kept(distance: Tensor, derivatives: Tensor, truth: compiled.Truth) -> Tensor:
    """Which samples (L + 1, n, W) are seen, and come before a window is lost."""
    near = distance.abs().amax(-1) < truth.lost
    gentle = is_small(derivatives, truth.steep)
    # what follows a lost sample is lost, too, whatever it comes near to
    before = ((near & gentle) | ~truth.seen).cummin(0).values
    return before & truth.seen


def is_small(derivatives: Tensor, limit: float) -> Tensor:
    """Tell whether all derivatives (..., d, P) of a sample are smaller than a limit; NaN is not."""
    largest = derivatives.amax((-2, -1))
    least = derivatives.amin((-2, -1))
    return (largest < limit) & (least > -limit)
