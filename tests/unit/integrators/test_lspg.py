"""LSPG: its limit, its order, what it says to a solver; and restarts from the decoded state, free
where ρ ∘ φ = id.
"""

import itertools
import shutil

import numpy as np
import pytest
import torch

import romkit
from romkit.data import ContextParameter
from romkit.engine import trace
from romkit.integrators import LSPG, Galerkin, LearnedField, PetrovGalerkin, Reencoded, base, lspg
from romkit.laws import SINDy
from romkit.projections import Path
from romkit.solvers import RK4, Status
from romkit.systems import Lorenz96, MechanicalSystem, Pendulum, System
from romkit.systems.problem import FirstOrder
from tests.refusals import refused

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def system():
    return Lorenz96(n=8, transient=2.0)


@pytest.fixture(scope="module")
def projection(system):
    return romkit.fit("pod", system.dataset(F=[3.14, 3.18], duration=2.0), latent_dim=3)


class Beads(MechanicalSystem):
    """Four beads on stiffening springs; small, since a larger kernel takes the compiler a minute."""

    name, state_names, state_units, dt, duration, horizon = (
        "beads",
        tuple("abcd"),
        ("m",) * 4,
        0.02,
        2.0,
        2.0,
    )
    context = (ContextParameter("k", "1", 0.5, 2.0, "stiffness"),)

    def acceleration(self, t, q, v, c):
        return q.roll(1, -1) - 2 * q + q.roll(-1, -1) - c * (q + q**3)

    def initial_state(self, contexts, rng):
        return contexts.new_tensor([1.0, 0.5, -0.5, 0.2]).expand(len(contexts), 4)


@pytest.fixture(scope="module")
def beads():
    return Beads(), romkit.fit("ncae", Beads().dataset(k=[0.5, 1.0, 2.0]), layers=(2, 4), epochs=20)


def problem_at(system, projection, contexts):
    return system.problem(Path.constant(projection.double()(contexts)), contexts)


def solve(dynamics, problem, parts, times, engine="auto"):
    return dynamics.solve(problem, dynamics.start(problem, times[0], parts), times, engine=engine)


def latent(system, projection, dynamics):
    return romkit.rollout(
        system, projection, dynamics=dynamics, duration=0.4, dt=0.1, F=3.15
    ).latent.values


class Linear(System):
    """x' = (A + r) x."""

    name, state_names, dt, duration, horizon = "linear", tuple("abcde"), 0.05, 1.0, 1.0
    context = (ContextParameter("r", "1", -0.5, 0.5, "growth"),)
    matrix = np.random.default_rng(1).normal(size=(5, 5)) - 1.5 * np.eye(5)

    def rhs(self, t, x, c):
        return x @ x.new_tensor(self.matrix.T) + c * x

    def initial_state(self, contexts, rng):
        return (1 + contexts) * torch.linspace(1, 2, 5, dtype=contexts.dtype)


def test_steps_of_a_linear_system_are_those_of_linear_least_squares():
    system, h = Linear(), 0.05
    data = system.dataset(r=[-0.4, 0.0, 0.4], duration=0.3)
    pod = romkit.fit("pod", data, latent_dim=2)
    run = romkit.follow(pod, data, dynamics=LSPG(dt=h), system=system)
    operator = pod(r=0.4)
    mean = operator.decode(torch.zeros(2, dtype=torch.float64)).numpy()
    V = (operator.decode(torch.eye(2, dtype=torch.float64)).numpy() - mean).T
    A = system.matrix + 0.4 * np.eye(5)
    latents = run.latent.sel(trajectory=2).values
    for z, later in itertools.pairwise(latents):
        x = V @ z + mean
        known = x - mean + h / 2 * A @ (x + mean)
        exact, *_ = np.linalg.lstsq(V - h / 2 * A @ V, known)
        np.testing.assert_allclose(later, exact, atol=1e-12)


def test_it_becomes_galerkin_to_first_order(system, projection):
    exact = latent(system, projection, Galerkin())
    steps = np.array([0.1, 0.05, 0.025])
    errors = [np.abs(latent(system, projection, LSPG(dt=h)) - exact).max() for h in steps]
    order = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 0.8 < order < 1.3  # the residual is weighed by I - h/2 Df


