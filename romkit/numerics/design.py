"""Linear least squares, and what they leave when rows are left out."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.core.types import Array


@dataclass(frozen=True, eq=False)
class Design:
    """Least squares with some columns, and a ridge on them.

    Attributes:
        columns: (C, K) of the rows that are fitted.
        ridge: (K,) added to the diagonal of the normal equations; none by default.
    """

    columns: Tensor
    ridge: Tensor | None = None

    @functools.cached_property
    def inverse(self) -> Tensor:
        """(K, C), of which coefficients are products with values; the pseudoinverse without a ridge."""
        if self.ridge is None:
            return torch.linalg.pinv(self.columns)
        gram = self.columns.mT @ self.columns + torch.diag(self.ridge)
        return torch.linalg.solve(gram, self.columns.mT)

    @functools.cached_property
    def hat(self) -> Tensor:
        """(C, C), which makes fitted values of values."""
        return self.columns @ self.inverse

    @property
    def is_determined(self) -> bool:
        """Whether rows determine all coefficients, and one more says how well."""
        rows, terms = self.columns.shape
        return terms < rows and int(torch.linalg.matrix_rank(self.columns)) == terms

    def coefficients(self, values: Tensor) -> Tensor:
        """Return coefficients (K, ...) of values (C, ...)."""
        return torch.einsum("kc,c...->k...", self.inverse, values)

    def validation_residuals(self, values: Tensor, groups: Sequence[Tensor | Array]) -> Tensor:
        """Return residuals (C, ...) of values (C, ...) at the rows of each group, of a fit without
        these; zero at rows in no group.

        They follow from the residuals r of the fit to all by (I - H)⁻¹ r, of the group's part of the
        hat matrix H. A group that alone determines a coefficient has none: infinite ones.

        Source: Cook, Weisberg (1982), Residuals and influence in regression, section 2.2.
        """
        residuals = values - torch.einsum("bc,c...->b...", self.hat, values)
        left_out = torch.zeros_like(residuals)
        for group in groups:
            rows = torch.as_tensor(group)
            complement = torch.eye(len(rows), dtype=self.hat.dtype) - self.hat[rows[:, None], rows]
            # eigenvalues are between 0 and 1, and those below the root of rounding are zero
            if (
                float(torch.linalg.eigvalsh(complement)[0])
                < torch.finfo(complement.dtype).eps ** 0.5
            ):
                left_out[rows] = torch.inf
                continue
            flat = residuals[rows].flatten(1) if residuals.ndim > 1 else residuals[rows, None]
            left_out[rows] = torch.linalg.solve(complement, flat).reshape(residuals[rows].shape)
        return left_out
