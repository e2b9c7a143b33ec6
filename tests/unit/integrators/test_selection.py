"""Settings of a law chosen by rollouts of held-out trajectories; laws written in physical latents."""

from dataclasses import replace

import numpy as np
import pytest
import sympy
import torch

import romkit
from romkit.laws import DMD, LatentSamples, OperatorInference, SINDy
from romkit.laws.decoding import make_judge
from romkit.laws.folds import drop_runs, folds_of
from romkit.laws.judge import Judge
from romkit.laws.libraries import Fourier, Functions, Polynomial
from romkit.laws.sources import followed_samples
from romkit.numerics import LOST
from romkit.solvers import RK4
from tests.refusals import refused

MU = torch.linspace(0.5, 2.0, 8, dtype=torch.float64)
TIMES = torch.arange(101, dtype=torch.float64) * 0.1


def van_der_pol(z, mu):
    x, y = (z - 3).unbind(-1)
    return torch.stack([y, mu * (1 - x**2) * y - x], dim=-1)


@pytest.fixture(scope="module")
def samples():
    """Eight oscillators (8, 101, 2) around (3, 3), each with its μ, scaled."""
    start = torch.stack([torch.linspace(3.5, 5, 8), torch.linspace(2, 4, 8)], dim=-1).double()
    z = RK4(0.01)(lambda t, z: van_der_pol(z, MU), start, TIMES).states
    given = LatentSamples.first_order(
        z, van_der_pol(z, MU[:, None]), MU[:, None], times=TIMES, parameters=["mu"]
    )
    return given.scaled()


def error(law, samples):
    """Largest error of forecasts of all trajectories."""
    judge = Judge.compare_latents(samples)
    return float(judge.errors(law, torch.arange(judge.states.shape[-3])).max())


def test_whole_contexts_are_left_out_and_of_a_single_trajectory_blocks_of_time(samples):
    z, c = (torch.cat([x, x]).unflatten(0, (16, 101)) for x in (samples.inputs, samples.context))
    both = LatentSamples.first_order(z, z, c, times=TIMES)
    several = folds_of(both)
    assert len(several) == 5
    train, _, held = drop_runs(both, Judge.compare_latents(both), several[0])
    assert held.tolist() == [1, 6, 9, 14]  # both runs of two contexts between the ends
    assert not set(train.context.flatten().tolist()) & set(MU[[1, 6]].tolist())
    alone = LatentSamples.first_order(z[:1], z[:1], times=TIMES)
    blocks = folds_of(alone)
    assert torch.cat(blocks).tolist() == [*range(17, 101)]  # the first sixth is always kept
    for block in blocks:
        train, judge, held = drop_runs(alone, Judge.compare_latents(alone), block)
        known = train.inputs.isfinite().all(-1).nonzero().flatten().tolist()
        assert sorted(known + block.tolist()) == [*range(101)]
        assert held.tolist() == [0]
        assert torch.equal(judge.samples.inputs, z[0, block])
        assert torch.equal(judge.samples.times, TIMES[block])


def test_pieces_of_trajectories_tell_a_wrong_frequency_where_whole_ones_have_lost_the_phase():
    times = torch.arange(2001, dtype=torch.float64) * 0.1
    z = torch.stack([times.cos(), times.sin()], -1)[None]
    rate = torch.stack([-times.sin(), times.cos()], -1)[None]
    judge = Judge.compare_latents(LatentSamples.first_order(z, rate, times=times))
    pieces = judge.pieces()
    assert all(
        torch.equal(piece.states[0], judge.states[0, piece.begin :][:161]) for piece in pieces
    )
    whole, of_pieces = [], []
    for faster in (1.03, 1.1):
        off = LatentSamples.first_order(z, faster * rate, times=times)
        law = SINDy(degree=1, threshold=0.0).fit_samples(off)
        whole.append(float(judge.errors(law, torch.zeros(1, dtype=torch.long))))
        errors = [piece.errors(law, torch.zeros(1, dtype=torch.long)) for piece in pieces]
        of_pieces.append(float(torch.cat(errors).mean()))
    assert abs(whole[1] / whole[0] - 1) < 0.2
    assert of_pieces[1] / of_pieces[0] > 2.5


