"""Polynomial manifolds: a linear encoder, and a decoder that is a polynomial in the latents and in
the context.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from romkit.bases import decompose
from romkit.bases.completion import filled
from romkit.core import checks
from romkit.core.boundary import Count, Natural, Positive, unchecked, validated
from romkit.core.broadcast import matmul
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.polynomials import Monomials, multiplied
from romkit.core.types import Entries, Names
from romkit.data.coordinates import COORDINATES, PLAIN, are_worth_a_try
from romkit.projections.base import Projection
from romkit.projections.context_terms import ContextTerms
from romkit.projections.division import Division
from romkit.projections.frame import Frame
from romkit.projections.gaps import encoded
from romkit.projections.leftout import LeftOut, Settings, Trial, simplest
from romkit.projections.linear import Subspace
from romkit.projections.networks import Affine, Curve, Networks, orthonormal, product, uniform
from romkit.projections.operator import Operator
from romkit.projections.sizes import check_chain


@dataclasses.dataclass(frozen=True)
class Ladder:
    """Numbers of latents that are tried where none is given, and which of them is taken.

    Attributes:
        most: the largest number.
        share: least share of the variance of a direction that is tried.
        enough: relative error below which fewer latents are enough.
        within: ratio to the smallest error within which the fewest latents are taken.
        gained: share of the error that two more latents have to reach, for still more to be tried.
        judged: ratio to the smallest projection error within which settings are compared by
            rollouts.
    """

    most: int = 6
    share: float = 1e-5
    enough: float = 1e-3
    within: float = 1.5
    gained: float = 0.7
    judged: float = 2.0

    def continues(self, errors: Sequence[float]) -> bool:
        """Tell whether fits with one, two, ... latents and these errors need further ones."""
        if errors[-1] <= self.enough:
            return False
        # two more at a time: waves come in pairs of modes, of which one alone gains nothing
        return len(errors) <= 2 or errors[-1] <= self.gained * errors[-3]

    def fewest(self, errors: Sequence[float]) -> int:
        """Return the number of the fit with the fewest latents near the best, or good enough."""
        enough = max(self.within * min(errors), self.enough)
        return next(k for k, error in enumerate(errors) if error <= enough)


CHOSEN = ("degree", "context_degree", "warp", "ridge")
"""Settings beside the number of latents that are chosen where they are not given."""


def powers(degree: int, z: Curve) -> Curve:
    """Monomials of degrees one to d, a step of a decoder."""
    level = z
    levels = [z]
    for k in range(2, degree + 1):
        level = product(partial(multiplied, degree=k), z, level)
        levels.append(level)
    curve = []
    for of_levels in zip(*levels, strict=True):  # value, then tangents
        curve.append(torch.cat(of_levels, dim=-1))
    return tuple(curve)


class Polynomial(Networks):
    """z = Eᵀ y / u and y = W(c)ᵀ m(z) at one context, with the monomials m up to a degree.

    Attributes:
        monomials: m.
        weight: W (..., K, n), a row for each monomial.
        dual: E / u (..., n, m).
    """

    def __init__(self, monomials: Monomials, weight: Tensor, dual: Tensor):
        self.monomials = monomials
        self.weight = weight
        self.dual = dual
        encoder = Affine(dual, dual.new_zeros(dual.shape[-1]))
        decoder = Affine(weight[..., 1:, :], weight[..., 0, :])
        super().__init__([encoder], [partial(powers, monomials.degree), decoder])

    takes_gaps = True

    def polynomial(self) -> tuple[Monomials, Tensor, Tensor]:
        return self.monomials, self.weight, self.dual


def list_warps(argument: str, value: object) -> Names:
    """Return names of warps, one for each parameter."""
    if isinstance(value, str):
        return (checks.one_of(argument, value, COORDINATES),)
    if not isinstance(value, tuple | list):
        raise InputError(
            argument,
            expected="names",
            got=checks.shown(value),
            fix="give 'c', '1/c' or 'log c', one for each parameter",
        )
    return tuple(checks.one_of(argument, name, COORDINATES) for name in value)


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
        ridge: λ, for monomials and Tₖ of size one; by default of 1, 0.1, ..., 1e-10.

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
    ladder: ClassVar[Ladder] = Ladder()

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        *,
        latent_dim: Count | None = None,
        degree: Count | None = None,
        context_degree: Natural | None = None,
        warp: Annotated[str | Sequence[str], list_warps] | None = None,
        ridge: Positive | None = None,
    ):
        if latent_dim is not None:
            check_chain("latent_dim", (latent_dim, frame.size), frame.size)
        if warp is not None:
            # a single name is for all parameters
            parameters = len(frame.context_names)
            warp = list(warp) * (parameters if len(warp) == 1 else 1)
            meaning = "a name for each parameter of the context"
            checks.last_axis("warp", (len(warp),), parameters, meaning)
        config = {
            "latent_dim": latent_dim,
            "degree": degree,
            "context_degree": context_degree,
            "warp": warp,
            "ridge": ridge,
        }
        super().__init__(frame, config)
        self._set_sizes(generator)

    def _set_sizes(self, generator: torch.Generator) -> None:
        """Make parameters of the sizes in `config`, of a small manifold where these are open."""
        n = self.frame.size
        p = len(self.frame.context_names)
        small = {"latent_dim": 1, "degree": 2, "context_degree": 1, "warp": ["c"] * p}
        chosen = {name: value for name, value in self.config.items() if value is not None}
        sizes = small | chosen
        self.latent_dim = sizes["latent_dim"]
        self.monomials = Monomials(self.latent_dim, sizes["degree"])
        self.context_degree = sizes["context_degree"]
        self.warp = sizes["warp"]
        terms = self.terms(self.frame, self.warp, self.context_degree)
        shape = (len(terms), len(self.monomials), n)
        self.modes = _frozen(orthonormal(n, self.latent_dim, generator))
        self.unit = _frozen(torch.ones(self.latent_dim))
        self.correction = _frozen(uniform(shape, 0.1, generator))

    @staticmethod
    def terms(frame: Frame, warp: Sequence[str], degree: int) -> ContextTerms:
        """Return terms of the context over the training ranges of a frame."""
        return ContextTerms(
            frame.context_shift - frame.context_scale,
            frame.context_shift + frame.context_scale,
            [name in frame.fixed for name in frame.context_names],
            warp,
            degree,
        )

    def at(self, c: Tensor) -> Polynomial:
        n = self.frame.size
        m = self.latent_dim
        size = len(self.monomials)
        unit = self.unit.unsqueeze(-2)
        dual = Subspace(self.modes).dual  # (..., n, m)
        weight = self._weight(c, dual)  # (..., K, n)
        modes = (self.modes * unit).mT  # (..., m, n)
        if self.modes.ndim == 3:  # seeds come first, then contexts
            modes = modes.reshape(-1, *((1,) * (weight.ndim - 3)), m, n)
        constant, linear, further = weight.split([1, m, size - 1 - m], dim=-2)
        weight = torch.cat([constant, linear + modes, further], dim=-2)
        return Polynomial(self.monomials, weight, dual / unit)

    def _weight(self, c: Tensor, dual: Tensor) -> Tensor:
        """W(c) (..., K, n) beside the modes, of which these are the dual ones."""
        # modes that were rounded to float32 are dual to others: Eᵀ W = 0 to rounding of float64
        inside = (self.correction @ dual.unsqueeze(-3)) @ self.modes.mT.unsqueeze(-3)
        correction = self.correction - inside  # (..., Q, K, n)
        terms = self.terms(self.frame, self.warp, self.context_degree)
        if len(terms) == 1:
            return correction.squeeze(-3)
        values = terms(self.frame.denormalise_context(c))  # (..., Q)
        flat = matmul(values, correction.flatten(-2))  # (..., K n)
        return flat.unflatten(-1, correction.shape[-2:])

    def initialise(
        self, y: Tensor, c: Tensor, rollouts: "Rollouts | None" = None, rounds: int = 3
    ) -> Entries:
        """Fit the manifold to snapshots y (N, n) at contexts c (N, p), normalised, in the order of
        time.

        Args:
            y: snapshots.
            c: contexts.
            rollouts: at left-out contexts, by which degree and number of latents are chosen from
                those whose projection error is near the smallest.
            rounds: in which what is missing is taken from the manifold.

        Returns:
            The error on what was left out, and the share of the variance of each latent direction.

        Raises:
            InputError: snapshots that do not differ, or fewer than coefficients that are asked for.
        """
        y = y.double()
        c = c.double()
        if not bool(y.isnan().any()):
            return self._fit(y, c, rollouts)
        asked = self.config.copy()
        self._fit(filled(y), c, None)
        for _ in range(rounds - 1):
            # the manifold knows more of what is missing than the modes do
            snapshots = self._refilled(y, c)
            self.config |= asked
            self._fit(snapshots, c, None)
        snapshots = self._refilled(y, c)
        self.config |= asked
        return self._fit(snapshots, c, rollouts)

    def _refilled(self, y: Tensor, c: Tensor, at_once: int = 500) -> Tensor:
        """Return snapshots (N, n) with what is missing as on the manifold, next to what is there."""
        snapshots = y.clone()
        completed = filled(y)
        rows = torch.nonzero(y.isnan().any(1)).flatten()
        double = copy.deepcopy(self).double()
        for chunk in rows.split(at_once):
            maps = double.at(c[chunk])
            gaps = y[chunk]
            start = maps.encode(completed[chunk])
            on_manifold = maps.decode(encoded(gaps, start, maps.decode_jacobian))
            # fewer components than latents do not determine a point of the manifold
            on_manifold = torch.where(on_manifold.isfinite(), on_manifold, completed[chunk])
            snapshots[chunk] = torch.where(gaps.isnan(), on_manifold, gaps)
        return snapshots

    def _fit(
        self, y: Tensor, c: Tensor, rollouts: "Rollouts | None", most_modes: int = 256
    ) -> Entries:
        """Fit to complete snapshots; the decoder reaches so many modes at most."""
        frame = copy.deepcopy(self.frame).double()
        c = frame.denormalise_context(c)
        modes, sigma, energy = decompose(y, min(*y.shape, most_modes))
        share = sigma.square() / energy
        beyond = (energy - sigma.square().sum()).clamp(min=0)  # of modes that are left out

        def relative(trial: Trial) -> float:
            return float(((trial.error**2 * len(y) + beyond) / energy).sqrt())

        fits: list[Fitted] = []
        errors: list[float] = []
        for fit in self._fits(y, c, frame, modes, share):
            fits.append(fit)
            errors.append(relative(fit.chosen))
            if not self.ladder.continues(errors):
                break
        best = fits[self.ladder.fewest(errors)]
        facts: Entries = {}
        if rollouts is not None:
            bound = self.ladder.judged * max(min(errors), self.ladder.enough)
            near: list[Fitted] = []
            for fit in fits:
                near += fit.within(relative, bound)
            best, facts = self._compare_rollouts(near, best, modes, frame, rollouts)
        self._set(best, modes)
        facts["left_out_error"] = relative(best.chosen)
        facts["share"] = share[: self.latent_dim].tolist()
        return facts

    def _compare_rollouts(
        self,
        fits: "list[Fitted]",
        best: "Fitted",
        modes: Tensor,
        frame: Frame,
        rollouts: "Rollouts",
    ) -> "tuple[Fitted, dict[str, object]]":
        """Return the fit, and its error by rollouts: the simplest within one standard error of the
        best.

        Rollouts are at contexts that are left out whole. Without any, the fit stays that is best by
        projection.
        """
        division = best.least_squares.division
        runs = torch.full((1,), -1)
        if len(division.pieces) == division.contexts:  # each piece is all of a context
            runs = rollouts.runs_at(best.least_squares.validation_contexts())
        usable = runs >= 0
        if not bool(usable.any()):
            text = "expected one of order one, and runs at contexts between others, got none"
            fix = "the choice is by projection alone; leave system out, or give more contexts"
            warn(f"system: {text}; {fix}", DataWarning)
            return best, {}
        trials = []
        for fit in fits:
            settings = fit.chosen.settings
            # a rollout at a context that the fit has seen would favour what fits it best
            contexts, coefficients = fit.least_squares.drop_folds(settings)
            P = fit.operator(frame, modes, contexts[usable], coefficients[usable])
            errors = rollouts.errors(P, runs[usable])
            trials.append(Trial(settings, float(errors.square().mean().sqrt()), errors))
        chosen = simplest(trials, worse=None)
        number = next(k for k, trial in enumerate(trials) if trial is chosen)
        return fits[number], {"left_out_rollout_error": chosen.error}

    def _fits(
        self, y: Tensor, c: Tensor, frame: Frame, modes: Tensor, share: Tensor
    ) -> "Iterator[Fitted]":
        """Fits with each number of latents that is tried, at the settings that suit it."""
        settings = Settings(*(self.config[name] for name in CHOSEN))
        numbers = self._numbers(share)
        division = Division.build(c)
        self._check_counts(settings, numbers[-1], len(y), division)
        ranges = self.terms(frame, self.warp, 1)
        # warps of each parameter that are worth a try over these ranges, the plain one first
        warps = []
        for k, (low, high) in enumerate(
            zip(ranges.low.tolist(), ranges.high.tolist(), strict=True)
        ):
            if k in ranges.varying and are_worth_a_try(low, high):
                warps.append(list(COORDINATES))
            else:
                warps.append([PLAIN])
        terms = partial(self.terms, frame)
        for m in numbers:
            z = y @ modes[:, :m]
            residual = y @ modes[:, m:]
            # monomials of latents in [-1, 1] are of size one, whatever their degree
            unit = z.abs().amax(0)
            least_squares = LeftOut(z / unit, residual, c, terms, division)
            trials = least_squares.thinned().trials(settings, warps)
            yield Fitted(trials, simplest(trials), least_squares, unit)

    def _numbers(self, share: Tensor, rounding: float = 1e-12) -> list[int]:
        """Return numbers of latents to try: directions with a share of the variance that is
        rounding, of data in single precision too, are none.
        """
        directions = int((share > rounding).sum())
        if directions == 0:
            raise InputError(
                "data",
                expected="states that vary",
                got="constant ones",
                fix="give snapshots that differ",
            )
        m = self.config["latent_dim"]
        if m is None:
            most = max(1, min(self.ladder.most, int((share > self.ladder.share).sum())))
            return list(range(1, most + 1))
        if m > directions:
            text = f"latent_dim: expected at most {directions}, the directions along which the"
            warn(f"{text} states vary, got {m}; {directions} are taken", DataWarning)
        return [min(m, directions)]

    def _check_counts(self, settings: Settings, m: int, rows: int, division: Division) -> None:
        """Raise where more is asked for than snapshots and contexts determine."""
        if settings.degree is not None:
            size = len(Monomials(m, settings.degree))
            if size > rows:
                raise InputError(
                    "degree",
                    expected=f"at most {rows} monomials, the number of snapshots",
                    got=f"{size} of degree {settings.degree} in {m} latents",
                    fix="lower it, or give more snapshots",
                )
        if settings.context_degree:
            terms = len(self.terms(self.frame, self.warp, settings.context_degree))
            if terms > division.contexts:
                raise InputError(
                    "context_degree",
                    expected=f"at most {division.contexts} terms, the number of contexts",
                    got=f"{terms} terms",
                    fix="lower it, or give runs at more contexts",
                )

    def _set(self, fit: "Fitted", modes: Tensor) -> None:
        """Take over a fit."""
        m = len(fit.unit)
        settings = fit.chosen.settings
        self.config |= dataclasses.asdict(settings)
        self.config |= {"latent_dim": m, "warp": list(settings.warp)}
        like = self.modes
        self._set_sizes(torch.Generator().manual_seed(0))
        coefficients = fit.least_squares.solved(settings)  # (Q, K, R)
        correction = coefficients @ modes[:, m:].mT
        self.modes.data = modes[:, :m].to(like)
        self.unit.data = fit.unit.to(like)
        self.correction.data = correction.to(like)


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
        """Return the fit with each of its trials whose error is within a bound."""
        return [self._replace(chosen=trial) for trial in self.trials if error(trial) <= bound]

    def operator(
        self, frame: Frame, modes: Tensor, contexts: Tensor, coefficients: Tensor
    ) -> Operator:
        """P at contexts (C, p) with coefficients (C, K, R) of the modes beside the latents'."""
        m = len(self.unit)
        leading = modes[:, :m]
        monomials = Monomials(m, self.chosen.settings.degree)
        weight = coefficients @ modes[:, m:].mT  # (C, K, n)
        weight[:, 1 : 1 + m] += (leading * self.unit).mT
        maps = Polynomial(monomials, weight, leading / self.unit)
        return unchecked(Operator)(frame, maps, contexts, m)


class Rollouts(Protocol):
    """Rollouts at contexts that are left out, for the choice of settings."""

    def runs_at(self, contexts: Tensor) -> Tensor:
        """Return number (C,) of a run at each context (C, p); -1 where there is none."""

    def errors(self, operator: Operator, runs: Tensor) -> Tensor:
        """Return errors (C,) of rollouts on the manifold of an operator at the contexts of runs
        (C,).
        """


def _frozen(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)
