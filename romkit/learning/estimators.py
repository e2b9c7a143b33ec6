"""Projections and `romkit.learn` as estimators of scikit-learn."""

from collections.abc import Mapping

import numpy as np
import torch
import xarray as xr
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data import DIMS
from romkit.data.context import ROLE
from romkit.data.times import even_step
from romkit.learning.learn import learn
from romkit.learning.steady import require_motion
from romkit.metrics import deviations
from romkit.numerics import forecast_error
from romkit.verbs.fit import fit

FLOATS = ["float64", "float32"]


class ProjectionTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Latent coordinates of snapshots, for pipelines and searches of scikit-learn.

    Rows are snapshots, without times, so that methods are trained on states alone.

    Args:
        method: as of `romkit.fit`.
        latent_dim: m.
        contexts: how many of the last columns are context parameters, of each row; what `transform`
            returns ends with them.
        seed: as of `romkit.fit`.
        settings: of the training, by name, as `romkit.fit` takes them.

    Attributes:
        projection_: the trained projection, in float64.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t = np.linspace(0, 6, 50)
        >>> x = np.stack([np.cos(t), np.sin(t), 2 * np.cos(t)], axis=1)
        >>> pod = romkit.ProjectionTransformer("pod", latent_dim=2).fit(x)
        >>> z = pod.transform(x)
        >>> z.shape, bool(np.allclose(pod.inverse_transform(z), x))
        ((50, 2), True)
    """

    def __init__(
        self,
        method: object = "pod",
        latent_dim: int = 2,
        *,
        contexts: int = 0,
        seed: int = 0,
        settings: dict[str, object] | None = None,
    ):
        self.method, self.latent_dim, self.contexts = method, latent_dim, contexts
        self.seed, self.settings = seed, settings

    def fit(self, X: Array, y: object = None) -> "ProjectionTransformer":
        """Train on snapshots (N, n + contexts).

        Raises:
            ValueError: as `romkit.fit`, or fewer columns than latent coordinates and contexts need.
        """
        X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        n = self._checked_size(X.shape[1])
        data = self._split_runs(X, n)
        # Snapshots have no velocities, so that only their distances count.
        settings = {"velocity_weight": 0.0}
        if self.settings is not None:
            settings |= self.settings
        projection = fit(self.method, data, latent_dim=self.latent_dim, seed=self.seed, **settings)
        self.projection_ = projection.double()
        self._n_features_out = self.latent_dim + self.contexts
        return self

    def _checked_size(self, columns: int) -> int:
        """Return number n of the components of a state, behind which the contexts stand."""
        if not isinstance(self.settings, Mapping | None):
            raise InputError(
                "settings",
                expected="a dict or None",
                got=checks.shown(self.settings),
                fix="give {'epochs': 100}, say",
            )
        n = columns - checks.check_minimum("contexts", self.contexts, 0)
        if checks.check_minimum("latent_dim", self.latent_dim, 1) > n:
            raise InputError(
                "latent_dim",
                expected=f"at most {max(n, 0)}, as n_features={columns} with {self.contexts} contexts",
                got=self.latent_dim,
                fix="give fewer, or more columns",
            )
        return n

    def _split_runs(self, X: Array, n: int) -> xr.Dataset:
        """Make each row a trajectory of one sample; columns behind the state are contexts."""
        names = [f"x{k}" for k in range(X.shape[1])]
        if hasattr(self, "feature_names_in_"):  # of a table of pandas
            names = list(map(str, self.feature_names_in_))
        states = X[:, None, :n]  # (N, 1, n)
        coords = {"time": [0.0], "component": names[:n]}
        for k in range(n, len(names)):
            coords[names[k]] = ("trajectory", X[:, k], {ROLE: "context"})
        variables = {"state": (DIMS, states), "velocity": (DIMS, np.zeros_like(states))}
        return xr.Dataset(variables, coords)

    def transform(self, X: Array) -> Array:
        """Latent coordinates and contexts (N, m + contexts) of snapshots."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return self._mapped(X, X.shape[1] - self.contexts, "encode")

    def inverse_transform(self, X: Array) -> Array:
        """Return snapshots (N, n + contexts) of what `transform` returned."""
        check_is_fitted(self)
        X = check_array(X, dtype=FLOATS)
        if X.shape[1] != self._n_features_out:
            raise InputError(
                "X",
                expected=f"{self._n_features_out} columns",
                got=X.shape[1],
                fix="give what transform returned",
            )
        return self._mapped(X, self.latent_dim, "decode")

    def _mapped(self, X: Array, width: int, method: str) -> Array:
        """Encode or decode the first columns at the contexts in the others, row by row."""
        rows = X[:, :width]
        contexts = X[:, width:]
        c = None
        if self.contexts:
            c = torch.from_numpy(contexts)
        P = self.projection_(c)
        mapped = getattr(P, method)(rows)
        return np.hstack([mapped, contexts])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = FLOATS
        return tags


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
        p = checks.check_minimum("contexts", self.contexts, 1)
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
        model = learn(data, names, latent_dim=self.latent_dim, seconds=self.seconds, seed=self.seed)
        self.model_ = require_motion(model)
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

    def score(self, X: Array, y: Array) -> float:
        """Return minus the mean error of forecasts [deviations of the training runs]."""
        n = len(self._deviations)
        runs = self.predict(X).reshape(len(X), -1, n)
        truth = np.asarray(y, dtype=float).reshape(runs.shape)
        errors = forecast_error(runs, truth, self._deviations)
        return -float(np.mean(errors))
