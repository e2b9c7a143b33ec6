"""Units at every door that takes a model and data, or a model and a system."""

import sys

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.data import ContextParameter
from romkit.errors import DataWarning, InputError
from romkit.laws import SINDy
from romkit.models import check_match
from romkit.systems import Lorenz96, System
from tests.refusals import refused

NAMES = ("q", "p")
DRAW = np.random.default_rng(0)


class Spring(System):
    """q̇ = p, ṗ = -k q, in units that a test chooses."""

    name, state_names, dt, duration, horizon = "spring", NAMES, 0.1, 2.0, 2.0
    context = (ContextParameter("k", "N/m", 1.0, 3.0, "stiffness"),)

    def rhs(self, t, x, c):
        q, p = x.unbind(-1)
        return torch.stack([p, -c[..., 0] * q], dim=-1)

    def initial_state(self, contexts, rng):
        return contexts.new_ones(len(contexts), 2)


class InMetres(Spring):
    state_units, time_units = ("m", "m/s"), "s"


class InMillimetres(Spring):
    state_units, time_units = ("mm", "mm/s"), "s"


class InMilliseconds(Spring):
    state_units, time_units = ("m", "m/s"), "ms"


class OfAnotherStiffness(InMetres):
    context = (ContextParameter("k", "kN/m", 1.0, 3.0, "stiffness"),)


def data_of(units=("m", "m/s"), time="s", stiffness="N/m", factor=1.0):
    """Plain data, with times in another unit by a factor."""
    k = np.array([1.0, 2.0, 3.0])
    t = 0.1 * np.arange(40)
    root = np.sqrt(k)[:, None]
    x = np.stack([np.cos(root * t), -root * np.sin(root * t)], axis=-1)
    v = np.stack([x[..., 1], -k[:, None] * x[..., 0]], axis=-1) / factor
    data = romkit.data.make_dataset(
        {"state": x, "velocity": v},
        times=t * factor,
        time_units=time,
        state_names=NAMES,
        state_units=units,
        contexts=k[:, None],
        context=[ContextParameter("k", stiffness, 1.0, 3.0, "stiffness")],
        attrs={},
    )
    return data


@pytest.fixture(scope="module")
def model():
    modes = romkit.fit("pod", data_of(), latent_dim=2, verbose=False)
    return modes, SINDy(degree=1, threshold=0.0, refine=False).fit(modes, data_of())


def test_frames_of_plain_data_keep_the_unit_of_time(model, tmp_path):
    modes, law = model
    assert modes.frame.time_units == modes.frame.units.time == "s"
    again = romkit.load(romkit.save(modes, tmp_path / "modes.safetensors"))
    assert again.frame.units == modes.frame.units
    start = {"initial_state": [1.0, 0.0], "duration": 0.5, "dt": 0.1, "k": 1.5}
    run = romkit.forecast(modes, dynamics=law, **start)
    assert run.time.attrs["units"] == "s"


def test_frames_of_data_without_units_take_any():
    silent = data_of()
    del silent.time.attrs["units"]
    modes = romkit.fit("pod", silent, latent_dim=2, verbose=False)
    assert modes.frame.units.time == ""
    check_match(InMilliseconds(), modes)


@pytest.mark.parametrize(("time", "factor"), [("ms", 1e3), ("min", 1 / 60), ("h", 1 / 3600)])
def test_data_in_another_unit_of_time_are_refused_without_pint(model, monkeypatch, time, factor):
    monkeypatch.setitem(sys.modules, "pint", None)
    modes, law = model
    other = data_of(time=time, factor=factor)
    with pytest.raises(InputError) as caught:
        romkit.follow(modes, other, dynamics=law)
    assert caught.value.argument == "data"
    assert time in str(caught.value.got)


@pytest.mark.parametrize(("time", "factor"), [("ms", 1e3), ("min", 1 / 60), ("h", 1 / 3600)])
@pytest.mark.filterwarnings("ignore::romkit.errors.ExtrapolationWarning")
def test_data_in_another_unit_of_time_are_converted_by_pint(model, time, factor):
    pytest.importorskip("pint")
    modes, law = model
    right = romkit.follow(modes, data_of(), dynamics=law)
    with pytest.warns(DataWarning):
        run = romkit.follow(modes, data_of(time=time, factor=factor), dynamics=law)
    assert np.allclose(run.state, right.state, atol=1e-9)


