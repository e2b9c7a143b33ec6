"""The training objective: position and velocity reconstruction, one value per seed."""

from torch import Tensor, nn

from romkit.projections import Projection


class Objective(nn.Module):
    """L = mean over the batch of ‖y - P(y)‖² + w ‖ẏ - DP(y) ẏ‖², plus μ times the method's own penalty.

    y is the state in network coordinates (see `romkit.projections.frame`), so the weights mean the same for
    every system. Source: Adriaens et al. (2026), appendix "Training objective", with w = 1.

    Args:
        projection: a stack; the loss has one entry per seed.
        velocity_weight: w.
        penalty_weight: μ.
    """

    def __init__(self, projection: Projection, *, velocity_weight: float, penalty_weight: float):
        super().__init__()
        self.projection = projection
        self.velocity_weight, self.penalty_weight = velocity_weight, penalty_weight

    def forward(self, y: Tensor, dy: Tensor, c: Tensor) -> Tensor:
        """(S,) loss of each seed on its batch: y and dy (S, B, n), c (S, B, p)."""
        maps = self.projection.bind(c)
        reconstruction, velocity = maps.decode_jvp(*maps.encode_jvp(y, dy))
        error = (y - reconstruction).square().sum(-1) + self.velocity_weight * (dy - velocity).square().sum(-1)
        return error.mean(-1) + self.penalty_weight * self.projection.penalty()
