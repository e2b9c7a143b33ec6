"""Choice of a model of training runs: manifold and law, coordinates, and what acts from outside."""

import time
from typing import NamedTuple

import xarray as xr

from romkit.learning.between import TriedBetween, chosen_between, with_rule
from romkit.learning.coordinates import Tried
from romkit.learning.driven import TriedPeriod, with_period_that_helps
from romkit.learning.manifolds import Kinds, Model
from romkit.learning.rhythm import with_rhythm
from romkit.learning.trials import Trial


class Choice(NamedTuple):
    """A model of training runs, and what was tried.

    Attributes:
        model: manifold and law.
        trials: manifolds that were tried.
        train: the runs, with the coordinates and inputs that the law is in.
        coordinates: that were tried; None where none promised to be better.
        between: rules for inputs between samples that were tried; None where none was.
        rhythm: period that was tried; None where none was seen, or none was needed.
    """

    model: Model
    trials: list[Trial]
    train: xr.Dataset
    coordinates: Tried | None
    between: TriedBetween | None
    rhythm: TriedPeriod | None

    @property
    def period(self) -> float | None:
        """Period that was taken; None where none was."""
        if self.rhythm is None or not self.rhythm.is_taken:
            return None
        return self.rhythm.period

    def with_its_inputs(self, data: xr.Dataset) -> xr.Dataset:
        """Other runs with inputs as those of the training."""
        if self.period is not None:
            return with_rhythm(data, self.period)
        if self.between is None:
            return data
        return with_rule(data, self.train["control"].attrs["between"])


def chosen_with_inputs(
    train: xr.Dataset,
    latent_dim: int | None,
    seconds: float,
    seed: int,
    kinds: Kinds | None = None,
) -> Choice:
    """The manifold and law that forecast left-out training runs best, in coordinates, with a rule for
    inputs between samples, or with a period that nobody has given, where these help.
    """
    began = time.process_time()
    plain, between = chosen_between(train, latent_dim, seconds, seed, kinds)
    took = time.process_time() - began
    best, rhythm = with_period_that_helps(plain, latent_dim, took, seed, kinds)
    return Choice(best.model, best.trials, best.train, best.tried, between, rhythm)
