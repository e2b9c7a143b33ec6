"""Sizes, scales and bases that a projection is made with have to fit the data."""

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.core.errors import InputError


@pytest.mark.parametrize(
    ("method", "sizes", "message"),
    [
        ("ncae", {"layers": (2, 24, 12), "embedding": (1, 4)}, "layers: expected sizes that do not decrease .* n = 36"),
        ("ncae", {"layers": (2, 36), "embedding": (2, 4)}, "embedding: expected sizes that start with the 1 context"),
        ("cae", {"layers": (40, 36)}, "layers: expected sizes that do not decrease"),
        ("context-cae", {"layers": (2, 37)}, "layers: expected sizes that do not decrease"),
        ("flow", {"latent_dim": 2, "units": (8,), "embedding": (2, 4)}, "embedding: expected sizes that start"),
        ("pod", {"latent_dim": 37}, "latent_dim: expected sizes that do not decrease"),
        ("quadratic-manifold", {"latent_dim": 37}, "latent_dim: expected sizes that do not decrease"),
    ],
)
def test_sizes_that_do_not_fit_the_data_are_named_by_the_class_itself(lorenz_data, method, sizes, message):
    normalization = romkit.projections.Normalization.from_dataset(lorenz_data)
    with pytest.raises(InputError, match=message):
        romkit.projections.METHODS[method](normalization, torch.Generator(), **sizes)


def test_a_basis_of_other_states_or_coordinates_is_refused(lorenz_data):
    basis = romkit.basis(lorenz_data, rank=4)
    inner = romkit.projections.Normalization.from_dataset(basis.project(lorenz_data))
    kind, signature = romkit.projections.BasisNormalization, inner.signature
    with pytest.raises(InputError, match="basis: expected the 4 components of the state, got 36"):
        kind(signature, basis, inner)
    whole = romkit.projections.Normalization.from_dataset(lorenz_data)
    with pytest.raises(InputError, match="inner: expected the 4 coordinates in the basis, got 36"):
        kind(whole.signature, basis, whole)
    with pytest.raises(InputError, match="normalization: expected one with a basis of 36 modes"):
        romkit.fit("pod", lorenz_data, latent_dim=2).behind(kind(whole.signature, basis, inner))


def test_scales_of_many_samples_in_single_precision_are_those_of_the_samples(lorenz_data):
    pressure = 1e5 + np.random.default_rng(0).normal(size=(1, 300_000, 2))
    data = xr.Dataset(
        {"state": (("trajectory", "time", "component"), pressure.astype(np.float32))}, {"time": range(300_000)}
    )
    found = romkit.projections.Normalization.from_dataset(data)
    for scale in (found.state_std, found.state_scale):
        assert torch.allclose(scale, torch.ones(2), rtol=0.01)
