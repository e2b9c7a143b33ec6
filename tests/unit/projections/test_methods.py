"""The flow and the quadratic manifold, and sizes, scales and bases that have to fit the data."""

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.broadcast import matmul
from romkit.core.errors import DataWarning
from romkit.projections import Flow, Frame, unstack
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


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (1, 3)], ids=str)
def test_a_matrix_per_seed_and_context_multiplies_states_from_the_left(lead):
    draw = torch.Generator().manual_seed(0)
    weight = torch.randn(*lead, 5, 4, generator=draw, dtype=torch.float64)
    for more in ((), (6,), (6, 7)):
        x = torch.randn(*(2, 3)[: len(lead)], *more, 5, generator=draw, dtype=torch.float64)
        whole = weight.reshape(*lead, *(1,) * len(more), 5, 4)
        assert torch.allclose(
            matmul(x, weight), (x.unsqueeze(-2) @ whole).squeeze(-2), rtol=0, atol=1e-13
        )


@pytest.mark.parametrize("units", [(5,), ((5, 4),), (5, 4, 5), ((5, 4), 3, (6, 5, 4))])
def test_before_training_it_is_the_projection_onto_the_leading_modes(lorenz_data, units):
    flow = romkit.fit(
        "flow", lorenz_data, epochs=1, learning_rate=1e-12, units=units, latent_dim=2
    ).double()
    pod = romkit.fit("pod", lorenz_data, latent_dim=2).double()
    x = torch.from_numpy(lorenz_data.state.values[0])
    assert torch.allclose(flow(F=3.15)(x), pod(F=3.15)(x), atol=1e-5)


def test_pod_encodes_a_state_with_gaps_by_least_squares_if_enough_of_it_is_there(lorenz_data):
    pod = romkit.fit("pod", lorenz_data, latent_dim=4).double()
    P = pod(F=3.15)
    weight = 1 / pod.frame.state_std.numpy()  # of components, whatever their units
    x = lorenz_data.state.values[0, 0].astype(float)
    mean = P.decode(np.zeros(4))
    modes = np.stack([P.decode(unit) - mean for unit in np.eye(4)], axis=1)  # (n, 4)
    present = [0, 5, 9, 14, 20, 33]
    lacking = np.full_like(x, np.nan)
    lacking[present] = x[present]
    weighted = weight[present, None] * modes[present]
    expected = np.linalg.lstsq(weighted, weight[present] * (x - mean)[present], rcond=None)[0]
    assert np.allclose(P.encode(lacking), expected, rtol=1e-5, atol=1e-6)
    lacking[present[3:]] = np.nan  # three equations for four latents
    assert np.isnan(P.encode(lacking)).all()


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
    fact = "units.*: expected (an odd number of couplings|a list|an integer|1 or more)"
    for units in ((8, 8), (), (8, 0, 8), (8, 2.5, 8), ((8, 0), 8, 8), ((), 8, 8), "888"):
        refused(fact, romkit.fit, Flow, lorenz_data, latent_dim=2, units=units, epochs=1)


def test_it_learns_more_of_the_waves_than_any_subspace(lorenz_data):
    flow, pod = (
        romkit.fit("flow", lorenz_data, epochs=60),
        romkit.fit("pod", lorenz_data, latent_dim=2),
    )
    x = torch.from_numpy(lorenz_data.state.values).float()
    errors = [(model(lorenz_data)(x) - x).square().mean().sqrt().item() for model in (flow, pod)]
    assert errors[0] < 0.2 * errors[1]


def dataset(states):
    return romkit.data.from_arrays(
        states,
        np.arange(states.shape[1]),
        context={"c": np.arange(len(states))},
        velocity=0 * states,
    )


def left(model, states):
    """What a model leaves of states, relative to their deviation from the mean of the training
    data.
    """
    x = torch.from_numpy(states)
    P = model.double()(c=0.0)
    return ((P(x) - x).norm() / (x - model.frame.state_shift).norm()).item()


