"""The coupling flow: its rotation, what it is before training, its sizes, and what it refuses."""

import pytest
import torch

import romkit
from romkit.projections import Flow, unstack
from romkit.projections.flow import Rotation
from romkit.projections.linear import leading_modes
from romkit.testing import check_projection
from tests.refusals import refused


def test_a_rotation_is_orthogonal_and_the_product_of_its_reflections():
    u = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    eye = torch.eye(7, dtype=torch.float64)
    reflections = [eye - 2 * torch.outer(v, v) / v.dot(v) for v in u.T]
    Q = Rotation(u)(eye).T  # rows of the result are Q applied to unit vectors
    assert torch.allclose(Q, reflections[0] @ reflections[1] @ reflections[2], atol=1e-14)
    assert torch.allclose(Q.T @ Q, eye, atol=1e-14)
    assert torch.allclose(Rotation(u).inverse(eye), Q, atol=1e-14)


@pytest.mark.parametrize("units", [(5,), ((5, 4),), (5, 4, 5), ((5, 4), 3, (6, 5, 4))])
def test_before_training_it_is_the_projection_onto_the_leading_modes(lorenz_data, units):
    flow = romkit.fit("flow", lorenz_data, epochs=1, learning_rate=1e-12, units=units, latent_dim=2).double()
    pod = romkit.fit("pod", lorenz_data, latent_dim=2).double()
    x = torch.from_numpy(lorenz_data.state.values[0])
    assert torch.allclose(flow(F=3.15)(x), pod(F=3.15)(x), atol=1e-5)


def test_its_first_coordinates_are_the_modes_that_pod_keeps():
    y = torch.randn(50, 6, generator=torch.Generator().manual_seed(1)) * torch.linspace(3, 1, 6)
    modes = leading_modes(y, 6)
    covariance = y.double().T @ y.double()
    rayleigh = (modes.T @ covariance @ modes).diagonal()
    assert bool((rayleigh.diff() < 0).all())
    assert torch.allclose(rayleigh, torch.linalg.eigvalsh(covariance).flip(0))


def test_every_seed_of_a_stack_has_the_modes_of_the_data(lorenz_data):
    first, second = unstack(romkit.fit("flow", lorenz_data, epochs=1, seeds=[0, 1], engine="torch"))
    assert torch.equal(first.reflectors, second.reflectors)
    assert not torch.equal(first.couplings[0].inner.weight, second.couplings[0].inner.weight)


def test_one_coupling_is_a_graph_over_trained_coordinates_that_the_encoder_reads_off(lorenz_data):
    flow = romkit.fit("flow", lorenz_data, latent_dim=2, units=((6, 5),), epochs=2).double()
    check_projection(flow)
    x, v = torch.randn(2, 7, 36, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    P, elsewhere = flow(F=3.15), flow(F=3.18)
    assert torch.allclose(P.encode(x + v) - P.encode(x), P.encode_jvp(x, v).tangent, atol=1e-12)
    assert torch.equal(P.encode(x), elsewhere.encode(x))
    assert not torch.allclose(P(x), elsewhere(x))
    eye = torch.eye(36, dtype=torch.float64)
    Q, start = flow.rotation(eye), Rotation(flow.reflectors)(eye)
    assert torch.allclose(Q.T @ Q, eye, atol=1e-12)
    assert not torch.allclose(Q, start, atol=1e-4)


def test_the_number_of_couplings_is_odd(lorenz_data):
    message = "units.*: expected (an odd number of couplings|a list|an integer|1 or more)"
    for units in ((8, 8), (), (8, 0, 8), (8, 2.5, 8), ((8, 0), 8, 8), ((), 8, 8), "888"):
        refused(message, romkit.fit, Flow, lorenz_data, latent_dim=2, units=units, epochs=1)


def test_it_learns_more_of_the_waves_than_any_subspace(lorenz_data):
    flow, pod = romkit.fit("flow", lorenz_data, epochs=60), romkit.fit("pod", lorenz_data, latent_dim=2)
    x = torch.from_numpy(lorenz_data.state.values).float()
    errors = [(model(lorenz_data)(x) - x).square().mean().sqrt().item() for model in (flow, pod)]
    assert errors[0] < 0.2 * errors[1]
