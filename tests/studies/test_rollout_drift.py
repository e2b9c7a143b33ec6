"""The study of drift: its smallest preset runs, and the committed page is what its committed results say."""

from pathlib import Path

import numpy as np
import pytest

import romkit
import studies.rollout_drift
from romkit.data import open_dataset
from romkit.integrators import PetrovGalerkin
from studies.rollout_drift.config import CONFIGS, tasks
from studies.rollout_drift.data import make_system, training_set
from studies.rollout_drift.report import write
from studies.runner import InProcess

COMMITTED = Path(studies.rollout_drift.__file__).parent / "results"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    with InProcess() as here:
        sweep = studies.rollout_drift.main("smoke", here, folder, only="paper-loss")
    assert not sweep.failed
    return folder


def test_every_projection_and_dynamics_is_on_the_page(folder):
    page = (folder / "REPORT.md").read_text()
    for name in ("ncae/paper-loss", "film-ae/paper-loss", "pod/paper-loss", "lspg", "sindy", "neural-ode restarting"):
        assert name in page
    assert len(list(folder.glob("*.png"))) == 3


def test_the_task_follows_models_as_rollout_does(folder):
    task = next(t for t in tasks(CONFIGS["smoke"]) if t.name == "lorenz96-ncae-paper-loss")
    data = training_set(task.system, task.parameters, task.training_data)
    model = romkit.fit("ncae", data, seeds=task.seeds, **dict(task.settings))
    found = open_dataset(folder / "smoke" / f"{task.name}.nc").sel(dynamics="petrov-galerkin")
    run = romkit.rollout(
        make_system(task.system, task.parameters),
        model,
        F=found.F.values,
        duration=task.duration,
        dt=task.step,
        dynamics=PetrovGalerkin(),
    )
    assert np.allclose(run.valid_time, found.valid_time)
    middle = run.nrmse.sel(time=found.curve_time, method="nearest").quantile(0.5, "trajectory")
    assert np.allclose(middle, found.nrmse.sel(quantile=0.5), rtol=1e-5)


def test_exact_projections_may_be_re_encoded_and_others_not(folder):
    change = {}
    for method in ("ncae", "cae", "pod", "context-cae", "ae", "film-ae"):
        run = open_dataset(folder / "smoke" / f"lorenz96-{method}-paper-loss.nc")
        stays, restarts = (run.nrmse.sel(dynamics=f"petrov-galerkin{end}") for end in ("", " restarting"))
        change[method] = float(np.abs(stays - restarts).max())
    assert max(change[method] for method in ("ncae", "cae", "pod")) < 1e-5
    assert min(change[method] for method in ("context-cae", "ae", "film-ae")) > 1e-3


@pytest.mark.skipif(not (COMMITTED / "full").exists(), reason="no results are committed")
def test_the_committed_page_is_made_from_the_committed_results(tmp_path):
    assert write(COMMITTED / "full", tmp_path).read_text() == (COMMITTED / "REPORT.md").read_text()
