"""Certificates against what they bound: pairs of states and contexts, Jacobians, and norms that are
known.
"""

import itertools
import math
import sys

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import romkit
from romkit.broadcast import align
from romkit.certificates.certify import product
from romkit.certificates.links import Block, Links, Units, links
from romkit.certificates.lipsdp import lipsdp
from romkit.certificates.network import network
from romkit.certificates.ranges import Range
from romkit.errors import InputError
from romkit.projections import CAE, EncoderDecoder, Flow, unstack
from romkit.projections.activations import inverse_pair
from romkit.testing.projections import probe
from tests.properties.test_projection_rules import make
from tests.refusals import refused

MAPS = ("encoder", "decoder", "projection")
CERTIFIED = ("ncae", "cae", "film-ae", "ae", "flow")


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Bounds that are not the best are bounds."""
    # the function hides its module
    bounds = sys.modules["romkit.certificates.certify"]
    monkeypatch.setattr(bounds, "BALANCING", 30)
    monkeypatch.setattr(bounds, "STEPS", 2)
    monkeypatch.setattr(bounds, "POINTS", 4)


def single(method, shape):
    """A small model, and a state and a context that are nothing special."""
    model = make(method, shape)
    if method == "flow":
        sizes = {"latent_dim": shape[0], "units": (5, (4, 3), 5), "embedding": (shape[2], 4, 4)}
        model = Flow(model.frame, torch.Generator().manual_seed(shape[3]), **sizes)
        for parameter in model.couplings.parameters():
            parameter.data += 0.3 * torch.sin(torch.arange(float(parameter.numel()))).reshape(
                parameter.shape
            )
    points = probe(model)
    return points.projection.requires_grad_(False), points.x[0], points.c[0]


def of(model, which):
    """A map of a state, or of a latent state, and a context."""
    return {
        "encoder": lambda x, c: model.operator(c).encode(x),
        "decoder": lambda z, c: model.operator(c).decode(z),
        "projection": lambda x, c: model.operator(c)(x),
    }[which]


def ball(center, radius, lead, draw):
    directions = torch.randn(*lead, len(center), generator=draw, dtype=torch.float64)
    lengths = radius * torch.rand(*lead, 1, generator=draw, dtype=torch.float64) ** (
        1 / max(len(center), 1)
    )
    return center + lengths * directions / directions.norm(dim=-1, keepdim=True)


TRACED = [("ncae", "encoder"), ("ncae", "decoder"), *((each, "projection") for each in CERTIFIED)]


@pytest.mark.parametrize(("method", "which"), TRACED)
def test_a_trace_holds_values_and_derivatives(method, which):
    model, x, c = single(method, (2, 3, 2, 7))
    map_, x = of(model, which), model(c).encode(x) if which == "decoder" else x
    for radius in (1e-9, 0.02):
        units = Units((x, c), (radius, radius))
        output = network(map_, units)
        assert torch.allclose(output.value, map_(x, c), atol=1e-12)
        draw = torch.Generator().manual_seed(1)
        for near, at in zip(ball(x, radius, (5,), draw), ball(c, radius, (5,), draw), strict=True):
            J = torch.cat(torch.func.jacrev(map_, argnums=(0, 1))(near, at), 1)
            assert bool(((J - output.middle).abs() <= output.spread + 1e-7).all())
            assert bool(((map_(near, at) - output.value).abs() <= output.reach + 1e-12).all())
        assert float(output.spread.max()) < 1e4 * radius
        exact = [
            torch.linalg.matrix_norm(J, 2).item()
            for J in torch.func.jacrev(map_, argnums=(0, 1))(x, c)
        ]
        assert all(links(units, output, k).enclosure >= exact[k] * (1 - 1e-9) for k in (0, 1))


FUNCTIONS = {
    "relu": lambda x, y: torch.relu(x + y),
    "leaky": lambda x, y: (
        torch.nn.functional.leaky_relu(x * y, 0.1) - torch.nn.functional.leaky_relu(y, 3.0)
    ),
    "silu": lambda x, y: torch.nn.functional.silu(x) * y,
    "softplus": lambda x, y: torch.nn.functional.softplus(x - y),
    "gelu": lambda x, y: torch.nn.functional.gelu(x) - y.abs(),
    "hyperbola": lambda x, y: inverse_pair(0.3 + 0.2 * torch.sigmoid(y))[1](x),
    "cancels": lambda x, y: (lambda pair: pair[1](pair[0](x)))(
        inverse_pair(0.3 + 0.2 * torch.sigmoid(y))
    ),
    "waves": lambda x, y: x.sin() * y.cos() + (1 + x**2).log() - x.clamp(-1, 2),
    "powers": lambda x, y: (1 + x**2 + y**4).rsqrt() + (x * y.exp()).tanh() / (2 + y.sin()) + x**3,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=6)
@given(x=st.floats(-4, 3), y=st.floats(-3, 2), width=st.floats(1e-3, 2))
def test_derivatives_stay_in_their_ranges(name, x, y, width):
    center, at = torch.tensor([x], dtype=torch.float64), torch.tensor([y], dtype=torch.float64)
    units = Units((center, at), (width, width / 2))
    output = network(FUNCTIONS[name], units)
    draw = torch.Generator().manual_seed(0)
    a, b = (2 * torch.rand(2, 2000, generator=draw, dtype=torch.float64) - 1) * width
    points = center + a, at + b / 2
    slopes = [
        torch.func.jvp(
            FUNCTIONS[name], points, tuple(torch.full_like(a, float(j == k)) for j in (0, 1))
        )[1]
        for k in (0, 1)
    ]
    found = torch.stack(slopes, -1)
    assert bool(((found - output.middle).abs() <= output.spread + 1e-9).all())
    assert bool(((FUNCTIONS[name](*points) - output.value).abs() <= output.reach + 1e-9).all())
    if name == "cancels":
        assert (
            float(output.spread.max()) < 0.05
        )  # of a slope of one; cut more finely it would be smaller


@pytest.mark.parametrize(
    ("method", "radius", "context_radius"),
    [
        ("ncae", 0.2, 0.02),
        ("ncae", math.inf, 0.0),
        ("film-ae", 0.2, 0.1),
        ("ae", math.inf, 0.1),
        ("flow", 0.02, 0.01),
    ],
)
def test_no_pair_of_states_and_contexts_exceeds_a_certificate(method, radius, context_radius):
    model, x, c = single(method, (2, 2, 1, 3))
    x = model(c)(x)
    found = romkit.certify(model, c, center=x, radius=radius, context_radius=context_radius)
    draw = torch.Generator().manual_seed(1)
    for which in MAPS:
        row, middle = found.sel(map=which), model(c).encode(x) if which == "decoder" else x
        a, b = ball(middle, min(float(row.radius), 5.0), (2, 2_000), draw)
        at, there = (
            ball(c, context_radius, (2, 2_000), draw) if context_radius else c.expand(2, 2_000, 1)
        )
        moved = (of(model, which)(a, at) - of(model, which)(b, there)).norm(dim=-1)
        by_context = float(row.context_upper) if context_radius else 0.0
        bound = float(row.upper) * (a - b).norm(dim=-1) + by_context * (at - there).norm(dim=-1)
        assert bool((moved <= bound * (1 + 1e-9)).all())
        assert float(row.lower) * (1 - 1e-6) <= float(row.upper)
        assert not float(row.context_lower) * (1 - 1e-6) > float(row.context_upper)
        assert math.isfinite(row.context_upper) == math.isfinite(radius) or method == "ae"
    if (
        method == "ncae" and context_radius
    ):  # the manifold of another context is as near as certified
        on_manifold = model.operator(at)(ball(x, 0.05, (2_000,), draw))
        inside = (on_manifold - x).norm(dim=-1) <= radius
        distance = (model.operator(there)(on_manifold) - on_manifold).norm(dim=-1)[inside]
        share = distance / (at - there).norm(dim=-1)[inside] / by_context
        assert int(inside.sum()) > 200
        assert 0.2 < share.max().item() <= 1 + 1e-9


def test_bounds_of_small_balls_are_sharp():
    for method in ("cae", "film-ae"):
        model, x, c = single(method, (2, 2, 1, 3))
        found = romkit.certify(model, c, center=x, radius=1e-6)
        for name in ("upper", "context_upper"):
            lower = found[name.replace("upper", "lower")]
            assert found[name].values == pytest.approx(lower.values, rel=1e-3)


def test_a_linear_map_is_certified_exactly():
    model = make("cae", (2, 4, 1, 0))
    linear = CAE(model.frame, torch.Generator(), layers=model.config["layers"], slope=0.0)
    linear.load_state_dict(model.state_dict(), strict=False)
    for slope in linear.slopes:
        slope.alpha = 0.0
    points = probe(linear)
    found = romkit.certify(linear, points.c[0])
    exact = torch.linalg.matrix_norm(
        torch.func.jacfwd(points.projection(points.c[0]))(points.x[0]), 2
    ).item()
    assert float(found.upper.sel(map="projection")) == pytest.approx(exact, rel=1e-3)
    assert float(found.lower.sel(map="projection")) == pytest.approx(exact, rel=1e-9)
    assert not found.context_upper.any()


def largest_of_corners(net):
    """The largest norm of the derivative, which is affine in each gain, over all ends of all
    ranges.
    """
    ranges = [torch.stack([gain.low, gain.high]) for block in net.blocks for gain in block.gains]
    exact, sizes = 0.0, [gain.shape[1] for gain in ranges]
    for choice in itertools.product([0, 1], repeat=sum(sizes)):
        ends = torch.tensor(choice).split(sizes)
        gains = iter(
            [gain.gather(0, end.unsqueeze(0)).mT for gain, end in zip(ranges, ends, strict=True)]
        )
        units = torch.eye(net.size, dtype=torch.float64)
        for block in net.blocks:
            units = torch.cat(
                [units, sum(next(gains) * (matrix @ units) for matrix in block.matrices)]
            )
        exact = max(exact, torch.linalg.matrix_norm(net.last @ units, 2).item())
    return exact


@pytest.mark.parametrize("seed", range(2))
def test_the_semidefinite_bound_lies_between_the_corners_and_the_product(seed):
    draw = torch.Generator().manual_seed(seed)
    A, B, C = (
        torch.randn(*shape, generator=draw, dtype=torch.float64)
        for shape in ((4, 3), (4, 3), (2, 4))
    )
    low = torch.rand(2, 4, generator=draw, dtype=torch.float64)
    gains = tuple(
        Range(a, a + b) for a, b in zip(low, torch.rand(2, 4, generator=draw), strict=True)
    )
    last = torch.cat([torch.zeros(2, 3, dtype=torch.float64), C], 1)
    for number in (1, 2):  # of signals that a unit depends on
        block = Block((A, B)[:number], gains[:number], (A.norm(dim=1), B.norm(dim=1))[:number])
        net = Links(3, (block,), last, math.inf)
        exact = largest_of_corners(net)
        for guess in (exact, 1e3 * exact):
            bound = lipsdp(net, guess)
            assert exact <= bound <= product(net) * (1 + 1e-3)
            assert bound < 1.5 * exact


@pytest.mark.parametrize("times", [1.0, 1e5])
def test_the_semidefinite_bound_is_sharp_where_large_parts_cancel(times):
    """A second block sees by how much units of the first differ from their means, and that many
    times as large.
    """
    draw = torch.Generator().manual_seed(0)
    A, B = (torch.randn(3, 2, generator=draw, dtype=torch.float64) for _ in range(2))
    C = torch.randn(2, 8, generator=draw, dtype=torch.float64) * torch.tensor(
        [0, 0, *3 * [0], *3 * [1]]
    )
    middle, spread = (
        torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64),
        torch.tensor([1.0, 0.5, 0.3]).double() / times,
    )
    seen = times * torch.cat([-middle.unsqueeze(1) * A, torch.eye(3, dtype=torch.float64)], 1)
    seen[:, :2] += B
    first = Block((A,), (Range(middle - spread, middle + spread),), (A.norm(dim=1),))
    second = Block(
        (seen,), (Range(0.5 * middle, middle),), (B.norm(dim=1) + times * spread * A.norm(dim=1),)
    )
    net = Links(2, (first, second), C, math.inf)
    exact = largest_of_corners(net)
    assert exact <= lipsdp(net, exact) <= 1.2 * exact


def by_a_general_solver(net):
    """The same program in the units themselves, written down once more."""
    n, total = net.size, net.last.shape[1]
    gamma, multipliers = cvxpy.Variable(), cvxpy.Variable(total - n, nonneg=True)
    form, start = (
        gamma * np.diag((np.arange(total) < n) * 1.0) - (net.last.mT @ net.last).numpy(),
        n,
    )
    for block in net.blocks:
        off = np.eye(total)[start : start + len(block.sizes[0])]
        spreads = [gain.radius * size for gain, size in zip(block.gains, block.sizes, strict=True)]
        for matrix, gain, spread in zip(block.matrices, block.gains, spreads, strict=True):
            row = np.pad(matrix.numpy(), ((0, 0), (0, total - matrix.shape[1])))
            off = off - gain.middle.numpy()[:, None] * row
            far = (gain.radius * (sum(spreads) / spread).sqrt()).numpy()[:, None] * row
            form -= sum(multipliers[start - n + k] * np.outer(a, a) for k, a in enumerate(far))
        form += sum(multipliers[start - n + k] * np.outer(a, a) for k, a in enumerate(off))
        start += len(off)
    return (
        cvxpy.Problem(cvxpy.Minimize(gamma), [(form + form.T) / 2 >> 0]).solve(
            solver=cvxpy.CLARABEL
        )
        ** 0.5
    )


def test_the_semidefinite_bound_is_that_of_the_same_program_in_other_unknowns():
    model, x, c = single("ncae", (2, 2, 1, 3))
    units = Units((x, c), (0.2, 0.02))
    output = network(of(model, "projection"), units)
    for number in (0, 1):
        net = links(units, output, number)
        assert lipsdp(net, net.enclosure) == pytest.approx(by_a_general_solver(net), rel=0.02)


def test_the_bound_of_the_context_of_a_shipped_model():
    """Signals reach the units of Lorenz96's NcAE with weights of very different sizes."""
    model, radius = romkit.load("ncae-lorenz96").double().requires_grad_(False), 3e-5
    c, decoder = torch.tensor([3.171], dtype=torch.float64), of(model, "decoder")
    middle = model(c).encode(model.frame.state_shift)
    units = Units((middle, c), (70.0, radius))
    net = links(units, network(decoder, units), 1)
    near = ball(middle, 70.0, (2000,), torch.Generator().manual_seed(0))
    found = (decoder(near, c + radius) - decoder(near, c - radius)).norm(dim=-1).max().item() / (
        2 * radius
    )
    assert found <= lipsdp(net, net.enclosure) <= 2.2 * found


