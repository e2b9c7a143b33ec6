"""PySINDy, opinf and PyDMD with their documented defaults: a model for each run, interpolated
between two of them.

Models work in POD coordinates of the training runs, as they are, or divided by their deviation,
with thirty time units in a run. Coefficients of the two runs nearest in the parameter are
interpolated linearly. DMD keeps all coordinates, and has a constant beside them.
"""

import time
import warnings
from collections.abc import Callable

import numpy as np
import opinf
import pysindy
from pydmd import DMD
from scipy.integrate import solve_ivp

ENERGY, MOST = 0.999, 8
"""Share of the variance that the modes have, and most modes."""

OUTSIDE = 5.0
"""Distance from the origin, in the largest one of the training runs, at which a rollout is stopped."""

Motion = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(start (r,), times (T,)) -> coordinates (T, r)."""


def sindy(z: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, Callable]:
    model = pysindy.SINDy()
    model.fit(z, t=times)
    powers = model.feature_library.powers_
    return model.coefficients(), lambda w: lambda q: w @ np.prod(q**powers, axis=1)


def operator_inference(z: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, Callable]:
    states, rates = opinf.ddt.UniformFiniteDifferencer(times).estimate(z.T)
    model = opinf.models.ContinuousModel("cAH").fit(states, rates)
    c, A, H = (operator.entries for operator in model.operators)
    r = z.shape[1]
    square = lambda q: opinf.operators.QuadraticOperator.ckron(q)  # noqa: E731
    return np.concatenate(
        [c[:, None], A, H], axis=1
    ), lambda w: lambda q: w @ np.concatenate([[1.0], q[:r], square(q)])


def dmd(z: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, None]:
    model = DMD(svd_rank=-1).fit(
        np.column_stack([z, np.ones(len(z))]).T
    )  # few coordinates, about their mean
    return np.real(model.modes @ np.diag(model.eigs) @ np.linalg.pinv(model.modes)), None


PACKAGES = {"pysindy": sindy, "opinf": operator_inference, "pydmd": dmd}


def forecasts(
    fit: Callable,
    z: np.ndarray,
    c: np.ndarray,
    starts: np.ndarray,
    at: np.ndarray,
    times: np.ndarray,
) -> np.ndarray:
    """Return coordinates (H, T, r) from `starts` (H, r) at parameters `at`, by models of the runs z
    (C, T, r) at `c`.
    """
    reach, found = OUTSIDE * np.linalg.norm(z, axis=-1).max(), []
    models = [fit(run, times) for run in z]
    for start, value in zip(starts, at, strict=True):
        right = int(np.clip(np.searchsorted(c, value), 1, len(c) - 1))
        share = (value - c[right - 1]) / (c[right] - c[right - 1])
        weights, rate = (
            (1 - share) * models[right - 1][0] + share * models[right][0],
            models[right][1],
        )
        path = np.full((len(times), z.shape[-1]), np.nan)
        path[0] = start
        if rate is None:
            for k in range(1, len(times)):
                path[k] = (weights @ np.append(path[k - 1], 1.0))[:-1]
        else:
            gone = lambda t, q: reach - np.linalg.norm(q)  # noqa: E731
            gone.terminal = True
            g = rate(weights)
            run = solve_ivp(
                lambda t, q, g=g: g(q),
                (times[0], times[-1]),
                start,
                t_eval=times,
                events=gone,
                rtol=1e-6,
            )
            path[: run.y.shape[1]] = run.y.T
        path[np.linalg.norm(path, axis=1) > reach] = np.nan
        found.append(path)
    return np.array(found)


def side_by_side(
    train: np.ndarray,
    c: np.ndarray,
    held_out: np.ndarray,
    at: np.ndarray,
    times: np.ndarray,
    *,
    scaled: bool,
) -> dict[str, tuple[np.ndarray, float]]:
    """Return forecasts (H, T, n) of each package for the first states of `held_out` (H, T, n), and
    seconds; NaN when lost.
    """
    order, rows = np.argsort(c), train.reshape(-1, train.shape[-1])
    mean = rows.mean(0)
    _, s, modes = np.linalg.svd(rows - mean, full_matrices=False)
    rank = min(MOST, 1 + int(np.searchsorted(np.cumsum(s**2) / (s**2).sum(), ENERGY)))
    modes = modes[:rank]
    unit = s[0] / np.sqrt(len(rows)) if scaled else 1.0
    clock = (times[1] - times[0]) * (len(times) - 1) / 30 if scaled else 1.0  # a run takes 30 times
    z, starts = (train[order] - mean) @ modes.T / unit, (held_out[:, 0] - mean) @ modes.T / unit
    found = {}
    for name, fit in PACKAGES.items():
        begun = time.perf_counter()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            paths = forecasts(fit, z, c[order], starts, at, (times - times[0]) / clock)
        found[name] = (mean + unit * paths @ modes, time.perf_counter() - begun)
    return found
