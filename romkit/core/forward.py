"""Derivatives along directions, by torch's forward mode."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.forward_ad import make_dual, unpack_dual
from torch.overrides import TorchFunctionMode

from romkit.core.tensors import recording

aten = torch.ops.aten


def _sum(x: Tensor, dx: Tensor | None, y: Tensor, dy: Tensor | None) -> tuple[Tensor, Tensor]:
    value = x + y
    tangent = dy if dx is None else dx
    return value, tangent.expand_as(value)


def _difference(
    x: Tensor, dx: Tensor | None, y: Tensor, dy: Tensor | None
) -> tuple[Tensor, Tensor]:
    value = x - y
    tangent = -dy if dx is None else dx
    return value, tangent.expand_as(value)


def _product(x: Tensor, dx: Tensor | None, y: Tensor, dy: Tensor | None) -> tuple[Tensor, Tensor]:
    tangent = x * dy if dx is None else dx * y
    return x * y, tangent


def _quotient(x: Tensor, dx: Tensor | None, y: Tensor, dy: Tensor | None) -> tuple[Tensor, Tensor]:
    value = x / y
    tangent = -(dy * value) / y if dx is None else dx / y
    return value, tangent


def _reciprocal(x: Tensor, number: float) -> Tensor:
    """number / x, in torch's own two steps."""
    return aten.mul.Scalar(x.reciprocal(), number)


WITH_NUMBER = {
    "add": aten.add.Scalar,
    "__add__": aten.add.Scalar,
    "__radd__": aten.add.Scalar,
    "sub": aten.sub.Scalar,
    "__sub__": aten.sub.Scalar,
    "mul": aten.mul.Scalar,
    "__mul__": aten.mul.Scalar,
    "__rmul__": aten.mul.Scalar,
    "div": aten.div.Scalar,
    "__truediv__": aten.div.Scalar,
    "__rtruediv__": _reciprocal,
    "__rdiv__": _reciprocal,
}
"""Operation of a tensor with a number, by the name of that with two tensors."""

WITH_CONSTANT = {
    "add": _sum,
    "__add__": _sum,
    "sub": _difference,
    "__sub__": _difference,
    "mul": _product,
    "__mul__": _product,
    "div": _quotient,
    "__truediv__": _quotient,
}
"""Value and tangent of an operation with two tensors, of which one has no tangent."""


class Constants(TorchFunctionMode):
    """Arithmetic with numbers and tensors that have no tangent.

    torch gives them a tangent of zeros without memory, for which it runs Python code that takes ten
    times as long as the operation. The values here are the same, bit for bit.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if kwargs:
            return function(*args, **kwargs)
        if len(args) != 2 or not isinstance(args[0], Tensor):
            return function(*args)
        x, y = args
        name = function.__name__
        if type(y) in (int, float):
            return WITH_NUMBER.get(name, function)(x, y)
        rule = WITH_CONSTANT.get(name)
        if rule is None or not isinstance(y, Tensor):
            return function(x, y)
        x_value, dx = unpack_dual(x)
        y_value, dy = unpack_dual(y)
        if (dx is None) == (dy is None):
            return function(x, y)
        return make_dual(*rule(x_value, dx, y_value, dy))


def jvp(
    function: Callable[..., Tensor], points: tuple[Tensor, ...], directions: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """Value of a function and its derivative along directions, as `torch.func.jvp` gives them."""
    if recording():
        # a graph keeps the operations as they are
        return torch.func.jvp(function, points, directions)
    with Constants():
        return torch.func.jvp(function, points, directions)
