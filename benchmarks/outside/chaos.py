"""Twenty chaotic systems of dysts, drawn by lot.

Source: Gilpin (2021), arXiv:2110.05266, and its package: equations, parameters, starts, periods and
Lyapunov exponents. Runs are solved here.
"""

import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.outside import ours, rivals

NUMBER, LOT = 20, 62
"""Systems, and the seed by which they are drawn."""

PERIODS, PER_PERIOD = 40, 25
"""Periods of the run to learn from, and samples of each, by the package's `period`."""

TESTS, LONGEST = 5, 20
"""Forecasts, and the periods of each."""

VALID = 0.5
"""Error [deviations of the system] up to which a forecast is valid."""


class Chaos(NamedTuple):
    """Samples of a system.

    Attributes:
        train: (T, n).
        tests: (TESTS, T', n) from other starts on the attractor.
        interval: between samples.
        exponent: the largest Lyapunov exponent.
    """

    train: np.ndarray
    tests: np.ndarray
    interval: float
    exponent: float


@cache
def drawn() -> list[str]:
    """Return names of the systems: autonomous flows of at most ten components, without delays."""
    flows = _flows()
    names = sorted(name for name, thing in vars(flows).items() if isinstance(thing, type))
    known = []
    for name in names:
        model = getattr(flows, name)
        if model.__module__ != flows.__name__:
            continue
        about = model()
        small = (about.embedding_dimension or 99) <= ours.COMPLETE
        chaotic = (about.maximum_lyapunov_estimated or 0) > 0 and about.period
        if small and chaotic and not about.delay and not about.nonautonomous:
            known.append(name)
    return sorted(np.random.default_rng(LOT).permutation(known)[:NUMBER].tolist())


def _flows() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dysts.flows
    return dysts.flows


@cache
def solved(name: str) -> Chaos:
    """Return runs of a system: of one of 40 periods, and of five that start later on it."""
    model = getattr(_flows(), name)()
    interval = model.period / PER_PERIOD
    number, ahead = PERIODS * PER_PERIOD, LONGEST * PER_PERIOD

    def rate(t: float, state: np.ndarray) -> np.ndarray:
        return np.array(model.rhs(state, t), float)

    def samples(start: np.ndarray, count: int) -> np.ndarray:
        times = interval * np.arange(count)
        return solve_ivp(
            rate, (0, times[-1]), start, t_eval=times, method="LSODA", rtol=1e-9, atol=1e-10
        ).y.T

    first = samples(np.array(model.ic, float), 10 * PER_PERIOD)[-1]
    run = samples(first, number + TESTS * ahead + 1)
    starts = number + ahead * np.arange(TESTS)
    tests = np.array([run[start : start + ahead + 1] for start in starts])
    return Chaos(run[:number], tests, interval, model.maximum_lyapunov_estimated)


def valid_time(name: str, method: rivals.Method) -> dict[str, float]:
    """Median of the times [Lyapunov times] up to which forecasts are valid, at most those of their
    ends.
    """
    system = solved(name)
    began = time.process_time()
    forecast = method(system.train, system.interval)
    times = []
    for truth in system.tests:
        path = forecast(truth[:1], len(truth) - 1)
        apart = (path - truth[1:]) / system.train.std(0)
        error = np.nan_to_num(np.sqrt((apart**2).mean(1)), nan=np.inf)
        beyond = np.append(error > VALID, True)
        times.append(beyond.argmax() * system.interval * system.exponent)
    found = {
        "valid": float(np.median(times)),
        "most": float((len(truth) - 1) * system.interval * system.exponent),
    }
    found |= getattr(forecast, "terms", {})
    return found | {"seconds": time.process_time() - began}


def tasks() -> dict[str, dict[str, Callable[[], dict[str, float]]]]:
    methods = {ours.NAME: ours.of_run, "pysindy": rivals.by_pysindy}
    return {
        name: {label: partial(valid_time, name, call) for label, call in methods.items()}
        for name in drawn()
    }
