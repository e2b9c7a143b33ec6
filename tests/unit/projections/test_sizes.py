"""Sizes, scales and bases that a projection is made with have to fit the data."""

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.projections import Frame
from tests.refusals import refused


def test_sizes_that_do_not_fit_the_data_are_named_by_the_class_itself(lorenz_data):
    frame, falling = Frame.from_dataset(lorenz_data), "expected sizes that do not decrease"
    for method, sizes, message in (
        ("ncae", {"layers": (2, 24, 12), "embedding": (1, 4)}, f"layers: {falling} .* n = 36"),
        ("ncae", {"layers": (2, 36), "embedding": (2, 4)}, "embedding: expected sizes that start with the 1 context"),
        ("cae", {"layers": (40, 36)}, f"layers: {falling}"),
        ("context-cae", {"layers": (2, 37)}, f"layers: {falling}"),
        ("flow", {"latent_dim": 2, "units": (8,), "embedding": (2, 4)}, "embedding: expected sizes that start"),
        ("pod", {"latent_dim": 37}, f"latent_dim: {falling}"),
        ("quadratic-manifold", {"latent_dim": 37}, f"latent_dim: {falling}"),
    ):
        refused(message, romkit.projections.METHODS[method], frame, torch.Generator(), **sizes)


def test_a_basis_of_other_states_or_coordinates_is_refused(lorenz_data):
    basis = romkit.basis(lorenz_data, rank=4)
    inner = Frame.from_dataset(basis.project(lorenz_data))
    names = ("", inner.state_names, inner.state_units)
    refused("basis: expected the 4 components of the state, got 36", Frame, *names, basis=basis)
    whole, behind = Frame.from_dataset(lorenz_data), Frame.from_dataset(lorenz_data, basis, inner)
    refused("inner: expected the 4 coordinates in the basis, got 36", Frame.from_dataset, lorenz_data, basis, whole)
    pod = romkit.fit("pod", lorenz_data, latent_dim=2)
    refused("frame: expected one with a basis of 36 modes", pod.behind, behind)


def test_former_names_of_frames_and_paths_work_and_warn(lorenz_data):
    """Names of romkit before November 2026."""
    basis, projections = romkit.basis(lorenz_data, rank=4), romkit.projections
    inner, whole = (Frame.from_dataset(data) for data in (basis.project(lorenz_data), lorenz_data))
    old = ["Signature", "Normalization", "BasisNormalization", "MovingPath"]
    with pytest.warns(DeprecationWarning, match="old name of romkit.projections"):
        Signature, Normalization, BasisNormalization, MovingPath = (getattr(projections, name) for name in old)
    signature = Signature("", inner.state_names, inner.state_units, ("F",), ("1",))
    assert Normalization(signature).state_names == inner.state_names
    assert torch.equal(Normalization.from_dataset(lorenz_data).state_std, whole.state_std)
    x = torch.from_numpy(lorenz_data.state.values).float()
    behind = BasisNormalization(whole, basis, inner)
    assert torch.equal(behind.normalise(x), Frame.from_dataset(lorenz_data, basis, inner).normalise(x))
    model = romkit.fit("pod", lorenz_data, latent_dim=2)
    with pytest.warns(DeprecationWarning, match="old name"):
        assert model.normalization.signature is model.frame
    with pytest.warns(DeprecationWarning, match="old name of romkit.projections"):
        assert isinstance(romkit.problem.ConstantPath(model(F=3.15)), MovingPath)


def test_scales_of_many_samples_in_single_precision_are_those_of_the_samples(lorenz_data):
    pressure = 1e5 + np.random.default_rng(0).normal(size=(1, 300_000, 2))
    data = xr.Dataset(
        {"state": (("trajectory", "time", "component"), pressure.astype(np.float32))}, {"time": range(300_000)}
    )
    found = Frame.from_dataset(data)
    for scale in (found.state_std, found.state_scale):
        assert torch.allclose(scale, torch.ones(2), rtol=0.01)


def test_a_default_of_a_users_method_is_not_replaced_by_a_guess(lorenz_data):
    class Sized(romkit.projections.Projection):
        def __init__(self, frame, generator, *, latent_dim, units=8):
            raise NotImplementedError

        def at(self, c):
            raise NotImplementedError

    frame = Frame.from_dataset(lorenz_data)
    assert romkit.projections.architecture(Sized, frame, latent_dim=3) == {"latent_dim": 3}
