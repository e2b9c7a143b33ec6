"""Tensors at the boundary: what counts as real numbers, and as times, masks and states."""

import copy
import dataclasses
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch._guards import TracingContext
from torch.compiler import is_compiling
from torch.utils._python_dispatch import _get_current_dispatch_mode

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Array

Sized = TypeVar("Sized", Tensor, Array)

FLOATS = (torch.float64, torch.float32)
FIXES = {
    "complex": "give real and imaginary parts as two components",
    "bool": "give 0.0 or 1.0 for them",
}
"""Suggested fix for each dtype that is not real."""


def compiling() -> bool:
    """Tell whether torch.compile looks at what runs: by itself, or, as it does in torch 2.11 with
    tuples, by running it.
    """
    return is_compiling() or TracingContext.try_get() is not None


def recording() -> bool:
    """Tell whether a field is recorded, traced or compiled just now: values, if tensors have any,
    must not be looked at.
    """
    return compiling() or _get_current_dispatch_mode() is not None


def tensor(argument: str, value: object) -> Tensor:
    """Real numbers of any shape as a dense floating-point tensor. NaN is data: it says that a
    member has diverged.
    """
    if type(value) is Tensor and value.dtype in FLOATS and _is_dense(value):
        return value
    # real numbers of any kind as a tensor of any dtype
    numbers = value if isinstance(value, Tensor) else _convert_numpy(value)
    if numbers is None or numbers.is_complex() or numbers.dtype == torch.bool:
        raise _not_real(argument, value)
    _check_dense(argument, numbers)
    if numbers.dtype in FLOATS:
        return numbers
    if numbers.is_floating_point():
        # half precision
        return numbers.float()
    return numbers.double()


def _check_dense(argument: str, numbers: Tensor) -> None:
    """Raise where a tensor has no values, or not all of them."""
    if _is_dense(numbers):
        return
    # fields that are recorded have tensors without values
    if numbers.is_meta and recording():
        return
    raise _not_dense(argument, numbers)


def _is_dense(value: Tensor) -> bool:
    return value.layout is torch.strided and not value.is_meta and not value.is_quantized


def _not_real(argument: str, value: object) -> InputError:
    dtype = str(getattr(value, "dtype", ""))
    fix = "give numbers"
    for kind, fix_of_kind in FIXES.items():
        if kind in dtype:
            fix = fix_of_kind
    return InputError(
        argument, expected="real numbers (tensor, array or list)", got=checks.shown(value), fix=fix
    )


def _not_dense(argument: str, value: Tensor) -> InputError:
    kind = "meta" if value.is_meta else str(value.layout).removeprefix("torch.")
    return InputError(
        argument,
        expected="a dense tensor with values",
        got=f"a {kind} tensor",
        fix=f"give {argument}.to_dense()",
    )


def finite(argument: str, value: object) -> Tensor:
    """Real numbers of any shape as a dense floating-point tensor, all finite."""
    numbers = tensor(argument, value)
    if recording() or bool(numbers.isfinite().all()):
        return numbers
    raise InputError(
        argument, expected="finite numbers", got="NaN or infinity", fix="drop what is not finite"
    )


def times(argument: str, value: object) -> Tensor:
    """(T,) strictly increasing, finite times; at least one."""
    numbers = finite(argument, value)
    expected = "times that increase, on one axis"
    if numbers.ndim != 1 or len(numbers) == 0:
        raise InputError(
            argument, expected=expected, got=_shape(numbers), fix="give [0.0, 0.1, 0.2], say"
        )
    if bool((numbers.diff() <= 0).any()):
        raise InputError(
            argument, expected=expected, got="times that do not", fix="sort them, each once"
        )
    return numbers


def mask(argument: str, value: object) -> Tensor:
    """Booleans of any shape."""
    is_array = isinstance(value, Tensor | Array | list)
    if is_array and str(getattr(value, "dtype", "")).endswith("bool"):
        return torch.as_tensor(value)
    raise InputError(
        argument,
        expected="a tensor of booleans",
        got=checks.shown(value),
        fix="give a comparison such as x > 0",
    )


def array(argument: str, value: object) -> Array:
    """Real numbers of any shape as a floating-point NumPy array; NaN passes."""
    return tensor(argument, value).detach().cpu().numpy()


def states(argument: str, value: object, size: int, number: int) -> Tensor:
    """One state (size,) or one per trajectory (number, size), as finite float64 numbers (number,
    size).
    """
    numbers = finite(argument, value).detach().cpu().double()
    checks.last_axis(argument, numbers.shape, size, "the components of the state")
    try:
        return numbers.expand(number, size).clone()
    except RuntimeError as error:
        expected = f"one state ({size},)"
        if number > 1:
            expected += f", or {number} of them, as there are contexts"
        raise InputError(
            argument,
            expected=expected,
            got=_shape(numbers),
            fix="give as many as contexts, or one for all",
        ) from error


