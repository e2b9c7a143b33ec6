"""Systems through a basis: exact tensors in any metric at any context, or sampled rows, which are
blind to n.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import sparse

import romkit
from romkit.bases import Basis, weigher
from romkit.bases.base import root_of
from romkit.core.broadcast import pairs
from romkit.data import ContextParameter, context_matrix, trajectories
from romkit.integrators import Galerkin
from romkit.models import ReducedModel
from romkit.projections import Path
from romkit.solvers import RK4
from romkit.systems import Burgers2D, Lorenz96, System
from romkit.systems import sampled as rates
from romkit.systems.base import SystemThroughBasis
from romkit.systems.sampled import Sampled, chosen_rows, coordinates_of
from romkit.systems.terms import Quadratic, Term, symmetric, upper_triangle
from romkit.testing import check_system
from tests.refusals import refused

T0 = torch.zeros((), dtype=torch.float64)


@dataclass(frozen=True)
class Weighted(Lorenz96):
    """Lorenz96 on cells of different size, with a damping that the context changes and a forcing of
    two parts.
    """

    transient: float = 0.5

    name = "weighted"
    symmetry = None
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
    modes = (
        np.linalg.qr(rng.standard_normal((system.state_size, rank)))[0] / np.sqrt(weight)[:, None]
    )
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
    fact = "a system with terms or rows, got lorenz96, neither; write"
    refused(fact, Silent().through, random_basis(lorenz, 4))


def test_an_invariant_subspace_carries_trajectories_over(lorenz):
    """All modes: Galerkin projection is a change of coordinates."""
    basis = Basis(np.linalg.qr(np.random.default_rng(0).standard_normal((36, 36)))[0])
    through = lorenz.through(basis)
    full = romkit.simulate(lorenz, F=[3.14, 3.18], duration=0.5)
    seen = romkit.simulate(through, F=[3.14, 3.18], duration=0.5)
    assert np.allclose(basis.decode(torch.from_numpy(seen.state.values)), full.state, atol=1e-10)
    assert np.allclose(
        basis.decode_tangent(torch.from_numpy(seen.velocity.values)), full.velocity, atol=1e-9
    )


def test_products_and_tensors_are_one_and_an_affine_map_is_folded_into_them():
    draw = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    H, y = normal(5, 5, 3), normal(4, 5)
    expected = torch.einsum("ni,nj,ijk->nk", y, y, H)
    assert torch.allclose(pairs(y, y) @ upper_triangle(H), expected)
    assert torch.allclose(
        torch.einsum("ni,nj,ijk->nk", y, y, symmetric(upper_triangle(H))), expected
    )
    field = Quadratic(normal(2, 1, 6), normal(2, 1, 6, 6), upper_triangle(normal(6, 6, 6)))
    factor, test, shift, a = normal(6, 3), normal(6, 4), normal(2, 1, 6), normal(2, 5, 3)
    folded = field.substituted(factor, shift, test)
    assert torch.allclose(folded(a), field(shift + a @ factor.mT) @ test, atol=1e-10)


def share_outside(system, basis, data):
    """‖f - V Vᵀ W f‖ / ‖f‖ at the states of data in the subspace, without a sketch."""
    weigh = weigher(system.weight, system.state_size)
    y, c = trajectories(basis.project(data), "state"), torch.from_numpy(context_matrix(data))
    f = system.field(c)(T0, basis.decode(y))
    outside = f - basis.decode_tangent(basis.encode_tangent(f))
    lengths = [
        (x * weigh(x.flatten(0, 1).mT).mT.unflatten(0, x.shape[:2])).sum(-1).sqrt()
        for x in (outside, f)
    ]
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
        assert (
            float(system.through(Basis(torch.eye(36))).unresolved(data).max()) < 1e-12
        )  # of all modes nothing


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
    refused("data", through.unresolved, run.drop_vars("F"))


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 36), Coupled.weight])
def test_the_root_of_a_weight_gives_its_covariance(weight):
    S = root_of(weight, 36)(torch.eye(36, dtype=torch.float64))
    assert torch.allclose(
        S @ S.mT, weigher(weight, 36)(torch.eye(36, dtype=torch.float64)), atol=1e-12
    )


def test_a_whole_basis_does_not_take_states_for_coordinates_and_keeps_the_solver():
    system = Lorenz96(n=6, transient=0.0).using(romkit.solvers.SciPy("BDF"))
    data = system.dataset(F=[3.0, 4.0], duration=0.5)
    basis = random_basis(system, 6)
    for given in (data, basis.project(data)):
        _, y, _ = coordinates_of(system, basis, given)
        assert torch.allclose(basis.decode(y), trajectories(data, "state"))
    assert system.through(basis).solver is system.solver


@dataclass(frozen=True)
class Rod(System):
    """u_t = u_xx + λ exp(u) in a rod with cold ends."""

    n: int = 40
    dt: float = 0.002
    duration: float = 0.4
    transient: float = 0.0
    horizon: float = 0.4
    step: float = 2e-4

    name = "rod"
    context = (ContextParameter("strength", "1", 0.5, 3.0, "of the source"),)

    @property
    def state_names(self):
        return [f"u{k}" for k in range(self.n)]

    @property
    def state_units(self):
        return ["1"] * self.n

    def rhs(self, t, x, c):
        apart = torch.nn.functional.pad(x, (1, 1)).diff(dim=-1)
        return apart.diff(dim=-1) * (self.n + 1) ** 2 + c * torch.exp(x)

    def stencil(self, rows):
        return torch.stack(
            [(rows - 1).clamp(min=0), rows, (rows + 1).clamp(max=self.n - 1)], dim=-1
        )

    def rhs_rows(self, t, rows, x, c):
        left, here, right = x.unbind(-1)
        around = left * (rows > 0).to(x) + right * (rows < self.n - 1).to(x)
        return (around - 2 * here) * (self.n + 1) ** 2 + c * torch.exp(here)

    def initial_state(self, contexts, rng):
        return contexts.new_zeros(len(contexts), self.n)

    def train_contexts(self, rng):
        return np.linspace(0.5, 3.0, 6)[:, None]


@pytest.fixture(scope="module")
def rod():
    return Rod()


@pytest.fixture(scope="module")
def data(rod):
    return rod.dataset("train")


@pytest.fixture(scope="module")
def sampled(rod, data):
    return rod.through(romkit.basis(data, rank=4), data)


def orthonormal(n, rank):
    return torch.linalg.qr(
        torch.randn(n, rank, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).Q


def test_the_contract_of_systems_holds_and_sees_wrong_rows(data, sampled):
    check_system(Rod(transient=0.1).through(sampled.basis, data))
    assert sampled.step == Rod().step

    class Wrong(Rod):
        def rhs_rows(self, t, rows, x, c):
            return super().rhs_rows(t, rows, x, c) + 1e-6 * rows

    with pytest.raises(AssertionError, match="rhs_rows at the stencil = rows of rhs"):
        check_system(Wrong(transient=0.1))


def test_coordinates_do_as_training_data_and_parameters_go_by_their_names(rod, data, sampled):
    again = rod.through(sampled.basis, sampled.basis.project(data))
    assert torch.equal(again.image.rows, sampled.image.rows)
    system = Burgers2D(cells=8, dt=0.05, duration=0.1)
    data = system.dataset(mu1=[4.3, 5.0], mu2=[0.018, 0.022])
    turned, basis = (
        data.drop_vars(["mu1", "mu2"]).assign_coords(mu2=data.mu2, mu1=data.mu1),
        romkit.basis(data, rank=2),
    )
    found = (rates.coordinates_of(system, basis, each) for each in (data, turned))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_rows_of_all_are_the_projected_field(rod):
    """With modes of everything, nothing is left out."""
    basis, everything = Basis(orthonormal(40, 5), mean=np.linspace(0, 1, 40)), Basis(torch.eye(40))
    through = SystemThroughBasis(rod, basis, Sampled.choose(rod, basis, everything, 40))
    c = torch.tensor([[0.7], [2.9]], dtype=torch.float64)
    y = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    full = basis.encode_tangent(rod.field(c)(T0, basis.decode(y)))
    assert torch.allclose(through.field(c)(T0, y), full, rtol=1e-12, atol=1e-10)
    assert torch.allclose(through.field(lambda t: c)(T0, y), full, rtol=1e-12, atol=1e-10)


def test_sampled_burgers_converges_to_its_exact_tensors():
    system = Burgers2D(cells=8, dt=0.25)
    runs = system.dataset(mu1=[4.25, 5.5, 4.9, 4.5], mu2=[0.015, 0.03, 0.02, 0.03], duration=10.0)
    basis, c = romkit.basis(runs, rank=8), torch.tensor([[4.8, 0.02]], dtype=torch.float64)
    times = torch.linspace(0, 10, 11, dtype=torch.float64)
    exact, *others = (
        through.simulate(through.start(c), c, times).state
        for through in (
            system.through(basis),
            *(
                system.through(basis, runs, tolerance=tolerance)
                for tolerance in (1e-3, 1e-6, 1e-14)
            ),
        )
    )
    errors = [((other - exact).norm() / exact.norm()).item() for other in others]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3 * errors[0]


def test_nothing_but_the_rows_is_computed(data, sampled):
    class Counting(Rod):
        def rhs_rows(self, t, rows, x, c):
            assert rows.shape == (count,)
            assert x.shape[-2:] == (count, 3)
            return super().rhs_rows(t, rows, x, c)

    count = len(sampled.image.rows)
    through = Counting().through(sampled.basis, data)
    Counting.rhs = None
    assert np.isfinite(
        romkit.simulate(through, strength=2.0, duration=0.1, engine="torch").state
    ).all()


@pytest.mark.parametrize("engine", ["torch", "compiled"])
def test_runs_between_the_contexts_of_training_are_those_of_the_whole_field(rod, sampled, engine):
    c, times = (
        torch.tensor([[0.9], [2.3]], dtype=torch.float64),
        torch.linspace(0, 0.4, 5, dtype=torch.float64),
    )

    def whole(t, y):
        return sampled.basis.encode_tangent(rod.field(c)(t, sampled.basis.decode(y)))

    expected = RK4(rod.dt)(whole, *sampled.start(c), times).states
    found = sampled.simulate(sampled.start(c), c, times, engine=engine)
    assert found.cost["engine"] == engine
    assert (found.state - expected).norm() < 2e-3 * expected.norm()


@pytest.mark.filterwarnings("ignore::romkit.errors.ExtrapolationWarning")  # it is hardly trained
def test_galerkin_behind_the_basis_sees_the_rows_alone(rod, data, sampled):
    model = romkit.fit("cae", data, basis=sampled.basis, latent_dim=2, epochs=3, engine="torch")
    c, z = torch.tensor([[1.7]], dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
    reduced = ReducedModel.build(model, Galerkin(), sampled).fix_context(c)
    full = rod.problem(Path.constant(model.double()(c)), c)
    slow, fast = Galerkin().field(full)(T0, z), Galerkin().field(reduced.problem)(T0, z)
    assert torch.allclose(fast, slow, rtol=1e-2)
    run = romkit.follow(model, rod.dataset(strength=1.7), system=sampled)
    assert run.state.shape == (1, 200, 40)


def test_runs_say_how_far_their_right_hand_side_is_from_the_training_data(rod, data, sampled):
    pod = romkit.fit("pod", data, basis=sampled.basis, latent_dim=4)
    near = romkit.follow(pod, rod.dataset(strength=[0.7, 2.2]), system=sampled)
    assert near.state_distance.shape == (2, 200)
    assert 0 < near.state_distance.max() < 1
    with pytest.warns(
        romkit.errors.ExtrapolationWarning, match="strength by .*; the state of 1 of 2 trajectories"
    ):
        far = romkit.follow(pod, rod.dataset(strength=[1.0, 8.0], duration=0.1), system=sampled)
    assert float(far.state_distance[0].max()) < 1 < float(far.state_distance[1, -1])


def test_more_rows_read_coordinates_off_more_safely():
    modes = orthonormal(300, 10)
    smallest = [
        torch.linalg.svdvals(modes[chosen_rows(modes, number)])[-1].item()
        for number in (10, 15, 20, 40)
    ]
    assert smallest == sorted(smallest)
    at_random = torch.linalg.svdvals(
        modes[torch.randperm(300, generator=torch.Generator().manual_seed(0))[:20]]
    )[-1]
    assert smallest[2] > 1.5 * at_random
    rows = chosen_rows(modes, 40)
    assert len(rows.unique()) == 40
    assert chosen_rows(modes[:, :1], 3).unique().numel() == 3
    assert chosen_rows(modes, 300).unique().numel() == 300


def test_what_cannot_be_sampled(rod, data, monkeypatch):
    basis, lorenz = romkit.basis(data, rank=4), Lorenz96(n=40)

    @dataclass(frozen=True)
    class Fed(Rod):
        rate: float = 1.0

        def rhs(self, t, x, c):
            return torch.full_like(x, self.rate)

    for system, given, fact in (
        (
            rod,
            (basis,),
            "data",
        ),
        (lorenz, (basis, data), "system"),
        (
            rod,
            (basis, data.rename(strength="heat")),
            "data",
        ),
        (
            rod,
            (basis, data.isel(component=slice(9))),
            "data",
        ),
        (
            Fed(rate=1.0),
            (basis, data),
            "data",
        ),
        (
            Fed(rate=torch.nan),
            (basis, data),
            "data",
        ),
    ):
        refused(fact, system.through, *given)
    refused("tolerance", rod.through, basis, data, tolerance=0)
    monkeypatch.setitem(rates.rate_basis.__kwdefaults__, "modes", 3)
    assert (
        len(rod.through(basis, data).image.rows) == 6
    )  # an error if a tolerance was asked for alone
    refused(
        r"a tolerance that 3 modes reach, got .* left by 3 modes; raise it",
        rod.through,
        basis,
        data,
        tolerance=1e-10,
    )


def test_rows_tell_what_the_subspace_leaves_out(rod, data, sampled):
    """Of the whole field a fifth more or less: rows are where modes are large."""
    through, y = sampled, torch.from_numpy(sampled.basis.project(data).state.values)
    found = through.unresolved(data).values
    c = torch.from_numpy(data["strength"].values[:, None])
    f = rod.field(c)(T0, through.basis.decode(y))
    outside = f - through.basis.decode_tangent(through.basis.encode_tangent(f))
    exact = (outside.norm(dim=-1) / f.norm(dim=-1)).numpy()
    assert np.corrcoef(np.log(found.ravel()), np.log(exact.ravel()))[0, 1] > 0.9
