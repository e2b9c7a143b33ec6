"""The race of exact projections: what is compared is of one size, and the report shows what was measured."""

from pathlib import Path

import pytest
import torch

from romkit.projections import METHODS, Frame
from romkit.systems import SYSTEMS
from romkit.verbs.presets import sized
from studies.exactness.report import write
from studies.exactness.tasks import sizes
from studies.runner import Study

RESULTS = Path(__file__).parents[2] / "studies" / "exactness" / "results"


def parameters(system, method, sizes):
    own = SYSTEMS[system]()
    units = tuple(parameter.units for parameter in own.context)
    frame = Frame(system, tuple(own.state_names), tuple(own.state_units), own.context_names, units)
    kind = METHODS[method]
    model = kind(frame, torch.Generator().manual_seed(0), **sized(kind, frame, dict(sizes)))
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("system", ["lorenz96", "pendulum"])
def test_no_method_of_size_equal_has_more_parameters_than_film_in_the_paper(system):
    most = parameters(system, "film-ae", ())
    assert all(0.96 * most < parameters(system, *of) <= most for of in sizes("equal")[system].items())


def test_every_preset_has_tasks_of_different_names():
    study = Study("exactness")
    for preset in study.presets:
        names = [task.name for task in study.tasks(preset)]
        assert len(set(names)) == len(names) > 0


def test_the_report_is_that_of_the_archives(tmp_path):
    for archive in RESULTS.glob("*.nc"):
        (tmp_path / archive.name).write_bytes(archive.read_bytes())
    assert write(tmp_path).read_text() == (RESULTS / "REPORT.md").read_text()
