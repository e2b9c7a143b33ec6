"""Polynomial manifolds: a linear encoder, and a decoder that is a polynomial in the latents and in
the context.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from romkit.bases import decompose
from romkit.bases.completion import filled
from romkit.core import checks
from romkit.core.boundary import Count, Natural, Positive, validated
from romkit.core.broadcast import matmul
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.polynomials import Monomials, multiplied
from romkit.core.types import Dual
from romkit.projections.base import Projection, check_chain
from romkit.projections.frame import Frame
from romkit.projections.gaps import encoded
from romkit.projections.leftout import (
    CURVED,
    WARPS,
    ContextTerms,
    Division,
    LeftOut,
    Settings,
    Trial,
    simplest,
)
from romkit.projections.linear import Subspace
from romkit.projections.networks import Affine, Curve, Networks, orthonormal, product, uniform
from romkit.projections.operator import Operator

MOST_LATENTS = 6
"""Largest number of latents that is tried."""

ENOUGH, WITHIN = 1e-3, 1.5
"""Relative error below which fewer latents are enough, and share of the smallest error within which
the fewest latents are taken."""

JUDGED = 2.0
"""Ratio to the smallest projection error within which settings are compared by rollouts."""

GAINED = 0.7
"""Share of the error that two more latents have to reach, for still more to be tried."""

REFILLED, CHUNK = 3, 500
"""Rounds in which what is missing is taken from the manifold, and snapshots at a time."""

SHARE = 1e-5
"""Least share of the variance of a direction that is tried as a latent."""

MODES = 256
"""Most modes that the decoder reaches."""

CHOSEN = ("degree", "context_degree", "warp", "ridge")
"""Settings beside the number of latents that are chosen where they are not given."""

VANISHING = 1e-12
"""Share of the variance below which a direction is rounding, and no latent."""


def powers(degree: int, z: Curve) -> Curve:
    """Monomials of degrees one to d, a step of a decoder."""
    level, levels = z, [z]
    for k in range(2, degree + 1):
        level = product(partial(multiplied, degree=k), z, level)
        levels.append(level)
    # value and tangents, each over all levels
    return tuple(torch.cat(curve, dim=-1) for curve in zip(*levels, strict=True))


class Polynomial(Networks):
    """z = Eᵀ y / u and y = W(c)ᵀ m(z) at one context, with the monomials m up to a degree.

    Attributes:
        monomials: m.
        weight: W (..., K, n), a row for each monomial.
        dual: E / u (..., n, m).
    """

    def __init__(self, monomials: Monomials, weight: Tensor, dual: Tensor):
        self.monomials, self.weight, self.dual = monomials, weight, dual
        encoder = Affine(dual, dual.new_zeros(dual.shape[-1]))
        decoder = Affine(weight[..., 1:, :], weight[..., 0, :])
        super().__init__([encoder], [partial(powers, monomials.degree), decoder])

    takes_gaps = True

    def polynomial(self) -> tuple[Monomials, Tensor, Tensor]:
        return self.monomials, self.weight, self.dual


def warps_of(argument: str, value: object) -> tuple[str, ...]:
    """Names of warps, one for each parameter."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, tuple | list):
        fix = "give 'c', '1/c' or 'log c', one for each parameter"
        raise InputError(argument, expected="names", got=checks.shown(value), fix=fix)
    return tuple(checks.one_of(argument, name, WARPS) for name in names)


