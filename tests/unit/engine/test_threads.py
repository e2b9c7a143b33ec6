"""What a process shares is as it was before, and threads of a program do not disturb each other."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import romkit
from romkit.engine.threads import one_thread


@pytest.fixture
def three_threads():
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(1)


def test_the_number_of_threads_is_restored(three_threads):
    with one_thread():
        assert torch.get_num_threads() == 1
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("first_out", ["first in", "last in"])
def test_threads_that_overlap_leave_with_what_they_found(three_threads, first_out):
    gates, numbers = {name: (threading.Event(), threading.Event()) for name in "ab"}, {}

    def work(name):
        with one_thread():
            gates[name][0].set()
            gates[name][1].wait(10)
            numbers[name, "in"] = torch.get_num_threads()
        numbers[name, "out"] = torch.get_num_threads()

    threads = [threading.Thread(target=work, args=name) for name in "ab"]
    for thread, name in zip(threads, "ab", strict=True):
        thread.start()
        gates[name][0].wait(10)
    for k in (0, 1) if first_out == "first in" else (1, 0):
        gates["ab"[k]][1].set()
        threads[k].join()
    assert numbers == {("a", "in"): 1, ("b", "in"): 1, ("a", "out"): 3, ("b", "out"): 3}
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3


@pytest.mark.parametrize("engine", ["torch", "compiled"])
def test_two_rollouts_at_once_are_those_of_one(lorenz, three_threads, engine):
    ncae = romkit.load("ncae-lorenz96")

    def run(F):
        return romkit.rollout(lorenz, ncae, F=[F, F + 0.01], duration=0.2, dt=0.05, engine=engine)

    alone = [run(F) for F in (3.14, 3.16)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            together = list(pool.map(run, (3.14, 3.16)))
            for one, other in zip(alone, together, strict=True):
                assert all(
                    np.array_equal(one[name], other[name], equal_nan=True) for name in one.data_vars
                )
    assert torch.get_num_threads() == 3


@pytest.fixture(scope="module")
def new_process():
    """What an import of romkit changes in a new process, and what its first trace imports."""
    program = """
import json, os, sys, torch
before, dtype, threads = dict(os.environ), torch.get_default_dtype(), torch.get_num_threads()
state = torch.random.get_rng_state()
import romkit, romkit.integrators
from romkit.engine.trace import trace_field
changed = {key: value for key, value in os.environ.items() if before.get(key) != value}
same = dtype == torch.get_default_dtype() and threads == torch.get_num_threads() and "pysindy" not in sys.modules
same = same and torch.equal(state, torch.random.get_rng_state())
weights = torch.ones(10, 3, dtype=torch.float64)
def field(t, y):
    terms = [y[..., 0] * y[..., 1], torch.where(y[..., 2] > 0, y[..., 2], 0.0), y[..., 0].tanh()]
    columns = torch.cat([torch.stack(terms, -1), y, torch.ones_like(y), y[..., :1]], -1)
    return (columns.unsqueeze(-2) @ weights).squeeze(-2)
trace_field(field, torch.ones(4, 3, dtype=torch.float64))
tracers = [name for name in ("torch._dynamo", "sympy") if name in sys.modules]
print(json.dumps({"changed": changed, "same": same, "tracers": tracers}))
"""
    clean = {key: value for key, value in os.environ.items() if key != "MKL_CBWR"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=clean, check=True
    )
    return json.loads(done.stdout)


def test_importing_changes_one_variable_and_no_default(new_process):
    assert new_process["changed"] == {"MKL_CBWR": "AUTO,STRICT"}
    assert new_process["same"]


def test_a_trace_of_a_law_imports_no_tracer_of_torch(new_process):
    """Its compiler and SymPy take two seconds, which each first rollout would wait for."""
    assert new_process["tracers"] == []
