"""`simulate`, `follow`, `score` and `forecast`, and how they make up a rollout."""

import warnings

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import ExtrapolationWarning
from romkit.data import ContextParameter
from romkit.solvers import RK4
from tests.refusals import refused


def test_the_three_verbs_make_the_rollout(lorenz, projection):
    run = romkit.rollout(lorenz, projection, F=[3.14, 3.18], duration=0.2)
    truth = romkit.simulate(lorenz, F=[3.14, 3.18], duration=0.2)
    reduced = romkit.follow(projection, truth)
    scores = romkit.score(truth, reduced)
    assert np.array_equal(run.truth, truth.state)
    assert np.allclose(run.rom, reduced.state, atol=1e-12)
    assert np.allclose(run.nrmse, scores.nrmse, atol=1e-12)
    assert np.array_equal(run.valid_time, scores.valid_time)
    assert romkit.score(truth, reduced.transpose("component", "time", ...)).identical(scores)
    for other in (
        reduced.isel(component=slice(None, None, -1)),
        reduced.isel(trajectory=[1, 0]),
        reduced.assign_coords(time=2 * reduced.time),
        reduced.assign_coords(trajectory=["b", "a"]),
    ):
        refused("reduced", romkit.score, truth.assign_coords(trajectory=["a", "b"]), other)


def test_one_trajectory_is_scored_with_and_without_its_dimension(lorenz, projection, lorenz_data):
    truth = lorenz_data.isel(trajectory=[0], time=slice(0, 11))
    reduced, start = romkit.follow(projection, truth), truth.state.values[0, 0]
    ahead = romkit.forecast(
        projection, initial_state=start, system=lorenz, duration=0.1, dt=0.01, F=truth.F.values
    )
    scores = romkit.score(truth, reduced)
    assert "trajectory" not in ahead.dims
    for given in (truth, truth.squeeze("trajectory")):
        assert romkit.score(given, reduced).identical(scores)
        assert np.allclose(romkit.score(given, ahead).nrmse, scores.nrmse[0], atol=1e-9)
    refused("reduced", romkit.score, truth, ahead.assign_coords(F=3.0))


def test_a_dataset_is_the_truth(lorenz, projection, lorenz_data):
    data = lorenz_data.isel(trajectory=[0, 2], time=slice(0, 31))
    run = romkit.rollout(data, projection)
    assert np.array_equal(run.truth, data.state)
    assert run.attrs["dynamics"] == "Galerkin"  # the data name their system
    simulated = romkit.rollout(
        lorenz, projection, F=data.F.values, duration=0.3, initial_state=data.state.values[:, 0]
    )
    assert np.allclose(run.rom, simulated.rom, atol=1e-9)
    assert np.allclose(run.nrmse, simulated.nrmse, atol=1e-9)
    nameless = data.drop_attrs()
    refused("dynamics", romkit.rollout, nameless, projection)
    refused("system", romkit.follow, projection, data.assign_attrs(system="ring"))
    assert np.allclose(
        romkit.follow(projection, nameless, system=lorenz).state, run.rom, atol=1e-12
    )
    law = romkit.laws.SINDy(degree=1).fit_samples(romkit.laws.encoded_samples(projection, data))
    learned = romkit.rollout(nameless, projection, dynamics=law)
    renamed = nameless.assign_coords(component=[f"sensor {k}" for k in range(36)])
    assert np.array_equal(romkit.rollout(renamed, projection, dynamics=law).truth, data.state)
    assert learned.rom.shape == data.state.shape
    assert learned.nrmse.values[:, 0] == pytest.approx(run.nrmse_projected.values[:, 0])


@pytest.mark.parametrize(
    "given", [{"duration": 1.0}, {"F": 3.15}, {"dt": 0.1}, {"context": {"F": 3.15}}]
)
def test_a_dataset_leaves_nothing_to_choose(projection, lorenz_data, given):
    refused(
        r"expected nothing beside a dataset.*select what you want",
        romkit.rollout,
        lorenz_data,
        projection,
        **given,
    )