@validated
class PolynomialManifold(Projection):
    """ρ(y) = Eᵀ y / u, φ(z) = E (u z) + Σₖ Tₖ(c) Wₖᵀ m(z) with the m leading modes E, monomials m(z)
    and Chebyshev polynomials Tₖ of the context; exact at every context, since Eᵀ Wₖᵀ = 0.

    Nothing is trained: W is least squares with λ‖W‖² for what the modes leave of the snapshots. What
    is not given is chosen by the error on contexts that are left out whole, every second one inside
    the ranges; on blocks of time where there is a single context. u scales latents to [-1, 1] on the
    snapshots. Beyond the training ranges Tₖ goes on along its tangent. Snapshots of which components
    are NaN take part; arrays and datasets with such states are encoded by least squares on what is
    there.

    Args:
        latent_dim: m; by default the fewest latents whose left-out error is near the smallest.
        degree: of m(z); by default of 1, 2, 3, 5, 7, 9.
        context_degree: total degree of the products of Tₖ; by default of 0 to 3.
        warp: function of each parameter in which Tₖ are polynomials, "c", "1/c" or "log c"; one name
            or one for each.
        ridge: λ, for monomials and Tₖ of size one; by default of 1, 1e-2, ..., 1e-10.

    Attributes:
        report: with the error on what was left out, relative to the deviation of the snapshots, and
            the share of the variance that each latent direction holds.

    Source: Barnett, Farhat (2022), Quadratic approximation manifold for mitigating the Kolmogorov
    barrier in nonlinear projection-based model order reduction; Geelen, Balzano, Wright, Willcox
    (2024), Learning physics-based reduced-order models from data using nonlinear manifolds, for
    polynomials of higher degree, there without a context.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.18])
        >>> P = romkit.fit("polynomial-manifold", data, latent_dim=2, degree=2).double()(F=3.15)
        >>> x = torch.from_numpy(data.state.values)
        >>> torch.allclose(P(P(x)), P(x))
        True
    """

    name = "polynomial-manifold"
    idempotent = True
    trained = False
    takes_gaps = True
    chosen_by_rollouts = True

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        *,
        latent_dim: Count | None = None,
        degree: Count | None = None,
        context_degree: Natural | None = None,
        warp: Annotated[str | Sequence[str], warps_of] | None = None,
        ridge: Positive | None = None,
    ):
        if latent_dim is not None:
            check_chain("latent_dim", (latent_dim, frame.size), frame.size)
        p = len(frame.context_names)
        if warp is not None and len(warp) != p:
            warp = warp * p if len(warp) == 1 else warp
            checks.last_axis("warp", (len(warp),), p, "a name for each parameter of the context")
        config = {"latent_dim": latent_dim, "degree": degree, "context_degree": context_degree}
        super().__init__(frame, config | {"warp": warp and list(warp), "ridge": ridge})
        self._set_sizes(generator)

    def _set_sizes(self, generator: torch.Generator) -> None:
        """Make parameters of the sizes in `config`, of a small manifold where these are open."""
        config, n = self.config, self.frame.size
        degree = config["context_degree"]
        self.latent_dim = config["latent_dim"] or 1
        self.monomials = Monomials(self.latent_dim, config["degree"] or 2)
        self.context_degree = 1 if degree is None else degree
        self.warp = config["warp"] or ["c"] * len(self.frame.context_names)
        terms = len(self.terms(self.frame, self.warp, self.context_degree))
        self.modes = _frozen(orthonormal(n, self.latent_dim, generator))
        self.unit = _frozen(torch.ones(self.latent_dim))
        self.correction = _frozen(uniform((terms, len(self.monomials), n), 0.1, generator))

    @staticmethod
    def terms(frame: Frame, warp: Sequence[str], degree: int) -> ContextTerms:
        """Terms of the context over the training ranges of a frame."""
        low = frame.context_shift - frame.context_scale
        high = frame.context_shift + frame.context_scale
        fixed = [name in frame.fixed for name in frame.context_names]
        return ContextTerms(low, high, fixed, warp, degree)

    def at(self, c: Tensor) -> Polynomial:
        terms = self.terms(self.frame, self.warp, self.context_degree)
        n, m = self.frame.size, self.latent_dim
        dual = Subspace(self.modes).dual  # (..., n, m)
        # modes that were rounded to float32 are dual to others: Eᵀ W = 0 to rounding of float64
        inside = self.correction @ dual.unsqueeze(-3) @ self.modes.mT.unsqueeze(-3)
        correction = self.correction - inside  # (..., Q, K, n)
        if len(terms) == 1:
            weight = correction.squeeze(-3)
        else:
            values = terms(self.frame.denormalise_context(c))  # (..., Q)
            flat = matmul(values, correction.flatten(-2))
            weight = flat.unflatten(-1, (len(self.monomials), n))  # (..., K, n)
        modes = (self.modes * self.unit.unsqueeze(-2)).mT  # (..., m, n)
        if self.modes.ndim == 3:  # seeds come first, then contexts
            modes = modes.reshape(-1, *(1,) * (weight.ndim - 3), m, n)
        constant, linear, further = weight.split([1, m, len(self.monomials) - 1 - m], dim=-2)
        weight = torch.cat([constant, linear + modes, further], dim=-2)
        return Polynomial(self.monomials, weight, dual / self.unit.unsqueeze(-2))

    def initialise(
        self, y: Tensor, c: Tensor, rollouts: "Rollouts | None" = None
    ) -> dict[str, object]:
        """Fit the manifold to snapshots y (N, n) at contexts c (N, p), normalised, in the order of
        time.

        Args:
            y: snapshots.
            c: contexts.
            rollouts: at left-out contexts, by which degree and number of latents are chosen from
                those whose projection error is near the smallest.

        Returns:
            The error on what was left out, and the share of the variance of each latent direction.

        Raises:
            InputError: snapshots that do not differ, or fewer than coefficients that are asked for.
        """
        y, c = y.double(), c.double()
        if not bool(y.isnan().any()):
            return self._fit(y, c, rollouts)
        asked = self.config.copy()
        self._fit(filled(y), c, None)
        for k in range(REFILLED):
            # the manifold knows more of what is missing than the modes do
            snapshots = self._refilled(y, c)
            self.config |= asked
            is_last = k == REFILLED - 1
            facts = self._fit(snapshots, c, rollouts if is_last else None)
        return facts

    def _refilled(self, y: Tensor, c: Tensor) -> Tensor:
        """Snapshots (N, n) with what is missing as on the manifold, next to what is there."""
        snapshots, start = y.clone(), filled(y)
        rows = torch.nonzero(y.isnan().any(1)).flatten()
        double = copy.deepcopy(self).double()
        unit = torch.eye(self.latent_dim, dtype=torch.float64)
        for chunk in rows.split(CHUNK):
            maps = double.at(c[chunk])

            def decode_jacobian(z: Tensor, maps: Polynomial = maps) -> Dual:
                image, columns = maps.decode_jvp(z.unsqueeze(-2), unit.expand(*z.shape, -1))
                return Dual(image.squeeze(-2), columns.mT)

            gaps = y[chunk]
            z = encoded(gaps, maps.encode(start[chunk]), decode_jacobian)
            snapshots[chunk] = torch.where(gaps.isnan(), maps.decode(z), gaps)
        return snapshots

    def _fit(self, y: Tensor, c: Tensor, rollouts: "Rollouts | None") -> dict[str, object]:
        """Fit to complete snapshots."""
        frame = copy.deepcopy(self.frame).double()
        c = frame.denormalise_context(c)
        modes, sigma, energy = decompose(y, min(*y.shape, MODES))
        share = sigma.square() / energy
        beyond = (energy - sigma.square().sum()).clamp(min=0)  # of modes that are left out

        def relative(trial: Trial) -> float:
            square = trial.error**2 * len(y) + beyond
            return float((square / energy).sqrt())

        fits, errors = [], []
        for fit in self._fits(y, c, frame, modes, share):
            fits.append(fit)
            errors.append(relative(fit.chosen))
            # two more at a time: waves come in pairs of modes, of which one alone gains nothing
            stalls = len(fits) > 2 and errors[-1] > GAINED * errors[-3]
            if stalls or errors[-1] <= ENOUGH:
                break
        smallest = max(min(errors), ENOUGH)
        enough = max(WITHIN * min(errors), ENOUGH)
        best = fits[next(k for k, error in enumerate(errors) if error <= enough)]
        facts: dict[str, object] = {}
        if rollouts is not None:
            near = [
                candidate for fit in fits for candidate in fit.within(relative, JUDGED * smallest)
            ]
            best, facts = self._by_rollouts(near, best, modes, frame, rollouts)
        self._set(best, modes)
        facts |= {"left_out_error": relative(best.chosen)}
        return facts | {"share": share[: self.latent_dim].tolist()}

    def _by_rollouts(
        self,
        fits: "list[Fitted]",
        best: "Fitted",
        modes: Tensor,
        frame: Frame,
        rollouts: "Rollouts",
    ) -> "tuple[Fitted, dict[str, object]]":
        """The fit, and its error by rollouts: the simplest within one standard error of the best.

        Rollouts are at contexts that are left out whole. Without any, the fit stays that is best by
        projection.
        """
        division = best.least_squares.division
        runs = torch.full((1,), -1)
        if len(division.pieces) == division.contexts:  # each piece is all of a context
            runs = rollouts.runs_at(best.least_squares.left_out_contexts())
        usable = runs >= 0
        if not bool(usable.any()):
            text = "expected one of order one, and runs at contexts between others, got none"
            fix = "the choice is by projection alone; leave system out, or give more contexts"
            warn(f"system: {text}; {fix}", DataWarning)
            return best, {}
        trials = []
        for fit in fits:
            # a rollout at a context that the fit has seen would favour what fits it best
            contexts, coefficients = fit.least_squares.without_folds(fit.chosen.settings)
            P = fit.operator(frame, modes, contexts[usable], coefficients[usable])
            errors = rollouts.errors(P, runs[usable])
            trials.append(Trial(fit.chosen.settings, float(errors.square().mean().sqrt()), errors))
        chosen = simplest(trials, worse=None)
        fit = next(fit for fit, trial in zip(fits, trials, strict=True) if trial is chosen)
        return fit, {"left_out_rollout_error": chosen.error}

    def _fits(
        self, y: Tensor, c: Tensor, frame: Frame, modes: Tensor, share: Tensor
    ) -> "Iterator[Fitted]":
        """Fits with each number of latents that is tried, at the settings that suit it."""
        settings = Settings(*(self.config[name] for name in CHOSEN))
        numbers = self._numbers(share)
        division = Division.of(c)
        self._check_counts(settings, numbers[-1], len(y), division)
        ranges = self.terms(frame, self.warp, 1)
        warps = [
            _warps(low, high, k in ranges.varying)
            for k, (low, high) in enumerate(zip(ranges.low, ranges.high, strict=True))
        ]
        for m in numbers:
            z = y @ modes[:, :m]
            # monomials of latents in [-1, 1] are of size one, whatever their degree
            unit = z.abs().amax(0)
            least_squares = LeftOut(
                z / unit, y @ modes[:, m:], c, partial(self.terms, frame), division
            )
            trials = least_squares.thinned().trials(settings, warps)
            yield Fitted(trials, simplest(trials), least_squares, unit)

    def _numbers(self, share: Tensor) -> list[int]:
        """Numbers of latents to try: directions without variance are none."""
        directions = int((share > VANISHING).sum())
        if directions == 0:
            fix = "give snapshots that differ"
            raise InputError("data", expected="states that vary", got="constant ones", fix=fix)
        m = self.config["latent_dim"]
        if m is None:
            return list(range(1, max(1, min(MOST_LATENTS, int((share > SHARE).sum()))) + 1))
        if m > directions:
            text = f"latent_dim: expected at most {directions}, the directions along which the"
            warn(f"{text} states vary, got {m}; {directions} are taken", DataWarning)
        return [min(m, directions)]

    def _check_counts(self, settings: Settings, m: int, rows: int, division: Division) -> None:
        """Raise where more is asked for than snapshots and contexts determine."""
        degree, context_degree = settings.degree, settings.context_degree
        if degree is not None and (size := len(Monomials(m, degree))) > rows:
            fix = "lower it, or give more snapshots"
            expected = f"at most {rows} monomials, the number of snapshots"
            got = f"{size} of degree {degree} in {m} latents"
            raise InputError("degree", expected=expected, got=got, fix=fix)
        terms = len(self.terms(self.frame, self.warp, context_degree or 0))
        if context_degree and terms > division.contexts:
            fix = "lower it, or give runs at more contexts"
            expected = f"at most {division.contexts} terms, the number of contexts"
            raise InputError("context_degree", expected=expected, got=f"{terms} terms", fix=fix)

    def _set(self, fit: "Fitted", modes: Tensor) -> None:
        """Take over a fit."""
        m, settings = len(fit.unit), fit.chosen.settings
        self.config |= dataclasses.asdict(settings) | {
            "latent_dim": m,
            "warp": list(settings.warp),
        }
        dtype = self.modes
        self._set_sizes(torch.Generator().manual_seed(0))
        self.modes.data, self.unit.data = modes[:, :m].to(dtype), fit.unit.to(dtype)
        correction = fit.least_squares.solved(settings) @ modes[:, m:].mT
        self.correction.data = correction.to(dtype)


