"""Terms of the loss with numbers of their own for each snapshot, and terms that need the full model's field."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import InputError
from romkit.training import LossTerm, Penalty, Reconstruction, RolloutTraining

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
        return self.weight * (batch.extra * (batch.y - batch.decoded.value)).sum(-1).square().mean(-1)


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


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


def test_numbers_of_snapshots_go_with_the_refinements_and_with_noise(lorenz_data):
    refined = {"rollouts": RolloutTraining(steps=2, every=1, length=12), "phase.steps": 1, "state_noise": 0.01}
    model = romkit.fit("ncae", lorenz_data, **SETTINGS, loss=[*PLAIN, Along(1.0)], **refined)
    assert np.isfinite(model.report["rollout_losses"]).all()
    assert np.isfinite(model.report["phase_errors"]).all()


def test_what_terms_are_refused(lorenz_data):
    pendulum = romkit.systems.Pendulum().dataset("train", duration=0.2)
    with pytest.raises(InputError, match="loss: expected terms for a mechanical system"):
        romkit.fit("ncae", pendulum, loss=[Along(1.0)])
    with pytest.raises(InputError, match="loss: expected one term with numbers of its own, got 2"):
        romkit.fit("ncae", lorenz_data, loss=[Along(1.0), Along(2.0)])
