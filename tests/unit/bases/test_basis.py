"""Bases: equal to the singular value decomposition, in any metric, from any side; and what they
refuse.
"""

import copy

import numpy as np
import pytest
import torch
import xarray as xr
from scipy import sparse
from scipy.linalg import subspace_angles

import romkit
from romkit.bases import Basis, storage
from romkit.bases import modes as decomposition
from romkit.core.errors import FileError
from tests.refusals import refused

RNG = np.random.default_rng(0)


def snapshots(count, n, decay=0.7):
    """(count, n) with singular values that fall like decay^k."""
    k = min(count, n) - 1
    left, right = (np.linalg.qr(RNG.standard_normal((size, k)))[0] for size in (count, n))
    return (left * decay ** np.arange(k)) @ right.T + 3.0


def mass(n):
    """A mass matrix of linear elements on an uneven grid."""
    h = RNG.uniform(0.5, 2.0, n + 1)
    return sparse.diags_array([h[1:-1] / 6, (h[1:] + h[:-1]) / 3, h[1:-1] / 6], offsets=[-1, 0, 1])


WEIGHTS = {"none": lambda n: None, "vector": lambda n: RNG.uniform(0.1, 10.0, n), "matrix": mass}


def dense(weight, n):
    return (
        np.eye(n)
        if weight is None
        else np.diag(weight)
        if isinstance(weight, np.ndarray)
        else weight.toarray()
    )


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("shape", [(40, 200), (200, 40)])
@pytest.mark.parametrize("exact", [1500, 10])
def test_a_basis_is_the_singular_value_decomposition_in_its_metric(kind, shape, exact, monkeypatch):
    monkeypatch.setattr(decomposition, "EXACT", exact)  # 10: randomised
    count, n = shape
    x, weight = snapshots(count, n), WEIGHTS[kind](n)
    W = dense(weight, n)
    found = romkit.basis(x, rank=12, weight=weight)
    root = np.linalg.cholesky(W)
    left, sigma, _ = np.linalg.svd(root.T @ (x - x.mean(0)).T, full_matrices=False)
    V = found.modes.numpy()
    assert np.abs(V.T @ W @ V - np.eye(12)).max() < 1e-12
    assert np.allclose(found.singular_values, sigma[:12], rtol=0, atol=1e-10 * sigma[0])
    assert subspace_angles(root.T @ V, left[:, :12]).max() < 1e-6
    assert np.allclose(found.energy, (sigma**2).cumsum()[:12] / (sigma**2).sum())
    assert np.allclose(found.mean, x.mean(0))


def test_modes_far_below_the_leading_ones_are_found_too_as_many_as_a_tolerance_asks_for():
    x = snapshots(
        30, 500, decay=0.3
    )  # the last singular value is 1e-15 of the first: squares of half of them are lost
    found = romkit.basis(x, rank=24)
    sigma = np.linalg.svd(x - x.mean(0), compute_uv=False)
    assert np.allclose(found.singular_values, sigma[:24], rtol=1e-2, atol=1e-14)
    assert (found.modes.T @ found.modes - torch.eye(24)).abs().max() < 1e-12
    left_over, rank = 1 - found.energy, romkit.basis(x, tolerance=1e-3).rank
    assert left_over[rank - 1] <= 1e-3 < left_over[rank - 2]


def test_coordinates_go_both_ways():
    x, weight = torch.from_numpy(snapshots(40, 100)), WEIGHTS["vector"](100)
    found = romkit.basis(x, rank=7, weight=weight)
    y = found.encode(x)
    assert torch.allclose(found.encode(found.decode(y)), y, atol=1e-12)
    assert torch.allclose(found.encode_tangent(found.decode_tangent(y)), y, atol=1e-12)
    residual = x - found.decode(y)
    assert (residual * torch.from_numpy(weight) @ found.modes).abs().max() < 1e-12
    assert found.encode(x.float()).dtype == torch.float32
    assert torch.equal(found.truncated(3).encode(x), y[:, :3])
    assert copy.deepcopy(found) is found


def test_a_dataset_is_projected(lorenz_data):
    found = romkit.basis(lorenz_data, rank=5)
    projected = found.project(lorenz_data)
    assert projected.state.dims == ("trajectory", "time", "component")
    assert np.allclose(projected.F, lorenz_data.F)
    x, v = (torch.from_numpy(lorenz_data[name].values) for name in ("state", "velocity"))
    assert np.allclose(projected.state, found.encode(x))
    assert np.allclose(projected.velocity, found.encode_tangent(v))
    romkit.data.check_dataset(projected)
    swapped = lorenz_data.assign(state=lorenz_data.state.astype(">f8"))  # another order of bytes
    for chunk in (None, 10):
        found, known = (romkit.basis(data, rank=2, chunk=chunk) for data in (swapped, lorenz_data))
        assert torch.equal(found.modes, known.modes)


@pytest.mark.parametrize("dtype", [np.longdouble, np.float16, np.int32, ">f4", ">i8"])
def test_numbers_of_any_kind_have_the_modes_of_doubles(lorenz_data, dtype):
    states = (100 * lorenz_data.state).astype(dtype)
    found, exact = (
        romkit.basis(lorenz_data.assign(state=state), rank=2)
        for state in (states, states.astype(np.float64))
    )
    assert torch.equal(found.modes, exact.modes)


