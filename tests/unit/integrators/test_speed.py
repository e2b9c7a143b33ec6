"""The speed of reduced models: exact factors of a rotor, jumps, files, and what cannot be timed."""

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import InputError
from romkit.data import ContextParameter
from romkit.integrators import Galerkin, Speed
from romkit.models import trained_dynamics
from romkit.projections import stack
from romkit.solvers import RK4
from romkit.systems import Pendulum, System

BEND = 0.3


class Rotor(System):
    """A limit cycle of radius one that turns at 2 + 0.3 z, where z settles at c.

    Two modes hold the circle and leave z at its mean over the data, so that the reduced model turns
    at 2 + 0.3 c̄, and s(c) = (2 + 0.3 c) / (2 + 0.3 c̄).
    """

    name, state_names, dt, duration, horizon, transient = (
        "rotor",
        ("x", "y", "z"),
        0.05,
        15.0,
        15.0,
        12.0,
    )
    context = (ContextParameter("c", "1", -0.2, 0.2, "level"),)

    def rhs(self, t, x, c):
        x, y, z = x.unbind(-1)
        grow, turn = 1 - x**2 - y**2, 2 + BEND * z
        return torch.stack([grow * x - turn * y, grow * y + turn * x, c[..., 0] - z], dim=-1)

    def initial_state(self, contexts, rng):
        ones = torch.ones(len(contexts), dtype=contexts.dtype)
        return torch.stack([ones, 0 * ones, contexts[:, 0]], dim=-1)


TRAINING = np.linspace(-0.2, 0.2, 5)
UNSEEN = np.array([-0.15, 0.05, 0.17])


@pytest.fixture(scope="module")
def data():
    return Rotor().dataset(c=TRAINING)


@pytest.fixture(scope="module")
def pod(data):
    return romkit.fit("pod", data, latent_dim=2, verbose=False)


@pytest.fixture(scope="module")
def timed(pod, data):
    return romkit.timed(pod, Rotor(), data)


def exact(c, mean):
    return (2 + BEND * c) / (2 + BEND * mean)


def test_the_factor_of_a_rotor_is_exact(pod, data, timed):
    speed = trained_dynamics(timed).speed
    c = torch.from_numpy(np.concatenate([TRAINING, UNSEEN])).unsqueeze(-1)
    mean = float(data.state.sel(component="z").mean())
    error = speed(c)[:, 0].numpy() - exact(c[:, 0].numpy(), mean)
    assert np.abs(error).max() < 5e-5, error  # where 1 - s is up to 3e-2
    assert speed.jumps == ()
    assert "speed" not in pod.report
    assert trained_dynamics(pod) == Galerkin()


def test_phases_stop_drifting_at_contexts_that_were_not_used(pod, timed, tmp_path):
    file = tmp_path / "rotor.safetensors"
    romkit.save(timed, file)
    runs, last = [], []
    # the loaded model is the same from its first step
    for model, duration in ((pod, 20), (timed, 20), (romkit.load(file), 2)):
        run = romkit.rollout(Rotor(), model, c=UNSEEN, duration=duration, solver=RK4(0.05))
        runs.append(run)
        apart = np.abs(run.rom - run.truth).isel(component=slice(2), time=slice(-50, None))
        last.append(apart.max().item())
    assert last[0] > 0.5
    assert last[1] < 0.02
    _, whole, loaded = runs
    # a long run is compiled, and differs from a short one by rounding
    begin = whole.rom.isel(time=slice(loaded.sizes["time"]))
    assert np.allclose(loaded.rom, begin, rtol=0, atol=1e-12)
    assert "Speed" in loaded.attrs["dynamics_settings"]


def test_a_speed_runs_through_the_same_orbit():
    """z(s t), at each context its own s."""
    speed = Speed.fitted([[3.14], [3.16], [3.18]], [0.5, 0.75, 1.0])
    ncae = romkit.load("ncae-lorenz96")
    data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=1.0)
    plain = romkit.follow(ncae, data, dynamics=Galerkin())
    paced = romkit.follow(ncae, data, dynamics=Galerkin(speed=speed))
    assert np.allclose(paced.latent[0, ::2], plain.latent[0, :50], rtol=1e-5, atol=1e-5)
    assert np.allclose(paced.latent[1], plain.latent[1], rtol=1e-5, atol=1e-5)


