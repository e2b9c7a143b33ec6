"""Laws that cannot blow up."""

import itertools

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import InputError
from romkit.laws import Fourier, PolynomialLaw, SINDy
from romkit.laws.bounded import BoundedLaw, bounded_law, context_growth

STARTS = 300


@pytest.fixture(scope="module")
def data():
    """Runs of ẋ = y, ẏ = μ x - y - x² near their fixed points, which are lost from far away."""
    from scipy.integrate import solve_ivp

    times, mu = np.linspace(0, 8, 81), np.repeat([0.5, 0.75, 1.0, 1.25, 1.5], 2)
    starts = np.tile([[0.2, 0.1], [0.4, -0.2]], (5, 1))
    runs = []
    for value, start in zip(mu, starts, strict=True):

        def rate(t, s, value=value):
            return [s[1], value * s[0] - s[1] - s[0] ** 2]

        runs.append(solve_ivp(rate, (0, 8), start, t_eval=times, rtol=1e-10, atol=1e-10).y.T)
    return romkit.data.from_arrays(np.array(runs), times, context={"mu": mu})


@pytest.fixture(scope="module")
def laws(data):
    projection = romkit.fit("identity", data, verbose=False)
    settings = PolynomialLaw(degree=2, context_degree=1)
    return (
        projection,
        settings.fit(projection, data),
        PolynomialLaw.samples(*projection.law_space(data)),
    )


@pytest.fixture(scope="module")
def bounded(data, laws):
    projection, *_ = laws
    law = romkit.law(
        projection, data, kinds=[PolynomialLaw(degree=2, context_degree=1)], bounded=True
    )
    assert isinstance(law, BoundedLaw)
    return law


def starts(data) -> np.ndarray:
    """Return states (STARTS, 2) in three times the box of the data."""
    states = data.state.values.reshape(-1, 2)
    low, high = states.min(0), states.max(0)
    middle, half = (low + high) / 2, (high - low) / 2
    draw = np.random.default_rng(0).uniform(-3, 3, (STARTS, 2))
    return middle + half * draw


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_forecast_is_lost_from_three_times_the_box(data, laws, bounded):
    projection, free, _ = laws
    ends = {}
    for name, law in (("free", free), ("bounded", bounded)):
        run = romkit.forecast(
            projection, dynamics=law, initial_state=starts(data), duration=20.0, dt=1.0, mu=0.6
        )
        ends[name] = run.state.values[:, -1]
    assert not np.isfinite(ends["free"]).all()
    inside = (torch.from_numpy(ends["bounded"]) - bounded.centre) / bounded.scale
    assert bool((inside.norm(dim=-1) < bounded.radius).all())


def test_law_is_the_same_where_data_are(data, bounded):
    state = torch.from_numpy(data.state.values[:, ::10]).reshape(-1, 2)
    c = torch.tensor([0.9], dtype=torch.float64)
    rates = [law.right_hand_side(c)(state) for law in (bounded.law, bounded)]
    assert torch.equal(*rates)


def test_bound_on_growth_holds_at_all_contexts(laws, bounded):
    _, free, samples = laws
    angle = torch.linspace(0, 2 * np.pi, 721, dtype=torch.float64)
    unit = torch.stack([angle.cos(), angle.sin()], -1)
    for radius, mu in itertools.product((1.0, 2.0, bounded.radius), (0.5, 0.9, 1.5)):
        c = torch.tensor([mu], dtype=torch.float64)
        points = bounded.centre + bounded.scale * radius * unit
        rate = free.right_hand_side(c)(points) / bounded.scale
        growth = (rate * unit).sum(-1) / radius
        assert float(growth.max()) <= context_growth(free, samples, radius)
        if radius == bounded.radius:
            inward = bounded.right_hand_side(c)(points) / bounded.scale
            assert float((inward * unit).sum(-1).max() / radius) <= -bounded.rate


def test_ball_is_printed_and_saved(bounded, tmp_path):
    assert f"a ball of {bounded.radius:.3g}" in bounded.details()[-1]
    back = romkit.load(romkit.save(bounded, tmp_path / "law"))
    assert isinstance(back, BoundedLaw)
    assert (back.radius, back.rate) == (bounded.radius, bounded.rate)


def test_laws_without_a_bound_are_refused(laws):
    *_, samples = laws
    law = SINDy(library=Fourier(1), share=0.01, refine=False).fit_samples(samples.scaled())
    with pytest.raises(InputError, match="bounded"):
        bounded_law(law, samples)
