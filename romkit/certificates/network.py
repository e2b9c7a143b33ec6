"""Functions of tensors over whole balls of their inputs, from the operations of their trace.

Elementwise operations in a row are one function of at most two signals, whose derivatives are
bounded together; linear operations are matrices; a product of two matrices that both move is
elementwise products and sums.
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from romkit.certificates.intervals import OPERATIONS, Jet, constant, gains
from romkit.certificates.links import Argument, Signal, Units
from romkit.core.errors import InputError
from romkit.engine import Trace, Unsupported, trace
from romkit.engine.lower import VIEWS
from romkit.engine.trace import Call, is_symbol

LINEAR = (VIEWS - {"detach"}) | {
    "_to_copy",
    "bmm",
    "cat",
    "constant_pad_nd",
    "cumsum",
    "mean",
    "mm",
    "select_scatter",
}
LINEAR |= {"slice_scatter", "stack", "sum"}
"""Operations that are linear, or affine, in their tensors."""

HIDDEN = {"detach"}
"""Operations whose derivative is not that of their values, so that bounds would be of another map."""

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
    operands: tuple = ()
    options: dict = field(default_factory=dict)
    sources: tuple["Expression", ...] = ()
    signal: Signal | None = None
    affine: bool = True

    def jet(self, known: dict[int, Jet]) -> Jet:
        """Ranges of the expression where those of its sources are known."""
        if id(self) not in known:
            like = next(iter(known.values()))
            tensors = [
                x.jet(known)
                if isinstance(x, Expression)
                else constant(x, like)
                if isinstance(x, Tensor)
                else x
                for x in self.operands
            ]
            if self.op in OF_SEVERAL:
                tensors = [x if isinstance(x, Jet) else constant(x, like) for x in tensors]
            known[id(self)] = OPERATIONS[self.op](*tensors, **self.options)
        return known[id(self)]


def network(function: Callable[..., Tensor], units: Units) -> Signal:
    """Value of the function at the inputs of `units`, each with a leading axis of one, as a flat
    signal.

    Raises:
        InputError: the function has an operation whose derivative has no known range.
    """
    centers = [signal.value for signal in units.inputs]
    try:
        found = trace(function, *(center.unsqueeze(0) for center in centers), keep=OPERATIONS)
        return _Reader(units).read(found)
    except Unsupported as verdict:
        fix = "write its maps with other operations of torch, see docs/guide/projections.md"
        raise InputError(
            "projection", expected="maps with bounds", got=str(verdict), fix=fix
        ) from verdict


class _Reader:
    def __init__(self, units: Units):
        self.units = units
        self.known: dict[int, Expression] = {}

    def read(self, found: Trace) -> Signal:
        for symbol, signal in zip(found.inputs, self.units.inputs, strict=True):
            self.known[id(symbol)] = _source(signal.value.reshape(symbol.shape), signal)
        for call in found.calls:
            self._call(call)
        if not is_symbol(found.result):
            return self.units.constant(found.result.double().flatten())
        return self._signal(self.known[id(found.result)])

    def _call(self, call: Call) -> None:
        def resolved(leaf: object) -> object:
            return self.known[id(leaf)] if is_symbol(leaf) else leaf

        args, kwargs = tree_map(resolved, (call.args, call.kwargs))
        results = self._results(call, args, kwargs)
        self.known |= zip(map(id, call.outputs), results, strict=True)

    def _results(self, call: Call, args: tuple, kwargs: dict) -> list[Expression]:
        """Expressions of the outputs of a call."""
        if call.name in HIDDEN:
            raise Unsupported(f"{call.op}, whose derivative torch hides: drop it from the maps")
        if call.name in ("addcmul", "addcdiv"):
            return [self._combined(call.name, args, kwargs)]
        if call.name in OPERATIONS:
            return [self._elementwise(call.name, call.op, args, kwargs)]
        if call.name in ("mm", "bmm") and all(isinstance(x, Expression) for x in args):
            return [self._product(*args)]
        if call.name in LINEAR and all(out.is_floating_point() for out in call.outputs):
            return self._linear(call.op, args, kwargs)
        raise Unsupported(f"{call.op}, which has none")

    def _combined(self, name: str, args: tuple, kwargs: dict) -> Expression:
        """a + value · b c, or a + value · b / c."""
        base, *factors = args
        inner, op = ("mul", torch.mul) if name == "addcmul" else ("div", torch.div)
        term = self._elementwise(inner, op, tuple(factors), {})
        scale = {"alpha": kwargs.get("value", 1)}
        return self._elementwise("add", torch.add, (base, term), scale)

    def _elementwise(self, name: str, op: Callable, args: tuple, kwargs: dict) -> Expression:
        if "rounding_mode" in kwargs or not (name in OF_SEVERAL or _of_one(args)):
            raise Unsupported(f"{op} of these arguments, which has none")
        value = op(*tree_map(_value, args), **kwargs)
        sources = _sources(args)
        if len(sources) > 2:
            # gains are bounded over boxes of two numbers: others become signals of their own
            args = tuple(self._settled(x) if isinstance(x, Expression) else x for x in args)
            sources = _sources(args)
        affine = _is_affine(name, args)
        expression = Expression(value, *_fused(name, args, kwargs), sources, affine=affine)
        # a sum of signals is one signal
        return self._settled(expression) if affine and len(sources) == 2 else expression

    def _linear(self, op: Callable, args: tuple, kwargs: dict) -> list[Expression]:
        leaves = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Expression)]
        settled = {id(x): self._settled(x) for x in leaves}
        args, kwargs = tree_map(lambda x: settled.get(id(x), x), (args, kwargs))
        moving = list({id(x): x for x in settled.values()}.values())

        def results(*values: Tensor) -> list[Tensor]:
            known = dict(zip(map(id, moving), values, strict=True))
            given = tree_map(lambda x: known.get(id(x), x), (args, kwargs))
            found = op(*given[0], **given[1])
            return list(found) if isinstance(found, tuple | list) else [found]

        centers, found = [x.value for x in moving], []
        derivatives = torch.func.jacfwd(results, tuple(range(len(moving))))(*centers)
        for value, by_each in zip(results(*centers), derivatives, strict=True):
            parts = [
                x.signal.through(one.reshape(value.numel(), -1))
                for x, one in zip(moving, by_each, strict=True)
            ]
            total = functools.reduce(Signal.plus, parts)
            found.append(_source(value, total._replace(value=value.double().flatten())))
        return found

    def _product(self, a: Expression, b: Expression) -> Expression:
        """Product of two matrices that both move, as elementwise products and sums."""
        a, b = (self._linear(torch.unsqueeze, (x, at), {})[0] for x, at in ((a, -1), (b, -3)))
        pairs = self._elementwise("mul", torch.mul, (a, b), {})
        return self._linear(torch.sum, (pairs, -2), {})[0]

    def _settled(self, x: Expression) -> Expression:
        return x if x.op is None else _source(x.value, self._signal(x))

    def _signal(self, x: Expression) -> Signal:
        """Signal of the expression, a unit for each of its entries."""
        if x.signal is None:
            shape, boxes, arguments = x.value.shape, [], []
            for source in x.sources:
                place = torch.arange(source.value.numel()).reshape(source.value.shape)
                over = self.units.over(source.signal)
                boxes.append(over.map(lambda end, at=place: end[at].unsqueeze(-1)))
                arguments.append(
                    Signal(*(part[place.expand(shape).flatten()] for part in source.signal))
                )
            value, found = gains(
                lambda *jets: x.jet(dict(zip(map(id, x.sources), jets, strict=True))), boxes
            )
            flat = [gain.map(lambda end: end.expand(shape).flatten()) for gain in found]
            signal = self.units.units(x.value.flatten(), *map(Argument, arguments, flat))
            far = [(end.expand(shape).flatten() - x.value.flatten()).abs() for end in value]
            x.signal = signal._replace(reach=torch.minimum(signal.reach, torch.maximum(*far)))
        return x.signal


def _of_one(args: tuple) -> bool:
    """Whether the first argument alone is a tensor that moves."""
    first, *others = args
    return isinstance(first, Expression) and not any(
        isinstance(x, Expression | Tensor) for x in others
    )


def _sources(args: tuple) -> tuple[Expression, ...]:
    """Signals that arguments are functions of, each once."""
    moving = [x for x in args if isinstance(x, Expression)]
    return tuple({id(source): source for x in moving for source in x.sources}.values())


def _is_affine(name: str, args: tuple) -> bool:
    """Whether an elementwise operation of these arguments has constant derivatives."""
    moving = [x for x in args if isinstance(x, Expression)]
    if not all(x.affine for x in moving):
        return False
    if name in ("add", "sub", "rsub", "neg"):
        return True
    if len(moving) != 1:
        return False
    return name == "mul" or (name == "div" and isinstance(args[0], Expression))


def _fused(name: str, args: tuple, kwargs: dict) -> tuple[str, tuple, dict]:
    """√(u² + f) as one operation, any other as it is."""
    total = args[0]
    if name == "sqrt" and total.op == "add" and total.options.get("alpha", 1) == 1:
        for square, rest in itertools.permutations(total.operands):
            if (
                isinstance(square, Expression)
                and square.op == "mul"
                and square.operands[0] is square.operands[1]
            ):
                return "root_of_sum", (square.operands[0], rest), {}
    return name, tuple(args), kwargs


def _source(value: Tensor, signal: Signal) -> Expression:
    found = Expression(value, signal=signal)
    found.sources = (found,)
    return found


def _value(x: object) -> object:
    return x.value if isinstance(x, Expression) else x
