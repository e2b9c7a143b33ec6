"""`romkit.learn` as a regressor of scikit-learn."""

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data import DIMS
from romkit.data.context import ROLE
from romkit.data.times import even_step
from romkit.learning.learn import learn
from romkit.metrics import deviations
from romkit.numerics import forecast_error


class RunsRegressor(RegressorMixin, BaseEstimator):
    """Forecasts of runs from their contexts and first states, for searches of scikit-learn.

    A row of X is a run: its p context parameters, then its first state (n,). The same row of y is
    the run (T, n), or flat (T n,).

    Args:
        times: (T,) of the samples of all runs, with one step.
        contexts: p, at least 1.
        latent_dim, seconds, seed: as of `romkit.learn`.

    Attributes:
        model_: what `romkit.learn` returned.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t, speed = np.linspace(0, 6, 61), np.linspace(1.0, 2.0, 6)
        >>> runs = np.sin(speed[:, None, None] * t[:, None] - np.arange(4))
        >>> rows = np.column_stack([speed, runs[:, 0]])  # context, then first state
        >>> model = romkit.RunsRegressor(t, latent_dim=2).fit(rows, runs)
        >>> model.predict(rows[:2]).shape, bool(model.score(rows, runs) > -0.02)
        ((2, 61, 4), True)
    """

    def __init__(
        self,
        times: object = None,
        *,
        contexts: int = 1,
        latent_dim: int | None = None,
        seconds: float = 60.0,
        seed: int = 0,
    ):
        self.times, self.contexts, self.latent_dim = times, contexts, latent_dim
        self.seconds, self.seed = seconds, seed

    def fit(self, X: Array, y: Array) -> "RunsRegressor":
        """Learn from runs y (R, T, n), or (R, T n), with rows X (R, p + n).

        Raises:
            InputError: rows and runs of other sizes, uneven times, or as of `romkit.learn`.
        """
        X = check_array(X, dtype=np.float64)
        times = np.asarray(self.times, dtype=float)
        if times.ndim != 1 or even_step(times) is None:
            fix = "interpolate the runs at times of one step, np.linspace(0, 10, 101) say"
            got = checks.shown(self.times)
            raise InputError("times", expected="(T,) times of one step", got=got, fix=fix)
        p = checks.at_least("contexts", self.contexts, 1)
        n = X.shape[1] - p
        expected = (len(X), len(times), n)
        y = np.asarray(y, dtype=float)
        if y.size != np.prod(expected):
            fix = "give a run for each row, whose state is the row behind its contexts"
            raise InputError("y", expected=f"runs {expected}", got=str(y.shape), fix=fix)
        names = [f"c{k}" for k in range(p)]
        coords = {"time": times, "component": [f"x{k}" for k in range(n)]}
        for name, values in zip(names, X[:, :p].T, strict=True):
            coords[name] = ("trajectory", values, {ROLE: "context"})
        data = xr.Dataset({"state": (DIMS, y.reshape(expected))}, coords)
        self.model_ = learn(
            data, names, latent_dim=self.latent_dim, seconds=self.seconds, seed=self.seed
        )
        self.n_features_in_, self._flat = X.shape[1], y.ndim == 2
        self._deviations = deviations(data)
        return self

    def predict(self, X: Array) -> Array:
        """Return forecasts (R, T, n) of rows X (R, p + n), flat where those of `fit` were."""
        check_is_fitted(self)
        X = check_array(X, dtype=np.float64)
        checks.last_axis("X", X.shape, self.n_features_in_, "columns, as those of fit")
        p, times = self.contexts, np.asarray(self.times, dtype=float)
        span = {"duration": float(times[-1] - times[0]), "dt": even_step(times)}
        forecasts = []
        for row in X:
            context = {f"c{k}": float(row[k]) for k in range(p)}
            # of interpolated runs, the context gives the start
            start = row[p:] if self.model_.interpolated is None else None
            run = self.model_.forecast(start, context=context, **span)
            forecasts.append(run["state"].values)
        runs = np.stack(forecasts)  # (R, T, n)
        return runs.reshape(len(X), -1) if self._flat else runs

    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """Return minus the mean error of forecasts [deviations of the training runs]."""
        n = len(self._deviations)
        runs = self.predict(X).reshape(len(X), -1, n)
        truth = np.asarray(y, dtype=float).reshape(runs.shape)
        errors = forecast_error(runs, truth, self._deviations)
        return -float(np.average(errors, weights=sample_weight))
