"""Contexts that vary in time: rates of the manifold, laws, and rollouts along a ramp.

That latent dynamics follow motions on a manifold that moves is in their contract,
`romkit.testing.check_dynamics`.
"""

import copy

import pytest
import torch
import xarray as xr

import romkit
from romkit.core.types import Dual
from romkit.integrators import LearnedField
from romkit.laws import DMD, OperatorInference, SINDy, WeakSINDy, differentiated_samples
from romkit.laws.judge import Judge
from romkit.laws.neural_ode import Shooting, make_paths
from romkit.projections import Path
from romkit.solvers import RK4
from romkit.systems.problem import FirstOrder
from tests.refusals import refused


@pytest.fixture(scope="module")
def ncae(projection):
    return copy.deepcopy(projection).double()


TIMES = torch.linspace(0, 1, 11, dtype=torch.float64)


def ramp(t):
    """From one end of the training range to the other in one unit of time: fast, so that the term
    matters.
    """
    return torch.as_tensor([[3.133 + 0.06 * float(t)]], dtype=torch.float64)


def latent_truth(t, z):
    return torch.stack([z[..., 1], -z[..., 0]], dim=-1)


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e-3, 1e6])
def test_the_rate_of_the_decoder_against_finite_differences_in_any_unit_of_time(ncae, unit):
    path, z = (
        Path(ncae, lambda t: ramp(t / unit), unit * TIMES),
        torch.tensor([[0.3, -0.2]], dtype=torch.float64),
    )
    t, h = torch.tensor(0.4 * unit, dtype=torch.float64), 1e-4 * unit
    difference = (path.at(t + h).decode(z) - path.at(t - h).decode(z)) / (2 * h)
    assert torch.allclose(path.decoder_rate(t, z) * unit, difference * unit, atol=1e-6)


def test_a_context_is_not_asked_for_outside_of_the_run(ncae):
    def inside(t):
        assert 0 <= t <= 1
        return 3.15 + 0.01 * t.sqrt().reshape(1)

    path, z = Path(ncae, inside, TIMES), torch.zeros(2, dtype=torch.float64)
    for t in (TIMES[0], TIMES[-1]):
        assert bool(path.decoder_rate(t, z).isfinite().all())


class Turning(LearnedField):
    """The law ż = latent_truth, of data with a context of scale one."""

    order, latent_dim, context_names, scale = 1, 2, ("F",), torch.ones(1, 2, dtype=torch.float64)

    def right_hand_side(self, c):
        return lambda w: latent_truth(None, w)


def test_a_law_for_fixed_contexts_is_carried_along(ncae):
    """A fitted law follows a moving context with the term D_cρ ċ, here against the encoded motion
    of the full state.
    """
    path, t = Path(ncae, ramp, TIMES), torch.tensor(0.3, dtype=torch.float64)
    z, h = torch.tensor([[0.3, -0.2]], dtype=torch.float64), 1e-4
    x = path.at(t).decode(z)
    turned = (path.at(t + h).encode(x) - path.at(t - h).encode(x)) / (2 * h)
    assert torch.allclose(
        Turning().field(FirstOrder(path))(t, z), latent_truth(t, z) + turned, atol=1e-6
    )


def test_a_ramp_of_the_forcing_is_as_good_as_a_constant_one():
    system, projection = romkit.systems.Lorenz96(transient=60.0), romkit.load("ncae-lorenz96")
    start = system.start(torch.tensor([[3.136]], dtype=torch.float64))[0][0].numpy()
    run = {"duration": 0.5, "dt": 0.1, "initial_state": start, "solver": RK4(0.1)}
    constant = romkit.rollout(system, projection, F=3.136, **run)
    moving = romkit.rollout(system, projection, F=lambda t: 3.136 + 0.048 * t, **run)
    assert moving.F.dims == ("time",)
    assert moving.F.values[[0, -1]] == pytest.approx([3.136, 3.16])
    assert moving.nrmse.max() < 1.5 * constant.nrmse.max() + 0.02


