"""The biorthogonal manifold: its geometry, and geoopt's optimizers on it."""

import copy
import itertools
import pickle
import re

import geoopt
import numpy as np
import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from benchmarks.optimizers.geometry import Cayley, InvariantMetric
from romkit.projections.geometry import EuclideanMetric, Fractional
from romkit.projections.manifold import BiorthogonalManifold
from tests.refusals import refused

METRICS = (EuclideanMetric(), InvariantMetric())
RETRACTIONS = (Fractional(), Cayley())
MANIFOLDS = [BiorthogonalManifold(*choice) for choice in itertools.product(METRICS, RETRACTIONS)]

every_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda m: type(m).__name__)
every_retraction = pytest.mark.parametrize(
    "retraction", RETRACTIONS, ids=lambda r: type(r).__name__
)
every_manifold = pytest.mark.parametrize("manifold", MANIFOLDS, ids=lambda m: m.extra_repr())
shapes = st.tuples(st.integers(0, 4), st.integers(1, 5), st.integers(0, 6), st.integers(0, 10_000))


def draw(shape, *, dtype=torch.float64):
    """A batch of points, and a source of vectors of the same shape."""
    batch, r, extra, seed = shape
    generator = torch.Generator().manual_seed(seed)
    size = (batch, 2 * (r + extra), r) if batch else (2 * (r + extra), r)
    point = BiorthogonalManifold().random(*size, dtype=dtype, generator=generator).data
    # Absolute tolerances below are for points where rounding is not magnified.
    if torch.linalg.cond(torch.stack(point.chunk(2, -2)).double()).max() > 50:
        reject()
    return point, lambda: torch.randn(size, dtype=torch.float64, generator=generator).to(dtype)


def infeasibility(x):
    phi, psi = x.double().chunk(2, -2)
    return (psi.mT @ phi - torch.eye(x.shape[-1], dtype=torch.float64)).abs().max().item()


def change_basis(x, a):
    """(Φ, Ψ) -> (Φ A, Ψ A⁻ᵀ)."""
    upper, lower = x.chunk(2, -2)
    return torch.cat([upper @ a, lower @ torch.linalg.inv(a).mT], -2)


def slope(steps, errors):
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


@every_metric
@settings(max_examples=8)
@given(shape=shapes)
def test_projection_is_tangent_idempotent_and_orthogonal_in_its_metric(metric, shape):
    manifold = BiorthogonalManifold(metric)
    x, vector = draw(shape)
    u, v = vector(), manifold.proju(x, vector())
    projected = manifold.proju(x, u)
    assert manifold.check_vector_on_tangent(x, projected, atol=1e-11, rtol=1e-11)
    assert torch.allclose(manifold.proju(x, projected), projected, atol=1e-11)
    assert manifold.inner(x, u - projected, v).abs().max() < 1e-10


@every_metric
@settings(max_examples=8)
@given(shape=shapes)
def test_gradient_represents_the_derivative(metric, shape):
    manifold = BiorthogonalManifold(metric)
    x, vector = draw(shape)
    g, v = vector(), manifold.proju(x, vector())
    gradient = manifold.egrad2rgrad(x, g)
    assert manifold.check_vector_on_tangent(x, gradient, atol=1e-11, rtol=1e-11)
    assert torch.allclose(manifold.inner(x, gradient, v), (g * v).sum((-2, -1)), atol=1e-10)


@pytest.mark.parametrize("condition", [1.0, 10.0, 100.0])
def test_euclidean_projection_is_least_squares(condition):
    """Against a pseudo-inverse of the constraint's Jacobian, at points of growing condition number."""
    x, vector = draw((0, 3, 4, 1))
    x = change_basis(
        x, torch.diag(torch.tensor([condition**0.5, 1.0, condition**-0.5], dtype=torch.float64))
    )
    jacobian = torch.func.jacrev(lambda y: y.chunk(2, -2)[1].mT @ y.chunk(2, -2)[0])(x).reshape(
        9, -1
    )
    u = vector()
    expected = u.flatten() - torch.linalg.pinv(jacobian) @ (jacobian @ u.flatten())
    assert torch.allclose(
        BiorthogonalManifold().proju(x, u).flatten(), expected, atol=1e-12 * condition
    )


