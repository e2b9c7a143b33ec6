"""Coordinates of context parameters: the functions of a parameter in which models depend on it.

A resistance may act by its inverse, a rate that varies over decades by its logarithm. Data say which
one models take by the attribute `coordinate` of the parameter; parameters stay in their own units
everywhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import TensorMap
from romkit.data.context import context_names, context_ranges

if TYPE_CHECKING:
    import sympy

ATTRIBUTE = "coordinate"
"""Attribute of a context parameter that has the name of its coordinate."""

PLAIN = "c"
"""Name of the parameter itself as its coordinate."""

NEAREST = 0.1
"""Share of the lowest training value at which 1/c and log c stop, since they end at zero."""


@dataclass(frozen=True)
class Coordinate:
    """A monotonic function of a positive parameter c.

    Attributes:
        name: of the function, in c.
        forward, inverse: of values, elementwise.
    """

    name: str
    forward: TensorMap
    inverse: TensorMap

    def of(self, parameter: str) -> str:
        """Return the function of a parameter as text, `1/R` or `log R`."""
        if self.name == PLAIN:
            return parameter
        return f"{self.name.removesuffix(PLAIN)}{parameter}"

    def symbolic(self, x: "sympy.Symbol") -> "sympy.Expr":
        """Return the function of a symbol."""
        import sympy

        if self.name == "1/c":
            return 1 / x
        if self.name == "log c":
            return sympy.log(x)
        return x


COORDINATES = {
    PLAIN: Coordinate(PLAIN, lambda u: u, lambda u: u),
    "1/c": Coordinate("1/c", torch.reciprocal, torch.reciprocal),
    "log c": Coordinate("log c", torch.log, torch.exp),
}
"""Coordinates by name, the parameter itself first."""


def are_worth_a_try(low: float, high: float, *, curved: float = 1.2) -> bool:
    """Tell whether 1/c and log c differ enough from a parameter with such a range.

    `curved`: ratio of the ends of a parameter's range from which 1/c and log c are worth a try.
    """
    near, far = sorted((abs(low), abs(high)))
    return low * high > 0 and far > curved * near


def coordinates_of(data: xr.Dataset) -> tuple[str, ...]:
    """Return name of the coordinate of each context parameter, that of the parameter itself where
    the data say nothing.

    Raises:
        InputError: an unknown name, or a parameter that is not positive in one of the others.
    """
    names = []
    lowest, _ = context_ranges(data)
    for parameter, low in zip(context_names(data), lowest, strict=True):
        name = data[parameter].attrs.get(ATTRIBUTE, PLAIN)
        checks.one_of(ATTRIBUTE, name, COORDINATES)
        if name != PLAIN and not low > 0:
            expected = f"positive values of {parameter}, whose coordinate is {name}"
            fix = f"drop its attribute {ATTRIBUTE}"
            raise InputError("data", expected=expected, got=f"{low:g}", fix=fix)
        names.append(name)
    return tuple(names)


def assign_coordinates(data: xr.Dataset, names: Mapping[str, str]) -> xr.Dataset:
    """Return data in which these context parameters have coordinates of these names."""
    changed = {}
    for parameter, name in names.items():
        changed[parameter] = data[parameter].assign_attrs({ATTRIBUTE: name})
    return data.assign_coords(changed)


def transform_contexts(values: Tensor, names: tuple[str, ...], lowest: Tensor) -> Tensor:
    """Return contexts (..., p) in the coordinates of these names; below a share of the lowest
    training value (p,) they stay, since 1/c and log c end at zero.
    """
    columns = []
    lowest = lowest.to(values)
    for value, name, low in zip(values.unbind(-1), names, lowest.unbind(-1), strict=True):
        if name != PLAIN:
            value = torch.maximum(value, NEAREST * low)
        columns.append(COORDINATES[name].forward(value))
    return torch.stack(columns, -1)