def parts(argument: str, value: object, order: int, size: int) -> None:
    """Require a state to be a tuple of `order` tensors (..., size): (x,), or (q, q̇) of a mechanical system."""
    if not isinstance(value, tuple) or len(value) != order:
        got = checks.shown(value)
        if isinstance(value, tuple):
            got = f"{len(value)} parts"
        meaning = {1: "(x,)", 2: "(q, q̇)"}[order]
        raise InputError(
            argument,
            expected=f"{meaning}, tensors (..., {size})",
            got=got,
            fix=f"give a tuple of {order}",
        )
    names = ("initial_state", "initial_velocity")
    for name, state in zip(names, value, strict=False):
        checks.last_axis(name, state.shape, size, "the components of the state")


def broadcast(**tensors: Tensor) -> None:
    """Shapes must broadcast against each other."""
    shapes = {name: tuple(values.shape) for name, values in tensors.items()}
    try:
        torch.broadcast_shapes(*shapes.values())
    except RuntimeError as error:
        *names, argument = shapes
        raise InputError(
            argument,
            expected=f"shapes that go with {', '.join(names)}",
            got=", ".join(f"{name} {shape}" for name, shape in shapes.items()),
            fix="compare equal runs",
        ) from error


def same_shape(**tensors: Tensor) -> None:
    """Shapes must be equal."""
    shapes = {name: tuple(values.shape) for name, values in tensors.items()}
    reference = next(iter(shapes))
    expected = f"shape {shapes[reference]}, as {reference}"
    for name, shape in shapes.items():
        if shape != shapes[reference]:
            raise InputError(name, expected=expected, got=f"shape {shape}", fix="give equal shapes")


def divisor(size: Sized) -> Sized:
    """Return sizes to divide by: 1 in place of zero, so that what does not change stays as it is."""
    if isinstance(size, Tensor):
        return torch.where(size > 0, size, 1.0)
    return np.where(size > 0, size, 1.0)


def alike(values: Array, others: Array) -> bool:
    """Tell whether labels are the same, numbers up to a change of precision."""
    if values.dtype.kind in "iuf" and others.dtype.kind in "iuf":
        return np.allclose(values, others, rtol=1e-6, atol=0.0, equal_nan=True)
    return np.array_equal(values, others)


def least_norm(matrix: Tensor, target: Tensor) -> Tensor:
    """Solve least squares (..., N, K) x = (..., N, k) of any rank; of all solutions, the least one."""
    if matrix.is_cuda:  # which has no such driver of LAPACK
        return torch.linalg.pinv(matrix) @ target
    return torch.linalg.lstsq(matrix, target, driver="gelsd").solution


Value = TypeVar("Value")


def copy_to_device(value: Value, device: torch.device | str) -> Value:
    """Copy what is made of tensors to a device: tensors, modules, dataclasses and tuples."""
    moved: object = value
    if isinstance(value, Tensor):
        moved = value.to(device)
    elif isinstance(value, torch.nn.Module):
        moved = copy.deepcopy(value).to(device)
    elif isinstance(value, tuple):
        tensors_ = [copy_to_device(tensor_, device) for tensor_ in value]
        moved = type(value)(*tensors_) if hasattr(value, "_fields") else tuple(tensors_)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        moved = copy.copy(value)
        for name, tensor_ in vars(value).items():
            # in place of __init__, which frozen classes may not accept all of
            object.__setattr__(moved, name, copy_to_device(tensor_, device))
    return cast("Value", moved)


def evenly(size: int, most: int) -> Tensor:
    """Return numbers of rows, evenly out of `size`, at most so many."""
    count = min(most, size)
    return torch.linspace(0, size - 1, count).round().long()


def matrix(argument: str, value: Tensor) -> None:
    """Require a tensor of two axes, with entries."""
    if value.ndim != 2 or 0 in value.shape:
        raise InputError(
            argument, expected="a matrix", got=_shape(value), fix="give a row for each sample"
        )


def axes(argument: str, value: object, names: str) -> Tensor:
    """Real numbers with at least these axes, "T n" say, none of them empty."""
    labels = names.split()
    numbers = tensor(argument, value)
    sizes = tuple(numbers.shape)[-len(labels) :]
    if len(sizes) == len(labels) and 0 not in sizes:
        return numbers
    raise InputError(
        argument,
        expected=f"shape (..., {', '.join(labels)})",
        got=_shape(numbers),
        fix="add the axis, or the entries that are missing",
    )


def _shape(value: Tensor) -> str:
    return f"shape {tuple(value.shape)}"


def _convert_numpy(value: object) -> Tensor | None:
    """None for what has no numbers in it; text that could be read as a number is none."""
    try:
        numbers = _fill_masked(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    if numbers.dtype.kind not in "iuf" or isinstance(value, str | bytes):
        return None
    dtype: np.dtype[Any] = np.dtype(np.float64)
    if numbers.dtype in (np.float16, np.float32):
        dtype = numbers.dtype
    return torch.from_numpy(np.array(numbers, dtype=dtype))


def _fill_masked(value: object) -> Array:
    """Return an array of NumPy, NaN where a mask says that nothing was measured."""
    arrays = value if isinstance(value, list | tuple) else (value,)
    if not any(isinstance(array, np.ma.MaskedArray) for array in arrays):
        return np.asarray(value)
    # lists of masked arrays lose their masks in np.asarray
    masked: Any = value
    if isinstance(value, list | tuple):
        masked = np.ma.stack(value)
    dtype = np.result_type(masked.dtype, np.float16)
    return masked.astype(dtype).filled(np.nan)
