"""Names of variables and parameters, and how they enter the terms of a law."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit.data as datasets
from romkit.core.boundary import validated
from romkit.core.broadcast import align
from romkit.core.types import TensorMap
from romkit.data.context import context_ranges
from romkit.data.controls import control_matrix


@validated
@dataclass(frozen=True, eq=False)
class Scaling:
    """Names of variables, and their scaling before they enter a term: (x - shift) / scale.

    A scaled variable prints as δ and its name; unscaled ones (shift 0, scale 1) print as they are.

    Attributes:
        names: of the d variables.
        shift, scale: (d,) float64, or (..., d) where each problem of a stack has its own.

    Example:
        >>> import torch
        >>> from romkit.integrators import Scaling
        >>> scaling = Scaling(("a", "b"), shift=torch.tensor([0.0, 2.0]), scale=torch.tensor([1.0, 4.0]))
        >>> scaling.symbols, scaling.definitions
        (('a', 'δb'), ['δb = (b - 2) / 4'])
        >>> scaling.on(torch.zeros(1))(torch.tensor([1.0, 4.0]))
        tensor([1.0000, 0.5000])
    """

    names: tuple[str, ...]
    shift: Tensor
    scale: Tensor

    @classmethod
    def none(cls, names: Sequence[str]) -> "Scaling":
        """Scaling that leaves variables as they are."""
        zero = torch.zeros(len(names), dtype=torch.float64)
        return cls(tuple(names), zero, zero + 1)

    @classmethod
    @validated
    def of_context(cls, data: xr.Dataset) -> "Scaling":
        """Scaling of the context to [-1, 1] over its training range, or over its values where none
        is declared.

        Inputs follow, scaled to [-1, 1] over their values.
        """
        control = control_matrix(data)  # (C, T, q)
        lowest = np.nanmin(control, axis=(0, 1))
        highest = np.nanmax(control, axis=(0, 1))
        low, high = context_ranges(data)  # (p,)
        low = torch.from_numpy(np.concatenate([low, lowest]))
        high = torch.from_numpy(np.concatenate([high, highest]))
        middle = (low + high) / 2
        # a parameter with one value has no range, and stays as it is
        scale = torch.where(high > low, (high - low) / 2, 1.0)
        names = datasets.context_names(data) + datasets.control_names(data)
        return cls(names, middle, scale)

    def __len__(self) -> int:
        return len(self.names)

    def equals(self, other: "Scaling") -> bool:
        """Whether names and scaling are the same."""
        if self.names != other.names or not torch.equal(self.shift, other.shift):
            return False
        return torch.equal(self.scale, other.scale)

    def __getitem__(self, problem: int) -> "Scaling":
        """Scaling of one problem of a stack; the same where problems share it."""
        return self._mapped(lambda numbers: numbers[problem])

    def repeated(self, number: int) -> "Scaling":
        """Scaling of a stack of this many stacks; the same where problems share it."""
        return self._mapped(lambda numbers: numbers.expand(number, *numbers.shape))

    def _mapped(self, change: TensorMap) -> "Scaling":
        """Scaling with changed numbers; the same where problems share it."""
        if self.shift.ndim == 1:
            return self
        return Scaling(self.names, change(self.shift), change(self.scale))

    def on(self, like: Tensor) -> TensorMap:
        """Map x (..., d) -> (x - shift) / scale, for tensors of the dtype and device of `like`.

        Leading axes of x match problems with their own scaling from the left.
        """
        if self.symbols == self.names:
            return lambda x: x
        shift = self.shift.to(like)
        scale = self.scale.to(like)
        return lambda x: (x - align(shift, x)) / align(scale, x)

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        """Symbol of each variable in an equation: δ and its name where any problem scales it."""
        scaled = torch.atleast_2d((self.shift != 0) | (self.scale != 1))  # (..., d)
        anywhere = scaled.flatten(0, -2).any(0).tolist()
        symbols = []
        for name, is_scaled in zip(self.names, anywhere, strict=True):
            symbols.append(f"δ{name}" if is_scaled else name)
        return tuple(symbols)

    @property
    def definitions(self) -> list[str]:
        """Definition of each scaled variable, as text; for a single problem."""
        numbers = zip(self.shift.tolist(), self.scale.tolist(), strict=True)
        definitions = []
        for symbol, name, (shift, scale) in zip(self.symbols, self.names, numbers, strict=True):
            if symbol != name:
                definitions.append(f"{symbol} = {_moved(name, shift)} / {scale:.6g}")
        return definitions


def _moved(name: str, shift: float) -> str:
    """Text of a variable less a number, in brackets."""
    if not shift:
        return name
    sign = "-" if shift > 0 else "+"
    return f"({name} {sign} {abs(shift):.6g})"
