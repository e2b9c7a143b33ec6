"""Systems that are sampled at rows of their right-hand side: exact where these see all of it, and blind to n."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import romkit
from romkit.bases import Basis
from romkit.data import ContextParameter, Contexts
from romkit.integrators import Galerkin
from romkit.projections import Path
from romkit.solvers import RK4
from romkit.systems import Burgers2D, Lorenz96, System
from romkit.systems import through as rates
from romkit.systems.through import Sampled, SystemThroughBasis, chosen_rows
from romkit.testing import check_system
from romkit.verbs.reduced import ReducedModel
from tests.refusals import refused

T0 = torch.zeros((), dtype=torch.float64)


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
        return torch.stack([(rows - 1).clamp(min=0), rows, (rows + 1).clamp(max=self.n - 1)], dim=-1)

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
    return torch.linalg.qr(torch.randn(n, rank, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q


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
    turned, basis = data.drop_vars(["mu1", "mu2"]).assign_coords(mu2=data.mu2, mu1=data.mu1), romkit.basis(data, rank=2)
    found = (rates.coordinates_of(system, basis, each) for each in (data, turned))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_rows_of_all_are_the_projected_field(rod):
    """With modes of everything, nothing is left out."""
    basis, everything = Basis(orthonormal(40, 5), mean=np.linspace(0, 1, 40)), Basis(torch.eye(40))
    through = SystemThroughBasis(rod, basis, Sampled.of(rod, basis, everything, 40))
    c = torch.tensor([[0.7], [2.9]], dtype=torch.float64)
    y = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    full = basis.encode_tangent(rod.field(c)(T0, basis.decode(y)))
    assert torch.allclose(through.field(c)(T0, y), full, rtol=1e-12, atol=1e-10)
    assert torch.allclose(through.field(lambda t: c)(T0, y), full, rtol=1e-12, atol=1e-10)


def test_sampled_burgers_converges_to_its_exact_tensors():
    system = Burgers2D(cells=8, dt=0.25)
    runs = system.dataset("train")
    basis, c = romkit.basis(runs, rank=8), torch.tensor([[4.8, 0.02]], dtype=torch.float64)
    times = torch.linspace(0, 10, 11, dtype=torch.float64)
    exact, *others = (
        through.simulate(through.start(c), c, times).state
        for through in (
            system.through(basis),
            *(system.through(basis, runs, tolerance=tolerance) for tolerance in (1e-3, 1e-6, 1e-14)),
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
    assert np.isfinite(romkit.simulate(through, strength=2.0, duration=0.1, engine="torch").state).all()


@pytest.mark.parametrize("engine", ["torch", "compiled"])
def test_runs_between_the_contexts_of_training_are_those_of_the_whole_field(rod, sampled, engine):
    c, times = torch.tensor([[0.9], [2.3]], dtype=torch.float64), torch.linspace(0, 0.4, 5, dtype=torch.float64)

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
    reduced = ReducedModel(model, Galerkin(), Contexts(c, c), sampled)
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
    with pytest.warns(romkit.errors.ExtrapolationWarning, match="strength by .*; the state of 1 trajectories"):
        far = romkit.follow(pod, rod.dataset(strength=[1.0, 8.0], duration=0.1), system=sampled)
    assert float(far.state_distance[0].max()) < 1 < float(far.state_distance[1, -1])


def test_more_rows_read_coordinates_off_more_safely():
    modes = orthonormal(300, 10)
    smallest = [torch.linalg.svdvals(modes[chosen_rows(modes, number)])[-1].item() for number in (10, 15, 20, 40)]
    assert smallest == sorted(smallest)
    at_random = torch.linalg.svdvals(modes[torch.randperm(300, generator=torch.Generator().manual_seed(0))[:20]])[-1]
    assert smallest[2] > 1.5 * at_random
    rows = chosen_rows(modes, 40)
    assert len(rows.unique()) == 40
    assert chosen_rows(modes[:, :1], 3).unique().numel() == 3
    assert chosen_rows(modes, 300).unique().numel() == 300


def test_bad_input(rod, data, monkeypatch):
    basis, lorenz = romkit.basis(data, rank=4), Lorenz96(n=40)

    @dataclass(frozen=True)
    class Fed(Rod):
        rate: float = 1.0

        def rhs(self, t, x, c):
            return torch.full_like(x, self.rate)

    for system, given, message in (
        (rod, (basis,), "data: expected training data, on which rows are chosen, got none; give those"),
        (lorenz, (basis, data), "system: expected one that gives its rows, got lorenz96 without; write"),
        (rod, (basis, data.rename(strength="heat")), "data: expected the context strength, got heat"),
        (rod, (basis, data.isel(component=slice(9))), "data: expected the 40 components of the basis"),
        (Fed(rate=1.0), (basis, data), "data: expected snapshots at which the right-hand side differs"),
        (Fed(rate=torch.nan), (basis, data), "data: expected snapshots at which the right-hand side is"),
    ):
        refused(message, system.through, *given)
    refused("tolerance: expected a positive number", rod.through, basis, data, tolerance=0)
    monkeypatch.setattr(rates, "MOST", 3)
    assert len(rod.through(basis, data).image.rows) == 6  # an error if a tolerance was asked for alone
    refused(r"one that 3 modes reach, got .* left by 3 modes; raise it", rod.through, basis, data, tolerance=1e-10)


def test_rows_tell_what_the_subspace_leaves_out(rod, data, sampled):
    """Of the whole field a fifth more or less: rows are where modes are large."""
    through, y = sampled, torch.from_numpy(sampled.basis.project(data).state.values)
    found = through.unresolved(data).values
    c = torch.from_numpy(data["strength"].values[:, None])
    f = rod.field(c)(T0, through.basis.decode(y))
    outside = f - through.basis.decode_tangent(through.basis.encode_tangent(f))
    exact = (outside.norm(dim=-1) / f.norm(dim=-1)).numpy()
    assert np.corrcoef(np.log(found.ravel()), np.log(exact.ravel()))[0, 1] > 0.9
