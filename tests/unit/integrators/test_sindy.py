"""SINDy: pysindy's support and coefficients on four problems; stacks, ensembles, printing,
rollouts, bad input.
"""

import functools

import numpy as np
import pysindy
import pytest
import torch

import romkit
from romkit.integrators import Galerkin
from romkit.laws import (
    Equation,
    LatentSamples,
    SINDy,
    differentiated_samples,
    encoded_samples,
    galerkin_samples,
)
from romkit.laws.libraries import Fourier, Functions, Polynomial
from romkit.laws.regression import design_of, gram
from romkit.solvers import RK4
from tests.refusals import refused


def lorenz63_rate(x):
    x, y, z = x.unbind(-1)
    return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], dim=-1)


def van_der_pol(x, mu):
    x, y = x.unbind(-1)
    return torch.stack([y, mu * (1 - x**2) * y - x], dim=-1)


def trajectory(field, start, steps, dt):
    """(..., steps, m) from start (..., m)."""
    times = torch.arange(steps, dtype=torch.float64) * dt
    return RK4(dt)(lambda t, x: field(x), torch.tensor(start, dtype=torch.float64), times).states


def van_der_pol_samples():
    """Five trajectories, each with a μ of its own."""
    mu = torch.linspace(0.5, 2.5, 5, dtype=torch.float64)
    x = trajectory(
        lambda x: van_der_pol(x, mu), [[1.5 + 0.1 * k, 0.5] for k in range(5)], 600, 0.02
    )
    c = mu[:, None].expand(5, 600)
    rate = van_der_pol(x, c)
    return LatentSamples.first_order(x.flatten(0, 1), rate.flatten(0, 1), c.reshape(-1, 1))


def pendulum_samples():
    """Second order, four latents, sixteen variables and parameters."""
    rng = np.random.default_rng(0)
    lengths = {f"l{k}": rng.uniform(0.35, 0.65, 8).round(3) for k in range(1, 5)}
    data = romkit.systems.Pendulum().dataset(**lengths, duration=0.5)
    return encoded_samples(romkit.load("ncae-pendulum"), data.isel(time=slice(None, None, 2)))


def lorenz96_samples():
    data = romkit.systems.Lorenz96(transient=5.0).dataset(F=[3.14, 3.15, 3.16, 3.18], duration=3.0)
    return encoded_samples(romkit.load("ncae-lorenz96"), data)


def autonomous(field, start, steps, dt):
    x = trajectory(field, start, steps, dt)
    return LatentSamples.first_order(x, field(x))


@functools.cache
def problem(name):
    """(samples, settings of the fit)."""
    return {
        "lorenz63": lambda: (
            autonomous(lorenz63_rate, [-8.0, 8.0, 27.0], 3000, 0.005),
            {"degree": 3},
        ),
        "van der pol": lambda: (van_der_pol_samples(), {"degree": 3}),
        "lorenz96 latent": lambda: (lorenz96_samples(), {"degree": 3, "threshold": 0.2}),
        "pendulum latent": lambda: (pendulum_samples(), {"degree": 1, "threshold": 0.2}),
    }[name]()


@functools.cache
def law(name):
    samples, settings = problem(name)
    return SINDy(**settings).fit_samples(samples)


PROBLEMS = ("lorenz63", "van der pol", "lorenz96 latent", "pendulum latent")


def pysindy_coefficients(
    samples: LatentSamples, model: Equation, *, degree=3, threshold=0.1, alpha=0.05
):
    """(K, m) by `pysindy.SINDy` with STLSQ and its own libraries, in the order of the model's
    terms.
    """
    d, p = samples.inputs.shape[-1], samples.context.shape[-1]
    library = polynomial = pysindy.PolynomialLibrary(degree=degree)
    if p:
        linear = pysindy.PolynomialLibrary(degree=1)
        library = pysindy.ParameterizedLibrary(linear, polynomial, num_parameters=p, num_features=d)
    oracle = pysindy.SINDy(
        optimizer=pysindy.STLSQ(threshold=threshold, alpha=alpha), feature_library=library
    )
    m = samples.targets.shape[-1]
    rate = torch.cat(
        [samples.inputs[:, m:], samples.targets], dim=-1
    ).numpy()  # (ż, z̈) for second order
    shift, scale = model.basis.context.shift.numpy(), model.basis.context.scale.numpy()
    c = (samples.context.numpy() - shift) / scale
    oracle.fit(samples.inputs.numpy(), t=1.0, x_dot=rate, u=c if p else None)
    return oracle.coefficients()[-m:][:, _order(oracle, model, d, p)].T


