"""Translation of a trace into the body of a function that evaluates the field for one block of
members.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.engine._torch import tree_flatten, tree_leaves
from romkit.engine.build import Unsupported
from romkit.engine.emit import (
    UNOWNED,
    ConstantPools,
    Emitter,
    Located,
    by_owner,
    fresh,
    inverse,
    members_first,
    nest,
    numbered,
)
from romkit.engine.formulas import FORMULAS
from romkit.engine.trace import Call, Trace, axes_of, is_symbol

VIEWS = {
    "alias", "clone", "detach", "diagonal", "expand", "flip", "index", "index_select", "permute",
    "repeat", "roll", "select", "slice", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind",
    "unsqueeze", "view", "_unsafe_view",
}  # fmt: skip
"""Operations that only move elements; torch applies them to indices."""


class KernelBody(NamedTuple):
    """Statements that write `out` from `t` and `y`, how many numbers they keep, and the constants
    they read.
    """

    source: str
    scratch: int
    constants: ConstantPools


def lower(trace: Trace) -> KernelBody:
    """The traced field for one block of members; the leading axes of the state are the members.

    Raises:
        Unsupported: a call that is not known here, or one that mixes members.
    """
    t, y = trace.inputs
    lead, members = y.shape[:-1], math.prod(y.shape[:-1])
    inputs = [(t, fresh("t", ())), (y, fresh("y", y.shape, members))]
    emitter = translated(trace.calls, inputs, lead, ConstantPools(members, y.dtype))
    emitter.give("out", trace.result, y.shape)
    return KernelBody(emitter.source(), emitter.scratch, emitter.constants)


def translated(
    calls: Sequence[Call],
    inputs: Sequence[tuple[Tensor, Located]],
    lead: Sequence[int],
    constants: ConstantPools,
) -> Emitter:
    """Statements of these calls; arguments as for `Emitter`."""
    emitter = Emitter(inputs, lead, constants)
    for call in calls:
        _lower(emitter, call)
    return emitter


def _lower(emitter: Emitter, call: Call) -> None:
    """Write the statements of one call."""
    if call.name in VIEWS:
        _view(emitter, call)
    elif call.name in FORMULAS:
        emitter.elementwise(call, FORMULAS[call.name])
    elif call.name in OTHERS:
        OTHERS[call.name](emitter, call)
    else:
        raise Unsupported(f"{call.op} has no compiled form")
    for output in call.outputs:
        if emitter.known(output) and output.dtype not in (emitter.dtype, torch.bool):
            raise Unsupported(f"{call.op} gives {output.dtype} where the state is {emitter.dtype}")


def _view(emitter: Emitter, call: Call) -> None:
    """Views cost nothing: torch moves the indices of the elements."""
    source, *rest = call.args
    if not is_symbol(source) or any(map(is_symbol, tree_leaves((rest, call.kwargs)))):
        raise Unsupported(f"{call.op} with indices that depend on the state has no compiled form")
    buffer, ids = emitter.value(source).buffer, emitter.value(source).ids
    if call.name in ("view", "_unsafe_view"):  # indices have strides of their own
        moved = [ids.reshape(call.outputs[0].shape)]
    else:
        moved = (
            [ids] if call.name == "clone" else tree_flatten(call.op(ids, *rest, **call.kwargs))[0]
        )
    for output, outcome in zip(call.outputs, moved, strict=True):
        emitter.assign(output, Located(buffer, outcome))


def _matmul(emitter: Emitter, call: Call) -> None:
    """Products of matrices, or of batches of them, whose rows or batches are put in the order of
    the members.
    """
    a, b = call.args
    left, right = numbered(a), numbered(b)
    order = _rows_by_member(emitter, (a, left), (b, right))
    right = right[order] if right.ndim == 3 else right
    _multiply(emitter, call, left[order], right, (*left.shape[:-1], right.shape[-1]))
    emitter.move(call.outputs[0], lambda ids: ids[order.argsort()].reshape(call.outputs[0].shape))


def _rows_by_member(emitter: Emitter, *factors: tuple[Tensor, Tensor]) -> Tensor:
    """The order of rows, or of batches, in which the members come one after the other."""
    for tensor, numbers in factors:
        if is_symbol(tensor) and (numbers.ndim == 3 or tensor is factors[0][0]):
            return by_owner(emitter.value(tensor).ids.reshape(-1)[numbers])
    return torch.arange(len(factors[0][1]))


def _multiply(
    emitter: Emitter, call: Call, left: Tensor, right: Tensor, shape: tuple[int, ...]
) -> None:
    """(M, K) (K, N) or batches of them; each member takes its own batches, or its own rows of a
    common one.
    """
    count = emitter.count(call, shape)
    batches = shape[0] if len(shape) == 3 else 1
    common = batches < count
    products = 1 if common else batches // count
    rows, inner, columns = math.prod(shape[:-1]) // (count * products), left.shape[-1], shape[-1]
    if math.prod(shape[:-1]) != count * products * rows:
        raise Unsupported("it mixes the members of the batch")
    a, at_a = emitter.strided(call.args[0], left, (products, rows, inner), count)
    if common and batches > 1:
        right = right.repeat_interleave(count // batches, dim=0)
    sharers = 1 if common and batches == 1 else count
    b, at_b = emitter.strided(call.args[1], right, (products, inner, columns), sharers)
    target = emitter.new(call.outputs[0], shape, count)
    sizes = ", ".join(map(str, (rows, inner, columns, *at_a.strides[1:], *at_b.strides[1:])))
    for p in range(products):
        first, second = (
            f"{a} + {at_a.base + p * at_a.strides[0]}",
            f"{b} + {at_b.base + p * at_b.strides[0]}",
        )
        emitter.emit(f"matmul({sizes}, {target} + {p * rows * columns}, {first}, {second});")


def _reduction(function: str) -> Callable[[Emitter, Call], None]:
    """Lowering of a sum and its like over some axes, by a function of `arrays.h`."""

    def reduce(emitter: Emitter, call: Call) -> None:
        source, out = call.args[0], call.outputs[0]
        axes = [axis % source.ndim for axis in axes_of(source, *call.args[1:2])]
        kept = [axis for axis in emitter.order(call, source.shape) if axis not in axes]
        elements = numbered(source).permute(*kept, *axes)
        shape, length = (
            [source.shape[axis] for axis in kept],
            math.prod(source.shape[axis] for axis in axes),
        )
        count = emitter.count(call, shape)
        if math.prod(shape) % count:
            raise Unsupported("it mixes the members of the batch")
        pointer = emitter.pointer(source, elements, count)
        target = emitter.new(out, shape, count)
        statement = f"{target}[i0] = {function}({length}, {pointer} + {length} * i0);"
        emitter.emit(nest((math.prod(shape) // count,), [statement]))
        back = inverse([sorted(kept).index(axis) for axis in kept])
        emitter.move(out, lambda ids: ids.permute(back).reshape(out.shape))

    return reduce


def _cumsum(emitter: Emitter, call: Call) -> None:
    """Running totals along one axis, which becomes the innermost one."""
    source, along = call.args[0], call.args[1] % call.args[0].ndim
    order = [axis for axis in emitter.order(call, source.shape) if axis != along] + [along]
    elements = numbered(source).permute(order)
    length, count = elements.shape[-1], emitter.count(call, elements.shape)
    pointer = emitter.pointer(source, elements, count)
    target = emitter.new(call.outputs[0], elements.shape, count)
    statement = f"running_total({length}, {target} + {length} * i0, {pointer} + {length} * i0);"
    emitter.emit(nest((source.numel() // (count * length),), [statement]))
    emitter.move(call.outputs[0], lambda ids: ids.permute(inverse(order)))


def _solve(emitter: Emitter, call: Call) -> None:
    """Solve linear systems, and remember whose factors these are."""
    matrix, right = call.args[:2]
    emitter.matrices[id(call.outputs[1])] = matrix
    _eliminate(emitter, call, matrix, right)


def _solve_again(emitter: Emitter, call: Call) -> None:
    """Solve with the factors of a matrix that was met before, as derivatives of linear solves do."""
    factors, _, right = call.args
    if id(factors) not in emitter.matrices or call.kwargs.get("adjoint"):
        raise Unsupported(
            "a linear solve with other factors, or with the transposed matrix, has no compiled form"
        )
    _eliminate(emitter, call, emitter.matrices[id(factors)], right)


def _eliminate(emitter: Emitter, call: Call, matrix: Tensor, right: Tensor) -> None:
    """Elimination for each matrix (n, n) of a member with its right-hand sides (n, k)."""
    out = call.outputs[0]
    if call.kwargs.get("left", True) is False:
        raise Unsupported("a linear solve from the right has no compiled form")
    n, columns = matrix.shape[-1], out.numel() * matrix.shape[-1] // matrix.numel()
    count = emitter.count(call, out.shape)
    a, b = (emitter.pointer(x, numbered(x), count) for x in (matrix, right))
    target = emitter.new(out, out.shape, count)
    pointers = f"{target} + {n * columns} * i0, {a} + {n * n} * i0, {b} + {n * columns} * i0"
    statement = f"solve({n}, {columns}, {emitter.array(n * (n + columns))}, {pointers});"
    emitter.emit(nest((out.numel() // (count * n * columns),), [statement]))


def _join(emitter: Emitter, call: Call) -> None:
    """`cat` and `stack`."""
    parts, *rest = call.args
    _gather(emitter, call, parts, lambda each: call.op(each, *rest, **call.kwargs))


def _pad(emitter: Emitter, call: Call) -> None:
    """The source, and a constant around it."""
    source, widths, fill = (*call.args, 0)[:3]
    constant = emitter.keep(torch.tensor([float(fill)], dtype=emitter.dtype))
    _gather(
        emitter,
        call,
        [source, constant],
        lambda each: torch.constant_pad_nd(each[0], widths, each[1].item()),
    )


def _scatter(emitter: Emitter, call: Call) -> None:
    """A tensor with a part replaced: the form of `result[..., 0] = part` once nothing works in
    place.
    """
    source, part, *rest = call.args
    _gather(emitter, call, [source, part], lambda each: call.op(*each, *rest, **call.kwargs))


def _gather(
    emitter: Emitter,
    call: Call,
    parts: Sequence[Tensor],
    assemble: Callable[[list[Tensor]], Tensor],
) -> None:
    """Put a result together from the entries of several tensors, whose numbers `assemble` puts
    together likewise.
    """
    out = call.outputs[0]
    numbers = assemble([torch.full(part.shape, number) for number, part in enumerate(parts)])
    elements = assemble([numbered(part) for part in parts])
    order = _order_of_parts(emitter, parts, numbers, elements)
    shape = [out.shape[axis] for axis in order]
    count = emitter.count(call, shape)
    numbers, rows = (
        numbers.permute(order).reshape(count, -1),
        elements.permute(order).reshape(count, -1),
    )
    if not torch.equal(numbers, numbers[:1].expand_as(numbers)):
        raise Unsupported("it mixes the members of the batch")
    sources: list[tuple[str, int]] = [("", 0)] * numbers.shape[1]
    for part in numbers[0].unique().tolist():
        positions = (numbers[0] == part).nonzero().flatten()
        array, places = emitter.place(parts[part], rows[:, positions], count)
        for position, place in zip(positions.tolist(), places.tolist(), strict=True):
            sources[position] = (array, place)
    emitter.copy(emitter.new(out, shape, count), sources)
    emitter.move(out, lambda ids: ids.permute(inverse(order)))


def _order_of_parts(
    emitter: Emitter, parts: Sequence[Tensor], numbers: Tensor, elements: Tensor
) -> list[int]:
    """The axes of the result with those of the members first, as the elements of its parts tell."""
    ids = torch.full(numbers.shape, UNOWNED)
    for number, part in enumerate(parts):
        if is_symbol(part):
            here = numbers == number
            ids[here] = emitter.value(part).ids.reshape(-1)[elements[here]]
    return members_first(ids, emitter.lead)


OTHERS: dict[str, Callable[[Emitter, Call], None]] = {
    **dict.fromkeys(("mm", "bmm"), _matmul),
    **dict.fromkeys(("cat", "stack"), _join),
    **dict.fromkeys(("select_scatter", "slice_scatter"), _scatter),
    "sum": _reduction("total"),
    "mean": _reduction("average"),
    "amax": _reduction("largest"),
    "amin": _reduction("smallest"),
    "prod": _reduction("product"),
    "cumsum": _cumsum,
    "_linalg_solve_ex": _solve,
    "linalg_lu_solve": _solve_again,
    "constant_pad_nd": _pad,
    "_to_copy": lambda emitter, call: emitter.assign(call.outputs[0], emitter.value(call.args[0])),
}
