"""The polynomial manifold: what is chosen, what is recovered, and what is refused."""

import copy
import functools

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import DataWarning
from romkit.core.polynomials import Monomials, chebyshev, total_degree
from romkit.laws import SINDy
from romkit.projections import Frame
from romkit.projections.context_terms import ContextTerms
from romkit.projections.division import Division
from romkit.projections.leftout import Settings, Trial, simplest
from romkit.projections.polynomial import PolynomialManifold
from romkit.testing import check_projection
from romkit.training.batches import Batch
from tests.refusals import refused

CONTEXTS = np.array([1.0, 1.4, 2.0, 2.7, 3.5, 4.2, 5.0, 6.0])


def runs(contexts, orbit, times=60, name="c"):
    """Runs x(t; c) = orbit(phase, c) (n,) over a round, with the context by name."""
    phase = np.linspace(0, 2 * np.pi, times, endpoint=False)
    states = np.stack([np.stack([orbit(t, c) for t in phase]) for c in contexts])
    return romkit.data.from_arrays(states, phase, context={name: contexts})


def bent(t, c):
    """A circle whose radius follows c, and bends of degree two and three that follow 1 / c; they
    correlate with neither coordinate, so that the leading modes are those of the circle.
    """
    a, b = c * np.cos(t), c * np.sin(t)
    bends = 0.2 * (a**2 - b**2) / c, 0.05 * a * (a**2 - 3 * b**2) / c
    return np.array([3 * a, 3 * b, *bends, 0.03 * a * b])


def error(model, data):
    """Largest error of projected states, relative to their deviation."""
    double, worst = copy.deepcopy(model).double(), 0.0
    names = model.frame.context_names
    for k in range(data.sizes["trajectory"]):
        x = torch.from_numpy(data.state.values[k])
        P = double(**{name: float(data[name][k]) for name in names})
        worst = max(worst, float((P(x) - x).norm() / (x - x.mean(0)).norm()))
    return worst


def test_monomials_are_those_of_their_factors():
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    monomials = Monomials(3, 4)
    expected = torch.stack([z[:, list(f)].prod(-1) for f in monomials.factors], -1)
    assert torch.allclose(monomials(z), expected, rtol=1e-14)
    assert len({tuple(sorted(f)) for f in monomials.factors}) == len(monomials) == 35
    slopes = torch.einsum("nk,mkl->nml", monomials(z), monomials.slopes())
    jacobian = torch.func.vmap(torch.func.jacfwd(monomials))(z)
    assert torch.allclose(slopes.mT, jacobian, rtol=1e-12, atol=1e-12)
    twice = Monomials(3, 8)(z)
    a, b = monomials(z).unsqueeze(-1), monomials(z).unsqueeze(-2)
    assert torch.allclose(twice[:, monomials.products()], a * b, rtol=1e-12)
    other = Monomials(3, 2)
    a, b = monomials(z).unsqueeze(-1), other(z).unsqueeze(-2)
    assert torch.allclose(Monomials(3, 6)(z)[:, monomials.products(other)], a * b, rtol=1e-12)


def test_chebyshev_polynomials_go_on_along_their_tangents():
    s = torch.linspace(-1, 1, 7, dtype=torch.float64)
    expected = np.polynomial.chebyshev.chebvander(s.numpy(), 4)
    assert np.allclose(chebyshev(s, 4), expected, atol=1e-14)
    end, slope = torch.ones((), dtype=torch.float64), np.arange(5.0) ** 2
    assert np.allclose(chebyshev(end + 2.0, 4), 1 + 2 * slope)
    assert total_degree(2, 2) == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0)]


