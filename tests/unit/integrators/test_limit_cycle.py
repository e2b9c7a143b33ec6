"""Laws of limit cycles beside the motions that they are fitted to."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.laws import LimitCycle, period
from romkit.solvers import RK4
from tests.refusals import refused

TIMES = torch.linspace(0, 6, 121, dtype=torch.float64)
SPEEDS = torch.tensor([[2.0], [2.5], [3.0], [3.5], [4.0]], dtype=torch.float64)


def circles(speeds=SPEEDS, times=TIMES, start=0.0):
    """Circles of radius 1 + c / 4, passed at speed c."""
    phase = speeds * times + start
    return (1 + speeds / 4).unsqueeze(-1) * torch.stack([phase.cos(), phase.sin()], -1)


def fitted(z, speeds=SPEEDS, times=TIMES, degree=2):
    return LimitCycle(degree=degree).fit_samples(z, torch.zeros_like(z), speeds, times=times)


def van_der_pol(mu, times):
    """Settled relaxation oscillations, (T, 2)."""

    def rate(t, y):
        return [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]]

    settled = solve_ivp(rate, (0, 60), [2.0, 0.0], method="LSODA", rtol=1e-9, atol=1e-9).y[:, -1]
    run = solve_ivp(
        rate, (0, times[-1]), settled, t_eval=times, method="LSODA", rtol=1e-9, atol=1e-9
    )
    # x, and Liénard's slow variable: the velocity jumps for too short a time
    x, v = run.y
    return np.stack([x, x - x**3 / 3 - v / mu], -1)


@pytest.mark.parametrize("start", [0.0, 2.0])
def test_circles_at_contexts_between_others(start):
    law = fitted(circles(start=start * torch.arange(5.0).unsqueeze(1)))
    unseen = torch.tensor([[2.2], [3.7]], dtype=torch.float64)
    assert torch.allclose(law.period(unseen), 2 * torch.pi / unseen.squeeze(-1), rtol=1e-4)
    times = torch.linspace(0, 30, 31, dtype=torch.float64)
    truth = circles(unseen, times, start=1.0)
    followed = law.flow(unseen)(truth[:, 0], times)
    # the polygon's sides leave the circle by 1e-4, phases of ten laps add
    assert (followed - truth).abs().max() < 0.02


def test_relaxation_oscillations_that_jump_between_samples():
    contexts, times = np.linspace(4.0, 6.0, 9), np.linspace(0, 40, 201)
    runs = torch.from_numpy(np.stack([van_der_pol(mu, times) for mu in contexts]))
    seen = [0, 1, 2, 3, 5, 6, 7, 8]
    c = torch.from_numpy(contexts).unsqueeze(1)
    law = fitted(runs[seen], c[seen], torch.from_numpy(times), degree=3)
    followed = law.flow(c[4:5])(runs[4:5, 0], torch.from_numpy(times))[0]
    apart = (followed - runs[4]).norm(dim=-1) / runs[4].std()
    # jumps come a thousandth of a period too early or too late, and states between them agree
    assert apart.quantile(0.9) < 0.03
    nearest = (runs[3] - runs[4]).norm(dim=-1) / runs[4].std()
    assert apart.square().mean() < nearest.square().mean() / 10


def test_long_runs_have_their_exact_period():
    times = torch.linspace(0, 600, 20_001, dtype=torch.float64)
    law = fitted(circles(times=times), times=times, degree=4)
    assert torch.allclose(law.period(SPEEDS), 2 * torch.pi / SPEEDS.squeeze(-1), rtol=1e-5)


def test_the_field_moves_along_the_flow_and_back_to_the_orbit():
    law = fitted(circles())
    c = torch.tensor([[3.2]], dtype=torch.float64)
    start = circles(c, TIMES[:1])[:, 0]
    on_orbit = RK4(0.005)(law.motion(c), start, TIMES, engine="torch").states
    # the field turns at each of the 256 corners of an orbit, where a step cuts across
    assert torch.allclose(on_orbit, law.flow(c)(start, TIMES), rtol=0, atol=0.01)
    away = law.flow(c)(1.2 * start, TIMES) - law.flow(c)(start, TIMES)
    decay = torch.exp(-5.0 * TIMES / law.period(c)).unsqueeze(-1)
    assert torch.allclose(away, decay * 0.2 * start, rtol=0, atol=1e-3)


def test_the_orbit_of_a_run_is_fitted_once(monkeypatch):
    fits = []
    smoothed = period._smoothed

    def counted(*arguments):
        fits.append(arguments)
        return smoothed(*arguments)

    monkeypatch.setattr(period, "_smoothed", counted)
    z = circles(start=0.123)
    laws = [fitted(z, degree=degree) for degree in (1, 2, 3)]
    of_one_law = len(fits)
    fitted(z[:4], SPEEDS[:4])
    assert len(fits) == of_one_law == len(z) * (1 + period.FOLLOWED)
    # orbits that are kept are those of the run itself
    faster = fitted(z, times=TIMES / 2, degree=1)
    c = torch.tensor([3.0], dtype=torch.float64)
    assert torch.allclose(faster.period(c), laws[0].period(c) / 2)


def test_gaps_change_little():
    z = circles()
    holes = z.clone()
    holes[torch.rand(z.shape[:2], generator=torch.Generator().manual_seed(0)) < 0.2] = torch.nan
    unseen = torch.tensor([[3.3]], dtype=torch.float64)
    whole, law = fitted(z), fitted(holes)
    assert torch.allclose(law.period(unseen), whole.period(unseen), rtol=1e-3)


def test_units_of_time_and_states_change_nothing():
    unseen = torch.tensor([[3.3]], dtype=torch.float64)
    z, start = circles(), circles(unseen, TIMES[:1])[:, 0]
    expected = fitted(z).flow(unseen)(start, TIMES)
    law = fitted(1e-6 * z, times=1e5 * TIMES)
    found = law.flow(unseen)(1e-6 * start, 1e5 * TIMES)
    assert torch.allclose(1e6 * found, expected, rtol=0, atol=1e-6)


def test_a_stack_and_a_file_hold_the_same_orbits(tmp_path):
    z = circles()
    both = torch.stack([z, 2 * z])
    law = LimitCycle(degree=2).fit_samples(both, torch.zeros_like(both), SPEEDS, times=TIMES)
    c = torch.tensor([[[3.3]], [[3.3]]], dtype=torch.float64)
    start = both[:, 2:3, 0]
    states = law.flow(c)(start, TIMES)
    alone = fitted(z).flow(c[0])(start[0], TIMES)
    assert torch.allclose(states[0], alone, rtol=0, atol=1e-9)
    assert torch.allclose(states[1], 2 * alone, rtol=0, atol=1e-6)
    romkit.save(law, tmp_path / "law.safetensors")
    again = romkit.load(tmp_path / "law.safetensors")
    assert torch.equal(again.flow(c)(start, TIMES), states)


def test_motions_off_a_closed_orbit_are_refused():
    z, rest = circles(), torch.zeros(5, 121, 2, dtype=torch.float64)
    decaying = z * torch.exp(-0.7 * TIMES).unsqueeze(-1)
    short = z[:, :30]
    for bad, times in ((decaying, TIMES), (short, TIMES[:30]), (rest, TIMES)):
        refused("closed orbits", fitted, bad, times=times)
    refused("contexts or more", fitted, z, degree=5)


def test_inputs_accelerations_and_moving_contexts_are_refused():
    z = circles()
    moving = SPEEDS.unsqueeze(1) + 0.1 * TIMES.unsqueeze(1)
    refused("contexts that move", fitted, z, moving)
    second = romkit.laws.LatentSamples.second_order(
        z, torch.zeros_like(z), torch.zeros_like(z), SPEEDS, times=TIMES
    )
    refused("second order", LimitCycle(degree=1).fit_samples, second)
    driven = torch.cat(
        [SPEEDS.unsqueeze(1).expand(5, 121, 1), TIMES.sin().expand(5, 121).unsqueeze(-1)], -1
    )
    samples = romkit.laws.LatentSamples.first_order(
        z, torch.zeros_like(z), driven, times=TIMES, parameters=["c", "u"], control_names=("u",)
    )
    refused("inputs u", LimitCycle(degree=1).fit_samples, samples)


def test_what_is_fitted_is_counted():
    """Fourier series of two latents and a frequency, each a polynomial in the context; not nodes."""
    law = fitted(circles())
    assert law.coefficient_count == 3 * ((2 * law.harmonics + 1) * 2 + 1)
    assert fitted(circles(), degree=1).coefficient_count == law.coefficient_count * 2 // 3
    assert law.coefficient_count < law.nodes.numel() / 4
    stack = fitted(torch.stack([circles(), 2 * circles()]))
    assert stack.coefficient_count == 2 * law.coefficient_count