def test_coefficients_are_counted_as_far_as_they_are_not_zero(samples):
    dense = OperatorInference(degree=2).fit_samples(samples)
    assert dense.coefficient_count == 6 * 2 * 2  # monomials, terms of the context, latents
    sparse = SINDy(degree=2, threshold=0.3, refine=False).fit_samples(samples)
    assert sparse.coefficient_count == int(sparse.support.sum()) < dense.coefficient_count


@pytest.mark.parametrize("small", [1e-1, 1e-3, 1e-6])
def test_components_of_one_unit_are_judged_in_one_deviation(small):
    t = np.linspace(0, 6, 61)
    waves = np.stack([np.cos(t), np.sin(t), small * np.cos(3 * t)], -1)
    runs = np.stack([waves, 2 * waves])
    data = romkit.data.from_arrays(runs, t, context={"size": [1.0, 2.0]})
    pod = romkit.fit("pod", data, latent_dim=2)
    latents = followed_samples(pod, data)
    states = make_judge(pod.double(), data, latents).states.numpy()  # (2, 61, 3)
    scale = runs.std((0, 1))
    assert np.allclose(states.std((0, 1)), scale / np.sqrt(np.mean(scale**2)), rtol=0.02)


def test_rollouts_choose_the_degree_and_the_threshold(samples):
    law = SINDy().fit_samples(samples, select={"degree": (1, 2, 3), "threshold": (0.002, 3.0)})
    assert law.basis.library == Polynomial(3)
    assert error(law, samples) < 0.01
    assert "SINDy(degree=3, threshold=0.002) chosen out of" in law.source
    assert law.samples == 8 * 101  # fitted to all in the end


def test_regularization_is_chosen_where_none_is_given_and_a_lost_rollout_counts_as_lost(samples):
    law = OperatorInference(degree=3).fit_samples(samples)
    assert "regularization=(" in law.source
    assert error(law, samples) < 0.02
    heavy = OperatorInference(degree=3, regularization=1e3).fit_samples(samples)
    assert error(heavy, samples) > 0.5
    law = SINDy(degree=3, threshold=0.01).fit_samples(samples)
    burst = replace(law, coefficients=-30 * law.coefficients)
    assert error(burst, samples) > 0.9 * LOST


def test_a_context_that_moves_is_followed():
    ramp = 0.5 + 0.1 * TIMES
    z = RK4(0.01)(
        lambda t, z: van_der_pol(z, 0.5 + 0.1 * t), torch.tensor([[4.0, 3.0]]).double(), TIMES
    ).states
    c = ramp[None, :, None]
    moving = LatentSamples.first_order(z, van_der_pol(z, ramp), c, times=TIMES, parameters=["mu"])
    law = SINDy(degree=3, threshold=0.0, alpha=0.0).fit_samples(moving)
    assert error(law, moving) < 1e-3


def test_choices_that_cannot_be_made(samples):
    grown = torch.exp(torch.arange(101.0).double() / 10)[:, None].expand(3, 101, 2) * torch.tensor(
        [1.0, -2.0]
    )
    burst = LatentSamples.first_order(grown, torch.ones(3, 101, 2).double(), times=TIMES)
    fit, threshold = SINDy(degree=1, threshold=0.1).fit_samples, {"threshold": (0.1,)}
    refused(
        "select",
        fit,
        burst,
        select={"treshold": (0.1,)},
    )
    refused("z", fit, burst, select={"degree": (40,)})
    faster = replace(burst, targets=1e9 * burst.inputs)
    refused(
        "select",
        SINDy(degree=1, threshold=0.1, refine=False).fit_samples,
        faster,
        select=threshold,
    )
    scattered = samples.only(torch.ones(len(samples), dtype=torch.bool))
    refused("samples", fit, scattered, select=threshold)
    refused("validation", fit, samples, select=threshold, validation=1.0)
    refused("validation", fit, samples, validation=0.5)


