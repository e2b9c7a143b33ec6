"""The MuJoCo simulation of many chains: the model, output times, divergence, threads."""

import numpy as np
import pytest
import torch

from romkit.systems import Pendulum
from romkit.systems.mujoco import engine
from tests.refusals import refused

DT = 1e-3


def simulate(q0, v0, lengths, times, threads=1):
    """Angles and velocities (N, T, 4) and where they are finite, of chains that start at q0 and v0 (N, 4)."""
    models = lambda step: [engine.compile_chain(row, step) for row in lengths.tolist()]  # noqa: E731
    parts = lambda y: np.split(y, 2, -1)  # noqa: E731
    solver = engine.Simulator("MuJoCo RK4", DT, models, parts, lambda q, v: np.concatenate([q, v], -1))
    solver.threads = threads
    start = torch.from_numpy(np.concatenate([q0, v0], -1))
    states = solver(lambda t, y: y, start, torch.from_numpy(times)).states.numpy()
    return *np.split(states, 2, -1), np.isfinite(states).all(-1)


def members(count, seed=0):
    rng = np.random.default_rng(seed)
    q0, v0 = rng.uniform(-1, 1, (count, 4)), rng.normal(size=(count, 4))
    return q0, v0, rng.uniform(0.35, 0.65, (count, 4))


def test_output_is_at_any_times_and_takes_the_fewest_equal_steps(monkeypatch):
    state = members(3)
    fine, coarse, single = (simulate(*state, np.arange(n) * dt)[0] for n, dt in ((101, DT), (21, 5 * DT), (1, DT)))
    np.testing.assert_allclose(coarse, fine[:, ::5], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(single[:, 0], state[0])
    steps, compiled = [], engine.compile_chain
    monkeypatch.setattr(engine, "compile_chain", lambda row, step: steps.append(step) or compiled(row, step))
    simulate(*members(1), np.arange(4) * 2.5e-3)
    simulate(*members(1), np.arange(4) * 0.4e-3)
    simulate(*members(1), np.arange(3000, dtype=np.float32)[:50] * np.float32(DT))
    assert steps == pytest.approx([2.5e-3 / 3, 0.4e-3, DT])


def test_calls_are_chunked_without_a_trace(monkeypatch):
    state, times = members(3), np.arange(50) * DT
    whole = simulate(*state, times)
    monkeypatch.setattr("romkit.systems.mujoco.engine.STEPS_PER_CALL", 20)
    np.testing.assert_array_equal(simulate(*state, times)[0], whole[0])
    np.testing.assert_array_equal(simulate(*state, times, threads=2)[1], whole[1])


@pytest.mark.parametrize(("threads", "steps_per_call"), [(1, 50_000), (2, 30)])
def test_divergence_is_marked_and_stays_with_its_member(threads, steps_per_call, monkeypatch, tmp_path, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("romkit.systems.mujoco.engine.STEPS_PER_CALL", steps_per_call)
    q0, v0, lengths = members(5)
    q0[2], v0[2], lengths[2] = 0.2, [0, 0, 0, 2.5e3], 0.5  # takes a few steps to diverge
    v0[1, 0], q0[3, 2] = 2e5, np.nan
    times = np.arange(40) * DT
    q, _, alive = simulate(q0, v0, lengths, times, threads=threads)
    assert alive[0].all()
    assert alive[4].all()
    assert 1 < alive[2].sum() < 20
    assert alive[1].tolist() == [True] + [False] * 39
    assert not alive[3].any()
    np.testing.assert_array_equal(q[[0, 4]], simulate(q0[[0, 4]], v0[[0, 4]], lengths[[0, 4]], times)[0])
    assert list(tmp_path.iterdir()) == []  # MuJoCo would write MUJOCO_LOG.TXT
    assert "WARNING" not in "".join(capfd.readouterr())


def test_times_that_are_not_equally_spaced_and_lengths_that_are_not_positive_are_refused():
    refused("times: expected equally spaced times", simulate, *members(1), np.array([0.0, 1e-3, 3e-3]))
    for length in (0.0, -0.4, np.nan):
        lengths = torch.tensor([[0.4] * 4, [0.4, 0.4, length, 0.4]])
        refused("context: expected positive link lengths", Pendulum().make_solver, lengths)
