"""Right-hand sides of users: in NumPy or SciPy, without an effect of the context, written for one state."""

import math

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline

import romkit
from romkit.core.errors import InputError
from romkit.data import ContextParameter
from romkit.integrators import LSPG
from romkit.systems import MechanicalSystem, System
from romkit.systems.derivatives import differentiable
from romkit.testing import check_system
from tests.refusals import refused

T0 = torch.zeros((), dtype=torch.float64)


class Pair(System):
    """Two components and a rate."""

    name, state_names, dt, duration, horizon = "pair", ("x", "y"), 0.01, 0.5, 0.5
    context = (ContextParameter("b", "1", 0.5, 2.0, "rate"),)

    def rhs(self, t, x, c):
        return -c * torch.sin(x)

    def initial_state(self, contexts, rng):
        return contexts.new_ones(len(contexts), 2)


class InNumpy(Pair):
    def rhs(self, t, x, c):
        return torch.from_numpy(-c.numpy() * np.sin(x.numpy()))


class Arrays(Pair):
    """Gives an array, not a tensor."""

    def rhs(self, t, x, c):
        return -np.asarray(c) * np.sin(np.asarray(x))


class Detached(Pair):
    """Torch would take its derivative for zero."""

    def rhs(self, t, x, c):
        return torch.from_numpy(-c.detach().numpy() * np.sin(x.detach().numpy()))


TABLE = CubicSpline(np.linspace(-9, 9, 400), np.sin(np.linspace(-9, 9, 400)))


class Interpolated(Pair):
    def rhs(self, t, x, c):
        return torch.as_tensor(-c.detach().numpy() * TABLE(x.detach().numpy())).to(x)


FOREIGN = (InNumpy, Arrays, Detached, Interpolated)


@pytest.mark.parametrize("kind", FOREIGN)
def test_fields_outside_of_torch_have_its_derivatives(kind):
    system, c = kind(), torch.tensor([[0.7], [1.5]], dtype=torch.float64)
    x, v = torch.randn(2, 2, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    f = system.field(c)
    slope = -c[:, None] * torch.cos(x)
    _, tangent = torch.func.jvp(lambda x: f(T0, x), (x,), (v,))
    assert torch.allclose(tangent, slope * v, rtol=0, atol=2e-6)  # that of the spline
    for derivative in (torch.func.jacfwd, torch.func.jacrev):
        jacobian = derivative(lambda y: system.field(c[0])(T0, y))(x[0, 0])
        assert torch.allclose(jacobian, torch.diag(slope[0, 0]), rtol=0, atol=2e-6)
    leaf = x.clone().requires_grad_()
    (f(T0, leaf) * v).sum().backward()
    assert torch.allclose(leaf.grad, slope * v, rtol=0, atol=2e-6)
    by_context = torch.func.jacfwd(lambda c: differentiable(system.rhs)(T0, x[0, 0], c))(c[0])
    assert torch.allclose(by_context[:, 0], -torch.sin(x[0, 0]), rtol=0, atol=2e-6)


def test_a_vector_without_length_has_a_derivative_of_zero():
    zero = torch.zeros(2, dtype=torch.float64)
    _, tangent = torch.func.jvp(lambda x: InNumpy().field(b=1.0)(T0, x), (zero + 1,), (zero,))
    assert torch.equal(tangent, zero)


def verbs(system, pod):
    """What verbs make of a system: latent runs by two dynamics, and the end of a branch."""
    runs = []
    for dynamics in (None, LSPG(dt=0.01)):
        run = romkit.rollout(system, pod, b=1.2, dynamics=dynamics)
        runs.append(run.latent.values)
    branch = romkit.continuation(system, start=[0.1, 0.1], b=(0.5, 2.0))
    return runs, branch.state.values[-1]


@pytest.fixture(scope="module")
def by_torch():
    """A projection of the field in torch, and what verbs make of it."""
    pod = romkit.fit("pod", Pair().dataset(b=[0.5, 1.0, 2.0]), latent_dim=2)
    return pod, *verbs(Pair(), pod)


@pytest.mark.parametrize("kind", FOREIGN)
def test_verbs_take_fields_outside_of_torch(kind, by_torch):
    system, (pod, expected_runs, expected_end) = kind(), by_torch
    check_system(system)
    runs, end = verbs(system, pod)
    for run, expected in zip(runs, expected_runs, strict=True):
        assert np.abs(run - expected).max() < 1e-5
    assert np.abs(end - expected_end).max() < 1e-6


class Spring(MechanicalSystem):
    name, state_names, dt, duration, horizon = "spring", ("q",), 0.01, 0.5, 0.5
    context = (ContextParameter("k", "1", 0.5, 2.0, "stiffness"),)

    def acceleration(self, t, q, v, c):
        return torch.from_numpy(-c.numpy() * np.tanh(q.numpy()))

    def initial_state(self, contexts, rng):
        return contexts.new_ones(len(contexts), 1)


def test_a_mechanical_field_outside_of_torch():
    check_system(Spring())


class OneState(Pair):
    def rhs(self, t, x, c):
        return torch.stack([x[1], -c[0] * x[0]])


class Columns(Pair):
    def rhs(self, t, x, c):
        return torch.stack([x[..., 1], -c[..., 0] * x[..., 0]])


class Plain(Pair):
    def rhs(self, t, x, c):
        return torch.stack([x[..., 1], -c[..., 0] * math.sin(x[..., 0])], dim=-1)


class FromTheRight(Pair):
    def rhs(self, t, x, c):
        return -c[..., 0] * x


class InPlace(Pair):
    def rhs(self, t, x, c):
        x *= 0.5
        return -c * x


class Names(Pair):
    context = ("b",)


class ArrayStart(Pair):
    def initial_state(self, contexts, rng):
        return np.ones((len(contexts), 2))


class OneStart(Pair):
    def initial_state(self, contexts, rng):
        return torch.ones(2, dtype=torch.float64)


class Broken(Pair):
    def rhs(self, t, x, c):
        return -c * x + self.force


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OneState, "dim=-1"),
        (Columns, "dim=-1"),
        (Plain, "Plain.rhs"),
        (FromTheRight, "FromTheRight.rhs"),
        (InPlace, "do not write into x"),
        (Names, "ContextParameter(name"),
        (OneStart, "initial_state"),
        (Broken, "force"),
    ],
)
def test_the_contract_says_in_words_what_is_wrong(kind, words):
    with pytest.raises((AssertionError, InputError)) as caught:
        check_system(kind())
    assert words in str(caught.value)