def test_a_context_recorded_over_time_is_followed_by_splines(lorenz, projection):
    ramp = lambda t: 3.14 + 0.3 * np.sin(3 * t)  # noqa: E731
    steps = {"solver": RK4(0.02)}
    run = romkit.rollout(lorenz, projection, F=ramp, duration=0.1, dt=0.02, **steps)
    truth = romkit.simulate(lorenz, F=lambda t: [ramp(t), 3.15], duration=0.1, dt=0.02)
    assert truth.F.dims == ("trajectory", "time")
    followed = romkit.rollout(truth, projection, **steps)
    assert followed.F.dims == ("trajectory", "time")
    assert np.allclose(followed.truth[0], run.truth, atol=1e-12)
    assert np.allclose(followed.rom[0], run.rom, atol=1e-6)
    constant = romkit.rollout(lorenz, projection, F=3.15, duration=0.1, dt=0.02, **steps)
    assert np.allclose(followed.rom[1], constant.rom, atol=1e-6)
    assert np.abs(followed.rom[0] - constant.rom).max() > 1e-3
    assert np.allclose(followed.projected[0], run.projected, atol=1e-9)
    there = truth.time != truth.time[3]
    refused(
        "data", romkit.follow, projection, truth.where(there).assign_coords(F=truth.F.where(there))
    )


def test_data_are_taken_by_names_whatever_their_order(lorenz, projection):
    truth = romkit.simulate(lorenz, F=lambda t: [3.14 + 0.1 * t, 3.15], duration=0.1, dt=0.02)
    steps = {"solver": RK4(0.02)}
    run = romkit.follow(projection, truth, **steps)
    turned = truth.transpose("component", "time", ...)
    assert romkit.data.context_names(turned) == ("F",)
    assert np.array_equal(romkit.data.context_matrix(turned), romkit.data.context_matrix(truth))
    assert np.array_equal(romkit.follow(projection, turned, **steps).latent, run.latent)
    for data, argument in (
        (truth.rename(F="G"), "data"),
        (truth.isel(component=slice(9)), "data"),
        (
            truth.isel(component=slice(None, None, -1)),
            "data",
        ),
    ):
        refused(argument, romkit.follow, projection, data)


def test_parameters_may_stand_in_another_order_than_in_training():
    rng, time = np.random.default_rng(0), np.linspace(0, 2, 41)
    a, b = rng.uniform(0.5, 1.5, (2, 6, 1))
    angle = a * time
    state = np.stack([b * np.cos(angle), b * np.sin(angle), angle], axis=-1)
    data = romkit.data.from_arrays(state, time, context={"a": a[:, 0], "b": b[:, 0]})
    other = romkit.data.describe(data, context=["b", "a"])
    own = {"layers": (2, 3), "epochs": 3}
    ncae, again = (
        romkit.fit("ncae", data, validation=held_out, **own) for held_out in (data, other)
    )
    assert ncae.report["validation_losses"] == again.report["validation_losses"]
    law = romkit.laws.SINDy(degree=1, threshold=0.0, refine=False).fit(ncae, data)
    expected = romkit.follow(ncae, data, dynamics=law)
    assert np.array_equal(romkit.follow(ncae, other, dynamics=law).latent, expected.latent)
    same = romkit.laws.SINDy(degree=1, threshold=0.0, refine=False).fit(ncae, other)
    assert same.context_names == ("a", "b")
    assert np.array_equal(romkit.follow(ncae, data, dynamics=same).latent, expected.latent)
    z, c = torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(2, 20, 1).expand(2, 20, 2)
    turned = romkit.laws.SINDy(degree=1).fit_samples(z, z, c, parameters=["b", "a"])
    refused("dynamics", romkit.follow, ncae, data, dynamics=turned)
    refused("data", romkit.laws.SINDy(degree=1).fit, ncae, data.isel(component=[1, 0, 2]))
    refused("validation", romkit.fit, "ncae", data, validation=data.isel(component=[0, 1]), **own)


