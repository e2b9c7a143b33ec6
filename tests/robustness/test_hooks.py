"""Methods that a subclass writes: checked where a user calls them, as their base says, and free where romkit does."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from romkit.core.boundary import CALLS
from romkit.core.errors import InputError
from romkit.data import ContextParameter
from romkit.systems import System

SEEN = []


@dataclass(frozen=True)
class Own(System):
    """Without a type in sight, and with names of its own for the arguments."""

    dt: float = 0.1
    duration: float = 0.5
    horizon: float = 0.5
    name = "own"
    state_names = ("a", "b")
    state_units = ("1", "1")
    context = (ContextParameter("k", "1", 0.5, 1.5, "a rate"),)

    def rhs(self, time, y, k):
        SEEN.append((CALLS.own, type(y)))
        return -k * y

    def initial_state(self, contexts, rng):
        return torch.ones(len(contexts), 2, dtype=contexts.dtype)


def test_a_users_method_takes_what_the_base_class_says():
    assert torch.equal(Own().rhs(0.0, np.ones((3, 2)), [2.0]), torch.full((3, 2), -2.0, dtype=torch.float64))
    for words, call in {
        r"y: expected shape \(..., 2\), got shape \(3,\)": lambda: Own().rhs(0.0, torch.ones(3), [2.0]),
        "k: expected leading axes that go with those of y": lambda: Own().rhs(0.0, torch.ones(3, 2), torch.ones(4, 1)),
        "y: expected real numbers": lambda: Own().rhs(0.0, y=torch.ones(2) * 1j, k=[2.0]),
        "rng: expected a numpy.random.Generator": lambda: Own().initial_state(torch.ones(1, 1), rng=3),
    }.items():
        with pytest.raises(InputError, match=words):
            call()


def test_inside_of_romkit_it_is_romkit_that_calls():
    SEEN.clear()
    Own().dataset(k=[1.0, 2.0])
    assert SEEN
    assert all(own for own, _ in SEEN)
    assert not CALLS.own
    with pytest.raises(ZeroDivisionError):
        Own().simulate((torch.ones(1, 2),), lambda t: 1 / 0, [0.0, 0.1])
    assert not CALLS.own
