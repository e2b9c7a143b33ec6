"""Training that knows the dynamics: refinement by rollouts, their timing, and the term with the
field.
"""

import math

import numpy as np
import pytest
import torch

import romkit
from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.projections import stack, unstack
from romkit.systems import MechanicalSystem
from romkit.training import LatentVelocity, PhaseFit, Reconstruction, RolloutTraining
from romkit.training.latent import Advance, EvenTrajectories
from romkit.training.loss import Objective
from tests.refusals import refused
from tests.unit.training.test_fit import parameters

ROLLOUTS = {"rollouts.steps": 3, "rollouts.length": 12, "rollouts.batch": 4, "engine": "torch"}


@pytest.fixture(scope="module")
def lorenz():
    return romkit.systems.Lorenz96(transient=20.0)


@pytest.fixture(scope="module")
def waves(lorenz):
    """EvenTrajectories of four waves, long enough for windows of 2 time units."""
    return lorenz.dataset(F=np.linspace(3.14, 3.17, 4), duration=4.0)


@pytest.fixture
def few_snapshots(monkeypatch):
    """A rough matrix of Gauss and Newton, where its quality is not the question."""
    monkeypatch.setattr("romkit.training.phase.SAMPLES", 64)
    monkeypatch.setattr("romkit.training.phase.PARTS", 2)
    monkeypatch.setattr("romkit.training.phase.TRIES", 2)


EIGHT_EPOCHS = {"seed": 0, "epochs": 8, "engine": "torch"}


@pytest.fixture(scope="module")
def before(lorenz, waves):
    """A model that no refinement has seen."""
    return romkit.fit("ncae", waves, **EIGHT_EPOCHS, system=lorenz)


def test_refinement_by_rollouts_makes_rollouts_better(lorenz, waves, before):
    plan = RolloutTraining(steps=16, length=16, batch=4)
    after = romkit.fit("ncae", waves, **EIGHT_EPOCHS, system=lorenz, rollouts=plan)
    coarse = waves.isel(time=slice(None, None, 10))
    errors = [
        float(romkit.rollout(coarse, model, dynamics=PetrovGalerkin()).nrmse.mean())
        for model in (before, after)
    ]
    assert errors[1] < 0.7 * errors[0]
    assert len(after.report["rollout_losses"]) == 16


@pytest.mark.usefixtures("few_snapshots")
def test_a_refined_seed_means_the_same_alone_and_in_a_stack(lorenz, waves):
    settings = {"epochs": 1, "layers": (2, 36), "system": lorenz, **ROLLOUTS}
    settings |= {"phase.steps": 1, "phase.every": 10}
    stacked = romkit.fit("ncae", waves, seeds=[3, 4], **settings)
    alone = romkit.fit("ncae", waves, seed=4, **settings)
    assert torch.allclose(parameters(alone), parameters(unstack(stacked)[1]), rtol=0, atol=1e-6)
    assert not torch.allclose(parameters(alone), parameters(unstack(stacked)[0]), rtol=0, atol=1e-2)


@pytest.mark.parametrize("dynamics", ["galerkin", "petrov-galerkin"])
def test_mechanical_systems_are_refined_on_their_tangent_bundle(dynamics):
    system = romkit.systems.Pendulum()
    data = system.dataset("train", duration=0.3).isel(trajectory=slice(0, 4))
    # one epoch is one step here: the field of a decoder so close to its random start leaves float32
    # within an RK4 step
    model = romkit.fit(
        "ncae",
        data,
        epochs=20,
        layers=(4, 16),
        **ROLLOUTS | {"rollouts.length": 4},
        **{"rollouts.dynamics": dynamics, "rollouts.every": 5},
    )
    assert not model.report["rollout_diverged"]
    assert np.isfinite(model.report["rollout_losses"]).all()


