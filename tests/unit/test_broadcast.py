"""Operations for layers of one's own: against einsum and loops, and what they refuse."""

import itertools

import numpy as np
import pytest
import torch

from romkit.broadcast import align, linear_solve, matmul, matvec, pairs
from romkit.errors import InputError

SIZES = [(), (3,), (3, 5), (1, 5), (3, 1)]


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def fits(leading, other):
    return all(a == b or 1 in (a, b) for a, b in zip(leading, other, strict=False))


@pytest.mark.parametrize(
    ("of_weight", "of_x"), list(itertools.product(SIZES, [*SIZES, (3, 5, 2), (4, 5)]))
)
def test_leading_axes_match_from_the_left(of_weight, of_x):
    x, weight = numbers(*of_x, 4), numbers(*of_weight, 4, 2, seed=1)
    bias = numbers(*of_weight, 4, seed=2)
    if not fits(of_weight, of_x):
        with pytest.raises(InputError) as caught:
            matmul(x, weight)
        assert caught.value.argument == "weight"
        if len(of_weight) < len(of_x) + 1 and bias.ndim < x.ndim:
            with pytest.raises(InputError) as caught:
                align(bias, x)
            assert caught.value.argument == "parameter"
        return
    axes = max(len(of_weight), len(of_x))
    whole_x = x.reshape(*of_x, *(1,) * (axes - len(of_x)), 4)
    whole_weight = weight.reshape(*of_weight, *(1,) * (axes - len(of_weight)), 4, 2)
    expected = torch.einsum("...i,...ij->...j", whole_x, whole_weight)
    assert torch.allclose(matmul(x, weight), expected, rtol=1e-12)
    if bias.ndim <= x.ndim:
        expected = x + bias.reshape(*of_weight, *(1,) * (x.ndim - bias.ndim), 4)
        assert torch.equal(x + align(bias, x), expected)


def test_products_and_solutions_are_those_of_numpy():
    matrix, vector = numbers(5, 3, 3), numbers(2, 5, 3, seed=1)
    expected = np.einsum("...ij,...j->...i", matrix.numpy(), vector.numpy())
    assert np.allclose(matvec(matrix, vector), expected, rtol=1e-12)
    solution = linear_solve(matrix, vector)
    assert np.allclose(matvec(matrix, solution), vector, rtol=1e-9)
    rows, columns = np.triu_indices(3)
    a, b = vector[0], vector[1]
    assert torch.equal(pairs(a, b), a[:, rows] * b[:, columns])


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: align(torch.ones(3, 4), torch.ones(2, 5, 4)), "parameter"),
        (lambda: align(torch.tensor(1.0), torch.ones(2)), "parameter"),
        (lambda: align([1.0], torch.ones(2)), "parameter"),
        (lambda: align(torch.ones(2), None), "x"),
        (lambda: matmul(torch.ones(2, 3), torch.ones(4, 2)), "weight"),
        (lambda: matmul(torch.ones(2, 3), torch.ones(3)), "weight"),
        (lambda: matmul(torch.ones(2, 3), torch.ones(3, 2).double()), "weight"),
        (lambda: matmul(np.ones(3), torch.ones(3, 2)), "x"),
        (lambda: matvec(torch.ones(2, 3, 4), torch.ones(5, 4)), "vector"),
        (lambda: matvec(torch.ones(3, 4), torch.ones(3)), "vector"),
        (lambda: matvec(torch.ones(3), torch.ones(3)), "matrix"),
        (lambda: linear_solve(torch.ones(3, 4), torch.ones(4)), "matrix"),
        (lambda: linear_solve(torch.eye(3), torch.tensor(1.0)), "vector"),
        (lambda: pairs(torch.ones(3), torch.ones(4)), "b"),
        (lambda: pairs(torch.ones(0), torch.ones(0)), "b"),
        (lambda: pairs(torch.ones(2, 3), torch.ones(5, 3)), "b"),
    ],
)
def test_what_does_not_match_is_refused_by_name(call, argument):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == argument
    assert "\n" not in str(caught.value)
