"""Terms of the loss: with numbers for each snapshot, with the full model's field, with Lipschitz
bounds.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import romkit
from romkit.certificates import gains
from romkit.core.types import Dual
from romkit.training import (
    ContextSlope,
    Evaluated,
    LipschitzBound,
    LossTerm,
    Penalty,
    Reconstruction,
    RolloutTraining,
)
from romkit.training.loss import log_bound
from tests.properties.test_projection_rules import make
from tests.refusals import refused
from tests.unit.training.test_fit import parameters

SETTINGS = {"seed": 0, "epochs": 2, "engine": "torch"}
PLAIN = (Reconstruction(), Penalty())


@dataclass(frozen=True)
class Along(LossTerm):
    """`weight` times the mean of (gᵀ (y - Py))², g random for each snapshot."""

    weight: float
    needs_field = True

    def attach(self, rows, frame, weights, system):
        return torch.randn(rows.y.shape, generator=torch.Generator().manual_seed(0)).to(rows.y)

    def value(self, batch):
        return self.weight * (batch.extra * (batch.y - batch.decoded.value)).sum(-1).square().mean(
            -1
        )


def test_a_term_changes_the_training_and_is_recorded(lorenz, lorenz_data):
    plain = romkit.fit("ncae", lorenz_data, **SETTINGS)
    with_it = romkit.fit("ncae", lorenz_data, **SETTINGS, loss=[*PLAIN, Along(1.0)], system=lorenz)
    assert not torch.allclose(parameters(plain), parameters(with_it), rtol=0, atol=1e-4)
    assert with_it.report["recipe"]["loss"][-1] == {"term": "Along", "weight": 1.0}


def test_a_seed_means_the_same_alone_and_in_a_stack(lorenz_data):
    settings = SETTINGS | {"loss": [*PLAIN, Along(1.0)]}
    alone = romkit.fit("ncae", lorenz_data, **settings | {"seed": 1})
    stacked = romkit.fit("ncae", lorenz_data, **settings, seeds=[0, 1])
    assert torch.equal(parameters(alone), parameters(romkit.projections.unstack(stacked)[1]))


def test_numbers_of_snapshots_go_with_the_refinements_and_with_noise(lorenz_data, monkeypatch):
    monkeypatch.setattr("romkit.training.phase.SAMPLES", 64)
    monkeypatch.setattr("romkit.training.phase.PARTS", 2)
    refined = {
        "rollouts": RolloutTraining(steps=2, every=1, length=6),
        "phase.steps": 1,
        "layers": (2, 6, 36),
        "state_noise": 0.01,
    }
    model = romkit.fit("ncae", lorenz_data, **SETTINGS, loss=[*PLAIN, Along(1.0)], **refined)
    assert np.isfinite(model.report["rollout_losses"]).all()
    assert np.isfinite(model.report["phase_errors"]).all()


def test_what_terms_are_refused(lorenz_data):
    pendulum = romkit.systems.Pendulum().dataset("train", duration=0.2)
    refused("loss", romkit.fit, "ncae", pendulum, loss=[Along(1.0)])
    refused("loss", romkit.fit, "ncae", lorenz_data, loss=[Along(1.0), Along(2.0)])


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Lower bounds are not looked at here."""
    monkeypatch.setattr(sys.modules["romkit.certificates.certify"], "STEPS", 1)
    monkeypatch.setattr(sys.modules["romkit.certificates.certify"], "POINTS", 1)


@pytest.mark.parametrize("method", ["ncae", "cae"])
def test_the_bound_is_never_below_the_certificate(method):
    model = make(method, (2, 4, 1, 5)).double().requires_grad_(False)
    model.frame.state_scale.fill_(1.5)  # of one unit
    c = model.frame.context_shift
    maps = model.at(model.frame.normalise_context(c))
    assert math.exp(log_bound(maps).max()) >= float(
        romkit.certify(model, c).upper.sel(map="projection")
    ) * (1 - 1e-9)


