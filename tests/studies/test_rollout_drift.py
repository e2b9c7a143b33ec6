"""The study of drift: its smallest preset runs, and the committed page is what its committed results say."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from romkit.errors import DivergenceWarning

import romkit
import studies.rollout_drift
from romkit.data import open_dataset
from romkit.integrators import PetrovGalerkin
from studies.rollout_drift import models
from studies.rollout_drift.models import make_system
from studies.rollout_drift.report import write
from studies.rollout_drift.tasks import METHODS, tasks
from studies.runner import Study, archived_keys

COMMITTED = Path(studies.rollout_drift.__file__).parent / "results"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(models, "CACHE", folder / "models")
        # two epochs make models whose rollouts may diverge, which the refinement by rollouts says
        warnings.simplefilter("ignore", DivergenceWarning)
        sweep = Study("rollout_drift").run("smoke", folder)
    assert not sweep.failed
    return folder


def result(folder, method, dynamics="petrov-galerkin", system="lorenz96"):
    return open_dataset(folder / "smoke" / f"{system}-{method}-paper-loss-{dynamics}.nc")


@pytest.mark.slow
def test_every_projection_and_dynamics_is_on_the_page(folder):
    page = (folder / "REPORT.md").read_text()
    for name in (*(f"{method}/paper-loss" for method in METHODS), "ncae/dynamics", "lspg", "sindy", "neural-ode"):
        assert name in page
    assert len(list(folder.glob("*.png"))) == 7


@pytest.mark.slow
@pytest.mark.parametrize("system", ["lorenz96", "pendulum"])
def test_the_task_follows_models_as_rollout_does(folder, system):
    task = next(t for t in tasks("smoke") if t.name == f"{system}-ncae-paper-loss-petrov-galerkin")
    found = result(folder, "ncae", system=system).sel(mode="latent")
    model = make_system(system, task.model.parameters)
    run = romkit.rollout(
        model,
        romkit.load(next((folder / "models").glob(f"{system}-ncae-paper-loss-*"))),
        **{name: found[name].values for name in model.context_names},
        duration=task.duration,
        dt=task.step,
        dynamics=PetrovGalerkin(),
    )
    assert np.allclose(run.valid_time, found.valid_time)
    middle = run.nrmse.sel(time=found.curve_time, method="nearest").quantile(0.5, "trajectory")
    assert np.allclose(middle, found.nrmse.sel(quantile=0.5), rtol=1e-5)


@pytest.mark.slow
def test_exact_projections_may_be_re_encoded_and_others_not(folder):
    changes = {}
    for method in METHODS:
        curves = result(folder, method).nrmse
        changes[method] = float(np.abs(curves.sel(mode="latent") - curves.sel(mode="re-encoded")).max())
    assert max(changes[method] for method in ("ncae", "cae", "pod")) < 1e-5
    assert min(changes[method] for method in ("context-cae", "ae", "film-ae")) > 1e-3


def test_the_committed_results_are_those_of_the_present_configuration():
    keys, archived = {task.name: task.key for task in tasks("full")}, archived_keys(COMMITTED / "full")
    answered = {name for name in archived if any(term in name for term in ("invariance", "fibre", "gradient"))}
    assert {name: key for name, key in archived.items() if name not in answered}.items() <= keys.items()


def test_the_committed_page_is_made_from_the_committed_results(tmp_path):
    (tmp_path / "full.nc").symlink_to(COMMITTED / "full.nc")
    assert write(tmp_path, "full").read_text() == (COMMITTED / "REPORT.md").read_text()
