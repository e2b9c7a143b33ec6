"""`romkit.sample`: choices against linear algebra, designs, resumed calls, data that exist, and
refusals.
"""

import inspect
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import romkit
from romkit.data import ContextParameter
from romkit.laws import DMD
from romkit.plotting import plot_sample
from romkit.systems import Lorenz96, System
from romkit.training import Recipe
from romkit.verbs import sample as sampling
from romkit.verbs.sample import LOST, Stopping, design
from tests.refusals import refused

CANDIDATES = {"c": np.linspace(0, 1, 41)}
FEW = {"c": np.linspace(0, 1, 6)}
POWER = 8


@dataclass(frozen=True)
class Forced(System):
    """ẋ = g(c) - x from x = 0, with g = (1, c, 3 c^power, 0, 0): x = (1 - exp(-t)) g."""

    power: int = POWER
    dt: float = 0.1
    duration: float = 1.0
    transient: float = 0.0
    horizon: float = 1.0

    name = "forced"
    state_names = tuple(f"x{k}" for k in range(5))
    context = (ContextParameter("c", "1", 0.0, 1.0, "place of the forcing"),)

    def rhs(self, t, x, c):
        one = torch.ones_like(c)
        return torch.cat([one, c, 3 * c**self.power, 0 * one, 0 * one], dim=-1) - x

    def initial_state(self, contexts, rng):
        return contexts.new_zeros(len(contexts), 5)


def forcing(c, power=POWER):
    return np.stack([np.ones_like(c), c, 3 * c**power, 0 * c, 0 * c], axis=-1)


def chosen(found):
    return found.contexts["c"].tolist()


def test_the_first_choice_is_where_the_forcing_is_farthest_from_those_of_training(tmp_path):
    found = romkit.sample(
        Forced(), 3, "greedy", candidates=CANDIDATES, latent_dim=2, folder=tmp_path
    )
    c = CANDIDATES["c"]
    modes = np.linalg.qr(forcing(np.array([0.0, 1.0])).T).Q  # what training spans
    left = forcing(c) - forcing(c) @ modes @ modes.T
    std = found.data.isel(trajectory=[0, 1]).state.values.std((0, 1))
    distance = np.linalg.norm(left / np.where(std > 0, std, np.inf), axis=-1)
    assert chosen(found) == [0.0, 1.0, c[distance.argmax()]]
    assert (
        abs(c[distance.argmax()] - POWER ** (-1 / (POWER - 1))) < 0.15
    )  # c - c^power is largest there
    assert found.history.entered.values[[0, -1]].tolist() == [0, 0]


def test_estimates_have_the_units_of_errors(tmp_path):
    """Modes that do not even span the training data: errors there are known, and elsewhere of their
    size.
    """
    found = romkit.sample(
        Forced(), 2, "greedy", candidates=CANDIDATES, latent_dim=1, folder=tmp_path
    )
    run = romkit.rollout(Forced(), found.projection, c=CANDIDATES["c"])
    ratio = found.history.estimate.values[-1] / run.nrmse.mean("time").values
    assert np.isclose(
        np.log(ratio[[0, -1]]).mean(), 0, atol=0.2
    )  # a run of `rollout` has one time more
    assert 0.2 < np.median(ratio) < 5


def test_a_model_that_is_exact_everywhere_ends_the_choice_at_once(tmp_path):
    exact = romkit.sample(
        Forced(power=1),
        6,
        "greedy",
        candidates=CANDIDATES,
        latent_dim=2,
        tolerance=2e-6,
        folder=tmp_path,
    )
    assert chosen(exact) == [0.0, 1.0]
    assert exact.history.sizes["round"] == 1


@pytest.mark.parametrize(
    ("errors", "counts", "plateau", "min_decrease", "ends"),
    [
        ([4.0, 2.0, 1.0], [2, 3, 4], 1, 0.4, False),  # halves with each context
        ([4.0, 2.0, 1.0], [2, 3, 4], 1, 0.5, True),  # by no more than a half
        ([4.0, 2.0, 1.0], [2, 3, 4], 2, 0.5, False),  # by three quarters over two
        ([4.0, 2.0, 1.0], [2, 3, 4], 3, 1.0, False),  # there were no three contexts yet
        ([4.0, 5.0, 2.0], [2, 3, 4], 2, 0.1, False),  # rises, then falls
        ([4.0, 2.0, 6.0, 3.0], [2, 3, 4, 5], 2, 0.1, True),  # falls, but not below the lowest
        ([4.0, 3.9], [2, 6], 4, 0.1, True),  # one round of four contexts
        ([4.0, 3.9], [2, 6], 5, 0.1, False),
        ([4.0, 3.9, 3.8], [2, 5, 8], 4, 0.1, True),  # rounds of three: four reach back to the first
        ([LOST, LOST, LOST], [2, 3, 4], 1, 0.1, False),
        ([1.0, LOST, LOST], [2, 3, 4], 2, 0.1, True),
    ],
)
def test_a_plateau_is_a_lowest_error_that_stays(errors, counts, plateau, min_decrease, ends):
    rules = Stopping(0.0, plateau, min_decrease)
    assert rules.stagnates(np.array(errors), np.array(counts)) == ends


