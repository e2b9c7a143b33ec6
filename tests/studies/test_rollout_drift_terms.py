"""Terms of the drift study's loss, and the gradients of the future that one of them needs."""

import numpy as np
import pytest
import torch
from torch.func import jacfwd

import romkit
from romkit.core.errors import InputError
from romkit.projections import Frame, stack
from romkit.solvers import RK4
from romkit.training import Penalty, Reconstruction, RolloutTraining
from romkit.training.batches import Batch
from romkit.training.loss import Objective, component_weights
from studies.rollout_drift.terms import Fibre, FutureGradient, Invariance, future_gradients

SETTINGS = {"seed": 0, "epochs": 2, "engine": "torch"}
PLAIN = (Reconstruction(), Penalty())
WEIGHTING = 0.5


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def batch_of(model, data):
    """The first snapshots of each trajectory in float64, with gradients at random."""
    x, v = (torch.from_numpy(data[name].values[:, :4].copy()).flatten(0, 1) for name in ("state", "velocity"))
    c = torch.from_numpy(data.F.values.copy()).repeat_interleave(4).unsqueeze(1)
    frame = model.frame
    rows = Batch(frame.normalise(x), v / frame.state_scale, frame.normalise_context(c))
    return (*rows, torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64))


def fibre(model, y, dy, c, weights):
    """|Dφ (Dρ(y) - Dρ(φ(ρ(y)))) ẏ|² of one snapshot, by automatic differentiation."""
    maps = model.at(c)
    z = maps.encode(y)
    change = (jacfwd(maps.encode)(y) - jacfwd(maps.encode)(maps.decode(z))) @ dy
    return (jacfwd(maps.decode)(z) @ change).square() @ weights


def formula(term, model, batch, system):
    """A term by its formula, one snapshot after the other or by the operator."""
    y, _, c, g = batch
    frame, weights, maps = model.frame, component_weights(model.frame, WEIGHTING), model.at(c)
    if isinstance(term, Fibre):
        return torch.stack([fibre(model, *row, weights) for row in zip(*batch[:3], strict=True)]).mean()
    if isinstance(term, FutureGradient):
        return (g * (y - maps.decode(maps.encode(y)))).sum(-1).square().mean()
    P = model(frame.denormalise_context(c))
    x = P(frame.denormalise(y))
    f = system.rhs(torch.zeros(()), x, P.context)
    return (((f - P.jvp(x, f).tangent) / frame.state_scale).square() @ weights).mean()


@pytest.mark.parametrize(
    ("method", "term"),
    [("ncae", Fibre(3.0)), ("context-ae", Fibre(3.0)), ("ncae", FutureGradient(3.0)), ("ncae", Invariance(3.0))],
)
def test_a_term_is_what_its_formula_says(lorenz, lorenz_data, method, term):
    model = romkit.fit(method, lorenz_data, **SETTINGS).double()
    batch = batch_of(model, lorenz_data)
    with torch.no_grad():
        wanted = formula(term, model, batch, lorenz).item()
        stacked, rows = stack([model]), [tensor.unsqueeze(0) for tensor in batch]
        more, plain = (Objective(stacked, terms, WEIGHTING, lorenz).double() for terms in ((*PLAIN, term), PLAIN))
        found = more(*rows if isinstance(term, FutureGradient) else rows[:3]) - plain(*rows[:3])
    assert wanted > 1e-8
    assert found.item() == pytest.approx(3 * wanted, rel=1e-9)


@pytest.fixture(scope="module")
def problem(lorenz, lorenz_data):
    """The arguments of `future_gradients` for twelve snapshots, in float64."""
    model = romkit.fit("pod", lorenz_data, latent_dim=2).double()
    return Batch(*batch_of(model, lorenz_data)[:3]), model.frame, lorenz


def test_gradients_are_those_of_the_full_model(problem):
    """Against central differences of the solver's trajectories, with τ and η drawn as documented."""
    rows, frame, system = problem
    weights = torch.linspace(0.5, 2.0, 36, dtype=torch.float64)
    found = future_gradients(rows, frame, system, 0.5, weights, seed=3)
    generator = torch.Generator().manual_seed(3)
    tau = 0.5 * torch.rand(len(rows.y), 1, generator=generator).double()
    eta = torch.randn(rows.y.shape, generator=generator).double() * weights.sqrt()
    context = frame.denormalise_context(rows.c)

    def future(y, k):
        times = torch.stack([torch.zeros(()).double(), tau[k, 0]])
        return frame.normalise(RK4(0.005)(system.field(context[k]), frame.denormalise(y), times).states[..., 1, :])

    shift = 1e-5 * torch.eye(36, dtype=torch.float64)
    for k in range(len(rows.y)):
        slopes = (future(rows.y[k] + shift, k) - future(rows.y[k] - shift, k)) / 2e-5
        assert torch.allclose(found[k], slopes @ eta[k], rtol=1e-5, atol=1e-5)


