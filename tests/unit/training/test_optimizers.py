"""Optimizers of romkit, of torch and of geoopt: all seeds at once, never off the manifold, with
geoopt's steps.
"""

import functools
import itertools
import math
from dataclasses import replace

import geoopt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import romkit
from benchmarks.optimizers.geometry import Cayley, InvariantMetric
from romkit.core.errors import DivergenceWarning
from romkit.projections import METHODS, Frame, architecture, stack, unstack
from romkit.projections.geometry import EuclideanMetric, Fractional, overlap
from romkit.projections.manifold import BiorthogonalManifold
from romkit.training import Penalty, Reconstruction, SnapshotTraining
from romkit.training.batches import FlatParameters
from romkit.training.loss import Objective
from romkit.training.optimizers import Adam, RiemannianAdam, Soap, TorchOptimizer, _sides, _turned
from tests.refusals import refused
from tests.unit.training.test_fit import parameters

SEEDS = (0, 1, 2)
LR = 2e-2
# also what keeps the innermost slope, on which the reconstruction does not depend, from noise
WEIGHT_DECAY = 1e-2

GEOMETRIES = list(
    itertools.product((EuclideanMetric(), InvariantMetric()), (Fractional(), Cayley()))
)


def problem(method="ncae", seeds=SEEDS):
    """A small float64 stack with its loss."""
    names = tuple(f"x{k}" for k in range(6))
    frame = Frame("", names, ("1",) * 6, ("c0", "c1"), ("1", "1"))
    kind = METHODS[method]
    sizes = architecture(kind, frame, layers=(2, 4, 6))
    models = [kind(frame, torch.Generator().manual_seed(seed), **sizes) for seed in seeds]
    objective = Objective(stack(models).double(), [Reconstruction(), Penalty()]).double()
    return objective, FlatParameters(objective.projection)


def batch(step, seeds=SEEDS):
    draws = [torch.Generator().manual_seed(1000 * step + seed) for seed in seeds]
    return [
        torch.stack([torch.randn(16, n, generator=g, dtype=torch.float64) for g in draws])
        for n in (6, 6, 2)
    ]


def run(optimizer, steps, method="ncae", seeds=SEEDS, *, spoil=lambda step, data: data):
    objective, flat = problem(method, seeds)
    step = optimizer.make_step(flat.function(objective), flat)
    state = optimizer.start(flat.read(), flat)
    lr = torch.full((len(seeds), 1), LR, dtype=torch.float64)
    losses = []
    for k in range(steps):
        state, loss = step(optimizer.between(state, k), lr, *spoil(k, batch(k, seeds)))
        losses.append(loss)
    return state, torch.stack(losses), flat


def infeasibility(flat, theta):
    return max(
        (overlap(x) - torch.eye(x.shape[-1])).abs().max().item() for x in flat.split(theta)[0]
    )


