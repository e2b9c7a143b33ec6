"""Laws of data as they come: at rest, with more latents than directions, of a single time, with gaps, in any unit."""

import numpy as np
import pytest

import romkit
from romkit.integrators import DMD, LSPG, NeuralODE, OperatorInference, SINDy, WeakSINDy
from tests.refusals import refused

QUICK = NeuralODE(hidden=(4,), regression_steps=2, shooting_steps=2)


@pytest.fixture(scope="module")
def turning():
    """Trajectories on a plane in six dimensions, at four speeds."""
    t, plane = np.linspace(0, 6, 61), np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0]
    angle = np.array([0.9, 1.0, 1.1, 1.2])[:, None] * t
    states = np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ plane.T
    return romkit.data.with_velocity(romkit.data.from_arrays(states, t, context={"speed": angle[:, 10]}))


@pytest.mark.parametrize("law", [SINDy(degree=1, threshold=0.01), WeakSINDy(degree=1, threshold=0.01), DMD()])
def test_latents_beyond_the_directions_of_the_data_do_not_matter(turning, law):
    """They are rounding; scaled to the size of the others, they made rollouts diverge at once."""
    errors = []
    for m in (2, 4):
        pod = romkit.fit("pod", turning, latent_dim=m)
        run = romkit.follow(pod, turning, dynamics=law.fit(pod, turning))
        errors.append(float(abs(run.state - turning.state).max()))
    assert errors[1] == pytest.approx(errors[0], rel=1e-3)


@pytest.mark.parametrize("law", [QUICK, DMD()])
def test_what_rests_has_a_law(turning, law):
    pod = romkit.fit("pod", turning, latent_dim=2)
    rest = turning.assign(state=0 * turning.state + 1, velocity=0 * turning.velocity)
    assert law.fit(pod, rest).latent_dim == 2


def test_dmd_of_fewer_singular_values_than_latents_is_a_motion(turning):
    """Directions that were left out stay; they were multiplied by zero, which no motion does."""
    pod = romkit.fit("pod", turning, latent_dim=2)
    law = DMD(rank=1).fit(pod, turning)
    assert np.abs(np.linalg.eigvals(law.step(0.1)[0])).min() > 0.1


@pytest.mark.parametrize("law", [QUICK, DMD()])
def test_uneven_times_are_uneven_in_any_unit(turning, law):
    uneven = turning.assign_coords(time=1e-10 * turning.time**2)
    refused("equally spaced", law.fit, romkit.fit("pod", turning, latent_dim=2), uneven)


def test_lspg_takes_a_single_time():
    system = romkit.systems.Lorenz96(n=8, transient=0.0)
    data = system.dataset(F=[3.14, 3.18], duration=0.1)
    run = romkit.follow(romkit.fit("pod", data, latent_dim=2), data.isel(time=[3]), dynamics=LSPG(), system=system)
    assert run.sizes["time"] == 1


def test_gaps_do_not_end_the_rollouts_by_which_settings_are_chosen(turning):
    """Neither at the start of all trajectories, nor where the context moves."""
    pod, law = romkit.fit("pod", turning, latent_dim=2), OperatorInference(degree=1)
    late = turning.where(turning.time > 0)
    moving = turning.speed + 0.1 * np.sin(turning.time).broadcast_like(turning.state[..., 0])
    moving = turning.assign_coords(speed=moving.transpose("trajectory", "time").drop_vars("speed"))
    for data in (late, moving.assign(state=moving.state.where(abs(moving.time - 3) > 0.01))):
        source = law.fit(pod, data).source
        assert float(source.split("(error ")[1].rstrip(")")) < 0.5
