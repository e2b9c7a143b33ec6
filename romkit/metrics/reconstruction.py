"""How well a projection reproduces states and velocities."""

from typing import NamedTuple

from torch import Tensor

from romkit import arrays
from romkit.boundary import checked, hook
from romkit.types import ProjectionOperator


@hook
class Reconstruction(NamedTuple):
    """Root mean square errors of positions and of velocities, in physical units.

    Example:
        >>> import torch
        >>> import romkit
        >>> P, x = romkit.load("ncae-lorenz96")(F=3.15), 3.15 + torch.rand(4, 10, 36)
        >>> errors = romkit.metrics.reconstruction_rmse(P, x, torch.zeros_like(x))
        >>> errors.position.shape, errors.velocity.tolist()
        (torch.Size([4]), [0.0, 0.0, 0.0, 0.0])
    """

    position: Tensor
    velocity: Tensor


@checked
def reconstruction_rmse(P: ProjectionOperator, x: Tensor, v: Tensor) -> Reconstruction:
    """RMSE of P(x) against x and of DP(x) v against v, over time and components: (..., T, n) -> (...).

    The mean over trajectories is a root mean square too: `rmse.square().mean().sqrt()`.
    Source: Adriaens et al. (2026), section 4.1, "Metrics".

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=3.15)
        >>> x, v, _ = romkit.data.snapshots(data)
        >>> pod = romkit.fit("pod", data, latent_dim=5).double()
        >>> errors = romkit.metrics.reconstruction_rmse(pod(F=3.15), x, v)
        >>> bool(errors.position < x.std())
        True
    """
    arrays.axes("x", x, "T n")
    arrays.same_shape(x=x, v=v)
    value, tangent = P.jvp(x, v)
    return Reconstruction(
        (x - value).square().mean((-1, -2)).sqrt(),
        (v - tangent).square().mean((-1, -2)).sqrt(),
    )
