"""The twelve coupled angles: the published table, its derivatives, and the crossing of zero."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import jvp

from romkit.systems.pendulum import couple

ZERO = torch.zeros(4, dtype=torch.float64)


def original_table(q):
    """The context-free coupling of Friedl et al. (2025), as printed."""
    q1, q2, q3, q4 = q
    return [
        q3 - np.cos(q2),
        q1 + 0.1 * np.sin(q2),
        q4 * np.cos(q2),
        q1 + q3**2,
        1.5 * np.sin(q2),
        -q4 * q1,
        np.sin(q1),
        0.4 * q3 * q4,
        -0.9 * q1 - q2 + q3 - 2 * q4**2,
        -3 * np.sin(q3),
        -2 * q3**2,
        -0.9 * q1**2,
    ]


def contextual_table(q, c):
    """The context-dependent coupling as printed, with |q| under the power."""
    (q1, q2, q3, q4), (l1, l2, l3, l4) = q, c
    return [
        q3 - np.cos(2 * l2 * q2),
        q1 + 2 * l1 * 0.1 * np.sin(2 * l2 * q2),
        q4 * np.cos(2 * l4 * q2),
        q1 + abs(q3) ** (2 * 2 * l3),
        2 * l2 * 1.5 * np.sin(q2),
        -(l4 + l1) * q4 * q1,
        np.sin(2 * l1 * q1),
        2 * l3 * 0.4 * q3 * q4,
        -2 * l1 * 0.9 * q1 - q2 + q3 - 2 * abs(q4) ** (2 * 2 * l4),
        -2 * l3 * 3 * np.sin(q3),
        -2 * abs(q3) ** (2 * 2 * l3),
        -0.9 * abs(q1) ** (2 * 2 * l1),
    ]


def vectors(low, high):
    return st.lists(st.floats(low, high), min_size=4, max_size=4).map(lambda x: torch.tensor(x, dtype=torch.float64))


away_from_zero = st.tuples(vectors(0.05, 2.0), st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=4)).map(
    lambda pair: pair[0] * torch.tensor(pair[1], dtype=torch.float64)
)
lengths = vectors(0.2, 0.8)


@settings(max_examples=30)
@given(vectors(-2.0, 2.0), lengths)
def test_values_are_those_of_the_table(q, c):
    state, _, _ = couple(q, ZERO, ZERO, c)
    assert torch.equal(state[:4], q)
    np.testing.assert_allclose(state[4:].numpy(), contextual_table(q.numpy(), c.numpy()), rtol=1e-12, atol=1e-14)


@settings(max_examples=30)
@given(vectors(-2.0, 2.0))
def test_at_half_a_metre_the_table_is_the_original_one(q):
    state, _, _ = couple(q, ZERO, ZERO, torch.full((4,), 0.5, dtype=torch.float64))
    np.testing.assert_allclose(state[4:].numpy(), original_table(q.numpy()), rtol=1e-12, atol=1e-14)


@settings(max_examples=10)
@given(away_from_zero, vectors(-5.0, 5.0), vectors(-20.0, 20.0), lengths)
def test_derivatives_are_those_of_automatic_differentiation(q, v, a, c):
    def value(q):
        return couple(q, ZERO, ZERO, c)[0]

    def velocity(q, v):
        return jvp(value, (q,), (v,))[1]

    _, lifted_v, lifted_a = couple(q, v, a, c)
    torch.testing.assert_close(lifted_v, velocity(q, v), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(lifted_a, jvp(velocity, (q, v), (v, a))[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("zeros", [[0], [2], [3], [0, 1, 2, 3]])
def test_everything_is_finite_at_zero(zeros):
    c = torch.tensor([0.2, 0.35, 0.5, 0.65, 0.8], dtype=torch.float64).unsqueeze(-1).expand(5, 4)
    q, v, a = (torch.full((5, 4), x, dtype=torch.float64) for x in (-0.3, 2.0, 5.0))
    q[:, zeros] = 0.0
    inputs = [x.clone().requires_grad_() for x in (q, v, a, c)]
    values = couple(*inputs)
    gradients = torch.autograd.grad(sum(x.sum() for x in values), inputs)
    assert all(x.isfinite().all() for x in (*values, *gradients))


def test_curvature_at_zero_is_exact_where_it_exists():
    v, half, long = (torch.full((4,), x, dtype=torch.float64) for x in (2.0, 0.5, 0.6))
    _, _, parabola = couple(ZERO, v, ZERO, half)
    assert parabola[14].item() == pytest.approx(-2 * 2 * 2.0**2)  # (-2 q²)¨ = -4 q̇² at q = 0
    _, _, flat = couple(ZERO, v, ZERO, long)
    assert flat[14].item() == 0.0
