"""Latent fields: on a manifold that the full field leaves invariant, every method must find the latent field exactly.

The full field is manufactured from a latent one: f(x) = Dφ(z) g(z) at z = ρ(x), and for mechanical systems
f(q, q̇) = Dφ h(z, ż) + D²φ(ż, ż) with ż = Dρ(q) q̇.
"""

import pytest
import torch

from romkit.integrators import Galerkin, PetrovGalerkin, tangent_bundle_field
from romkit.integrators.galerkin import nearest
from romkit.testing.projections import probe
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
    assert torch.allclose(dynamics.latent_field(P, f)(T0, z), g(z), atol=1e-10)


@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
def test_second_order_field_is_recovered(points, dynamics):
    P = points.operator

    def f(t, q, dq):
        z, dz = P.encode_jvp(q, dq)
        return P.decode_jvp(z, g(z) - dz).tangent + P.decode_curvature(z, dz)

    def mass(q):
        n = q.shape[-1]
        return torch.diag_embed(1 + q.square()) + torch.ones(n, n, dtype=q.dtype)

    z, dz = P.encode_jvp(points.x, points.v)
    h = dynamics.latent_acceleration(P, f, mass)
    assert torch.allclose(h(T0, z, dz), g(z) - dz, atol=1e-9)
    w = tangent_bundle_field(h)(T0, torch.cat([z, dz], dim=-1))
    assert torch.allclose(w, torch.cat([dz, g(z) - dz], dim=-1), atol=1e-9)


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
    dz = Galerkin().latent_field(P, lambda t, x: torch.sin(3 * x) + x.flip(-1))(T0, z)
    residual = f - (J @ dz.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose((J.mT @ residual.unsqueeze(-1)).squeeze(-1), torch.zeros_like(z), atol=1e-10)


def test_petrov_galerkin_residual_is_invisible_to_the_encoder(points):
    P = points.operator
    z = P.encode(points.x)
    f = lambda t, x: torch.sin(3 * x) + x.flip(-1)  # noqa: E731
    dz = PetrovGalerkin().latent_field(P, f)(T0, z)
    x, lifted = P.decode_jvp(z, dz)
    assert torch.allclose(P.encode_jvp(x, f(T0, x) - lifted).tangent, torch.zeros_like(z), atol=1e-10)


def test_galerkin_in_the_mass_metric_does_not_see_massless_components(points):
    """With inertia on m components alone, accelerations of all others may be anything."""
    P = points.operator
    m, n = P.latent_dim, P.state_size
    z, dz = P.encode_jvp(points.x, points.v)

    def mass(q):
        return torch.diag(torch.tensor([1.0] * m + [0.0] * (n - m), dtype=q.dtype)).expand(*q.shape, n)

    def field(spike):
        return lambda t, q, v: torch.cat([torch.sin(q[..., :m]), spike * torch.ones_like(q[..., m:])], dim=-1)

    h = [Galerkin().latent_acceleration(P, field(spike), mass)(T0, z, dz) for spike in (0.0, 1e6)]
    assert torch.equal(*h)


def test_a_galerkin_trajectory_starts_at_the_nearest_point(points):
    P, eye = points.operator, torch.eye(points.operator.state_size, dtype=torch.float64)
    on_manifold = P(points.x)
    assert torch.allclose(nearest(P, on_manifold, eye), P.encode(on_manifold), atol=1e-10)
    near = on_manifold + 0.01 * points.v  # far away the nearest point is not unique
    z = nearest(P, near, eye, steps=50)
    x, J = P.decode_jacobian(z)
    assert torch.allclose((J.mT @ (near - x).unsqueeze(-1)).squeeze(-1), torch.zeros_like(z), atol=1e-7)
    assert bool(((near - x).norm(dim=-1) <= (near - P(near)).norm(dim=-1) + 1e-12).all())


def test_a_mechanical_galerkin_start_matches_the_components_that_have_inertia(points):
    """As many components with inertia as latent ones: positions and velocities of those are met exactly."""
    P = points.operator
    m, n = P.latent_dim, P.state_size
    M = torch.diag(torch.tensor([1.0, 2.0] + [0.0] * (n - m), dtype=torch.float64))
    q, v = P.decode_jvp(*P.encode_jvp(points.x, points.v))
    z, dz = Galerkin().latent_motion(P, q, v, lambda q: M.expand(*q.shape, n))
    reached, velocity = P.decode_jvp(z, dz)
    assert torch.allclose(reached[..., :m], q[..., :m], atol=1e-8)
    assert torch.allclose(velocity[..., :m], v[..., :m], atol=1e-8)
