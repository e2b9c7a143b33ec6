"""The term that keeps Lipschitz bounds below a target, against certificates."""

import math

import pytest
import torch

import romkit
from romkit.certificates import bounds
from romkit.core.types import Dual
from romkit.training import Evaluated, LipschitzBound, Reconstruction
from romkit.training.loss import log_bound
from tests.properties.test_projection_laws import make
from tests.refusals import refused


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Lower bounds are not looked at here."""
    monkeypatch.setattr(bounds, "STEPS", 1)
    monkeypatch.setattr(bounds, "POINTS", 1)


@pytest.mark.parametrize("method", ["ncae", "cae"])
def test_the_bound_is_never_below_the_certificate(method):
    model = make(method, (2, 4, 1, 5)).double().requires_grad_(False)
    model.frame.state_scale.fill_(1.5)  # of one unit
    c = model.frame.context_shift
    maps = model.at(model.frame.normalise_context(c))
    assert math.exp(log_bound(maps).max()) >= float(romkit.certify(model, c).upper.sel(map="projection")) * (1 - 1e-9)


def test_training_with_it_ends_below_the_target():
    data = romkit.systems.Lorenz96(n=8, transient=5.0).dataset(F=[3.14, 3.15, 3.18], duration=1.0)
    settings = {"epochs": 30, "layers": (2, 4, 8), "engine": "torch", "seed": 1}
    free = romkit.fit("ncae", data, **settings, loss=[Reconstruction()])
    kept = romkit.fit("ncae", data, **settings, loss=[Reconstruction(), LipschitzBound(target=4.0, weight=10.0)])
    of_P = [float(romkit.certify(model, F=3.15).upper.sel(map="projection")) for model in (free, kept)]
    assert of_P[1] < 4.4
    assert of_P[0] > of_P[1]


def test_what_it_refuses(lorenz_data):
    terms = [Reconstruction(), LipschitzBound()]
    refused("loss: expected a constrained autoencoder", romkit.fit, "flow", lorenz_data, epochs=1, loss=terms)
    refused("target: expected a positive number", LipschitzBound, target=0.0)
    model, y = make("ncae", (2, 4, 1, 5)), torch.zeros(1, 5)
    maps, pair = model.at(torch.zeros(1)), Dual(y, y)
    batch = Evaluated(model, maps, y, y, torch.zeros(1, 1), pair, pair, torch.ones(5), None, None)
    assert torch.equal(LipschitzBound(target=1e9).value(batch).detach(), torch.tensor(0.0))