def test_a_dataset_that_begins_later_starts_at_the_context_of_its_first_time(lorenz, projection):
    truth = romkit.simulate(lorenz, F=lambda t: 3.14 + 0.2 * t, duration=0.1, dt=0.02)
    later = truth.assign_coords(time=truth.time + 10.0)
    of_later, of_truth = (
        romkit.follow(projection, data, solver=RK4(0.02)).latent for data in (later, truth)
    )
    assert np.allclose(of_later, of_truth, atol=1e-6)


def test_a_forecast_is_the_reduced_model_of_a_rollout(lorenz, projection, lorenz_data):
    x0, span = lorenz_data.state.values[1, 0], {"duration": 0.3, "dt": 0.05}
    run = romkit.rollout(lorenz, projection, F=3.15, initial_state=x0, **span)
    z0, given = run.latent.values[0], {"system": lorenz, "F": 3.15} | span
    full = romkit.forecast(projection, initial_state=x0, **given)
    assert full.state.dims == ("time", "component")
    assert np.allclose(full.state, run.rom, atol=1e-12)
    for same in (z0, run.latent[0], torch.from_numpy(z0), z0.tolist()):
        assert np.allclose(
            romkit.forecast(projection, initial_state=same, **given).state, run.rom, atol=1e-12
        )
    both = romkit.forecast(projection, initial_state=x0, **given | {"F": [3.14, 3.15]})
    assert both.state.dims == ("trajectory", "time", "component")
    assert np.allclose(both.state[1], run.rom, atol=1e-10)
    for wrong, argument in (
        ({"system": None}, "dynamics"),
        ({"initial_state": x0[:7]}, "initial_state"),
        ({"initial_state": 3.0}, "initial_state"),
        ({"dt": 0.0}, "dt"),
    ):
        refused(argument, romkit.forecast, projection, **{"initial_state": x0} | given | wrong)


def test_a_mechanical_forecast_needs_a_velocity_full_or_latent():
    system = romkit.systems.Pendulum()
    lengths = {f"l{k}": 0.5 for k in range(1, 5)}
    model = romkit.fit("pod", system.dataset(**lengths, duration=0.2), latent_dim=4)
    run = romkit.rollout(system, model, **lengths, duration=0.02, dt=0.002)
    q0 = run.truth.values[0]
    more = {"system": system, "duration": 0.02, "dt": 0.002, **lengths}
    full = romkit.forecast(model, initial_state=q0, initial_velocity=np.zeros(16), **more)
    assert np.allclose(full.state, run.rom, atol=1e-9)
    latent = romkit.forecast(
        model, initial_state=run.latent.values[0], initial_velocity=np.zeros(4), **more
    )
    assert np.allclose(latent.state, run.rom, atol=1e-9)
    assert np.allclose(latent.velocity[0], 0.0)
    refused("initial_velocity", romkit.forecast, model, initial_state=q0, **more)


class Stepped(romkit.systems.Lorenz96):
    """The forcing is called like an argument of the verbs."""

    name = "stepped"
    context = (ContextParameter("dt", "1", 3.1, 3.2, "forcing"),)


def test_a_parameter_called_like_an_argument_goes_into_context():
    plain, stepped = (kind(n=4, transient=0.0) for kind in (romkit.systems.Lorenz96, Stepped))
    data = stepped.dataset(dt=[3.1, 3.2], duration=0.5)
    model, same = (
        romkit.fit("pod", each, latent_dim=2)
        for each in (data, plain.dataset(F=[3.1, 3.2], duration=0.5))
    )
    span = {"duration": 0.5, "dt": 0.1}
    run = romkit.rollout(stepped, model, context={"dt": 3.15}, **span)
    expected = romkit.rollout(plain, same, F=3.15, **span)
    assert run.sizes["time"] == 6
    assert run["dt"].item() == 3.15
    for name in ("truth", "rom"):
        assert np.array_equal(run[name], expected[name])
    assert np.array_equal(
        romkit.simulate(stepped, context={"dt": 3.15}, **span).state[0], run.truth
    )
    start = run.truth.values[0]
    forecast = romkit.forecast(
        model, system=stepped, initial_state=start, context={"dt": 3.15}, **span
    )
    assert np.allclose(forecast.state, run.rom, atol=1e-12)