def test_components_of_one_name_are_refused(lorenz_data):
    names = [f"x{k}" for k in range(35)]
    data = lorenz_data.assign_coords(component=[*names, "x7"])
    refused("data", romkit.basis, data, 2)


def test_a_basis_computed_elsewhere_is_taken():
    modes = np.linalg.qr(RNG.standard_normal((50, 4)))[0]
    taken = Basis(modes, mean=np.arange(50.0))
    assert torch.equal(taken.mean, torch.arange(50.0, dtype=torch.float64))
    rounded = Basis(modes + 1e-10)
    assert (rounded.modes.mT @ rounded.modes - torch.eye(4)).abs().max() < 1e-14


@pytest.mark.parametrize("kind", WEIGHTS)
def test_files_give_back_the_same(kind, tmp_path):
    found = romkit.basis(snapshots(20, 60), rank=6, weight=WEIGHTS[kind](60))
    romkit.save(found, tmp_path / "basis.safetensors")
    again = romkit.load(tmp_path / "basis.safetensors")
    for name in ("mean", "modes", "dual", "singular_values", "energy"):
        assert torch.equal(getattr(found, name), getattr(again, name))
    assert (again.dual is again.modes) == (kind == "none")
    header, tensors = {"basis": 2}, {"mean": torch.zeros(5), "modes": torch.ones(5, 2)}
    romkit.core.files.write(tmp_path / "other", "basis", header, tensors)
    refused("does not hold a basis", romkit.load, tmp_path / "other", error=FileError)


def test_bad_input(lorenz_data):
    x = snapshots(10, 30)
    for data, given, fact in (
        (x, {"rank": 11}, "rank"),
        (x, {"rank": 10}, "rank"),
        (x, {"rank": 0}, "rank"),
        (x, {"rank": 3, "tolerance": 1e-9}, "tolerance"),
        (np.ones((10, 4)), {"rank": 2, "tolerance": 1e-3}, "snapshots that differ"),
        (x, {"rank": 3, "weight": np.zeros(30)}, "weight"),
        (x, {"rank": 3, "weight": np.ones(29)}, "weight"),
        (x, {"rank": 3, "weight": -mass(30)}, "weight"),
        (x, {"rank": 3, "weight": mass(29)}, "weight"),
        (x, {"rank": 3, "weight": sparse.triu(mass(30))}, "weight"),
        (x * np.nan, {"rank": 3}, "data"),
        (x[0], {"rank": 3}, "data"),
        ("x", {"rank": 3}, "data"),
        (xr.Dataset(), {"rank": 3}, "data"),
    ):
        refused(fact, romkit.basis, data, **given)
    refused("modes", Basis, np.ones((5, 2)))
    refused("mean", Basis, np.eye(5), mean=np.ones(4))
    found = romkit.basis(x, 3)
    refused("data", found.project, lorenz_data)
    refused("rank", found.truncated, 4)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("precision", "near"), [(torch.float32, 1e-6), (torch.float16, 1e-2)])
def test_fewer_bits_are_nearly_the_same_modes_and_still_orthonormal(kind, precision, near):
    weight = WEIGHTS[kind](300)
    found = romkit.basis(snapshots(40, 300), rank=6, weight=weight)
    tensors = storage.compact(found, weight, precision)
    again = storage.rebuilt(tensors)
    V, W = again.modes.numpy(), dense(weight, 300)
    assert np.abs(V.T @ W @ V - np.eye(6)).max() < 1e-13
    assert (again.dual.mT @ again.modes - torch.eye(6)).abs().max() < 1e-13
    assert (again.modes - found.modes).norm() < near * found.modes.norm()
    assert np.abs(again.dual - W @ V).max() <= near * np.abs(W @ V).max()
    size = lambda packed: sum(tensor.nbytes for tensor in packed.values())  # noqa: E731
    assert size(tensors) < 0.75 * size(storage.packed(found)[1])


def test_a_basis_merged_with_itself_is_itself():
    x = np.random.default_rng(0).normal(size=(20, 6)) * [8.0, 4.0, 2.0, 1.0, 0.5, 0.25]
    basis = romkit.basis(x, rank=3)
    merged = romkit.bases.merge([basis, basis], [20, 20], rank=3)
    assert np.allclose(merged.modes, basis.modes, atol=1e-12)
    assert np.allclose(merged.singular_values, 2**0.5 * basis.singular_values)


@pytest.mark.parametrize("dtype", [np.longdouble, ">f4", ">f8", np.int32])
def test_states_of_any_real_kind_have_a_basis(dtype):
    states = np.random.default_rng(0).integers(-50, 50, size=(2, 30, 6)).astype(dtype)
    data = romkit.data.from_arrays(states, np.arange(30.0), context={"c": [0.0, 1.0]})
    expected = romkit.basis(states.reshape(-1, 6).astype(float), rank=3)
    assert np.allclose(romkit.basis(data, rank=3).modes, expected.modes, atol=1e-12)
