"""Shared fixtures: one thread per worker, a GPU for the tests that ask for it, and small datasets."""

import os

import hypothesis
import pytest
import torch

import romkit

# The same examples in every run: a law that fails, fails for everybody.
hypothesis.settings.register_profile("romkit", derandomize=True, deadline=None)
hypothesis.settings.load_profile("romkit")


# `fit` takes a GPU where there is one, but what a CPU gives, bit for bit, is what most tests are
# about.
GPU = torch.cuda.is_available()
torch.cuda.is_available = lambda: False
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # of what tests start; this process has looked before


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not GPU:
        pytest.skip("needs a GPU")


@pytest.fixture(autouse=True)
def _gpu(request, monkeypatch):
    if request.node.get_closest_marker("gpu"):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


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


@pytest.fixture(scope="session")
def projection(lorenz_data):
    """An NcAE of `lorenz_data`, trained for moments; no test may change it."""
    return romkit.fit("ncae", lorenz_data, seed=1, epochs=4)
