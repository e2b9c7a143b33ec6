"""The study of drift: scores of waves whose drift is known and of orbits whose exponents are, and
its smoke preset.
"""

import math
import warnings

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import DivergenceWarning
from romkit.data import open_dataset
from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.laws import SINDy
from romkit.projections import Path
from romkit.solvers import RK4
from romkit.systems import Lorenz96
from studies.rollout_drift import models
from studies.rollout_drift.models import make_system
from studies.rollout_drift.scores import (
    amplitude_drift,
    lyapunov_sum,
    phase_drift,
    wave_number_agreement,
)
from studies.rollout_drift.tasks import METHODS, tasks
from studies.runner import Study

N = 36
TIMES = torch.linspace(2.0, 12.0, 401, dtype=torch.float64)


def wave(*, number=8, speed=2.0, growth=0.0, phase=0.0, mean=2.5, times=TIMES):
    """(T, N): mean + exp(growth t) cos(number θ - speed t - phase)."""
    theta = 2 * math.pi * torch.arange(N, dtype=torch.float64) / N
    t = times.unsqueeze(-1)
    return mean + torch.exp(growth * t) * torch.cos(number * theta - speed * t - phase)


def value(x):
    return pytest.approx(x, abs=1e-10)


@pytest.mark.parametrize("error", [0.0, 0.03, -0.4, 5.0])
def test_phase_drift_is_the_error_of_the_speed_whatever_direction_lag_mean_amplitude_and_other_modes(
    error,
):
    assert phase_drift(TIMES, wave(), wave(speed=2.0 + error)).item() == value(error)
    assert phase_drift(TIMES, wave(speed=-2.0), wave(speed=-2.0 - error)).item() == value(error)
    assert phase_drift(10 * TIMES, wave(), wave(speed=2.0 + error)).item() == value(
        error / 10
    )  # ten times as slow
    assert abs(phase_drift(TIMES, wave(speed=0.0), wave(speed=error)).item()) == value(abs(error))
    rom = wave(speed=2.0 + error, phase=3.0, mean=-1.0, growth=-0.1) + wave(
        number=7, speed=9.0, growth=-0.1
    )
    assert phase_drift(TIMES, wave(), rom).item() == value(error)


@pytest.mark.parametrize("growth", [0.0, -0.25, 0.1])
def test_a_decaying_wave_gives_the_rate_of_its_decay_beyond_that_of_the_truth(growth):
    assert amplitude_drift(TIMES, wave(), wave(growth=growth, speed=2.3)).item() == value(growth)
    assert amplitude_drift(TIMES, wave(growth=growth), wave(growth=growth)).item() == value(0.0)


@pytest.mark.parametrize("metric", [phase_drift, amplitude_drift])
def test_only_the_part_before_the_divergence_counts_and_no_wave_has_no_drift(metric):
    rom = wave(speed=2.1, growth=0.05)
    early = metric(TIMES[:200], wave()[:200], rom[:200])
    rom[200:, 3] = torch.nan
    rom[300:] = 1.0  # finite again, but diverged for good
    assert metric(TIMES, wave(), rom).item() == value(early.item())
    for first in (0, 1):
        rom[first:] = torch.inf
        assert metric(TIMES, wave(), rom).isnan()
    assert metric(
        TIMES, torch.full((len(TIMES), N), 3.1, dtype=torch.float64), wave()
    ).isnan()  # no wave at all


def test_wave_numbers_agree_until_they_change_or_the_member_diverges():
    truth, rom = wave(number=8), wave(number=8, speed=1.0, growth=-0.3)
    assert wave_number_agreement(truth, rom).item() == 1.0
    rom[100:200] = wave(number=7)[100:200]
    assert wave_number_agreement(truth, rom).item() == value(301 / 401)
    rom[300] = torch.nan
    assert wave_number_agreement(truth, rom).item() == value(200 / 401)
    assert wave_number_agreement(truth, torch.full_like(truth, torch.nan)).item() == 0.0


def test_a_lorenz96_wave_that_runs_twice_as_fast_is_ahead_by_its_own_speed():
    x = torch.from_numpy(Lorenz96(transient=200.0).dataset(F=3.2, duration=10.0).state.values[0])
    times = 0.01 * torch.arange(500, dtype=torch.float64)
    speed = phase_drift(times, x[:1].expand(500, -1), x[:500]).abs().item()
    assert speed > 0.5
    assert phase_drift(times, x[:500], x[:1000:2]).item() == pytest.approx(speed, rel=0.02)
    assert phase_drift(times, x[:1000:2], x[:500]).item() == pytest.approx(-speed, rel=0.02)


def test_lyapunov_sum_of_the_circle_to_which_a_hopf_normal_form_settles():
    """ṙ = μ r - r³, θ̇ = 1 has the orbit r² = μ with Floquet exponent -2 μ."""
    mu = torch.tensor([0.5, 2.0], dtype=torch.float64).unsqueeze(-1)

    def hopf(t, z):
        x, y = z.split(1, dim=-1)
        growth = mu - x**2 - y**2
        return torch.cat([growth * x - y, growth * y + x], dim=-1)

    angle = torch.linspace(0, 2 * math.pi, 9, dtype=torch.float64)[:-1]
    circle = mu.sqrt().unsqueeze(-1) * torch.stack([angle.cos(), angle.sin()], dim=-1)
    torch.testing.assert_close(lyapunov_sum(hopf, circle), -2 * mu.squeeze(-1))


