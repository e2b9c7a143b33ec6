"""Laws that cannot blow up: forecasts from starts far outside of the data, and errors inside.

Five systems, of which three are of the thirty sets of `studies/first_afternoon`, as states of few
components: runs at eleven parameters to learn from, and five between them. And `learn` of some of the
thirty sets, bounded and free, by their errors at the further contexts of that study.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

import romkit
from benchmarks.outside import ours
from romkit.verbs.law import BOUNDED
from studies.first_afternoon import sets
from studies.first_afternoon.tasks import learned

STARTS, TIMES_THE_BOX = 2_000, 3.0
"""Starts for each system, and the size of their box in that of the data."""

RUNS, SAMPLES, TESTS = 11, 151, 5
"""Runs to learn from, the samples of each, and runs between them."""


SETS = (
    "Ginzburg-Landau wave",
    "lambda-omega wave",
    "Nagumo front",
    "Rossler ring",
    "driven ladder",
    "predators and prey",
    "Oregonator chain",
    "Morris-Lecar chain",
    "noisy glycolysis",
    "repressilator",
    "noisy Goodwin cells",
    "Langford torus",
)
"""Of the thirty sets those whose laws are learned in less than fifteen seconds, but for some whose
laws miss by a quarter of a deviation."""


class System(NamedTuple):
    """A system over a parameter.

    Attributes:
        rate: of t, state and parameter.
        low, high: of the parameter.
        start: the first state of all runs.
        duration: of each.
    """

    rate: Callable
    low: float
    high: float
    start: tuple[float, ...]
    duration: float


def lorenz(t: float, s: np.ndarray, rho: float) -> list[float]:
    x, y, z = s
    return [10 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z]


SYSTEMS = {
    "Lorenz": System(lorenz, 26.0, 32.0, (1.0, 2.0, 20.0), 4.0),
    "Stuart-Landau": System(sets.stuart_landau, 0.3, 1.0, (0.1, 0.0), 25.0),
    "van der Pol": System(sets.van_der_pol, 0.5, 2.0, (2.0, 0.0), 20.0),
    "FitzHugh-Nagumo": System(sets.fitzhugh_nagumo, 0.05, 0.09, (2.0, -0.6), 80.0),
    "torus": System(sets.two_clocks, 0.35, 0.45, (0.6, 0.0, 1.2, 0.0), 30.0),
}


def runs_of(system: System, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return times (T,) and runs (C, T, n) at some values of the parameter."""
    times = np.linspace(0.0, system.duration, SAMPLES)
    settings = {"t_eval": times, "method": "LSODA", "rtol": 1e-10, "atol": 1e-10}
    return times, np.array(
        [
            solve_ivp(system.rate, (0, times[-1]), system.start, args=(value,), **settings).y.T
            for value in values
        ]
    )


def forecasts(name: str) -> dict[str, float]:
    """Return how many forecasts of a bounded law are lost, from starts in a box larger than that of
    the data and at any parameter within; and its error at new parameters in that of the free law.
    """
    system = SYSTEMS[name]
    times, train = runs_of(system, np.linspace(system.low, system.high, RUNS))
    data = ours.dataset(train, times, {"c": np.linspace(system.low, system.high, RUNS)})
    projection = romkit.fit("identity", data, verbose=False)
    draw = np.random.default_rng([62, list(SYSTEMS).index(name)])
    new = draw.uniform(system.low, system.high, TESTS)
    _, truth = runs_of(system, new)
    began = time.process_time()
    found = {}
    for bounded in (False, True):
        law = romkit.law(projection, data, bounded=bounded)
        call = partial(romkit.forecast, projection, dynamics=law)
        duration, dt = times[-1], times[1]
        runs = call(initial_state=truth[:, 0], duration=duration, dt=dt, c=new, rtol=1e-8)
        away = np.linalg.norm(ours.states_of(runs) - truth, axis=-1)
        error = float(np.mean(away) / np.linalg.norm(truth.std((0, 1))))
        found["error" if bounded else "free"] = error
    low, high = train.min((0, 1)), train.max((0, 1))
    middle, half = (low + high) / 2, (high - low) / 2
    at = draw.uniform(-TIMES_THE_BOX, TIMES_THE_BOX, (STARTS, len(middle)))
    values = draw.uniform(system.low, system.high, STARTS)
    start = middle + half * at
    ends = ours.states_of(call(initial_state=start, duration=duration, dt=duration / 10, c=values))[
        :, -1
    ]
    within = np.abs((ends - middle) / half).max(-1) < 2 * TIMES_THE_BOX  # NaN is not
    found |= {"lost": int((~within).sum()), "starts": STARTS}
    found["ratio"] = max(found["error"], 1e-5) / max(found["free"], 1e-5)
    return {"seconds": time.process_time() - began} | found


def of_set(name: str) -> dict[str, float]:
    """Return errors of bounded and of free laws of a set at further contexts, and their ratio."""
    kinds = [*BOUNDED]
    bounded, free = (
        learned(name, runs=10, kinds=kinds, bounded=is_bounded) for is_bounded in (True, False)
    )
    found = {"seconds": bounded["seconds"] + free["seconds"]}
    found |= {"error": bounded["true"], "free": free["true"]}
    return found | {"ratio": max(found["error"], 1e-5) / max(found["free"], 1e-5)}


def tasks() -> dict[str, dict[str, Callable[[], dict[str, float]]]]:
    calls = {name: partial(forecasts, name) for name in SYSTEMS}
    calls |= {f"set of thirty, {name}": partial(of_set, name) for name in SETS}
    return {name: {ours.NAME: call} for name, call in calls.items()}
