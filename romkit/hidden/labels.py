"""Maps between hidden parameters and known ones, where some groups have these."""

import torch
from torch import Tensor

from romkit.core.polynomials import Monomials
from romkit.core.tensors import divisor
from romkit.core.types import Names, frozen
from romkit.numerics.design import Design

SPARE = 2
"""Groups, at least, beside the coefficients of a map of one quantity."""


@frozen
class Polynomial:
    """Polynomial map y = T((x - shift) / scale) B.

    Attributes:
        shift, scale: (p,) of x.
        degree: of T.
        coefficients: B (q, k).
        error: (k,) root mean square error of groups that the map has not seen.
        variance: (k,) of y about the map.
        inverse: (q, q) of the normal equations of T.
    """

    shift: Tensor
    scale: Tensor
    degree: int
    coefficients: Tensor
    error: Tensor
    variance: Tensor
    inverse: Tensor

    @classmethod
    def fit(cls, x: Tensor, y: Tensor, *, highest: int = 3, better: float = 0.7) -> "Polynomial":
        """Map of x (G, p) to y (G, k), of the degree whose left-out errors are small.

        `highest`: degree that is tried.

        `better`: error of a higher degree, relative to that of the one before, from which on it is
        taken.
        """
        shift = x.mean(0)
        scale = divisor((x - shift).abs().amax(0))
        scaled = (x - shift) / scale
        best: Polynomial | None = None
        for degree in range(1, highest + 1):
            design = Design(Monomials(x.shape[1], degree)(scaled))
            terms = design.columns.shape[1]
            if best is not None and len(x) < terms + SPARE:
                break
            # root mean square error (k,) of each row by the others
            rows = torch.arange(len(x)).split(1)
            error = design.validation_residuals(y, rows).square().mean(0).sqrt()
            if best is None or float((error / best.error).mean()) < better:
                coefficients = design.coefficients(y)
                # variance of Student's t, whose freedom is what the coefficients leave
                squares = (y - design.columns @ coefficients).square().sum(0)
                variance = squares / max(1, len(x) - terms - 2)
                inverse = design.inverse @ design.inverse.mT
                best = cls(shift, scale, degree, coefficients, error, variance, inverse)
        assert best is not None  # there is a first degree
        return best

    def terms(self, x: Tensor) -> Tensor:
        """Return T (..., q) at x (..., p)."""
        return Monomials(x.shape[-1], self.degree)((x - self.shift) / self.scale)

    def __call__(self, x: Tensor) -> Tensor:
        """Return values (..., k) at x (..., p)."""
        return self.terms(x) @ self.coefficients

    def variances(self, x: Tensor) -> Tensor:
        """Return variances (k,) of predictions at x (p,), which grow away from the groups.

        Source: Seber, Lee (2003), Linear regression analysis, section 5.3.
        """
        terms = self.terms(x)
        return self.variance * (1 + terms @ self.inverse @ terms)

    def slope(self, x: Tensor) -> Tensor:
        """Return derivatives (k, p) at x (p,)."""
        table = Monomials(len(x), self.degree).slopes()
        slopes = torch.einsum("q,pqs->sp", self.terms(x), table)
        return self.coefficients.mT @ slopes / self.scale


@frozen
class Labels:
    """Known parameters of some groups, and maps between them and hidden ones.

    Attributes:
        names: of the known parameters.
        known, hidden: maps to each from the other.
    """

    names: Names
    known: Polynomial
    hidden: Polynomial

    def __repr__(self) -> str:
        errors = zip(self.names, self.known.error.tolist(), strict=True)
        return ", ".join(f"{name} to {error:.2g}" for name, error in errors)