@pytest.mark.parametrize("warp", ["c", "1/c", "log c"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_terms_of_the_context_are_finite_everywhere_and_smooth_inside(warp, sign):
    ends = torch.tensor(sorted([sign * 2.0, sign * 8.0]), dtype=torch.float64)
    terms = ContextTerms(ends[:1], ends[1:], [False], [warp], 3)
    ratio = torch.linspace(2, 8, 9, dtype=torch.float64)
    warped = {"c": ratio, "1/c": 1 / ratio, "log c": ratio.log()}[warp]
    s = 2 * (warped - warped[0]) / (warped[-1] - warped[0]) - 1
    expected = torch.from_numpy(np.polynomial.chebyshev.chebvander(s.numpy(), 3))
    found = terms((sign * ratio).unsqueeze(-1))
    if sign < 0 and warp != "log c":  # the range is turned around with its sign
        expected = expected * torch.tensor([1.0, -1.0, 1.0, -1.0])
        found, expected = found.abs(), expected.abs()
    assert torch.allclose(found.abs(), expected.abs(), atol=1e-12)
    far = torch.tensor([[0.0], [-100.0], [100.0]], dtype=torch.float64)
    assert bool(terms(far).isfinite().all())


@pytest.fixture(scope="module")
def manifold():
    """All settings are chosen by the data; no test may change it."""
    return romkit.fit("polynomial-manifold", runs(CONTEXTS, bent))


def test_a_bend_that_follows_the_context_is_recovered_between_contexts(manifold):
    model = manifold
    assert model.latent_dim == 2
    assert model.config["degree"] == 3
    assert error(model, runs([1.2, 2.3, 4.7], bent)) < 1e-3
    check_projection(model)


def test_a_setting_that_is_given_stays():
    given = {"latent_dim": 3, "degree": 4, "context_degree": 2, "warp": ["log c"], "ridge": 1e-5}
    model = romkit.fit("polynomial-manifold", runs(CONTEXTS, bent), **given)
    assert model.config == given
    again = romkit.fit("polynomial-manifold", runs(CONTEXTS, bent), **model.config)
    assert torch.equal(again.correction, model.correction)


def test_whole_contexts_inside_the_range_are_left_out():
    c = torch.from_numpy(CONTEXTS).repeat_interleave(10).unsqueeze(-1)
    division = Division.build(c)
    left_out = {float(c[division.pieces[k][0]]) for fold in division.folds for k in fold}
    assert left_out == {1.4, 2.7, 4.2}
    grid = torch.cartesian_prod(torch.arange(3.0), torch.arange(3.0)).repeat_interleave(5, 0)
    division = Division.build(grid)
    assert [grid[division.pieces[k][0]].tolist() for fold in division.folds for k in fold] == [
        [0.0, 1.0],
        [1.0, 1.0],
        [2.0, 1.0],
    ]
    scattered = torch.tensor([[0.0, 0.3], [0.4, 0.0], [0.5, 0.4], [1.0, 0.6], [0.7, 1.0]])
    assert Division.build(scattered).folds == [[2]]
    alone = Division.build(torch.ones(23, 1))
    assert torch.equal(torch.cat(alone.pieces), torch.arange(23))
    assert len(alone.folds) == 5


def test_one_context_alone_and_none():
    data = runs([2.0], bent)
    for several in (data, data.drop_vars("c")):
        model = romkit.fit("polynomial-manifold", several)
        assert model.config["context_degree"] == 0
        assert error(model, several) < 1e-2
        check_projection(model)


def test_two_parameters_have_terms_of_total_degree():
    def orbit(t, c):
        a, b = np.cos(t), np.sin(t)
        return np.array([3 * a, 3 * b, (0.3 + c[0] * c[1]) * a * b, c[0] ** 2 * (a**2 - b**2)])

    grid = np.array([(a, b) for a in (0.0, 0.3, 0.6, 1.0) for b in (1.0, 2.0, 3.0)])
    phase = np.linspace(0, 2 * np.pi, 40, endpoint=False)

    def at(contexts):
        states = np.stack([np.stack([orbit(t, c) for t in phase]) for c in contexts])
        context = dict(zip("ab", np.array(contexts).T, strict=True))
        return romkit.data.from_arrays(states, phase, context=context)

    model = romkit.fit("polynomial-manifold", at(grid), latent_dim=2)
    assert model.config["context_degree"] == 2
    assert error(model, at([(0.5, 1.5), (0.8, 2.6)])) < 1e-3


def oval(t, c):
    """Bends of an oval, whose leading modes no rounding turns."""
    return bent(t, c) * np.array([1.0, 0.6, 1.0, 1.0, 1.0])


def in_units(factor):
    return lambda data: data.assign(state=factor * data.state), lambda x: x / factor


def shuffled(data):
    return data.isel(component=[3, 1, 4, 0, 2])


def rounded(data):
    return data.assign(state=data.state.astype(np.float32))


# normal equations with a ridge of 1e-10 lose half of the digits; rounding of data to float32 is 6e-8
IN_OTHER_FORM = {
    "a thousand": (*in_units(1e3), 1e-7),
    "shuffled": (shuffled, lambda x: x[:, [3, 1, 4, 0, 2]], 1e-7),
    "float32": (rounded, lambda x: x, 1e-6),
}


CHOSEN = {"by default": {}, "given": {"latent_dim": 2, "degree": 5, "warp": "1/c"}}


@functools.cache
def forecast_of_ovals(chosen, form=None):
    """A manifold of ovals in some form, a projected run, and a forecast."""
    change = (lambda data: data) if form is None else IN_OTHER_FORM[form][0]
    train, truth = change(runs(CONTEXTS, oval)), change(runs([2.3], oval))
    x = truth.state.values[0].astype(np.float64)
    model = romkit.fit("polynomial-manifold", train, **CHOSEN[chosen])
    law = SINDy(degree=2, refine=False).fit(model, train)
    run = romkit.forecast(model, dynamics=law, initial_state=x[0], duration=6.0, dt=0.1, c=2.3)
    return model, model(c=2.3)(x), run["state"].values


@pytest.mark.parametrize("form", IN_OTHER_FORM)
@pytest.mark.parametrize("chosen", CHOSEN)
def test_changed_units_shuffled_components_and_float32_give_the_same(form, chosen):
    _, back, tolerance = IN_OTHER_FORM[form]
    plain, *expected = forecast_of_ovals(chosen)
    model, *changed = forecast_of_ovals(chosen, form)
    assert model.config == plain.config
    assert {value.dtype for value in model.state_dict().values()} == {torch.float64}
    size = float(np.abs(runs([2.3], oval).state).max())
    for x, y in zip(changed, expected, strict=True):
        assert np.abs(back(x) - y).max() < tolerance * size


def test_least_squares_are_in_float64_behind_a_basis_in_files_and_as_stacks(tmp_path):
    data = runs(CONTEXTS, bent)
    for settings in ({}, {"basis": 4}, {"seeds": range(2)}):
        x = data.state.values[2]
        if "seeds" in settings:
            x = x[np.newaxis]
        for method in ("polynomial-manifold", "pod"):
            model = romkit.fit(method, data, latent_dim=2, **settings)
            again = romkit.load(romkit.save(model, tmp_path / "model"))
            assert {value.dtype for value in again.state_dict().values()} == {torch.float64}
            image = model(c=2.0)(x)
            assert np.array_equal(again(c=2.0)(x), image)
            single = model(c=2.0)(x.astype(np.float32))
            assert single.dtype == np.float32
            assert np.allclose(single, image, atol=1e-5)
    assert romkit.fit(
        "ncae", data, latent_dim=2, epochs=1, verbose=False
    ).frame.state_std.dtype == (torch.float32)


def test_the_order_of_runs_has_no_influence(manifold):
    data = runs(CONTEXTS, bent)
    x = data.state.values[3]
    other = romkit.fit("polynomial-manifold", data.isel(trajectory=[5, 2, 7, 0, 1, 6, 4, 3]))
    assert np.abs(manifold(c=2.3)(x) - other(c=2.3)(x)).max() < 1e-7 * np.abs(x).max()


def test_noise_is_not_fitted():
    rng = np.random.default_rng(0)
    data = runs(CONTEXTS, bent, times=30)
    spread = 0.05 * float(data.state.std())
    noisy = data.assign(state=data.state + spread * rng.normal(size=data.state.shape))
    model = romkit.fit("polynomial-manifold", noisy, latent_dim=2)
    exact = {"degree": 7, "context_degree": 3, "ridge": 1e-10}
    free = romkit.fit("polynomial-manifold", noisy, latent_dim=2, **exact)
    unseen = runs([1.2, 2.3, 4.7], bent)
    assert error(model, unseen) < error(free, unseen)


def test_what_data_do_not_determine_is_refused():
    data = runs(CONTEXTS, bent, times=8)
    for settings, fact in (
        ({"latent_dim": 4, "degree": 9}, "degree"),
        ({"context_degree": 8}, "context_degree"),
        ({"degree": 0}, "degree"),
        ({"warp": "sqrt c"}, "warp"),
        ({"warp": ["c", "c"]}, "warp"),
        ({"warp": 3}, "warp"),
        ({"ridge": 0}, "ridge"),
        ({"latent_dim": 6}, "latent_dim"),
        ({"context_degree": -1}, "context_degree"),
    ):
        refused(fact, romkit.fit, "polynomial-manifold", data, **settings)


def test_snapshots_with_gaps_are_used_and_encoded_by_what_is_there():
    data = runs(CONTEXTS, bent, times=40)
    holes = data.copy(deep=True)
    rng = np.random.default_rng(0)
    state = holes.state.values
    for run in state:  # one component is missing in two thirds of the snapshots
        rows = rng.permutation(40)[:26]
        run[rows, rng.integers(5, size=26)] = np.nan
    settings = {"latent_dim": 2, "degree": 3}
    gappy, whole = (
        romkit.fit("polynomial-manifold", several, **settings) for several in (holes, data)
    )
    unseen = runs([1.2, 2.3, 4.7], bent)
    assert error(whole, unseen) < 1e-3
    assert error(gappy, unseen) < 0.02
    x = unseen.state.values[1].copy()
    P = whole.double()(c=2.3)
    z = P.encode(x)
    for component in (0, 2, 4):
        lacking = x.copy()
        lacking[::2, component] = np.nan
        assert np.abs(P.encode(lacking) - z).max() < 0.02
        assert np.array_equal(P.encode(lacking)[1::2], z[1::2])
        assert np.isfinite(P(lacking)).all()
    nothing = np.full_like(x, np.nan)
    assert np.isnan(P.encode(nothing)).all()


def test_the_lower_degree_is_taken_within_one_standard_error_and_a_tenth():
    def trial(degree, of_folds):
        errors = torch.tensor(of_folds)
        settings = Settings(degree, 0, (), 1e-6)
        return Trial(settings, float(errors.square().mean().sqrt()), errors)

    scattered = [0.5, 1.0, 1.5, 1.0, 0.7, 1.3]  # standard error 0.15
    far, near, best = (
        trial(d, [f * e for e in scattered]) for d, f in ((2, 1.3), (3, 1.09), (5, 1.0))
    )
    assert simplest([far, near, best]) is near
    assert simplest([far, best]) is best
    assert simplest([near, best], worse=None) is near
    even = [trial(d, [f] * 6) for d, f in ((3, 1.05), (5, 1.0))]
    assert simplest(even) is even[1]
    assert trial(3, [1.0]).standard_error == 0
    few = [trial(d, [f * e for e in (0.5, 1.0, 1.5)]) for d, f in ((3, 1.05), (5, 1.0))]
    assert simplest(few) is few[1]


class Preferring:
    """Rollouts that only err where the degree is another one, or that are nowhere."""

    def __init__(self, degree, *, nowhere=False):
        self.degree, self.nowhere, self.seen = degree, nowhere, []

    def runs_at(self, contexts):
        return torch.full((len(contexts),), -1) if self.nowhere else torch.arange(len(contexts))

    def errors(self, operator, runs):
        degree = operator.polynomial().monomials.degree
        self.seen.append((degree, operator.context.flatten().tolist()))
        return torch.full((len(runs),), 0.0 if degree == self.degree else 1.0)


def with_rollouts(data, rollouts, **settings):
    frame = Frame.from_dataset(data).double()
    model = PolynomialManifold(frame, torch.Generator().manual_seed(0), **settings).double()
    rows = Batch.select_incomplete(data.assign(velocity=0 * data.state), frame, 1)
    return model, model.initialise(rows.y, rows.c, rollouts)


def test_rollouts_at_left_out_contexts_decide_among_those_of_small_projection_error():
    rng = np.random.default_rng(0)
    data = runs(CONTEXTS, bent)
    data = data.assign(state=data.state + 0.02 * rng.normal(size=data.state.shape))
    for degree in (3, 5):
        rollouts = Preferring(degree)
        model, facts = with_rollouts(data, rollouts, latent_dim=2)
        assert model.config["degree"] == degree
        assert facts["left_out_rollout_error"] == 0
        assert all(contexts == pytest.approx([1.4, 2.7, 4.2]) for _, contexts in rollouts.seen)
        assert 1 not in dict(rollouts.seen)  # far worse by projection
    with pytest.warns(DataWarning, match="system"):
        model, facts = with_rollouts(data, Preferring(5, nowhere=True), latent_dim=2)
    assert "left_out_rollout_error" not in facts
    plain, _ = with_rollouts(data, None, latent_dim=2)
    assert plain.config == model.config


def test_a_manifold_without_a_context_has_the_coefficients_of_the_other_contexts():
    data = runs(CONTEXTS, bent)
    given = {"latent_dim": 2, "degree": 3, "context_degree": 1, "warp": "1/c", "ridge": 1e-8}
    seen = []

    class Images(Preferring):
        def errors(self, operator, runs):
            x = torch.from_numpy(data.state.values[[1, 3, 5]])
            seen.append(operator(x))
            return torch.zeros(len(runs))

    with_rollouts(data, Images(3), **given)
    for k, image in zip((1, 3, 5), seen[0], strict=True):
        x = torch.from_numpy(data.state.values[k])
        assert float((image - x).norm() / x.norm()) < 1e-3


def test_a_system_without_runs_between_others_warns_once_and_bad_input_is_one_line():
    system = romkit.systems.Lorenz96(transient=0.0, duration=1.0)
    one = system.dataset(F=[3.15])
    with pytest.warns(DataWarning, match="system") as caught:
        romkit.fit("polynomial-manifold", one, latent_dim=2, system=system)
    assert len([w for w in caught if "system" in str(w.message)]) == 1
    still = one.assign(state=0 * one.state + 1.0)
    refused("data", romkit.fit, "polynomial-manifold", still)
    short = one.isel(time=slice(0, 3))
    refused("degree", romkit.fit, "polynomial-manifold", short, latent_dim=2, degree=5)