def test_a_context_that_moves_moves_the_speed(timed):
    settings = {"duration": 1.0, "solver": RK4(0.05)}
    run = romkit.rollout(Rotor(), timed, c=lambda t: 0.1 * np.sin(t), **settings)
    constant = romkit.rollout(Rotor(), timed, c=lambda t: 0.1, **settings)
    still = romkit.rollout(Rotor(), timed, c=0.1, **settings)
    assert np.isfinite(run.latent).all()
    assert np.allclose(constant.latent, still.latent, rtol=0, atol=1e-8)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_polynomials_are_found(degree):
    c = np.linspace(1, 2, 7)[:, None]
    powers = 1 + 1e-3 * np.cos(degree * np.arccos((c[:, 0] - 1.5) / 0.5))
    speed = Speed.fitted(c, powers)
    middle = np.array([[1.1], [1.77]])
    exact = 1 + 1e-3 * np.cos(degree * np.arccos((middle[:, 0] - 1.5) / 0.5))
    assert np.allclose(speed(torch.from_numpy(middle))[:, 0], exact, rtol=0, atol=1e-12)
    ends = speed(torch.tensor([[0.0], [1.0], [2.0], [9.0]], dtype=torch.float64))[:, 0]
    assert ends[0] == ends[1]
    assert ends[2] == ends[3]


def test_jumps_are_found_and_two_parameters_are_one_piece():
    c = np.linspace(0, 1, 12)[:, None]
    s = np.where(c[:, 0] < 0.5, 1.001 + 1e-3 * c[:, 0], 0.99 - 1e-3 * c[:, 0] ** 2)
    speed = Speed.fitted(c[::-1], s[::-1])
    assert len(speed.jumps) == 1
    assert 0.45 < speed.jumps[0] < 0.55
    assert np.allclose(speed(torch.from_numpy(c))[:, 0], s, rtol=0, atol=1e-12)
    grid = np.stack(np.meshgrid([1, 2, 3, 4], [10, 20, 30, 40]), axis=-1).reshape(-1, 2)
    product = 1 + 1e-4 * grid[:, 0] * grid[:, 1]
    speed = Speed.fitted(grid, product)
    assert float(speed(torch.tensor([2.5, 25.0]))) == pytest.approx(1.00625, abs=1e-6)


@pytest.mark.parametrize(
    ("contexts", "speeds", "argument"),
    [
        ([1.0, 2.0], [1.0, 1.0], "contexts"),
        ([[1.0], [2.0]], [1.0], "speeds"),
        ([[1.0], [2.0]], [[1.0], [1.0]], "speeds"),
        ([[1.0], [np.nan]], [1.0, 1.0], "contexts"),
        ([[1.0], [2.0]], ["a", "b"], "speeds"),
        ([[1.0]], [1.0], "data"),
    ],
)
def test_speeds_that_are_none_are_refused(contexts, speeds, argument):
    with pytest.raises(InputError) as caught:
        Speed.fitted(contexts, speeds)
    assert caught.value.argument == argument


def test_a_file_of_a_stranger_is_refused(timed):
    entries = timed.report["speed"]
    assert Speed.unpack(entries) == trained_dynamics(timed).speed
    (piece,) = entries["pieces"]
    for wrong in (
        {},
        {**entries, "jumps": [1.0]},
        {
            **entries,
            "pieces": [{**piece, "coefficients": [float("nan")] * len(piece["exponents"])}],
        },
        {**entries, "pieces": [{**piece, "exponents": [[10**9]] * len(piece["exponents"])}]},
        {**entries, "pieces": [{**piece, "scale": [0.0]}]},
    ):
        with pytest.raises(InputError):
            Speed.unpack(wrong)


class Forced(Rotor):
    def rhs(self, t, x, c):
        return super().rhs(t, x, c) + 0.01 * torch.cos(t)


def test_what_cannot_be_timed_is_refused(pod, data):
    for projection, system, runs, argument in (
        (pod, Rotor(), data.isel(time=slice(60)), "data"),  # less than a turn
        (pod, Rotor(), data.isel(trajectory=[0, 4]), "data"),
        (pod, Forced(), data, "system"),
        (romkit.load("ncae-pendulum"), Pendulum(), data, "system"),
        (stack([pod, pod]), Rotor(), data, "projection"),
    ):
        with pytest.raises(InputError) as caught:
            romkit.timed(projection, system, runs)
        assert caught.value.argument == argument
    speed = Speed.fitted([[1.0], [2.0]], [1.0, 1.0])
    pendulum = romkit.load("ncae-pendulum")
    with pytest.raises(InputError):
        romkit.rollout(
            Pendulum(), pendulum, dynamics=Galerkin(speed=speed), l1=0.5, l2=0.5, l3=0.5, l4=0.5
        )
