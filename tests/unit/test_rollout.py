"""`romkit.rollout`: what it returns, and what it says to bad input."""

import shutil

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import DivergenceWarning, InputError
from romkit.data import ContextParameter
from romkit.integrators import DYNAMICS, Galerkin, PetrovGalerkin
from romkit.solvers import Adaptive, Status
from romkit.systems import System
from romkit.training import RolloutTraining


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
        assert {f"{key}_{model}" for key in ("solver", "engine", "seconds_compiling", "seconds_computing")} <= set(
            run.attrs
        )
    assert not {"solver", "engine", "seconds_compiling", "seconds_computing"} & set(run.attrs)


def test_what_ran_is_recorded_with_its_settings(lorenz, projection):
    solver = Adaptive("bosh3", rtol=1e-5)
    run = romkit.rollout(lorenz, projection, F=3.15, duration=0.1, dynamics=PetrovGalerkin(), solver=solver)
    assert (run.attrs["dynamics"], run.attrs["dynamics_settings"]) == ("PetrovGalerkin", "PetrovGalerkin()")
    assert run.attrs["solver_reduced_model"] == str(solver)
    assert run.attrs["solver_full_model"] == f"RK4(dt={lorenz.dt}, divergence_threshold={1e12})"
    assert run.attrs["seconds_computing_reduced_model"] > 0
    default = romkit.rollout(lorenz, projection, F=3.15, duration=0.1, dt=0.02)
    assert default.attrs["solver_reduced_model"] == "RK4(dt=0.02, divergence_threshold=1000000.0)"


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_both_engines_compute_the_same(lorenz, projection):
    eager, compiled = (
        romkit.rollout(lorenz, projection, F=[3.14, 3.18], duration=0.5, engine=engine)
        for engine in ("torch", "compiled")
    )
    for run, engine in ((eager, "torch"), (compiled, "compiled")):
        assert (run.attrs["engine_full_model"], run.attrs["engine_reduced_model"]) == (engine, engine)
    for name in ("truth", "rom", "latent", "nrmse"):
        assert np.allclose(eager[name], compiled[name], rtol=1e-9, atol=1e-9)
    assert compiled.attrs["seconds_compiling_reduced_model"] > 0


def test_an_engine_that_cannot_be_had_is_refused(lorenz, projection):
    with pytest.raises(InputError, match="engine: expected one of auto, compiled, torch, got 'compile'"):
        romkit.rollout(lorenz, projection, F=3.15, duration=0.1, engine="compile")
    with pytest.raises(InputError, match="engine: expected 'torch' for Adaptive"):
        romkit.rollout(lorenz, projection, F=3.15, duration=0.1, engine="compiled", solver=Adaptive())


def test_arrays_of_contexts_give_a_trajectory_dimension_and_equal_a_loop(lorenz, projection):
    both = romkit.rollout(lorenz, projection, F=[3.14, 3.18], duration=0.2)
    assert both.rom.dims == ("trajectory", "time", "component")
    for k, F in enumerate((3.14, 3.18)):
        alone = romkit.rollout(lorenz, projection, F=F, duration=0.2)
        assert np.allclose(both.rom.isel(trajectory=k), alone.rom, atol=1e-10)


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
    std = projection.frame.state_std.numpy()
    by_hand = np.sqrt((((run.truth - run.rom) / std) ** 2).mean("component"))
    assert np.allclose(run.nrmse, by_hand, atol=1e-10)


def test_a_projection_without_loss_reproduces_the_truth(lorenz, lorenz_data):
    full = romkit.fit("pod", lorenz_data, latent_dim=36)
    for dynamics in (Galerkin(), PetrovGalerkin()):
        run = romkit.rollout(lorenz, full, F=3.15, duration=1.0, dynamics=dynamics)
        assert np.allclose(run.truth, run.rom, atol=1e-8)
        assert run.valid_time.item() == pytest.approx(1.0)


@pytest.mark.parametrize("trained", ["PetrovGalerkin", "Galerkin"])
def test_the_default_is_what_training_followed(lorenz, lorenz_data, trained):
    name = next(name for name, kind in DYNAMICS.items() if kind.__name__ == trained)
    settings = {"epochs": 1, "rollouts": RolloutTraining(steps=1, every=1, dynamics=name), "engine": "torch"}
    models = [romkit.fit("cae", lorenz_data, **settings), romkit.fit("cae", lorenz_data, seeds=[0, 1], **settings)]
    for model in models:
        assert romkit.rollout(lorenz, model, F=3.15, duration=0.1).attrs["dynamics"] == trained
    unrefined = romkit.fit("cae", lorenz_data, epochs=1)
    assert romkit.rollout(lorenz, unrefined, F=3.15, duration=0.1).attrs["dynamics"] == "Galerkin"


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


def test_a_diverging_member_is_scored_and_its_neighbour_is_not_harmed():
    system = Runaway()
    pod = romkit.fit("pod", system.dataset(c=[-1.0, 0.5]), latent_dim=2)
    with pytest.warns(DivergenceWarning, match=r"full model of runaway: 1 of 2 trajectories are lost: 1 \(c=0.9, t="):
        run = romkit.rollout(system, pod, c=[-1.0, 0.9])
    assert run.status.values.tolist() == [Status.COMPLETED, Status.DIVERGED]
    assert run.rom.isel(trajectory=0).notnull().all()
    assert run.rom.isel(trajectory=1, time=-1).isnull().all()
    assert run.valid_time.values[1] < 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "F: expected a value for this context parameter, got none; add F=..."),
        ({"G": 3.1}, "G: expected a context parameter, got an unknown name; the context is F"),
        ({"F": "three"}, r"F: expected real numbers \(tensor, array or list\), got 'three'; give numbers"),
        ({"F": float("nan")}, "F: expected finite numbers"),
        ({"F": 3.15, "duration": -1}, "duration: expected a positive number"),
        ({"F": 3.15, "dt": 0}, "dt: expected a positive number"),
        ({"F": 3.15, "initial_state": np.zeros(35)}, r"initial_state: expected shape \(..., 36\)"),
        ({"F": 3.15, "initial_state": np.full(36, np.nan)}, "initial_state: expected finite numbers"),
        (
            {"F": [3.1, 3.2], "initial_state": np.zeros((3, 36))},
            "initial_state: expected one state .*, or 2 of",
        ),
        ({"F": 3.15, "initial_velocity": np.zeros(36)}, "initial_velocity: expected nothing"),
    ],
)
def test_bad_input_is_named_in_one_line(lorenz, projection, arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        romkit.rollout(lorenz, projection, **arguments)
    assert "\n" not in str(caught.value)


def test_a_projection_of_another_system_is_refused(projection):
    with pytest.raises(InputError, match=r"projection: expected one of 'pendulum'.*got one of 'lorenz96'"):
        romkit.rollout(romkit.systems.Pendulum(), projection, l1=0.5, l2=0.5, l3=0.5, l4=0.5)
    with pytest.raises(InputError, match=r"x0 \.\.\. x39 \(40\)"):
        romkit.rollout(romkit.systems.Lorenz96(n=40), projection, F=3.15)


def test_mechanical_rollout(tmp_path):
    system = romkit.systems.Pendulum()
    lengths = {f"l{k}": [0.5, 0.6] for k in range(1, 5)}
    data = system.dataset(**lengths, duration=0.2)
    full = romkit.fit("pod", data, latent_dim=16)
    run = romkit.rollout(system, full, **lengths, duration=0.2, dynamics=PetrovGalerkin())
    assert np.allclose(run.truth, run.rom, atol=1e-6)
    assert run.status.values.tolist() == [0, 0]