def test_gradients_depend_on_the_seed_of_the_data_and_not_on_the_chunks(problem, monkeypatch):
    rows, frame, system = problem
    gradients = lambda seed: future_gradients(rows, frame, system, 0.3, torch.ones(36), seed)  # noqa: E731
    whole = gradients(0)
    monkeypatch.setattr("studies.rollout_drift.terms.VALUES", 30 * 36 * 5)  # five snapshots at a time
    assert torch.allclose(gradients(0), whole, rtol=1e-12)
    assert not torch.allclose(gradients(1), whole, rtol=0.1)


def test_for_a_short_horizon_the_gradient_term_is_the_reconstruction_error_on_average(problem):
    rows, frame, system = problem
    many = Batch(*(tensor.repeat(400, 1) for tensor in rows))
    g = future_gradients(many, frame, system, 1e-6, torch.ones(36), seed=0)
    d = torch.linspace(-1, 1, 36, dtype=torch.float64)
    assert (g @ d).square().mean().item() == pytest.approx(d.square().sum().item(), rel=0.1)


@pytest.mark.parametrize(
    "term", [Fibre(1.0), Invariance(1.0), FutureGradient(1.0, 0.2)], ids=lambda t: type(t).__name__
)
def test_a_term_changes_the_training_and_is_recorded(lorenz, lorenz_data, term):
    plain = romkit.fit("ncae", lorenz_data, **SETTINGS)
    with_it = romkit.fit("ncae", lorenz_data, **SETTINGS, loss=[*PLAIN, term], system=lorenz)
    assert not torch.allclose(parameters(plain), parameters(with_it), rtol=0, atol=1e-4)
    assert with_it.report["recipe"]["loss"][-1]["term"] == type(term).__name__


def test_a_seed_with_gradients_means_the_same_alone_and_in_a_stack(lorenz_data):
    settings = SETTINGS | {"loss": [*PLAIN, FutureGradient(1.0, 0.2)]}
    alone = romkit.fit("ncae", lorenz_data, **settings | {"seed": 1})
    stacked = romkit.fit("ncae", lorenz_data, **settings, seeds=[0, 1])
    assert torch.equal(parameters(alone), parameters(romkit.projections.unstack(stacked)[1]))


def test_terms_go_with_refinements_noise_and_mechanical_systems(lorenz_data):
    terms = {"loss": [*PLAIN, FutureGradient(1.0, 0.2), Fibre(1.0)], "state_noise": 0.01}
    refined = {"rollouts": RolloutTraining(steps=2, every=1, length=12), "phase.steps": 1}
    report = romkit.fit("ncae", lorenz_data, **SETTINGS, **terms, **refined).report
    pendulum = romkit.systems.Pendulum().dataset("train", duration=0.2)
    fibres = romkit.fit("ncae", pendulum, **SETTINGS, loss=[*PLAIN, Fibre(1.0)]).report
    for numbers in (report["rollout_losses"], report["phase_errors"], fibres["losses"]):
        assert np.isfinite(numbers).all()


def test_what_the_terms_refuse(lorenz, lorenz_data):
    for kind in (Fibre, Invariance, FutureGradient):
        with pytest.raises(InputError, match="weight: expected a number that is not negative"):
            kind(-1.0)
    with pytest.raises(InputError, match="horizon: expected a positive number"):
        FutureGradient(1.0, 0.0)
    pendulum = romkit.systems.Pendulum().dataset("train", duration=0.2)
    with pytest.raises(InputError, match="loss: expected terms for a mechanical system"):
        romkit.fit("ncae", pendulum, loss=[FutureGradient(1.0)])
    with pytest.raises(InputError, match="loss: expected one term with numbers of its own, got 2"):
        romkit.fit("ncae", lorenz_data, loss=[FutureGradient(1.0, 0.1), FutureGradient(2.0, 0.1)])
    rows = Batch(torch.full((2, 36), 1e30), torch.zeros(2, 36), torch.zeros(2, 1))
    with pytest.raises(InputError, match="horizon: expected one with finite gradients"):
        future_gradients(rows, Frame.from_dataset(lorenz_data), lorenz, 1.0, torch.ones(36), seed=0)
