"""Short laws: the terms of known equations, and no others."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from romkit.core.errors import InputError
from romkit.laws import LatentSamples, PolynomialLaw, Scaling
from romkit.laws.determined import relations
from romkit.laws.shorten import shortened, unshifted


def runs(rate, starts, times, contexts, names) -> LatentSamples:
    """Trajectories of an equation, one for each context and start, with scaled contexts."""
    paths, rows = [], []
    for c in contexts:
        for start in starts:
            solved = solve_ivp(
                rate, (0, times[-1]), start, t_eval=times, args=c, rtol=1e-10, atol=1e-12
            )
            paths.append(solved.y.T)
            rows.append(c)
    z, context = torch.tensor(np.array(paths)), torch.tensor(rows)
    low, high = context.amin(0), context.amax(0)
    scaling = Scaling(names, (low + high) / 2, (high - low) / 2)
    t = torch.tensor(times)
    return LatentSamples.first_order(z, torch.zeros_like(z), context, times=t, parameters=scaling)


def lotka_volterra(t, s, beta, delta):
    x, y = s
    return [0.5 * x - beta * x * y, delta * x * y - 0.5 * y]


def chain(t, s, k):
    a, b, _ = s
    return [-k * a, k * a - 0.4 * b, 0.4 * b]


@pytest.fixture(scope="module")
def prey():
    contexts = [(beta, delta) for beta in (0.5, 0.75, 1.0) for delta in (0.5, 0.75, 1.0)]
    starts = [(1.0, 2.0), (2.5, 1.5)]
    return runs(lotka_volterra, starts, np.arange(20) * 0.5, contexts, ("beta", "delta"))


def test_lotka_volterra_over_two_parameters_has_its_four_terms(prey):
    law = PolynomialLaw(degree=2, context_degree=1).fit_samples(prey)
    short = shortened(law, prey)
    assert short.coefficient_count == 4
    state = torch.tensor([[1.5, 2.0], [4.0, 0.1]], dtype=torch.float64)
    context = torch.tensor([[0.6, 0.9], [1.5, 0.2]], dtype=torch.float64)  # extrapolates, too
    right = [
        lotka_volterra(0, s, *c) for s, c in zip(state.tolist(), context.tolist(), strict=True)
    ]
    found = short.predict(state, context)
    assert torch.allclose(found, torch.tensor(right, dtype=torch.float64), atol=1e-5)


def test_terms_without_shifts_are_the_same_law(prey):
    law = PolynomialLaw(degree=2, context_degree=1).fit_samples(prey)
    plain = unshifted(law, prey)
    state = prey.inputs[::7].double()
    context = prey.context[::7].double()
    assert torch.allclose(plain.predict(state, context), law.predict(state, context), atol=1e-10)
    assert not plain.basis.variables.shift.any()


def test_of_equations_that_fit_as_well_the_shortest_is_taken_and_the_sum_named():
    samples = runs(
        chain,
        [(1.0, 0.0, 0.0)],
        np.linspace(0, 10, 51),
        [(k,) for k in (0.3, 0.7, 1.1, 1.5)],
        ("k",),
    )
    assert [str(relation) for relation in relations(samples)] == ["z0 + z1 + z2 = 1"]
    with pytest.warns(match=r"z0 \+ z1 \+ z2 = 1"):
        law = PolynomialLaw(degree=1, context_degree=1).fit_samples(samples)
    short = shortened(law, samples)
    assert short.coefficient_count == 4
    assert "z0 + z1 + z2 = 1" in short.source


def locking(t, s, w):
    a, b, c, d = s  # cosine and sine of two phases, whose squares have the sum 1
    first, second = 1 + 0.8 * (d * a - c * b), 1 + w + 0.8 * (b * c - a * d)
    return [-b * first, a * first, -d * second, c * second]


def test_a_cubic_law_is_short_where_products_of_its_latents_depend_on_each_other():
    start = [1.0, 0.0, np.cos(1), np.sin(1)]
    contexts = [(w,) for w in (0.2, 0.6, 1.0)]
    samples = runs(locking, [start], np.arange(61) * 0.2, contexts, ("w",))
    law = PolynomialLaw(degree=3, context_degree=1).fit_samples(samples)
    short = shortened(law, samples)
    assert short.coefficient_count <= 20 < law.coefficient_count / 10  # of these 14 are needed
    state, context = torch.tensor([start], dtype=torch.float64), torch.tensor([[0.55]])
    right = torch.tensor([locking(0, start, 0.55)], dtype=torch.float64)
    assert torch.allclose(short.predict(state, context.double()), right, atol=1e-6)


def test_left_out_errors_may_be_anyones_and_a_law_that_none_improves_stays(prey):
    law = PolynomialLaw(degree=2, context_degree=1).fit_samples(prey)
    tried = []

    def left_out(fit):
        found = fit(prey)
        tried.append(found.coefficient_count)
        worst = torch.ones(3, dtype=torch.float64)
        yield worst * (len(tried) > 1)  # all terms are perfect, fewer are of no use

    assert shortened(law, prey, left_out) is law
    assert tried[0] == max(tried) == law.coefficient_count


def test_a_stack_is_refused(prey):
    law = PolynomialLaw(degree=1, context_degree=0).fit_samples(prey)
    stack = replace(law, coefficients=law.coefficients.expand(2, -1, -1))
    with pytest.raises(InputError):
        shortened(stack, prey)


def selkov(t, s, b):
    x, y = s
    return [-x + 0.1 * y + x * x * y, b - 0.1 * y - x * x * y]


def test_a_law_of_samples_farther_apart_than_its_motion_takes():
    draw = np.random.default_rng(0)
    times = np.arange(11) * 4.0
    contexts = [(b,) for b in np.linspace(-1, 1, 9).tolist()]
    samples = runs(selkov, draw.uniform(0, 3, (4, 2)), times, contexts, ("b",))
    law = PolynomialLaw(degree=3, context_degree=1).fit_samples(samples)
    state = torch.tensor([[0.5, 1.5], [1.0, 2.0]], dtype=torch.float64)
    context = torch.tensor([[0.3], [-0.4]], dtype=torch.float64)
    right = [selkov(0, s, *c) for s, c in zip(state.tolist(), context.tolist(), strict=True)]
    found = law.predict(state, context)
    assert torch.allclose(found, torch.tensor(right, dtype=torch.float64), atol=0.02)
    # fits of fewer terms begin beyond single intervals, and need the same short steps
    assert shortened(law, samples).coefficient_count == 6
