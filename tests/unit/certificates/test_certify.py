"""Certificates against what they bound: pairs of states, Jacobians, and norms that are known."""

import itertools
import math
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import romkit
from romkit.certificates.bounds import Slopes, product, slopes
from romkit.certificates.chain import Chain, Layer, Linear, chain, slope_range
from romkit.certificates.lipsdp import lipsdp
from romkit.errors import InputError
from romkit.projections import CAE, unstack
from romkit.projections.activations import ReLU, SiLU, inverse_pair
from romkit.testing.projections import probe
from tests.properties.test_projection_laws import make

MAPS = ("encoder", "decoder", "projection")
CERTIFIED = ("ncae", "cae", "soft-ncae", "film-ae", "ae")


def links(points, which):
    normalization = points.projection.normalization
    maps = points.projection.at(normalization.normalise_context(points.c[0]))
    return chain(maps, which, normalization.state_shift, normalization.state_scale)


@pytest.mark.parametrize("method", CERTIFIED)
def test_a_chain_is_the_map_it_is_made_of(method):
    points = probe(make(method, (2, 5, 2, 7)))
    P = points.projection(points.c[0])
    inputs = {"encoder": points.x, "decoder": P.encode(points.x), "projection": points.x}
    maps = {"encoder": P.encode, "decoder": P.decode, "projection": P}
    for name in MAPS:
        value, J = links(points, name).value_and_jacobian(inputs[name])
        assert torch.allclose(value, maps[name](inputs[name]), atol=1e-10)
        oracle = torch.stack([torch.func.jacfwd(maps[name])(x) for x in inputs[name]])
        assert torch.allclose(J, oracle, atol=1e-9)


@pytest.mark.parametrize("activation", [*inverse_pair(torch.tensor([0.4], dtype=torch.float64)), ReLU(), SiLU()])
@settings(max_examples=30)
@given(low=st.floats(-6, 6), width=st.floats(0, 8))
def test_slopes_stay_in_their_range(activation, low, width):
    low, high = (torch.tensor([x], dtype=torch.float64) for x in (low, low + width))
    a, b = slope_range(activation, low, high)
    slope = activation.value_and_slope(torch.linspace(low.item(), high.item(), 400, dtype=torch.float64))[1]
    assert bool((slope >= a - 1e-12).all())
    assert bool((slope <= b + 1e-12).all())
    assert a.item() == pytest.approx(slope.min().item(), abs=1e-3)
    assert b.item() == pytest.approx(slope.max().item(), abs=1e-3)


@pytest.mark.parametrize(("method", "radius"), [("ncae", 0.2), ("ncae", math.inf), ("film-ae", 0.2), ("ae", math.inf)])
def test_no_pair_of_states_exceeds_a_certificate(method, radius):
    points = probe(make(method, (2, 4, 1, 3)))
    center = points.projection.normalization.state_shift
    found = romkit.certify(points.projection, points.c[0], radius=radius)
    P, draw = points.projection(points.c[0]), torch.Generator().manual_seed(1)
    for name, function, middle in (
        ("encoder", P.encode, center),
        ("decoder", P.decode, P.encode(center)),
        ("projection", P, center),
    ):
        row, size = found.sel(map=name), len(middle)
        reach = min(float(row.radius), 5.0)
        directions = torch.randn(2, 2000, size, generator=draw, dtype=torch.float64)
        lengths = reach * torch.rand(2, 2000, 1, generator=draw, dtype=torch.float64) ** (1 / size)
        a, b = middle + lengths * directions / directions.norm(dim=-1, keepdim=True)
        ratios = (function(a) - function(b)).norm(dim=-1) / (a - b).norm(dim=-1)
        assert ratios.max().item() <= float(row.upper)
        assert float(row.lower) * (1 - 1e-12) <= float(row.upper) <= float(row["product"])


def test_a_linear_map_is_certified_exactly():
    model = make("cae", (2, 4, 1, 0))
    linear = CAE(model.normalization, torch.Generator(), layers=model.config["layers"], slope=0.0)
    linear.load_state_dict(model.state_dict(), strict=False)
    for slope in linear.slopes:
        slope.alpha = 0.0
    points = probe(linear)
    found = romkit.certify(linear, points.c[0])
    exact = torch.linalg.matrix_norm(torch.func.jacfwd(points.projection(points.c[0]))(points.x[0]), 2).item()
    assert float(found.upper.sel(map="projection")) == pytest.approx(exact, rel=1e-3)
    assert float(found.lower.sel(map="projection")) == pytest.approx(exact, rel=1e-9)


@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_the_semidefinite_bound_lies_between_the_corners_and_the_product(seed):
    draw = torch.Generator().manual_seed(seed)
    A, C = (torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in ((4, 3), (2, 4)))
    low = torch.rand(4, generator=draw, dtype=torch.float64)
    ranges = [Slopes(low, low + torch.rand(4, generator=draw, dtype=torch.float64))]
    zeros = torch.zeros(4, dtype=torch.float64)
    net = Chain((Layer(A, zeros, SiLU()),), Linear(C, zeros[:2]))
    corners = [torch.where(torch.tensor(choice), *ranges[0]) for choice in itertools.product([False, True], repeat=4)]
    exact = max(torch.linalg.matrix_norm(C @ torch.diag(slope) @ A, 2).item() for slope in corners)
    bound = lipsdp(net, ranges, 1.0)
    assert exact <= bound <= product(net, ranges) * (1 + 1e-6)


def test_slope_intervals_of_a_ball_hold_in_it_and_shrink_with_it():
    points = probe(make("ncae", (3, 6, 1, 5)))
    points.projection.requires_grad_(False)
    net, center = links(points, "projection"), points.x[0]
    widths = []
    for radius in (1.0, 0.1, 0.01):
        ranges = slopes(net, center, radius)
        direction = torch.randn(500, len(center), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        x = center + radius * direction / direction.norm(dim=1, keepdim=True)
        for layer, (low, high) in zip(net.layers, ranges, strict=True):
            x, slope = layer.activation.value_and_slope(x @ layer.matrix.mT + layer.bias)
            assert bool(((slope >= low - 1e-12) & (slope <= high + 1e-12)).all())
        widths.append(sum(float((high - low).sum()) for low, high in ranges))
    assert widths[0] > 3 * widths[1] > 9 * widths[2]


def test_what_cannot_be_certified(lorenz_data, monkeypatch):
    stack = romkit.fit("ncae", lorenz_data, epochs=1, seeds=[0, 1], engine="torch")
    with pytest.raises(InputError, match="projection: expected a single model"):
        romkit.certify(stack, F=3.15)
    flow, ncae = make("flow", (2, 4, 1, 0)), unstack(stack)[0]
    with pytest.raises(InputError, match="a chain of layers at one context"):
        romkit.certify(flow, torch.zeros(1))
    with pytest.raises(InputError, match="at one context"):
        romkit.certify(ncae, F=[3.14, 3.15])
    with pytest.raises(InputError, match="radius: expected a positive number"):
        romkit.certify(ncae, F=3.15, radius=0.0)
    with pytest.raises(InputError, match="center: expected shape"):
        romkit.certify(ncae, F=3.15, center=torch.zeros(3))
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(InputError, match=r"romkit\[certify\]"):
        romkit.certify(ncae, F=3.15)