def test_only_the_invariant_metric_is_invariant():
    x, vector = draw((3, 3, 4, 5))
    a = torch.randn(
        3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ) + 2 * torch.eye(3)
    u, g = vector(), vector()
    moved = [change_basis(t, a) for t in (x, u)]
    # A gradient is a covector: it goes the other way, so that Σ g u is the same number in both
    # bases.
    moved_g = change_basis(g, torch.linalg.inv(a).mT)
    ratios = []
    for metric in METRICS:
        manifold = BiorthogonalManifold(metric)
        before, after = (
            manifold.norm(x, manifold.proju(x, u)),
            manifold.norm(moved[0], manifold.proju(*moved)),
        )
        ratios.append((after / before - 1).abs().max().item())
    assert ratios[1] < 1e-12 < 1e-2 < ratios[0]
    step, moved_step = manifold.egrad2rgrad(x, g), manifold.egrad2rgrad(moved[0], moved_g)
    assert torch.allclose(change_basis(step, a), moved_step, rtol=1e-10, atol=1e-10)


def dense_group(x, u):
    """Ω with Ω Φ = X and -Ωᵀ Ψ = Y, from its definition with n × n matrices."""
    (phi, psi), (dphi, dpsi) = x.chunk(2, -2), u.chunk(2, -2)
    return (dphi - phi @ (psi.mT @ dphi)) @ psi.mT - phi @ dpsi.mT


def act(g, x):
    return torch.cat([g @ x.chunk(2, -2)[0], torch.linalg.inv(g).mT @ x.chunk(2, -2)[1]], -2)


def test_cayley_moves_by_a_group_element_that_matches_the_exponential_to_second_order_and_is_reversible():
    manifold = BiorthogonalManifold(retraction=Cayley())
    x, vector = draw((3, 3, 4, 2))
    u, v = (manifold.proju(x, vector()) for _ in range(2))
    omega, eye = dense_group(x, u), torch.eye(7, dtype=torch.float64)
    g = torch.linalg.solve(eye - 0.05 * omega, eye + 0.05 * omega)
    y, w = manifold.retr_transp(x, 0.1 * u, v)
    assert torch.allclose(y, act(g, x), atol=1e-12)
    assert torch.allclose(w, act(g, v), atol=1e-12)
    steps = np.logspace(-2.5, -1, 7)
    errors = [
        (manifold.retr(x, t * u) - act(torch.linalg.matrix_exp(t * omega), x)).norm().item()
        for t in steps.tolist()
    ]
    assert slope(steps, errors) == pytest.approx(3, abs=0.05)
    end, back = manifold.retr_transp(x, 0.3 * u, 0.3 * u)
    assert torch.allclose(manifold.retr(end, -back), x, atol=1e-12)


@every_manifold
def test_retraction_is_first_order_and_points_of_a_batch_stay_apart(manifold):
    """‖R(t u) - (x + t u)‖ = O(t²)."""
    x, vector = draw((3, 3, 4, 2))
    u, v = (manifold.proju(x, vector()) for _ in range(2))
    steps = np.logspace(-3, -1, 7)
    errors = [(manifold.retr(x, t * u) - x - t * u).norm().item() for t in steps]
    assert slope(steps, errors) == pytest.approx(2, abs=0.05)
    inner = manifold.inner(x, u, v)
    assert inner.shape == manifold.inner(x[0], u, v).shape == (3,)
    assert (
        manifold.inner(x, u, keepdim=True).shape
        == manifold.component_inner(x, u).shape
        == (3, 1, 1)
    )
    assert torch.allclose(inner[2], manifold.inner(x[2], u[2], v[2]))


@every_manifold
@settings(max_examples=8)
@given(shape=shapes)
def test_transport_is_tangent_and_agrees_with_the_retraction(manifold, shape):
    x, vector = draw(shape)
    u, v = (manifold.proju(x, 0.1 * vector()) for _ in range(2))
    y, w = manifold.retr_transp(x, u, v)
    assert manifold.check_vector_on_tangent(y, w, atol=1e-10, rtol=1e-10)
    assert torch.equal(y, manifold.retr(x, u))
    assert torch.equal(y, manifold.expmap(x, u))
    assert torch.equal(w, manifold.transp_follow_retr(x, u, v))
    assert torch.equal(w, manifold.transp_follow_expmap(x, u, v))
    assert torch.equal(w, manifold.expmap_transp(x, u, v)[1])
    assert manifold.check_vector_on_tangent(y, manifold.transp(x, y, v), atol=1e-10, rtol=1e-10)