def test_what_cannot_be_certified(lorenz_data, monkeypatch):
    stack = romkit.fit("ncae", lorenz_data, epochs=1, seeds=[0, 1], engine="torch")
    refused("projection", romkit.certify, stack, F=3.15)
    flow, ncae = make("flow", (2, 4, 1, 0)), unstack(stack)[0]
    refused("radius", romkit.certify, flow, torch.zeros(1))
    refused("context", romkit.certify, ncae, torch.tensor([[3.14], [3.15]]))
    for more, fact in (
        ({"radius": 0.0}, "radius"),
        ({"context_radius": -1.0}, "context_radius"),
        ({"center": torch.zeros(3)}, "center"),
    ):
        refused(fact, romkit.certify, ncae, F=3.15, **more)
    model, x, c = single("ncae", (2, 2, 1, 3))
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    refused("certify", romkit.certify, model, c, center=x, radius=0.1)


def test_a_polynomial_manifold_has_bounds_on_a_ball_alone():
    """A polynomial of degree two stretches distances without bound."""
    data = romkit.systems.Lorenz96(n=6, transient=5.0, duration=1.0).dataset(F=[3.1, 3.15, 3.2])
    manifold = romkit.fit("polynomial-manifold", data, latent_dim=2, degree=2)
    everywhere = romkit.certify(manifold, F=3.15).upper
    assert math.isinf(everywhere.sel(map="decoder"))
    assert float(everywhere.sel(map="encoder")) < 10
    ball_bounds = romkit.certify(manifold, F=3.15, radius=1.0)
    assert np.isfinite(ball_bounds.upper.values).all()
    assert (ball_bounds.lower <= ball_bounds.upper).all()


