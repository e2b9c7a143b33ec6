"""Names of variables and parameters, and how they enter the terms of a law."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from romkit.data.coordinates import COORDINATES, PLAIN, coordinates_of, transform_contexts


@validated
@dataclass(frozen=True, eq=False)
class Scaling:
    """Names of variables, and their scaling before they enter a term: (x - shift) / scale.

    A scaled variable prints as δ and its name; unscaled ones (shift 0, scale 1) print as they are.
    Parameters may have coordinates: (1/c - shift) / scale, say.

    Attributes:
        names: of the d variables.
        shift, scale: (d,) float64, or (..., d) where each problem of a stack has its own.
        coordinates: name of the coordinate of each variable, see `romkit.data.coordinates`; () where
            all are the variables themselves.

    Example:
        >>> import torch
        >>> from romkit.laws import Scaling
        >>> scaling = Scaling(("a", "b"), shift=torch.tensor([0.0, 2.0]), scale=torch.tensor([1.0, 4.0]))
        >>> scaling.symbols, scaling.definitions
        (('a', 'δb'), ['δb = (b - 2) / 4'])
        >>> scaling.on(torch.zeros(1))(torch.tensor([1.0, 4.0]))
        tensor([1.0000, 0.5000])
    """

    names: tuple[str, ...]
    shift: Tensor
    scale: Tensor
    coordinates: tuple[str, ...] = ()

    @classmethod
    def none(cls, names: Sequence[str]) -> "Scaling":
        """Scaling that leaves variables as they are."""
        zero = torch.zeros(len(names), dtype=torch.float64)
        return cls(tuple(names), zero, zero + 1)

    @classmethod
    @validated
    def fit(cls, data: xr.Dataset) -> "Scaling":
        """Scaling of the context to [-1, 1] over its training range, or over its values where none
        is declared, in the coordinates that the data name.

        Inputs follow, scaled to [-1, 1] over their values.
        """
        control = control_matrix(data)  # (C, T, q)
        lowest = np.nanmin(control, axis=(0, 1))
        highest = np.nanmax(control, axis=(0, 1))
        low, high = context_ranges(data)  # (p,)
        low = torch.from_numpy(np.concatenate([low, lowest]))
        high = torch.from_numpy(np.concatenate([high, highest]))
        coordinates = coordinates_of(data)
        if set(coordinates) <= {PLAIN}:
            coordinates = ()
        else:
            coordinates += (PLAIN,) * control.shape[-1]
            ends = transform_contexts(torch.stack([low, high]), coordinates, low)  # (2, d)
            low = ends.amin(0)
            high = ends.amax(0)
        middle = (low + high) / 2
        # a parameter with one value has no range, and stays as it is
        scale = torch.where(high > low, (high - low) / 2, 1.0)
        names = datasets.context_names(data) + datasets.control_names(data)
        return cls(names, middle, scale, coordinates)

    def to(self, device: torch.device | str) -> "Scaling":
        """Return the scaling with its numbers on a device."""
        return replace(self, shift=self.shift.to(device), scale=self.scale.to(device))

    def __len__(self) -> int:
        return len(self.names)

    def equals(self, other: "Scaling") -> bool:
        """Tell whether names and scaling are the same."""
        if self.names != other.names or self.coordinates != other.coordinates:
            return False
        if not torch.equal(self.shift, other.shift):
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
        return replace(self, shift=change(self.shift), scale=change(self.scale))

    def on(self, like: Tensor) -> TensorMap:
        """Map x (..., d) -> (x - shift) / scale, with x in its coordinates, for tensors of the dtype
        and device of `like`.

        Leading axes of x match problems with their own scaling from the left.
        """
        if self.symbols == self.names:
            return lambda x: x
        shift = self.shift.to(like)
        scale = self.scale.to(like)
        if not self.coordinates:
            return lambda x: (x - align(shift, x)) / align(scale, x)
        lowest = self.lowest

        def scaled(x: Tensor) -> Tensor:
            x = transform_contexts(x, self.coordinates, lowest)
            return (x - align(shift, x)) / align(scale, x)

        return scaled

    @property
    def middle(self) -> Tensor:
        """Variables (..., d) that are scaled to 0."""
        return self._drop_coordinates(self.shift)

    @functools.cached_property
    def lowest(self) -> Tensor:
        """Least variables (..., d) between those that are scaled to -1 and to 1."""
        ends = [self.shift - self.scale, self.shift + self.scale]
        return torch.minimum(*map(self._drop_coordinates, ends))

    def _drop_coordinates(self, values: Tensor) -> Tensor:
        """Return variables (..., d) whose coordinates have these values."""
        if not self.coordinates:
            return values
        columns = zip(values.unbind(-1), self.coordinates, strict=True)
        return torch.stack([COORDINATES[name].inverse(value) for value, name in columns], -1)

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        """Symbol of each variable in an equation: δ and its name where any problem scales it; one
        with a coordinate is always scaled.
        """
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
        coordinates = self.coordinates or (PLAIN,) * len(self)
        rows = zip(self.symbols, self.names, coordinates, numbers, strict=True)
        definitions = []
        for symbol, name, coordinate, (shift, scale) in rows:
            if symbol != name:
                moved = _moved(COORDINATES[coordinate].of(name), shift)
                definitions.append(f"{symbol} = {moved} / {scale:.6g}")
        return definitions


def _moved(name: str, shift: float) -> str:
    """Return text of a variable less a number, in brackets."""
    if not shift:
        return name
    sign = "-" if shift > 0 else "+"
    return f"({name} {sign} {abs(shift):.6g})"
