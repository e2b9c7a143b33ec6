"""`romkit.rollout`: what it returns, and what it says to bad input."""

import shutil

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import DivergenceWarning
from romkit.data import ContextParameter
from romkit.integrators import DYNAMICS, Galerkin, PetrovGalerkin
from romkit.solvers import Status, TorchDiffEq
from romkit.systems import Lorenz96, Pendulum, System
from romkit.training import RolloutTraining
from tests.refusals import refused


def test_one_context_has_the_documented_variables(lorenz, projection):
    run = romkit.rollout(lorenz, projection, F=3.15, duration=0.5)
    assert run.truth.dims == run.rom.dims == run.projected.dims == ("time", "component")
    assert run.latent.dims == ("time", "latent_component")
    assert run.nrmse.dims == ("time",)
    assert run.sizes == {"time": 51, "component": 36, "latent_component": 2}
    assert run.status.item() == Status.COMPLETED
    assert run.time.values[-1] == pytest.approx(0.5)
    assert run.F.item() == 3.15
    assert all("units" in run[name].attrs for name in run.data_vars)
    assert {"system", "versions", "training", "device", "idempotency_error"} <= set(run.attrs)
    for model in ("full_model", "reduced_model"):
        assert {
            f"{key}_{model}"
            for key in ("solver", "engine", "seconds_compiling", "seconds_computing")
        } <= set(run.attrs)
    assert not {"solver", "engine", "seconds_compiling", "seconds_computing"} & set(run.attrs)


def test_what_ran_is_recorded_with_its_settings(lorenz, projection):
    solver = TorchDiffEq("bosh3", rtol=1e-5)
    run = romkit.rollout(
        lorenz, projection, F=3.15, duration=0.1, dynamics=PetrovGalerkin(), solver=solver
    )
    assert (run.attrs["dynamics"], run.attrs["dynamics_settings"]) == (
        "PetrovGalerkin",
        str(PetrovGalerkin()),
    )
    assert run.attrs["solver_reduced_model"] == str(solver)
    assert run.attrs["solver_full_model"] == f"RK4(dt={lorenz.dt}, divergence_threshold={1e12})"
    assert run.attrs["seconds_computing_reduced_model"] > 0


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_both_engines_compute_the_same(lorenz, projection):
    eager, compiled = (
        romkit.rollout(lorenz, projection, F=[3.14, 3.18], duration=0.5, engine=engine)
        for engine in ("torch", "compiled")
    )
    for run, engine in ((eager, "torch"), (compiled, "compiled")):
        assert (run.attrs["engine_full_model"], run.attrs["engine_reduced_model"]) == (
            engine,
            engine,
        )
    for name in ("truth", "rom", "latent", "nrmse"):
        assert np.allclose(eager[name], compiled[name], rtol=1e-9, atol=1e-9)
    assert compiled.attrs["seconds_compiling_reduced_model"] > 0


def test_a_stack_gives_a_seed_dimension(lorenz, lorenz_data):
    stacked = romkit.fit("ncae", lorenz_data, seeds=[3, 4], epochs=1)
    run = romkit.rollout(lorenz, stacked, F=[3.14, 3.15, 3.18], duration=0.1)
    assert run.rom.dims == ("seed", "trajectory", "time", "component")
    alone = romkit.rollout(lorenz, romkit.projections.unstack(stacked)[1], F=3.18, duration=0.1)
    assert np.allclose(run.rom.isel(seed=1, trajectory=2), alone.rom, atol=1e-10)


def test_the_error_starts_at_the_projection_error_or_below(lorenz, projection):
    oblique = romkit.rollout(lorenz, projection, F=3.15, duration=0.1, dynamics=PetrovGalerkin())
    assert oblique.nrmse.values[0] == pytest.approx(oblique.nrmse_projected.values[0])
    run = romkit.rollout(lorenz, projection, F=3.15, duration=0.1).isel(time=0)
    assert np.linalg.norm(run.truth - run.rom) < np.linalg.norm(run.truth - run.projected)
    std = projection.frame.state_std.square().mean().sqrt().item()  # one unit, one deviation
    by_hand = np.sqrt((((run.truth - run.rom) / std) ** 2).mean("component"))
    assert np.allclose(run.nrmse, by_hand, atol=1e-10)


def test_components_that_hardly_move_count_as_little_as_they_matter():
    rng = np.random.default_rng(0)
    state = rng.normal(size=(3, 50, 4)) * [1.0, 1e-6, 0.0, 1.0]
    data = romkit.data.from_arrays(state, np.arange(50.0), context={"c": [1.0, 2.0, 3.0]})
    frame = romkit.projections.Frame.from_dataset(data)
    assert frame.state_std[2] == 0  # a constant component counts as one
    std = romkit.metrics.deviations(data)
    assert np.allclose(std, np.sqrt((state.std((0, 1)) ** 2).mean()))
    wrong = data.assign_coords(state_std=("component", frame.state_std.numpy()))
    wrong["state"] = wrong.state + 1e-3 * (np.arange(4) == 1)
    assert np.allclose(romkit.score(data, wrong).nrmse, 5e-4 / std[0])
    assert np.allclose(romkit.score(data, wrong, per_component=True).nrmse, 500, rtol=0.1)


LENGTHS = {f"l{k}": [0.5, 0.6] for k in range(1, 5)}


FORCINGS = {"F": [3.15, 3.18]}