def end(model, dynamics, interval, **context):
    run = romkit.rollout(*model, dynamics=dynamics, duration=1.0, dt=interval, **context)
    return run.latent.values[..., -1, :]


def test_output_times_do_not_decide_the_error(system, projection):
    model = system, projection
    exact = end(model, LSPG(dt=1e-2), 1.0, F=3.15)
    size = np.abs(exact).max()
    for interval in (0.1, 1.0):
        checked, given = LSPG(rtol=4e-3), LSPG(dt=interval)
        assert np.abs(end(model, checked, interval, F=3.15) - exact).max() < 1e-2 * size
        assert np.abs(end(model, given, interval, F=3.15) - exact).max() > 2e-2 * size


def test_a_mechanical_system_takes_steps_that_are_short_enough(beads):
    exact = end(beads, LSPG(dt=2e-2), 1.0, k=[0.7, 1.5])
    for interval in (0.2, 1.0):
        apart = np.abs(end(beads, LSPG(rtol=1e-2), interval, k=[0.7, 1.5]) - exact).max()
        assert apart < 2e-2 * np.abs(exact).max()


def test_a_run_that_depends_on_every_step_warns(system, projection, monkeypatch):
    monkeypatch.setattr(lspg, "MOST_STEPS", 4)
    with pytest.warns(RuntimeWarning, match=r"LSPG\(dt=...\)"):
        latent(system, projection, LSPG(rtol=1e-9))


def test_the_unit_of_time_changes_nothing(system, projection):
    problem, data = (
        problem_at(system, projection, torch.tensor([[3.15]])),
        system.dataset(F=3.15, duration=0.1),
    )
    x, times = (
        torch.from_numpy(data.state.values[:, 0]),
        torch.linspace(0.0, 0.5, 6, dtype=torch.float64),
    )
    fast = FirstOrder(problem.path, lambda t, x: 1e8 * problem.field(t, x), problem.metric)
    expected = solve(LSPG(dt=0.1), problem, (x,), times)
    found = solve(LSPG(dt=1e-9), fast, (x,), times / 1e8)
    assert torch.allclose(found.states, expected.states, rtol=1e-9)


def test_it_reduces_the_residual_below_that_of_galerkin(system, projection):
    h = 0.1
    f, t = system.field(F=3.15), torch.zeros((), dtype=torch.float64)

    def residual(dynamics):
        run = romkit.rollout(system, projection, dynamics=dynamics, duration=h, dt=h, F=3.15)
        x = torch.from_numpy(run.rom.values)
        return (x[1] - x[0] - h / 2 * (f(t, x[1]) + f(t, x[0]))).norm().item()

    assert residual(LSPG(dt=h)) < residual(Galerkin())


def test_a_mechanical_system_is_followed_as_by_galerkin_traced_and_compiled(beads, monkeypatch):
    def run(dynamics, **given):
        return romkit.rollout(*beads, dynamics=dynamics, k=[0.7, 1.5], duration=0.2, **given)

    law = LSPG(dt=0.02)
    plain, galerkin = run(law, engine="torch"), run(Galerkin())
    assert np.allclose(plain.rom, galerkin.rom, atol=1e-3)
    monkeypatch.setattr(lspg, "tracing_pays", lambda steps, engine: True)
    assert np.array_equal(run(law).latent, plain.latent)
    if shutil.which("c++") is not None:
        compiled = run(law, engine="compiled")
        assert compiled.attrs["engine_reduced_model"] == "compiled"
        assert np.allclose(compiled.latent, plain.latent, rtol=1e-9, atol=1e-10)


def test_traced_steps_are_those_of_torch(system, projection, monkeypatch):
    plain, traces = latent(system, projection, LSPG(dt=0.1)), []

    def counted(function, *examples):
        traces.append(function)
        return trace(function, *examples)

    monkeypatch.setattr(lspg, "tracing_pays", lambda steps, engine: True)
    monkeypatch.setattr(base, "trace", counted)
    assert np.array_equal(latent(system, projection, LSPG(dt=0.1)), plain)
    assert len(traces) == 1


