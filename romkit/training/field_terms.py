"""Loss terms that know the dynamics: what the reconstruction loss leaves open, and a reduced model depends on."""

from torch import Tensor

from romkit.broadcast import align
from romkit.projections import EncoderDecoder, Normalization, Projection
from romkit.systems import System
from romkit.training.loss import Objective


class FieldObjective(Objective):
    """`Objective` plus four terms, means over the batch in normalised coordinates and in its norm, z = ρ(y):

    w_l ‖ẏ - DP(Py) f(Py)‖², the error of the latent velocity where the encoder's field evaluates it: the
    reconstruction loss sees Dρ on the data alone, the reduced model sees it on the manifold alone;
    w_i ‖f(Py) - DP(Py) f(Py)‖², the part of the field that points out of the manifold;
    w_f ‖Dφ(z) (Dρ(y) - Dρ(Py)) ẏ‖², how the encoder's derivative changes along the fibre from y to Py; and
    w_g |gᵀ (y - Py)|², g the gradient of a random future value (`romkit.training.gradients`): errors count by what
    becomes of them. This is the GAP loss of Otto, Macchio, Rowley (2023), which has no counterpart for velocities.

    The first two are for first-order systems ẋ = f. A weight of 0 leaves its term out.

    Args:
        projection, velocity_weight, penalty_weight, component_weighting: as for `Objective`.
        system: gives f at every context, where a term needs it.
        latent_weight, invariance_weight, fibre_weight, gradient_weight: w_l, w_i, w_f, w_g.
    """

    def __init__(
        self,
        projection: Projection,
        velocity_weight: float,
        penalty_weight: float,
        component_weighting: float,
        *,
        system: System | None = None,
        latent_weight: float = 0.0,
        invariance_weight: float = 0.0,
        fibre_weight: float = 0.0,
        gradient_weight: float = 0.0,
    ):
        super().__init__(projection, velocity_weight, penalty_weight, component_weighting)
        self.system, self.latent_weight, self.invariance_weight = system, latent_weight, invariance_weight
        self.fibre_weight, self.gradient_weight = fibre_weight, gradient_weight

    def forward(self, y: Tensor, dy: Tensor, c: Tensor, *gradients: Tensor) -> Tensor:
        """(S,) loss of each seed on its batch: y, dy and, where they count, one tensor of gradients g (S, B, n)."""
        maps = self.projection.at(c)
        z = maps.encode(y)
        on_manifold = maps.decode(z)
        terms = []
        if self.latent_weight or self.invariance_weight:
            terms.append(self._mean(self._field_error(maps, z, on_manifold, dy, c)))
        if self.fibre_weight:
            change = maps.encode_jvp(y, dy).tangent - maps.encode_jvp(on_manifold, dy).tangent
            terms.append(self.fibre_weight * self._mean(maps.decode_jvp(z, change).tangent.square()))
        if self.gradient_weight:
            (g,) = gradients
            terms.append(self.gradient_weight * (g * (y - on_manifold)).sum(-1).square().mean(-1))
        return sum(terms, start=super().forward(y, dy, c))

    def _mean(self, error: Tensor) -> Tensor:
        return (error @ self.component_weights).mean(-1)

    def _field_error(self, maps: EncoderDecoder, z: Tensor, on_manifold: Tensor, dy: Tensor, c: Tensor) -> Tensor:
        f = normalised_field(self.system, self.projection.normalization, on_manifold, c)
        carried = maps.decode_jvp(z, maps.encode_jvp(on_manifold, f).tangent).tangent
        return self.latent_weight * (dy - carried).square() + self.invariance_weight * (f - carried).square()


def normalised_field(system: System, normalization: Normalization, y: Tensor, c: Tensor) -> Tensor:
    """ẏ = f(y) (..., n) of a first-order system at contexts c (..., p), all in normalised coordinates."""
    context = align(normalization.denormalise_context(c), y)
    return system.rhs(y.new_zeros(()), normalization.denormalise(y), context) / normalization.state_scale
