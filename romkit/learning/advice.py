"""Advice on a learned model, by its errors and by what its runs have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from romkit.core import display
from romkit.data import context_matrix, context_names
from romkit.learning.rhythm import rhythm

Errors = Mapping[str, np.ndarray]
"""Error of each run by what made the forecast [deviations of the training data]."""

USEFUL = 0.5
"""Error of a forecast above which it is called of no use."""

NEGLIGIBLE = 0.005
"""Error of a forecast below which nothing more is needed [deviations]."""

LIMITED = 2.0
"""Error of a forecast, in that of the projection, up to which the manifold limits it."""

MISSED = 0.1
"""Error of the projection, in that of the forecast, below which the law misses what moves the runs."""

FOLLOWED = 0.25
"""Error of runs that a law has learned from, in that of held-out runs, up to which it follows them."""

UNSEEN = 1.5
"""Error of held-out runs, in that of runs that a model has learned from, from which on more runs
help.
"""

GAINED = 0.85
"""Error of the last manifold that was tried, in that of the one before, up to which a further latent
may help.
"""

TURNING = 1.5
"""Length of the way of a variable, in its range, from which on it goes back and forth."""

ALIKE = 0.01
"""Distance of contexts, in their range, up to which runs should be nearly equal."""

FEW = 4
"""Contexts below which a model that has learned from one more is another one."""

SCATTER = 0.5
"""Difference of such runs, in the error of the forecast, from which on it is what limits it."""


@dataclass(frozen=True)
class Evidence:
    """Errors and runs that advice rests on.

    Attributes:
        held_out: errors of the held-out runs.
        seen: errors of some runs of the training.
        tried: latent dimensions, with the error of the manifold of each.
        latent_dim: of the model.
        train, test: runs of the training, and held-out ones.
        has_inputs: whether the law has inputs.
        fitted_to_all: whether the model has learned from all runs by now.
    """

    held_out: Errors
    seen: Errors
    tried: Sequence[tuple[int, float]]
    latent_dim: int
    train: xr.Dataset
    test: xr.Dataset
    has_inputs: bool
    fitted_to_all: bool

    def sentence(self) -> str:
        """Sentences on how far to trust the model, and on what would help most."""
        errors = self.held_out["forecast"]
        is_lost = ~np.isfinite(errors)
        if is_lost.any():
            return f"{self._of_lost(is_lost)}{self._causes()}{self._of_few_contexts()}"
        forecast, projection = self._error("forecast"), self._error("projection")
        shifted = self._error("nearest run, shifted")
        if forecast > min(USEFUL, shifted):
            causes = self._causes() or self._help()
            few = self._of_few_contexts()
            return f"No law follows these runs better than the nearest of them.{causes}{few}"
        if forecast <= NEGLIGIBLE:
            return (
                f"Forecasts err by {forecast:.2g} of the deviation of the data, the nearest run by "
                f"{shifted:.2g}: nothing more is needed."
            )
        causes = self._of_individuals() or self._help()
        if forecast <= LIMITED * projection:
            return (
                f"The manifold limits the forecast ({projection:.2g} of its error of "
                f"{forecast:.2g}).{causes}"
            )
        return (
            f"The law limits the forecast ({forecast:.2g}, the manifold {projection:.2g}).{causes}"
        )

    def _of_lost(self, is_lost: np.ndarray) -> str:
        """Sentences on forecasts that are lost, and on the others."""
        worst = int(np.argmax(is_lost))
        kept = self.held_out["forecast"][~is_lost]
        others = ""
        if len(kept) > 0:
            others = f" The {len(kept)} others err by {np.median(kept):.2g}, in the median."
        return f"The forecast at {context_in_words(self.test, worst)} is lost.{others}"

    def _causes(self) -> str:
        """Sentences on why no law can follow the runs; empty where none shows."""
        for cause in (self._of_single_variable, self._of_rhythm, self._of_individuals):
            sentence = cause()
            if sentence:
                return sentence
        return self._of_inputs()

    def _help(self) -> str:
        """Sentence on more runs and more latents, where errors show that they help."""
        if self.fitted_to_all:
            return ""
        forecast, of_seen = self._error("forecast"), float(np.mean(self.seen["forecast"]))
        latents = self._further_latents()
        if forecast > UNSEEN * of_seen:
            worst = int(np.argmax(self.held_out["forecast"]))
            where = context_in_words(self.test, worst)
            also = f", or latent_dim={latents}" if latents else ""
            return (
                f" On runs that it has learned from it errs by {of_seen:.2g}: more runs near "
                f"{where}{also} may help."
            )
        if latents:
            return f" Each latent that was added has helped so far: try latent_dim={latents}."
        return (
            f" It errs as much on runs that it has learned from ({of_seen:.2g}), so more runs "
            "would not help; noise of the data is a part."
        )

    def _of_few_contexts(self) -> str:
        """Sentence for a model that has learned from so few contexts that one more matters."""
        number = len(np.unique(contexts_of(self.train), axis=0))
        if number >= FEW or self.fitted_to_all:
            return ""
        return (
            f" It has learned from runs at {number} contexts: model.refitted() learns from all, with "
            "the same settings."
        )

    def _further_latents(self) -> int | None:
        """A number of latents that was not tried, where the last ones that were have helped."""
        if len(self.tried) < 2:
            return None
        (before, error_before), (last, error) = self.tried[-2:]
        is_rising = before < last == self.latent_dim
        further = last + (last - before)
        has_more = further <= self.train.sizes["component"]
        if is_rising and has_more and error <= GAINED * error_before:
            return further
        return None

    def _of_single_variable(self) -> str:
        """Sentence for a single variable that turns: no law of it alone can do that."""
        states = self.train["state"].values
        if states.shape[-1] > 1 or self.has_inputs:
            return ""
        for run in states[..., 0]:
            course = run[np.isfinite(run)]
            if len(course) > 2 and _way(course) > TURNING * np.ptp(course):
                return (
                    " A law of one variable alone cannot rise and fall through the same values: "
                    'give a second variable, or an input (page "Your own data", hidden variables).'
                )
        return ""

    def _of_rhythm(self) -> str:
        """Sentence for runs that swing in step, as what is driven from outside does."""
        if self.has_inputs:
            return ""
        period = rhythm(self.train)
        if period is None:
            return ""
        return (
            f" All runs swing in step, with period {period:.4g}: if something outside drives them, "
            f"give its rhythm, learn(..., period={period:.4g})."
        )

    def _of_inputs(self) -> str:
        """Sentence for runs that are alike at equal times and on the manifold, but follow no law."""
        forecast = self._error("forecast")
        is_held = self._error("projection") < MISSED * forecast < np.inf
        # a law that follows its own runs lacks other runs, and no input
        is_followed = float(np.mean(self.seen["forecast"])) < FOLLOWED * forecast
        if self.has_inputs or not is_held or is_followed:
            return ""
        if self._error("nearest run") > forecast:
            return ""
        return (
            " If something acts on the runs that changes in time, a load or a heater say, name it: "
            "romkit.data.describe(data, control=[...])."
        )

    def _of_individuals(self) -> str:
        """Sentence for runs at equal contexts that differ by more than the model errs."""
        difference = difference_of_repeats(self.train)
        least = min(self._error("forecast"), float(np.mean(self.seen["forecast"])))
        if not difference > SCATTER * least:
            return ""
        names = ", ".join(context_names(self.train))
        return (
            f" Runs at equal {names} differ by {difference:.2g}, which {names} does not tell: the "
            "forecast is of their mean, the bars hold their differences."
        )

    def _error(self, name: str) -> float:
        """Mean error of a forecast over the held-out runs."""
        return float(np.mean(self.held_out[name]))


def context_in_words(data: xr.Dataset, run: int) -> str:
    """Context of a run in words."""
    values = display.parameters(data.isel(trajectory=run))
    named = []
    for name in context_names(data):
        named.append(f"{name} = {float(values[name]):.4g}")
    return ", ".join(named)


def contexts_of(data: xr.Dataset) -> np.ndarray:
    """Contexts (C, p), the means over time of those that move."""
    contexts = context_matrix(data)
    if contexts.ndim == 3:
        return contexts.mean(1)
    return contexts


def difference_of_repeats(data: xr.Dataset) -> float:
    """Root mean square difference of runs at nearly equal contexts, for one run of each pair
    [deviations]; NaN where there are none.
    """
    contexts = contexts_of(data)  # (C, p)
    width = np.ptp(contexts, axis=0)
    places = contexts / np.where(width > 0, width, 1.0)
    states = data["state"].values
    deviation = np.nanstd(states, axis=(0, 1))
    scaled = states / np.where(deviation > 0, deviation, 1.0)  # (C, T, n)
    squares = []
    for first in range(len(places)):
        for second in range(first):
            if np.abs(places[first] - places[second]).max() <= ALIKE:
                squares.append(np.nanmean(np.square(scaled[first] - scaled[second])))
    if not squares:
        return np.nan
    # the difference of two runs is √2 times that of each from their mean
    return float(np.sqrt(np.mean(squares) / 2))


def _way(course: np.ndarray) -> float:
    """Length of the way of a variable."""
    return float(np.abs(np.diff(course)).sum())