@needs_compiler
def test_compiled_steps_are_those_of_torch(system, projection):
    contexts = torch.tensor([[3.14], [3.16], [3.18]], dtype=torch.float64)
    times = torch.linspace(0, 2, 21, dtype=torch.float64)
    with torch.no_grad():
        problem, x0 = problem_at(system, projection, contexts), system.start(contexts)[0]
        harmed = torch.stack([x0[0], 1e7 * x0[1], x0[2]])
        run = lambda x, engine="auto": solve(LSPG(dt=0.05), problem, (x,), times, engine)  # noqa: E731
        plain, eager = run(x0), run(x0, "torch")
        compiled, beside = run(x0, "compiled"), run(harmed, "compiled")
    engines = [solution.cost["engine"] for solution in (plain, eager, compiled)]
    assert engines == ["torch (too short a run to compile)", "torch", "compiled"]
    assert torch.equal(eager.states, plain.states)
    assert torch.allclose(compiled.states, plain.states, rtol=1e-10, atol=1e-10)
    assert beside.status.tolist() == [Status.COMPLETED, Status.DIVERGED, Status.COMPLETED]
    assert torch.equal(beside.states[[0, 2]], compiled.states[[0, 2]])


@needs_compiler
@pytest.mark.parametrize("engine", ["torch", "compiled"])
def test_a_member_does_not_wait_for_its_neighbours(system, projection, engine):
    times = torch.tensor(
        [0.0, 0.3], dtype=torch.float64
    )  # one long step, for which the two need different numbers
    contexts = torch.tensor([[3.14], [3.16]], dtype=torch.float64)
    with torch.no_grad():
        problem, x0 = problem_at(system, projection, contexts), system.start(contexts)[0]
        states = [
            solve(LSPG(dt=0.1, tolerance=1e-3), problem, (x,), times, engine).states[0]
            for x in (x0, torch.stack([x0[0], 3 * x0[1]]))
        ]
    assert torch.equal(*states)


def test_what_depends_on_values_is_not_traced():
    def halved_while_large(x):
        return x / 2 if bool(x.norm() > 1) else x

    x = torch.ones(3, dtype=torch.float64)
    with torch.no_grad():
        assert base.traced(halved_while_large, x) is halved_while_large


def test_its_settings_are_recorded_and_a_solver_is_refused(system, projection):
    given = {"dynamics": LSPG(dt=0.05), "duration": 0.2, "dt": 0.1, "F": 3.15}
    run = romkit.rollout(system, projection, **given)
    settings = "LSPG(dt=0.05, rtol=0.001, iterations=8, tolerance=1e-10, mesh=None)"
    assert run.attrs["dynamics_settings"] == run.attrs["solver_reduced_model"] == settings
    refused("solver", romkit.rollout, system, projection, solver=RK4(0.01), **given)


def test_the_weights_of_a_quadrature_decide_which_residual_is_small(system, projection):
    """With all weight on as many components as there are latent ones, those are stepped by the
    trapezoidal rule.
    """
    h, t, chosen = (
        0.1,
        torch.zeros((), dtype=torch.float64),
        torch.tensor([1.0, 0, 0, 1, 0, 0, 1, 0]),
    )
    c = torch.tensor([[3.15]], dtype=torch.float64)
    with torch.no_grad():
        path, f = Path.constant(projection.double()(c)), system.field(c)
        times = torch.tensor([0.0, h], dtype=torch.float64)
        z0 = path.operator.encode(system.start(c)[0])
        residuals = []
        for weights in (chosen.double(), torch.ones(8, dtype=torch.float64)):
            problem = FirstOrder(path, f, lambda x, u, w=weights: w.unsqueeze(-1) * u)
            x = path.operator.decode(LSPG(dt=h).solve(problem, z0, times).states)[0]
            rule = x[1] - x[0] - h / 2 * (f(t, x[None, 1]) + f(t, x[None, 0]))[0]
            residuals.append(rule[chosen > 0].abs().max().item())
    assert residuals[0] < 1e-8 < 1e-5 < residuals[1]


