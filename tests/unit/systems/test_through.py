"""Systems through a basis: exact tensors on the subspace, in any metric, at any context."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import sparse

import romkit
from romkit.bases import Basis, weigher
from romkit.bases.base import root_of
from romkit.core.tensors import pairs
from romkit.data import context_matrix, trajectories
from romkit.systems import Lorenz96, System
from romkit.systems.terms import Quadratic, Term, packed, symmetric
from romkit.systems.through import coordinates_of
from romkit.testing import check_system
from tests.refusals import refused

T0 = torch.zeros((), dtype=torch.float64)


@dataclass(frozen=True)
class Weighted(Lorenz96):
    """Lorenz96 on cells of different size, with a damping that the context changes and a forcing of two parts."""

    transient: float = 0.5

    name = "weighted"
    weight = np.linspace(0.5, 2.0, 36)

    def weigh(self, x, u, c):
        return torch.as_tensor(self.weight).to(u).unsqueeze(-1) * u

    def rhs(self, t, x, c):
        return super().rhs(t, x, c) - c**2 * x + torch.exp(c) * torch.linspace(0, 1, self.n).to(x)

    def terms(self):
        ramp = torch.linspace(0, 1, self.n).double()
        damping = Term(1, lambda x: -x, lambda c: c**2)
        return (*super().terms(), damping, Term(0, lambda: ramp, torch.exp))


def random_basis(system, rank):
    rng = np.random.default_rng(0)
    weight = np.ones(system.state_size) if system.weight is None else system.weight
    modes = np.linalg.qr(rng.standard_normal((system.state_size, rank)))[0] / np.sqrt(weight)[:, None]
    return Basis(modes, mean=rng.standard_normal(system.state_size), weight=system.weight)


@pytest.mark.parametrize("system", [Lorenz96(), Weighted()])
def test_the_projected_field_is_that_of_the_full_model(system):
    basis = random_basis(system, 7)
    through = system.through(basis)
    c = torch.tensor([[3.0], [3.2], [4.0]], dtype=torch.float64)
    y = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    full = basis.encode_tangent(system.field(c)(T0, basis.decode(y)))
    assert torch.allclose(through.field(c)(T0, y), full, rtol=0, atol=1e-10)
    moving = through.field(lambda t: c)(T0, y)
    assert torch.allclose(moving, full, rtol=0, atol=1e-10)


def test_the_contract_of_systems_holds_and_sees_wrong_terms(lorenz):
    system = Weighted(duration=0.05)
    check_system(system)
    check_system(system.through(random_basis(system, 5)))

    class Wrong(Weighted):
        def terms(self):
            return super().terms()[1:]

    class Bent(Weighted):
        def terms(self):
            return (Term(1, lambda x: x**2), *super().terms())

    class Silent(Lorenz96):
        terms = System.terms

    for kind, law in ((Wrong, "sum of the terms"), (Bent, "B\\(2 x - y\\)")):
        with pytest.raises(AssertionError, match=law):
            check_system(kind())
    message = "one that gives its terms or its rows, got lorenz96, neither; write"
    refused(message, Silent().through, random_basis(lorenz, 4))


def test_an_invariant_subspace_carries_trajectories_over(lorenz):
    """All modes: Galerkin projection is a change of coordinates."""
    basis = Basis(np.linalg.qr(np.random.default_rng(0).standard_normal((36, 36)))[0])
    through = lorenz.through(basis)
    full = romkit.simulate(lorenz, F=[3.14, 3.18], duration=0.5)
    seen = romkit.simulate(through, F=[3.14, 3.18], duration=0.5)
    assert np.allclose(basis.decode(torch.from_numpy(seen.state.values)), full.state, atol=1e-10)
    assert np.allclose(basis.decode_tangent(torch.from_numpy(seen.velocity.values)), full.velocity, atol=1e-9)


def test_products_and_tensors_are_one_and_an_affine_map_is_folded_into_them():
    draw = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    H, y = normal(5, 5, 3), normal(4, 5)
    expected = torch.einsum("ni,nj,ijk->nk", y, y, H)
    assert torch.allclose(pairs(y, y) @ packed(H), expected)
    assert torch.allclose(torch.einsum("ni,nj,ijk->nk", y, y, symmetric(packed(H))), expected)
    field = Quadratic(normal(2, 1, 6), normal(2, 1, 6, 6), packed(normal(6, 6, 6)))
    factor, test, shift, a = normal(6, 3), normal(6, 4), normal(2, 1, 6), normal(2, 5, 3)
    folded = field.substituted(factor, shift, test)
    assert torch.allclose(folded(a), field(shift + a @ factor.mT) @ test, atol=1e-10)


def share_outside(system, basis, data):
    """‖f - V Vᵀ W f‖ / ‖f‖ at the states of data in the subspace, without a sketch."""
    weigh = weigher(system.weight, system.state_size)
    y, c = trajectories(basis.project(data), "state"), torch.from_numpy(context_matrix(data))
    f = system.field(c)(T0, basis.decode(y))
    outside = f - basis.decode_tangent(basis.encode_tangent(f))
    lengths = [(x * weigh(x.flatten(0, 1).mT).mT.unflatten(0, x.shape[:2])).sum(-1).sqrt() for x in (outside, f)]
    return (lengths[0] / lengths[1]).numpy()


class Coupled(Weighted):
    """In a metric that is no diagonal."""

    name = "coupled"
    weight = sparse.diags_array([0.3, 1.0, 0.3], offsets=[-1, 0, 1], shape=(36, 36), format="csr")

    def weigh(self, x, u, c):
        return torch.from_numpy(self.weight.toarray()).to(u) @ u


@pytest.mark.parametrize("system", [Lorenz96(transient=0.5), Weighted(), Coupled()])
def test_a_sketch_tells_what_the_subspace_leaves_out(system):
    data = system.dataset(F=[3.0, 3.4], duration=1.0)
    basis = romkit.basis(data, rank=4, weight=system.weight)
    found, exact = system.through(basis).unresolved(data), share_outside(system, basis, data)
    assert found.dims == ("trajectory", "time")
    assert exact.max() > 0.01
    assert np.abs(np.log(found.values / exact)).max() < 4 / 64**0.5  # four standard errors
    if system.weight is None:
        assert float(system.through(Basis(torch.eye(36))).unresolved(data).max()) < 1e-12  # of all modes nothing


def test_runs_of_reduced_models_have_an_unresolved_share():
    system = Lorenz96(transient=0.5)
    data = system.dataset(F=[3.0, 3.2, 3.4], duration=1.0)
    model = romkit.fit("pod", data, basis=6, latent_dim=4)
    through, run = system.through(model.basis), romkit.follow(model, data)
    share = through.unresolved(run)
    assert dict(share.sizes) == {"trajectory": 3, "time": 100}
    assert share.F.values.tolist() == [3.0, 3.2, 3.4]
    given = {"initial_state": data.state.values[0, 0], "duration": 0.2, "dt": 0.01, "F": 3.0}
    alone = through.unresolved(romkit.forecast(model, **given, system=system))
    assert alone.dims == ("time",)
    assert alone.values[:20] == pytest.approx(share.values[0, :20])
    moving = romkit.forecast(model, **given | {"F": lambda t: 3.0 + 0 * t}, system=system)
    assert np.allclose(through.unresolved(moving), alone)
    refused("data: expected the context F, got none", through.unresolved, run.drop_vars("F"))


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 36), Coupled.weight])
def test_the_root_of_a_weight_gives_its_covariance(weight):
    S = root_of(weight, 36)(torch.eye(36, dtype=torch.float64))
    assert torch.allclose(S @ S.mT, weigher(weight, 36)(torch.eye(36, dtype=torch.float64)), atol=1e-12)


def test_a_whole_basis_does_not_take_states_for_coordinates_and_keeps_the_solver():
    system = Lorenz96(n=6, transient=0.0).using(romkit.solvers.SciPy("BDF"))
    data = system.dataset(F=[3.0, 4.0], duration=0.5)
    basis = random_basis(system, 6)
    for given in (data, basis.project(data)):
        _, y, _ = coordinates_of(system, basis, given)
        assert torch.allclose(basis.decode(y), trajectories(data, "state"))
    assert system.through(basis).solver is system.solver
