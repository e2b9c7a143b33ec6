"""Hidden contexts: their number, their values, new runs, and input that cannot be used."""

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

import romkit
from romkit.errors import ExtrapolationWarning, FileError, FitWarning, InputError
from romkit.hidden import reading, storage, wants_hidden, with_hidden_context
from romkit.hidden.errors import factor
from romkit.hidden.family import ContextTerms, Family, gauged
from romkit.hidden.labels import Polynomial

TIMES = np.linspace(0, 5, 26)
STIFFNESS = np.array([1.0, 1.9, 1.3, 2.4, 1.6])


def oscillation(stiffness, start, times=TIMES):
    """Exact states (T, 2) of x'' = -k x."""
    w = np.sqrt(stiffness)
    x, v = start
    position = x * np.cos(w * times) + v / w * np.sin(w * times)
    velocity = v * np.cos(w * times) - x * w * np.sin(w * times)
    return np.stack([position, velocity], -1)


def oscillators(stiffness, runs=2, noise=0.0):
    """Runs of oscillators, so many of each, with the number of the oscillator as `batch`."""
    draw = np.random.default_rng(0)
    states = []
    for k in stiffness:
        for _ in range(runs):
            exact = oscillation(k, draw.uniform(0.5, 1.5, 2))
            states.append(exact + noise * draw.standard_normal(exact.shape))
    batch = np.repeat(np.arange(len(stiffness)), runs)
    data = romkit.data.from_arrays(states, TIMES)
    return data.assign_coords(batch=("trajectory", batch))


@pytest.fixture(scope="module")
def found():
    return romkit.hidden_context(oscillators(STIFFNESS), group="batch")


def test_one_stiffness_is_found(found):
    hidden = found.values["value"].values
    assert found.number == 1
    # the law is linear in the stiffness, and so is the map
    fit = np.polynomial.Polynomial.fit(hidden[:, 0], STIFFNESS, 1)
    np.testing.assert_allclose(fit(hidden[:, 0]), STIFFNESS, atol=1e-6)


def test_gauge(found):
    hidden = found.values["value"].values
    np.testing.assert_allclose(hidden.mean(0), 0.0, atol=1e-9)
    np.testing.assert_allclose(hidden.var(0), 1.0, rtol=1e-9)
    assert hidden[0, 0] > 0


def test_runs_have_the_parameter(found):
    runs = found.runs
    assert romkit.data.context_names(runs) == ("hidden1",)
    np.testing.assert_array_equal(runs["hidden1"].values[::2], runs["hidden1"].values[1::2])


def test_a_new_run_is_placed_and_forecast(found):
    stiffness, start = 1.75, (1.0, -0.5)
    states = oscillation(stiffness, start)
    new = romkit.data.from_arrays(states[:10], TIMES[:10])
    labelled = found.labelled({"stiffness": STIFFNESS})
    placed = labelled.place(new)
    value = float(placed.values["value"].sel(parameter="stiffness"))
    assert abs(value - stiffness) < 1e-5
    forecast = placed.forecast(duration=3.0, dt=0.2)
    exact = oscillation(stiffness, start, forecast["time"].values)
    np.testing.assert_allclose(forecast["state"].values, exact, atol=1e-5)


def test_intervals_hold_the_truth_without_noise(found):
    labelled = found.labelled({"stiffness": STIFFNESS})
    draw = np.random.default_rng(1)
    stiffness = np.linspace(1.1, 2.3, 12)
    rows = []
    for k in stiffness:
        states = oscillation(k, draw.uniform(0.5, 1.5, 2))
        new = romkit.data.from_arrays([states[:10]], TIMES[:10])
        rows.append(labelled.place(new).values.sel(parameter="stiffness"))
    lower, upper = (np.array([float(row[name]) for row in rows]) for name in ("lower", "upper"))
    inside = (lower <= stiffness) & (stiffness <= upper)
    # at level 90 %, one in two hundred draws has more than four of twelve outside
    assert inside.sum() >= 8
    # steps of RK4 are no noise: what they add is taken out
    assert (upper - lower).max() < 1e-8


def test_forecast_at_a_label(found):
    labelled = found.labelled({"stiffness": STIFFNESS})
    forecast = labelled.forecast(np.array([1.0, 0.0]), duration=4.0, dt=0.5, stiffness=1.5)
    exact = oscillation(1.5, (1.0, 0.0), forecast["time"].values)
    np.testing.assert_allclose(forecast["state"].values, exact, atol=1e-5)


