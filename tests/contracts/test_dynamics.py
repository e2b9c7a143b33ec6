"""What all latent dynamics must do: `romkit.testing.check_dynamics` on each of them, and on broken
ones.
"""

import inspect
from dataclasses import dataclass

import pytest
import torch

import romkit
from romkit import integrators, laws
from romkit.integrators import (
    DYNAMICS,
    LSPG,
    Galerkin,
    Hamiltonian,
    LatentDynamics,
    PetrovGalerkin,
    Reencoded,
)
from romkit.integrators.base import LatentField, LearnedField
from romkit.laws import DMD, LimitCycle, NeuralODE, OperatorInference, SINDy, Steady, WeakSINDy
from romkit.testing import check_dynamics
from tests.properties.test_projection_rules import make
from tests.refusals import refused

REGISTERED = [
    *(kind() for kind in DYNAMICS.values() if kind is not LSPG),
    LSPG(dt=0.05),
    Reencoded(PetrovGalerkin(), 1),
]
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
    Steady: Steady(relaxation=1.0),
    LimitCycle: LimitCycle(degree=1),
}


def circles(contexts):
    """A law of circles that turn at speeds of their own."""
    t = torch.linspace(0, 6, 121, dtype=torch.float64)
    c = torch.from_numpy(contexts.astype(float)).unsqueeze(-1)  # (C, 1)
    phase = (2 + c - c.mean()) * t
    z = torch.stack([phase.cos(), phase.sin()], -1)
    return LEARNED[LimitCycle].fit_samples(z, torch.zeros_like(z), c, times=t, parameters=["F"])


@pytest.fixture(params=LEARNED.values(), ids=[kind.__name__ for kind in LEARNED])
def law(request, trained, lorenz_data):
    if isinstance(request.param, NeuralODE):
        return request.param.fit(trained, lorenz_data)
    if isinstance(request.param, LimitCycle):
        return circles(lorenz_data.F.values)
    return request.param.fit_samples(laws.encoded_samples(trained, lorenz_data))


def test_all_dynamics_are_here():
    exported = {
        kind
        for room in (integrators, laws)
        for kind in map(room.__dict__.get, room.__all__)
        if inspect.isclass(kind)
    }
    concrete = {
        kind
        for kind in exported
        if issubclass(kind, LatentDynamics) and not inspect.isabstract(kind)
    }
    learned = {kind for kind in concrete if issubclass(kind, integrators.LearnedField)}
    assert concrete - learned == {type(dynamics) for dynamics in REGISTERED}
    assert learned == {
        laws.CellEquation,
        laws.Equation,
        laws.HamiltonianLaw,
        laws.LimitCycleLaw,
        laws.NeuralODEModel,
        laws.PhaseLaw,
        laws.RationalLaw,
    }


@pytest.mark.parametrize(("method", "shape"), [("pod", (1, 4, 1, 0)), ("ncae", (2, 3, 2, 3))])
@pytest.mark.parametrize("dynamics", REGISTERED, ids=str)
def test_contract(dynamics, method, shape):
    if type(dynamics) is LSPG and method == "ncae":  # whose derivatives of derivatives take seconds
        method = "polynomial-manifold"
    check_dynamics(dynamics, make(method, shape), tolerance=COARSE.get(type(dynamics), 1e-6))


def test_contract_of_learned_dynamics(law, trained):
    check_dynamics(law, trained)
    check_dynamics(Reencoded(law, 2), trained)


def test_only_idempotent_projections_have_an_invariant_manifold():
    model = make("soft-ncae", (2, 3, 1, 3))
    refused("projection", check_dynamics, Galerkin(), model)
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
        # less than the tolerance of motions
        return lambda t, w: rate(t, w) + 1e-6 * w.nan_to_num().mean()


class Elsewhere(Galerkin):
    """Starts beside the manifold's point."""

    def start(self, problem, t, parts):
        return 1.01 * super().start(problem, t, parts)


class Flat(Galerkin):
    """Forgets the curvature of the manifold."""

    def latent_rate(self, problem):
        rate = super().latent_rate(problem)
        return lambda t, w: rate(t, w) + (problem.order - 1) * 1e-3 * w[..., :2].square()


@dataclass(frozen=True)
class Unaligned(LearnedField):
    """Adds a vector (C, m) to latent states (C, S, m) as if it were (S, m)."""

    order: int = 1
    latent_dim: int = 2
    context_names: tuple[str, ...] = ("c0", "c1")

    def right_hand_side(self, c):
        return lambda w: c[..., :2] - w


def test_the_contract_can_fail():
    motion = "motion on an invariant manifold"
    for dynamics, fact in (
        (Slow(), f"order 1: {motion}, constant context: relative error"),
        (Standing(), f"order 1: {motion}, moving context: relative error"),
        (Mixing(), "order 1: batch = loop"),
        (Elsewhere(), "order 1: start of a state on the manifold = its latent state"),
        (Flat(), f"order 2: {motion}"),
        (Unaligned(), "order 1: latent states (C, S, m) at contexts (C, p) = loop"),
    ):
        refused(fact, check_dynamics, dynamics, make("ncae", (2, 3, 2, 3)), error=AssertionError)
        assert torch.is_grad_enabled()