def test_states_on_a_paraboloid_are_recovered():
    rng = np.random.default_rng(0)
    modes = np.linalg.qr(rng.standard_normal((40, 5)))[0]
    z = rng.uniform(-1, 1, (4, 60, 2))
    z[2] = -z[
        1
    ]  # and z[0] below: no mean, and no correlation with products, so that modes are those of z
    z[0] = np.concatenate([z[0, :30], -z[0, :30]])
    squares = np.stack([z[..., 0] ** 2, z[..., 0] * z[..., 1], z[..., 1] ** 2], axis=-1)
    states = z @ (3 * modes[:, :2]).T + 0.3 * squares @ modes[:, 2:].T
    train, unseen = dataset(states[:3]), states[3]
    curved, flat = (
        romkit.fit(name, train, latent_dim=2) for name in ("polynomial-manifold", "pod")
    )
    assert left(flat, unseen) > 0.05
    assert left(curved, unseen) < 1e-4


def test_the_regularisation_is_that_which_holds_for_snapshots_that_are_not_seen():
    states = np.random.default_rng(1).standard_normal(
        (6, 10, 30)
    )  # nothing that products could tell
    train, unseen = dataset(states[:5]), states[5]
    sizes = {"degree": 2, "context_degree": 0}
    chosen, free = (
        romkit.fit("polynomial-manifold", train, latent_dim=7, ridge=ridge, **sizes)
        for ridge in (None, 1e-10)
    )
    flat = left(romkit.fit("pod", train, latent_dim=7), unseen)
    assert left(free, unseen) > 1.05 * flat
    assert left(chosen, unseen) < 1.02 * flat


def test_data_with_fewer_directions_than_modes():
    states = np.zeros((2, 20, 10))
    states[..., 0] = np.linspace(0, 1, 40).reshape(2, 20)
    with pytest.warns(DataWarning, match="latent_dim"):
        model = romkit.fit("polynomial-manifold", dataset(states), latent_dim=3)
    assert model.latent_dim == 1
    assert left(model, states) < 1e-6
    constant = dataset(np.ones((2, 20, 10)))
    refused("data", romkit.fit, "polynomial-manifold", constant)


@pytest.mark.parametrize("method", ["pod", "polynomial-manifold"])
def test_what_is_not_trained_needs_no_velocities(method):
    data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.15, 3.18], duration=0.02)
    one_time = data.drop_vars("velocity").isel(time=[1])
    assert romkit.fit(method, one_time, latent_dim=1).latent_dim == 1
    refused("states to differentiate", romkit.fit, "ncae", one_time, latent_dim=1)


def test_sizes_that_do_not_fit_the_data_are_named_by_the_class_itself(lorenz_data):
    frame, falling = Frame.from_dataset(lorenz_data), "expected sizes that do not decrease"
    for method, sizes, fact in (
        ("ncae", {"layers": (2, 24, 12), "embedding": (1, 4)}, f"layers: {falling} .* n = 36"),
        (
            "ncae",
            {"layers": (2, 36), "embedding": (2, 4)},
            "embedding",
        ),
        ("cae", {"layers": (40, 36)}, f"layers: {falling}"),
        ("context-cae", {"layers": (2, 37)}, f"layers: {falling}"),
        (
            "flow",
            {"latent_dim": 2, "units": (8,), "embedding": (2, 4)},
            "embedding",
        ),
        ("pod", {"latent_dim": 37}, f"latent_dim: {falling}"),
        ("polynomial-manifold", {"latent_dim": 37}, f"latent_dim: {falling}"),
    ):
        refused(fact, romkit.projections.METHODS[method], frame, torch.Generator(), **sizes)


def test_a_basis_of_other_states_or_coordinates_is_refused(lorenz_data):
    basis = romkit.basis(lorenz_data, rank=4)
    inner = Frame.from_dataset(basis.project(lorenz_data))
    names = ("", inner.state_names, inner.state_units)
    refused("basis", Frame, *names, basis=basis)
    whole = Frame.from_dataset(lorenz_data)
    refused(
        "inner",
        Frame.from_dataset,
        lorenz_data,
        basis,
        whole,
    )


