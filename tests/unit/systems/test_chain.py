"""The pendulum's chain in closed form, against MuJoCo and textbook limits, and MuJoCo's simulation
of many chains.
"""

import mujoco
import numpy as np
import pytest
import torch

from romkit.systems import Pendulum
from romkit.systems.mujoco import chain, engine
from tests.refusals import refused

LINKS = 4


def mjcf(lengths, timestep=1e-3):
    """The chain as MJCF, independent of the package."""
    bodies = ""
    for length, above in reversed(list(zip(lengths, (0.0, *lengths[:-1]), strict=True))):
        bodies = f"""<body pos="0 0 {-above!r}"><joint type="hinge" axis="0 1 0" damping="0"/>
            <geom type="capsule" size="0.05" mass="1" fromto="0 0 0 0 0 {-length!r}" contype="0" conaffinity="0"/>
            {bodies}</body>"""
    return f"""<mujoco><option timestep="{timestep!r}" integrator="RK4" gravity="0 0 -9.81">
        <flag energy="enable"/></option><worldbody>{bodies}</worldbody></mujoco>"""


def at(q, v, lengths):
    """A MuJoCo model and its data, evaluated at one state."""
    model = mujoco.MjModel.from_xml_string(mjcf([float(x) for x in lengths]))
    data = mujoco.MjData(model)
    data.qpos, data.qvel = q.numpy(), v.numpy()
    mujoco.mj_forward(model, data)
    return model, data