def test_a_map_that_no_context_moves():
    """With as many latents as components P is the identity; differences by the context are zero or
    rounding.
    """
    model, x, c = single("ncae", (1, 0, 1, 0))
    found = romkit.certify(model, c, center=x, radius=0.5, context_radius=0.1).sel(map="projection")
    assert float(found.lower) == pytest.approx(1)
    assert float(found.context_lower) < 1e-6


class Bowl(EncoderDecoder):
    """A user's own maps: two latents on a paraboloid that the context bends."""

    def __init__(self, c, first):
        self.c, self.first = c, first

    def encode(self, y):
        return torch.tanh(y[..., :2])

    def decode(self, z):
        z = self.first(z)
        return torch.cat(
            [z, align(self.c, z).exp() * z.square().sum(-1, keepdim=True), z[..., :1].sin()], dim=-1
        )


def test_a_projection_of_a_users_own_is_certified(monkeypatch):
    model = make("cae", (2, 2, 1, 3))
    points = probe(model)
    x, c = points.x[0], points.c[0]
    monkeypatch.setattr(CAE, "at", lambda self, c: Bowl(c, lambda z: z))
    found = romkit.certify(points.projection, c, center=x, radius=0.5, context_radius=0.1)
    draw = torch.Generator().manual_seed(1)
    a, b = ball(x, 0.5, (2, 5000), draw)
    P = points.projection.double().operator(c)
    moved = (P(a) - P(b)).norm(dim=-1) / (a - b).norm(dim=-1)
    assert 0.3 * float(found.upper[2]) < moved.max().item() <= float(found.upper[2]) * (1 + 1e-9)
    monkeypatch.setattr(CAE, "at", lambda self, c: Bowl(c, lambda z: z.sort(-1).values))
    refused("projection", romkit.certify, points.projection, c, center=x, radius=0.5)


