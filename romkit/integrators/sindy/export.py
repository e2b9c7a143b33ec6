"""To pysindy: the one file that imports it, and only when it is asked for."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from romkit.integrators.sindy.basis import Basis


def to_pysindy(basis: Basis, coefficients: Tensor, order: int) -> object:
    """A fitted `pysindy.SINDy` for one equation, with the context (physical units) as control input.

    Args:
        basis: the terms.
        coefficients: (K, m).
        order: 1, or 2, where its state is (z, ż) and the rates ż are features of their own in front of the terms.
    """
    import pysindy

    K, m = coefficients.shape
    rates, parameters = m * (order - 1), len(basis.context.names)
    names = [*basis.variables.names[len(basis.variables) - rates :], *basis.names]
    library = _library_class()(_features(basis, rates), names)
    library.n_features_in_ = len(basis.variables) + parameters
    library.n_output_features_ = rates + K
    optimizer = pysindy.STLSQ()
    optimizer.coef_ = np.zeros((rates + m, rates + K))
    optimizer.coef_[:rates, :rates] = np.eye(rates)
    optimizer.coef_[rates:, rates:] = basis.rate(coefficients).T.cpu().numpy()
    optimizer.ind_, optimizer.intercept_ = optimizer.coef_ != 0, 0.0
    model = pysindy.SINDy(optimizer=optimizer, feature_library=library)
    model.feature_names = [*basis.variables.names, *basis.context.names]
    model.n_control_features_ = parameters
    model._fit_shape()  # what its fit calls last
    return model


def _features(basis: Basis, rates: int) -> Callable[[np.ndarray], np.ndarray]:
    """(N, d + p) -> (N, rates + K): the rates ż and the terms at (z, ż) and c."""
    d = len(basis.variables)

    def features(x: np.ndarray) -> np.ndarray:
        x = torch.from_numpy(np.array(x, dtype=np.float64))
        z, c = x[:, :d], x[:, d:]
        columns = [*z[:, d - rates :].unbind(-1), *(term.expand(len(z)) for term in basis.terms(z, c))]
        return torch.stack(columns, dim=-1).numpy()

    return features


@functools.cache
def _library_class() -> type:
    """A feature library of pysindy that evaluates romkit's terms; a class of its own would import pysindy."""
    from pysindy.feature_library.base import BaseFeatureLibrary, x_sequence_or_item

    class RomkitLibrary(BaseFeatureLibrary):
        """Terms of a romkit equation."""

        def __init__(self, features: Callable[[np.ndarray], np.ndarray], names: Sequence[str]):
            self.features, self.names = features, names

        @x_sequence_or_item
        def fit(self, x, y=None):
            return self

        @x_sequence_or_item
        def transform(self, x):
            return [self.features(np.asarray(one)) for one in x]

        def get_feature_names(self, input_features=None):
            return list(self.names)

    return RomkitLibrary
