"""Projections as transformers of scikit-learn."""

from collections.abc import Mapping

import numpy as np
import torch
import xarray as xr
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data import DIMS
from romkit.data.context import ROLE
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
        data = self._as_runs(X, n)
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
        n = columns - checks.at_least("contexts", self.contexts, 0)
        if checks.at_least("latent_dim", self.latent_dim, 1) > n:
            raise InputError(
                "latent_dim",
                expected=f"at most {max(n, 0)}, as n_features={columns} with {self.contexts} contexts",
                got=self.latent_dim,
                fix="give fewer, or more columns",
            )
        return n

    def _as_runs(self, X: Array, n: int) -> xr.Dataset:
        """Return rows as trajectories of one time, with the columns behind the state as contexts."""
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