def test_a_state_with_as_many_components_as_latents_is_a_full_one():
    system = romkit.systems.Lorenz96(n=4, transient=0.0)
    data = system.dataset(F=[3.14, 3.18], duration=1.0)
    pod = romkit.fit("pod", data, latent_dim=4)
    run = romkit.forecast(
        pod, system=system, initial_state=data.state.values[0, 0], duration=0.1, dt=0.05, F=3.14
    )
    assert np.allclose(run.state[0], data.state[0, 0])


@pytest.mark.parametrize("F", [3.15, [3.14, 3.15, 3.18], lambda t: 3.15 + 0.1 * t])
def test_several_states_or_contexts_are_as_many_trajectories(lorenz, projection, lorenz_data, F):
    states = lorenz_data.state.values[:3, 0]
    given = {"duration": 0.04, "solver": RK4(0.02)}
    run = romkit.rollout(lorenz, projection, initial_state=states, F=F, **given)
    assert run.rom.dims == ("trajectory", "time", "component")
    own = F[2] if isinstance(F, list) else F
    alone = romkit.rollout(lorenz, projection, initial_state=states[2], F=own, **given)
    for name in ("truth", "rom"):
        np.testing.assert_allclose(run[name][2], alone[name], rtol=0, atol=1e-12)


def test_starts_and_contexts_that_do_not_go_together_are_named(lorenz, projection, lorenz_data):
    given = {"duration": 0.1, "dt": 0.05, "F": 3.15}
    times = lorenz_data.state.isel(trajectory=0)
    for start, argument in (
        (times, "initial_state"),
        (times[0][::-1], "initial_state"),
    ):
        refused(argument, romkit.forecast, projection, system=lorenz, initial_state=start, **given)
        refused(argument, romkit.simulate, lorenz, initial_state=start, **given)
    refused(
        "F",
        romkit.forecast,
        projection,
        system=lorenz,
        initial_state=times.values[:3],
        **given | {"F": [3.14, 3.15]},
    )


def waves(speed, drag=1.0):
    """Two trajectories at contexts (speed, drag), of which the second may have one value."""
    times = np.linspace(0, 1, 21)
    state = np.stack([np.stack([np.sin(times + k), np.cos(times + k)], axis=-1) for k in (0, 1)])
    context = {"speed": np.asarray(speed, dtype=float), "drag": np.full(2, drag)}
    return romkit.data.from_arrays(state, times, context=context)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e5])
def test_a_context_of_one_value_has_no_range_whatever_its_unit(unit, tmp_path):
    data = waves([1.0, 2.0], unit)
    pod = romkit.load(
        romkit.save(romkit.fit("pod", data, latent_dim=2), tmp_path / "pod.safetensors")
    )
    assert pod.frame.fixed == ("drag",)
    law = romkit.laws.SINDy(degree=1, threshold=0.0, context_degree=0, refine=False).fit(pod, data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExtrapolationWarning)
        romkit.follow(pod, waves([1.2, 1.7], unit), dynamics=law)
    with pytest.warns(ExtrapolationWarning, match=f"drag, which was {unit:g} alone"):
        run = romkit.follow(pod, waves([1.2, 1.7], 1.1 * unit), dynamics=law)
    assert np.allclose(run.context_distance, 0.1, atol=1e-4)
    assert f"drag {unit:.4g}\n" in f"{pod.facts()['context']}\n"
