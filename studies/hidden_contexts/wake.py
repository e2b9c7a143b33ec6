"""Wakes whose Reynolds number is hidden: unseen flows that are placed by a glance at three
coordinates or at the lift alone, and the onset of shedding along the discovered parameter.
"""

import time
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from scipy.stats import spearmanr
from torch import Tensor

import romkit
from romkit.core.polynomials import Monomials
from romkit.core.types import Array
from romkit.data import ContextParameter
from romkit.hidden import HiddenContext
from romkit.systems import System
from studies.hidden_contexts.runs import dataset, summary
from studies.wake.data import COORDINATES, TRAIN
from studies.wake.reduced import LAST, STEP

MODES, SEGMENT, EVERY = 3, 64, 3
"""Coordinates of the wake that are used, samples of a piece of a run, and their distance."""

STARTS = (0, 200, 400)
"""First samples of the pieces of a run of the wake."""

GLANCE, LATER = 12, 300
"""Samples by which a flow is placed, 1.7 periods, and the first one of half a period."""


@dataclass(frozen=True)
class Wakes:
    """Runs of the full model.

    Attributes:
        reynolds: (C,), of the training first.
        states: (C, T, 3) coordinates.
        lift: (C, T).
        times: (T,).
    """

    reynolds: Array
    states: Array
    lift: Array
    times: Array

    @classmethod
    def stored(cls) -> "Wakes":
        """Return runs of the study of the wake."""
        data = xr.open_dataset(COORDINATES, engine="h5netcdf").load()
        states = data["state"].values[:, :, :MODES].astype(float)
        lift = data["lift"].values.astype(float)
        return cls(data["Re"].values, states, lift, data["time"].values)

    @property
    def unseen(self) -> range:
        """Numbers of the runs that are not of the training."""
        return range(len(TRAIN), len(self.states))

    @property
    def frequencies(self) -> Array:
        """Frequencies (C,) of shedding."""
        return np.array([frequency(states[:, 0]) for states in self.states])

    def half_period(self, run: int) -> slice:
        """Return samples of half a period of a run."""
        samples = round(0.5 / self.frequencies[run] / STEP)
        return slice(LATER, LATER + samples + 1)


def frequency(x: Array) -> float:
    """Frequency of the last five seconds of a signal (T,), by upward crossings of their mean; NaN of
    one that has none.
    """
    z = x[-LAST:] - x[-LAST:].mean()
    before = np.flatnonzero((z[:-1] < 0) & (z[1:] >= 0))
    if len(before) < 2:
        return np.nan
    crossing = before - z[before] / (z[before + 1] - z[before])
    return float(1 / (np.diff(crossing).mean() * STEP))


def wake() -> dict[str, object]:
    """Hidden parameter of ten flows, and what it tells of ten others."""
    wakes = Wakes.stored()
    length = SEGMENT * EVERY
    clock = wakes.times[:length:EVERY]
    pieces = [wakes.states[: len(TRAIN), s : s + length : EVERY] for s in STARTS]
    began = time.process_time()
    found = romkit.hidden_context(dataset(np.stack(pieces, 1), clock), group="environment")
    result = summary(found) | {"seconds": time.process_time() - began}
    glance = slice(0, GLANCE * EVERY, EVERY)
    result["1.7 periods"] = _placed(found, wakes, [glance] * len(wakes.unseen))
    halves = [wakes.half_period(run) for run in wakes.unseen]
    result["half a period"] = _placed(found, wakes, halves)
    if found.number == 1:
        result["half a period of lift"] = _placed_by_lift(found, wakes, halves)
        result |= onset(found, wakes)
    return result


def _placed(found: HiddenContext, wakes: Wakes, seen: list[slice]) -> dict[str, object]:
    """Return errors of Strouhal numbers of unseen flows, placed by some of their samples."""
    hidden, strouhal = [], []
    for run, part in zip(wakes.unseen, seen, strict=True):
        early = dataset(wakes.states[run, part][None, None], wakes.times[part])
        placed = found.place(early)
        ahead = placed.forecast(duration=20.0, dt=STEP)["state"].values
        hidden.append(list(placed.context.values()))
        strouhal.append(frequency(ahead[:, 0]) / wakes.frequencies[run] - 1)
    return _errors(wakes, np.array(hidden), strouhal)


def _errors(wakes: Wakes, hidden: Array, strouhal: list[float]) -> dict[str, object]:
    """Return errors of Strouhal numbers, and the order of hidden parameters (C, r)."""
    reynolds = wakes.reynolds[wakes.unseen]
    orders = [abs(spearmanr(reynolds, column)[0]) for column in hidden.T]
    return {"strouhal": strouhal, "rank_correlation": float(max(orders, default=np.nan))}