def test_starts_may_be_written_in_numpy():
    check_system(ArrayStart())


@pytest.mark.parametrize("kind", [OneState, Plain, Broken, Names])
def test_a_field_that_fails_is_named(kind):
    with pytest.raises(InputError) as caught:
        romkit.simulate(kind(), b=[0.5, 1.0])
    assert caught.value.argument in (f"{kind.__name__}.rhs", "context")


UNUSED = ContextParameter("d", "1", 0.0, 1.0, "of no use")


class Unused(Pair):
    context = (*Pair.context, UNUSED)

    def rhs(self, t, x, c):
        return -c[..., :1] * x


class Times0(Unused):
    """Multiplied by zero on its way."""

    def rhs(self, t, x, c):
        return -c[..., :1] * torch.relu(x + 0 * (c[..., 1:] > 5))


class Constant(Spring):
    context = (*Spring.context, UNUSED)

    def acceleration(self, t, q, v, c):
        return -c[..., :1] * q


@pytest.mark.parametrize("kind", [Unused, Times0, Constant])
def test_a_parameter_that_nothing_depends_on_is_refused(kind):
    system = kind()
    named = {system.context[0].name: 1.0, "d": [0.0, 1.0]}
    for make in (lambda: romkit.simulate(system, **named), lambda: system.dataset("train")):
        with pytest.raises(InputError) as caught:
            make()
        assert caught.value.argument == "d"


class Late(Unused):
    """A pulse that the run does not reach."""

    def rhs(self, t, x, c):
        return -c[..., :1] * x + c[..., 1:] * (t > 100)


class Switch(Unused):
    """A threshold that the motion does not reach."""

    def rhs(self, t, x, c):
        return torch.where(x > 50 + c[..., 1:] - c[..., 1:] * 0, -x, -c[..., :1] * x)


class AtStart(Unused):
    def initial_state(self, contexts, rng):
        return 1 + contexts[:, 1:].expand(-1, 2)


@pytest.mark.parametrize("kind", [Late, AtStart, Pair])
def test_a_parameter_that_acts_elsewhere_is_taken(kind):
    named = {"b": 1.0} | ({} if kind is Pair else {"d": 0.5})
    assert romkit.simulate(kind(), **named).sizes["time"] > 1


@pytest.mark.parametrize(
    "F",
    [
        lambda t: 3.15 + 0.01 * math.sin(t),
        lambda t: 3.15 + 0.01 * np.sin(t),
        lambda t: 3.15 + 0.01 * torch.sin(t),
        lambda t: 3.15 + 0.01 * torch.sin(torch.as_tensor(t)),
        lambda t: 3.15 + 0.01 * t.sin(),
        lambda t: [3.15 + 0.01 * math.sin(t)],
    ],
)
def test_a_moving_context_in_any_of_three_languages(F):
    ring = romkit.systems.Lorenz96(n=8, transient=0.0)
    run = romkit.simulate(ring, F=F, duration=0.1)
    expected = 3.15 + 0.01 * np.sin(run.time.values)
    assert np.allclose(
        run.F.values[0], expected, rtol=0, atol=3e-7
    )  # torch.as_tensor(t) is float32


