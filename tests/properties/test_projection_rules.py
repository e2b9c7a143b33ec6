"""The rules of projections over random shapes, contexts and parameters, in float64."""

import copy
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import romkit
from romkit.projections import CAE, METHODS, POD, Frame, NcAE, architecture, stack, unstack
from romkit.projections.activations import inverse_pair
from romkit.testing import check_projection
from romkit.testing.projections import IDEMPOTENT_RULES, RULES, probe
from tests.refusals import refused

shapes = st.tuples(st.integers(1, 4), st.integers(0, 9), st.integers(1, 3), st.integers(0, 10_000))


def make(method, shape, *, perturb=0.3, basis=None):
    """A projection of random size, or behind a basis, whose parameters are away from their
    symmetric start.
    """
    m, extra, p, seed = shape
    n = m + extra if basis is None else basis.size
    names, context = tuple(f"x{k}" for k in range(n)), tuple(f"c{k}" for k in range(p))
    frame = Frame("", names, ("1",) * n, context, ("1",) * p, basis=basis)
    frame.state_shift, frame.state_scale = (
        torch.linspace(-1, 1, m + extra),
        torch.linspace(0.5, 2, m + extra),
    )
    frame.context_shift, frame.context_scale = torch.linspace(0, 3, p), torch.linspace(0.1, 2, p)
    kind, generator = METHODS[method], torch.Generator().manual_seed(seed)
    model = kind(frame, generator, **architecture(kind, frame, latent_dim=m))
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += perturb * (torch.rand(parameter.shape, generator=generator) - 0.5)
    return model


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=3)
@given(shape=shapes, spread=st.sampled_from([1.0, 10.0]))
def test_contract_at_random_shapes_and_contexts(method, shape, spread):
    assume(
        method != "flow" or shape[1] > 0
    )  # its couplings move what is beside the latent components
    check_projection(make(method, shape), spreads=(spread,))


@pytest.mark.parametrize("method", METHODS)
def test_contract_after_training(method, lorenz_data):
    model = romkit.fit(method, lorenz_data, epochs=2, learning_rate=1e-2)
    check_projection(model, spreads=(1.0, 100.0))


@pytest.mark.parametrize("method", ["ae", "context-ae", "film-ae", "context-cae", "soft-ncae"])
def test_the_rules_can_fail(method):
    points = probe(make(method, (2, 5, 2, 7)))
    for rule in IDEMPOTENT_RULES:
        with pytest.raises(AssertionError):
            rule(points)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_wrong_tangent_or_batch_is_caught(rule, monkeypatch):
    points = probe(make("ncae", (2, 5, 2, 7)))
    maps = points.operator._maps
    right = maps.decode_jvp
    monkeypatch.setattr(maps, "decode_jvp", lambda z, w: right(z, 1.001 * w))
    monkeypatch.setattr(
        points.operator,
        "decode",
        lambda z: 1.001 * type(points.operator).decode(points.operator, z),
    )
    with pytest.raises(AssertionError):
        rule(points)


@settings(max_examples=20)
@given(alpha=st.floats(-0.78, 0.78), x=st.floats(-50, 50))
def test_activations_invert_each_other(alpha, x):
    minus, plus = inverse_pair(torch.tensor([alpha], dtype=torch.float64))
    x = torch.tensor([x], dtype=torch.float64)
    for outer, inner in ((minus, plus), (plus, minus)):
        assert torch.allclose(outer(inner(x)), x, rtol=1e-8, atol=1e-8)


@settings(max_examples=20)
@given(alpha=st.floats(0.01, 0.77), x=st.floats(-5, 5))
def test_activations_equal_the_textbook_form(alpha, x):
    """Adriaens et al. (2026), appendix "Activation functions"."""
    minus, plus = inverse_pair(torch.tensor([alpha], dtype=torch.float64))
    csc2, sec2 = 1 / math.sin(alpha) ** 2, 1 / math.cos(alpha) ** 2
    a, b = csc2 - sec2, csc2 + sec2
    for sign, sigma in ((1, plus), (-1, minus)):
        root = math.sqrt(
            (2 * x / (math.sin(alpha) * math.cos(alpha)) - sign * 2**0.5 / math.cos(alpha)) ** 2
            + 2 * a
        )
        expected = b * x / a - sign * 2**0.5 / (a * math.sin(alpha)) + sign * root / a
        got = sigma(torch.tensor([x], dtype=torch.float64)).item()
        assert got == pytest.approx(expected, rel=1e-8, abs=1e-8)
    for identity in inverse_pair(torch.zeros(1, dtype=torch.float64)):
        assert identity(torch.tensor([x], dtype=torch.float64)).item() == x


@settings(max_examples=8)
@given(shape=shapes, spread=st.floats(0.1, 1.0))
def test_weights_in_float32_are_biorthogonal_to_the_rounding_of_one_of_them(shape, spread):
    for weight in make("cae", shape, perturb=spread).weights:
        phi, psi = (w.detach().double() for w in weight())
        error = (psi.mT @ phi - torch.eye(phi.shape[-1])).abs()
        assert (error <= 2**-24 * (psi.abs().mT @ phi.abs()) + 1e-12).all()