def scaled_in_place(z):
    z = z.clone()
    z[..., 0] *= 3
    return z


def by_its_value(z):
    return 2 * z if float(z.sum()) > 0 else z


class WrongBackward(torch.autograd.Function):
    """A map whose derivative torch is told wrongly, in the form that knows no forward mode."""

    @staticmethod
    def forward(ctx, z):
        return 3 * z

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class WrongForward(torch.autograd.Function):
    """A map whose derivative torch is told wrongly, in forward mode too."""

    @staticmethod
    def forward(z):
        return 0.5 * z

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return 9 * gradient

    @staticmethod
    def jvp(ctx, tangent):
        return 9 * tangent


def by_its_value_with_a_way_out(z):
    try:
        return 5 * z if float(z.sum()) > 0 else z
    except (RuntimeError, NotImplementedError):
        return z


def through_numpy(z):
    return torch.from_numpy(np.tanh(z.detach().numpy()))


def written_through_numpy(z):
    z = z.clone()
    z.detach().numpy()[..., 0] *= 3
    return z


def written_into_a_buffer(z):
    return torch.zeros_like(z).copy_(3 * z)


def with_a_constant_of_numpy(z):
    shift = torch.zeros(2, dtype=torch.float64)
    shift.numpy()[:] = 3.0
    return torch.tanh(z + shift)


