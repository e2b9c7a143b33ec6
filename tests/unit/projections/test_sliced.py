"""Projections with shifts factored out: equivariant, exact, and with a phase that keeps its speed."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.data import ContextParameter
from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.laws import DMD, SINDy, Steady
from romkit.projections import Shifts, unstack
from romkit.systems import KuramotoSivashinsky, Lorenz96, System
from romkit.testing import check_projection, check_system
from tests.refusals import refused

POINTS = 24
ROUNDING = 1e-12


@dataclass(frozen=True)
class Pulses(System):
    """Two fields on a ring, Stuart-Landau oscillators of wave number 1 with a second harmonic that
    they force.

    All terms are convolutions and their products at one frequency, so that every fraction of a
    point is a symmetry. The wave (r cos(θ - ω t), ...) has r² = c and the speed ω = 1 + c/2,
    exactly.
    """

    dt: float = 0.05
    duration: float = 6.0
    horizon: float = 6.0
    uneven: float = 0.0

    name = "pulses"
    state_names = tuple(f"{field}{k}" for field in "uv" for k in range(POINTS))
    context = (ContextParameter("c", "1", 0.5, 1.5, "square of the amplitude"),)
    symmetry = Shifts(variables=2)

    def rhs(self, t, x, c):
        place = 2 * torch.pi * torch.arange(POINTS, dtype=x.dtype) / POINTS
        u, v = x.chunk(2, dim=-1)
        cos, sin = place.cos(), place.sin()
        p, q = (2 / POINTS * (u * wave).sum(-1, keepdim=True) for wave in (cos, sin))
        growth, speed = c - p**2 - q**2, 1 + c / 2
        du = (growth * p - speed * q) * cos + (growth * q + speed * p) * sin
        forced = (p**2 - q**2) * (2 * place).cos() + 2 * p * q * (2 * place).sin()
        return torch.cat([du + self.uneven * cos - 0.0 * u, forced - v], dim=-1)

    def initial_state(self, contexts, rng):
        place = 2 * torch.pi * torch.arange(POINTS, dtype=contexts.dtype) / POINTS
        u = contexts.sqrt() * place.cos()
        return torch.cat([u, torch.zeros_like(u)], dim=-1)


@pytest.fixture(scope="module")
def waves():
    return (
        Lorenz96(transient=1000.0)
        .dataset(F=[3.17, 3.175, 3.18, 3.185], duration=8.0)
        .isel(time=slice(None, None, 5))
    )


@pytest.fixture(scope="module")
def sliced(waves):
    return romkit.fit("pod", waves, symmetry="shift", latent_dim=1)


def random_states(n, batch=20, size=3.0):
    return size * torch.randn(
        batch, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )


def fractional(x, shift):
    """Fourier shift of states (..., n) by a fraction of a point; the highest frequency is taken
    away.
    """
    k = torch.arange(x.shape[-1] // 2 + 1, dtype=x.dtype)
    turned = (
        torch.fft.rfft(x)
        * torch.exp(-2j * torch.pi * k * shift / x.shape[-1])
        * (k < x.shape[-1] // 2)
    )
    return torch.fft.irfft(turned, x.shape[-1])


@pytest.mark.parametrize("method", ["pod", "ncae", "flow"])
def test_contract_at_all_states_with_a_wave(waves, method):
    settings = {} if method == "pod" else {"epochs": 1, "verbose": False}
    P = romkit.fit(method, waves, symmetry="shift", latent_dim=2, **settings)
    assert (P.latent_dim, P.idempotent, P.wave.number) == (3, True, 7)
    check_projection(P)


@pytest.mark.parametrize("points", [1, 5, 35])
def test_shifts_of_lorenz96_commute_with_the_projection_though_7_does_not_divide_36(sliced, points):
    P, x = copy.deepcopy(sliced).double()(F=3.178), random_states(36)
    torch.testing.assert_close(
        P(x.roll(points, -1)), P(x).roll(points, -1), rtol=ROUNDING, atol=ROUNDING
    )
    torch.testing.assert_close(P(P(x)), P(x), rtol=ROUNDING, atol=ROUNDING)
    turn = P.encode(x.roll(points, -1)) - P.encode(x)
    assert float(turn[:, :-1].abs().max()) < 1e-10  # the shape stays
    moved = (
        torch.remainder(turn[:, -1] - 2 * torch.pi * 7 * points / 36 + torch.pi, 2 * torch.pi)
        - torch.pi
    )
    assert float(moved.abs().max()) < 1e-10


@pytest.mark.parametrize(
    "length", [8.0, 12.2, 16.0]
)  # steady waves of one crest, travelling waves, two crests
def test_fractions_of_a_point_commute_with_projections_of_kuramoto_sivashinsky(length):
    system = KuramotoSivashinsky(n=32)
    data = system.dataset(L=[length, length + 0.1], duration=5.0)
    P = romkit.fit("pod", data, symmetry="shift", latent_dim=1).double()
    assert P.wave.number == (2 if length == 16.0 else 1)
    x = torch.from_numpy(data["state"].values)
    operator = P(data)
    torch.testing.assert_close(
        operator(fractional(x, 0.37)), fractional(operator(x), 0.37), rtol=0, atol=ROUNDING
    )
    torch.testing.assert_close(operator(operator(x)), operator(x), rtol=0, atol=ROUNDING)


def test_two_fields_share_one_phase_and_the_speed_is_that_of_the_closed_form():
    system = Pulses()
    check_system(system)
    data = system.dataset(c=[0.6, 0.8, 1.0, 1.2, 1.4])
    P = romkit.fit("pod", data, symmetry=system.symmetry, system=system, latent_dim=3)
    assert (P.wave.number, P.wave.harmonics, len(P.wave.units)) == (1, POINTS // 2 - 1, 2)
    law = Steady().fit(P, data)
    speed = [
        float(law.right_hand_side(torch.tensor([c]).double())(torch.zeros(4).double())[-1])
        for c in (0.7, 1.3)
    ]
    assert speed == pytest.approx([1.35, 1.65], abs=1e-5)
    for dynamics in (Galerkin(), PetrovGalerkin()):
        run = romkit.rollout(system, P, dynamics=dynamics, c=[0.7, 1.3])
        rate = np.unwrap(run["latent"].values[..., -1])
        duration = float(run["time"][-1] - run["time"][0])
        assert (rate[:, -1] - rate[:, 0]) / duration == pytest.approx([1.35, 1.65], abs=1e-5)


def test_a_law_keeps_the_phase_of_unseen_waves(waves, sliced):
    law = Steady().fit(sliced, waves)
    run = romkit.rollout(
        Lorenz96(), sliced, dynamics=law, F=[3.173, 3.183], duration=100.0, dt=0.05
    )
    assert float(run["nrmse"].max()) < 0.01  # the wave travels 39 times its length


def test_any_law_moves_the_shape_and_none_depends_on_the_phase(waves, sliced):
    for estimator in (SINDy(degree=1, threshold=0.01), DMD(), Steady()):
        law = estimator.fit(sliced, waves)
        g = law.right_hand_side(torch.tensor([3.175], dtype=torch.float64))
        w = torch.tensor([[0.3, 0.0], [0.3, 2.0], [0.3, 100.0]], dtype=torch.float64)
        assert torch.equal(g(w), g(w)[:1].expand(3, -1))
        assert float(law.domain.distance(w).diff().abs().max()) == 0
        assert law.details()[-1].startswith("phase' = ")


def test_a_stack_and_its_law_equal_their_members_and_files(waves, tmp_path):
    stack = romkit.fit(
        "ncae", waves, symmetry="shift", latent_dim=1, seeds=range(2), epochs=2, verbose=False
    )
    law = Steady().fit(stack, waves)
    romkit.save(stack, tmp_path / "P.safetensors")
    romkit.save(law, tmp_path / "law.safetensors")
    loaded, again = (
        romkit.load(tmp_path / "P.safetensors"),
        romkit.load(tmp_path / "law.safetensors"),
    )
    some = waves.isel(time=slice(0, 3))
    whole = romkit.follow(loaded, some, dynamics=again)["state"].values
    assert np.array_equal(romkit.follow(stack, some, dynamics=law)["state"].values, whole)
    for k, one in enumerate(unstack(stack)):
        each = romkit.follow(one, some, dynamics=Steady().fit(one, waves))["state"].values
        np.testing.assert_allclose(each, whole[k], rtol=0, atol=1e-8)


def test_training_goes_on_from_the_shapes_of_another_model(waves):
    settings = {"symmetry": "shift", "latent_dim": 1, "epochs": 1}
    first = romkit.fit("ncae", waves, **settings)
    same = romkit.fit("ncae", waves, start=first, learning_rate=1e-12, seed=7, **settings)
    pairs = zip(same.shapes.parameters(), first.shapes.parameters(), strict=True)
    assert all(torch.allclose(own, other, rtol=0, atol=1e-6) for own, other in pairs)


def test_bootstrap_names_the_ensemble_that_keeps_the_symmetry(waves, sliced):
    refused("projection", romkit.bootstrap, sliced, Steady(), waves)


def own(values, **places):
    """Data without a system: u (run, t, x)."""
    coords = {"t": np.linspace(0, 12, 241)} | places
    return romkit.data.describe(xr.Dataset({"u": (("run", "t", "x"), values)}, coords))


def wave(number=1, points=32, phase=2.0):
    t, x = np.linspace(0, 12, 241)[:, None], 2 * np.pi * np.arange(points) / points
    return np.cos(number * x - phase * t) + 0.3 * np.cos(2 * (number * x - phase * t))


def test_data_without_a_system_have_the_ring_of_their_points():
    travelling = own(np.stack([wave(), 1.1 * wave(phase=2.5)]))
    P = romkit.fit("pod", travelling, symmetry="shift", latent_dim=1).double()
    x = torch.from_numpy(travelling["state"].values)
    torch.testing.assert_close(
        P(travelling)(x), x, rtol=0, atol=1e-6
    )  # one shape, but for its size


place = np.arange(32) / 32
REFUSED = {
    "a system without the symmetry": (
        lambda: (
            romkit.systems.Pendulum(duration=0.01)
            .dataset("train", seed=0)
            .isel(trajectory=slice(2))
        ),
        {"symmetry": "shift"},
        "symmetry",
    ),
    "a declaration that is wrong": (
        lambda: Pulses().dataset(c=[0.6, 1.4]),
        {"symmetry": "shift", "system": Pulses(uneven=0.1)},
        "symmetry",
    ),
    "waves of two numbers": (
        lambda: own(np.stack([wave(3), wave(4)])),
        {"symmetry": "shift"},
        "data",
    ),
    "travelling waves that depend on the place": (
        lambda: own((1 + 0.5 * np.cos(2 * np.pi * place)) * np.stack([wave(), wave()])),
        {"symmetry": "shift"},
        "symmetry",
    ),
    "fields that are no ring": (
        lambda: romkit.data.describe(
            xr.Dataset(
                {"u": (("run", "t", "y", "x"), np.arange(640.0).reshape(2, 20, 4, 4))},
                {"t": range(20)},
            )
        ),
        {"symmetry": "shift"},
        "data",
    ),
    "two fields of a system that the data do not name": (
        lambda: Pulses().dataset(c=[0.6, 1.4], duration=1.0),
        {"symmetry": "shift"},
        "symmetry",
    ),
    "a ring with uneven steps": (
        lambda: own(np.stack([wave(), wave()]), x=place**1.5),
        {"symmetry": "shift"},
        "data",
    ),
    "a wave that the grid does not resolve": (
        lambda: own(np.stack([wave(), wave()])),
        {"symmetry": Shifts(number=16)},
        "symmetry",
    ),
    "a basis beside it": (
        lambda: own(wave()[None]),
        {"symmetry": "shift", "basis": 3},
        "basis",
    ),
    "a loss with the field": (
        lambda: Lorenz96(transient=1000.0).dataset(F=[3.17, 3.18], duration=1.0),
        {"symmetry": "shift", "preset": "dynamics", "method": "ncae"},
        "symmetry",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_data_that_lack_the_symmetry_are_refused(case):
    data, settings, words = REFUSED[case]
    refused(
        words,
        romkit.fit,
        settings.pop("method", "pod"),
        data(),
        latent_dim=1,
        verbose=False,
        **settings,
    )