@pytest.fixture(scope="module")
def models(system):
    data = system.dataset(F=[3.14, 3.18], duration=2.0)
    return {
        method: romkit.fit(method, data, epochs=50, layers=(3, 6, 8), seeds=range(2))
        for method in ("cae", "ae")
    }


def latents(system, model, dynamics, **more):
    # steps of one length: a restart begins its own, and adaptive ones would differ by the tolerance
    settings = {"duration": 0.5, "dt": 0.1, "F": [3.14, 3.15], "solver": RK4(0.01)} | more
    return romkit.rollout(system, model, dynamics=dynamics, **settings).latent.values


def test_it_costs_nothing_where_the_encoder_is_a_left_inverse(system, models):
    stays = latents(system, models["cae"], PetrovGalerkin())
    for every in (1, 2, 100):
        restarts = latents(system, models["cae"], Reencoded(PetrovGalerkin(), every))
        assert np.allclose(restarts, stays, atol=1e-11)


def test_a_restart_is_one_more_encoding(system, models):
    model = models["ae"]
    stays, jumps = (
        latents(system, model, d) for d in (PetrovGalerkin(), Reencoded(PetrovGalerkin(), 2))
    )
    assert np.array_equal(
        jumps[..., :3, :], stays[..., :3, :]
    )  # the state before the jump is reported
    assert np.abs(jumps[..., 3:, :] - stays[..., 3:, :]).max() > 1e-3
    P = model.double()(torch.tensor([[3.14], [3.15]], dtype=torch.float64))
    again = P.decode(torch.from_numpy(jumps[..., 2, :])).detach().numpy()
    one = [
        latents(system, model, PetrovGalerkin(), duration=0.1, initial_state=again[s])[s]
        for s in range(2)
    ]
    assert np.allclose(np.stack(one)[..., 1, :], jumps[..., 3, :], atol=1e-10)


def test_it_costs_nothing_from_the_nearest_point(system, models):
    stays, restarts = (
        latents(system, models["ae"], d, duration=0.3)
        for d in (Galerkin(), Reencoded(Galerkin(), 1))
    )
    assert np.allclose(restarts, stays, atol=1e-6)


def test_a_law_of_second_order_needs_no_system():
    class Law(LearnedField):
        order, latent_dim, context_names = 2, 2, ()

        def right_hand_side(self, c):
            return lambda w: -w[..., :2]

    data = Pendulum().dataset("train", duration=0.05).isel(trajectory=slice(2))
    model = romkit.fit("pod", data, latent_dim=2)
    lengths = {name: 0.5 for name in Pendulum().context_names}
    start = {"initial_state": [0.1, 0.2], "initial_velocity": [0.0, 1.0]}
    run = romkit.forecast(
        model, dynamics=Reencoded(Law(), 2), duration=1.0, dt=0.01, **start, **lengths
    )
    t = run.time.values
    assert np.allclose(
        run.latent, np.stack([0.1 * np.cos(t), 0.2 * np.cos(t) + np.sin(t)], -1), atol=1e-6
    )


def test_what_cannot_be_restarted():
    refused("every", Reencoded, Galerkin(), 0)
    refused("dynamics", Reencoded, LSPG(), 2)


def test_laws_keep_what_they_know():
    times = np.linspace(0, 5, 51)
    u = np.stack([k * np.sin(times) for k in (1.0, 2.0, 3.0)])[..., None]
    states = np.cumsum(u, axis=1) * np.array([0.1, 0.2])
    data = romkit.data.from_arrays(states, times, control=u)
    pod = romkit.fit("pod", data, latent_dim=1)
    law = SINDy(degree=1, threshold=0.0, refine=False).fit(pod, data)
    given = {"initial_state": states[0, 0], "duration": 1.0, "dt": 0.1, "control": u[0, :11]}
    plain, again = (romkit.forecast(pod, dynamics=d, **given) for d in (law, Reencoded(law, 5)))
    assert np.allclose(plain.latent, again.latent, atol=1e-9)
    assert np.allclose(plain.state_distance, again.state_distance, atol=1e-9)
