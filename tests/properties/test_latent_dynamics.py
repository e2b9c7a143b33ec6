"""Latent fields: on a manifold that the full field leaves invariant, every method must find the latent field exactly.

The full field is manufactured from a latent one: f(x) = Dφ(z) g(z) at z = ρ(x), and for mechanical systems
f(q, q̇) = Dφ h(z, ż) + D²φ(ż, ż) with ż = Dρ(q) q̇. Trajectories of all dynamics are in `romkit.testing`.
"""

import pytest
import torch

from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.integrators.galerkin import nearest
from romkit.projections import Path
from romkit.systems.problem import FirstOrder, SecondOrder, euclidean
from romkit.testing import probe
from tests.properties.test_projection_laws import make

T0 = torch.zeros((), dtype=torch.float64)


@pytest.fixture(params=["ncae", "cae", "pod"])
def points(request):
    return probe(make(request.param, (2, 5, 2, 3)), batch=6)


def g(z):
    return torch.stack([z[..., 1], -z[..., 0] + 0.3 * z[..., 1].square()], dim=-1)


@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
def test_first_order_field_is_recovered(points, dynamics):
    P = points.operator

    def f(t, x):
        z = P.encode(x)
        return P.decode_jvp(z, g(z)).tangent

    z = P.encode(points.x)
    assert torch.allclose(dynamics.field(FirstOrder(Path.constant(P), f))(T0, z), g(z), atol=1e-10)


@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
def test_second_order_field_is_recovered(points, dynamics):
    P = points.operator

    def f(t, q, dq):
        z, dz = P.encode_jvp(q, dq)
        return P.decode_jvp(z, g(z) - dz).tangent + P.decode_curvature(z, dz)

    def inertia(q, u):
        n = q.shape[-1]
        return (torch.diag_embed(1 + q.square()) + torch.ones(n, n, dtype=q.dtype)) @ u

    z, dz = P.encode_jvp(points.x, points.v)
    problem, w = SecondOrder(Path.constant(P), f, inertia), torch.cat([z, dz], dim=-1)
    assert torch.allclose(dynamics.latent_rate(problem)(T0, w), g(z) - dz, atol=1e-9)
    assert torch.allclose(dynamics.field(problem)(T0, w), torch.cat([dz, g(z) - dz], dim=-1), atol=1e-9)


def test_curvature_against_finite_differences(points):
    P, eps = points.operator, 1e-4
    z, dz = P.encode_jvp(points.x, points.v)
    second = (P.decode(z + eps * dz) - 2 * P.decode(z) + P.decode(z - eps * dz)) / eps**2
    assert torch.allclose(P.decode_curvature(z, dz), second, atol=1e-5)


