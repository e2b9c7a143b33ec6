"""Elementwise ATen operations as expressions in C and C++. Operands are expressions (str) or Python
numbers.
"""

import math
import re
from collections.abc import Callable

from romkit.engine.build import source_text

Operand = str | int | float | bool | None


def number(x: float) -> str:
    """Return a number with all its digits."""
    if math.isfinite(x):
        return repr(float(x))
    if math.isnan(x):
        return "NAN"
    return "INFINITY" if x > 0 else "-INFINITY"


def literal(x: Operand) -> str:
    """Return an expression for an operand."""
    if x is None:
        raise TypeError("no number")
    return x if isinstance(x, str) else f"T({number(x)})"


def vector(x: Operand) -> str:
    """Return formula of vector type, where C++ does not convert by itself."""
    return f"vec({literal(x)})"


def _infix(symbol: str) -> Callable[..., str]:
    return lambda a, b: f"({literal(a)} {symbol} {literal(b)})"


def _call(name: str) -> Callable[..., str]:
    return lambda *operands: f"{name}({', '.join(map(vector, operands))})"


def _add(a: Operand, b: Operand, alpha: float = 1) -> str:
    """Return a + alpha b."""
    a, b = literal(a), literal(b)
    if alpha == 1:
        return f"({a} + {b})"
    if alpha == -1:
        return f"({a} - {b})"
    return f"({a} + {literal(alpha)} * {b})"


_POWERS: dict[float, Callable[[str], str]] = {
    1: lambda a: a,
    2: lambda a: f"({a} * {a})",
    3: lambda a: f"({a} * {a} * {a})",
    0.5: lambda a: f"each_sqrt({a})",
    -1: lambda a: f"(T(1) / {a})",
}


def _pow(a: Operand, b: Operand) -> str:
    """Power; products and roots where the exponent is a frequent number."""
    if not isinstance(b, str) and b in _POWERS:
        return _POWERS[b](literal(a))
    return _call("each_pow")(a, b)


def _clamp(a: Operand, low: Operand = None, high: Operand = None) -> str:
    """Return the number between two limits, either of which may be absent."""
    clamped = a
    if low is not None:
        clamped = _call("each_maximum")(clamped, low)
    if high is not None:
        clamped = _call("each_minimum")(clamped, high)
    return literal(clamped)


FUNCTIONS = re.findall(r"each_(\w+)\(V", source_text("elementwise.h"))
"""ATen operations that functions of the header compute, of the same name behind `each_`."""

FORMULAS: dict[str, Callable[..., str]] = {
    **{name: _call(f"each_{name}") for name in FUNCTIONS},
    **{f"bitwise_{name}": _call(f"each_logical_{name}") for name in ("and", "or", "not")},
    "sgn": _call("each_sign"),
    "add": _add,
    "sub": lambda a, b, alpha=1: _add(a, b, -alpha),
    "rsub": lambda a, b, alpha=1: _add(b, a, -alpha),
    "mul": _infix("*"),
    "div": _infix("/"),
    "addcmul": lambda a, b, c, value=1: _add(a, f"{literal(b)} * {literal(c)}", value),
    "addcdiv": lambda a, b, c, value=1: _add(a, f"{literal(b)} / {literal(c)}", value),
    "pow": _pow,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda a, high: _clamp(a, None, high),
    "relu": lambda a: _clamp(a, 0),
    "neg": lambda a: f"(-{a})",
    "reciprocal": lambda a: f"(T(1) / {a})",
    "rsqrt": lambda a: f"(T(1) / each_sqrt({a}))",
    "sigmoid": lambda a: f"(T(1) / (T(1) + each_exp(-{a})))",
    "silu": lambda a: f"({a} / (T(1) + each_exp(-{a})))",
    "threshold_backward": lambda v, a, threshold: _call("each_where")(
        _call("each_le")(a, threshold), 0, v
    ),
    "sigmoid_backward": lambda v, y: f"({v} * {y} * (T(1) - {y}))",
    "tanh_backward": lambda v, y: f"({v} * (T(1) - {y} * {y}))",
    "gt": lambda a, b: _call("each_lt")(b, a),
    "ge": lambda a, b: _call("each_le")(b, a),
    "isnan": lambda a: _call("each_ne")(a, a),
}
"""Formula of each ATen operation, by its name. Truth is 1, falsehood 0."""