def test_an_equation_is_written_in_physical_latents(samples):
    law = SINDy(degree=3, threshold=1e-3, alpha=0.0).fit_samples(samples)
    x, y, mu = sympy.symbols("z0 z1 mu")
    true = [y - 3, mu * (1 - (x - 3) ** 2) * (y - 3) - (x - 3)]
    for found, expected in zip(law.to_sympy(), true, strict=True):
        difference = sympy.Poly(found.rhs - sympy.expand(expected), x, y, mu)
        assert max(map(abs, difference.coeffs())) < 1e-6
    assert law.formulas(3)[0] == "z0' = z1 - 3.0" or law.formulas(3)[0] == "z0' = 1.0 z1 - 3.0"
    assert law.latex(3)[0].replace("1.0 z_{1}", "z_{1}") == r"\dot{z_{0}} = z_{1} - 3.0"


def test_of_long_equations_the_terms_that_matter_are_written_first():
    """A coefficient of a small variable is large, and its term is not."""
    z = torch.randn(100, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x, y = (z * torch.tensor([1.0, 1e-3])).T
    rate = 5 * x + 90 * y - 2
    states = torch.stack([x, y], dim=-1)
    samples = LatentSamples.first_order(states, torch.stack([rate, rate], dim=-1))
    law = SINDy(degree=1).fit_samples(samples.scaled())
    (line, _) = law.formulas(2, most=2)
    assert "5.0 z0" in line
    assert "2.0" in line
    assert "z1" not in line
    assert "smaller terms: 1" in line
    assert "90.0 z1" in law.formulas(2, most=3)[0]


def test_sympy_and_the_law_agree_on_any_terms():
    z, c = torch.randn(2, 200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    given = LatentSamples.first_order(
        z, z.sin(), c[:, :1], names=["a", "b"], parameters=["mu"]
    ).scaled()
    library = Polynomial(2) + Fourier(2) * Polynomial(1)
    law = SINDy(library=library, threshold=0.0).fit_samples(given)
    a, b, mu = sympy.symbols("a b mu")
    for k, equation in enumerate(law.to_sympy()):
        values = sympy.lambdify((a, b, mu), equation.rhs)(*z.T.numpy(), c[:, 0].numpy())
        assert np.allclose(values, law.predict(z, c[:, :1])[:, k].numpy(), atol=1e-9)
    own = SINDy(library=Functions({"|z0|": lambda z: z[..., 0].abs()}), threshold=0.0).fit_samples(
        z, z.abs()
    )
    refused("law", own.to_sympy)


def test_laws_of_second_order_linear_ones_and_large_latents_print_too():
    z, v = torch.randn(2, 60, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    law = SINDy(degree=1).fit_samples(LatentSamples.second_order(z, v, -4 * z - 0.5 * v).scaled())
    assert law.formulas(2) == ["z0'' = -4.0 z0 - 0.5 z0'"]
    assert law.latex(2) == [r"\ddot{z_{0}} = - 4.0 z_{0} - 0.5 \dot{z_{0}}"]
    path = torch.exp(-0.5 * TIMES)[None, :, None]
    assert DMD().fit_samples(path, -0.5 * path, times=TIMES).formulas(2) == ["z0' = -0.5 z0"]
    y = torch.linspace(-2, 2, 100, dtype=torch.float64).unsqueeze(-1)
    law = SINDy(degree=3).fit_samples(
        LatentSamples.first_order(1e5 + 2e4 * y, 2e4 * (y - y**3)).scaled()
    )
    # in pascal, the coefficient of z³ is 10⁻¹⁵ of that of 1
    found = law.to_sympy()[0].rhs.subs({"z0": 1.3e5})
    assert float(found) == pytest.approx(2e4 * (1.5 - 1.5**3), rel=1e-3)