class Fitted(NamedTuple):
    """A fit with some number of latents.

    Attributes:
        trials: best settings of each degree.
        chosen: the one of them to take.
        least_squares: that gives the coefficients.
        unit: (m,) largest latents before they are scaled.
    """

    trials: list[Trial]
    chosen: Trial
    least_squares: LeftOut
    unit: Tensor

    def within(self, error: Callable[[Trial], float], bound: float) -> "list[Fitted]":
        """The fit with each of its trials whose error is within a bound."""
        return [self._replace(chosen=trial) for trial in self.trials if error(trial) <= bound]

    def operator(
        self, frame: Frame, modes: Tensor, contexts: Tensor, coefficients: Tensor
    ) -> Operator:
        """P at contexts (C, p) with coefficients (C, K, R) of the modes beside the latents'."""
        m = len(self.unit)
        monomials = Monomials(m, self.chosen.settings.degree)
        weight = coefficients @ modes[:, m:].mT  # (C, K, n)
        weight[:, 1 : 1 + m] += (modes[:, :m] * self.unit).mT
        maps = Polynomial(monomials, weight, modes[:, :m] / self.unit)
        return Operator(frame, maps, contexts, m)


class Rollouts(Protocol):
    """Rollouts at contexts that are left out, for the choice of settings."""

    def runs_at(self, contexts: Tensor) -> Tensor:
        """Number (C,) of a run at each context (C, p); -1 where there is none."""

    def errors(self, operator: Operator, runs: Tensor) -> Tensor:
        """Errors (C,) of rollouts on the manifold of an operator at the contexts of runs (C,)."""


def _warps(low: Tensor, high: Tensor, varies: bool) -> list[str]:
    """Warps of a parameter with this range that are worth a try, the plain one first."""
    ends = sorted((abs(float(low)), abs(float(high))))
    curved = varies and float(low) * float(high) > 0 and ends[1] > CURVED * ends[0]
    return list(WARPS) if curved else ["c"]


def _frozen(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)