@pytest.mark.parametrize(
    ("latent_dim", "at_once", "plateau", "min_decrease"),
    [(1, 2, 2, 0.3), (2, 1, 1, 0.0)],
)
def test_a_plateau_ends_the_choice_and_changes_none(
    latent_dim, at_once, plateau, min_decrease, tmp_path
):
    """By the history of a call without one, whose errors are compared context by context."""
    settings = {"candidates": FEW, "latent_dim": latent_dim, "at_once": at_once, "folder": tmp_path}
    whole = romkit.sample(Forced(), 6, "greedy", **settings)
    ended = romkit.sample(Forced(), 6, plateau=plateau, min_decrease=min_decrease, **settings)
    largest = whole.history.estimate.max("candidate").values.tolist()
    after = {2 + at_once * k: error for k, error in enumerate(largest)}  # contexts: error
    for number in after:
        before = [error for count, error in after.items() if count <= number - plateau]
        since = [error for count, error in after.items() if number - plateau < count <= number]
        if before and 1 - min(since) / min(before) <= min_decrease:
            break
    assert number < 6
    assert chosen(ended) == chosen(whole)[:number]
    rounds = ended.history.sizes["round"]
    assert np.array_equal(ended.history.estimate, whole.history.estimate[:rounds])


def test_patience_is_that_of_the_training(tmp_path):
    """Settings of `romkit.fit` go to it, whatever ends the choice."""
    system = Lorenz96(n=8, transient=0.0, duration=0.3)
    training = {"latent_dim": 2, "epochs": 2, "validation": 0.4, "patience": 1, "verbose": False}
    given = {"candidates": 5, "plateau": 1, "min_decrease": 1.0, "folder": tmp_path}
    found = romkit.sample(system, 5, projection="ncae", **given, **training)
    assert len(found.data.trajectory) == 3


def test_a_larger_budget_goes_on_from_what_is_there(tmp_path):
    settings = {"candidates": FEW, "latent_dim": 3}
    few = romkit.sample(Forced(), 3, "greedy", folder=tmp_path / "a", **settings)
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "a").glob("*.nc")}
    more = romkit.sample(Forced(), 4, "greedy", folder=tmp_path / "a", **settings)
    whole = romkit.sample(Forced(), 4, "greedy", folder=tmp_path / "b", **settings)
    assert chosen(more)[:3] == chosen(few)
    assert chosen(more) == chosen(whole)
    assert len(times) == 3
    assert {file: file.stat().st_mtime_ns for file in times} == times
    other = romkit.sample(Forced(duration=0.5), 2, "greedy", folder=tmp_path / "a", **settings)
    assert other.data.sizes["time"] == 5  # files of another system are not taken for its own


