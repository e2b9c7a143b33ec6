"""Power densities and their Hellinger distance."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from romkit.metrics import hellinger_distance, power_density
from tests.refusals import refused

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
    "p = (½, ½), q = (1, 0)": (tone(10) + tone(50), tone(10), 0.0, math.sqrt(1 - math.sqrt(0.5)), 1e-6),
    "Gaussians of width 4, 6 apart": (tone(100), tone(106), 4.0, math.sqrt(1 - math.exp(-36 / 128)), 2e-3),
}


@pytest.mark.parametrize(("x", "y", "smoothing", "expected", "near"), DISTANCES.values(), ids=DISTANCES)
def test_distances_that_are_known(x, y, smoothing, expected, near):
    assert hellinger_distance(x, y, smoothing=smoothing).item() == pytest.approx(expected, abs=near)
    assert hellinger_distance(x, x, smoothing=smoothing).item() == 0


@given(st.integers(0, 2**31), st.integers(0, 2**31), st.integers(0, 2**31), st.sampled_from([0.0, 1.0, 5.0]))
def test_it_is_a_distance(i, j, k, smoothing):
    x, y, z = noise(i), tone(i % 290 + 1).expand(-1, 3) + 0.1 * noise(j), noise(k).sin()
    ab, ba, bc, ac = (hellinger_distance(*pair, smoothing=smoothing) for pair in ((x, y), (y, x), (y, z), (x, z)))
    assert torch.equal(ab, ba)
    assert bool((ac <= ab + bc + 1e-12).all())
    assert bool((ab >= 0).all())
    assert bool((ab <= 1).all())


def test_members_are_scored_one_by_one_and_a_diverged_one_is_as_far_as_can_be():
    truth, rom = noise(0, 1, 2), noise(1, 3, 2)
    loop = torch.stack([torch.stack([hellinger_distance(truth[0, c], rom[s, c]) for c in range(2)]) for s in range(3)])
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
    message = "rom: expected 600 times, as the truth has, got 599; compare equal runs"
    refused(message, hellinger_distance, noise(0), noise(1)[:-1])
    message = "smoothing: expected a number that is not negative, got -1"
    refused(message, hellinger_distance, noise(0), noise(1), smoothing=-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_rests_does_so_at_any_value(dtype):
    values = 10 * torch.rand(50, dtype=dtype, generator=torch.Generator().manual_seed(0))
    rest = values.expand(101, 50)
    assert bool((power_density(rest)[0] == 1).all())  # all at frequency zero
    assert bool((power_density(rest).sum(0) == 1).all())
    assert bool((hellinger_distance(rest, rest.flip(-1)) == 0).all())
