"""Contexts of one case of observations by one contestant, and the bound that nobody can beat."""

import time
from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

import romkit
from romkit.integrators import DYNAMICS
from studies.inference.cases import Case
from studies.runner import Numbers, Study

SINGLE = 10
"""Observations that are estimated one by one, for their seconds."""

Estimator = Callable[[xr.Dataset], Mapping[str, object]]
"""Observations -> `estimate` and, where the contestant has them, `lower`, `upper` (B, p) and `explained` (B,)."""


def reduced(case: Case, known: xr.Dataset, like: xr.Dataset, dynamics: str) -> Estimator:
    """`romkit.infer` with a latent dynamics."""
    model = {"dynamics": DYNAMICS[dynamics](), "system": case.model, "sensors": case.rows, "noise": case.noises()}
    calibration = romkit.calibrate(case.reduced(), known, like, **model)
    return lambda observed: romkit.infer(calibration, observed)


CONTESTANTS: dict[str, Callable[..., Estimator]] = {"infer": reduced}
"""Functions of a case, its known trajectories, and observations like those to come; and of settings of their own."""


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset: the bound of each case, then its contestants."""
    table = Study("inference").presets[preset]
    cases = {title: table["shared"] | case for title, case in table["cases"].items()}
    found = [Numbers.of(f"{title}: bound", bound, case=case) for title, case in cases.items()]
    for title, case in cases.items():
        for name, contestant in table["contestants"].items():
            found.append(Numbers.of(f"{title}: {name}", inferred, case=case, beyond=table["beyond"], **contestant))
    return found


def bound(case: tuple) -> dict[str, object]:
    """Root mean square over the draws of the Cramer-Rao bound, for each parameter."""
    bounds = Case(**dict(case)).bound()
    return {"bound": np.sqrt((bounds**2).mean(0)).tolist(), "bounds": bounds.tolist()}


def inferred(case: tuple, beyond: tuple[float, float], contestant: str, settings: tuple = ()) -> dict[str, object]:
    """Errors, intervals, seconds and alarms of a contestant; alarms also on contexts beyond the range (see `Case`)."""
    case = Case(**dict(case))
    known, (observed, truth) = case.known(), case.observed()
    started = time.perf_counter()
    estimator = CONTESTANTS[contestant](case, known, observed, **dict(settings))
    prepared = time.perf_counter() - started
    estimator(observed.isel(trajectory=[0]))  # the compiler runs at the first call
    started = time.perf_counter()
    found = estimator(observed)
    seconds = {"preparing": prepared, "each of all": (time.perf_counter() - started) / case.draws, "single": []}
    for k in range(min(SINGLE, case.draws)):
        started = time.perf_counter()
        estimator(observed.isel(trajectory=[k]))
        seconds["single"].append(time.perf_counter() - started)
    estimate = np.asarray(found["estimate"])
    numbers = {"truth": truth, "estimate": estimate, "rms": np.sqrt(((estimate - truth) ** 2).mean(0))}
    numbers |= {"bias": (estimate - truth).mean(0), "median": np.median(abs(estimate - truth), axis=0)}
    if "lower" in found:
        lower, upper = np.asarray(found["lower"]), np.asarray(found["upper"])
        numbers |= {"lower": lower, "upper": upper, "coverage": ((lower <= truth) & (truth <= upper)).mean(0)}
    if "explained" in found:
        outside, contexts = case.observed(beyond)
        alarms = ~np.asarray(estimator(outside)["explained"])
        numbers |= {"false alarms": 1 - np.asarray(found["explained"]).mean(), "outside": contexts}
        numbers |= {"alarms": alarms, "alarms outside": alarms.mean()}
    return {name: np.asarray(value).tolist() for name, value in numbers.items()} | {"seconds": seconds}
