"""The closed-form chain against MuJoCo, from a model written here by hand, and against textbook limits."""

import mujoco
import numpy as np
import pytest
import torch

from romkit.systems.mujoco import chain

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
    expected = torch.stack([torch.from_numpy(at(*s)[1].qacc.copy()) for s in zip(q, v, lengths, strict=True)])
    error = (chain.acceleration(q, v, lengths) - expected).abs().amax(-1)
    assert (error <= 1e-8 * expected.abs().amax(-1)).all()


def test_mass_matrix_is_that_of_mujoco():
    q, v, lengths = random_states(30, seed=2)
    for mass, *state in zip(chain.mass_matrix(q, lengths), q, v, lengths, strict=True):
        model, data = at(*state)
        expected = np.zeros((LINKS, LINKS))
        for row, unit in zip(expected, np.eye(LINKS), strict=True):
            mujoco.mj_mulM(model, data, row, unit)  # mj_fullM has a signature that depends on the version
        np.testing.assert_allclose(mass.numpy(), expected, rtol=1e-10, atol=1e-12)


def test_energy_is_that_of_mujoco():
    q, v, lengths = random_states(30, seed=3, speed=5.0)
    energy = chain.energy(q, v, lengths)
    states, rest = zip(q, v, lengths, strict=True), zip(0 * q, 0 * v, lengths, strict=True)
    theirs, at_rest = (torch.tensor([at(*s)[1].energy.sum() for s in each]).double() for each in (states, rest))
    torch.testing.assert_close(energy, theirs - at_rest, rtol=1e-10, atol=1e-10)
    assert (chain.energy(0 * q, 0 * v, lengths) == 0).all()


def test_acceleration_keeps_the_energy():
    q, v, lengths = random_states(100, seed=5, speed=3.0)
    _, power = torch.func.jvp(lambda q, v: chain.energy(q, v, lengths), (q, v), (v, chain.acceleration(q, v, lengths)))
    assert (power.abs() <= 1e-9 * v.square().sum(-1) * chain.acceleration(q, v, lengths).abs().amax(-1)).all()


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
