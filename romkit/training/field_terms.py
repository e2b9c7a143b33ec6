"""Loss terms that know the dynamics: what the reconstruction loss leaves open, and a reduced model depends on."""

from torch import Tensor

from romkit.broadcast import align
from romkit.projections import Projection
from romkit.systems import System
from romkit.training.loss import Objective


class FieldObjective(Objective):
    """`Objective` plus two terms for a first-order system ẋ = f, means over the batch in network coordinates:

    w_l ‖ẏ - DP(Py) f(Py)‖², the error of the latent velocity where the encoder's field evaluates it: the
    reconstruction loss sees Dρ on the data alone, the reduced model sees it on the manifold alone; and
    w_i ‖f(Py) - DP(Py) f(Py)‖², the part of the field that points out of the manifold.

    Args:
        projection, velocity_weight, penalty_weight, balance: as for `Objective`.
        system: gives f at every context.
        latent_weight: w_l.
        invariance_weight: w_i.
    """

    def __init__(
        self,
        projection: Projection,
        velocity_weight: float,
        penalty_weight: float,
        balance: float,
        *,
        system: System,
        latent_weight: float,
        invariance_weight: float,
    ):
        super().__init__(projection, velocity_weight, penalty_weight, balance)
        self.system, self.latent_weight, self.invariance_weight = system, latent_weight, invariance_weight

    def forward(self, y: Tensor, dy: Tensor, c: Tensor) -> Tensor:
        """(S,) loss of each seed on its batch: y and dy (S, B, n), c (S, B, p)."""
        maps = self.projection.bind(c)
        z = maps.encode(y)
        on_manifold = maps.decode(z)
        f = self._field(on_manifold, c)
        carried = maps.decode_jvp(z, maps.encode_jvp(on_manifold, f).tangent).tangent
        error = self.latent_weight * (dy - carried).square() + self.invariance_weight * (f - carried).square()
        return super().forward(y, dy, c) + (error @ self.importance).mean(-1)

    def _field(self, y: Tensor, c: Tensor) -> Tensor:
        frame = self.projection.frame
        context = align(frame.context_to_physical(c), y)
        return self.system.rhs(y.new_zeros(()), frame.to_physical(y), context) / frame.state_scale
