"""Other ways to forecast a single run: pysindy, a reservoir, and a linear model.

Settings are chosen by the last part of the training samples, with the rest to learn from, and the
chosen ones learn from all.
"""

import itertools
from collections.abc import Callable, Iterable

import numpy as np
import pysindy
from scipy.integrate import solve_ivp
from scipy.signal import savgol_filter

Forecast = Callable[[np.ndarray, int], np.ndarray]
"""From the last samples (k, n) to so many next ones (steps, n)."""

Method = Callable[[np.ndarray, float], Forecast]
"""From samples (T, n) and their interval to forecasts."""

LOST = 10.0
"""Size of a forecast, in the largest of the training samples, beyond which it is lost."""

MODES = 64
"""Most components that a method sees: leading modes of larger states."""


def chosen(candidates: Iterable[Method], samples: np.ndarray, interval: float) -> Forecast:
    """Return the method that forecasts the last tenth of the samples best, learned from all of
    them.
    """
    length = max(len(samples) // 10, 10)
    known, truth = samples[:-length], samples[-length:]
    size = truth.std(0).mean()
    least, best = np.inf, None
    for method in candidates:
        try:
            apart = method(known, interval)(known, length) - truth
        except (ValueError, np.linalg.LinAlgError):
            continue
        error = np.minimum(np.abs(np.nan_to_num(apart, nan=1e9)) / size, 2.0).mean()
        if error < least:
            least, best = error, method
    return (best or linear(0.0))(samples, interval)


def within(path: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Return a forecast (steps, n), NaN from where it is lost."""
    outside = ~(np.abs(path) < LOST * np.abs(samples).max()).all(1)
    path = path.copy()
    path[np.maximum.accumulate(outside)] = np.nan
    return path


def in_modes(method: Method) -> Method:
    """Return a method in the leading modes of large states."""

    def learned(samples: np.ndarray, interval: float) -> Forecast:
        if samples.shape[1] <= MODES:
            return method(samples, interval)
        mean = samples.mean(0)
        basis = np.linalg.svd(samples[:: max(len(samples) // 2000, 1)] - mean, False)[2][:MODES].T
        forecast = method((samples - mean) @ basis, interval)

        def follow(last: np.ndarray, steps: int) -> np.ndarray:
            return forecast((last - mean) @ basis, steps) @ basis.T + mean

        return follow

    return learned


def linear(ridge: float) -> Method:
    """x[k + 1] = A x[k] + b by least squares: DMD with a constant."""

    def learned(samples: np.ndarray, interval: float) -> Forecast:
        before = np.column_stack([samples[:-1], np.ones(len(samples) - 1)])
        scale = ridge * np.trace(before.T @ before) / before.shape[1]
        gram = before.T @ before + scale * np.eye(before.shape[1])
        step = np.linalg.lstsq(gram, before.T @ samples[1:], rcond=None)[0]

        def follow(last: np.ndarray, steps: int) -> np.ndarray:
            state, path = last[-1], []
            for _ in range(steps):
                state = np.append(state, 1.0) @ step
                path.append(state)
            return within(np.array(path), samples)

        return follow

    return learned


def by_linear_model(samples: np.ndarray, interval: float) -> Forecast:
    return in_modes(linear(1e-10))(samples, interval)


def reservoir(radius: float, scale: float, ridge: float, nodes: int = 400) -> Method:
    """Return an echo state network: h[k + 1] = tanh(W h[k] + V x[k] + b), x[k] = R (1, x, h,
    h²)[k].

    Source: Jaeger & Haas (2004); squares as in Pathak et al. (2018).
    """

    def learned(samples: np.ndarray, interval: float) -> Forecast:
        draw = np.random.default_rng(62)
        n, mean, deviation = samples.shape[1], samples.mean(0), samples.std(0) + 1e-12
        inner = draw.normal(size=(nodes, nodes)) * (draw.random((nodes, nodes)) < 10 / nodes)
        inner *= radius / np.abs(np.linalg.eigvals(inner)).max()
        outer, bias = scale * draw.uniform(-1, 1, (nodes, n)), draw.uniform(-0.5, 0.5, nodes)

        def steps_of(inputs: np.ndarray, h: np.ndarray) -> np.ndarray:
            states = []
            for x in inputs:
                h = np.tanh(inner @ h + outer @ x + bias)
                states.append(h)
            return np.array(states)

        def features(x: np.ndarray, h: np.ndarray) -> np.ndarray:
            return np.concatenate([np.ones_like(x[..., :1]), x, h, h**2], -1)

        scaled = (samples - mean) / deviation
        warm = min(100, len(samples) // 5)
        hidden = steps_of(scaled[:-1], np.zeros(nodes))
        columns = features(scaled[:-1], hidden)[warm:]
        gram = columns.T @ columns + ridge * len(columns) * np.eye(columns.shape[1])
        readout = np.linalg.solve(gram, columns.T @ scaled[warm + 1 :])

        def follow(last: np.ndarray, steps: int) -> np.ndarray:
            inputs = (last - mean) / deviation
            h = steps_of(inputs[-500:-1], np.zeros(nodes))[-1]
            state, path = inputs[-1], []
            for _ in range(steps):
                h = np.tanh(inner @ h + outer @ state + bias)
                state = features(state, h) @ readout
                path.append(state * deviation + mean)
            return within(np.array(path), samples)

        return follow

    return learned


def by_reservoir(samples: np.ndarray, interval: float) -> Forecast:
    grid = itertools.product((0.4, 0.9), (0.1, 0.5), (1e-8, 1e-5))
    return chosen((in_modes(reservoir(*settings)) for settings in grid), samples, interval)


def sparse(degree: int, threshold: float, most: int = 12) -> Method:
    """pysindy's STLSQ of a polynomial library, smoothed differences; scaled states, so that one
    threshold holds for all, and at most so many modes of them.
    """

    def learned(samples: np.ndarray, interval: float) -> Forecast:
        mean, deviation = samples.mean(0), samples.std(0) + 1e-12
        scaled = (samples - mean) / deviation
        model = pysindy.SINDy(
            optimizer=pysindy.STLSQ(threshold=threshold, alpha=1e-6, normalize_columns=False),
            feature_library=pysindy.PolynomialLibrary(degree=degree),
            differentiation_method=pysindy.FiniteDifference(order=4),
        )
        model.fit(scaled, t=interval)
        coefficients = model.coefficients()  # (n, terms)
        powers = model.feature_library.powers_  # (terms, n)
        bound = LOST * np.abs(scaled).max()

        def rate(t: float, z: np.ndarray) -> np.ndarray:
            return coefficients @ np.prod(z**powers, 1)

        def left(t: float, z: np.ndarray) -> float:
            return bound - np.abs(z).max()

        left.terminal = True

        def follow(last: np.ndarray, steps: int) -> np.ndarray:
            times = interval * np.arange(1, steps + 1)
            start = (last[-1] - mean) / deviation
            path = np.full((steps, len(start)), np.nan)
            with np.errstate(all="ignore"):
                found = solve_ivp(
                    rate,
                    (0, times[-1]),
                    start,
                    t_eval=times,
                    events=left,
                    method="LSODA",
                    rtol=1e-7,
                    atol=1e-9,
                )
            path[: found.y.shape[1]] = found.y.T[:steps]
            return within(path * deviation + mean, samples)

        return follow

    return learned


def by_pysindy(samples: np.ndarray, interval: float) -> Forecast:
    """Best of eight settings."""
    grid = itertools.product((2, 3), (0.0, 0.01, 0.05, 0.2))
    if samples.shape[1] > 10:
        grid = itertools.product((1, 2), (0.0, 0.02, 0.1))
    return chosen((sparse(*settings) for settings in grid), samples, interval)


def smoothed(samples: np.ndarray) -> np.ndarray:
    """Local polynomials (Savitzky & Golay), for methods without an own way to remove noise."""
    return savgol_filter(samples, 7, 3, axis=0)


METHODS: dict[str, Method] = {
    "pysindy": by_pysindy,
    "reservoir": by_reservoir,
    "linear": by_linear_model,
}
