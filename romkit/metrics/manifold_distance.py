"""How far states are from the learned manifold."""

from torch import Tensor

from romkit import checks
from romkit.boundary import checked
from romkit.metrics.rollout import nrmse
from romkit.types import ProjectionOperator


@checked
def manifold_distance(P: ProjectionOperator, x: Tensor, std: Tensor) -> Tensor:
    """(...) distance ‖x - P(x)‖ of states x (..., n) from the learned manifold, in the units of NRMSE (see `nrmse`).

    Zero on the manifold of an idempotent projection. P(x) is a point of the manifold but not the nearest one, so this
    is an upper bound of the distance to it. For decoded latents x = φ(z) it is how far one more projection would move
    them: zero for exact projections, and what makes others drift when they are re-encoded.

    Args:
        P: the projection operator, at the context of the states.
        x: (..., n) states in physical units.
        std: (n,) standard deviation of each component over the training data, `projection.normalization.state_std`.

    NaN where a member has diverged.
    Source: idempotency error of Adriaens et al. (2026), section 4.1, "Metrics", in the norm of Vlachas et al. (2020).

    Example:
        >>> import torch
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96").double()
        >>> P, std = ncae(F=3.15), ncae.normalization.state_std
        >>> x = 3.15 + torch.rand(5, 36, dtype=torch.float64)
        >>> bool(romkit.metrics.manifold_distance(P, x, std).min() > 0.1)
        True
        >>> bool(romkit.metrics.manifold_distance(P, P(x), std).max() < 1e-9)  # on the manifold
        True
    """
    checks.last_axis("x", x.shape, P.state_size, "state components")
    return nrmse(x, P(x), std)
