"""The Kuramoto-Sivashinsky equation: published thresholds, an independent integrator, and both
through a basis.
"""

import numpy as np
import pytest
import torch

import romkit
from romkit.solvers import SciPy
from romkit.systems import KuramotoSivashinsky

T0 = torch.zeros((), dtype=torch.float64)
SYSTEM = KuramotoSivashinsky(n=32, transient=0.0)
THETA = 2 * np.pi * torch.arange(32, dtype=torch.float64) / 32
ONE_CREST = 3 * torch.sin(THETA) - 0.5 * torch.sin(2 * THETA)
TWO_CRESTS = 3 * torch.sin(2 * THETA) - 0.3 * torch.sin(4 * THETA)


def field(system, L):
    c = torch.tensor([L], dtype=torch.float64)
    return lambda u: system.rhs(T0, u, c)


def steady(system, u, L):
    """The steady state near u, by Newton's method; shifts along the ring, and of the mean, stay as
    they are.
    """
    for _ in range(30):
        slopes = torch.func.jacrev(field(system, L))(u)
        step = torch.linalg.lstsq(slopes, field(system, L)(u), driver="gelsd", rcond=1e-7).solution
        u = u - step
        if step.abs().max() < 1e-10:
            break
    return u


def leading(system, u, L):
    """The eigenvalue of largest real part, but those of shifts along the ring and of the mean,
    which are zero.
    """
    values = torch.linalg.eigvals(torch.func.jacrev(field(system, L))(u))
    values = values[values.abs() > 1e-4]
    return values[values.real.argmax()]


def threshold(system, u, low, high):
    """Where the largest real part changes sign, with the eigenvalue there."""
    stable = leading(system, steady(system, u, low), low).real < 0
    for _ in range(12):
        middle = (low + high) / 2
        u = steady(system, u, middle)
        value = leading(system, u, middle)
        low, high = (middle, high) if (value.real < 0) == stable else (low, middle)
    return (low + high) / 2, value


def one_crest_at(system, u, L):
    for length in np.arange(8.0, L, 0.25):
        u = steady(system, u, length)
    return steady(system, u, L)


def test_rest_loses_stability_at_two_pi_and_waves_have_their_published_heights():
    rest = torch.zeros(32, dtype=torch.float64)
    assert (
        leading(SYSTEM, rest, 2 * np.pi * 0.999).real
        < 0
        < leading(SYSTEM, rest, 2 * np.pi * 1.001).real
    )
    for L, rms in ((8.0, 1.74141), (10.0, 1.21450)):
        assert one_crest_at(SYSTEM, ONE_CREST, L).square().mean().sqrt().item() == pytest.approx(
            rms, rel=1e-5
        )


def bifurcations(system, one, two, rel):
    """To `rel`: travelling waves, and the two ends of the stable wave with two crests."""
    assert threshold(system, one, 11.1, 11.5)[0] == pytest.approx(11.3289, rel=rel)
    assert threshold(system, two, 14.5, 15.5)[0] == pytest.approx(14.9204, rel=rel)
    L, value = threshold(system, two, 16.5, 18.0)
    assert pytest.approx(17.3059, rel=rel) == L
    assert 2 * np.pi / abs(value.imag.item()) == pytest.approx(14.24, rel=rel)


def test_bifurcations_of_the_full_model():
    one = one_crest_at(SYSTEM, ONE_CREST, 11.2)
    bifurcations(SYSTEM, one, steady(SYSTEM, TWO_CRESTS, 16.0), rel=1e-3)
    unstable = leading(SYSTEM, steady(SYSTEM, one, 11.4), 11.4)
    assert unstable.real > 0 == unstable.imag  # a wave that begins to travel does not oscillate


@pytest.fixture(scope="module")
def through():
    """The system through a basis of steady waves and of their neighbourhood, from both families."""
    draw, snapshots = np.random.default_rng(0), []
    for start, lengths in (
        (ONE_CREST, np.linspace(8, 11.5, 8)),
        (TWO_CRESTS, np.linspace(14.5, 17.75, 8)),
    ):
        u = start
        for L in lengths:
            u = steady(SYSTEM, u, L)
            values, modes = torch.linalg.eig(torch.func.jacrev(field(SYSTEM, L))(u))
            slow = modes[:, values.real.argsort(descending=True)[:6]]
            for shift in draw.integers(0, 32, 2):
                snapshots += [u.roll(int(shift))]
            snapshots += [u + 0.3 * part for part in (*slow.real.mT, *slow.imag.mT)]
    return SYSTEM.through(romkit.basis(torch.stack(snapshots), rank=16))


def test_bifurcations_through_a_basis_of_sixteen_modes(through):
    one, two = one_crest_at(SYSTEM, ONE_CREST, 11.2), steady(SYSTEM, TWO_CRESTS, 16.0)
    bifurcations(through, *(through.basis.encode(u) for u in (one, two)), rel=1e-2)


def test_the_integrator_agrees_with_another_one():
    c, times = (
        torch.tensor([[22.0]], dtype=torch.float64),
        torch.linspace(0, 5, 6, dtype=torch.float64),
    )
    start = SYSTEM.initial_state(c, None)
    own = KuramotoSivashinsky(n=32, dt=0.01).simulate((start,), c, times).state[0]
    theirs = (
        SYSTEM.using(SciPy("Radau", rtol=1e-10, atol=1e-10)).simulate((start,), c, times).state[0]
    )
    assert torch.allclose(own, theirs, rtol=0, atol=1e-6)


def test_the_step_converges_at_order_three_to_four():
    """Order four where the fastest waves are resolved, and between three and four in stiff steps."""
    c, times = (
        torch.tensor([[13.0]], dtype=torch.float64),
        torch.tensor([0.0, 4.0], dtype=torch.float64),
    )
    start = KuramotoSivashinsky(n=32, transient=10.0).start(c)
    ends = [
        KuramotoSivashinsky(n=32, dt=dt).simulate(start, c, times).state[0, -1]
        for dt in (0.1, 0.05, 0.025, 0.005)
    ]
    errors = np.array([(end - ends[-1]).abs().max().item() for end in ends[:-1]])
    assert (np.log2(errors[:-1] / errors[1:]) > 3.1).all()
    assert errors[-1] < 1e-6
