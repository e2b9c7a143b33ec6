"""Contexts of one case of observations by one contestant, and the bound that nobody can beat."""

import functools
import time
from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import romkit
from romkit.integrators import DYNAMICS
from romkit.solvers import RK4
from studies.inference import tracking
from studies.inference.cases import Case, Wake
from studies.runner import Numbers, Study

SINGLE = 3
"""Observations that are estimated one by one, for their seconds."""

WINDOWS, COPIES = 4000, 4
"""Most windows of known trajectories that a contestant learns from, and copies of each with noise
of its own.
"""

Estimator = Callable[[xr.Dataset], Mapping[str, object]]
"""Observations -> `estimate` and, where the contestant has them, `lower`, `upper` (B, p) and
`explained` (B,).
"""


def reduced(
    case: Case,
    observed: xr.Dataset,
    dynamics: str = "",
    modes: int = 0,
    dt: float = 0.0,
    starts: int = 4,
) -> Estimator:
    """`romkit.infer` with a latent dynamics, or from snapshots alone; by the shipped projection, or
    by modes.
    """
    model = {"dynamics": DYNAMICS[dynamics](), "system": case.full} if dynamics else {}
    model |= {"solver": RK4(dt)} if dt else {}
    given = {
        "training": case.known,
        "sensors": case.rows,
        "noise": case.sigma,
        "starts": starts,
    } | model
    projection = case.pod(modes) if modes else case.reduced
    calibration = romkit.calibrate(projection, observations=observed, **given)
    return lambda observed: romkit.infer(calibration, observed, starts=starts)