@pytest.mark.parametrize("system", [InMillimetres, InMilliseconds, OfAnotherStiffness])
def test_systems_in_other_units_are_refused(model, system):
    modes, _ = model
    with pytest.raises(InputError) as caught:
        check_match(system(), modes)
    assert caught.value.argument == "projection"
    start = {"initial_state": [1.0, 0.0], "duration": 0.2, "dt": 0.1, "k": 1.5}
    refused("projection", romkit.forecast, modes, system=system(), **start)
    refused("projection", romkit.rollout, system(), modes, duration=0.2, k=1.5)


@pytest.mark.parametrize("system", [InMetres, Spring])
def test_systems_in_the_same_units_or_without_are_taken(model, system):
    check_match(system(), model[0])


def test_a_basis_knows_the_units_of_its_data(tmp_path):
    basis = romkit.basis(data_of(units=("mm", "mm")), rank=2)
    assert basis.units == ("mm", "mm")
    for same in (basis.truncated(1), romkit.load(romkit.save(basis, tmp_path / "basis.st"))):
        assert same.units == basis.units
    mixed = romkit.basis(data_of(), rank=2)
    assert romkit.load(romkit.save(mixed, tmp_path / "mixed.st")).units == ("m", "m/s")
    for other in (data_of(), data_of(units=("cm", "mm")), data_of(units=("mm", "km"))):
        refused("data", basis.project, other)
        refused("data", romkit.fit, "pod", other, latent_dim=1, basis=basis)
    assert basis.project(data_of(units=("", ""))).sizes["component"] == 2


@pytest.mark.parametrize("unit", ["m", "K", "mm"])
def test_systems_are_not_seen_through_a_basis_of_other_units(unit):
    waves = Lorenz96(n=8, transient=0.0)
    data = waves.dataset(F=[3.14, 3.18], duration=0.5)
    other = data.assign_coords(component_units=("component", [unit] * 8))
    other = other.assign(state=other.state.assign_attrs(units=unit))
    with pytest.raises(InputError) as caught:
        waves.through(romkit.basis(other, rank=4))
    assert caught.value.argument == "basis"
    through = waves.through(romkit.basis(data, rank=4))
    assert through.known_units.state == ["1"] * 4


@pytest.mark.parametrize("time", ["ms", "min", "h"])
def test_observations_and_training_of_a_filter_in_other_units_are_refused(model, monkeypatch, time):
    monkeypatch.setitem(sys.modules, "pint", None)
    modes, law = model
    seen = data_of(time=time)[["state"]].isel(trajectory=[0])
    refused(
        "observations",
        romkit.infer,
        modes,
        seen,
        training=data_of(),
        dynamics=law,
    )
    right = data_of()[["state"]].isel(trajectory=[0])
    wrong = data_of(time=time)
    refused("data", romkit.infer, modes, right, training=wrong, dynamics=law)
    settings = {"noise": 0.1, "training": wrong, "dynamics": law}
    refused("data", romkit.Tracker, modes, **settings)


def test_states_with_labels_keep_their_units(model):
    modes, law = model
    start = {"duration": 0.2, "dt": 0.1, "k": 1.5, "dynamics": law}
    state = xr.DataArray([1.0, 0.0], dims="component", coords={"component": list(NAMES)})
    run = romkit.forecast(modes, initial_state=state, **start)
    assert run.sizes["time"] == 3


def in_unit(value, unit, dims=(), coords=None):
    return xr.DataArray(value, coords, dims, attrs={"units": unit})


@pytest.mark.parametrize(
    "stiffness",
    [
        in_unit(1.5e-3, "kN/m"),
        in_unit([1.5], "N m-1", "case"),
        in_unit([1500.0], "mN/m", "trajectory"),
    ],
)
@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")
def test_contexts_with_labels_are_converted_at_every_door(model, stiffness, monkeypatch):
    pytest.importorskip("pint")
    modes, law = model
    start = {"initial_state": [1.0, 0.0], "duration": 1.0, "dt": 0.1}
    root = np.sqrt(1.5)
    exact = np.cos(root * 0.1 * np.arange(11))
    ahead = romkit.forecast(modes, dynamics=law, k=stiffness, **start)
    assert np.abs(ahead.state.values[:, 0] - exact).max() < 1e-2
    moved = romkit.simulate(InMetres(), k=stiffness, **start)
    assert np.abs(moved.state.values[0, :, 0] - exact).max() < 1e-5
    assert np.allclose(romkit.rollout(InMetres(), modes, k=stiffness, **start).k, 1.5)
    assert np.allclose(InMetres().dataset(k=stiffness, duration=0.2).k, 1.5)
    assert np.allclose(modes(k=stiffness).context, 1.5)
    if stiffness.ndim == 0:
        assert romkit.certify(modes, k=stiffness, radius=0.1).attrs["k"] == pytest.approx(1.5)
    monkeypatch.setitem(sys.modules, "pint", None)
    if stiffness.units != "N m-1":
        refused("context", romkit.forecast, modes, dynamics=law, k=stiffness, **start)
        refused("context", romkit.simulate, InMetres(), k=stiffness, **start)