def without_gradients(z):
    with torch.no_grad():
        slope = torch.sigmoid(z)
    return slope * z


class Counts:
    """A map that is another one at each call."""

    calls = 0

    def __call__(self, z):
        self.calls += 1
        return (1 + self.calls) * z


class Remembers:
    """A map that keeps the slopes of its first call."""

    slopes = None

    def __call__(self, z):
        if self.slopes is None:
            self.slopes = torch.full((2,), 2.0 if z.is_meta else 7.0, dtype=torch.float64)
        return self.slopes * z


HIDDEN = {
    "branch with a way out": by_its_value_with_a_way_out,
    "kind of input": lambda z: z if z.is_meta else 4 * z,
    "numpy": through_numpy,
    "written through numpy": written_through_numpy,
    "item": lambda z: z * z.abs().max().item(),
    "list": lambda z: torch.tensor(z.tolist(), dtype=torch.float64),
    "autograd function": WrongBackward.apply,
    "autograd function with jvp": WrongForward.apply,
    "calls": Counts(),
    "chosen by value": lambda z: z[..., z.argmax(-1).flatten()[0] : 2].repeat_interleave(2, -1),
    "random": lambda z: torch.nn.functional.dropout(z, 0.5),
    "mask": lambda z: torch.where(z > 0.1, 5 * z, z),
    "steps": lambda z: z.round(),
    "whole numbers": lambda z: (10 * z).to(torch.int64).to(z.dtype),
    "inner derivative": lambda z: torch.func.grad(lambda y: y.tanh().sum())(z),
    "buffer": written_into_a_buffer,
    "constant of numpy": with_a_constant_of_numpy,
    "without gradients": without_gradients,
    "detach": lambda z: z * z.detach(),
    "data": lambda z: z * torch.tanh(z.data),
    "no_grad": lambda z: z * z.detach().clone(),
    "branch": by_its_value,
    "root": lambda z: z.abs().sqrt(),
    "zero over zero": lambda z: z / z.norm(dim=-1, keepdim=True),
    "in place": scaled_in_place,
}


BOUNDED = {"in place", "without gradients", "buffer"}
"""Maps that are what they look like."""


@pytest.mark.parametrize("name", HIDDEN)
def test_a_map_is_bounded_or_refused(monkeypatch, name):
    """A bound is one of the map's values, whatever torch says about its derivative."""
    model = make("cae", (2, 2, 1, 3))
    points = probe(model)
    c = points.c[0]
    monkeypatch.setattr(CAE, "at", lambda self, c: Bowl(c, HIDDEN[name]))
    found = refusal = None
    try:
        found = romkit.certify(points.projection, c, center=[0.0] * 4, radius=0.5)
    except InputError as error:
        refusal = error
    if refusal is not None:
        assert refusal.argument == "projection"
        assert "\n" not in str(refusal)
        assert name not in BOUNDED
        return
    assert name in BOUNDED
    draw = torch.Generator().manual_seed(1)
    a, b = ball(torch.zeros(4, dtype=torch.float64), 0.5, (2, 2000), draw)
    P = points.projection.double().operator(c)
    moved = (P(a) - P(b)).norm(dim=-1) / (a - b).norm(dim=-1)
    assert moved.max().item() <= float(found.upper[2]) * (1 + 1e-9)
