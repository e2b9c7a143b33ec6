"""Errors of rollouts, valid prediction time, distance from the manifold, energy drift, latent
geometry, and spectra.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from romkit.metrics import (
    diverged,
    energy_drift,
    hellinger_distance,
    idempotency_error,
    latent_condition_number,
    latent_speed_variation,
    manifold_distance,
    nrmse,
    peak_energy_drift,
    power_density,
    valid_time,
)
from romkit.testing.projections import probe
from tests.properties.test_projection_rules import make
from tests.refusals import refused

TIMES = 0.5 * torch.arange(9, dtype=torch.float64) + 3.0


def test_nrmse_is_the_error_in_standard_deviations():
    std = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    truth = torch.zeros(2, 5, 3, dtype=torch.float64)
    assert torch.equal(nrmse(truth, truth + std, std), torch.ones(2, 5, dtype=torch.float64))
    one = nrmse(truth, truth + torch.tensor([3.0, 0.0, 0.0]), std)
    torch.testing.assert_close(one, torch.full_like(one, 3**0.5))
    assert nrmse(truth, truth + torch.nan, std).isnan().all()


@pytest.mark.parametrize(
    ("threshold", "expected"), [(0.5, 3.0), (0.05, 1.0), (0.01, 0.0), (2.0, 4.0)]
)
def test_valid_time_ends_where_the_threshold_is_first_exceeded(threshold, expected):
    errors = torch.tensor([0.02, 0.03, 0.04, 0.06, 0.03, 0.1, 0.5, 0.6, 0.4], dtype=torch.float64)
    assert valid_time(TIMES, errors, threshold).item() == expected


def test_a_diverged_member_is_valid_until_then_and_its_neighbour_is_not_touched():
    errors = torch.full((2, 9), 0.1, dtype=torch.float64)
    errors[1, 4:] = torch.nan
    assert valid_time(TIMES, errors).tolist() == [4.0, 1.5]
    errors[1] = torch.nan
    assert valid_time(TIMES, errors).tolist() == [4.0, 0.0]
    states = torch.zeros(2, 6, 3)
    states[0, 2, 1], states[1, 5, 0] = torch.inf, torch.nan
    assert diverged(states).tolist() == [
        [False, False, True, True, True, True],
        [False] * 5 + [True],
    ]  # for good


def test_decoded_states_of_an_exact_projection_lie_on_its_manifold():
    p = probe(make("ncae", (2, 5, 2, 3)))
    std = p.projection.frame.state_std.double()
    on = p.operator.decode(p.operator.encode(p.x))
    assert manifold_distance(p.operator, on, std).max() < 1e-12
    off = manifold_distance(p.operator, p.x, std)
    assert off.min() > 1e-3
    torch.testing.assert_close(off, nrmse(p.x, p.operator(p.x), std))
    p.x[3] = torch.nan
    assert manifold_distance(p.operator, p.x, std).isnan().tolist() == [
        k == 3 for k in range(len(p.x))
    ]


def test_for_one_standard_deviation_it_is_the_idempotency_error_up_to_the_root_of_n():
    p = probe(make("ae", (2, 5, 2, 3)))
    n = p.x.shape[-1]
    y = p.operator(p.x)
    distance = manifold_distance(p.operator, y, torch.ones(n, dtype=torch.float64))
    torch.testing.assert_close(distance * n**0.5, idempotency_error(p.operator, p.x)[0])
    assert distance.max() > 1e-3  # an autoencoder is off its own manifold


def test_an_oscillator_that_gains_gives_its_gain_and_a_diverged_member_an_infinite_peak():
    t = torch.linspace(0, 10, 101, dtype=torch.float64)
    growth = torch.tensor([[0.0], [0.01], [-0.02]], dtype=torch.float64)
    q, v = torch.exp(growth * t) * torch.cos(t), torch.exp(growth * t) * torch.sin(t)
    energy = (q.square() + v.square()) / 2
    drift = energy_drift(energy, energy[:, 0])
    torch.testing.assert_close(drift, torch.expm1(2 * growth * t))
    assert drift[0].abs().max() < 1e-14
    expected = [0.0, math.expm1(0.2), -math.expm1(-0.4)]
    assert peak_energy_drift(energy, energy[:, 0]).tolist() == pytest.approx(expected, abs=1e-14)
    of_the_caller = torch.tensor([4.0])
    assert energy_drift(torch.tensor([[1.0, 2.0, 0.5]]), of_the_caller).tolist() == [
        [0.0, 0.25, -0.125]
    ]
    energy = torch.ones(2, 5)
    energy[0, 3:] = torch.nan
    assert energy_drift(energy, torch.ones(2))[0].isnan().tolist() == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert peak_energy_drift(energy, torch.ones(2)).tolist() == [torch.inf, 0.0]
    assert peak_energy_drift(torch.tensor([1.0, torch.inf]), torch.tensor(1.0)) == torch.inf


ANGLE = 2 * torch.pi * torch.arange(200, dtype=torch.float64) / 200
CIRCLE = torch.stack([ANGLE.cos(), ANGLE.sin()], dim=-1)
TURN = torch.linalg.qr(
    torch.randn(2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
).Q


def test_a_circle_has_condition_one_and_an_ellipse_its_squared_aspect_wherever_it_lies():
    assert latent_condition_number(CIRCLE).item() == pytest.approx(1.0)
    ellipse = CIRCLE * torch.tensor([3.0, 1.0]) @ TURN + torch.tensor([5.0, -2.0])
    assert latent_condition_number(ellipse).item() == pytest.approx(9.0)
    z = torch.randn(50, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert latent_condition_number(z).item() == pytest.approx(torch.linalg.cond(z.T.cov()).item())


def test_latents_that_do_not_move_along_an_axis_have_condition_infinity_and_lost_ones_none():
    assert latent_condition_number(CIRCLE * torch.tensor([1.0, 0.0])).item() == torch.inf
    assert latent_condition_number(torch.ones(10, 1)) == torch.inf
    z = torch.stack([CIRCLE, 2 * CIRCLE])
    z[1, 7, 0] = torch.nan
    number = latent_condition_number(z)
    assert number[0].item() == pytest.approx(1.0)  # its neighbour is not touched
    assert number[1].isnan()


def test_uniform_motion_has_no_variation_and_known_speeds_have_theirs():
    assert latent_speed_variation(CIRCLE).item() == pytest.approx(0.0, abs=1e-12)
    speeds = torch.tensor([1.0, 3.0] * 10, dtype=torch.float64)
    for unit in (1.0, 1e3):
        assert latent_speed_variation(
            unit * speeds.unsqueeze(-1) * CIRCLE[:20]
        ).item() == pytest.approx(0.5)
    assert latent_speed_variation(torch.zeros(10, 2)).isnan()
    assert latent_speed_variation(torch.full((10, 2), torch.nan)).isnan()


def test_members_are_scored_one_by_one_or_pooled():
    z = torch.randn(2, 3, 40, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for metric in (latent_condition_number, latent_speed_variation):
        loop = torch.stack([torch.stack([metric(z[s, c]) for c in range(3)]) for s in range(2)])
        torch.testing.assert_close(metric(z), loop)
        assert metric(z.flatten(1, 2)).shape == (2,)


T = 600
STEPS = torch.arange(T, dtype=torch.float64)


def tone(cycles, amplitude=1.0, mean=0.0, phase=0.0):
    """(T, 1) with `cycles` periods in the run."""
    return (mean + amplitude * torch.cos(2 * math.pi * cycles * STEPS / T + phase)).unsqueeze(-1)


def noise(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    white = torch.randn(*shape, T, 3, generator=generator, dtype=torch.float64)
    return white.cumsum(-2)


def test_a_density_has_sum_one_and_the_power_of_each_tone():
    density = power_density(tone(10, 2.0) + tone(40, 1.0) + 7.0, smoothing=0)
    assert density.shape == (T // 2 + 1, 1)
    assert density.sum().item() == pytest.approx(1.0)
    assert density[10].item() == pytest.approx(0.8)
    assert density[40].item() == pytest.approx(0.2)


def test_smoothing_spreads_a_line_over_its_width_and_keeps_the_sum():
    density = power_density(tone(100), smoothing=5.0)[:, 0]
    bins = torch.arange(len(density), dtype=torch.float64)
    assert density.sum().item() == pytest.approx(1.0)
    assert (density * bins).sum().item() == pytest.approx(100.0)
    assert (density * (bins - 100).square()).sum().sqrt().item() == pytest.approx(5.0, rel=1e-2)


REST = torch.full((T, 1), 0.1, dtype=torch.float64)
LOUDER = tone(10, 3.0, phase=1.0, mean=4.0) + tone(25, 1.5, phase=2.0)
DISTANCES = {
    "of another phase and amplitude": (tone(10) + tone(25, 0.5), LOUDER, 1.0, 0.0, 1e-7),
    "disjoint": (tone(10), tone(200), 1.0, 1.0, 1e-12),
    "neighbours": (tone(10), tone(11), 0.0, 1.0, 1e-12),
    "rest": (tone(10), REST, 0.0, 1.0, 1e-12),
    "p = (½, ½), q = (1, 0)": (
        tone(10) + tone(50),
        tone(10),
        0.0,
        math.sqrt(1 - math.sqrt(0.5)),
        1e-6,
    ),
    "Gaussians of width 4, 6 apart": (
        tone(100),
        tone(106),
        4.0,
        math.sqrt(1 - math.exp(-36 / 128)),
        2e-3,
    ),
}


@pytest.mark.parametrize(
    ("x", "y", "smoothing", "expected", "near"), DISTANCES.values(), ids=DISTANCES
)
def test_distances_that_are_known(x, y, smoothing, expected, near):
    assert hellinger_distance(x, y, smoothing=smoothing).item() == pytest.approx(expected, abs=near)
    assert hellinger_distance(x, x, smoothing=smoothing).item() == 0


@given(
    st.integers(0, 2**31),
    st.integers(0, 2**31),
    st.integers(0, 2**31),
    st.sampled_from([0.0, 1.0, 5.0]),
)
def test_it_is_a_distance(i, j, k, smoothing):
    x, y, z = noise(i), tone(i % 290 + 1).expand(-1, 3) + 0.1 * noise(j), noise(k).sin()
    ab, ba, bc, ac = (
        hellinger_distance(*pair, smoothing=smoothing) for pair in ((x, y), (y, x), (y, z), (x, z))
    )
    assert torch.equal(ab, ba)
    assert bool((ac <= ab + bc + 1e-12).all())
    assert bool((ab >= 0).all())
    assert bool((ab <= 1).all())


def test_members_are_scored_one_by_one_and_a_diverged_one_is_as_far_as_can_be():
    truth, rom = noise(0, 1, 2), noise(1, 3, 2)
    loop = torch.stack(
        [
            torch.stack([hellinger_distance(truth[0, c], rom[s, c]) for c in range(2)])
            for s in range(3)
        ]
    )
    torch.testing.assert_close(hellinger_distance(truth, rom), loop)
    truth, rom = truth[0], rom[0]
    alone = hellinger_distance(truth[0], rom[0])
    rom[1, T - 1] = torch.nan
    both = hellinger_distance(truth, rom)
    # To rounding: with AVX-512, transforms of two rows and of one differ in the last bit.
    torch.testing.assert_close(both[0], alone, rtol=1e-13, atol=1e-15)
    assert both[1].tolist() == [1.0, 1.0, 1.0]
    rom[1, T - 1] = torch.inf
    assert hellinger_distance(truth, rom)[1].tolist() == [1.0, 1.0, 1.0]


def test_runs_of_different_length_and_negative_widths_are_refused():
    refused("rom", hellinger_distance, noise(0), noise(1)[:-1])
    refused("smoothing", hellinger_distance, noise(0), noise(1), smoothing=-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_rests_does_so_at_any_value(dtype):
    values = 10 * torch.rand(50, dtype=dtype, generator=torch.Generator().manual_seed(0))
    rest = values.expand(101, 50)
    assert bool((power_density(rest)[0] == 1).all())  # all at frequency zero
    assert bool((power_density(rest).sum(0) == 1).all())
    assert bool((hellinger_distance(rest, rest.flip(-1)) == 0).all())