def test_an_interrupted_call_goes_on_with_the_same_weights(tmp_path, monkeypatch):
    system = Lorenz96(n=8, transient=0.0, duration=0.3)
    settings = {
        "projection": "ncae",
        "latent_dim": 2,
        "epochs": 3,
        "candidates": 5,
        "verbose": False,
    }
    whole = romkit.sample(system, 3, "greedy", folder=tmp_path / "a", **settings)
    follow = sampling.follow

    def interrupted(model, *given, **named):
        if model.frame.context_names and len(list((tmp_path / "b").glob("*.nc"))) == 3:
            raise KeyboardInterrupt
        return follow(model, *given, **named)

    monkeypatch.setattr(sampling, "follow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        romkit.sample(system, 3, "greedy", folder=tmp_path / "b", **settings)
    monkeypatch.undo()
    again = romkit.sample(system, 3, "greedy", folder=tmp_path / "b", **settings)
    assert np.array_equal(again.data.state, whole.data.state)
    for own, other in zip(
        again.projection.parameters(), whole.projection.parameters(), strict=True
    ):
        assert torch.equal(own, other)
    assert np.array_equal(again.history.estimate, whole.history.estimate)


def test_training_begins_with_the_parameters_of_another():
    data = Lorenz96(n=8, transient=0.0, duration=0.3).dataset(F=[3.14, 3.16, 3.18])
    settings = {"latent_dim": 2, "verbose": False}
    first = romkit.fit("ncae", data, epochs=20, **settings)
    same = romkit.fit("ncae", data, start=first, epochs=1, learning_rate=1e-12, seed=7, **settings)
    x = torch.tensor(data.state.values[0], dtype=torch.float32)
    assert torch.allclose(same(F=3.14)(x), first(F=3.14)(x), rtol=0, atol=1e-4)
    cold = romkit.fit("ncae", data, epochs=1, seed=7, **settings)
    warm = romkit.fit("ncae", data, start=first, epochs=1, seed=7, **settings)
    assert warm.report["losses"][0] < 0.5 * cold.report["losses"][0]
    stack = romkit.fit("ncae", data, epochs=2, seeds=range(2), **settings)
    assert romkit.fit("ncae", data, start=stack, epochs=1, seeds=range(2), **settings).seeds == 2


def test_designs_are_those_of_their_names():
    assert np.allclose(design("uniform", 1, 5, 0).ravel(), np.linspace(0, 1, 5))
    roots = np.polynomial.chebyshev.chebroots([0] * 7 + [1])
    assert np.allclose(np.sort(2 * design("chebyshev", 1, 7, 0).ravel() - 1), np.sort(roots))
    expanded = np.sort(roots) / roots.max()
    assert np.allclose(2 * design("expanded", 1, 7, 0).ravel() - 1, expanded)
    assert np.allclose(design("expanded", 1, 1, 0), 0.5)
    for method, (p, number) in itertools.product(
        ("uniform", "chebyshev", "expanded"), ((2, 9), (2, 8), (3, 30), (4, 5))
    ):
        grid = design(method, p, number, 0)
        sides = [len(np.unique(axis.round(12))) for axis in grid.T]
        assert (
            len(grid) == np.prod(sides) <= number < np.prod(sides) // min(sides) * (min(sides) + 1)
        )
    eighths = np.sort(
        (8 * design("sobol", 2, 8, 3)).astype(int), axis=0
    )  # a net has a point in each
    assert (eighths == np.arange(8)[:, None]).all()
    for method in ("sobol", "random"):
        once, twice, other = (design(method, 2, 6, seed) for seed in (0, 0, 1))
        assert np.array_equal(once, twice)
        assert not np.array_equal(once, other)
        assert once.shape == (6, 2)


def test_the_default_is_a_grid_that_reaches_the_ends_where_points_are_few(tmp_path):
    given = {"candidates": 4, "latent_dim": 2, "folder": tmp_path}
    found = romkit.sample(Forced(), 4, **given)
    assert found.history.sizes["round"] == 1
    assert chosen(found) == pytest.approx(design("expanded", 1, 4, 0).ravel().tolist())
    assert [min(chosen(found)), max(chosen(found))] == [0.0, 1.0]
    more = romkit.sample(Forced(), 4, at_once=2, **given)
    assert more.history.sizes["round"] == 2
    plane = romkit.systems.Burgers2D(cells=4, duration=1.0)
    low, high = (np.array([getattr(mu, end) for mu in plane.context]) for end in ("low", "high"))
    for budget, method in ((3, "expanded"), (4, "chebyshev")):
        found = romkit.sample(plane, budget, **given)
        points = low + design(method, 2, budget, 0) * (high - low)
        assert np.stack(list(found.contexts.values()), axis=-1) == pytest.approx(points)


def test_contexts_of_one_round_keep_apart(tmp_path):
    found = romkit.sample(
        Forced(), 4, "greedy", at_once=2, candidates=CANDIDATES, latent_dim=2, folder=tmp_path
    )
    assert found.history.sizes["round"] == 2
    a, b = chosen(found)[2:]
    assert abs(a - b) > 0.1


def test_an_executor_gives_the_same(tmp_path):
    settings = {"candidates": FEW, "latent_dim": 2}
    alone = romkit.sample(Forced(), 3, "greedy", folder=tmp_path / "a", **settings)
    with ThreadPoolExecutor(2) as executor:
        shared = romkit.sample(
            Forced(), 3, "greedy", folder=tmp_path / "b", executor=executor, **settings
        )
    assert chosen(shared) == chosen(alone)
    assert np.allclose(shared.history.estimate, alone.history.estimate, rtol=1e-6)


@pytest.fixture(scope="module")
def measured():
    data = Forced().dataset(c=np.linspace(0, 1, 9))
    return data.assign_attrs(system="")


@pytest.mark.parametrize(
    "how",
    [
        {"system": Forced()},
        {"dynamics": DMD()},
        {"dynamics": DMD(), "projection": "ncae", "seeds": range(2)},
    ],
)
def test_trajectories_that_exist_are_chosen_without_a_look_at_them(measured, how, tmp_path):
    """Only their first states and their contexts count: others behind these change nothing."""
    trained = {"epochs": 2, "verbose": False} if "projection" in how else {}
    settings = {"latent_dim": 2, **how, **trained}
    found = romkit.sample(measured, 4, "greedy", folder=tmp_path / "a", **settings)
    assert len(set(chosen(found))) == 4
    rest = ~np.isin(measured.c.values, chosen(found))
    assert np.array_equal(found.history.entered.values < 0, rest)
    state = measured.state.values.copy()
    state[rest, 1:] = 7.0
    changed = measured.assign(state=(measured.state.dims, state))
    other = romkit.sample(changed, 4, "greedy", folder=tmp_path / "b", **settings)
    assert chosen(other) == chosen(found)


def test_grids_take_the_nearest_trajectories(measured, tmp_path):
    found = romkit.sample(measured, 3, "uniform", system=Forced(), latent_dim=2, folder=tmp_path)
    assert chosen(found) == [0.0, 0.5, 1.0]
    whole = romkit.sample(measured, 99, "random", system=Forced(), latent_dim=2, folder=tmp_path)
    assert sorted(chosen(whole)) == measured.c.values.tolist()


def test_a_picture_of_two_parameters_is_a_plane(tmp_path):
    system = romkit.systems.Burgers2D(cells=4, duration=1.0)
    found = romkit.sample(system, 3, "greedy", candidates=9, latent_dim=4, folder=tmp_path)
    figure = plot_sample(found.history)
    assert figure.axes[0].get_xlabel() == "mu1"
    assert figure.axes[0].get_ylabel() == "mu2"
    assert json.loads(found.data.attrs["parameters"])["cells"] == 4


@dataclass(frozen=True)
class Alone(Forced):
    name = "alone"
    context = ()


MEASURED = Forced().dataset(c=[0.0, 0.5, 1.0]).assign_attrs(system="")


NO_CONTEXT = "source"


@pytest.mark.parametrize(
    ("source", "given", "argument"),
    [
        (Forced(), {"budget": 1}, "budget"),
        (Alone(), {}, NO_CONTEXT),
        (
            MEASURED.drop_vars("c"),
            {"system": Forced()},
            "source",
        ),
        (
            Forced(),
            {"method": "gredy"},
            "method",
        ),
        (
            Forced(),
            {"candidates": {"c": [0.0, 1.5]}},
            "candidates",
        ),
        (Forced(), {"candidates": {"d": [0.0, 0.5]}}, "d"),
        (Forced(), {"projection": "pot"}, "projection"),
        (
            MEASURED,
            {},
            "dynamics",
        ),
        (Forced(), {"method": "uniform", "tolerance": 0.1}, "method"),
        (Forced(), {"method": "sobol", "plateau": 3}, "method"),
        (Forced(), {"min_decrease": 0.1}, "plateau"),
        (Forced(), {"plateau": 0}, "plateau"),
        (Forced(), {"plateau": 2, "min_decrease": 1.5}, "min_decrease"),
        (3.0, {}, "source"),
    ],
)
def test_what_cannot_be_sampled_is_refused_in_a_line(source, given, argument, tmp_path):
    refused(argument, romkit.sample, source, latent_dim=2, folder=tmp_path, **given)


def test_a_start_of_other_sizes_is_refused():
    data = Lorenz96(n=8, transient=0.0, duration=0.1).dataset(F=[3.14, 3.18])
    start = romkit.fit("ncae", data, latent_dim=2, epochs=1, verbose=False)
    refused(
        "start",
        romkit.fit,
        "ncae",
        data,
        latent_dim=3,
        epochs=1,
        start=start,
    )
    refused(
        "start",
        romkit.fit,
        "ncae",
        data,
        latent_dim=2,
        seeds=[0, 1],
        start=start,
    )


def test_no_option_takes_a_setting_of_fit_from_it():
    options = set(inspect.signature(romkit.sample).parameters)
    assert not options & set(inspect.signature(Recipe).parameters)