@settings(max_examples=8)
@given(shape=shapes)
def test_ncae_without_modulation_is_a_cae(shape):
    ncae = make("ncae", shape)
    cae = CAE(ncae.frame, torch.Generator(), layers=ncae.config["layers"], slope=math.pi / 10)
    for own, other in zip(cae.weights, ncae.weights, strict=True):
        own.load_state_dict(other.state_dict())
    for own, other in zip(cae.biases, ncae.biases, strict=True):
        own.bias.data = other.bias.data
    for head in (*ncae.slopes, *ncae.biases):
        head.weight.data.zero_()
    points, plain = probe(ncae), probe(cae)
    assert torch.allclose(points.operator(points.x), plain.operator(points.x), atol=1e-12)


@settings(max_examples=8)
@given(shape=shapes)
def test_bandwidth_is_the_range_that_the_embedding_sees(shape):
    wide, plain = make("ncae", shape), make("ncae", shape)
    wide.embedding.bandwidth = 8.0
    plain.embedding.layers[0].weight.data *= 8
    a, b = probe(wide), probe(plain)
    assert torch.allclose(a.operator(a.x), b.operator(b.x), atol=1e-12)


@settings(max_examples=8)
@given(shape=shapes)
def test_cae_with_linear_activation_and_orthonormal_weights_is_pod(shape):
    pod = make("pod", shape)
    cae = CAE(pod.frame, torch.Generator(), layers=(shape[0], shape[0] + shape[1]), slope=0.0)
    cae.weights[0].phi.data, cae.weights[0].psi.data = (
        pod.modes.data.clone(),
        pod.modes.data.clone(),
    )
    points, plain = probe(cae), probe(pod)
    # POD's modes are orthonormal to float32 only, and the two restore ρ ∘ φ = id in float64 on
    # different sides.
    assert torch.allclose(points.operator(points.x), plain.operator(points.x), atol=1e-5)


@settings(max_examples=8)
@given(shape=shapes)
def test_learned_manifolds_of_two_contexts_are_diffeomorphic(shape):
    """φ_b ∘ ρ_a maps the manifold of a to that of b, with inverse φ_a ∘ ρ_b (paper, proposition
    3.2).
    """
    points = probe(make("ncae", shape))
    a, b = points.projection(points.c), points.projection(points.c.flip(0))
    on_a = a(points.x)
    on_b = b.decode(a.encode(on_a))
    assert torch.allclose(b(on_b), on_b, atol=1e-9)
    assert torch.allclose(a.decode(b.encode(on_b)), on_a, atol=1e-9)


@settings(max_examples=4)
@given(shape=shapes, scale=st.floats(1e-4, 1.0))
def test_the_manifold_moves_at_most_lipschitz_with_the_context(shape, scale):
    """‖φ_c(z) - φ_{c+δ}(z)‖ ≤ sup ‖∂φ/∂c‖ ‖δ‖ along the segment (paper, proposition 3.3)."""
    points = probe(make("ncae", shape), batch=4)
    z, delta = points.operator.encode(points.x), scale * torch.ones_like(points.c)
    moved = (points.projection(points.c + delta).decode(z) - points.operator.decode(z)).norm(dim=-1)

    t = torch.linspace(0, 1, 41, dtype=torch.float64).reshape(-1, 1, 1)

    def along(t):
        return points.projection(points.c + t * delta).decode(z.expand(len(t), *z.shape))

    _, velocities = torch.func.jvp(along, (t,), (torch.ones_like(t),))  # (41, N, n)
    bound = velocities.norm(dim=-1).amax(0)
    assert bool((moved <= bound * 1.01 + 1e-12).all())


def test_a_stack_has_one_scaling_and_gives_back_its_members(lorenz_data):
    models = [make("ncae", (2, 4, 2, seed)) for seed in range(3)]
    for model, back in zip(models, unstack(stack(models)), strict=True):
        assert all(
            torch.equal(a, b) for a, b in zip(model.parameters(), back.parameters(), strict=True)
        )
    model = romkit.fit("pod", lorenz_data, latent_dim=2)
    shifted = romkit.fit("pod", lorenz_data.assign(state=lorenz_data.state + 1), latent_dim=2)
    for other in (shifted, copy.deepcopy(model).float()):
        refused("models", stack, [model, other])
    refused("models", stack, [stack([model])])
    F = 1e-60 * lorenz_data.F.drop_attrs()
    for data in (
        lorenz_data.assign(state=1e-60 * lorenz_data.state),
        lorenz_data.assign(state=1e-200 * lorenz_data.state),
        lorenz_data.assign_coords(F=F),
    ):
        refused("float32 can hold, got smaller ones", romkit.fit, "ncae", data, epochs=1)


def test_pod_is_the_best_linear_projection(lorenz_data):
    pod = romkit.fit("pod", lorenz_data, latent_dim=4).double()
    x = torch.from_numpy(lorenz_data["state"].values.reshape(-1, 36))
    error = (pod(F=3.15)(x) - x).square().sum()
    tail = torch.linalg.svdvals(x - x.mean(0))[4:].square().sum()  # Eckart-Young
    assert error.item() == pytest.approx(tail.item(), rel=1e-5)
    assert isinstance(pod, POD)
    assert isinstance(make("ncae", (1, 1, 1, 0)), NcAE)
