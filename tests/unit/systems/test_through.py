"""Systems through a basis: exact tensors on the subspace, in any metric, at any context."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import romkit
from romkit.arrays import pairs
from romkit.bases import Basis
from romkit.errors import InputError
from romkit.systems import Lorenz96, System
from romkit.systems.quadratic import Quadratic, packed, symmetric
from romkit.systems.terms import Term
from romkit.testing import check_system

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


def test_the_contract_of_systems_holds_for_both():
    system = Weighted(duration=0.05)
    check_system(system)
    check_system(system.through(random_basis(system, 5)))


def test_the_laws_see_wrong_terms():
    class Wrong(Weighted):
        def terms(self):
            return super().terms()[1:]

    class Bent(Weighted):
        def terms(self):
            return (Term(1, lambda x: x**2), *super().terms())

    for kind, law in ((Wrong, "sum of the terms"), (Bent, "B\\(2 x - y\\)")):
        with pytest.raises(AssertionError, match=law):
            check_system(kind())


def test_an_invariant_subspace_carries_trajectories_over(lorenz):
    """All modes: Galerkin projection is a change of coordinates."""
    basis = Basis(np.linalg.qr(np.random.default_rng(0).standard_normal((36, 36)))[0])
    through = lorenz.through(basis)
    full = romkit.simulate(lorenz, F=[3.14, 3.18], duration=0.5)
    seen = romkit.simulate(through, F=[3.14, 3.18], duration=0.5)
    assert np.allclose(basis.decode(torch.from_numpy(seen.state.values)), full.state, atol=1e-10)
    assert np.allclose(basis.decode_tangent(torch.from_numpy(seen.velocity.values)), full.velocity, atol=1e-9)


def test_products_and_symmetric_tensors_are_two_forms_of_one():
    draw = torch.Generator().manual_seed(0)
    H = torch.randn(5, 5, 3, generator=draw, dtype=torch.float64)
    y = torch.randn(4, 5, generator=draw, dtype=torch.float64)
    expected = torch.einsum("ni,nj,ijk->nk", y, y, H)
    assert torch.allclose(pairs(y, y) @ packed(H), expected)
    assert torch.allclose(torch.einsum("ni,nj,ijk->nk", y, y, symmetric(packed(H))), expected)


def test_substitution_folds_an_affine_map_into_the_field():
    draw = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    field = Quadratic(normal(2, 1, 6), normal(2, 1, 6, 6), packed(normal(6, 6, 6)))
    factor, test, shift, a = normal(6, 3), normal(6, 4), normal(2, 1, 6), normal(2, 5, 3)
    folded = field.substituted(factor, shift, test)
    assert torch.allclose(folded(a), field(shift + a @ factor.mT) @ test, atol=1e-10)


def test_a_system_with_neither_terms_nor_rows_is_told_so(lorenz):
    class Silent(Lorenz96):
        terms = System.terms

    with pytest.raises(InputError, match=r"one that gives its terms or its rows, got lorenz96, neither; write"):
        Silent().through(random_basis(lorenz, 4))