OPTIMIZERS = [
    Soap(clip=1.0, period=2),
    *(RiemannianAdam(metric=m, retraction=r, clip=1.0) for m, r in GEOMETRIES),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_a_seed_means_the_same_alone_and_in_a_stack_and_freezes_alone_when_it_diverges(optimizer):
    def spoil(step, data):
        if step == 5:
            data[0][1] = torch.nan
        return data

    healthy, before, alone = (
        run(optimizer, 10)[0],
        run(optimizer, 5)[0],
        run(optimizer, 10, seeds=SEEDS[1:2])[0],
    )
    assert torch.allclose(healthy.theta[1], alone.theta[0], rtol=0, atol=1e-9)
    state, _, _ = run(optimizer, 10, spoil=spoil)
    assert state.alive.flatten().tolist() == [True, False, True]
    assert torch.equal(state.theta[[0, 2]], healthy.theta[[0, 2]])
    assert torch.equal(state.theta[1], before.theta[1])


def test_without_biorthogonal_pairs_it_is_adam():
    for method in ("soft-ncae", "ae"):
        settings = {"clip": 0.5, "weight_decay": WEIGHT_DECAY}
        riemannian, _, flat = run(RiemannianAdam(**settings), 5, method)
        assert torch.equal(riemannian.theta, run(Adam(**settings), 5, method)[0].theta)
        assert flat.split(riemannian.theta)[0] == []


def test_pairs_that_start_off_the_manifold_are_put_on_it_without_a_change_of_the_model():
    objective, flat = problem()
    theta = flat.read()
    pairs, rest = flat.split(theta)
    noise = torch.Generator().manual_seed(0)
    pairs = [x + 0.2 * torch.randn(x.shape, generator=noise, dtype=x.dtype) for x in pairs]
    theta = flat.join(pairs, rest)
    state = RiemannianAdam().start(theta, flat)
    assert infeasibility(flat, theta) > 0.1
    assert infeasibility(flat, state.theta) < 1e-13
    loss = flat.function(objective)
    assert torch.allclose(loss(theta, *batch(0)), loss(state.theta, *batch(0)), rtol=1e-12)


def test_float32_stays_on_the_manifold_at_the_rate_of_the_paper():
    objective, flat = problem()
    objective = objective.float()
    optimizer = RiemannianAdam()
    step = optimizer.make_step(flat.function(objective), flat)
    state = optimizer.start(flat.read(), flat)
    assert state.theta.dtype == torch.float32
    lr = torch.full((len(SEEDS), 1), 5e-2)
    for k in range(60):
        state, losses = step(state, lr, *(tensor.float() for tensor in batch(k)))
    assert bool(losses.isfinite().all())
    assert infeasibility(flat, state.theta.double()) < 2e-6


@pytest.mark.parametrize("method", ["ncae", "context-cae", "soft-ncae", "ae"])
def test_flat_parameters_are_cut_and_joined(method):
    objective, flat = problem(method)
    theta = torch.arange(3 * sum(flat.sizes), dtype=torch.float64).reshape(3, -1)
    pairs, rest = flat.split(theta)
    assert torch.equal(flat.join(pairs, rest), theta)
    flat.write(theta)
    weights = list(getattr(objective.projection, "weights", []))
    for x, weight in zip(pairs, weights, strict=False):
        assert torch.equal(x, torch.stack([weight.phi, weight.psi], 1))
    assert len(pairs) == (len(weights) if method in ("ncae", "context-cae") else 0)


ADAMW = functools.partial(torch.optim.AdamW, lr=1e-2)
GEOOPT = functools.partial(geoopt.optim.RiemannianAdam, lr=5e-2)


@pytest.mark.parametrize(("metric", "retraction"), GEOMETRIES, ids=lambda part: type(part).__name__)
def test_geoopt_makes_the_steps_of_our_riemannian_adam(metric, retraction, monkeypatch):
    manifold = BiorthogonalManifold(metric, retraction)
    put = lambda pair: geoopt.ManifoldParameter(manifold.projx(pair), manifold=manifold)  # noqa: E731
    monkeypatch.setattr("romkit.projections.manifold.constrain_pair", put)
    factory = functools.partial(geoopt.optim.RiemannianAdam, lr=LR, weight_decay=WEIGHT_DECAY)
    theirs, losses, flat = run(TorchOptimizer(factory, learning_rate=LR), 12)
    ours, same, _ = run(
        RiemannianAdam(metric=metric, retraction=retraction, weight_decay=WEIGHT_DECAY), 12
    )
    assert infeasibility(flat, theirs.theta) < 1e-14
    assert infeasibility(flat, ours.theta) < 1e-14
    assert bool((losses[-6:].mean(0) < losses[:6].mean(0)).all())
    assert torch.allclose(losses, same, rtol=1e-12)
    assert torch.allclose(theirs.theta, ours.theta, rtol=0, atol=1e-11)


def test_torch_makes_the_steps_of_our_adam_with_clipping():
    factory = functools.partial(torch.optim.Adam, lr=LR)
    theirs, losses, flat = run(TorchOptimizer(factory, learning_rate=LR, clip=0.5), 20)
    ours, same, _ = run(Adam(clip=0.5), 20)
    assert torch.allclose(losses, same, rtol=1e-9)
    # the gradient of the innermost slope is rounding, which Adam divides by its size
    slope = flat._split(theirs.theta)["slopes.0.weight"]
    assert (theirs.theta - ours.theta).abs().gt(1e-7).sum() <= slope.numel()


def test_optimizers_that_evaluate_the_loss_again_work():
    optimizer = TorchOptimizer(
        functools.partial(torch.optim.LBFGS, lr=0.1, max_iter=3), learning_rate=LR
    )
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
    healthy = romkit.fit(
        "ncae", lorenz_data, seeds=[5, 7], epochs=2, optimizer=lambda p: torch.optim.SGD(p, lr=1e-3)
    )
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
        made.append(
            torch.optim.SGD(
                [{"params": group[:half], "lr": 0.1}, {"params": group[half:], "lr": 0.3}]
            )
        )
        return made[-1]

    optimizer = SnapshotTraining(optimizer=factory, learning_rate=0.5).make_optimizer()
    step = optimizer.make_step(flat.function(objective), flat)
    step(
        optimizer.start(flat.read(), flat),
        torch.full((1, 1), 0.125, dtype=torch.float64),
        *batch(0, SEEDS[:1]),
    )
    assert [group["lr"] for group in made[-1].param_groups] == pytest.approx([0.025, 0.075])


def test_what_a_factory_cannot_do_is_refused_in_one_line(lorenz_data, tmp_path):
    for more, fact in (
        ({"checkpoint": tmp_path}, "checkpoint"),
        ({"engine": "compiled"}, "engine"),
        (
            {"optimizer": lambda p: 3},
            "optimizer",
        ),
    ):
        refused(fact, romkit.fit, "ae", lorenz_data, epochs=1, **{"optimizer": ADAMW} | more)


def test_a_list_of_terms_is_their_sum():
    objective, _ = problem()
    alone = [
        Objective(objective.projection, [term]).double()(*batch(0))
        for term in (Reconstruction(0.5), Penalty(2.0))
    ]
    both = Objective(objective.projection, [Reconstruction(0.5), Penalty(2.0)]).double()(*batch(0))
    assert torch.allclose(both, sum(alone), rtol=1e-14)


SOAP = Soap(clip=1.0, period=2)
KINDS = ("ncae", "flow", "film-ae")


@pytest.mark.parametrize("method", KINDS)
def test_in_the_bases_of_the_coordinates_it_is_adam(method):
    moments = {"clip": 0.5, "weight_decay": 1e-2, "beta1": 0.95, "beta2": 0.99}
    soap, _, flat = run(Soap(**moments, period=1000), 5, method)
    adam, _, _ = run(Adam(**moments), 5, method)
    assert torch.allclose(soap.theta, adam.theta, rtol=0, atol=1e-12)
    matrices = flat.matrices(soap.theta)
    assert torch.equal(flat.join_matrices(matrices), soap.theta)
    assert sum(x.shape[1] for x in matrices) == len(flat.names)
    assert len({x.shape[2:] for x in matrices}) == len(matrices)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), method=st.sampled_from(KINDS))
