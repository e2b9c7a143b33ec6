"""Our stacked optimizers, for all seeds at once, and never off the manifold; geoopt's steps are in `test_foreign`."""

import itertools

import pytest
import torch

from benchmarks.optimizers.geometry import Cayley, InvariantMetric
from romkit.projections import METHODS, Frame, architecture, stack
from romkit.projections.layers import EuclideanMetric, Fractional, overlap
from romkit.training import Penalty, Reconstruction
from romkit.training.batches import FlatParameters
from romkit.training.loss import Objective
from romkit.training.optimizers import Adam, RiemannianAdam, Soap

SEEDS = (0, 1, 2)
LR = 2e-2
WEIGHT_DECAY = 1e-2  # also what keeps the innermost slope, on which the reconstruction does not depend, from noise

GEOMETRIES = list(itertools.product((EuclideanMetric(), InvariantMetric()), (Fractional(), Cayley())))


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
    return [torch.stack([torch.randn(16, n, generator=g, dtype=torch.float64) for g in draws]) for n in (6, 6, 2)]


def run(optimizer, steps, method="ncae", seeds=SEEDS, *, backend=None, spoil=lambda step, data: data):
    objective, flat = problem(method, seeds)
    step = optimizer.make_step(flat.function(objective), flat)
    if backend is not None:
        step = torch.compile(step, backend=backend, fullgraph=True)
    state = optimizer.start(flat.read(), flat)
    lr = torch.full((len(seeds), 1), LR, dtype=torch.float64)
    losses = []
    for k in range(steps):
        state, loss = step(optimizer.between(state, k), lr, *spoil(k, batch(k, seeds)))
        losses.append(loss)
    return state, torch.stack(losses), flat


def infeasibility(flat, theta):
    return max((overlap(x) - torch.eye(x.shape[-1])).abs().max().item() for x in flat.split(theta)[0])


OPTIMIZERS = [Soap(clip=1.0, period=2), *(RiemannianAdam(metric=m, retraction=r, clip=1.0) for m, r in GEOMETRIES)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_a_seed_means_the_same_alone_and_in_a_stack_and_freezes_alone_when_it_diverges(optimizer):
    def spoil(step, data):
        if step == 5:
            data[0][1] = torch.nan
        return data

    healthy, before, alone = run(optimizer, 10)[0], run(optimizer, 5)[0], run(optimizer, 10, seeds=SEEDS[1:2])[0]
    assert torch.allclose(healthy.theta[1], alone.theta[0], rtol=0, atol=1e-9)
    state, _, _ = run(optimizer, 10, spoil=spoil)
    assert state.alive.flatten().tolist() == [True, False, True]
    assert torch.equal(state.theta[[0, 2]], healthy.theta[[0, 2]])
    assert torch.equal(state.theta[1], before.theta[1])


def test_the_step_is_one_graph():
    """torch.compile traces it without a break; to generate code takes too long for a test."""
    eager, losses, _ = run(RiemannianAdam(), 3)
    compiled, same, _ = run(RiemannianAdam(), 3, backend="eager")
    assert torch.allclose(same, losses, rtol=1e-12)
    assert torch.allclose(compiled.theta, eager.theta, rtol=0, atol=1e-7)


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
    for k in range(100):
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
