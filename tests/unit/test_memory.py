"""Memory that is left, and runs that would not fit."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import romkit
from romkit.core.memory import available
from romkit.errors import InputError


def test_runs_that_do_not_fit_are_refused_in_words(monkeypatch):
    t = np.linspace(0, 1, 11)
    states = np.random.default_rng(0).normal(size=(4, 11, 3))
    runs = romkit.data.from_arrays(states, t, context={"c": np.arange(4.0)})
    monkeypatch.setattr(importlib.import_module("romkit.core.memory"), "available", lambda: 4000.0)
    with pytest.raises(InputError, match=r"source: .* GB"):
        romkit.learn(runs)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses are those of Linux")
def test_the_limit_of_addresses_counts():
    code = (
        "import resource; from romkit.core.memory import available; before = available();"
        "resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34)); print(before, available())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = map(float, done.stdout.split())
    assert 0 < after <= min(before, 2**34)
    assert available() > 0


def test_what_no_memory_holds_is_refused_at_once():
    states = np.random.default_rng(0).normal(size=(4, 11, 3))
    runs = romkit.data.from_arrays(states, 0.1, context={"c": np.arange(4.0)})
    with pytest.raises(InputError, match="degree"):
        romkit.fit("polynomial-manifold", runs, latent_dim=2, degree=10**7)
    with pytest.raises(InputError, match="duration"):
        romkit.systems.Lorenz96(transient=0.0).dataset(F=3.0, duration=1e9)
