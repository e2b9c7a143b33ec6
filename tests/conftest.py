"""Shared fixtures: one thread per worker, and small datasets."""

import hypothesis
import pytest
import torch

import romkit

# The same examples in every run: a law that fails, fails for everybody.
hypothesis.settings.register_profile("romkit", derandomize=True, deadline=None)
hypothesis.settings.load_profile("romkit")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def lorenz():
    """A Lorenz96 whose transient is cut short: quick, and good enough to train on in a test."""
    return romkit.systems.Lorenz96(transient=5.0)


@pytest.fixture(scope="session")
def lorenz_data(lorenz):
    return lorenz.dataset(F=[3.14, 3.15, 3.18], duration=1.0)
