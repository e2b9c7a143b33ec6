"""Latent fields: what their residuals are orthogonal to, and where trajectories start.

On a manifold that the full field leaves invariant all dynamics find its motion:
`romkit.testing.check_dynamics`.
"""

import pytest
import torch

from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.integrators.galerkin import nearest
from romkit.projections import Path
from romkit.systems.problem import FirstOrder, SecondOrder, euclidean
from romkit.testing.projections import probe
from tests.properties.test_projection_rules import make

T0 = torch.zeros((), dtype=torch.float64)


@pytest.fixture(params=["ncae", "cae", "pod"])
def points(request):
    return probe(make(request.param, (2, 5, 2, 3)), batch=6)


def field(t, x):
    return torch.sin(3 * x) + x.flip(-1)


def test_the_galerkin_residual_is_orthogonal_in_the_weights_of_a_quadrature(points):
    """Cells of different size: the residual is orthogonal in Σ wₖ uₖ vₖ; a constant weight is none."""
    P, near, rates, starts = points.operator, points.operator(points.x) + 0.01 * points.v, [], []
    one, z = torch.ones(P.state_size, 1, dtype=torch.float64), P.encode(points.x)
    uneven = torch.linspace(0.2, 3.0, P.state_size, dtype=torch.float64).unsqueeze(-1)
    x, J = P.decode_jacobian(z)
    for weights in (one, 7 * one, uneven):
        problem = FirstOrder(Path.constant(P), field, lambda x, u, weights=weights: weights * u)
        rates.append(Galerkin().latent_rate(problem)(T0, z))
        starts.append(near - P.decode(Galerkin().start(problem, T0, (near,))))
        residual = field(T0, x).unsqueeze(-1) - J @ rates[-1].unsqueeze(-1)
        assert (J.mT @ (weights * residual)).abs().max() < 1e-9
    assert torch.allclose(rates[0], rates[1], atol=1e-10)
    assert (J.mT @ residual).abs().max() > 1e-3
    plain, _, nearest_in_weights = ((uneven.squeeze(-1) * away.square()).sum(-1) for away in starts)
    assert bool((nearest_in_weights <= plain + 1e-12).all())
    assert bool((nearest_in_weights < plain - 1e-9).any())


def test_petrov_galerkin_residual_is_invisible_to_the_encoder(points):
    P = points.operator
    z = P.encode(points.x)
    dz = PetrovGalerkin().field(FirstOrder(Path.constant(P), field))(T0, z)
    x, lifted = P.decode_jvp(z, dz)
    assert torch.allclose(
        P.encode_jvp(x, field(T0, x) - lifted).tangent, torch.zeros_like(z), atol=1e-10
    )


def test_galerkin_in_the_mass_metric_does_not_see_massless_components(points):
    """With inertia on m components alone, accelerations of all others may be anything."""
    P = points.operator
    m, n = P.latent_dim, P.state_size
    z, dz = P.encode_jvp(points.x, points.v)

    def inertia(q, u):
        return torch.tensor([1.0] * m + [0.0] * (n - m), dtype=q.dtype).unsqueeze(-1) * u

    def spiked(spike):
        return lambda t, q, v: torch.cat(
            [torch.sin(q[..., :m]), spike * torch.ones_like(q[..., m:])], dim=-1
        )

    problems = [SecondOrder(Path.constant(P), spiked(spike), inertia) for spike in (0.0, 1e6)]
    assert torch.equal(
        *(Galerkin().latent_rate(problem)(T0, torch.cat([z, dz], dim=-1)) for problem in problems)
    )


def test_a_galerkin_trajectory_starts_at_the_nearest_point(points):
    P = points.operator
    on_manifold = P(points.x)
    assert torch.allclose(nearest(P, on_manifold, euclidean), P.encode(on_manifold), atol=1e-10)
    near = on_manifold + 0.01 * points.v  # far away the nearest point is not unique
    z = nearest(P, near, euclidean, steps=50)
    x, J = P.decode_jacobian(z)
    assert torch.allclose(
        (J.mT @ (near - x).unsqueeze(-1)).squeeze(-1), torch.zeros_like(z), atol=1e-7
    )
    assert bool(((near - x).norm(dim=-1) <= (near - P(near)).norm(dim=-1) + 1e-12).all())


def test_a_mechanical_galerkin_start_matches_the_components_that_have_inertia(points):
    """As many components with inertia as latent ones: positions and velocities of those are met
    exactly.
    """
    P = points.operator
    m, n = P.latent_dim, P.state_size
    inertia = torch.tensor([1.0, 2.0] + [0.0] * (n - m), dtype=torch.float64).unsqueeze(-1)
    q, v = P.decode_jvp(*P.encode_jvp(points.x, points.v))
    problem = SecondOrder(Path.constant(P), metric=lambda q, u: inertia * u)
    reached, velocity = problem.decode(P, Galerkin().start(problem, T0, (q, v)))
    assert torch.allclose(reached[..., :m], q[..., :m], atol=1e-8)
    assert torch.allclose(velocity[..., :m], v[..., :m], atol=1e-8)