@pytest.mark.parametrize("F", [lambda: 3.15, lambda t: "high", lambda t: t.nothing, torch.sinc])
def test_a_moving_context_that_is_no_number_names_its_parameter(F):
    ring = romkit.systems.Lorenz96(n=8, transient=0.0)
    if F is torch.sinc:
        assert romkit.simulate(ring, F=F, duration=0.05).F[0, 0] == 1.0
        return
    with pytest.raises(InputError) as caught:
        romkit.simulate(ring, F=F, duration=0.1)
    assert caught.value.argument == "F"


class WritesContext(Pair):
    def rhs(self, t, x, c):
        c *= 1.01
        return -c * x


class WritesThroughNumpy(Pair):
    def rhs(self, t, x, c):
        np.asarray(x)[..., 0] %= 1.0
        return -c * x


class Clamps(Pair):
    def rhs(self, t, x, c):
        return -c * torch.sin(x.clamp_(min=0))


class WritesRates(Spring):
    def acceleration(self, t, q, v, c):
        rate = -c * q
        v.mul_(0.5)
        return rate


@pytest.mark.parametrize("kind", [InPlace, WritesContext, WritesThroughNumpy, Clamps, WritesRates])
@pytest.mark.parametrize("values", [1.5, [0.5, 1.5]])
@pytest.mark.filterwarnings("ignore::romkit.errors.DivergenceWarning")
def test_a_right_hand_side_that_writes_into_its_arguments_is_refused(kind, values):
    system = kind()
    (name,) = system.context_names
    start = np.full(system.state_size, 1.25)
    with pytest.raises(InputError) as caught:
        romkit.simulate(system, initial_state=start, duration=0.2, context={name: values})
    assert kind.__name__ in caught.value.argument
    assert "clone" in str(caught.value)


class ListStart(Pair):
    def initial_state(self, contexts, rng):
        return [[1.0, 1.0]] * len(contexts)


class HalfStart(Pair):
    def initial_state(self, contexts, rng):
        return np.ones((len(contexts), 2), dtype=np.float16)


@pytest.mark.parametrize("kind", [ArrayStart, ListStart, HalfStart])
@pytest.mark.parametrize("values", [1.5, [0.5, 1.5]])
def test_a_start_in_numpy_is_taken(kind, values):
    runs = [romkit.simulate(made(), duration=0.5, b=values).state for made in (kind, Pair)]
    assert np.abs(runs[0] - runs[1]).max() < 1e-6


class Pushed(Pair):
    """ẋ = -b x + sin 3t, a field that depends on the time."""

    def rhs(self, t, x, c):
        return -c * x + torch.sin(3 * t)


class PushedSpring(Spring):
    def acceleration(self, t, q, v, c):
        return -c * q + torch.cos(2 * t)


@pytest.mark.parametrize("system", [Pushed(), PushedSpring()])
@pytest.mark.parametrize("sample", [10, 37])
def test_a_state_of_a_later_time_is_no_start_of_a_field_that_depends_on_time(system, sample):
    (name,) = system.context_names
    data = system.dataset(**{name: [0.6, 1.0, 1.8]})
    later, first = (data.isel(trajectory=1, time=k) for k in (sample, 0))
    settings = {"duration": 0.1, name: 1.0}
    refused("initial_state", romkit.simulate, system, initial_state=later.state, **settings)
    numbers = later.state.values  # who takes the label off means time 0
    assert romkit.simulate(system, initial_state=numbers, **settings).sizes["time"] == 11
    assert romkit.simulate(system, initial_state=first.state, **settings).sizes["time"] == 11
    if system.order == 2:
        return
    modes = romkit.fit("pod", data, latent_dim=2, verbose=False)
    settings |= {"system": system, "dt": system.dt}
    refused("initial_state", romkit.forecast, modes, initial_state=later.state, **settings)
    # the way that the refusal names
    followed = romkit.follow(modes, data.isel(time=slice(sample, None)), system=system)
    assert float(romkit.score(data.isel(time=slice(sample, None)), followed).nrmse.max()) < 1e-4


def test_an_autonomous_field_starts_from_a_state_of_any_time():
    data = Pair().dataset(b=[0.6, 1.0, 1.8])
    later = data.state.isel(trajectory=1, time=20)
    run = romkit.simulate(Pair(), initial_state=later, duration=0.2, b=1.0)
    assert np.abs(run.state.values[0] - data.state.values[1, 20:41]).max() < 1e-9