def test_training_with_it_ends_below_the_target(monkeypatch):
    # certificates stay valid, and are larger
    monkeypatch.setattr(gains, "CUTS", 3)
    data = romkit.systems.Lorenz96(n=8, transient=5.0).dataset(F=[3.14, 3.15, 3.18], duration=0.5)
    settings = {"epochs": 10, "layers": (2, 4, 8), "engine": "torch", "seed": 1}
    free = romkit.fit("ncae", data, **settings, loss=[Reconstruction()])
    kept = romkit.fit(
        "ncae", data, **settings, loss=[Reconstruction(), LipschitzBound(target=4.0, weight=10.0)]
    )
    of_P = [
        float(romkit.certify(model, F=3.15).upper.sel(map="projection")) for model in (free, kept)
    ]
    assert of_P[1] < 4.4
    assert of_P[0] > of_P[1]


def test_what_it_refuses(lorenz_data):
    terms = [Reconstruction(), LipschitzBound()]
    refused(
        "loss",
        romkit.fit,
        "flow",
        lorenz_data,
        epochs=1,
        loss=terms,
    )
    refused("target", LipschitzBound, target=0.0)
    model, y = make("ncae", (2, 4, 1, 5)), torch.zeros(1, 5)
    maps, pair = model.at(torch.zeros(1)), Dual(y, y)
    batch = Evaluated(model, maps, y, y, torch.zeros(1, 1), pair, pair, torch.ones(5), None, None)
    assert torch.equal(LipschitzBound(target=1e9).value(batch).detach(), torch.tensor(0.0))


def test_the_anchor_keeps_latents_near_the_leading_coordinates(lorenz_data):
    pod = romkit.fit("pod", lorenz_data, latent_dim=2)
    expected = pod(lorenz_data).encode(torch.from_numpy(lorenz_data.state.values).float())
    apart = []
    for weight in (0.0, 100.0):
        settings = {"latent_dim": 2, "epochs": 30, "anchor_weight": weight}
        model = romkit.fit("ncae", lorenz_data, **settings)
        z = model(lorenz_data).encode(torch.from_numpy(lorenz_data.state.values).float())
        apart.append(float((z - expected).detach().norm() / expected.norm()))
    assert apart[1] < 0.2
    assert apart[1] < 0.3 * apart[0]


def test_velocities_are_counted_in_the_data_s_own_unit_of_time_with_a_system_as_without():
    """And in that of the paper's systems."""
    system = romkit.systems.KuramotoSivashinsky(transient=50.0)
    (length,) = system.context
    data = system.dataset(L=[length.low, length.high], duration=20 * system.dt)
    known, unknown = (
        romkit.fit("cae", given, latent_dim=2, epochs=2)
        for given in (data, data.drop_attrs(deep=False))
    )
    assert known.report["losses"] == unknown.report["losses"]


def context_slopes(model, data):
    """Slopes of P by the normalised context at snapshots, by central differences."""
    y = model.frame.normalise(torch.tensor(data.state.values[:, ::10])).flatten(0, 1)
    c = model.frame.normalise_context(torch.tensor(data.F.values)[:, None])
    c = c.repeat_interleave(len(y) // len(c), 0)

    def projected(d):
        maps = model.at(d)
        return maps.decode(maps.encode(y))

    return ((projected(c + 1e-4) - projected(c - 1e-4)) / 2e-4).norm(dim=-1).detach()


def test_training_lowers_slopes_by_the_context():
    data = romkit.systems.Lorenz96(n=8, transient=5.0).dataset(F=[3.1, 3.15, 3.2], duration=0.5)
    settings = {"epochs": 10, "layers": (2, 4, 8), "engine": "torch", "seed": 1}
    free = romkit.fit("ncae", data, **settings, loss=[Reconstruction()]).double()
    start = context_slopes(free, data)
    term = ContextSlope(target=float(start.median()) / 4, weight=10.0)
    kept = romkit.fit("ncae", data, **settings, loss=[Reconstruction(), term]).double()
    assert context_slopes(kept, data).mean() < 0.6 * start.mean()
    y, c = torch.zeros(1, 8, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    maps, pair = free.at(c), Dual(y, y)
    batch = Evaluated(free, maps, y, y, c, pair, pair, torch.ones(8).double(), None, None)
    assert not ContextSlope(target=1e9).value(batch).detach().any()