@pytest.mark.parametrize(
    ("system", "context", "dynamics"),
    [
        (Lorenz96(transient=5.0), FORCINGS, Galerkin()),
        (Lorenz96(transient=5.0), FORCINGS, PetrovGalerkin()),
        (
            Pendulum(),
            LENGTHS,
            PetrovGalerkin(),
        ),  # whose inertia in 16 latents is singular, so that Galerkin has none
    ],
)
def test_a_projection_without_loss_reproduces_the_truth(system, context, dynamics):
    full = romkit.fit("pod", system.dataset(**context, duration=0.2), latent_dim=system.state_size)
    run = romkit.rollout(system, full, **context, duration=0.2, dynamics=dynamics)
    assert np.allclose(run.truth, run.rom, atol=1e-6)
    assert run.status.values.tolist() == [Status.COMPLETED] * 2


def test_the_default_is_what_training_followed(lorenz, lorenz_data):
    settings = {"epochs": 1, "engine": "torch"}
    assert (
        romkit.rollout(
            lorenz, romkit.fit("cae", lorenz_data, **settings), F=3.15, duration=0.1
        ).dynamics
        == "Galerkin"
    )
    for name, seeds in (("petrov-galerkin", {"seeds": [0, 1]}), ("galerkin", {})):
        rollouts = RolloutTraining(steps=1, every=1, dynamics=name)
        model = romkit.fit("cae", lorenz_data, rollouts=rollouts, **settings, **seeds)
        run = romkit.rollout(lorenz, model, F=3.15, duration=0.1)
        assert run.attrs["dynamics"] == DYNAMICS[name].__name__


class Runaway(System):
    """ẋ = c x²: ends in finite time for c x₀ > 0."""

    name = "runaway"
    context = (ContextParameter("c", "1", -1.0, 1.0, "rate"),)
    state_names = ("x", "y")
    state_units = ("1", "1")
    dt, duration, horizon = 0.01, 0.5, 2.0

    def rhs(self, t, x, c):
        return c * x.square()

    def initial_state(self, contexts, rng):
        return torch.ones(*contexts.shape[:-1], 2, dtype=contexts.dtype)


def test_a_default_run_ends_with_the_runs_of_that_length_or_is_as_long_as_asked():
    class Short(Runaway):
        horizon = 0.5

    data = Short().dataset(c=[-1.0, 0.5])
    pod = romkit.fit("pod", data, latent_dim=2)
    run = romkit.rollout(Short(), pod, c=[-1.0, 0.5])
    assert np.array_equal(run.time, data.time)
    assert np.allclose(run.truth, data.state)
    assert romkit.rollout(Short(), pod, c=-1.0, duration=0.5).sizes["time"] == 51
    assert romkit.rollout(Runaway(), pod, c=-1.0).sizes["time"] == 201


@pytest.mark.parametrize("engine", ["torch", "compiled"])
def test_a_diverging_member_is_scored_and_its_neighbour_is_the_same_to_the_bit(engine):
    system = Runaway()
    pod = romkit.fit("pod", system.dataset(c=[-1.0, 0.5]), latent_dim=2)
    lost = r"1 of 2 trajectories are lost: 1 \("
    with (
        pytest.warns(DivergenceWarning, match=rf"full model of runaway: {lost}c=0.9, t="),
        pytest.warns(DivergenceWarning, match=rf"reduced model: {lost}t="),
    ):
        run = romkit.rollout(system, pod, c=[-1.0, 0.9], engine=engine)
    assert run.status.values.tolist() == [Status.COMPLETED, Status.DIVERGED]
    unharmed = romkit.rollout(system, pod, c=[-1.0, -0.5], engine=engine)
    for name in ("truth", "rom"):
        assert np.array_equal(run[name][0], unharmed[name][0])
    assert run.rom.isel(trajectory=1, time=-1).isnull().all()
    assert run.valid_time.values[1] < 2.0


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({}, "F"),
        ({"G": 3.1}, "G"),
        (
            {"F": "three"},
            "F",
        ),
        ({"F": float("nan")}, "F"),
        ({"F": 3.15, "duration": -1}, "duration"),
        ({"F": 3.15, "initial_state": np.zeros(35)}, "initial_state"),
        (
            {"F": [3.1, 3.2], "initial_state": np.zeros((3, 36))},
            "initial_state",
        ),
        ({"F": 3.15, "initial_velocity": np.zeros(36)}, "initial_velocity"),
        (
            {"F": 3.15, "engine": "compile"},
            "engine",
        ),
        (
            {"F": 3.15, "engine": "compiled", "solver": TorchDiffEq()},
            "engine",
        ),
        ({"F": 3.15, "source": Lorenz96(n=40)}, "projection"),
        (
            {"source": Pendulum()} | LENGTHS,
            "projection",
        ),
    ],
)
def test_bad_input_is_named_in_one_line(lorenz, projection, arguments, argument):
    refused(argument, romkit.rollout, **{"source": lorenz, "projection": projection} | arguments)


@pytest.mark.parametrize("dtype", [np.longdouble, np.float16])
def test_runs_of_any_precision_are_scored(lorenz_data, projection, dtype):
    law = romkit.laws.DMD().fit(projection, lorenz_data)
    state = lorenz_data["state"].astype(dtype)
    run = romkit.rollout(lorenz_data.assign(state=state), projection, dynamics=law)
    assert np.isfinite(run.nrmse_projected).all()