def test_galerkin_residual_is_orthogonal_to_the_manifold(points):
    P = points.operator
    z = P.encode(points.x)
    x, J = P.decode_jacobian(z)
    f = torch.sin(3 * x) + x.flip(-1)
    dz = Galerkin().field(FirstOrder(Path.constant(P), lambda t, x: torch.sin(3 * x) + x.flip(-1)))(T0, z)
    residual = f - (J @ dz.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose((J.mT @ residual.unsqueeze(-1)).squeeze(-1), torch.zeros_like(z), atol=1e-10)


def test_galerkin_residual_is_orthogonal_in_the_weights_of_a_quadrature(points):
    """Cells of different size: the residual is orthogonal in Σ wₖ uₖ vₖ, and no longer in Σ uₖ vₖ."""
    P = points.operator
    weights = torch.linspace(0.2, 3.0, P.state_size, dtype=torch.float64).unsqueeze(-1)
    f = lambda t, x: torch.sin(3 * x) + x.flip(-1)  # noqa: E731
    problem = FirstOrder(Path.constant(P), f, lambda x, u: weights * u)
    z = P.encode(points.x)
    x, J = P.decode_jacobian(z)
    residual = f(T0, x).unsqueeze(-1) - J @ Galerkin().latent_rate(problem)(T0, z).unsqueeze(-1)
    assert (J.mT @ (weights * residual)).abs().max() < 1e-9
    assert (J.mT @ residual).abs().max() > 1e-3
    near = P(points.x) + 0.01 * points.v
    z = Galerkin().start(problem, T0, (near,))
    away = near - P.decode(z)
    plain = near - P.decode(Galerkin().start(FirstOrder(Path.constant(P), f), T0, (near,)))
    size = lambda r: (weights.squeeze(-1) * r.square()).sum(-1)  # noqa: E731
    assert bool((size(away) <= size(plain) + 1e-12).all())
    assert bool((size(away) < size(plain) - 1e-9).any())


def test_a_constant_metric_of_any_size_is_no_metric(points):
    P, f = points.operator, lambda t, x: torch.sin(3 * x)
    z = P.encode(points.x)
    plain, weighed = (FirstOrder(Path.constant(P), f, metric) for metric in (euclidean, lambda x, u: 7.0 * u))
    assert torch.allclose(*(Galerkin().field(problem)(T0, z) for problem in (plain, weighed)), atol=1e-10)


def test_petrov_galerkin_residual_is_invisible_to_the_encoder(points):
    P = points.operator
    z = P.encode(points.x)
    f = lambda t, x: torch.sin(3 * x) + x.flip(-1)  # noqa: E731
    dz = PetrovGalerkin().field(FirstOrder(Path.constant(P), f))(T0, z)
    x, lifted = P.decode_jvp(z, dz)
    assert torch.allclose(P.encode_jvp(x, f(T0, x) - lifted).tangent, torch.zeros_like(z), atol=1e-10)


def test_galerkin_in_the_mass_metric_does_not_see_massless_components(points):
    """With inertia on m components alone, accelerations of all others may be anything."""
    P = points.operator
    m, n = P.latent_dim, P.state_size
    z, dz = P.encode_jvp(points.x, points.v)

    def inertia(q, u):
        return torch.tensor([1.0] * m + [0.0] * (n - m), dtype=q.dtype).unsqueeze(-1) * u

    def field(spike):
        return lambda t, q, v: torch.cat([torch.sin(q[..., :m]), spike * torch.ones_like(q[..., m:])], dim=-1)

    problems = [SecondOrder(Path.constant(P), field(spike), inertia) for spike in (0.0, 1e6)]
    assert torch.equal(*(Galerkin().latent_rate(problem)(T0, torch.cat([z, dz], dim=-1)) for problem in problems))


def test_a_galerkin_trajectory_starts_at_the_nearest_point(points):
    P = points.operator
    on_manifold = P(points.x)
    assert torch.allclose(nearest(P, on_manifold, euclidean), P.encode(on_manifold), atol=1e-10)
    near = on_manifold + 0.01 * points.v  # far away the nearest point is not unique
    z = nearest(P, near, euclidean, steps=50)
    x, J = P.decode_jacobian(z)
    assert torch.allclose((J.mT @ (near - x).unsqueeze(-1)).squeeze(-1), torch.zeros_like(z), atol=1e-7)
    assert bool(((near - x).norm(dim=-1) <= (near - P(near)).norm(dim=-1) + 1e-12).all())


def test_a_mechanical_galerkin_start_matches_the_components_that_have_inertia(points):
    """As many components with inertia as latent ones: positions and velocities of those are met exactly."""
    P = points.operator
    m, n = P.latent_dim, P.state_size
    inertia = torch.tensor([1.0, 2.0] + [0.0] * (n - m), dtype=torch.float64).unsqueeze(-1)
    q, v = P.decode_jvp(*P.encode_jvp(points.x, points.v))
    problem = SecondOrder(Path.constant(P), metric=lambda q, u: inertia * u)
    reached, velocity = problem.decode(P, Galerkin().start(problem, T0, (q, v)))
    assert torch.allclose(reached[..., :m], q[..., :m], atol=1e-8)
    assert torch.allclose(velocity[..., :m], v[..., :m], atol=1e-8)
