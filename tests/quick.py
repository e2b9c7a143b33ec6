"""Choices of laws that take no time, for tests of what a law is compared with."""

import contextlib
from collections.abc import Iterator

import pytest

from romkit.laws import LAWS, PolynomialLaw

LINEAR = PolynomialLaw(degree=1, context_degree=1)


@contextlib.contextmanager
def linear_laws_only() -> Iterator[None]:
    """`romkit.learn` tries one linear law wherever it tries kinds of its own choice.

    With `kinds` it would compare no interpolation and no coordinates with that law.
    """
    with pytest.MonkeyPatch.context() as patch:
        laws = dict.fromkeys(LAWS, lambda: LINEAR)
        patch.setattr("romkit.learning.manifolds.LAWS", laws)
        yield