def test_mechanical_systems_refuse_it():
    lengths = {"l1": lambda t: 0.4, "l2": 0.5, "l3": 0.5, "l4": 0.5}
    refused(
        "l1", romkit.rollout, romkit.systems.Pendulum(), romkit.load("ncae-pendulum"), **lengths
    )


class Shifted:
    """ρ(x; F) = x - F a of data of two components: their encoded states move with F, however the
    full ones move.
    """

    latent_dim, a = 2, torch.tensor([1.0, -0.5], dtype=torch.float64)

    def __call__(self, data):
        self.context = torch.from_numpy(data.F.values).unsqueeze(-1)
        return self

    def double(self):
        return self

    def law_space(self, data):
        return self, data

    def encode(self, x):
        return x - self.context * self.a

    def encode_jvp(self, x, v):
        return Dual(self.encode(x), v)


@pytest.fixture(scope="module")
def shifted():
    """ẋ = J (x - F(t) a), so that ż = J z beside the motion of the encoder."""
    times = torch.linspace(0, 6, 121, dtype=torch.float64)

    def rate(t, x):
        return latent_truth(t, x - torch.sin(3 * t) * Shifted.a)

    start = torch.tensor([[0.3, -0.2], [1.0, 0.5], [-0.6, 0.8]], dtype=torch.float64)
    x = RK4(0.01)(rate, start, times).states
    velocity = torch.stack([rate(t, x[:, k]) for k, t in enumerate(times)], dim=1)
    dims = ("trajectory", "time", "component")
    F = (dims[:2], torch.sin(3 * times).expand(3, -1).clone().numpy())
    return xr.Dataset(
        {"state": (dims, x.numpy()), "velocity": (dims, velocity.numpy())}, {"time": times, "F": F}
    )


LINEAR = {"degree": 1, "context_degree": 0}


@pytest.mark.parametrize("velocity", [True, False])
@pytest.mark.parametrize(
    "law",
    [
        SINDy(threshold=0.0, refine=False, **LINEAR),
        WeakSINDy(threshold=0.0, refine=False, **LINEAR),
        DMD(),
        OperatorInference(regularization=1e-6, **LINEAR),
    ],
    ids=lambda law: type(law).__name__,
)
def test_a_law_knows_nothing_of_the_motion_that_comes_from_the_context(shifted, law, velocity):
    fitted = law.fit(Shifted(), shifted if velocity else shifted.drop_vars("velocity"))
    z, c = torch.eye(2, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64)
    assert torch.allclose(fitted.predict(z, c), latent_truth(None, z), atol=1e-2)
    assert torch.allclose(fitted.predict(z, c + 1), latent_truth(None, z), atol=1e-2)


def test_segments_and_held_out_rollouts_move_with_the_context(shifted):
    samples = SINDy.samples(Shifted(), shifted)
    judge = Judge.compare_latents(samples)
    every = torch.arange(judge.states.shape[-3])
    assert judge.errors(Turning(), every).max() < 1e-2
    paths = make_paths(samples)

    class Scaled(Turning):
        """The same law of scaled latents, by sampling intervals."""

        def right_hand_side(self, c):
            return lambda y: (
                latent_truth(None, paths.origin + paths.unit * y) * paths.dt / paths.unit
            )

    segments = Shooting.cut(paths, torch.tensor([1]), 8)
    assert segments.error(Scaled(), 50, 0.0, torch.Generator().manual_seed(0)).max() < 1e-5


def test_laws_are_fitted_to_data_whose_context_moves(ncae):
    data = romkit.simulate(
        romkit.systems.Lorenz96(transient=0.0), F=lambda t: 3.15 + 0.01 * t, duration=0.5, dt=0.01
    )
    assert SINDy(degree=1, threshold=0.0).fit(ncae, data).samples == 51
    for fitted in (
        lambda: differentiated_samples(ncae, data, order=2),
        lambda: SINDy().fit(ncae, data.assign(acceleration=data.velocity)),
    ):
        refused("data", fitted)
    still = data.assign(acceleration=data.velocity, F=("trajectory", [3.15])).set_coords("F")
    second = SINDy(degree=1, threshold=0.0).fit(ncae, still)
    refused("dynamics", romkit.follow, ncae, data, dynamics=second)
