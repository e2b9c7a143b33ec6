"""The same data in POD coordinates, with laws of other packages, whose settings are chosen with the same care.

Each law is fitted to three quarters of the training runs for every candidate setting; rollouts of the others, held out
by context, choose; the chosen one is fitted to all training runs. Contexts are scaled to [-1, 1], coordinates by their
common deviation.
"""

import itertools
import warnings
from collections.abc import Callable

import numpy as np
import opinf
import pysindy
import xarray as xr
from pydmd import DMDc
from scipy.integrate import solve_ivp

from romkit.data import context_matrix, context_ranges, split
from romkit.projections import Projection

Forecast = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(start (r,), context (p,)) -> coordinates (T, r) at the times of the data."""

OUTSIDE = 5.0
"""Where a rollout is stopped: coordinates have deviation 1."""

DIFFERENTIATIONS = {
    "finite differences of order 4": lambda: pysindy.FiniteDifference(order=4),
    "smoothed finite differences": lambda: pysindy.SmoothedFiniteDifference(smoother_kws={"window_length": 9}),
}


def dmd(z: np.ndarray, c: np.ndarray, times: np.ndarray, rank: int) -> Forecast:
    """pydmd's DMDc with a constant and the context as inputs.

    Runs (C, T, r) follow each other as one sequence; the step from the end of one to the beginning of the next has an
    input of its own, so that it says nothing about A and B.
    """
    count, length, r = z.shape
    inputs = np.concatenate([np.ones((count, 1)), c], axis=1).repeat(length, axis=0)[:-1]
    breaks = np.zeros((len(inputs), count - 1))
    breaks[np.arange(1, count) * length - 1, np.arange(count - 1)] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DMDc(svd_rank=-1, svd_rank_omega=rank).fit(z.reshape(-1, r).T, np.concatenate([inputs, breaks], 1).T)
    A = np.real(model.modes @ np.diag(model.eigs) @ np.linalg.pinv(model.modes))
    B = np.real(model.B)[:, : inputs.shape[1]]

    def forecast(start: np.ndarray, context: np.ndarray) -> np.ndarray:
        path = [start]
        for _ in times[1:]:
            path.append(np.clip(A @ path[-1] + B @ np.concatenate([[1.0], context]), -OUTSIDE, OUTSIDE))
        return np.array(path)

    return forecast


def operator_inference(
    z: np.ndarray, c: np.ndarray, times: np.ndarray, degree: str, regularization: float, rates: str
) -> Forecast:
    """opinf's model of a degree whose operators are affine in the context."""
    kinds = {"c": "AffineConstantOperator", "A": "AffineLinearOperator", "H": "AffineQuadraticOperator"}
    kinds |= {"G": "AffineCubicOperator"}
    terms = 1 + c.shape[1]
    affine = lambda mu: (1.0, *np.atleast_1d(mu))  # noqa: E731
    operators = [getattr(opinf.operators, kinds[letter])(affine, nterms=terms) for letter in degree]
    model = opinf.models.ParametricContinuousModel(operators, solver=opinf.lstsq.L2Solver(regularization))
    states, rate = [path.T for path in z], [DIFFERENTIATIONS[rates]()(path, times).T for path in z]
    model.fit(list(c), states, rate)

    def at(context: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        here = model.evaluate(context)
        return lambda q: here.rhs(0.0, q)

    return _followed(at, times)


def sindy(z: np.ndarray, c: np.ndarray, times: np.ndarray, degree: int, threshold: float, rates: str) -> Forecast:
    """pysindy's STLSQ with polynomials in coordinates and context."""
    model = pysindy.SINDy(
        optimizer=pysindy.STLSQ(threshold=threshold, alpha=1e-3),
        feature_library=pysindy.PolynomialLibrary(degree=degree),
        differentiation_method=DIFFERENTIATIONS[rates](),
    )
    inputs = [np.tile(own, (len(times), 1)) for own in c]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(list(z), t=times, u=inputs)
    powers, weights = model.feature_library.powers_, model.coefficients()
    return _followed(lambda mu: lambda q: weights @ np.prod(np.concatenate([q, mu]) ** powers, axis=1), times)


def _followed(at: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]], times: np.ndarray) -> Forecast:
    """Rollouts by SciPy of the rate at a context; they stay where they leave the data."""

    def forecast(start: np.ndarray, context: np.ndarray) -> np.ndarray:
        rate = at(context)
        gone = lambda t, q: OUTSIDE - np.abs(q).max()  # noqa: E731
        gone.terminal = True
        with np.errstate(all="ignore"):
            motion = solve_ivp(
                lambda t, q: rate(q), (times[0], times[-1]), start, t_eval=times, events=gone, rtol=1e-5
            ).y.T
        return np.concatenate([motion, np.full((len(times) - len(motion), len(start)), OUTSIDE)])

    return forecast


CANDIDATES = {
    "pydmd": (dmd, {"rank": (-1, 2, 3)}),
    "opinf": (
        operator_inference,
        {
            "degree": ("cA", "cAH", "cAHG"),
            "regularization": (1e-3, 1e-1, 1.0, 10.0),
            "rates": tuple(DIFFERENTIATIONS),
        },
    ),
    "pysindy": (sindy, {"degree": (1, 2, 3), "threshold": (0.0, 1e-2, 0.1), "rates": tuple(DIFFERENTIATIONS)}),
}
"""The law of a package, and the settings to choose from."""


def side_by_side(
    package: str, pod: Projection, train: xr.Dataset, held_out: xr.Dataset
) -> tuple[xr.Dataset, dict[str, object]]:
    """Forecasts of held-out runs as a dataset for `romkit.score`, and the settings that were chosen.

    Args:
        package: a key of `CANDIDATES`.
        pod: the projection.
        train: training runs.
        held_out: runs whose first states are followed.
    """
    fit, grid = CANDIDATES[package]
    low, high = context_ranges(train)
    encode = lambda data: pod(data).encode(data).values.astype(np.float64)  # noqa: E731
    scale = encode(train).std()
    seen = lambda data: (encode(data) / scale, 2 * (context_matrix(data) - low) / (high - low) - 1)  # noqa: E731
    times, (part, rest) = train["time"].values, map(seen, split(train, 0.25, seed=1))
    settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    errors = [_error(fit, one, part, rest, times) for one in settings]
    chosen = settings[int(np.argmin(errors))]
    forecast, (z, c) = fit(*seen(train), times, **chosen), seen(held_out)
    paths = np.stack([forecast(start, mu) for start, mu in zip(z[:, 0], c, strict=True)]) * scale
    latent = pod(held_out).encode(held_out).copy(data=paths)
    state = pod(held_out)(held_out)["state"].copy(data=_decoded(pod, latent))
    std = ("component", pod.normalization.state_std.numpy())
    return xr.Dataset({"state": state}).assign_coords(state_std=std), chosen | {"candidates": len(settings)}


def _decoded(pod: Projection, latent: xr.DataArray) -> np.ndarray:
    return pod.normalization.signature.fields.gather(pod(latent.coords.to_dataset()).decode(latent), latent.dims[:-1])


def _error(
    fit: Callable[..., Forecast], settings: dict[str, object], part: tuple, rest: tuple, times: np.ndarray
) -> float:
    try:
        forecast = fit(*part, times, **settings)
    except (ValueError, np.linalg.LinAlgError):
        return np.inf
    paths = np.stack([forecast(start, mu) for start, mu in zip(rest[0][:, 0], rest[1], strict=True)])
    return float(np.sqrt(np.square(paths - rest[0]).mean()))