@pytest.mark.slow
def test_intervals_hold_the_truth_with_noise():
    noisy = romkit.hidden_context(oscillators(STIFFNESS, runs=3, noise=0.03), group="batch")
    values = noisy.intervals(0.99)
    exact = (
        (STIFFNESS - STIFFNESS.mean()) / STIFFNESS.std() * np.sign(STIFFNESS[0] - STIFFNESS.mean())
    )
    inside = (values["lower"][:, 0] <= exact) & (exact <= values["upper"][:, 0])
    assert noisy.number == 1
    # at level 99 %, one in a thousand draws has two of five outside
    assert inside.mean() >= 0.8


def test_runs_alike_have_no_hidden_parameter():
    alike = romkit.hidden_context(oscillators(np.ones(4), noise=0.01), group="batch")
    assert alike.number == 0
    assert alike.values["value"].shape == (4, 0)


def test_copies_of_a_run_have_no_hidden_parameter():
    copies = romkit.data.from_arrays([oscillation(1.3, (1.0, 0.2))] * 4, TIMES)
    assert romkit.hidden_context(copies).number == 0


def test_factors_are_ranks_of_left_out_errors():
    ratios = torch.arange(1.0, 20.0).flip(0)
    assert factor(ratios, 0.9, 2.0) == 9  # the 18th of 19
    # of four the next one may be beyond all of them
    assert factor(ratios[-4:], 0.9, 2.0) == 2
    assert factor(ratios[:0], 0.9, 2.0) == 1


@pytest.mark.slow
def test_a_known_parameter_is_not_found_again():
    draw = np.random.default_rng(1)
    stiffness, damping = draw.uniform(1, 2, 9), draw.uniform(0.0, 0.5, 9)
    states = []
    for k, c in zip(stiffness, damping, strict=True):
        # x'' = -k x - c x', through the matrix exponential
        A = torch.tensor([[0.0, 1.0], [-k, -c]]).double()
        steps = torch.from_numpy(TIMES)[:, None, None]
        states.append(
            (torch.linalg.matrix_exp(steps * A) @ torch.tensor([1.0, 0.5]).double()).numpy()
        )
    data = romkit.data.from_arrays(states, TIMES, context={"damping": damping})
    mixed = romkit.hidden_context(data)
    assert mixed.known == ("damping",)
    assert mixed.number == 1
    hidden = mixed.values["value"].values[:, 0]
    design = np.stack([np.ones(9), hidden, damping], -1)
    fit = design @ np.linalg.lstsq(design, stiffness, rcond=None)[0]
    np.testing.assert_allclose(fit, stiffness, atol=1e-4)


def test_gaps_and_unequal_numbers_of_runs(found):
    data = oscillators(STIFFNESS).isel(trajectory=slice(1, None))
    states = data["state"].values.copy()
    states[2, 7:9] = np.nan
    states[5, -4:] = np.nan
    other = romkit.hidden_context(data.assign(state=(data["state"].dims, states)), group="batch")
    assert other.number == 1
    np.testing.assert_allclose(
        other.values["value"].values, found.values["value"].values, atol=1e-5
    )


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        (lambda data: data.assign_coords(batch=("trajectory", np.zeros(10))), "group"),
        (lambda data: data.isel(time=slice(0, 4)), "runs"),
        (lambda data: data.drop_vars("batch"), "group"),
        (lambda data: data.assign_coords(batch=("trajectory", [*range(9), np.nan])), "group"),
        (lambda data: data.where(data["trajectory"] != 3), "runs"),
    ],
    ids=["one group", "short runs", "no such name", "a missing name", "a run without samples"],
)
def test_refused(change, argument):
    with pytest.raises(InputError) as caught:
        romkit.hidden_context(change(oscillators(STIFFNESS)), group="batch")
    assert caught.value.argument == argument


def test_placing_refuses_few_samples(found):
    new = romkit.data.from_arrays(oscillation(1.5, (1.0, 0.0))[:3], TIMES[:3])
    with pytest.raises(InputError):
        found.place(new)


def test_a_run_of_another_kind_is_warned_of(found):
    # a sawtooth is no oscillation
    saw = np.stack([TIMES % 1.0, np.ones_like(TIMES)], -1)
    with pytest.warns(FitWarning):
        found.place(romkit.data.from_arrays(saw, TIMES))


def test_a_context_beyond_the_groups_is_warned_of(found):
    new = romkit.data.from_arrays(oscillation(4.0, (1.0, 0.0)), TIMES)
    with pytest.warns(ExtrapolationWarning):
        found.place(new)


def test_the_door_of_learn_adds_the_parameter():
    data, door = with_hidden_context(oscillators(STIFFNESS[:4]), "hidden", "batch")
    assert wants_hidden(["Re", "hidden"])
    assert not wants_hidden("Re")
    assert romkit.data.context_names(data) == door.names == ("hidden1",)


