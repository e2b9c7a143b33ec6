"""Operators on NumPy arrays, DataArrays and datasets; precisions and stacks that do not match, in
one line.
"""

import copy
import warnings

import numpy as np
import pytest
import torch

import romkit
from romkit.data import describe, fields, with_velocity
from tests.refusals import refused
from tests.unit.data.own import plane, waves


@pytest.fixture(scope="module")
def wave_model():
    return romkit.fit("ncae", waves(), latent_dim=2, epochs=2)


@pytest.fixture(scope="module")
def plane_model():
    return romkit.fit(
        "ncae",
        with_velocity(describe(plane(), context=["k"], state=["u", "v"])),
        latent_dim=2,
        epochs=1,
    )


def test_a_dataset_goes_through_as_its_tensors_do(wave_model):
    data = waves()
    P = wave_model(data)
    z = P.encode(data)
    assert z.dims == ("trajectory", "time", "latent_component")
    assert np.array_equal(z.speed, data.speed)
    tensor = P.encode(torch.from_numpy(data.state.values).float())
    assert np.allclose(z, tensor.detach(), atol=1e-6)
    assert z.dtype == np.float64
    image = P(data)
    assert image.state.dims == data.state.dims
    assert np.allclose(image.state, P(P.encode(data).pipe(P.decode)).state, atol=1e-4)
    assert P(data.state).identical(image.state)
    assert np.allclose(P.decode(z).state, image.state, atol=1e-6)
    assert P.encode(data.state.transpose("component", "time", "trajectory")).identical(z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_come_back_in_their_precision(wave_model, dtype):
    x = waves().state.values[1].astype(dtype)
    for model in (wave_model, copy.deepcopy(wave_model).double()):
        P = model(speed=1.5)
        z = P.encode(x)
        assert (type(z), z.dtype, P.decode(z).dtype, P(x).dtype) == (
            np.ndarray,
            dtype,
            dtype,
            dtype,
        )
        assert np.allclose(P(x), P.decode(z), atol=1e-5)


def test_variables_of_a_user_come_back_in_their_dimensions(plane_model, tmp_path):
    own = plane()
    for model in (
        plane_model,
        romkit.load(romkit.save(plane_model, tmp_path / "plane.safetensors")),
    ):
        P = model(own)
        z = P.encode(own)
        assert z.dims == ("run", "t", "latent_component")
        assert np.array_equal(z.k, own.k)
        back = P.decode(z)
        assert (back.u.dims, back.v.shape) == (("run", "t", "y", "x"), own.v.shape)
        assert np.array_equal(back.x, own.x)
        canonical = describe(own, context=["k"], state=["u", "v"])
        assert np.allclose(fields(P(canonical)).v, back.v, atol=1e-5)
        assert np.allclose(P(own).u, back.u, atol=1e-5)
        one = P.decode(z.isel(t=0))
        assert one.u.dims == ("run", "y", "x")
    x0 = own.isel(run=0, t=0)
    law = romkit.laws.SINDy(degree=1, threshold=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        law = law.fit(plane_model, describe(own, context=["k"], state=["u", "v"]))
    forecast = romkit.forecast(
        plane_model, initial_state=x0[["u", "v"]], duration=0.1, dt=0.05, k=1, dynamics=law
    )
    assert forecast.u.dims == ("t", "y", "x")
    refused("x", plane_model(own).encode, own.drop_vars("u"))


def test_a_stack_gives_a_seed_axis_and_names_what_does_not_fit():
    data = waves()
    stack = romkit.fit("ncae", data, seeds=range(2), latent_dim=2, epochs=1)
    P = stack(data)
    z = P.encode(data)
    assert z.dims == ("seed", "trajectory", "time", "latent_component")
    assert P.decode(z).state.dims == ("seed", "trajectory", "time", "component")
    x = torch.from_numpy(data.state.values).float()
    refused("x", P.encode, x)
    assert P.encode(x.unsqueeze(0)).shape == (2, 4, 81, 2)


def test_precision_is_never_lost_without_a_word(wave_model):
    x = torch.from_numpy(waves().state.values[1])
    single = wave_model(speed=1.5)
    refused("x", single.encode, x)
    double = copy.deepcopy(wave_model).double()(speed=1.5)
    assert double.encode(x.float()).dtype == torch.float64
    for wrong in ("states", 3, [1.0]):
        refused("expected states, got", single.encode, wrong)
    refused("v", double.jvp, x, x.numpy())
    assert np.isnan(single.encode(np.full(16, np.nan))).all()


def test_components_in_another_order_are_refused(wave_model):
    named = waves().assign_coords(component=[f"x{k}" for k in range(16)])
    P = wave_model(named)
    assert P.encode(named).equals(P.encode(waves()))
    for x in (
        named.isel(component=slice(None, None, -1)),
        named.state.isel(component=slice(None, None, -1)),
    ):
        refused("x", P.encode, x)