def test_rotated_matrices_take_rotated_steps(seed, method):
    """In coordinates A W Bᵀ of each matrix, with A and B orthogonal, a step is that of W, in these
    coordinates.
    """
    optimizer = replace(SOAP, clip=math.inf)
    state, _, flat = run(optimizer, 3, method)
    draw = torch.Generator().manual_seed(seed)
    sides = _sides(flat.matrices(state.theta))
    sizes = [flat.matrices(state.theta)[k].shape for k, _ in sides]
    rotations = [
        _orthogonal(shape, axis, draw) for shape, (_, axis) in zip(sizes, sides, strict=True)
    ]

    def rotated(vector):
        return flat.join_matrices(_turned(flat.matrices(vector), sides, [A.mT for A in rotations]))

    count = len(sides)
    first, second, bases = *state.moments[:2], state.moments[2 + count :]
    means = [_orthogonal(shape, axis, draw) for shape, (_, axis) in zip(sizes, sides, strict=True)]
    means = [
        Q @ torch.diag_embed(torch.rand(Q.shape[:-1], generator=draw) + 0.1).double() @ Q.mT
        for Q in means
    ]
    state = state._replace(moments=(first, second, *means, *bases))
    means = [A @ mean @ A.mT for A, mean in zip(rotations, means, strict=True)]
    bases = [A @ Q for A, Q in zip(rotations, bases, strict=True)]
    other = state._replace(
        theta=rotated(state.theta), moments=(rotated(first), second, *means, *bases)
    )
    gradient, lr = (
        torch.randn(state.theta.shape, generator=draw, dtype=torch.float64),
        torch.full((3, 1), 1e-2),
    )
    moved, _ = optimizer.update(optimizer.between(state, 4), gradient, lr, flat)
    same, _ = optimizer.update(optimizer.between(other, 4), rotated(gradient), lr, flat)
    assert not torch.allclose(rotated(moved), moved, rtol=0, atol=1e-2)
    assert torch.allclose(same, rotated(moved), rtol=0, atol=1e-9)


def _orthogonal(shape, axis, draw):
    size = shape[axis]
    return torch.linalg.qr(
        torch.randn(*shape[:2], size, size, generator=draw, dtype=torch.float64)
    ).Q


def test_bases_become_the_eigenvectors_of_the_mean_square():
    _, flat = problem("film-ae")
    state = SOAP.start(flat.read(), flat)
    count = len(state.moments) // 2 - 1
    spread = [
        2.0 ** -torch.arange(mean.shape[-1]).double() for mean in state.moments[2 : 2 + count]
    ]
    draw = torch.Generator().manual_seed(0)
    means = []
    for mean, values in zip(state.moments[2 : 2 + count], spread, strict=True):
        Q = _orthogonal(mean.shape, -1, draw)
        means.append(Q @ torch.diag(values) @ Q.mT)
    state = state._replace(moments=(*state.moments[:2], *means, *state.moments[2 + count :]))
    for _ in range(60):
        state = SOAP.between(state, 2)
    for mean, values, Q in zip(means, spread, state.moments[2 + count :], strict=True):
        assert torch.allclose(
            Q.mT @ mean @ Q, torch.diag(values).expand_as(mean), rtol=0, atol=1e-9
        )