@every_retraction
@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 1e-6), (torch.float64, 1e-12)], ids=str
)
def test_many_steps_stay_on_the_manifold(retraction, dtype, bound):
    manifold = BiorthogonalManifold(InvariantMetric(), retraction)
    x, vector = draw((4, 3, 5, 0), dtype=dtype)
    for _ in range(500):
        x = manifold.retr(x, manifold.proju(x, 3e-3 * vector()))
    assert infeasibility(x) < bound
    # not tangent: RiemannianSGD of geoopt 0.5.1 starts its momentum from the Euclidean gradient
    assert infeasibility(manifold.retr(x, 0.1 * vector())) < bound


@settings(max_examples=8)
@given(shape=shapes, scale=st.floats(-3, 3))
def test_any_pair_of_full_rank_is_projected(shape, scale):
    """Also one whose oblique projector does not exist."""
    manifold, eye = BiorthogonalManifold(), torch.eye(6, 2, dtype=torch.float64)
    _, vector = draw(shape)
    x = manifold.projx(10**scale * vector())
    assert manifold.check_point_on_manifold(x, atol=1e-8, rtol=1e-8)
    assert torch.equal(manifold.projx(x), x)
    for phi, psi in (
        (eye, eye.flip(0)),
        (eye, -eye),
        (eye, eye.roll(1, 0)),
        (1e3 * eye, 1e-3 * eye.flip(0)),
    ):
        x = manifold.projx(torch.cat([phi, psi], -2))
        assert manifold.check_point_on_manifold(x, atol=1e-12, rtol=1e-12)


def test_random_points_and_the_origin():
    manifold, seeded = BiorthogonalManifold(), lambda: torch.Generator().manual_seed(4)
    origins = manifold.origin((2, 8, 3)), manifold.origin(6, 3, dtype=torch.float64)
    for point in (manifold.random(2, 8, 3, generator=seeded()), *origins):
        assert isinstance(point, geoopt.ManifoldTensor)
        assert infeasibility(point) < 1e-6
    assert torch.equal(*(manifold.random(8, 3, generator=seeded()) for _ in range(2)))
    draws = manifold.random(100, 16, 8, dtype=torch.float64, generator=seeded())
    assert torch.linalg.cond(draws.data).max() < 10


def test_projection_of_points_leaves_feasible_and_broken_neighbours_alone():
    manifold = BiorthogonalManifold()
    x, vector = draw((4, 3, 5, 0))
    mixed = x.clone()
    mixed[1], mixed[2] = torch.nan, vector()[2]
    projected = manifold.projx(mixed)
    assert torch.equal(projected[[0, 3]], x[[0, 3]])
    assert projected[1].isnan().any()
    assert infeasibility(projected[2]) < 1e-12
    # To rounding: on some processors products of a batch and of one matrix differ in the last bit.
    torch.testing.assert_close(projected[2], manifold.projx(mixed[2]), rtol=1e-12, atol=1e-13)


def test_checks_say_why():
    manifold = BiorthogonalManifold()
    x, vector = draw((2, 3, 5, 0))
    assert manifold.check_point_on_manifold(x, explain=True) == (True, None)
    assert manifold.check_vector_on_tangent(x, manifold.proju(x, vector()), explain=True) == (
        True,
        None,
    )
    for (ok, reason), message in (
        (
            manifold.check_point(torch.zeros(7, 2), explain=True),
            "x",
        ),
        (
            manifold.check_point_on_manifold(1.1 * x, explain=True),
            r"\|Ψᵀ Φ - I\| reaches 2\.1e-01, over .* projx",
        ),
        (
            manifold.check_vector_on_tangent(x, vector(), explain=True),
            r"\|Yᵀ Φ \+ Ψᵀ X\| reaches .* \(2,\), r = 3",
        ),
    ):
        assert not ok
        assert re.search(message, reason)
    refused(
        "not lying on Biorthogonal manifold",
        manifold.assert_check_point_on_manifold,
        1.1 * x,
        error=ValueError,
    )
    refused("expected shape", manifold.random, 3, 2, error=ValueError)


