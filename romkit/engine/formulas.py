"""Elementwise ATen operations as expressions in C and C++. Operands are expressions (str) or Python numbers."""

import math
from collections.abc import Callable

Operand = str | int | float | bool | None


def number(x: float) -> str:
    """A number with all its digits."""
    if math.isfinite(x):
        return repr(float(x))
    return "NAN" if math.isnan(x) else "INFINITY" if x > 0 else "-INFINITY"


def literal(x: Operand) -> str:
    """An expression for an operand."""
    return x if isinstance(x, str) else f"T({number(x)})"


def vector(x: Operand) -> str:
    """Formula of vector type, where C++ does not convert by itself."""
    return f"vec({literal(x)})"


def _infix(symbol: str) -> Callable[..., str]:
    return lambda a, b: f"({literal(a)} {symbol} {literal(b)})"


def _call(name: str) -> Callable[..., str]:
    return lambda *operands: f"{name}({', '.join(map(vector, operands))})"


def _add(a: Operand, b: Operand, alpha: float = 1) -> str:
    """a + alpha b."""
    if abs(alpha) == 1:
        return f"({literal(a)} {'+' if alpha > 0 else '-'} {literal(b)})"
    return f"({literal(a)} + {literal(alpha)} * {literal(b)})"


_POWERS: dict[float, Callable[[str], str]] = {
    1: lambda a: a,
    2: lambda a: f"({a} * {a})",
    3: lambda a: f"({a} * {a} * {a})",
    0.5: lambda a: f"root({a})",
    -1: lambda a: f"(T(1) / {a})",
}


def _pow(a: Operand, b: Operand) -> str:
    if not isinstance(b, str) and b in _POWERS:
        return _POWERS[b](literal(a))
    return _call("power")(a, b)


def _clamp(a: Operand, low: Operand = None, high: Operand = None) -> str:
    lower = a if low is None else _call("larger")(a, low)
    return literal(lower) if high is None else _call("smaller")(lower, high)


_FUNCTIONS = {
    "maximum": "larger", "minimum": "smaller", "where": "choose", "sqrt": "root", "exp": "exponential",
    "expm1": "exponential_minus_one", "exp2": "exponential_two", "log": "logarithm", "log1p": "logarithm_one_plus",
    "log2": "logarithm_two", "log10": "logarithm_ten", "sin": "sine", "cos": "cosine", "tan": "tangent",
    "sinh": "hyperbolic_sine", "cosh": "hyperbolic_cosine", "tanh": "hyperbolic_tangent", "asin": "arcsine",
    "acos": "arccosine", "atan": "arctangent", "atan2": "angle", "erf": "error_function", "abs": "magnitude",
    "sign": "sign", "sgn": "sign", "floor": "down", "ceil": "up", "trunc": "towards_zero", "round": "nearest",
    "fmod": "rest", "lt": "less", "le": "less_equal", "eq": "equal", "ne": "unequal", "logical_and": "both",
    "bitwise_and": "both", "logical_or": "either", "bitwise_or": "either", "logical_not": "negation",
    "bitwise_not": "negation",
}  # fmt: skip
"""Function of `elementwise.h` that computes an ATen operation."""

FORMULAS: dict[str, Callable[..., str]] = {
    **{name: _call(function) for name, function in _FUNCTIONS.items()},
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
    "rsqrt": lambda a: f"(T(1) / root({a}))",
    "sigmoid": lambda a: f"(T(1) / (T(1) + exponential(-{a})))",
    "silu": lambda a: f"({a} / (T(1) + exponential(-{a})))",
    "threshold_backward": lambda v, a, threshold: _call("choose")(_call("less_equal")(a, threshold), 0, v),
    "sigmoid_backward": lambda v, y: f"({v} * {y} * (T(1) - {y}))",
    "tanh_backward": lambda v, y: f"({v} * (T(1) - {y} * {y}))",
    "gt": lambda a, b: _call("less")(b, a),
    "ge": lambda a, b: _call("less_equal")(b, a),
    "isnan": lambda a: _call("unequal")(a, a),
}
"""Formula of each ATen operation, by its name. Truth is 1, falsehood 0."""
