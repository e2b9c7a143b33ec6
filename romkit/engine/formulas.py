"""Elementwise ATen operations as C++ expressions. Operands are expressions (str) or Python numbers."""

import math
from collections.abc import Callable

Operand = str | int | float | bool | None


def literal(x: Operand) -> str:
    """An expression for an operand; numbers keep all their digits."""
    if isinstance(x, str):
        return x
    if math.isnan(x):
        return 'T(__builtin_nan(""))'
    if math.isinf(x):
        return "T(__builtin_inf())" if x > 0 else "T(-__builtin_inf())"
    return f"T({float(x)!r})"


def vector(x: Operand) -> str:
    """Formula of vector type, where C++ does not convert by itself."""
    return f"vec({literal(x)})"


def _infix(symbol: str) -> Callable[..., str]:
    return lambda a, b: f"({literal(a)} {symbol} {literal(b)})"


def _call(name: str) -> Callable[..., str]:
    return lambda *operands: f"{name}({', '.join(map(vector, operands))})"


def _scaled(alpha: float, b: Operand) -> str:
    return literal(b) if alpha == 1 else f"{literal(alpha)} * {literal(b)}"


def _add(a: Operand, b: Operand, alpha: float = 1) -> str:
    return f"({literal(a)} + {_scaled(alpha, b)})"


def _sub(a: Operand, b: Operand, alpha: float = 1) -> str:
    return f"({literal(a)} - {_scaled(alpha, b)})"


def _rsub(a: Operand, b: Operand, alpha: float = 1) -> str:
    return f"({literal(b)} - {_scaled(alpha, a)})"


def _addcmul(a: Operand, b: Operand, c: Operand, value: float = 1) -> str:
    return f"({literal(a)} + {_scaled(value, b)} * {literal(c)})"


def _addcdiv(a: Operand, b: Operand, c: Operand, value: float = 1) -> str:
    return f"({literal(a)} + {_scaled(value, b)} / {literal(c)})"


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


FORMULAS: dict[str, Callable[..., str]] = {
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "mul": _infix("*"),
    "div": _infix("/"),
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "pow": _pow,
    "clamp": _clamp,
    "clamp_min": lambda a, low: _clamp(a, low),
    "clamp_max": lambda a, high: _clamp(a, None, high),
    "maximum": _call("larger"),
    "minimum": _call("smaller"),
    "relu": lambda a: _clamp(a, 0),
    "neg": lambda a: f"(-{a})",
    "reciprocal": lambda a: f"(T(1) / {a})",
    "rsqrt": lambda a: f"(T(1) / root({a}))",
    "threshold_backward": lambda v, a, threshold: _call("choose")(_call("less_equal")(a, threshold), 0, v),
    "sigmoid_backward": lambda v, y: f"({v} * {y} * (T(1) - {y}))",
    "tanh_backward": lambda v, y: f"({v} * (T(1) - {y} * {y}))",
    "sigmoid": lambda a: f"(T(1) / (T(1) + exponential(-{a})))",
    "silu": lambda a: f"({a} / (T(1) + exponential(-{a})))",
    "sqrt": _call("root"),
    "exp": _call("exponential"),
    "expm1": _call("exponential_minus_one"),
    "log": _call("logarithm"),
    "log1p": _call("logarithm_one_plus"),
    "sin": _call("sine"),
    "cos": _call("cosine"),
    "tan": _call("tangent"),
    "sinh": _call("hyperbolic_sine"),
    "cosh": _call("hyperbolic_cosine"),
    "tanh": _call("hyperbolic_tangent"),
    "atan": _call("arctangent"),
    "abs": _call("magnitude"),
    "sign": _call("sign"),
    "sgn": _call("sign"),
    "where": _call("choose"),
    "lt": _call("less"),
    "le": _call("less_equal"),
    "gt": lambda a, b: _call("less")(b, a),
    "ge": lambda a, b: _call("less_equal")(b, a),
    "eq": _call("equal"),
    "ne": _call("unequal"),
    "logical_and": _call("both"),
    "bitwise_and": _call("both"),
    "logical_or": _call("either"),
    "bitwise_or": _call("either"),
    "logical_not": _call("negation"),
    "bitwise_not": _call("negation"),
    "floor": _call("down"),
    "ceil": _call("up"),
    "trunc": _call("towards_zero"),
    "round": _call("nearest"),
    "fmod": _call("rest"),
    "atan2": _call("angle"),
    "asin": _call("arcsine"),
    "acos": _call("arccosine"),
    "erf": _call("error_function"),
    "exp2": _call("exponential_two"),
    "log2": _call("logarithm_two"),
    "log10": _call("logarithm_ten"),
    "isnan": lambda a: _call("unequal")(a, a),
}
"""C++ formula of each ATen operation, by its name. Truth is 1, falsehood 0."""