def random_states(count, seed, speed=1.0):
    """Angles over the full circle and both signs, velocities, lengths from 0.15 m to 0.85 m."""
    rng = torch.Generator().manual_seed(seed)
    q = 2 * torch.pi * (torch.rand(count, LINKS, generator=rng, dtype=torch.float64) - 0.5)
    v = speed * torch.randn(count, LINKS, generator=rng, dtype=torch.float64)
    return q, v, 0.15 + 0.7 * torch.rand(count, LINKS, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize("speed", [0.0, 1.0, 30.0])
def test_acceleration_is_that_of_mujoco(speed):
    q, v, lengths = random_states(60, seed=1, speed=speed)
    expected = torch.stack(
        [torch.from_numpy(at(*s)[1].qacc.copy()) for s in zip(q, v, lengths, strict=True)]
    )
    error = (chain.acceleration(q, v, lengths) - expected).abs().amax(-1)
    assert (error <= 1e-8 * expected.abs().amax(-1)).all()


def test_mass_matrix_is_that_of_mujoco():
    q, v, lengths = random_states(30, seed=2)
    for mass, *state in zip(chain.mass_matrix(q, lengths), q, v, lengths, strict=True):
        model, data = at(*state)
        expected = np.zeros((LINKS, LINKS))
        for row, unit in zip(expected, np.eye(LINKS), strict=True):
            mujoco.mj_mulM(
                model, data, row, unit
            )  # mj_fullM has a signature that depends on the version
        np.testing.assert_allclose(mass.numpy(), expected, rtol=1e-10, atol=1e-12)


def test_energy_is_that_of_mujoco():
    q, v, lengths = random_states(30, seed=3, speed=5.0)
    energy = chain.energy(q, v, lengths)
    states, rest = zip(q, v, lengths, strict=True), zip(0 * q, 0 * v, lengths, strict=True)
    theirs, at_rest = (
        torch.tensor([at(*s)[1].energy.sum() for s in each]).double() for each in (states, rest)
    )
    torch.testing.assert_close(energy, theirs - at_rest, rtol=1e-10, atol=1e-10)
    assert (chain.energy(0 * q, 0 * v, lengths) == 0).all()


def test_acceleration_keeps_the_energy():
    q, v, lengths = random_states(100, seed=5, speed=3.0)
    _, power = torch.func.jvp(
        lambda q, v: chain.energy(q, v, lengths), (q, v), (v, chain.acceleration(q, v, lengths))
    )
    assert (
        power.abs() <= 1e-9 * v.square().sum(-1) * chain.acceleration(q, v, lengths).abs().amax(-1)
    ).all()


def test_one_link_is_a_compound_pendulum():
    q, v, lengths = (x[..., :1] for x in random_states(20, seed=6))
    inertia = chain.capsule_inertia(lengths) + chain.MASS * lengths**2 / 4
    expected = -chain.MASS * chain.GRAVITY * lengths / 2 * torch.sin(q) / inertia
    torch.testing.assert_close(chain.acceleration(q, v, lengths), expected)


def test_capsule_inertia_in_its_limits():
    sphere, rod = chain.capsule_inertia(torch.tensor([0.0, 1e4], dtype=torch.float64)).tolist()
    assert sphere == pytest.approx(2 * chain.MASS * chain.RADIUS**2 / 5, rel=1e-4)
    assert rod == pytest.approx(chain.MASS * 1e8 / 12, rel=1e-4)


def test_one_member_that_is_not_finite_leaves_the_others_alone():
    q, v, lengths = random_states(3, seed=8)
    alone = chain.acceleration(q[1:], v[1:], lengths[1:])
    q[0] = torch.nan
    together = chain.acceleration(q, v, lengths)
    assert together[0].isnan().all()
    torch.testing.assert_close(together[1:], alone)


DT = 1e-3


def simulate(q0, v0, lengths, times, threads=1):
    """Angles and velocities (N, T, 4) and where they are finite, of chains that start at q0 and v0
    (N, 4).
    """
    models = lambda step: [engine.compile_chain(row, step) for row in lengths.tolist()]  # noqa: E731
    parts = lambda y: np.split(y, 2, -1)  # noqa: E731
    join = lambda q, v: np.concatenate([q, v], -1)  # noqa: E731
    solver = engine.Simulator("MuJoCo RK4", DT, models, parts, join, threads=threads)
    start = torch.from_numpy(np.concatenate([q0, v0], -1))
    states = solver(lambda t, y: y, start, torch.from_numpy(times)).states.numpy()
    return *np.split(states, 2, -1), np.isfinite(states).all(-1)


def members(count, seed=0):
    rng = np.random.default_rng(seed)
    q0, v0 = rng.uniform(-1, 1, (count, 4)), rng.normal(size=(count, 4))
    return q0, v0, rng.uniform(0.35, 0.65, (count, 4))


def test_output_is_at_any_times_and_takes_the_fewest_equal_steps(monkeypatch):
    state = members(3)
    fine, coarse, single = (
        simulate(*state, np.arange(n) * dt)[0] for n, dt in ((101, DT), (21, 5 * DT), (1, DT))
    )
    np.testing.assert_allclose(coarse, fine[:, ::5], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(single[:, 0], state[0])
    steps, compiled = [], engine.compile_chain
    monkeypatch.setattr(
        engine, "compile_chain", lambda row, step: steps.append(step) or compiled(row, step)
    )
    simulate(*members(1), np.arange(4) * 2.5e-3)
    simulate(*members(1), np.arange(4) * 0.4e-3)
    simulate(*members(1), np.arange(3000, dtype=np.float32)[:50] * np.float32(DT))
    assert steps == pytest.approx([2.5e-3 / 3, 0.4e-3, DT])


def set_steps_per_call(monkeypatch, number):
    defaults = engine.Simulator._integrated.__kwdefaults__
    monkeypatch.setitem(defaults, "steps_per_call", number)


def test_calls_are_chunked_without_a_trace(monkeypatch):
    state, times = members(3), np.arange(50) * DT
    whole = simulate(*state, times)
    set_steps_per_call(monkeypatch, 20)
    np.testing.assert_array_equal(simulate(*state, times)[0], whole[0])
    np.testing.assert_array_equal(simulate(*state, times, threads=2)[1], whole[1])


@pytest.mark.parametrize(("threads", "steps_per_call"), [(1, 50_000), (2, 30)])
def test_divergence_is_marked_and_stays_with_its_member(
    threads, steps_per_call, monkeypatch, tmp_path, capfd
):
    monkeypatch.chdir(tmp_path)
    set_steps_per_call(monkeypatch, steps_per_call)
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
    np.testing.assert_array_equal(
        q[[0, 4]], simulate(q0[[0, 4]], v0[[0, 4]], lengths[[0, 4]], times)[0]
    )
    assert list(tmp_path.iterdir()) == []  # MuJoCo would write MUJOCO_LOG.TXT
    assert "WARNING" not in "".join(capfd.readouterr())


def test_times_that_are_not_equally_spaced_and_lengths_that_are_not_positive_are_refused():
    refused("times", simulate, *members(1), np.array([0.0, 1e-3, 3e-3]))
    for length in (0.0, -0.4, np.nan):
        lengths = torch.tensor([[0.4] * 4, [0.4, 0.4, length, 0.4]])
        refused("context", Pendulum().default_solver, lengths)