class Springs(MechanicalSystem):
    """q̈ = -(1000 / s)² q: rates are a thousand times as large as coordinates."""

    name, state_names, state_units, dt, duration, horizon = (
        "springs",
        ("a", "b"),
        ("m", "m"),
        1e-4,
        1e-2,
        1e-2,
    )

    def acceleration(self, t, q, v, c):
        return -1e6 * q

    def initial_state(self, contexts, rng):
        return contexts.new_tensor([[1.0, 2.0]])


def test_fast_rates_are_followed_and_not_cut_off():
    data = Springs().dataset()
    projection = stack([romkit.fit("pod", data, latent_dim=1).double()])
    x, none = (
        torch.tensor([[[1.0, 2.0]]], dtype=torch.float64),
        torch.zeros(1, 1, 0, dtype=torch.float64),
    )
    P = projection.operator(none)
    w = torch.cat(P.encode_jvp(x, 0 * x), dim=-1)
    step = Advance(projection, Springs(), Galerkin(), 1e-4, speed=1000.0)
    for _ in range(15):
        w, _ = step(w, none)
    q, v = P.decode_jvp(*w.chunk(2, dim=-1))
    torch.testing.assert_close(q, math.cos(1.5) * x, rtol=1e-3, atol=0)
    torch.testing.assert_close(v, -1000 * math.sin(1.5) * x, rtol=1e-3, atol=0)


def test_windows_grow_within_the_trajectories_and_steps_are_the_mean_of_rounded_times(waves):
    plan = RolloutTraining(steps=10, length=300)
    assert plan.window(0.0, samples=1000) == 10
    assert plan.window(0.99, samples=1000) == 300
    assert plan.window(0.99, samples=51) == 50
    late = waves.assign_coords(time=(100 + waves.time).astype("f4"))
    found = EvenTrajectories.from_dataset(late, 10, like=torch.zeros(1))
    assert found.h == pytest.approx(0.1, rel=5e-6)


def test_the_term_with_the_field_is_what_the_operator_says(lorenz, waves):
    """Against the same norms written with the public operator in physical units."""
    stacked = romkit.fit("ncae", waves, seeds=[0, 1], epochs=1, engine="torch").double()
    frame = stacked.frame
    x, v = (
        torch.from_numpy(waves[name].values[:, 5].copy()).expand(2, -1, -1)
        for name in ("state", "velocity")
    )
    c = torch.from_numpy(waves.F.values.copy())[:, None].expand(2, -1, -1)
    with torch.no_grad():
        P = stacked(c)
        on_manifold = P(x)
        f = lorenz.field(c)(torch.zeros(()), on_manifold)
        carried = P.jvp(on_manifold, f).tangent
        wanted = 2.0 * (v - carried).square()
        wanted = (wanted / frame.state_scale**2).sum(-1).mean(-1)
        batch = (frame.normalise(x), v / frame.state_scale, frame.normalise_context(c))
        plain = [Reconstruction()]
        more = Objective(stacked, [*plain, LatentVelocity(2.0)], 0.0, lorenz).double()
        assert torch.allclose(
            more(*batch) - Objective(stacked, plain).double()(*batch), wanted, rtol=1e-9
        )


@pytest.mark.usefixtures("few_snapshots")
@pytest.mark.parametrize("method", ["pod", "flow"])
def test_every_method_has_the_preset_dynamics(lorenz, waves, method):
    more = {"latent_dim": 2}
    if method == "flow":
        more |= {"phase.steps": 1, "phase.every": 10, "units": (8, 8, 8)}
    model = romkit.fit(
        method, waves, preset="dynamics", system=lorenz, epochs=1, **ROLLOUTS, **more
    )
    assert np.isfinite(model.report.get("rollout_losses", [0.0])).all()


def test_the_field_is_that_of_the_system_the_data_come_from():
    small = romkit.systems.Lorenz96(n=8, transient=2.0)
    data = small.dataset(F=[3.14, 3.17], duration=1.0)
    settings = {
        "epochs": 1,
        "rollouts.steps": 1,
        "rollouts.every": 1,
        "engine": "torch",
        "layers": (2, 4, 8),
    }
    named, given = (
        romkit.fit("cae", data, **settings),
        romkit.fit("cae", data, **settings, system=small),
    )
    assert torch.equal(parameters(named), parameters(given))
    refused(
        "parameters", romkit.fit, "cae", data.assign_attrs(parameters='{"size": 8}'), **settings
    )


