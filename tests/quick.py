"""Choices of laws that take no time, for tests of what a law is compared with."""

import contextlib
from collections.abc import Iterator

import pytest

from romkit.laws import PolynomialLaw

LINEAR = PolynomialLaw(degree=1, context_degree=1)


@contextlib.contextmanager
def linear_laws_only() -> Iterator[None]:
    """`romkit.learn` tries one linear law wherever it tries kinds of its own choice.

    With `kinds` it would compare no interpolation with that law.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("romkit.learning.candidates.law_settings", lambda kind: LINEAR)
        yield