def windows(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Observed numbers (K, N) and contexts (K, p) of windows of the known trajectories, without
    noise.
    """
    states = case.known.state.values[..., case.rows]
    offsets = states.shape[1] - case.count + 1
    offsets = np.arange(0, offsets, max(1, len(states) * offsets // WINDOWS))
    found = states[:, offsets[:, None] + np.arange(case.count)].reshape(
        len(states) * len(offsets), -1
    )
    contexts = np.column_stack(
        [case.known[name].values for name in case.reduced.frame.context_names]
    )
    return found, contexts.repeat(len(offsets), axis=0)


def nearest(case: Case, observed: xr.Dataset) -> Estimator:
    """Context of the window of the known trajectories that has the smallest residual."""
    x, contexts = windows(case)

    def estimator(observed: xr.Dataset) -> dict[str, np.ndarray]:
        y = observed.state.values[..., case.rows].reshape(observed.sizes["trajectory"], -1)
        return {"estimate": contexts[((x**2).sum(1) - 2 * y @ x.T).argmin(1)]}

    return estimator


def regression(case: Case, observed: xr.Dataset) -> Estimator:
    """Return a network from observed numbers to the context, behind their principal components."""
    x, contexts = windows(case)
    noise = case.sigma * np.random.default_rng(0).standard_normal((COPIES, *x.shape))
    x, contexts = (x + noise).reshape(-1, x.shape[1]), np.tile(contexts, (COPIES, 1))
    network = MLPRegressor(
        hidden_layer_sizes=(128, 128), early_stopping=True, random_state=0, max_iter=300
    )
    first = PCA(min(60, *x.shape), random_state=0)
    model = TransformedTargetRegressor(
        make_pipeline(first, StandardScaler(), network), transformer=StandardScaler()
    )
    model.fit(x, contexts)

    def estimator(observed: xr.Dataset) -> dict[str, np.ndarray]:
        y = observed.state.values[..., case.rows].reshape(observed.sizes["trajectory"], -1)
        return {"estimate": model.predict(y).reshape(len(y), -1)}

    return estimator


def filtered(case: Case, observed: xr.Dataset, members: int = 24) -> Estimator:
    """Ensemble Kalman filter of the full model."""
    given = {"noise": case.sigma, "training": case.known, "sensors": case.rows, "members": members}
    return lambda observed: _last(romkit.assimilate(case.full, observed, **given))


def _last(found: xr.Dataset) -> dict[str, np.ndarray]:
    """Estimate and interval from all observations."""
    return {name: found[name].values[:, -1] for name in ("estimate", "lower", "upper")}


CONTESTANTS: dict[str, Callable[..., Estimator]] = {
    "infer": reduced,
    "nearest": nearest,
    "regression": regression,
    "filter": filtered,
}
"""Functions of a case and of observations like those to come, and of settings of their own."""

CASES = {"simulated": Case, "wake": Wake}


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset: the bound of each case, then its contestants."""
    table = Study("inference").presets[preset]
    found = []
    for title, case in table["cases"].items():
        names, beyond = case.pop("contestants"), case.pop("beyond", ())
        case = table["shared"][case.pop("like")] | case
        found.append(Numbers.of(f"{title}: bound", bound, case=case))
        for name in names:
            given = {"case": case, "beyond": beyond} | table["contestants"][name]
            found.append(Numbers.of(f"{title}: {name}", inferred, **given))
    alarm = table["alarms"]
    case = table["shared"][alarm.pop("like")] | alarm.pop("case")
    return [
        *found,
        Numbers.of("alarms", alarms, case=case, **alarm),
        *tracking.tasks(**table["tracking"]),
    ]


@functools.lru_cache(maxsize=1)
def made(case: tuple) -> Case:
    """Return the case of an entry of a preset; it keeps its data, which the tasks of a case have in
    common.
    """
    given = dict(case)
    return CASES[given.pop("kind")](**given)


def bound(case: tuple) -> dict[str, object]:
    """Root mean square over draws and parameters of the Cramer-Rao bound."""
    bounds = made(case).bound()
    return {"bound": float(np.sqrt((bounds**2).mean())), "bounds": bounds.tolist()}


def inferred(
    case: tuple, beyond: tuple, contestant: str, settings: tuple = (), few: int = 0
) -> dict[str, object]:
    """Return errors, intervals, seconds and alarms of a contestant; alarms also on contexts beyond
    the range (see `Case`).

    One that takes minutes for a window has the first `few` of them, each by itself.
    """
    case = made(case)
    observed, truth = case.inside
    started = time.perf_counter()
    estimator = CONTESTANTS[contestant](case, observed, **dict(settings))
    seconds = {"preparing": time.perf_counter() - started, "single": [], "processor": []}
    if not few:
        estimator(observed.isel(trajectory=[0]))  # the compiler runs at the first call
        started = time.perf_counter()
        found = estimator(observed)
        seconds["each of all"] = (time.perf_counter() - started) / case.draws
    alone = []
    for k in range(few or min(SINGLE, case.draws)):
        started, before = time.perf_counter(), time.process_time()
        alone.append(estimator(observed.isel(trajectory=[k])))
        seconds["single"].append(time.perf_counter() - started)
        seconds["processor"].append(time.process_time() - before)
        if few:
            print(
                k,
                truth[k],
                {name: np.asarray(value).tolist() for name, value in alone[-1].items()},
                flush=True,
            )
    if few:
        truth, seconds["each of all"] = truth[:few], float(np.mean(seconds["single"]))
        found = {name: np.concatenate([each[name] for each in alone]) for name in alone[0]}
    estimate = np.asarray(found["estimate"])
    numbers = {
        "truth": truth,
        "estimate": estimate,
        "rms": np.sqrt(((estimate - truth) ** 2).mean()),
    }
    numbers |= {"bias": (estimate - truth).mean(0), "median": np.median(abs(estimate - truth))}
    numbers |= {
        "sensors": case.rows if len(case.rows) < 20 else len(case.rows),
        "sigma": case.sigma,
    }
    if "lower" in found:
        lower, upper = np.asarray(found["lower"]), np.asarray(found["upper"])
        numbers |= {
            "lower": lower,
            "upper": upper,
            "coverage": ((lower <= truth) & (truth <= upper)).mean(),
        }
    if "explained" in found:
        numbers |= {"false alarms": 1 - np.asarray(found["explained"]).mean()}
        if beyond:
            outside, contexts = case.observed(beyond)
            alarms = ~np.asarray(estimator(outside)["explained"])
            numbers |= {"outside": contexts, "alarms": alarms, "alarms outside": alarms.mean()}
    return {name: np.asarray(value).tolist() for name, value in numbers.items()} | {
        "seconds": seconds
    }


def alarms(case: tuple, known: tuple[int, ...], calibrations: int) -> dict[str, object]:
    """Return shares of false alarms in fresh windows, by the number of known trajectories, for
    several calibrations.
    """
    result = {}
    for training in known:
        shares = []
        for k in range(calibrations):
            each = made(
                tuple(
                    (dict(case) | {"training": training, "seed": 1000 * training + 10 * k}).items()
                )
            )
            found = reduced(each, each.inside[0], "petrov-galerkin")(each.inside[0])
            shares.append(1 - float(found["explained"].mean()))
        stated = {"stated": found.attrs["false_alarms"], "mean": float(np.mean(shares))}
        result[str(training)] = stated | {"shares": shares, "windows": each.draws * calibrations}
    return result
