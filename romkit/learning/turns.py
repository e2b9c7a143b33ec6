"""Few contexts, each held out in turn: errors of a model that has learned from all of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core.runtime import track
from romkit.core.types import Array
from romkit.learning.contexts import groups_between
from romkit.learning.errors import Forecasts, forecasts_of
from romkit.learning.manifolds import Model
from romkit.learning.quiet import quiet
from romkit.learning.refit import refitted
from romkit.learning.rollouts import rolled_out
from romkit.learning.scale import shared


class HeldOut(NamedTuple):
    """Forecasts of runs by models that have not seen their contexts.

    Attributes:
        test: the runs.
        run: `romkit.rollout` along them.
        forecasts: beside those that need no model.
        in_turn: whether each context was held out in turn, and the model has learned from all.
    """

    test: xr.Dataset
    run: xr.Dataset
    forecasts: Forecasts
    in_turn: bool

    @property
    def further(self) -> xr.Dataset | None:
        """Runs that the model has not learned from; None without any."""
        return None if self.in_turn else self.test

    @property
    def mean_error(self) -> float:
        """Error of the forecasts, infinite where one is lost [deviations]."""
        return float(self.forecasts.errors()["forecast"].mean())


def held_out_once(model: Model, train: xr.Dataset, test: xr.Dataset) -> HeldOut:
    """Forecasts of runs that were held out."""
    run = rolled_out(model.projection, model.law, test)
    return HeldOut(test, run, forecasts_of(run, train, test), in_turn=False)


def held_out_in_turn(model: Model, data: xr.Dataset, seed: int) -> HeldOut:
    """Forecasts of the runs at each context between others, by the settings of a model that has
    learned from all.

    A few contexts are too few to be held out for good: without one of five, a law has to bridge a gap
    twice as wide as the final one, and is chosen by still fewer.
    """
    tests = []
    runs = []
    several = []
    groups = groups_between(data)
    for train, missed, run in missed_in_turn(
        model, data, groups, seed, "contexts held out in turn"
    ):
        tests.append(missed)
        runs.append(run)
        several.append(forecasts_of(run, train, missed))
    return HeldOut(_joined(tests), _joined(runs), _together(several, data), in_turn=True)


def missed_in_turn(
    model: Model, data: xr.Dataset, groups: Sequence[Array], seed: int, task: str
) -> Iterator[tuple[xr.Dataset, xr.Dataset, xr.Dataset]]:
    """Fit the settings of a model without each group of runs: the other runs, those of the group,
    and their rollouts.

    Args:
        model: whose settings are taken.
        data: the runs.
        groups: numbers of the runs that are missed together.
        seed: of the fits.
        task: what the progress bar says.
    """
    for left_out in track(groups, task):
        kept = np.setdiff1d(np.arange(data.sizes["trajectory"]), left_out)
        train = data.isel(trajectory=kept)
        missed = data.isel(trajectory=left_out)
        with quiet():
            projection, law = refitted(model.projection, model.settings, train, seed)
        yield train, missed, rolled_out(projection, law, missed)


def _joined(runs: list[xr.Dataset]) -> xr.Dataset:
    return xr.concat(runs, "trajectory", data_vars="minimal", coords="minimal", compat="override")


def _together(several: list[Forecasts], data: xr.Dataset) -> Forecasts:
    """Forecasts of all runs, in the deviations of all."""
    states = {}
    for name in several[0].states:
        states[name] = np.concatenate([forecasts.states[name] for forecasts in several])
    truth = np.concatenate([forecasts.truth for forecasts in several])
    deviation = np.nanstd(data["state"].values, axis=(0, 1))
    return Forecasts(states, truth, deviation, shared(deviation, data))
