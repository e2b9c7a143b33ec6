"""Manifolds of more and more latents with laws on them, and the choice between them."""

import time
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from torch import Tensor

from romkit.bases import Basis
from romkit.core import runtime
from romkit.core.errors import DataWarning, InputError
from romkit.integrators import LearnedField
from romkit.laws import LAWS, Estimator
from romkit.laws.choice import AS_GOOD, HELD_OUT, order_of_preference
from romkit.laws.phase import with_phase
from romkit.learning.quiet import quietly
from romkit.learning.refit import METHOD, basis_of
from romkit.learning.trials import Trial
from romkit.projections import Projection
from romkit.verbs.fit import fit
from romkit.verbs.law import Comparison, settings_of

LATENT = (2, 3, 4, 5, 6, 7, 8)
"""Latent dimensions that are tried, as long as a further one gains, or the one after it: the modes
of a wave come in pairs."""

MOST_FOR_A_LAW = 5
"""Latents up to which further ones are tried for the sake of a law that errs by more than the
manifold.
"""

GAINS = 0.85
"""Share of the projection's error that a manifold with more latents has to reach."""

COMPLETE = 6
"""Components up to which a law of all of them is tried, in their own units, where terms are few."""

PAIR = 2
"""Latent dimensions, one after the other, that may fail to gain in the manifold or in the law."""

NEGLIGIBLE = 0.005
"""Error of a law [deviations] that needs no further latents."""

CLOSE_CALL = 3.0
"""Ratio of errors up to which two manifolds are compared on other contexts, too."""

LIMITED = 2.0
"""Error of a law, relative to the projection's, from which on a manifold is not what limits it."""


OUT_OF_PHASE = 2.0
"""Error of forecasts of whole runs, in that of pieces of them, from which on it is the phase that they
lose. It grows with the run and shrinks with each further context, and tells no manifolds apart.
"""


class Model(NamedTuple):
    """A manifold with a law, the settings of the law, and how it was compared.

    Attributes:
        left_out: numbers of the training runs that laws were compared by, and the errors of the law
            on these [deviations], of each fold.
    """

    projection: Projection
    settings: Estimator
    law: LearnedField
    left_out: list[tuple[Tensor, Tensor]]


class Candidate(NamedTuple):
    """A manifold, and the laws that were compared on it.

    Attributes:
        projection: fitted to the training data.
        error: of the projection on contexts that were left out.
        laws: compared by forecasts of other contexts; None where the manifold gained too little.
        in_pieces: error of the best law in pieces of these forecasts, some periods each.
    """

    projection: Projection
    error: float
    laws: Comparison | None
    in_pieces: float = np.inf

    @property
    def law_error(self) -> float:
        """Error of the best law, infinite where there is none."""
        best = self.laws.best
        return np.inf if best is None else best.error

    @property
    def error_of_motion(self) -> float:
        """Error of the best law, in pieces where forecasts of whole runs are out of phase."""
        if _is_out_of_phase(self.law_error, self.in_pieces):
            return self.in_pieces
        return self.law_error

    @property
    def complexity(self) -> int:
        """Number of coefficients of the best law, by which equal errors are told apart."""
        best = self.laws.best
        return 0 if best is None else best.complexity

    @property
    def good(self) -> bool:
        """Whether nothing more is needed."""
        return self.law_error < NEGLIGIBLE

    @property
    def closes_poorly(self) -> bool:
        """Whether closed orbits err by more than the manifold explains, or were left out for that."""
        errors = [row["error"] for row in self.laws.rows if row["law"] == "limit-cycle"]
        if not errors:
            return True
        # they were not needed where it is NaN
        return errors[0] > LIMITED * self.error

    def fitted_law(self) -> LearnedField | None:
        """The best law, fitted to all runs; None where all are lost."""
        if self.laws.best is None:
            return None
        try:
            return quietly(self.laws.chosen)
        except InputError:
            return None

    def in_words(self) -> str:
        """Latents and errors, for those who wait."""
        best = "no better than rest"
        if self.law_error < 1:
            best = f"{self.law_error:.2g}"
        if self.error_of_motion < self.law_error:
            best = f"{best}, and {self.in_pieces:.2g} in pieces"
        number = self.projection.latent_dim
        return f"{number} latents, error of the manifold {self.error:.2g}, with its best law {best}"

    def trial(self) -> Trial:
        """Row of the report."""
        row = None
        if self.laws is not None:
            # a law with the least error may be lost when it is fitted to all runs, and the next one
            # taken
            row = min(
                self.laws.rows, key=lambda row: (not row["chosen"], row["tried"] == 0, row["error"])
            )
        number = self.projection.latent_dim
        in_pieces = None
        if row is not None:
            in_pieces = self.in_pieces
        return Trial(number, self.projection.config, self.error, row, in_pieces)


