"""romkit's own calls, with default settings."""

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

import romkit
from benchmarks.outside.rivals import MODES, smoothed
from romkit.core.errors import InputError
from romkit.laws import CellEquation, CellLaw, PolynomialLaw
from romkit.laws.joint import denoised

NAME = "romkit"

COMPLETE = 10
"""Most components of which a law of the states themselves is asked for."""


FIELDS, AXES = ("u", "v"), ("y", "x")
"""Names of fields on a grid, and of its axes."""


def dataset(
    states: np.ndarray,
    times: np.ndarray | float,
    context: Mapping[str, np.ndarray] | None = None,
    grid: Sequence[int] = (),
) -> xr.Dataset:
    """Return runs (C, T, n) in romkit's schema, without words; of fields on a grid of such a shape
    as their user has them, u(y, x) and v(y, x), cells counted.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        if not grid:
            return romkit.data.from_arrays(states, times, context=context)
        axes = AXES[-len(grid) :]
        fields = states.reshape(*states.shape[:2], -1, *grid)
        dims = ("trajectory", "time", *axes)
        variables = {
            name: (dims, fields[:, :, k]) for k, name in enumerate(FIELDS[: fields.shape[2]])
        }
        coords = {axis: np.arange(float(size)) for axis, size in zip(axes, grid, strict=True)}
        coords["time"] = times if np.ndim(times) else times * np.arange(states.shape[1])
        for name, values in (context or {}).items():
            coords[name] = ("trajectory", values)
        return romkit.data.describe(xr.Dataset(variables, coords), context=[*(context or {})])


def states_of(forecast: xr.Dataset) -> np.ndarray:
    """Return states (C, T, n) or (T, n) of a forecast."""
    flat = []
    for name in ("state", "rom", *FIELDS):
        if name in forecast:
            states = forecast[name]
            lead = [dim for dim in ("trajectory", "time") if dim in states.dims]
            values = states.transpose(*lead, ...).values
            flat.append(values.reshape(*values.shape[: len(lead)], -1))
            if name not in FIELDS:
                break
    return np.concatenate(flat, -1)


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
        if isinstance(self.law, CellEquation):
            times = self.interval * np.arange(len(samples))
            return self.law.without_noise(samples[None], times)[0].numpy()
        family, shapes = self.projection.law_space(self.runs)
        return denoised(self.law, PolynomialLaw.samples(family, shapes))[0].numpy()

    @property
    def terms(self) -> dict[str, int]:
        return terms_of(self.law)


def of_run(samples: np.ndarray, interval: float) -> ByLaw:
    """Return projection and law of a single run (T, n), by `romkit.fit` and `romkit.law`; of a field,
    a law that is the same at all cells, where there is one.
    """
    grid = () if samples.shape[1] <= COMPLETE else samples.shape[1:]
    runs = dataset(samples[None], interval, grid=grid)
    if grid:
        projection = romkit.fit("identity", runs, verbose=False)
        with contextlib.suppress(InputError):  # of fields that have no such law
            return ByLaw(projection, CellLaw().fit(projection, runs), interval, runs)
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