def test_learn_refuses_groups_without_hidden_parameters():
    with pytest.raises(InputError) as caught:
        romkit.learn(oscillators(STIFFNESS), group="batch")
    assert caught.value.argument == "group"


def test_gauge_changes_no_law():
    draw = torch.Generator().manual_seed(0)
    normal = lambda *shape: torch.randn(*shape, generator=draw, dtype=torch.float64)  # noqa: E731
    terms = ContextTerms(1, 2, 2)
    family = Family(terms, normal(3, terms.number, 2), normal(9, 1), 5 + 3 * normal(9, 2))
    half = normal(6, 6)
    other = gauged(family, half @ half.mT)
    torch.testing.assert_close(other.weights, family.weights, rtol=1e-8, atol=1e-8)
    covariance = other.hidden.mT @ other.hidden / 9
    torch.testing.assert_close(covariance, torch.eye(2).double(), rtol=0, atol=1e-9)
    torch.testing.assert_close(
        other.known.mT @ other.hidden, torch.zeros(1, 2).double(), rtol=0, atol=1e-9
    )
    assert (other.hidden[0] > 0).all()


def test_slopes_of_context_terms():
    terms = ContextTerms(1, 2, 3)
    context = torch.tensor([0.3, -0.7, 1.1]).double()
    jacobian = torch.func.jacrev(terms)(context)
    torch.testing.assert_close(terms.slopes(context), jacobian[:, 1:])


def test_map_of_labels_is_exact_for_its_degree():
    x = torch.linspace(-2, 3, 9).double().unsqueeze(-1)
    curve = Polynomial.fit(x, 1 + x - 0.5 * x**2)
    assert curve.degree == 2
    torch.testing.assert_close(curve(x), 1 + x - 0.5 * x**2)
    torch.testing.assert_close(curve.slope(x[0]), 1 - x[:1])


def test_what_is_saved_is_the_same(found, tmp_path):
    labelled = found.labelled({"stiffness": STIFFNESS})
    loaded = romkit.load(romkit.save(labelled, tmp_path / "hidden.safetensors"))
    xr.testing.assert_identical(loaded.runs, labelled.runs)
    xr.testing.assert_identical(loaded.values, labelled.values)
    pd.testing.assert_frame_equal(loaded.trials, labelled.trials)
    new = romkit.data.from_arrays(oscillation(1.75, (1.0, -0.5))[:10], TIMES[:10])
    placed, other = labelled.place(new), loaded.place(new)
    xr.testing.assert_identical(other.values, placed.values)
    ahead = {"duration": 2.0, "dt": 0.5}
    xr.testing.assert_identical(other.forecast(**ahead), placed.forecast(**ahead))
    assert repr(loaded) == repr(labelled)


def test_a_changed_file_is_refused(found, tmp_path):
    path = romkit.save(found, tmp_path / "hidden.safetensors")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileError):
        romkit.load(path)
    header, tensors = storage.packed(found)
    hidden = next(name for name in tensors if name.endswith("family.hidden"))
    tensors[hidden] = tensors[hidden][:-1]
    with pytest.raises(FileError):
        storage.unpacked(path, header, tensors)


@pytest.mark.slow
def test_a_saved_model_of_learn_places_runs(tmp_path):
    model = romkit.learn(oscillators(STIFFNESS), context="hidden", group="batch")
    loaded = romkit.Learned.load(model.save(tmp_path / "model"))
    new = romkit.data.from_arrays(oscillation(1.75, (1.0, -0.5))[:10], TIMES[:10])
    assert loaded.place(new).context == model.place(new).context


def test_predictions_away_from_the_groups_are_less_sure():
    x = torch.linspace(-1, 1, 9).double().unsqueeze(-1)
    noise = torch.tensor([1.0, -1.0]).double().repeat(5)[:9].unsqueeze(-1)
    line = Polynomial.fit(x, 2 * x + 0.1 * noise)
    # s² (1 + 1/G + x² / Σ x²) of a regression
    expected = 1 + 1 / 9 + 9 / x.square().sum()
    ratio = line.variances(torch.tensor([3.0]).double()) / line.variance
    torch.testing.assert_close(ratio, expected.reshape(1))


def test_modes_that_hold_almost_nothing_are_left_out():
    draw = np.random.default_rng(3)
    shapes = np.linalg.qr(draw.standard_normal((20, 3)))[0].T  # (3, n)
    sizes = draw.standard_normal((200, 3)) * [1.0, 0.5, 0.01]
    states = torch.from_numpy(sizes @ shapes)[None]
    assert reading._basis(states, None).rank == 2
    assert reading._basis(states, 3).rank == 3
