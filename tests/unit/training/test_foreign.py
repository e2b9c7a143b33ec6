"""Optimizers of torch and geoopt: seeds alone, divergence, schedules, and geoopt's steps against ours."""

import functools

import geoopt
import pytest
import torch

import romkit
from romkit.core.errors import DivergenceWarning
from romkit.projections import unstack
from romkit.projections.layers import overlap
from romkit.projections.manifold import BiorthogonalManifold
from romkit.training import Penalty, Reconstruction, SnapshotTraining
from romkit.training.loss import Objective
from romkit.training.optimizers import Adam, Foreign, RiemannianAdam
from tests.refusals import refused
from tests.unit.training.test_fit import parameters
from tests.unit.training.test_riemannian_adam import (
    GEOMETRIES,
    LR,
    SEEDS,
    WEIGHT_DECAY,
    batch,
    infeasibility,
    problem,
    run,
)

ADAMW = functools.partial(torch.optim.AdamW, lr=1e-2)
GEOOPT = functools.partial(geoopt.optim.RiemannianAdam, lr=5e-2)


@pytest.mark.parametrize(("metric", "retraction"), GEOMETRIES, ids=lambda part: type(part).__name__)
def test_geoopt_makes_the_steps_of_our_riemannian_adam(metric, retraction, monkeypatch):
    manifold = BiorthogonalManifold(metric, retraction)
    put = lambda pair: geoopt.ManifoldParameter(manifold.projx(pair), manifold=manifold)  # noqa: E731
    monkeypatch.setattr("romkit.projections.manifold.on_manifold", put)
    factory = functools.partial(geoopt.optim.RiemannianAdam, lr=LR, weight_decay=WEIGHT_DECAY)
    theirs, losses, flat = run(Foreign(factory, learning_rate=LR), 40)
    ours, same, _ = run(RiemannianAdam(metric=metric, retraction=retraction, weight_decay=WEIGHT_DECAY), 40)
    assert infeasibility(flat, theirs.theta) < 1e-14
    assert infeasibility(flat, ours.theta) < 1e-14
    assert bool((losses[-10:].mean(0) < losses[:10].mean(0)).all())
    assert torch.allclose(losses, same, rtol=1e-12)
    assert torch.allclose(theirs.theta, ours.theta, rtol=0, atol=1e-11)


def test_torch_makes_the_steps_of_our_adam_with_clipping():
    factory = functools.partial(torch.optim.Adam, lr=LR)
    theirs, losses, flat = run(Foreign(factory, learning_rate=LR, clip=0.5), 20)
    ours, same, _ = run(Adam(clip=0.5), 20)
    assert torch.allclose(losses, same, rtol=1e-9)
    # the gradient of the innermost slope is rounding, which Adam divides by its size
    slope = flat._split(theirs.theta)["slopes.0.weight"]
    assert (theirs.theta - ours.theta).abs().gt(1e-7).sum() <= slope.numel()


def test_optimizers_that_evaluate_the_loss_again_work():
    optimizer = Foreign(functools.partial(torch.optim.LBFGS, lr=0.1, max_iter=3), learning_rate=LR)
    _, losses, _ = run(optimizer, 8, spoil=lambda step, data: batch(0))
    assert bool((losses[-1] < losses[0]).all())


@pytest.mark.parametrize("factory", [ADAMW, GEOOPT], ids=["torch", "geoopt"])
def test_fit_takes_a_factory_and_records_its_name(lorenz_data, factory, tmp_path):
    settings = {"epochs": 6, "batch_size": 64, "optimizer": factory}
    stacked = romkit.fit("ncae", lorenz_data, seeds=[5, 6], **settings)
    alone = romkit.fit("ncae", lorenz_data, seed=6, **settings)
    assert torch.equal(parameters(alone), parameters(unstack(stacked)[1]))
    assert alone.report["losses"][-1] < 0.9 * alone.report["losses"][0]
    romkit.save(alone, tmp_path / "model.safetensors")
    named = romkit.fit("ae", lorenz_data, epochs=1, optimizer=factory.func)
    assert named.report["recipe"]["snapshots"]["optimizer"] == factory.func.__name__
    if factory is GEOOPT:
        for pair in alone.weights:
            both = torch.stack([pair.phi, pair.psi]).detach()
            assert (overlap(both) - torch.eye(both.shape[-1])).abs().max() < 1e-5


def test_a_diverging_seed_harms_no_other(lorenz_data):
    calls = []

    def factory(group):
        calls.append(group)
        return torch.optim.SGD(group, lr=torch.inf if len(calls) == 2 else 1e-3)

    with pytest.warns(DivergenceWarning, match="seed 6 diverged in epoch 0"):
        stacked = romkit.fit("ncae", lorenz_data, seeds=[5, 6, 7], epochs=2, optimizer=factory)
    healthy = romkit.fit("ncae", lorenz_data, seeds=[5, 7], epochs=2, optimizer=lambda p: torch.optim.SGD(p, lr=1e-3))
    models = unstack(stacked)
    assert [model.report["diverged"] for model in models] == [False, True, False]
    assert parameters(models[1]).isfinite().all()
    for mine, other in zip((models[0], models[2]), unstack(healthy), strict=True):
        assert torch.equal(parameters(mine), parameters(other))


def test_the_schedule_scales_the_rates_that_the_optimizer_has():
    objective, flat = problem(seeds=SEEDS[:1])
    made = []

    def factory(group):
        half = len(group) // 2
        made.append(torch.optim.SGD([{"params": group[:half], "lr": 0.1}, {"params": group[half:], "lr": 0.3}]))
        return made[-1]

    optimizer = SnapshotTraining(optimizer=factory, learning_rate=0.5).make_optimizer()
    step = optimizer.make_step(flat.function(objective), flat)
    step(optimizer.start(flat.read(), flat), torch.full((1, 1), 0.125, dtype=torch.float64), *batch(0, SEEDS[:1]))
    assert [group["lr"] for group in made[-1].param_groups] == pytest.approx([0.025, 0.075])


def test_what_a_factory_cannot_do_is_refused_in_one_line(lorenz_data, tmp_path):
    for more, message in (
        ({"checkpoint": tmp_path}, "checkpoint: expected none with an optimizer"),
        ({"engine": "compiled"}, "engine: expected 'torch' or 'auto' with an optimizer"),
        ({"optimizer": lambda p: 3}, "optimizer: expected what makes an optimizer of torch or geoopt, got int"),
    ):
        refused(message, romkit.fit, "ae", lorenz_data, epochs=1, **{"optimizer": ADAMW} | more)


def test_a_list_of_terms_is_their_sum():
    objective, _ = problem()
    alone = [
        Objective(objective.projection, [term]).double()(*batch(0)) for term in (Reconstruction(0.5), Penalty(2.0))
    ]
    both = Objective(objective.projection, [Reconstruction(0.5), Penalty(2.0)]).double()(*batch(0))
    assert torch.allclose(both, sum(alone), rtol=1e-14)