Kinds = Sequence[str | Estimator]
"""Kinds of laws, as of `romkit.law`."""


def chosen(
    train: xr.Dataset,
    latent_dim: int | None,
    seconds: float,
    seed: int,
    kinds: Kinds | None = None,
) -> tuple[Model, list[Trial]]:
    """The manifold and law that forecast held-out contexts of the training data best."""
    began = time.process_time()
    candidates = _candidates(train, latent_dim, seconds, seed, kinds)
    best, law = _best_with_law(
        [candidate for candidate in candidates if candidate.laws is not None]
    )
    follows = best.laws.good or best.laws.good_in_pieces
    if kinds is None and (law is None or not follows):
        best.laws.seconds = seconds - (time.process_time() - began)
        law = _with_networks(best, law)
    if law is None:
        law = quietly(best.laws.chosen)
    law = with_phase(law, best.projection, train)
    left_out = best.laws.errors_left_out()
    model = Model(best.projection, best.laws.settings, law, left_out)
    return model, [candidate.trial() for candidate in candidates]


def _best_with_law(candidates: list[Candidate]) -> tuple[Candidate, LearnedField | None]:
    """The best manifold with its law fitted to all runs, None where this is lost; another one, where
    the settings for which it is the best are lost.
    """
    best = _best(candidates)
    law = best.fitted_law()
    if best.laws.error <= best.law_error:
        return best, law
    others = [candidate for candidate in candidates if candidate is not best]
    better = _better(others, best.laws.error)
    if better is None:
        return best, law
    return better


def _with_networks(best: Candidate, law: LearnedField | None) -> LearnedField | None:
    """The law of a manifold, or a network in its place, which cost most, and are tried with the
    latents that the cheap laws prefer.
    """
    of_cheap = best.laws.best
    quietly(best.laws.add, LAWS["neural-ode"]())
    if law is not None and best.laws.best is of_cheap:
        return law
    return quietly(best.laws.chosen)


def _better(others: list[Candidate], error: float) -> tuple[Candidate, LearnedField] | None:
    """Another manifold with a law that is better than one of this error, where the laws for which
    the first manifold was taken are lost when they are fitted to all runs.
    """
    better = None
    for candidate in sorted(others, key=lambda candidate: candidate.law_error):
        if not AS_GOOD * candidate.law_error < error:
            break
        law = candidate.fitted_law()
        if law is not None and AS_GOOD * candidate.laws.error < error:
            better = candidate, law
            error = candidate.laws.error
    return better


def _best(candidates: list[Candidate]) -> Candidate:
    """The manifold whose law is best; where that is a close call, on other contexts too, in pieces of
    the runs where whole ones are out of phase, and of laws that are as good the simplest one.
    """
    least = min(candidate.law_error for candidate in candidates)
    close = [candidate for candidate in candidates if candidate.law_error <= CLOSE_CALL * least]
    if len(close) == 1:
        return close[0]
    whole, in_pieces = _confirmed(close)
    kept = follow_the_motion(whole, in_pieces)
    errors = [whole[number] for number in kept]
    complexities = [close[number].complexity for number in kept]
    preferred = order_of_preference(errors, complexities)[0]
    return close[kept[preferred]]


def _confirmed(candidates: list[Candidate]) -> tuple[list[float], list[float]]:
    """Errors of the best laws in whole runs and in pieces, over twice as many contexts: a few rank
    laws of nearly equal errors by chance.
    """
    whole = []
    in_pieces = []
    for candidate in candidates:
        settings = quietly(candidate.laws.confirmed)
        error = np.inf
        if settings is not None:
            error = settings.error
        whole.append(error)
        in_pieces.append(quietly(candidate.laws.in_pieces, settings))
    return whole, in_pieces


def follow_the_motion(whole: Sequence[float], in_pieces: Sequence[float]) -> list[int]:
    """Numbers of the manifolds whose laws follow the motion best, by errors of whole runs and of
    pieces of them: of all, where the forecasts that are best in pieces keep the phase.
    """
    numbers = list(range(len(whole)))
    best = int(np.argmin(in_pieces))
    if not _is_out_of_phase(whole[best], in_pieces[best]):
        return numbers
    limit = AS_GOOD * in_pieces[best]
    return [number for number in numbers if in_pieces[number] <= limit]


def _is_out_of_phase(whole: float, in_pieces: float) -> bool:
    """Whether an error of whole runs is one of the phase."""
    return whole > OUT_OF_PHASE * in_pieces