@pytest.mark.parametrize(("unit", "factor"), [("mm", 1e3)])
@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")
def test_states_in_their_own_dimensions_keep_their_units(unit, factor, monkeypatch):
    pytest.importorskip("pint")
    k, x = np.array([1.0, 2.0, 3.0]), np.arange(3)
    wave = np.cos(np.sqrt(k)[:, None, None] * 0.1 * np.arange(30)[:, None] + x)
    own = xr.Dataset(
        {"u": (("run", "t", "x"), wave, {"units": "m"})},
        coords={"t": 0.1 * np.arange(30), "x": x, "k": ("run", k, {"units": "N/m"})},
    )
    data = romkit.data.describe(own, context=["k"])
    modes = romkit.fit("pod", data, latent_dim=2, verbose=False)
    law = SINDy(degree=1, threshold=0.0, refine=False).fit(modes, data)
    start = {"duration": 0.5, "dt": 0.1, "k": 2.0, "dynamics": law}
    wanted = romkit.forecast(modes, initial_state=wave[1, 0], **start).u

    scaled = own.assign(u=(own.u * factor).assign_attrs(units=unit))
    first = scaled[["u"]].isel(run=1, t=0)
    for state in (first, first.u, data.state[1, 0]):
        ahead = romkit.forecast(modes, initial_state=state, **start)
        assert np.allclose(ahead.u, wanted)
    described = romkit.data.describe(scaled, context=["k"])
    for same in (scaled, scaled.u, described, described.state):
        assert np.allclose(modes(k=2.0).encode(same), modes(k=2.0).encode(own))
    turned = first.u.isel(x=slice(None, None, -1))
    refused("data", romkit.forecast, modes, initial_state=turned, **start)
    milli = own.assign_coords(k=("run", 1e3 * k, {"units": "mN/m"}))
    assert np.allclose(modes(milli).context, modes(own).context)
    monkeypatch.setitem(sys.modules, "pint", None)
    refused("data", romkit.forecast, modes, initial_state=first, **start)
    refused("x", modes(k=2.0).encode, described)


@pytest.mark.parametrize(("unit", "factor"), [("mm", 1e3), ("km", 1e-3), ("m", 1.0)])
@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")
def test_a_truth_is_drawn_in_the_unit_of_the_forecast(model, unit, factor, monkeypatch):
    pytest.importorskip("pint")
    modes, law = model
    start = {"initial_state": [1.0, 0.0], "duration": 2.0, "dt": 0.1, "k": 2.0}
    band = romkit.forecast(modes, dynamics=law, **start)
    state = data_of().state.isel(trajectory=[1]) * xr.DataArray([factor, 1.0], dims="component")
    truth = data_of(units=(unit, "m/s")).isel(trajectory=[1])
    truth = truth.assign(state=state.assign_attrs(truth.state.attrs))
    panel = romkit.plotting.plot_forecast(band, truth).axes[0]
    forecast, true = (line.get_ydata() for line in panel.lines)
    assert np.abs(forecast - true[: len(forecast)]).max() < 1e-2
    if unit != "m":
        monkeypatch.setitem(sys.modules, "pint", None)
        refused("truth", romkit.plotting.plot_forecast, band, truth)


@pytest.mark.parametrize("units", [("mm", "m/s"), ("m", "km/s"), ("s", "m/s")])
def test_runs_of_several_units_keep_them_for_their_scores(model, units, monkeypatch):
    modes, law = model
    run = romkit.follow(modes, data_of(), dynamics=law)
    assert romkit.score(data_of(), run).nrmse.notnull().all()
    refused("reduced", romkit.score, data_of(units=units), run)
    monkeypatch.setitem(sys.modules, "pint", None)
    last = run.state.isel(trajectory=0, time=-1)
    start = {"duration": 0.2, "dt": 0.1, "k": 1.0, "dynamics": law}
    assert romkit.forecast(modes, initial_state=last, **start).sizes["time"] == 3
    other = last.assign_coords(component_units=("component", list(units)))
    refused("initial_state", romkit.forecast, modes, initial_state=other, **start)
