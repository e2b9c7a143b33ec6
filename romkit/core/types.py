"""Types that all rooms share: fields, metrics, and values with tangents."""

import os
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, dataclass_transform

import numpy as np
from torch import Tensor

Array = np.ndarray


T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a dataclass whose fields stay and that equals itself alone, as tensors have no equality."""
    return dataclass(frozen=True, eq=False)(cls)


class Chunked(ABC):  # noqa: B024  of others' arrays, by their class
    """Any array in chunks of dask, which is not imported for this.

    Example:
        >>> import dask.array
        >>> from romkit.core.types import Chunked
        >>> isinstance(dask.array.zeros(3), Chunked)
        True
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, key: Any) -> Any: ...

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        """Tell whether a class is that of dask's arrays."""
        return other.__name__ == "Array" and other.__module__ == "dask.array.core"


Pair = tuple[Tensor, Tensor]

Tensors = dict[str, Tensor]

Names = tuple[str, ...]
"""Names of components, parameters, variables or dimensions, in their order."""

NameSequence = Sequence[str]
"""Names in a list or tuple of the user's."""

Shape = tuple[int, ...]
"""Sizes of axes, of layers or of pieces, in their order."""

Floats = tuple[float, ...]

TensorTuple = tuple[Tensor, ...]

ArrayPair = tuple[Array, Array]

Entries = dict[str, object]
"""Entries of a configuration, a report or a header."""

Settings = Mapping[str, object]
"""Values by name that are read alone."""

Variables = dict[str, tuple[Any, ...]]
"""Variables of a dataset by name: dimensions, values and attributes."""

Facts = dict[str, str]
"""What an object says of itself, by name, as text."""

Args = tuple[Any, ...]

Kwargs = dict[str, Any]
"""Arguments by place (`Args`) and by name of a call that is handed on."""

Operation = Callable[..., Any]

PathLike = str | os.PathLike[str]

TensorMap = Callable[[Tensor], Tensor]

TensorFunction = Callable[..., Tensor]

Field = Callable[[Tensor, Tensor], Tensor]
"""ẋ = f(t, x): t is a scalar tensor, x and the result are (..., n). The context is fixed already."""

SecondOrderField = Callable[[Tensor, Tensor, Tensor], Tensor]
"""q̈ = f(t, q, q̇) of a mechanical system, each (..., n)."""

ContextFunction = Callable[[Tensor], Tensor]
"""c(t), (..., p), of a context that varies in time: t is a scalar tensor."""

Metric = Callable[[Tensor, Tensor], Tensor]
"""(x, u) -> W(x) u: inner product of distances at states x (..., n), applied to columns u (..., n,
k).
"""


class Dual(NamedTuple):
    """A value and its tangent, the pair that every jvp returns (as torch.func.jvp does).

    Example:
        >>> import torch
        >>> from romkit.types import Dual
        >>> value, slope = Dual(*torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),)))
        >>> value, slope
        (tensor([0.]), tensor([1.]))
    """

    value: Tensor
    tangent: Tensor


class Jet(NamedTuple):
    """A value that moves along a curve, with its velocity and its acceleration; sums and products
    carry all three.

    Example:
        >>> import torch
        >>> from romkit.types import Jet
        >>> t = torch.tensor([2.0])
        >>> Jet(t, torch.ones(1), torch.zeros(1)).through(t**2, 2 * t, torch.tensor([2.0]))  # t² and its derivatives
        Jet(value=tensor([4.]), velocity=tensor([4.]), acceleration=tensor([2.]))
    """

    value: Tensor
    velocity: Tensor
    acceleration: Tensor

    def __add__(self, other: "Jet") -> "Jet":  # type: ignore[override]  # a sum, no longer tuple
        return Jet(*(a + b for a, b in zip(self, other, strict=True)))

    def __sub__(self, other: "Jet") -> "Jet":
        return Jet(*(a - b for a, b in zip(self, other, strict=True)))

    def __rmul__(self, constant: Tensor | float) -> "Jet":  # type: ignore[override]
        return Jet(*(constant * derivative for derivative in self))

    def __mul__(self, other: "Jet") -> "Jet":  # type: ignore[override]
        (x, v, a), (y, w, b) = self, other
        velocity = v * y + x * w
        acceleration = a * y + 2 * v * w + x * b
        return Jet(x * y, velocity, acceleration)

    def through(self, value: Tensor, slope: Tensor, bend: Tensor) -> "Jet":
        """σ along the curve, component by component, from σ, σ' and σ'' at its value."""
        _, v, a = self
        return Jet(value, slope * v, slope * a + bend * v * v)
