"""Derivatives along directions, by torch's forward mode."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.forward_ad import UnpackedDualTensor as Moving
from torch.autograd.forward_ad import make_dual, unpack_dual
from torch.overrides import TorchFunctionMode

from romkit.core.tensors import recording

aten = torch.ops.aten


def _sum(x: Moving, y: Moving, alpha: float = 1) -> tuple[Tensor, Tensor]:
    value = torch.add(x.primal, y.primal, alpha=alpha)
    tangent = x.tangent
    if tangent is None:
        tangent = y.tangent * alpha
    return value, tangent.to(value.dtype).expand_as(value)


def _difference(x: Moving, y: Moving, alpha: float = 1) -> tuple[Tensor, Tensor]:
    value = torch.sub(x.primal, y.primal, alpha=alpha)
    tangent = x.tangent
    if tangent is None:
        tangent = -(y.tangent * alpha)
    return value, tangent.to(value.dtype).expand_as(value)


def _product(x: Moving, y: Moving) -> tuple[Tensor, Tensor]:
    value = x.primal * y.primal
    if x.tangent is None:
        return value, x.primal * y.tangent
    return value, x.tangent * y.primal


def _quotient(x: Moving, y: Moving) -> tuple[Tensor, Tensor]:
    value = x.primal / y.primal
    if x.tangent is None:
        return value, -(y.tangent * value) / y.primal
    return value, x.tangent / y.primal


def _sum_with_product(x: Moving, y: Moving, z: Moving) -> tuple[Tensor, Tensor]:
    value = torch.addcmul(x.primal, y.primal, z.primal)
    terms = []
    if x.tangent is not None:
        terms.append(x.tangent)
    if y.tangent is not None:
        terms.append(y.tangent * z.primal)
    if z.tangent is not None:
        terms.append(z.tangent * y.primal)
    tangent = sum(terms[1:], terms[0])
    return value, tangent.to(value.dtype).expand_as(value)


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
    "addcmul": _sum_with_product,
}
"""Value and tangent of an operation with tensors of which some have no tangent."""


class Constants(TorchFunctionMode):
    """Arithmetic with numbers and tensors that have no tangent.

    torch gives them a tangent of zeros without memory, for which it runs Python code that takes ten
    times as long as the operation. The values here are the same, bit for bit.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        settings = kwargs or {}
        name = function.__name__
        if len(args) == 2 and not settings and type(args[1]) in (int, float):
            return WITH_NUMBER.get(name, function)(*args)
        rule = WITH_CONSTANT.get(name)
        if rule is None or settings.keys() - {"alpha"}:
            return function(*args, **settings)
        if not all(isinstance(x, Tensor) for x in args):
            return function(*args, **settings)
        operands = [unpack_dual(x) for x in args]
        constant = [x.tangent is None for x in operands]
        if all(constant) or not any(constant):
            return function(*args, **settings)
        value, tangent = rule(*operands, **settings)
        return make_dual(value, tangent)


def jvp(
    function: Callable[..., Tensor], points: tuple[Tensor, ...], directions: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """Value of a function and its derivative along directions, as `torch.func.jvp` gives them."""
    if recording():
        # a graph keeps the operations as they are
        return torch.func.jvp(function, points, directions)
    with Constants():
        return torch.func.jvp(function, points, directions)
