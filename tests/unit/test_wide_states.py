"""States of many components cost neither a square matrix nor layers that grow with them."""

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.integrators import Galerkin
from romkit.projections import Frame, Path, architecture
from romkit.systems.problem import FirstOrder


@pytest.fixture
def wide():
    """A wave over many points, with fewer snapshots than points."""
    x, t = np.linspace(0, 2 * np.pi, 3000, endpoint=False), np.linspace(0, 3, 20)
    phase = x - np.linspace(0.5, 1.5, 3)[:, None, None] * t[:, None]
    values = {"state": np.exp(np.cos(phase)), "velocity": np.sin(phase)}
    return xr.Dataset(
        {name: (("trajectory", "time", "component"), part) for name, part in values.items()},
        {"time": t},
    )


def test_modes_of_many_components_need_no_square_matrix(wide, monkeypatch):
    eigh = torch.linalg.eigh
    monkeypatch.setattr(
        torch.linalg, "eigh", lambda a: eigh(a) if len(a) < 500 else pytest.fail("an n x n matrix")
    )
    pod = romkit.fit("pod", wide, latent_dim=4)
    x = wide.state.values.reshape(-1, wide.sizes["component"])
    modes = np.linalg.svd(x - x.mean(0), full_matrices=False)[2][:4]
    overlap = np.linalg.svd(
        modes @ np.linalg.qr(pod.modes.detach().double().numpy())[0], compute_uv=False
    )
    assert overlap == pytest.approx(1, abs=1e-6)
    few = romkit.fit(
        "pod", wide.isel(time=slice(0, 2), trajectory=[0]), latent_dim=4
    )  # more modes than directions
    assert torch.linalg.matrix_rank(few.modes) == 4


def test_a_start_of_galerkin_makes_no_square_matrix(wide, monkeypatch):
    P = romkit.fit("pod", wide, latent_dim=2).double()()
    eye = torch.eye
    monkeypatch.setattr(
        torch,
        "eye",
        lambda n, *a, **k: eye(n, *a, **k) if n < 500 else pytest.fail("an n x n matrix"),
    )
    x = torch.from_numpy(wide.state.values[:, 0])
    with torch.no_grad():
        start = Galerkin().start(FirstOrder(Path.constant(P)), torch.zeros(()), (x,))
    assert torch.allclose(start, P.encode(x))


def test_default_layers_do_not_grow_with_the_state():
    for n, middle in ((20_000, 128), (100, 51)):
        frame = Frame("", ("x",) * n, ("1",) * n, ("c",), ("1",))
        assert architecture(romkit.projections.NcAE, frame, latent_dim=2)["layers"] == (
            2,
            middle,
            n,
        )
