"""Derivatives of right-hand sides that torch cannot see through: NumPy, SciPy, compiled code."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from romkit.core.errors import InputError, one_line
from romkit.core.tensors import divisor
from romkit.core.types import Args, Array

Function = Callable[..., Tensor]
"""(t, *arguments) -> a rate, all tensors."""

FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AttributeError)
"""Errors of code outside of torch that meets tensors of `torch.func` or with gradients, and of
right-hand sides that take no batches.
"""

FIX = (
    "index the last axis, x[..., 0], and put components together by torch.stack(..., dim=-1), or "
    "numpy.stack(..., axis=-1) of x.numpy()"
)

STEP = torch.finfo(torch.float64).eps ** (1 / 3)
"""Relative step of central differences, at which truncation and rounding are alike."""


def differentiable(function: Function) -> Function:
    """Return a right-hand side with derivatives: its own by torch, or central differences where it
    is not written in torch.

    `torch.func.jvp`, `jacfwd` and `vmap` and backward gradients work on the result.

    Raises:
        InputError: names the function, where it fails with plain numbers, too.
    """

    def rate(t: Tensor, *arguments: Tensor) -> Tensor:
        try:
            value: Tensor | Array = function(t, *arguments)
        except FAILURES:
            # called with plain numbers there, where an error of its own comes up again
            return _Foreign.apply(function, t, *arguments)
        if isinstance(value, Array):
            value = torch.from_numpy(value)
            _check_real(function, value, arguments[0])
            value = value.to(arguments[0])
        elif isinstance(value, Tensor):
            _check_real(function, value, arguments[0])
        lacks_gradient = torch.is_grad_enabled() and not getattr(value, "requires_grad", True)
        if lacks_gradient and any(argument.requires_grad for argument in arguments):
            return _Foreign.apply(function, t, *arguments)
        return value

    return rate


def _check_real(function: Function, rate: Tensor, x: Tensor) -> None:
    """Raise where the rate of a real state is complex: a cast would drop its imaginary part."""
    if not rate.is_complex() or x.is_complex():
        return
    raise InputError(
        getattr(function, "__qualname__", "the right-hand side"),
        expected="real rates of real states",
        got="complex numbers",
        fix="return .real of a transform that is real; a complex state is two components, "
        "its real and its imaginary part",
    )


class _Foreign(torch.autograd.Function):
    """A function of plain tensors, differentiated by central differences."""

    @staticmethod
    def forward(function: Function, t: Tensor, *arguments: Tensor) -> Tensor:
        plain = [argument.detach() for argument in arguments]
        try:
            rate = torch.as_tensor(function(t, *plain))
            _check_real(function, rate, arguments[0])
            return rate.to(arguments[0])
        except InputError:
            raise
        except FAILURES as error:
            shapes = ", ".join(str(tuple(argument.shape)) for argument in arguments)
            name = getattr(function, "__qualname__", "the right-hand side")
            raise InputError(
                name,
                expected="a rate (..., n) of states (..., n) and contexts (..., p)",
                got=f"{type(error).__name__} ({one_line(str(error))}) at shapes {shapes}",
                fix=FIX,
            ) from error

    @staticmethod
    def setup_context(ctx: Any, inputs: Args, output: Tensor) -> None:
        ctx.function, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def jvp(ctx: Any, _: object, dt: Tensor | None, *tangents: Tensor | None) -> Tensor:
        t, *arguments = ctx.saved_tensors
        lengths, sizes = [], []
        for x, tangent in zip(arguments, tangents, strict=True):
            if tangent is not None:
                lengths.append(tangent.abs().amax())
                sizes.append(x.abs().amax())
        length = torch.stack(lengths).amax()
        size = torch.stack(sizes).amax()
        h = STEP * (1 + size) / divisor(length)
        return _central_difference(ctx.function, t, arguments, tangents, h)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        t, *arguments = ctx.saved_tensors
        products: list[Tensor | None] = [None] * len(arguments)
        for k, is_needed in enumerate(ctx.needs_input_grad[2:]):
            if is_needed:
                products[k] = _transposed_product(ctx.function, t, arguments, k, gradient)
        return None, None, *products

    @staticmethod
    def vmap(info: Any, dims: Args, function: Function, *tensors: Tensor) -> tuple[Tensor, int]:
        _, *axes = dims
        size = info.batch_size
        if axes[0] is None:
            # states and contexts take leading axes, so that a batch is one call
            t, *arguments = tensors
            batch = [
                x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0)
                for x, axis in zip(arguments, axes[1:], strict=True)
            ]
            return _Foreign.apply(function, t, *batch), 0
        rates = []
        for k in range(size):
            pairs = zip(tensors, axes, strict=True)
            row = [x if axis is None else x.select(axis, k) for x, axis in pairs]
            rates.append(_Foreign.apply(function, *row))
        return torch.stack(rates), 0


def _central_difference(
    function: Function,
    t: Tensor,
    arguments: Sequence[Tensor],
    directions: Sequence[Tensor | None],
    h: Tensor,
) -> Tensor:
    """Return derivative of a function along directions, of which None is zero."""
    ahead, behind = [], []
    for x, direction in zip(arguments, directions, strict=True):
        step = torch.zeros_like(x) if direction is None else h * direction
        ahead.append(x + step)
        behind.append(x - step)
    rate_ahead = _Foreign.apply(function, t, *ahead)
    return (rate_ahead - _Foreign.apply(function, t, *behind)) / (2 * h)


def _transposed_product(
    function: Function, t: Tensor, arguments: list[Tensor], k: int, gradient: Tensor
) -> Tensor:
    """Return gradient times the derivative by the k-th argument, entry by entry of that."""
    x = arguments[k]
    products = []
    for unit in torch.eye(x.numel(), dtype=x.dtype).reshape(-1, *x.shape):
        directions: list[Tensor | None] = [None] * len(arguments)
        directions[k] = unit
        h = STEP * (1 + (x * unit).abs().sum())
        column = _central_difference(function, t, arguments, directions, h)
        products.append((gradient * column).sum())
    return torch.stack(products).reshape(x.shape)
