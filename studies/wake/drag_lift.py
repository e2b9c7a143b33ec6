"""Drag and lift of coordinates in a basis: a quadratic form of r numbers, exact."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from romkit.bases import Basis
from romkit.systems.cylinder_wake.discretisation import discretisation

SCALE = -20.0
"""From a force per density to a coefficient, -2 / (U² D)."""


@dataclass(frozen=True)
class DragLift:
    """Coefficients of drag and lift.

    Attributes:
        convective: (r + 1, r + 1, 2) of the products of (1, y).
        viscous: (r + 1, 2), at ν = 1.
    """

    convective: Tensor
    viscous: Tensor

    @classmethod
    def of(cls, basis: Basis, mesh: str = "standard") -> "DragLift":
        flow = discretisation(mesh)
        columns = np.column_stack([basis.mean.numpy(), basis.modes.numpy()])
        blocks = [flow.force_functionals.T @ flow.convection(np.ascontiguousarray(a), columns) for a in _each(columns)]
        viscous = flow.force_functionals.T @ (flow.stiffness @ columns)
        return cls(torch.from_numpy(SCALE * np.stack(blocks).transpose(0, 2, 1)), torch.from_numpy(SCALE * viscous.T))

    def __call__(self, y: Tensor, reynolds: Tensor) -> Tensor:
        """(..., 2) of coordinates (..., r) at Reynolds numbers (..., 1)."""
        one = torch.cat([torch.ones_like(y[..., :1]), y], -1)
        return torch.einsum("...i,...j,ijk->...k", one, one, self.convective) + 0.1 / reynolds * (one @ self.viscous)


def _each(columns: np.ndarray) -> list[np.ndarray]:
    """Each column, repeated as often as there are columns."""
    return [np.repeat(columns[:, [k]], columns.shape[1], axis=1) for k in range(columns.shape[1])]
