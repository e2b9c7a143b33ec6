"""Numbers in arrays: tensors, NumPy arrays and lists as the tensors that romkit computes with.

Single and double precision stay, half becomes single; integers and lists become float64. What has no real numbers in
it, booleans among them, is refused: nobody means it, and a conversion would drop something.
"""

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from romkit import checks
from romkit.errors import InputError

FLOATS = (torch.float64, torch.float32)


def recording() -> bool:
    """Whether a field is recorded or traced just now: values, if tensors have any, must not be looked at."""
    return _get_current_dispatch_mode() is not None


def tensor(argument: str, value: object) -> Tensor:
    """Real numbers of any shape as a dense floating-point tensor. NaN is data: it says that a member has diverged."""
    if type(value) is Tensor and value.dtype in FLOATS and value.layout is torch.strided and not value.is_meta:
        return value
    found = value if isinstance(value, Tensor) else _from_numpy(value)
    expected = "real numbers in a tensor, an array or a list"
    if found is None or found.is_complex() or found.dtype == torch.bool:
        raise InputError(argument, expected=expected, got=checks.shown(value), fix=f"convert {argument} first")
    if found.layout is not torch.strided or (found.is_meta and not recording()) or found.is_quantized:
        got = f"a {'meta' if found.is_meta else str(found.layout).removeprefix('torch.')} tensor"
        raise InputError(argument, expected="a dense tensor with values", got=got, fix=f"give {argument}.to_dense()")
    if found.dtype in FLOATS:
        return found
    return found.float() if found.is_floating_point() else found.double()


def finite(argument: str, value: object) -> Tensor:
    """The same, with finite numbers."""
    found = tensor(argument, value)
    if recording() or bool(found.isfinite().all()):
        return found
    raise InputError(argument, expected="finite numbers", got="NaN or infinity", fix="drop what is not finite")


def times(argument: str, value: object) -> Tensor:
    """(T,) strictly increasing, finite times; at least one."""
    found = finite(argument, value)
    if found.ndim == 1 and len(found) >= 1 and not bool((found.diff() <= 0).any()):
        return found
    got, fix = f"shape {tuple(found.shape)}{', not increasing' if found.ndim == 1 else ''}", "sort the times"
    raise InputError(argument, expected="a 1-D increasing tensor", got=got, fix=fix)


def mask(argument: str, value: object) -> Tensor:
    """Booleans of any shape."""
    if isinstance(value, Tensor | np.ndarray | list) and str(getattr(value, "dtype", "")).endswith("bool"):
        return torch.as_tensor(value)
    raise InputError(argument, expected="a tensor of booleans", got=checks.shown(value), fix="compare, x > 0 say")


def array(argument: str, value: object) -> np.ndarray:
    """Real numbers of any shape as a floating-point NumPy array; NaN passes."""
    return tensor(argument, value).detach().cpu().numpy()


def states(argument: str, value: object, size: int, number: int) -> Tensor:
    """One state (size,) or one per trajectory (number, size), as finite float64 numbers (number, size)."""
    found = finite(argument, value).detach().cpu().double()
    checks.last_axis(argument, found.shape, size, "the components of the state")
    if found.ndim > 2 or (found.ndim == 2 and len(found) not in (1, number)):
        expected, got = f"one state or {number}", f"shape {tuple(found.shape)}"
        raise InputError(argument, expected=expected, got=got, fix="match the contexts")
    return found.expand(number, -1).clone()


def parts(argument: str, value: object, order: int, size: int) -> None:
    """A state is a tuple of `order` tensors (..., size): (x,), or (q, q̇) of a mechanical system."""
    meaning = "(x,)" if order == 1 else "(q, q̇)"
    if not isinstance(value, tuple) or len(value) != order:
        got = f"{len(value)} parts" if isinstance(value, tuple) else checks.shown(value)
        fix = f"give a tuple of {order}"
        raise InputError(argument, expected=f"{meaning}, tensors (..., {size})", got=got, fix=fix)
    for name, part in zip(("initial_state", "initial_velocity"), value, strict=False):
        checks.last_axis(name, part.shape, size, "the components of the state")


def broadcast(**tensors: Tensor) -> None:
    """Shapes must broadcast against each other."""
    try:
        torch.broadcast_shapes(*(each.shape for each in tensors.values()))
    except RuntimeError as error:
        got = ", ".join(f"{name} {tuple(each.shape)}" for name, each in tensors.items())
        expected, fix = f"shapes that go with {', '.join([*tensors][:-1])}", "compare equal runs"
        raise InputError([*tensors][-1], expected=expected, got=got, fix=fix) from error


def same_shape(**tensors: Tensor) -> None:
    """Shapes must be equal."""
    (first, shape), *others = ((name, tuple(each.shape)) for name, each in tensors.items())
    for name, other in others:
        if other != shape:
            raise InputError(name, expected=f"shape {shape}, as {first}", got=f"shape {other}", fix="give equal shapes")


def matrix(argument: str, value: Tensor) -> None:
    """The tensor must have two axes, with entries."""
    if value.ndim != 2 or 0 in value.shape:
        fix = "give a row for each sample"
        raise InputError(argument, expected="a matrix", got=f"shape {tuple(value.shape)}", fix=fix)


def axes(argument: str, value: Tensor, names: str) -> None:
    """The tensor must have at least these axes, "T n" say, none of them empty."""
    number = len(names.split())
    if value.ndim >= number and 0 not in value.shape[value.ndim - number :]:
        return
    expected, fix = f"shape (..., {', '.join(names.split())})", "add the axis, or the entries that are missing"
    raise InputError(argument, expected=expected, got=f"shape {tuple(value.shape)}", fix=fix)


def _from_numpy(value: object) -> Tensor | None:
    """None for what has no numbers in it; text that could be read as a number is none."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    if found.dtype.kind not in "iuf" or isinstance(value, str | bytes):
        return None
    dtype = found.dtype if found.dtype in (np.float16, np.float32, np.float64) else np.float64
    return torch.from_numpy(np.array(found, dtype=dtype))
