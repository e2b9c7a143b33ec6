"""Functions of tensors over whole balls of their inputs, from the operations of their trace.

Elementwise operations in a row are one function of at most two signals, whose derivatives are
bounded together; linear operations are matrices; a product of two matrices that both move is
elementwise products and sums.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from romkit.certificates.gains import gains
from romkit.certificates.jets import OPERATIONS, Jet, constant
from romkit.certificates.links import Argument, Signal, Units
from romkit.core.errors import InputError
from romkit.core.types import Args, Kwargs, Operation
from romkit.engine import Trace, Unsupported, trace
from romkit.engine.lower import VIEWS
from romkit.engine.trace import Call, is_symbol

HIDDEN = {"detach"}
"""Operations whose derivative is not that of their values, so that bounds would be of another map."""

SUMS = {"bmm", "cumsum", "mean", "mm", "sum"}
MOVES = {"_to_copy", "cat", "constant_pad_nd", "select_scatter", "slice_scatter", "stack"}

LINEAR = (VIEWS - HIDDEN) | SUMS | MOVES
"""Operations that are linear, or affine, in their tensors."""


Map = Callable[..., Tensor]
"""Function of tensors."""

Probes = Sequence[tuple[Tensor, ...]]
"""Inputs of a map, one tuple for each call."""

OF_SEVERAL = {"add", "sub", "rsub", "mul", "div", "root_of_sum"}
"""Elementwise operations of several tensors; the others take one, and numbers."""


@dataclass(eq=False)
class Expression:
    """Elementwise function of at most two signals, or (without `op`) a signal itself.

    Attributes:
        value: of any shape, at the centers of the balls.
        op, operands, options: the name of the operation and its arguments.
        sources: the signals that the expression is a function of.
        signal: its flattened form, once it has one.
        affine: whether its derivatives are known to be constant.
    """

    value: Tensor
    op: str | None = None
    operands: Args = ()
    options: Kwargs = field(default_factory=dict[str, Any])
    sources: tuple["Expression", ...] = ()
    signal: Signal | None = None
    affine: bool = True

    def jet(self, known: dict[int, Jet]) -> Jet:
        """Ranges of the expression where those of its sources are known."""
        if id(self) not in known:
            like = next(iter(known.values()))
            arguments = [self._argument(operand, known, like) for operand in self.operands]
            operation = OPERATIONS[self.op]
            known[id(self)] = operation(*arguments, **self.options)
        return known[id(self)]

    def _argument(self, operand: object, known: dict[int, Jet], like: Jet) -> object:
        """Jet of an operand, or a number that is no operand of its own."""
        if isinstance(operand, Expression):
            return operand.jet(known)
        if isinstance(operand, Tensor) or self.op in OF_SEVERAL:
            return constant(operand, like)
        return operand


def network(function: Map, units: Units, probes: Probes = ()) -> Signal:
    """Return value of the function at the inputs of `units`, each with a leading axis of one, as a
    flat signal.

    Args:
        function: of tensors.
        units: which the function's units are added to.
        probes: inputs, each with a leading axis of one, at which the recorded operations must have
            the values of the function.

    Raises:
        InputError: the function has an operation whose derivative has no known range, or values
            that its operations do not have.
    """
    centers = [signal.value.unsqueeze(0) for signal in units.inputs]
    try:
        recorded = trace(function, *centers, keep=OPERATIONS)
        signal = _Reader(units).read(recorded)
        _check_values(function, recorded, probes)
    except Unsupported as verdict:
        raise InputError(
            "projection",
            expected="maps with bounds",
            got=str(verdict),
            fix="write its maps with other operations of torch, see docs/guide/projections.md",
        ) from verdict
    return signal


def _check_values(function: Map, recorded: Trace, probes: Probes, *, agree: float = 1e-6) -> None:
    """Refuse a function whose values are not those of the operations that it was recorded with.

    A function that catches the error of a branch on values, looks at the kind of its inputs or
    counts its calls is recorded as a map that it is not.

    `agree`: largest relative difference of values from those of the recorded operations, which
    rounding has much smaller.
    """
    replay = None
    if is_symbol(recorded.result):
        replay = recorded.module()
    for inputs in probes:
        values = function(*inputs).double()
        again = recorded.result
        if replay is not None:
            again = replay(*inputs)
        tolerance = agree * float(values.abs().nan_to_num(0.0).amax())
        if not torch.allclose(again.double(), values, agree, tolerance, equal_nan=True):
            reason = (
                "values that are not those of its operations: drop caches and branches on values"
            )
            raise Unsupported(reason)


class _Reader:
    """Signals of a trace, operation by operation."""

    def __init__(self, units: Units):
        self.units = units
        self.known: dict[int, Expression] = {}

    def read(self, recorded: Trace) -> Signal:
        """Signal of the result."""
        for symbol, signal in zip(recorded.inputs, self.units.inputs, strict=True):
            value = signal.value.reshape(symbol.shape)
            self.known[id(symbol)] = _source(value, signal)
        for call in recorded.calls:
            self._call(call)
        result = recorded.result
        if not is_symbol(result):
            return self.units.constant(result.double().flatten())
        return self._signal(self.known[id(result)])

    def _call(self, call: Call) -> None:
        def resolved(leaf: object) -> object:
            if is_symbol(leaf):
                return self.known[id(leaf)]
            return leaf

        args, kwargs = tree_map(resolved, (call.args, call.kwargs))
        results = self._results(call, args, kwargs)
        for output, result in zip(call.outputs, results, strict=True):
            self.known[id(output)] = result

    def _results(self, call: Call, args: Args, kwargs: Kwargs) -> list[Expression]:
        """Expressions of the outputs of a call."""
        name = call.name
        if name in HIDDEN:
            raise Unsupported(f"{call.op}, whose derivative torch hides: drop it from the maps")
        if name in ("addcmul", "addcdiv"):
            return [self._combined(name, args, kwargs)]
        if name in OPERATIONS:
            return [self._elementwise(name, call.op, args, kwargs)]
        if name in ("mm", "bmm") and all(isinstance(x, Expression) for x in args):
            return [self._product(*args)]
        are_real = all(output.is_floating_point() for output in call.outputs)
        if name in LINEAR and are_real:
            return self._linear(call.op, args, kwargs)
        raise Unsupported(f"{call.op}, which has none")

    def _combined(self, name: str, args: Args, kwargs: Kwargs) -> Expression:
        """Return a + value · b c, or a + value · b / c."""
        base, *factors = args
        factors = tuple(factors)
        if name == "addcmul":
            term = self._elementwise("mul", torch.mul, factors, {})
        else:
            term = self._elementwise("div", torch.div, factors, {})
        scale = {"alpha": kwargs.get("value", 1)}
        return self._elementwise("add", torch.add, (base, term), scale)

    def _elementwise(self, name: str, op: Operation, args: Args, kwargs: Kwargs) -> Expression:
        takes = name in OF_SEVERAL or _moves_first_alone(args)
        if "rounding_mode" in kwargs or not takes:
            raise Unsupported(f"{op} of these arguments, which has none")
        value = op(*tree_map(_value, args), **kwargs)
        sources = _sources(args)
        if len(sources) > 2:
            # gains are bounded over boxes of two numbers: others become signals of their own
            args = tuple(self._settled(x) for x in args)
            sources = _sources(args)
        affine = _is_affine(name, args)
        op_name, operands, options = _fused(name, args, kwargs)
        expression = Expression(value, op_name, operands, options, sources, affine=affine)
        if affine and len(sources) == 2:
            # a sum of signals is one signal
            return self._settled(expression)
        return expression

    def _linear(self, op: Operation, args: Args, kwargs: Kwargs) -> list[Expression]:
        """Return outputs of a linear operation, whose matrices are its derivatives."""
        settled: dict[int, Expression] = {}

        def signal_of(leaf: object) -> object:
            if not isinstance(leaf, Expression):
                return leaf
            if id(leaf) not in settled:
                settled[id(leaf)] = self._settled(leaf)
            return settled[id(leaf)]

        args, kwargs = tree_map(signal_of, (args, kwargs))
        moving = list(settled.values())

        def results(*values: Tensor) -> list[Tensor]:
            value_of = dict(zip(map(id, moving), values, strict=True))

            def resolved(leaf: object) -> object:
                return value_of.get(id(leaf), leaf)

            arguments, options = tree_map(resolved, (args, kwargs))
            outputs = op(*arguments, **options)
            if isinstance(outputs, tuple | list):
                return list(outputs)
            return [outputs]

        centers = [x.value for x in moving]
        numbers = tuple(range(len(moving)))
        jacobians = torch.func.jacfwd(results, numbers)(*centers)
        expressions = []
        for value, by_input in zip(results(*centers), jacobians, strict=True):
            expressions.append(_source(value, _propagate(moving, by_input, value)))
        return expressions

    def _product(self, a: Expression, b: Expression) -> Expression:
        """Return product of two matrices that both move, as elementwise products and sums."""
        (a,) = self._linear(torch.unsqueeze, (a, -1), {})
        (b,) = self._linear(torch.unsqueeze, (b, -3), {})
        pairs = self._elementwise("mul", torch.mul, (a, b), {})
        (total,) = self._linear(torch.sum, (pairs, -2), {})
        return total

    def _settled(self, x: object) -> object:
        """Return an expression as a signal; anything else as it is."""
        if not isinstance(x, Expression) or x.op is None:
            return x
        return _source(x.value, self._signal(x))

    def _signal(self, x: Expression) -> Signal:
        """Signal of the expression, a unit for each of its entries."""
        if x.signal is None:
            x.signal = self._unit_range(x)
        return x.signal

    def _unit_range(self, x: Expression) -> Signal:
        shape = x.value.shape
        boxes, signals = [], []
        for source in x.sources:
            # which entry of the source each entry of the expression is a function of
            entry = torch.arange(source.value.numel()).reshape(source.value.shape)
            over = self.units.over(source.signal)
            box = over.map(lambda end, entry=entry: end[entry].unsqueeze(-1))
            boxes.append(box)
            rows = entry.expand(shape).flatten()
            fields = [field[rows] for field in source.signal]
            signals.append(Signal(*fields))

        def function(*jets: Jet) -> Jet:
            value = {id(source): jet for source, jet in zip(x.sources, jets, strict=True)}
            return x.jet(value)

        def flat(end: Tensor) -> Tensor:
            return end.expand(shape).flatten()

        value, derivatives = gains(function, boxes)
        arguments = []
        for signal, gain in zip(signals, derivatives, strict=True):
            arguments.append(Argument(signal, gain.map(flat)))
        center = x.value.flatten()
        signal = self.units.units(center, *arguments)
        below = (flat(value.low) - center).abs()
        reach = torch.maximum(below, (flat(value.high) - center).abs())
        reach = torch.minimum(signal.reach, reach)
        return signal._replace(reach=reach)


def _moves_first_alone(args: Args) -> bool:
    """Tell whether the first argument alone is a tensor that moves."""
    if not isinstance(args[0], Expression):
        return False
    return not any(isinstance(x, Expression | Tensor) for x in args[1:])


def _sources(args: Args) -> tuple[Expression, ...]:
    """Signals that arguments are functions of, each once."""
    sources: dict[int, Expression] = {}
    for x in args:
        if isinstance(x, Expression):
            for source in x.sources:
                sources[id(source)] = source
    return tuple(sources.values())


def _is_affine(name: str, args: Args) -> bool:
    """Tell whether an elementwise operation of these arguments has constant derivatives."""
    moving = [x for x in args if isinstance(x, Expression)]
    if not all(x.affine for x in moving):
        return False
    if name in ("add", "sub", "rsub", "neg"):
        return True
    if len(moving) != 1:
        return False
    if name == "div":
        return isinstance(args[0], Expression)
    return name == "mul"


def _fused(name: str, args: Args, kwargs: Kwargs) -> tuple[str, Args, Kwargs]:
    """√(u² + f) as one operation, any other as it is."""
    total = args[0]
    is_root = name == "sqrt" and total.op == "add"
    if is_root and total.options.get("alpha", 1) == 1:
        for square, term in itertools.permutations(total.operands):
            is_product = isinstance(square, Expression) and square.op == "mul"
            if is_product and square.operands[0] is square.operands[1]:
                return "root_of_sum", (square.operands[0], term), {}
    return name, tuple(args), kwargs


def _propagate(moving: Sequence[Expression], jacobians: Sequence[Tensor], value: Tensor) -> Signal:
    """Signal with this value and these derivatives (..., input) by expressions."""
    total = None
    for x, jacobian in zip(moving, jacobians, strict=True):
        term = x.signal.through(jacobian.reshape(value.numel(), -1))
        if total is None:
            total = term
        else:
            total = total.plus(term)
    # an affine operation has a value of its own
    return total._replace(value=value.double().flatten())


def _source(value: Tensor, signal: Signal) -> Expression:
    """Return a signal as an expression, which is a function of itself."""
    expression = Expression(value, signal=signal)
    expression.sources = (expression,)
    return expression


def _value(x: object) -> object:
    if isinstance(x, Expression):
        return x.value
    return x
