"""The models that ship: exact, small, usable on the system that they are named after, and measured."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import romkit
from romkit.projections import METHODS, pretrained
from romkit.projections.storage import PRETRAINED
from romkit.systems import SYSTEMS

STUDY = Path(__file__).parents[2] / "studies" / "pretrained"
NAMES = pretrained()


@pytest.mark.parametrize("name", NAMES)
def test_they_are_exact(name):
    model = romkit.load(name).double()
    norm, gen = model.frame, torch.Generator().manual_seed(0)
    y = torch.randn(5, norm.size, dtype=torch.float64, generator=gen)
    P = model(
        norm.denormalise_context(torch.rand(1, len(norm.context_names), generator=gen).double())
    )
    image = P(norm.denormalise(y))
    assert model.idempotent
    assert ((P(image) - image) / norm.state_std).abs().max() < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_they_have_a_card(name):
    measured = json.loads((STUDY / "full.json").read_text())[name]
    assert measured["rollout"]["diverged"] == 0
    assert measured["report"]["seed"] == romkit.load(name).report["seed"]
    assert f"## {name}" in (STUDY / "RESULTS.md").read_text()


def test_they_are_named_after_method_and_system_and_small():
    methods, systems = zip(*(name.split("-", 1) for name in NAMES), strict=True)
    assert set(methods) <= METHODS.keys()
    assert set(systems) == SYSTEMS.keys()
    assert sum(file.stat().st_size for file in PRETRAINED.iterdir()) < 7e6


@pytest.mark.parametrize(
    ("name", "context", "duration"),
    [
        ("flow-kuramoto-sivashinsky", {"L": 16.0}, 5.0),
        ("flow-burgers2d", {"mu1": 4.56, "mu2": 0.019}, 1.0),
    ],
)
def test_they_follow_the_system_with_its_own_grid_and_step(name, context, duration):
    system = SYSTEMS[name.split("-", 1)[1]]()
    run = romkit.rollout(system, romkit.load(name), duration=duration, **context)
    assert int(run.status) == 0
    assert float(run.nrmse.max()) < 0.1
    assert np.isfinite(run.rom.values).all()