class Cycles:
    """Periodic flows of a law with one hidden parameter, and their lift, which is a polynomial of
    coordinates and the parameter in the training.

    Args:
        found: the law.
        wakes: of the training.
    """

    def __init__(self, found: HiddenContext, wakes: Wakes):
        self.found = found
        self.values = found.values["value"].values[:, 0]
        self.last = wakes.states[: len(TRAIN), -1]
        states = wakes.states[: len(TRAIN)]
        self._size = abs(states).max((0, 1))
        contexts = self.values[:, None].repeat(states.shape[1], 1)
        terms = self._terms(states.reshape(-1, MODES), contexts.ravel())
        self._of_terms = np.linalg.lstsq(terms, wakes.lift[: len(TRAIN)].ravel(), rcond=None)[0]

    def _terms(self, states: Array, hidden: Array) -> Array:
        """Monomials (N, q) of states (N, 3) and hidden parameters (N,)."""
        variables = np.column_stack([states / self._size, hidden])
        return Monomials(MODES + 1, 4)(torch.from_numpy(variables)).numpy()

    def states(self, hidden: float) -> Array:
        """Return states (T, 3) that end in the periodic flow."""
        nearest = abs(self.values - hidden).argmin()
        start = self.last[nearest]
        run = self.found.forecast(start, duration=10.0, dt=STEP, hidden1=float(hidden))
        return run["state"].values

    def distance(self, hidden: float, lift: Array) -> float:
        """Mean square distance of a lift (L,) from that of a periodic flow, at the best phase."""
        states = self.states(hidden)
        cycle = states[-LAST:]
        of_cycle = self._terms(cycle, np.full(len(cycle), hidden)) @ self._of_terms
        between = CubicSpline(np.arange(len(of_cycle)), of_cycle)
        period = 1 / (frequency(states[:, 0]) * STEP)
        phases = np.arange(0, period, 0.05)
        differences = between(phases[:, None] + np.arange(len(lift))) - lift
        return float(np.square(differences).mean(1).min())

    def nearest(self, lift: Array) -> float:
        """Return the hidden parameter whose periodic flow has the nearest lift."""
        grid = np.linspace(self.values.min(), self.values.max(), 25)
        best = int(np.argmin([self.distance(value, lift) for value in grid]))
        around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        found = minimize_scalar(
            self.distance, bounds=around, args=(lift,), method="bounded", options={"xatol": 1e-3}
        )
        return float(found.x)


def _placed_by_lift(found: HiddenContext, wakes: Wakes, seen: list[slice]) -> dict[str, object]:
    """Return errors of Strouhal numbers of unseen flows whose lift alone is seen."""
    cycles = Cycles(found, wakes)
    hidden, strouhal = [], []
    for run, part in zip(wakes.unseen, seen, strict=True):
        value = cycles.nearest(wakes.lift[run, part])
        ahead = cycles.states(value)
        hidden.append([value])
        strouhal.append(frequency(ahead[:, 0]) / wakes.frequencies[run] - 1)
    return _errors(wakes, np.array(hidden), strouhal)


class Discovered(System):
    """Law of a hidden context of one parameter.

    Args:
        found: the law.
    """

    name, time_units = "discovered", "s"
    state_names, state_units = ("y0", "y1", "y2"), ("1",) * MODES
    dt, duration, horizon = STEP, 10.0, 10.0

    def __init__(self, found: HiddenContext):
        self.found = found
        values = found.values["value"].values
        low, high = float(values.min()), float(values.max())
        self.context = (ContextParameter("hidden1", "1", low, high, "hidden parameter"),)

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        """Return rates (..., 3)."""
        scale, motion = self.found.frame.scale, self.found.discovery.motion
        family = self.found.discovery.posterior.family
        terms = motion.terms(scale.scaled(x))  # (..., K)
        weights = torch.einsum("...q,kqm->...km", family.terms(c), family.theta)
        while weights.dim() < terms.dim() + 1:
            weights = weights.unsqueeze(-3)
        rates = (terms.unsqueeze(-2) @ weights).squeeze(-2)
        return scale.largest * rates / scale.tau

    def initial_state(self, contexts: Tensor, rng: np.random.Generator) -> Tensor:
        """Return the mean flow."""
        return contexts.new_zeros(len(contexts), MODES)


def onset(found: HiddenContext, wakes: Wakes) -> dict[str, object]:
    """Return where the steady flow loses its stability along the hidden parameter, and the Reynolds
    number there by those of the training.
    """
    values = found.values["value"].values[:, 0]
    steady = wakes.states[0, -1]  # the first run does not shed
    branch = romkit.continuation(
        Discovered(found), start=steady.tolist(), hidden1=(float(values[0]), float(values[4]))
    )
    labels = found.labelled({"Re": np.array(TRAIN)}).labels
    assert labels is not None
    at = [
        float(value)
        for kind, value in zip(
            branch["special_kind"].values, branch["special_parameter"].values, strict=True
        )
        if kind == "Hopf"
    ]
    reynolds = [float(labels.known(torch.tensor([[value]]).double())[0, 0]) for value in at]
    return {"onset": at, "critical": reynolds}
