"""The terms of a polynomial field, from which its image in a basis is computed exactly."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Term(NamedTuple):
    """θ(c) B(x, ..., x): B is linear in each of its arguments, as many as its degree.

    Attributes:
        degree: 0, 1 or 2; of more, a tensor costs more than what it replaces.
        form: B; `degree` states (..., n) in float64 to (..., n). Leading axes broadcast.
        coefficient: θ, contexts (..., p) to (..., 1); 1 by default.
    """

    degree: int
    form: Callable[..., Tensor]
    coefficient: Callable[[Tensor], Tensor] | None = None
