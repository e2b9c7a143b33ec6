"""Where there is a GPU: what runs on it equals what runs on the CPU, captured or not."""

import numpy as np
import pytest
import torch

import romkit
from romkit.integrators import LSPG, Galerkin, PetrovGalerkin
from romkit.laws import NeuralODE, SINDy
from romkit.solvers import RK4, Adaptive
from romkit.systems import Burgers2D, Lorenz96
from tests.refusals import refused

pytestmark = pytest.mark.gpu

TIMES = torch.linspace(0, 3, 31, dtype=torch.float64)


def logistic(t, y):
    return y * (1 - y) + torch.sin(t)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("engine", ["auto", "compiled"])
def test_captured_steps_are_those_of_torch(engine, dtype):
    y0 = torch.rand(
        50, 3, dtype=dtype, device="cuda", generator=torch.Generator("cuda").manual_seed(0)
    )
    found = RK4(0.01)(logistic, y0, TIMES, engine=engine)
    expected = RK4(0.01)(logistic, y0, TIMES, engine="torch")
    assert found.cost["engine"] == {"auto": "captured", "compiled": "compiled"}[engine]
    assert torch.allclose(found.states, expected.states, rtol=0, atol=1e4 * torch.finfo(dtype).eps)


def test_a_diverging_member_leaves_its_neighbours_alone():
    y0 = torch.tensor([[0.5], [-5.0], [0.7]], dtype=torch.float64, device="cuda")
    found = RK4(0.01)(lambda t, y: y * (1 - y), y0, TIMES)
    alone = RK4(0.01)(lambda t, y: y * (1 - y), y0[[0, 2]], TIMES)
    assert found.status.tolist() == [0, 1, 0]
    assert torch.equal(found.states[[0, 2]], alone.states)


def test_a_field_that_looks_at_values_runs_call_by_call():
    def field(t, y):
        return -y if float(y.sum()) > 0 else y

    y0 = torch.ones(2, 1, dtype=torch.float64, device="cuda")
    found = RK4(0.01)(field, y0, TIMES)
    assert found.cost["engine"].startswith("torch (")
    assert found.states[:, -1].cpu().numpy() == pytest.approx(np.exp(-3.0), rel=1e-6)
    refused("engine", RK4(0.01), field, y0, TIMES, engine="compiled")


def relaxing(t, y):
    """A slow component, which a fast one follows within 1e-4."""
    slow, fast = y.unbind(-1)
    return torch.stack([-slow, 1e4 * (slow**2 - fast)], dim=-1)


@pytest.mark.parametrize("field", [logistic, relaxing])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_steps_to_a_tolerance_are_those_of_a_cpu(field, dtype):
    y0 = torch.rand(20, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    solver = Adaptive(rtol=1e-4)
    there = solver(field, y0.cuda(), TIMES, engine="torch")
    here = solver(field, y0, TIMES, engine="torch")
    assert there.states.is_cuda
    assert there.cost["engine"].startswith("torch")
    assert there.status.tolist() == here.status.tolist()
    assert torch.allclose(there.states.cpu(), here.states, rtol=0, atol=1e-3)


@pytest.mark.parametrize("make", [Galerkin, PetrovGalerkin, LSPG, SINDy, NeuralODE])
def test_every_law_follows_on_a_gpu_what_it_follows_on_a_cpu(make):
    ncae, system = romkit.load("ncae-lorenz96"), Lorenz96(transient=300.0)
    data = romkit.simulate(system, F=[3.14, 3.15], duration=2.0)
    dynamics = make(regression_steps=20, shooting_steps=5) if make is NeuralODE else make()
    dynamics = dynamics.fit(ncae, data) if hasattr(dynamics, "fit") else dynamics
    there, here = (
        romkit.follow(ncae, data, dynamics=dynamics, device=device) for device in ("cuda", "cpu")
    )
    assert abs(there.latent - here.latent).max() < 1e-6
    assert there.attrs["device"] != here.attrs["device"]


def test_bases_and_tensors_of_a_gpu_are_those_of_a_cpu():
    system = Burgers2D(cells=20)
    data = system.dataset("train", duration=2.0)
    here, there, streamed = (
        romkit.basis(data, rank=10, **given)
        for given in ({}, {"device": "cuda"}, {"device": "cuda", "chunk": 50})
    )
    for basis in (there, streamed):
        assert torch.allclose(basis.singular_values, here.singular_values, rtol=1e-9)
        assert torch.allclose(
            basis.modes[:, :5], here.modes[:, :5], atol=1e-6
        )  # the others are less well separated
    c = torch.tensor([[4.5, 0.02], [5.0, 0.025]], dtype=torch.float64)
    y0, times = here.encode(system.start(c)[0]), torch.linspace(0, 2, 21, dtype=torch.float64)
    for through in (system.through(here, device="cuda"), system.through(here, data)):
        expected = RK4(0.01)(through.field(c), y0, times).states
        found = RK4(0.01)(through.field(c.cuda()), y0.cuda(), times)
        assert found.cost["engine"] == "captured"
        assert torch.allclose(found.states.cpu(), expected, atol=1e-10)