def test_scales_of_many_samples_in_single_precision_are_those_of_the_samples(lorenz_data):
    pressure = 1e5 + np.random.default_rng(0).normal(size=(1, 300_000, 2))
    data = xr.Dataset(
        {"state": (("trajectory", "time", "component"), pressure.astype(np.float32))},
        {"time": range(300_000)},
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


def test_weights_that_follow_the_context_are_exact_at_contexts_ten_times_outside(lorenz_data):
    model = romkit.fit("ncae-weights", lorenz_data, epochs=2).double()
    draw = torch.Generator().manual_seed(0)
    for follower in model.followers:
        follower.directions.data = 0.1 * torch.randn(
            follower.directions.shape, generator=draw, dtype=torch.float64
        )
    F = [3.16 + scale * 0.03 for scale in (-10.0, -1.0, 0.0, 1.0, 10.0)]
    layers = model.at(model.frame.normalise_context(torch.tensor(F).double().unsqueeze(-1))).layers
    for layer in layers:
        unit = torch.eye(layer.psi.shape[-1], dtype=torch.float64)
        error = (layer.psi.mT @ layer.phi - unit).abs().amax()
        assert error < 1e-12 * float(layer.phi.norm() * layer.psi.norm())
    assert not torch.allclose(layers[-1].phi[0], layers[-1].phi[1], atol=0.1)
    P, x = model(F=F), torch.from_numpy(lorenz_data.state.values[0])
    once = P(x.expand(5, -1, -1))
    assert float((P(once) - once).norm() / once.norm()) < 1e-12


def test_before_training_weights_are_those_of_an_ncae_that_reads_off_the_leading_modes(lorenz_data):
    settings = {"latent_dim": 2, "epochs": 1, "learning_rate": 1e-12}
    model = romkit.fit("ncae-weights", lorenz_data, **settings).double()
    pod = romkit.fit("pod", lorenz_data, latent_dim=2).double()
    assert all(float(f.directions.detach().abs().max()) < 1e-10 for f in model.followers)
    outer, *_ = reversed(model.weights)
    assert torch.allclose(outer.phi, outer.psi)
    inner = outer.phi[:, :2] @ outer.phi[:, :2].mT
    assert torch.allclose(inner, pod.modes @ pod.modes.mT, atol=1e-5)


def test_the_rotation_of_a_subspace_with_the_context_is_learned_by_weights_that_follow_it():
    """No NcAE can have it with the same layers: its one subspace stays."""
    angle = np.linspace(0, 1.2, 7)
    z = np.random.default_rng(0).uniform(-1, 1, (1, 60, 1))
    direction = np.stack([np.cos(angle), np.sin(angle)], -1)[:, None]
    data = romkit.data.from_arrays(
        z * direction, np.arange(60.0), context={"angle": angle}, velocity=0 * z * direction
    )
    settings = {"layers": (1, 2), "embedding": (1, 4), "epochs": 40, "velocity_weight": 0}
    errors = []
    for method in ("ncae", "ncae-weights"):
        model = romkit.fit(method, data, anchor_weight=0, **settings)
        image = model(data)(torch.from_numpy(data.state.values).float()).detach().numpy()
        errors.append(float(np.abs(image - data.state.values).mean()))
    assert errors[1] < 0.2 * errors[0]


@pytest.mark.parametrize("method", ["ncae", "ncae-bias", "ncae-slope"])
def test_behind_a_basis_networks_start_from_the_leading_modes(lorenz_data, method):
    start = {"latent_dim": 2, "epochs": 1, "learning_rate": 1e-12, "basis": 30}
    model = romkit.fit(method, lorenz_data, **start).double()
    assert model.config["layers"] == [2, 24, 30, 30]
    pod = romkit.fit("pod", lorenz_data, latent_dim=2, basis=model.basis).double()
    outer, *_ = reversed(model.weights)
    inner = outer.phi[:, :2] @ outer.phi[:, :2].mT
    assert torch.allclose(inner, pod.modes @ pod.modes.mT, atol=1e-5)
    sized = romkit.fit(method, lorenz_data, **start | {"latent_dim": 26})
    assert sized.config["layers"] == [26, 26, 30, 30]
    given = romkit.fit(method, lorenz_data, layers=(2, 9, 30), epochs=1, basis=30)
    assert given.config["layers"] == [2, 9, 30]
    refused("latent_dim", romkit.fit, method, lorenz_data, latent_dim=31, basis=30)
    without = romkit.fit(method, lorenz_data, latent_dim=2, epochs=1)
    assert without.config["layers"] == [2, 19, 36]