def best_oblique_projector():
    """Weighted principal components: the minimum of E ‖x - Φ Ψᵀ x‖²_W over biorthogonal pairs is
    known.

    With L Lᵀ = W and V the leading eigenvectors of Lᵀ C L it is Φ = L⁻ᵀ V, Ψ = L V, and costs the
    trailing eigenvalues.
    """
    generator = torch.Generator().manual_seed(3)
    n, r = 6, 2
    q, s = torch.randn(2, n, n, dtype=torch.float64, generator=generator)
    weight = torch.eye(n) + 0.3 * s @ s.mT / n
    covariance = torch.linalg.qr(q).Q
    covariance = (
        covariance
        * torch.tensor([4.0, 3.0, 0.5, 0.3, 0.2, 0.1], dtype=torch.float64)
        @ covariance.mT
    )
    factor = torch.linalg.cholesky(weight)
    values, vectors = torch.linalg.eigh(factor.mT @ covariance @ factor)
    leading = vectors[:, -r:]
    projector = torch.linalg.inv(factor).mT @ leading @ leading.mT @ factor.mT

    def loss(x):
        phi, psi = x.chunk(2, -2)
        rest = torch.eye(n, dtype=torch.float64) - phi @ psi.mT
        return (weight @ rest @ covariance @ rest.mT).diagonal(dim1=-2, dim2=-1).sum(-1)

    return loss, values[:-r].sum().item(), projector


def minimise(manifold, start, loss, steps, lr=0.1):
    x = geoopt.ManifoldParameter(start.clone(), manifold=manifold)
    method = geoopt.optim.RiemannianAdam([x], lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(method, steps)
    for _ in range(steps):
        method.zero_grad()
        loss(x).sum().backward()
        method.step()
        schedule.step()
    return x.data


@every_manifold
def test_riemannian_adam_finds_the_best_oblique_projector(manifold):
    loss, minimum, projector = best_oblique_projector()
    start = BiorthogonalManifold().random(
        12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    x = minimise(manifold, start, loss, 400, lr=0.3)
    assert infeasibility(x) < 1e-12
    assert loss(x).item() == pytest.approx(minimum, rel=1e-6)
    phi, psi = x.chunk(2, -2)
    assert torch.allclose(phi @ psi.mT, projector, atol=1e-3)


@every_manifold
def test_stacked_points_do_not_mix(manifold):
    loss, _, _ = best_oblique_projector()
    start = manifold.random(
        3, 12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    ).data
    together = minimise(manifold, start, loss, 20)
    for point, row in zip(start, together, strict=True):
        assert torch.allclose(minimise(manifold, point, loss, 20), row, rtol=0, atol=1e-12)
    poisoned = start.clone()
    poisoned[1] = torch.nan
    assert torch.equal(minimise(manifold, poisoned, loss, 20)[[0, 2]], together[[0, 2]])


@every_manifold
def test_a_parameter_survives_copies_files_and_casts(manifold, tmp_path):
    generator = torch.Generator().manual_seed(0)
    module = torch.nn.Module()
    module.pair = geoopt.ManifoldParameter(
        manifold.random(2, 12, 3, generator=generator), manifold=manifold
    )
    twin, fresh = copy.deepcopy(module), copy.deepcopy(module)
    assert repr(twin.pair.manifold) == repr(manifold)
    torch.save(module.state_dict(), tmp_path / "module.pt")
    fresh.pair.data = manifold.origin(2, 12, 3).data
    fresh.load_state_dict(torch.load(tmp_path / "module.pt"))
    for other in (twin.pair, fresh.pair, pickle.loads(pickle.dumps(module.pair))):
        assert isinstance(other, geoopt.ManifoldParameter)
        assert torch.equal(other, module.pair)
    module.to(torch.float64)
    assert isinstance(module.pair, geoopt.ManifoldParameter)
    with torch.no_grad():
        module.pair.proj_()
    assert infeasibility(module.pair.data) < 1e-14
    for dtype in (torch.float32, torch.float64):
        x = manifold.random(12, 3, dtype=dtype)
        assert manifold.retr(x, manifold.proju(x, torch.randn(12, 3, dtype=dtype))).dtype == dtype