def test_what_a_loss_with_the_field_refuses(lorenz, waves):
    moving = waves.assign_coords(F=waves.F + 0.001 * waves.time)
    uneven, turned = (
        waves.assign_coords(time=waves.time**1.1),
        waves.isel(component=slice(None, None, -1)),
    )
    for data, more, fact in (
        (
            waves,
            {"system": romkit.systems.Lorenz96(n=12)},
            "system",
        ),
        (waves.assign_attrs(system="mine"), {}, "system"),
        (waves, {"rollouts.every": 100}, "rollouts.every"),
        (turned, {}, "data"),
        (uneven, {}, "data"),
        (moving, {}, "constant contexts for rollouts"),
    ):
        given = {"callback": lambda epoch: 1 / 0} | ROLLOUTS | more  # refused before training
        refused(fact, romkit.fit, "ncae", data, epochs=1, **given)
    pendulum = romkit.systems.Pendulum().dataset("train", duration=0.2)
    refused(
        "loss",
        romkit.fit,
        "ncae",
        pendulum,
        latent_weight=1.0,
    )


def test_gauss_newton_sets_the_timing_right_and_keeps_the_reconstruction(
    lorenz, waves, before, monkeypatch
):
    monkeypatch.setattr("romkit.training.phase.SAMPLES", 128)
    plan = PhaseFit(steps=2)
    after = romkit.fit("ncae", waves, **EIGHT_EPOCHS, system=lorenz, phase=plan)
    errors = after.report["phase_errors"]
    assert errors[-1] < 0.5 * errors[0]

    def loss(model):
        x, v = (
            torch.from_numpy(waves[name].values[:, ::5].copy()).float()
            for name in ("state", "velocity")
        )
        with torch.no_grad():
            position, velocity = model(waves).jvp(x, v)
        return ((x - position).square() + (v - velocity).square()).mean().item()

    assert loss(after) < 1.3 * loss(before)


class Slow(romkit.systems.Lorenz96):
    """Lorenz96 in a unit of time that is a millionth of its own."""

    def rhs(self, t, x, c):
        return super().rhs(t, x, c) / 1e6


def test_the_timing_is_refined_in_any_unit_of_time():
    slow = romkit.systems.Lorenz96(n=8, transient=2.0).dataset(F=[3.14, 3.17], duration=2.0)
    slow = slow.assign(velocity=slow.velocity / 1e6).assign_coords(time=1e6 * slow.time)
    settings = {
        "layers": (2, 4, 8),
        "epochs": 5,
        "engine": "torch",
        "system": Slow(n=8),
        "velocity_weight": 1e12,
    }
    model = romkit.fit("cae", slow, **settings, phase=PhaseFit(steps=1, weight=1e-10, every=10))
    assert np.isfinite(model.report["phase_errors"]).all()


@pytest.mark.usefixtures("few_snapshots")
def test_a_step_of_timing_that_loses_a_window_is_not_taken(lorenz, waves, monkeypatch):
    """Windows are usable where τ and its gradient are measured, and one is no more wherever a step
    would lead.
    """
    sizes = {"layers": (2, 6, 36)}
    settings = {"seed": 0, "epochs": 2, "engine": "torch", "system": lorenz, **sizes}
    answers = iter([True])
    usable = lambda tau: torch.full_like(tau, next(answers, False), dtype=torch.bool)  # noqa: E731
    monkeypatch.setattr("romkit.training.phase._usable", usable)
    before, after = (
        romkit.fit("ncae", waves, **settings),
        romkit.fit("ncae", waves, **settings, **{"phase.steps": 1}),
    )
    assert next(answers, None) is None
    assert torch.equal(parameters(before), parameters(after))