def _candidates(
    train: xr.Dataset,
    latent_dim: int | None,
    seconds: float,
    seed: int,
    kinds: Kinds | None = None,
) -> list[Candidate]:
    """Manifolds with cheap laws: all components of a small state, then more and more latents."""
    began = time.process_time()
    if not _is_small(train) or latent_dim not in (None, train.sizes["component"]):
        return _of_latents(train, latent_dim, seconds, began, seed, kinds)
    complete = _complete(train, seconds, began, seed, kinds)
    # fewer latents than that reduce little
    if complete.good or complete.laws.good_in_pieces:
        return [complete]
    return [complete, *_of_latents(train, latent_dim, seconds, began, seed, kinds)]


def _of_latents(
    train: xr.Dataset,
    latent_dim: int | None,
    seconds: float,
    began: float,
    seed: int,
    kinds: Kinds | None,
) -> list[Candidate]:
    """Manifolds of more and more latents, or those asked for, as long as one of two gains by more:
    the manifold enough for a law, and the law.

    Those that gain too little for a law are among them, too.
    """
    front = basis_of(train)
    candidates: list[Candidate] = []
    last: Candidate | None = None  # that has a law
    least = np.inf
    passed = 0
    for number in _latent_dims(train, latent_dim):
        projection = _manifold(train, number, front, is_asked=latent_dim is not None)
        if projection.latent_dim < number and last is not None:  # further directions hold nothing
            break
        error = float(projection.report["left_out_error"])
        if last is not None and not _gains(error, number, last):
            candidates.append(Candidate(projection, error, None))
            passed += 1
            if passed == PAIR:
                break
            continue
        remaining = seconds - (time.process_time() - began)
        laws = Comparison(*projection.for_law(train), HELD_OUT, seed, remaining)
        quietly(_add, laws, kinds, last)
        last = _compared(projection, error, laws, began)
        candidates.append(last)
        passed = 0 if last.error_of_motion < least else passed + 1
        least = min(least, last.error_of_motion)
        # the best law is fitted once more, to all runs, which takes about as long
        if last.good or passed == PAIR or remaining < seconds / 2:
            break
    return candidates


def _is_small(train: xr.Dataset) -> bool:
    """Whether states have so few components that a law of all of them is tried."""
    return train.sizes["component"] <= COMPLETE


def _compared(projection: Projection, error: float, laws: Comparison, began: float) -> Candidate:
    """A manifold with laws that were tried, told to those who wait since `began`."""
    in_pieces = quietly(laws.in_pieces, laws.best)
    candidate = Candidate(projection, error, laws, in_pieces)
    runtime.told(f"learn: {candidate.in_words()}; {time.process_time() - began:.0f} s")
    return candidate


def _complete(
    train: xr.Dataset, seconds: float, began: float, seed: int, kinds: Kinds | None
) -> Candidate:
    """All components of the state as they are, with laws of them."""
    projection = fit("identity", train)
    laws = Comparison(*projection.for_law(train), HELD_OUT, seed, seconds)
    if kinds is None:
        # equations of physical quantities have few terms
        instead = LAWS["polynomial"](), LAWS["limit-cycle"]()
        quietly(laws.add, LAWS["sindy"](), *instead)
    else:
        quietly(_add, laws, kinds, None)
    return _compared(projection, 0.0, laws, began)


def _manifold(train: xr.Dataset, number: int, front: Basis | None, is_asked: bool) -> Projection:
    """A manifold of so many latents, or fewer, which is no surprise where nobody asked for them."""
    with warnings.catch_warnings():
        if not is_asked:
            warnings.filterwarnings("ignore", message="latent_dim", category=DataWarning)
        return fit(METHOD, train, latent_dim=number, basis=front)


def _add(laws: Comparison, kinds: Kinds | None, before: Candidate | None) -> None:
    """Try kinds of laws; by default cheap ones, closed orbits as long as the manifold before is what
    limited them.
    """
    if kinds is None:
        instead = []
        if before is None or not before.closes_poorly:
            instead.append(LAWS["limit-cycle"]())
        laws.add(LAWS["polynomial"](), *instead)
        return
    for kind in kinds:
        laws.add(settings_of(kind))


def _latent_dims(train: xr.Dataset, latent_dim: int | None) -> list[int]:
    """Numbers of latents of the manifolds to try, fewer than components where these are few."""
    n = train.sizes["component"]
    if latent_dim is not None:
        return [] if latent_dim == n and _is_small(train) else [latent_dim]
    # many latents of a state that has hardly more components reduce nothing
    most = min(n, max(MOST_FOR_A_LAW, n // 2))
    if _is_small(train):
        most = min(most, n - 1)
    return [number for number in LATENT if number <= most]


def _gains(error: float, number: int, before: Candidate) -> bool:
    """Whether a manifold with so many latents, of this error, is worth a law."""
    # latents that add little to the states may still tell apart states with different futures
    if before.error_of_motion > LIMITED * before.error:
        return number <= MOST_FOR_A_LAW
    return error <= GAINS * before.error
