"""How well a projection reproduces states and velocities."""

from torch import Tensor


def rmse(reference: Tensor, value: Tensor, *, dims: int | tuple[int, ...] | None = None) -> Tensor:
    """Root mean square of reference - value, over all axes or over `dims`."""
    square = (reference - value).square()
    return (square.mean() if dims is None else square.mean(dims)).sqrt()
