"""Sums over the products of terms, each product once.

A Gram matrix of monomials has few different entries: 84 of 400 for the cubics in three variables. The product of two
terms is mostly another term times one of a few, so all entries stand in the product of all terms with these few.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

LARGEST = 2**62
"""Numbers that stand for products stay below."""


class Products(NamedTuple):
    """Where the product of rows a and b stands among those of all rows and a few: in row[a, b], column[a, b].

    few (C,) are these few; row and column (K, K) say where.
    """

    few: Tensor
    row: Tensor
    column: Tensor

    def to(self, device: torch.device) -> "Products":
        """On this device."""
        return Products(*(part.to(device) for part in self))


@functools.lru_cache
def every_product(rows: int) -> Products:
    """Each product for itself, as for rows of which nothing is known."""
    index = torch.arange(rows)
    return Products(index, *torch.meshgrid(index, index, indexing="ij"))


@functools.lru_cache
def distinct_products(powers: Sequence[tuple[int, ...]], others: int) -> Products:
    """Few rows, found greedily, whose products with all rows are all products of two rows.

    Args:
        powers: the powers of some factors in each of the first rows; no two are equal.
        others: how many rows follow, of which nothing is known.
    """
    base = 2 * max(map(max, powers), default=0) + 1 if powers[0] else 1
    numbers = [sum(power * base**k for k, power in enumerate(row)) for row in powers]
    numbers += [base ** len(powers[0]) * 3**k for k in range(others)]
    if 2 * max(numbers) > LARGEST:
        return every_product(len(numbers))
    K = len(numbers)
    sums = np.add.outer(numbers, numbers)  # equal where the products are
    product = np.unique(sums, return_inverse=True)[1].reshape(K, K)
    where = np.full((product.max() + 1, 2), -1)
    few = []
    while (where < 0).any():
        best = int((where[product, 0] < 0).sum(axis=1).argmax())
        where[product[best]] = np.stack([np.arange(K), np.full(K, len(few))], axis=-1)
        few.append(best)
    return Products(torch.tensor(few), *torch.from_numpy(where[product]).unbind(-1))
