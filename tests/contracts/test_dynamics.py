"""What all latent dynamics must do: `romkit.testing.check_dynamics` on each of them, and on broken ones."""

import inspect

import pytest
import torch

import romkit
from romkit import integrators
from romkit.core.errors import InputError
from romkit.integrators import (
    DMD,
    DYNAMICS,
    LAWS,
    LSPG,
    Galerkin,
    Hamiltonian,
    LatentDynamics,
    NeuralODE,
    OperatorInference,
    PetrovGalerkin,
    Reencoded,
    SINDy,
    WeakSINDy,
)
from romkit.integrators.base import LatentField
from romkit.testing import check_dynamics
from tests.properties.test_projection_laws import make

REGISTERED = [*(kind() for kind in DYNAMICS.values()), Reencoded(Galerkin(), 2), Reencoded(PetrovGalerkin(), 1)]
COARSE = {LSPG: 1e-3, Hamiltonian: 1e-3}
"""Tolerance of methods that take the steps of the output themselves and are of low order."""


@pytest.fixture(scope="module")
def trained(lorenz_data):
    return romkit.fit("ncae", lorenz_data, epochs=2)


LEARNED = {
    SINDy: SINDy(degree=2),
    WeakSINDy: WeakSINDy(degree=1),
    OperatorInference: OperatorInference(regularization=1.0),
    DMD: DMD(),
    NeuralODE: NeuralODE(hidden=(4,), segment=4, regression_steps=20, shooting_steps=2),
}


@pytest.fixture(params=LEARNED.values(), ids=LAWS)
def law(request, trained, lorenz_data):
    if isinstance(request.param, NeuralODE):
        return request.param.fit(trained, lorenz_data)
    return request.param.fit_samples(integrators.encoded_samples(trained, lorenz_data))


def test_all_dynamics_are_here():
    exported = {kind for kind in map(integrators.__dict__.get, integrators.__all__) if inspect.isclass(kind)}
    concrete = {kind for kind in exported if issubclass(kind, LatentDynamics) and not inspect.isabstract(kind)}
    learned = {kind for kind in concrete if issubclass(kind, integrators.LearnedField)}
    assert concrete - learned == {type(dynamics) for dynamics in REGISTERED}
    assert learned == {integrators.Equation, integrators.NeuralODEModel}


@pytest.mark.parametrize("shape", [(2, 3, 2, 3), (1, 4, 1, 0)], ids=["two latents", "one latent"])
@pytest.mark.parametrize("method", ["pod", "ncae"])
@pytest.mark.parametrize("dynamics", REGISTERED, ids=str)
def test_contract(dynamics, method, shape):
    if type(dynamics) is LSPG and shape[0] == 2 and method == "ncae":
        method = "cae"  # compiles derivatives of derivatives for seconds
    check_dynamics(dynamics, make(method, shape), tolerance=COARSE.get(type(dynamics), 1e-6))


def test_contract_of_learned_dynamics(law, trained):
    check_dynamics(law, trained)
    check_dynamics(Reencoded(law, 2), trained)


def test_only_idempotent_projections_have_an_invariant_manifold():
    model = make("soft-ncae", (2, 3, 1, 3))
    with pytest.raises(InputError, match="projection: expected an idempotent one, got soft-ncae"):
        check_dynamics(Galerkin(), model)
    check_dynamics(Galerkin(), model, consistent=False)


class Slow(Galerkin):
    """Late by one per cent."""

    def latent_rate(self, problem):
        rate = super().latent_rate(problem)
        return lambda t, w: 0.99 * rate(t, w)


class Standing(LatentField):
    """Does not see that the manifold moves."""

    def latent_rate(self, problem):  # of first order
        def rate(t, w):
            P = problem.path.at(t)
            (x,) = problem.decode(P, w)
            return P.encode_jvp(x, problem.field(t, x)).tangent

        return rate


class Mixing(Galerkin):
    """Members see each other."""

    def latent_rate(self, problem):
        rate = super().latent_rate(problem)
        return lambda t, w: rate(t, w) + 1e-3 * w.nan_to_num().mean()


class Elsewhere(Galerkin):
    """Starts beside the manifold's point."""

    def start(self, problem, t, parts):
        return 1.01 * super().start(problem, t, parts)


@pytest.mark.parametrize(
    ("dynamics", "message"),
    [
        (Slow(), "order 1: motion on an invariant manifold, constant context: relative error"),
        (Standing(), "order 1: motion on an invariant manifold, moving context: relative error"),
        (Mixing(), "order 1: batch = loop"),
        (Elsewhere(), "order 1: start of a state on the manifold = its latent state"),
    ],
    ids=["slow", "standing", "mixing", "elsewhere"],
)
def test_the_contract_can_fail(dynamics, message):
    with pytest.raises(AssertionError, match=message):
        check_dynamics(dynamics, make("ncae", (2, 3, 2, 3)))


def test_a_broken_law_of_second_order_is_named():
    class Flat(Galerkin):
        """Forgets the curvature of the manifold."""

        def latent_rate(self, problem):
            rate = super().latent_rate(problem)
            return lambda t, w: rate(t, w) + (problem.order - 1) * 1e-3 * w[..., :2].square()

    with pytest.raises(AssertionError, match="order 2: motion on an invariant manifold"):
        check_dynamics(Flat(), make("ncae", (2, 3, 2, 3)))
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("flags", "needs"),
    [({"tangential": False}, "full"), ({"sees_field": False}, "nothing"), ({"decodes_only": True}, "decoder")],
    ids=["tangential", "sees_field", "decodes_only"],
)
def test_flags_of_romkit_01_warn_and_say_what_dynamics_need(flags, needs):
    with pytest.warns(DeprecationWarning, match="Old: tangential, sees_field and decodes_only are now one, needs"):
        old = type("Old", (Standing,), flags)()
    assert old.needs == needs
    with pytest.warns(DeprecationWarning, match="decodes_only"):
        assert Galerkin().decodes_only
    with pytest.warns(DeprecationWarning, match="old name of romkit.integrators.Equation"):
        assert integrators.SINDyModel is integrators.Equation
