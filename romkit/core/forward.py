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
        if kwargs is None:
            kwargs = {}
        if _ends_in_a_number(args, kwargs):
            return WITH_NUMBER.get(function.__name__, function)(*args)
        rule = WITH_CONSTANT.get(function.__name__)
        if rule is None or not _takes(args, kwargs):
            return function(*args, **kwargs)
        operands = [unpack_dual(x) for x in args]
        constants = sum(x.tangent is None for x in operands)
        if constants in (0, len(operands)):
            return function(*args, **kwargs)
        value, tangent = rule(*operands, **kwargs)
        return make_dual(value, tangent)


def _ends_in_a_number(operands: tuple, settings: dict[str, object]) -> bool:
    """Whether an operation is of a tensor and a number."""
    return len(operands) == 2 and not settings and type(operands[1]) in (int, float)


def _takes(operands: tuple, settings: dict[str, object]) -> bool:
    """Whether the rules take operands and settings: tensors, and a factor of the last one."""
    if settings.keys() - {"alpha"}:
        return False
    return all(isinstance(x, Tensor) for x in operands)


def jvp(
    function: Callable[..., Tensor], points: tuple[Tensor, ...], directions: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """Value of a function and its derivative along directions, as `torch.func.jvp` gives them."""
    if recording():
        # a graph keeps the operations as they are
        return torch.func.jvp(function, points, directions)
    with Constants():
        return torch.func.jvp(function, points, directions)
