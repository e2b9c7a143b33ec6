"""How well a projection reproduces states and velocities."""

from typing import NamedTuple

from torch import Tensor

from romkit import arrays
from romkit.boundary import checked, hook
from romkit.types import ProjectionOperator


@hook
class Reconstruction(NamedTuple):
    """Root mean square errors of positions and of velocities, in physical units."""

    position: Tensor
    velocity: Tensor


@checked
def reconstruction_rmse(P: ProjectionOperator, x: Tensor, v: Tensor) -> Reconstruction:
    """RMSE of P(x) against x and of DP(x) v against v, over time and components: (..., T, n) -> (...).

    The mean over trajectories is a root mean square too: `rmse.square().mean().sqrt()`.
    Source: Adriaens et al. (2026), section 4.1, "Metrics".
    """
    arrays.axes("x", x, "T n")
    arrays.same_shape(x=x, v=v)
    value, tangent = P.jvp(x, v)
    return Reconstruction(
        (x - value).square().mean((-1, -2)).sqrt(),
        (v - tangent).square().mean((-1, -2)).sqrt(),
    )
