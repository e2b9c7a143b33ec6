"""The training objective: position and velocity reconstruction, one value per seed."""

from torch import Tensor, nn

from romkit.projections import Normalization, Projection


class Objective(nn.Module):
    """L = mean over the batch of ‖y - P(y)‖² + w ‖ẏ - DP(y) ẏ‖², plus μ times the method's own penalty.

    y is the state in normalised coordinates (see `romkit.projections.normalization`), so the weights mean the same for
    every system. Component i counts (scale / σᵢ)^(2 component_weighting) in both norms, σᵢ its standard deviation.
    Source: Adriaens et al. (2026), appendix "Training objective", with w = 1 and component_weighting = 0.

    Args:
        projection: a stack; the loss has one entry per seed.
        velocity_weight: w.
        penalty_weight: μ.
        component_weighting: 0 for physical errors, 1 for errors relative to each component's own standard deviation.
    """

    def __init__(
        self, projection: Projection, velocity_weight: float, penalty_weight: float, component_weighting: float
    ):
        super().__init__()
        self.projection = projection
        self.register_buffer("component_weights", component_weights(projection.normalization, component_weighting))
        self.velocity_weight, self.penalty_weight, self.component_weighting = (
            velocity_weight,
            penalty_weight,
            component_weighting,
        )

    def forward(self, y: Tensor, dy: Tensor, c: Tensor) -> Tensor:
        """(S,) loss of each seed on its batch: y and dy (S, B, n), c (S, B, p)."""
        maps = self.projection.at(c)
        reconstruction, velocity = maps.decode_jvp(*maps.encode_jvp(y, dy))
        error = (y - reconstruction).square() + self.velocity_weight * (dy - velocity).square()
        return (error @ self.component_weights).mean(-1) + self.penalty_weight * self.projection.penalty(maps)


def component_weights(normalization: Normalization, component_weighting: float) -> Tensor:
    """(n,) weight of each squared component of a state in normalised coordinates."""
    return (normalization.state_scale / normalization.state_std) ** (2 * component_weighting)
