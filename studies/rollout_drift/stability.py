"""Whether a reduced orbit draws neighbouring trajectories in."""

import torch
from torch import Tensor

from romkit.core.types import Field


def lyapunov_sum(field: Field, states: Tensor) -> Tensor:
    """(...) sum of the Lyapunov exponents along trajectories: time average of div g = tr ∂g/∂z, per time unit.

    It is the rate at which volumes of the reduced state space grow. On a periodic orbit of two latent coordinates one
    exponent is zero, so it is the other one, the Floquet exponent: negative where the orbit attracts, positive where
    it is unstable, however well the manifold fits the data on it.

    Args:
        field: g(t, z), autonomous and differentiable in forward mode, for all members at a time.
        states: (..., T, m) latent states at equally spaced times, after transients and over many periods.

    NaN where a member has diverged.
    Source: Guckenheimer & Holmes (1983), section 1.5, by the identity of Abel, Jacobi and Liouville.
    """
    start = states.new_zeros(())

    def divergence(z: Tensor) -> Tensor:
        axes = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        slopes = [torch.func.jvp(lambda z: field(start, z), (z,), (axis.expand_as(z),))[1] for axis in axes]
        return torch.stack(slopes, dim=-1).diagonal(dim1=-2, dim2=-1).sum(-1)

    return torch.stack([divergence(z) for z in states.unbind(-2)]).mean(0)
