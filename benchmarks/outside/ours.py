"""romkit's own calls, with default settings."""

import contextlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

import romkit
from benchmarks.outside.rivals import MODES, smoothed
from romkit.laws import PolynomialLaw
from romkit.laws.joint import denoised

NAME = "romkit"

COMPLETE = 10
"""Most components of which a law of the states themselves is asked for."""


def dataset(
    states: np.ndarray, times: np.ndarray | float, context: Mapping[str, np.ndarray] | None = None
) -> xr.Dataset:
    """Return runs (C, T, n) in romkit's schema, without words."""
    with contextlib.redirect_stdout(io.StringIO()):
        return romkit.data.from_arrays(states, times, context=context)


def states_of(forecast: xr.Dataset) -> np.ndarray:
    """Return states (C, T, n) or (T, n) of a forecast."""
    states = forecast["state"] if "state" in forecast else forecast["rom"]
    lead = [name for name in ("trajectory", "time") if name in states.dims]
    return states.transpose(*lead, ...).values


def terms_of(law: object) -> dict[str, int]:
    """Return number of terms of a law as it is written; nothing of a network."""
    if not hasattr(law, "formulas"):
        return {}
    text = [line.split("=", 1)[1].strip().lstrip("-") for line in law.formulas()]
    number = sum(1 + line.count(" + ") + line.count(" - ") for line in text if line != "0")
    return {"terms": number}


@dataclass(frozen=True)
class ByLaw:
    """Forecasts by a law.

    Attributes:
        projection, law: of romkit.
        interval: of the forecasts.
        runs: that the law was fitted to.
    """

    projection: object
    law: object
    interval: float
    runs: xr.Dataset

    def __call__(self, last: np.ndarray, steps: int) -> np.ndarray:
        start = last[-1]
        is_continued = np.array_equal(start, states_of(self.runs)[0, -1])
        if is_continued and getattr(self.law, "last", None) is not None:
            start = self.law.last[0]  # without its noise
        run = romkit.forecast(
            self.projection,
            dynamics=self.law,
            initial_state=start,
            duration=self.interval * steps,
            dt=self.interval,
        )
        return states_of(run)[1 : steps + 1]

    def denoised(self, samples: np.ndarray) -> np.ndarray:
        """Return states (T, n) without their noise, of a law that was fitted together with them."""
        if getattr(self.law, "last", None) is None:
            return smoothed(samples)
        family, shapes = self.projection.law_space(self.runs)
        return denoised(self.law, PolynomialLaw.samples(family, shapes))[0].numpy()

    @property
    def terms(self) -> dict[str, int]:
        return terms_of(self.law)


def of_run(samples: np.ndarray, interval: float) -> ByLaw:
    """Return projection and law of a single run (T, n), by `romkit.fit` and `romkit.law`."""
    runs = dataset(samples[None], interval)
    if samples.shape[1] <= COMPLETE:
        projection = romkit.fit("identity", runs, verbose=False)
    else:
        projection = romkit.fit("pod", runs, latent_dim=MODES, verbose=False)
    return ByLaw(projection, romkit.law(projection, runs), interval, runs)


def of_runs(runs: xr.Dataset, complete: bool) -> tuple[Callable[..., xr.Dataset], object]:
    """Return forecast and law of runs at several parameters: by `romkit.learn`, or of the
    complete state by `romkit.law`.
    """
    if complete:
        projection = romkit.fit("identity", runs, verbose=False)
        law = romkit.law(projection, runs)
        return partial(romkit.forecast, projection, dynamics=law), law
    with contextlib.redirect_stdout(io.StringIO()):
        model = romkit.learn(runs)
    return model.forecast, model.law