@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
def test_lyapunov_sum_of_a_reduced_model_against_finite_differences(dynamics):
    system = Lorenz96(n=8, transient=2.0)
    data = system.dataset(F=[3.14, 3.18], duration=2.0)
    model = romkit.fit(
        "ncae", data, layers=(2, 4, 8), seeds=range(2), epochs=1, engine="torch"
    ).double()
    P = model(torch.tensor([[3.14], [3.16], [3.18]], dtype=torch.float64).expand(2, -1, -1))
    field = dynamics.field(system.problem(Path.constant(P), P.context))
    states = torch.randn(
        2, 3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    h, expected = 1e-5, torch.zeros(2, 3, dtype=torch.float64)
    with torch.no_grad():
        for z in states.unbind(-2):
            for k, axis in enumerate(h * torch.eye(2, dtype=torch.float64)):
                expected += (
                    (field(0.0, z + axis) - field(0.0, z - axis))[..., k]
                    / (2 * h)
                    / states.shape[-2]
                )
        torch.testing.assert_close(lyapunov_sum(field, states), expected, rtol=1e-6, atol=1e-7)


def test_lyapunov_sum_of_a_member_that_diverged():
    states = torch.tensor([[[1.0], [2.0]], [[1.0], [float("nan")]]])
    found = lyapunov_sum(lambda t, z: -(z**2), states)
    assert found[0] == -3.0
    assert found[1].isnan()


def few_tasks(preset):
    """Every method by Petrov-Galerkin, and the refined NcAE of the pendulum by all dynamics: methods,
    trainings and dynamics know nothing of each other.
    """
    few = []
    for task in tasks(preset):
        is_refined = task.model.training == "dynamics"
        if (task.model.system == "pendulum") if is_refined else task.dynamics == "petrov-galerkin":
            few.append(task)
    return few


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(models, "CACHE", folder / "models")
        patch.setattr("studies.rollout_drift.tasks.tasks", few_tasks)
        patch.setattr(SINDy, "SHARES", (0.01, 0.0))
        # scores and curvatures of few samples; each has a test of its own
        patch.setattr("studies.rollout_drift.scores.SAMPLES", 1)
        patch.setattr("romkit.training.phase.SAMPLES", 64)
        # two epochs make models whose rollouts may diverge, which the refinement by rollouts says
        warnings.simplefilter("ignore", DivergenceWarning)
        sweep = Study("rollout_drift").run("smoke", folder)
    assert not sweep.failed
    return folder


def result(folder, method, dynamics="petrov-galerkin", system="lorenz96"):
    return open_dataset(folder / "smoke" / f"{system}-{method}-paper-loss-{dynamics}.nc")


@pytest.mark.slow
@pytest.mark.parametrize("system", ["lorenz96", "pendulum"])
def test_the_task_follows_models_as_rollout_does(folder, system):
    task = next(t for t in tasks("smoke") if t.name == f"{system}-ncae-paper-loss-petrov-galerkin")
    found = result(folder, "ncae", system=system).sel(mode="latent")
    model = make_system(system, task.model.parameters)
    projection = romkit.load(next((folder / "models").glob(f"{system}-ncae-paper-loss-*")))
    run = romkit.rollout(
        model,
        projection,
        **{name: found[name].values for name in model.context_names},
        duration=task.duration,
        dt=task.step,
        dynamics=PetrovGalerkin(),
        solver=RK4(task.step),
    )
    # the study measures as the paper does, each component in its own deviation
    truth, rom = (torch.tensor(run[name].values) for name in ("truth", "rom"))
    errors = romkit.metrics.nrmse(truth, rom, projection.frame.state_std.double())
    valid = romkit.metrics.valid_time(torch.tensor(run.time.values), errors)
    assert np.allclose(valid, found.valid_time)
    errors = run.nrmse.copy(data=errors.numpy())
    middle = errors.sel(time=found.curve_time, method="nearest").quantile(0.5, "trajectory")
    assert np.allclose(middle, found.nrmse.sel(quantile=0.5), rtol=1e-5)


@pytest.mark.slow
def test_exact_projections_may_be_re_encoded_and_others_not_and_all_are_on_the_page(folder):
    page = (folder / "REPORT.md").read_text()
    for name in (
        *(f"{method}/paper-loss" for method in METHODS),
        "ncae/dynamics",
        "lspg",
        "sindy",
        "neural-ode",
    ):
        assert name in page
    assert len(list(folder.glob("*.png"))) == 7
    changes = {}
    for method in METHODS:
        curves = result(folder, method).nrmse
        changes[method] = float(
            np.abs(curves.sel(mode="latent") - curves.sel(mode="re-encoded")).max()
        )
    assert max(changes[method] for method in ("ncae", "cae", "pod")) < 1e-5
    assert min(changes[method] for method in ("context-cae", "ae", "film-ae")) > 1e-3