class FromHighToLow(Pair):
    context = (ContextParameter("b", "1", 2.0, 0.5, "rate"),)


class NamedLikeTime(Pair):
    context = (ContextParameter("time", "1", 0.5, 2.0, "rate"),)


class NamedLikeComponents(Pair):
    context = (ContextParameter("component", "1", 0.5, 2.0, "rate"),)


class NamedLikeStates(Pair):
    context = (ContextParameter("state", "1", 0.5, 2.0, "rate"),)


@pytest.mark.parametrize(
    "kind", [FromHighToLow, NamedLikeTime, NamedLikeComponents, NamedLikeStates]
)
def test_parameters_that_no_dataset_could_hold_are_refused(kind):
    (name,) = (parameter.name for parameter in kind.context)
    refused("context", kind().dataset, **{name: [1.0, 1.5]})


class LargestContext(Pair):
    def rhs(self, t, x, c):
        return -x * float(c.max())


class SmallestContext(Pair):
    def rhs(self, t, x, c):
        return -x * c.amin()


class MeanContext(Pair):
    def rhs(self, t, x, c):
        return -x * c.mean()


@pytest.mark.parametrize("kind", [LargestContext, SmallestContext, MeanContext])
@pytest.mark.parametrize("values", [[0.6, 1.0, 1.8], [1.8, 1.0, 0.6]])
def test_trajectories_that_share_a_context_are_refused(kind, values):
    refused(f"{kind.__name__}.rhs", romkit.simulate, kind(), duration=0.2, b=values)


class OneBuffer(Pair):
    """Fills one array in all calls."""

    def __init__(self):
        self.buffers = {}

    def rhs(self, t, x, c):
        buffer = self.buffers.setdefault(tuple(x.shape), torch.empty_like(x))
        buffer[...] = -c * torch.sin(x)
        return buffer


class OneBufferInNumpy(OneBuffer):
    def rhs(self, t, x, c):
        buffer = self.buffers.setdefault(tuple(x.shape), np.empty(x.shape))
        buffer[...] = -c.numpy() * np.sin(x.numpy())
        return buffer


class Counts(Pair):
    calls = 0

    def rhs(self, t, x, c):
        self.calls += 1
        return -c * torch.sin(x) / self.calls


class Relay(Pair):
    """Is on until x falls below -1, and off until it rises above 2."""

    on = True

    def rhs(self, t, x, c):
        lowest, highest = float(x.min()), float(x.max())
        self.on = (self.on or highest > 2) and lowest > -1
        return -c * torch.sin(x) * (1.0 if self.on else 0.5)


class Noisy(Pair):
    def rhs(self, t, x, c):
        return -c * torch.sin(x) + 0.01 * torch.randn(x.shape)


@pytest.mark.parametrize("kind", [OneBuffer, OneBufferInNumpy, Counts, Relay, Noisy])
@pytest.mark.parametrize("values", [1.5, [0.5, 1.5]])
def test_a_right_hand_side_that_remembers_is_refused(kind, values):
    refused(f"{kind.__name__}.rhs", romkit.simulate, kind(), duration=0.2, b=values)


class HalfRate(Pair):
    def rhs(self, t, x, c):
        return (-c * torch.sin(x)).half()


def test_a_rate_of_half_precision_is_refused():
    refused("field", romkit.simulate, HalfRate(), duration=0.2, b=1.0)


class Complex(Pair):
    """An inverse transform whose imaginary part is rounding, or is not."""

    def __init__(self, as_array):
        self.as_array = as_array

    def rhs(self, t, x, c):
        rate = torch.fft.ifft(torch.fft.fft(x)) * -1j
        return rate.numpy() if self.as_array else rate


@pytest.mark.parametrize("as_array", [False, True])
def test_complex_rates_of_real_states_are_refused(as_array):
    refused("Complex.rhs", romkit.simulate, Complex(as_array), b=1.0)


@pytest.mark.parametrize("name", ["duration", "dt", "engine", "start"])
def test_a_parameter_may_be_called_like_an_argument(name):
    class Named(Pair):
        context = (ContextParameter(name, "1", 0.5, 2.0, "rate"),)

    data = Named().dataset(context={name: [1.0, 2.0]})
    assert data[name].values.tolist() == [1.0, 2.0]
    branch = romkit.continuation(Named(), start=[0.0, 0.0], context={name: (0.5, 2.0)}, points=3)
    assert branch.attrs["parameter"] == name
    assert float(branch[name][0]) == 0.5
