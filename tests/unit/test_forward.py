"""Derivatives along directions: those of torch.func.jvp, bit for bit."""

import pytest
import torch

from romkit.core.forward import jvp

draw = torch.Generator().manual_seed(0)
X, V = torch.randn(2, 5, dtype=torch.float64, generator=draw)
C = torch.randn(3, 1, dtype=torch.float64, generator=draw)

ARITHMETIC = {
    "x + 1": lambda x: x + 1,
    "1.5 + x": lambda x: 1.5 + x,
    "x - 2": lambda x: x - 2,
    "2 - x": lambda x: 2 - x,
    "3 x": lambda x: 3 * x,
    "x / 7": lambda x: x / 7,
    "7 / x": lambda x: 7 / x,
    "x + True": lambda x: x + True,
    "x + c": lambda x: x + C,
    "c - x": lambda x: C - x,
    "x - c": lambda x: x - C,
    "x c": lambda x: x * C,
    "c x": lambda x: C * x,
    "x / c": lambda x: x / C,
    "c / x": lambda x: C / x,
    "c c + x": lambda x: C * C + x,
    "x x": lambda x: x * x,
    "2 x - c, by functions": lambda x: torch.sub(torch.mul(x, 2), C),
    "x + 2 c": lambda x: torch.add(x, C, alpha=2),
    "c + 2 x": lambda x: torch.add(C, x, alpha=2),
    "c - 3 x": lambda x: torch.sub(C, x, alpha=3),
    "c + c x": lambda x: torch.addcmul(C, C, x),
    "x + x c": lambda x: torch.addcmul(x, x, C[0]),
    "c + x x": lambda x: torch.addcmul(C, x, x),
    "x + 2 c c": lambda x: torch.addcmul(x, C, C, value=2),
    "rounded": lambda x: torch.div(x, C, rounding_mode="floor") + x * x,
    "in place": lambda x: x.clone().mul_(C[0]).add_(1.0),
    "of float32": lambda x: x + C.float(),
    "a point in float32": lambda x: (x.float() + C) + (C - x.float()) * (x.float() / C),
    "of integers": lambda x: x * torch.arange(5) / torch.tensor(3),
    "composed": lambda x: torch.sin(2 * x / C - 1) * (C - x) / (1 + x * x),
}


@pytest.mark.parametrize("function", ARITHMETIC.values(), ids=ARITHMETIC)
def test_values_and_tangents_are_those_of_torch(function):
    def second(derivative):
        return derivative(lambda x: derivative(function, (x,), (V,))[1], (X,), (V,))

    def batched(derivative):
        return torch.func.vmap(lambda x: derivative(function, (x,), (V,))[1])(X * C)

    def gradient(derivative):
        x = X.clone().requires_grad_()
        value, tangent = derivative(function, (x,), (V,))
        return torch.autograd.grad((value.square() + tangent).sum(), x)[0]

    for found, expected in zip(
        jvp(function, (X,), (V,)), torch.func.jvp(function, (X,), (V,)), strict=True
    ):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    for found, expected in zip(second(jvp), second(torch.func.jvp), strict=True):
        assert torch.equal(found, expected)
    assert torch.equal(batched(jvp), batched(torch.func.jvp))
    assert torch.allclose(gradient(jvp), gradient(torch.func.jvp), rtol=1e-14)


def test_states_that_are_lost_keep_their_tangents():
    lost = torch.tensor([torch.inf, torch.nan, 0.0], dtype=torch.float64)
    one = torch.ones(3, dtype=torch.float64)
    for function in (lambda x: 2.0 * x, lambda x: x * one, lambda x: x / one, lambda x: one / x):
        found, expected = (
            derivative(function, (lost,), (one,)) for derivative in (jvp, torch.func.jvp)
        )
        assert torch.equal(found[0].nan_to_num(1e9), expected[0].nan_to_num(1e9))
        assert torch.equal(found[1].nan_to_num(1e9), expected[1].nan_to_num(1e9))


def test_a_graph_keeps_the_operations():
    def slope(x, c):
        return jvp(lambda x: 2 * x * c + 1, (x,), (torch.ones_like(x),))[1]

    compiled = torch.compile(slope, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X, C), slope(X, C))
