"""Operations on tensors whose leading axes match from the left, for layers of your own."""

from romkit.core.matching import (
    align,
    linear_solve,
    matmul,
    matvec,
    pairs,
)

__all__ = [
    "align",
    "linear_solve",
    "matmul",
    "matvec",
    "pairs",
]