def _order(oracle, model, d, p):
    """Which column of pysindy's library is each of the model's terms, by their values at random
    points.
    """
    z, c = np.random.default_rng(1).normal(size=(2, 40, max(d, p)))
    z, scaled = z[:, :d], c[:, :p]
    theirs = np.asarray(oracle.feature_library.transform(np.hstack([z, scaled])))
    scaling = model.basis.context
    physical = torch.from_numpy(scaled * scaling.scale.numpy() + scaling.shift.numpy())
    ours = torch.stack(
        [t.expand(40) for t in model.basis.terms(torch.from_numpy(z), physical)], dim=-1
    ).numpy()
    distance = np.abs(ours[:, :, None] - theirs[:, None, :]).max(0)
    assert distance.min(1).max() < 1e-9
    assert ours.shape == theirs.shape
    return distance.argmin(1)


@pytest.fixture(scope="module")
def lorenz63():
    return problem("lorenz63")[0]


@pytest.fixture(scope="module")
def lorenz96_model():
    return law("lorenz96 latent")


def relative_error(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("name", PROBLEMS)
def test_support_coefficients_and_predictions_are_those_of_pysindy(name):
    (samples, settings), model = problem(name), law(name)
    expected = pysindy_coefficients(samples, model, **settings)
    assert (model.support.numpy() == (expected != 0)).all()
    assert 0 < model.support.sum() < model.support.numel()
    difference = np.abs(model.coefficients.numpy() - expected)
    assert difference.max() < 1e-6
    assert (difference <= 1e-6 * np.abs(expected)).all()
    c = samples.context.numpy() if samples.context.shape[-1] else None
    theirs = np.asarray(model.to_pysindy().predict(samples.inputs.numpy(), u=c))
    ours = model.predict(samples.inputs, samples.context)
    assert np.allclose(theirs[:, -ours.shape[-1] :], ours, atol=1e-9 * float(ours.abs().max()))
    if samples.order == 2:
        assert np.allclose(theirs[:, : ours.shape[-1]], samples.inputs[:, ours.shape[-1] :])


def test_known_equations_are_found(lorenz63):
    model = SINDy(degree=2).fit_samples(
        lorenz63.inputs.numpy(), lorenz63.targets.numpy(), names=["x", "y", "z"]
    )
    assert model.equations() == [
        "x' = -10.00 x + 10.00 y",
        "y' = 28.00 x - 1.000 y - 1.000 x z",
        "z' = -2.667 z + 1.000 x y",
    ]
    assert model.terms == ["1", "x", "y", "z", "x^2", "x y", "x z", "y^2", "y z", "z^2"]
    assert (model.coefficients.shape, model.coefficients.dtype) == ((10, 3), torch.float64)
    assert bool(model.converged)
    assert float(model.residual.max()) < 1e-6
    van_der_pol = law("van der pol")
    assert van_der_pol.equations(3) == [
        "z0' = 1.00 z1",
        "z1' = -1.00 z0 + 1.00 z1 c0 - 1.00 z0^2 z1 c0",
    ]
    assert all(line in repr(van_der_pol) for line in van_der_pol.equations())


def test_a_threshold_is_per_unit_of_time_and_sums_are_double(lorenz63):
    in_seconds = SINDy(degree=2, threshold=0.5).fit_samples(lorenz63.inputs, lorenz63.targets)
    in_milliseconds = SINDy(degree=2, threshold=0.5e-3).fit_samples(
        lorenz63.inputs, lorenz63.targets / 1000
    )
    assert torch.equal(in_milliseconds.support, in_seconds.support)
    assert relative_error(1000 * in_milliseconds.coefficients, in_seconds.coefficients) < 1e-9
    single = SINDy(degree=2).fit_samples(lorenz63.inputs.float(), lorenz63.targets.float())
    double = SINDy(degree=2).fit_samples(lorenz63)
    assert torch.equal(single.support, double.support)
    assert relative_error(single.coefficients, double.coefficients) < 1e-5


@pytest.mark.parametrize(
    "options", [{}, {"normalize_columns": True, "threshold": 5.0}, {"unbias": False}]
)
def test_a_stack_equals_one_by_one(lorenz63, options):
    factor = torch.tensor([1.0, 0.7, 1.3, 2.0], dtype=torch.float64)[:, None, None]
    z, dz = lorenz63.inputs.expand(4, -1, -1), lorenz63.targets * factor
    stack = SINDy(**{"degree": 3} | options).fit_samples(z, dz)
    assert len(stack) == 4
    for k in range(4):
        alone = SINDy(**{"degree": 3} | options).fit_samples(z[k], dz[k])
        assert torch.equal(stack[k].support, alone.support)
        assert relative_error(stack[k].coefficients, alone.coefficients) < 1e-9
    assert torch.allclose(stack.predict(z), torch.stack([stack[k].predict(z[k]) for k in range(4)]))


def test_each_problem_of_a_stack_is_scaled_by_its_own_samples(lorenz63):
    size = torch.tensor([1.0, 0.1, 30.0], dtype=torch.float64)[:, None, None]
    offset = torch.tensor([0.0, 50.0, -7.0], dtype=torch.float64)[:, None, None]
    samples = LatentSamples.first_order(size * lorenz63.inputs + offset, size * lorenz63.targets)
    stack = SINDy(degree=2, threshold=0.01).fit_samples(samples.scaled())
    field = stack.right_hand_side(torch.empty(3, 1, 0, dtype=torch.float64))
    assert torch.allclose(field(samples.inputs), samples.targets, atol=1e-6)
    assert torch.allclose(stack.predict(samples.inputs), samples.targets, atol=1e-6)
    for k in range(3):
        alone = LatentSamples.first_order(samples.inputs[k], samples.targets[k]).scaled()
        assert stack[k].equations(3) == SINDy(degree=2, threshold=0.01).fit_samples(
            alone
        ).equations(3)


def test_problems_of_a_stack_may_have_contexts_of_their_own():
    samples = problem("van der pol")[0]
    z, dz, c = (x.expand(2, -1, -1) for x in (samples.inputs, samples.targets, samples.context))
    c = torch.stack([c[0], 2 * c[1]])
    stack = SINDy(degree=3).fit_samples(z, dz, c, parameters=["mu"])
    assert stack[0].equations(3)[1] == "z1' = -1.00 z0 + 1.00 z1 mu - 1.00 z0^2 z1 mu"
    assert stack[1].equations(3)[1] == "z1' = -1.00 z0 + 0.500 z1 mu - 0.500 z0^2 z1 mu"


def test_an_ill_conditioned_library_is_solved_by_qr():
    """z2 is nearly z0: the square of the condition number leaves the Gram matrix hardly a digit."""
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(2000, 3, generator=draw, dtype=torch.float64)
    z[:, 2] = z[:, 0] + 1e-7 * z[:, 2]
    true = torch.tensor(
        [[0.0, 1.0, 0], [1.0, 0, 0], [2.0, 0, 0.5], [0.0, 1.0, 2.0]], dtype=torch.float64
    )
    dz = torch.cat([torch.ones(2000, 1, dtype=torch.float64), z], dim=-1) @ true
    model = SINDy(degree=1, threshold=0.1, alpha=0.0).fit_samples(z, dz)
    assert float(model.condition) > 1e6
    assert torch.equal(model.support, true != 0)
    assert relative_error(model.coefficients, true) < 1e-7
    stack = SINDy(degree=1, alpha=0.0).fit_samples(
        torch.stack([z, torch.randn_like(z)]), torch.stack([dz, dz])
    )
    assert relative_error(stack[0].coefficients, true) < 1e-7
    assert float(stack.condition[1]) < 10
    twice = z[:, :1].repeat(1, 2)
    model = SINDy(degree=1, alpha=0.0).fit_samples(twice, 2 * twice)
    assert torch.allclose(model.predict(twice), 2 * twice, atol=1e-8)


@pytest.mark.parametrize(
    "library", [Polynomial(3), Polynomial(1) + Fourier(1), Polynomial(2) + Polynomial(1)]
)
def test_the_gram_matrix_has_the_products_of_all_terms(library):
    """Three chunks and a rest, scaled variables, three problems."""
    draw = torch.Generator().manual_seed(0)
    z, c = (torch.randn(3, 17_000, k, dtype=torch.float64, generator=draw) for k in (2, 1))
    settings = SINDy(library=library, context_degree=2)
    samples = LatentSamples.first_order(z, z.sin(), c).scaled()
    design = design_of(samples, settings._basis(samples))
    _, rate = design.basis.scaled(z, z.sin())
    rows = torch.stack([*design.basis.terms(z, c), *rate.unbind(-1)], dim=-2)
    assert torch.allclose(gram(design, 0, 17_000), rows @ rows.mT, rtol=1e-10, atol=1e-7)


def test_libraries_of_sines_and_of_your_own():
    draw = torch.Generator().manual_seed(0)
    z = 3 * torch.randn(500, 2, generator=draw, dtype=torch.float64)
    dz = torch.stack([2 * z[:, 1].sin() - z[:, 0], 3 * z[:, 0].abs() + (2 * z[:, 0]).cos()], dim=-1)
    library = Polynomial(1) + Fourier(2) + Functions({"|z0|": lambda z: z[..., 0].abs()})
    assert SINDy(library=library).fit_samples(z, dz).equations(3) == [
        "z0' = -1.00 z0 + 2.00 sin(z1)",
        "z1' = 1.00 cos(2 z0) + 3.00 |z0|",
    ]
    assert SINDy(degree=1).fit_samples(z, 0 * z).equations()[0] == "z0' = 0"


def test_a_rollout_of_a_discovered_equation(lorenz, lorenz96_model):
    projection = romkit.load("ncae-lorenz96")
    run = romkit.rollout(lorenz, projection, dynamics=lorenz96_model, F=3.15, duration=0.2)
    assert run.status.item() == 0
    assert "δF" in " ".join(lorenz96_model.equations())
    assert "δF = (F - 3.163) / 0.03" in repr(lorenz96_model)
    z = torch.from_numpy(run.latent.values)
    slope = (z[2:] - z[:-2]) / 0.02
    field = lorenz96_model.predict(z[1:-1], torch.full((len(z) - 2, 1), 3.15, dtype=torch.float64))
    assert torch.allclose(slope, field, rtol=1e-2, atol=1e-2 * float(field.abs().max()))
    several = romkit.rollout(
        lorenz, projection, dynamics=lorenz96_model, F=[3.15, 3.18], duration=0.2
    )
    assert np.allclose(several.latent.isel(trajectory=0), run.latent, atol=1e-10)


class HalfField(Galerkin):
    """Has no latent velocity where the first coordinate of the second model is positive."""

    def latent_rate(self, problem):
        whole = super().latent_rate(problem)

        def g(t, z):
            singular = (z[..., :1] > 0) & (torch.arange(2)[:, None, None, None] == 1)
            return torch.where(singular, torch.inf, whole(t, z))

        return g


def test_sources_of_samples_and_those_without_a_latent_field_are_left_out(lorenz, lorenz_data):
    projection = romkit.load("ncae-lorenz96")
    encoded = encoded_samples(projection, lorenz_data)
    differentiated = differentiated_samples(projection, lorenz_data)
    assert torch.allclose(differentiated.inputs, encoded.inputs)
    assert relative_error(differentiated.targets, encoded.targets) < 0.02
    field = galerkin_samples(projection, lorenz_data, lorenz.problem, copies=2)
    assert len(field) == 2 * len(encoded)
    assert len(encoded + field) == 3 * len(encoded)
    model = SINDy(degree=1).fit_samples(encoded + field)
    assert "Dρ(x) ẋ" in model.source
    assert "Galerkin field" in model.source
    stack = romkit.projections.stack([romkit.load("ncae-lorenz96"), romkit.load("ncae-lorenz96")])
    everything = galerkin_samples(stack, lorenz_data, lorenz.problem)
    some = galerkin_samples(stack, lorenz_data, lorenz.problem, dynamics=HalfField())
    kept = everything.inputs[1, :, 0] <= 0
    assert 0 < len(some) == int(kept.sum()) < len(everything)
    assert torch.equal(some.inputs, everything.inputs[:, kept])
    assert torch.equal(some.context, everything.context[:, kept])


Z = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_bad_input_is_named():
    fit, law = SINDy().fit_samples, SINDy(degree=1).fit_samples(Z, Z, Z[:, :1])
    refused("alpha", SINDy, alpha=float("nan"))
    for given, named, argument in (
        ((Z, Z[:40]), {}, "zdot"),
        ((Z[:, 0], Z[:, 0]), {}, "z"),
        ((Z, Z * float("nan")), {}, "zdot"),
        ((Z, Z, Z[:30]), {}, "context"),
        ((Z, Z, Z), {"parameters": ["F"]}, "context"),
        ((Z, Z), {"names": ["x"]}, "names"),
    ):
        refused(f"^{argument}: expected", fit, *given, **named)
    refused("^z: expected", SINDy(degree=12).fit_samples, Z, Z)
    refused("^z: expected", law.predict, Z[:, :1], Z[:, :1])
    refused("^context: expected", law.predict, Z)
    refused("^model: expected", fit(Z[None], Z[None]).equations)
    refused(
        "^term 'bad': expected", SINDy(library=Functions({"bad": lambda z: z})).fit_samples, Z, Z
    )
    refused("^library: expected", SINDy(degree=1).fit_samples, 1e200 * Z, Z)


def test_dynamics_that_do_not_fit_the_rollout(lorenz, lorenz_data):
    projection = romkit.load("ncae-lorenz96")
    for dynamics, argument in (
        (SINDy(), "dynamics"),
        (law("pendulum latent"), "dynamics"),
        (SINDy(degree=1).fit_samples(Z[:, :1], Z[:, :1]), "projection"),
        (SINDy(degree=1).fit_samples(Z, Z, Z), "projection's context"),
    ):
        message = f"^{argument}: expected"
        refused(
            message, romkit.rollout, lorenz, projection, dynamics=dynamics, F=3.15, duration=0.1
        )
    refused(
        "order",
        differentiated_samples,
        projection,
        lorenz_data,
        order=3,
    )


def test_a_model_of_pysindy_moves_as_there():
    t = np.linspace(0, 10, 400)
    several, inputs = [], []
    for u in (0.5, 1.0, 1.5):
        several.append(np.stack([np.cos(u * t), np.sin(u * t)], axis=1))
        inputs.append(np.full((len(t), 1), u))
    libraries = [
        pysindy.PolynomialLibrary(3),
        pysindy.PolynomialLibrary(2) + pysindy.FourierLibrary(2),
        pysindy.IdentityLibrary(),
    ]
    z = torch.randn(20, 2, dtype=torch.float64)
    c = torch.rand(20, 1, dtype=torch.float64)
    for library in libraries:
        model = pysindy.SINDy(feature_library=library, optimizer=pysindy.STLSQ(threshold=1e-3))
        model.fit(several, t=t, u=inputs, feature_names=["a", "b", "speed"])
        law = Equation.from_pysindy(model)
        assert law.context_names == ("speed",)
        theirs = np.asarray(model.predict(z.numpy(), u=c.numpy()))
        assert np.allclose(law.predict(z, c), theirs, atol=1e-12)


def test_models_of_pysindy_that_are_no_law_are_refused():
    x = np.random.default_rng(0).normal(size=(50, 2))
    custom = pysindy.CustomLibrary(library_functions=[lambda v: v**2])
    others = [
        pysindy.SINDy(),
        pysindy.DiscreteSINDy().fit(x, t=1),
        None,
    ]
    for other in others:
        refused("model", Equation.from_pysindy, other)
    own_terms = pysindy.SINDy(feature_library=custom).fit(x, t=0.1)
    refused("model.feature_library", Equation.from_pysindy, own_terms)
