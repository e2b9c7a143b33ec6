"""Soap: Adam in the eigenbases of the gradients, for all seeds at once."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from romkit.training.optimizers import Adam, Soap, _sides, _turned
from tests.unit.training.test_riemannian_adam import problem, run

SOAP = Soap(clip=1.0, period=2)
METHODS = ("ncae", "flow", "film-ae")


@pytest.mark.parametrize("method", METHODS)
def test_in_the_bases_of_the_coordinates_it_is_adam(method):
    moments = {"clip": 0.5, "weight_decay": 1e-2, "beta1": 0.95, "beta2": 0.99}
    soap, _, flat = run(Soap(**moments, period=1000), 5, method)
    adam, _, _ = run(Adam(**moments), 5, method)
    assert torch.allclose(soap.theta, adam.theta, rtol=0, atol=1e-12)
    matrices = flat.matrices(soap.theta)
    assert torch.equal(flat.from_matrices(matrices), soap.theta)
    assert sum(x.shape[1] for x in matrices) == len(flat.names)
    assert len({x.shape[2:] for x in matrices}) == len(matrices)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), method=st.sampled_from(METHODS))
def test_rotated_matrices_take_rotated_steps(seed, method):
    """In coordinates A W Bᵀ of each matrix, with A and B orthogonal, a step is that of W, in these coordinates."""
    optimizer = replace(SOAP, clip=math.inf)
    state, _, flat = run(optimizer, 3, method)
    draw = torch.Generator().manual_seed(seed)
    sides = _sides(flat.matrices(state.theta))
    sizes = [flat.matrices(state.theta)[k].shape for k, _ in sides]
    rotations = [_orthogonal(shape, axis, draw) for shape, (_, axis) in zip(sizes, sides, strict=True)]

    def rotated(vector):
        return flat.from_matrices(_turned(flat.matrices(vector), sides, [A.mT for A in rotations]))

    count = len(sides)
    first, second, bases = *state.moments[:2], state.moments[2 + count :]
    means = [_orthogonal(shape, axis, draw) for shape, (_, axis) in zip(sizes, sides, strict=True)]
    means = [Q @ torch.diag_embed(torch.rand(Q.shape[:-1], generator=draw) + 0.1).double() @ Q.mT for Q in means]
    state = state._replace(moments=(first, second, *means, *bases))
    means = [A @ mean @ A.mT for A, mean in zip(rotations, means, strict=True)]
    bases = [A @ Q for A, Q in zip(rotations, bases, strict=True)]
    other = state._replace(theta=rotated(state.theta), moments=(rotated(first), second, *means, *bases))
    gradient, lr = torch.randn(state.theta.shape, generator=draw, dtype=torch.float64), torch.full((3, 1), 1e-2)
    moved, _ = optimizer.update(optimizer.between(state, 4), gradient, lr, flat)
    same, _ = optimizer.update(optimizer.between(other, 4), rotated(gradient), lr, flat)
    assert not torch.allclose(rotated(moved), moved, rtol=0, atol=1e-2)
    assert torch.allclose(same, rotated(moved), rtol=0, atol=1e-9)


def _orthogonal(shape, axis, draw):
    size = shape[axis]
    return torch.linalg.qr(torch.randn(*shape[:2], size, size, generator=draw, dtype=torch.float64)).Q


def test_bases_become_the_eigenvectors_of_the_mean_square():
    _, flat = problem("film-ae")
    state = SOAP.start(flat.read(), flat)
    count = len(state.moments) // 2 - 1
    spread = [2.0 ** -torch.arange(mean.shape[-1]).double() for mean in state.moments[2 : 2 + count]]
    draw = torch.Generator().manual_seed(0)
    means = []
    for mean, values in zip(state.moments[2 : 2 + count], spread, strict=True):
        Q = _orthogonal(mean.shape, -1, draw)
        means.append(Q @ torch.diag(values) @ Q.mT)
    state = state._replace(moments=(*state.moments[:2], *means, *state.moments[2 + count :]))
    for _ in range(60):
        state = SOAP.between(state, 2)
    for mean, values, Q in zip(means, spread, state.moments[2 + count :], strict=True):
        assert torch.allclose(Q.mT @ mean @ Q, torch.diag(values).expand_as(mean), rtol=0, atol=1e-9)
