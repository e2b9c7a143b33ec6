"""Translation of a trace into the body of a function that evaluates the field for one block of
members.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import Pair, Shape
from romkit.engine._torch import tree_flatten, tree_leaves
from romkit.engine.build import Unsupported
from romkit.engine.decompositions import axes_of
from romkit.engine.emit import ConstantPools, Emitter, inverse, nest
from romkit.engine.formulas import FORMULAS
from romkit.engine.places import UNOWNED, Located, fresh, members_first, numbered, sort_owners
from romkit.engine.trace import Call, Trace, is_symbol

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
    """Return the traced field for one block of members; the leading axes of the state are the
    members.

    Raises:
        Unsupported: a call that is not known here, or one that mixes members.
    """
    t, y = trace.inputs
    lead = y.shape[:-1]
    members = math.prod(lead)
    inputs = [(t, fresh("t", ())), (y, fresh("y", y.shape, members))]
    emitter = translated(trace.calls, inputs, lead, ConstantPools(members, y.dtype))
    assert isinstance(trace.result, Tensor)  # of a field
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
        # write the statements of one call
        if call.name in VIEWS:
            _view(emitter, call)
        elif call.name in FORMULAS:
            emitter.elementwise(call, FORMULAS[call.name])
        elif call.name in OTHERS:
            OTHERS[call.name](emitter, call)
        else:
            raise Unsupported(f"{call.op} has no compiled form")
        # kernels have one type of number
        for output in call.outputs:
            if not emitter.known(output):
                continue
            if output.dtype not in (emitter.dtype, torch.bool):
                raise Unsupported(
                    f"{call.op} gives {output.dtype} where the state is {emitter.dtype}"
                )
    return emitter


def _view(emitter: Emitter, call: Call) -> None:
    """Lower views, which cost nothing: torch moves the indices of the elements."""
    source, *indices = call.args
    settings = tree_leaves((indices, call.kwargs))
    if not is_symbol(source) or any(map(is_symbol, settings)):
        raise Unsupported(f"{call.op} with indices that depend on the state has no compiled form")
    value = emitter.value(source)
    moved = _moved(call, value.ids, indices)
    # a view has no statement: the same buffer in another order
    for output, ids in zip(call.outputs, moved, strict=True):
        emitter.assign(output, Located(value.buffer, ids))


def _moved(call: Call, ids: Tensor, indices: Sequence[object]) -> list[Tensor]:
    """Return the ids in the order of each result of a view."""
    if call.name in ("view", "_unsafe_view"):  # indices have strides of their own
        return [ids.reshape(call.outputs[0].shape)]
    if call.name == "clone":
        return [ids]
    return tree_flatten(call.op(ids, *indices, **call.kwargs))[0]


def _matmul(emitter: Emitter, call: Call) -> None:
    """Products of matrices, or of batches of them, whose rows or batches are put in the order of
    the members.
    """
    a, b = call.args
    left, right = numbered(a), numbered(b)
    # torch folds batches into rows, and a member's rows may be apart
    order = _member_rows(emitter, (a, left), (b, right))
    if right.ndim == 3:
        right = right[order]
    product = call.outputs[0]
    shape = (*left.shape[:-1], right.shape[-1])
    _multiply(emitter, call, left[order], right, shape)
    back = order.argsort()
    emitter.move(product, lambda ids: ids[back].reshape(product.shape))


def _member_rows(emitter: Emitter, *factors: Pair) -> Tensor:
    """Return the order of rows, or of batches, in which the members come one after the other."""
    left, numbers_of_left = factors[0]
    for tensor, numbers in factors:
        has_rows = numbers.ndim == 3 or tensor is left
        if is_symbol(tensor) and has_rows:
            ids = emitter.value(tensor).ids.reshape(-1)
            return sort_owners(ids[numbers])
    return torch.arange(len(numbers_of_left))


def _multiply(emitter: Emitter, call: Call, left: Tensor, right: Tensor, shape: Shape) -> None:
    """(M, K) (K, N) or batches of them; each member takes its own batches, or its own rows of a
    common one.
    """
    count = emitter.count(call, shape)
    batches = 1
    if len(shape) == 3:
        batches = shape[0]
    # one product is common to all members, each of which takes its own rows
    common = batches < count
    products = 1
    if not common:
        products = batches // count
    inner, columns = left.shape[-1], shape[-1]
    total_rows = math.prod(shape[:-1])
    rows = total_rows // (count * products)
    if total_rows != count * products * rows:
        raise Unsupported("it mixes the members of the batch")
    # rows and columns need strides alone, so that views and transposes are not copied
    a, at_a = emitter.strided(call.args[0], left, (products, rows, inner), count)
    sharers = count
    if common and batches > 1:
        right = right.repeat_interleave(count // batches, dim=0)
    elif common:
        sharers = 1
    b, at_b = emitter.strided(call.args[1], right, (products, inner, columns), sharers)
    target = emitter.new(call.outputs[0], shape, count)
    numbers = (rows, inner, columns, *at_a.strides[1:], *at_b.strides[1:])
    sizes = ", ".join(map(str, numbers))
    for p in range(products):
        first = f"{a} + {at_a.base + p * at_a.strides[0]}"
        second = f"{b} + {at_b.base + p * at_b.strides[0]}"
        emitter.emit(f"matmul({sizes}, {target} + {p * rows * columns}, {first}, {second});")


def _reduction(function: str) -> Callable[[Emitter, Call], None]:
    """Lowering of a sum and its like over some axes, by a function of `arrays.h`."""

    def reduce(emitter: Emitter, call: Call) -> None:
        source, out = call.args[0], call.outputs[0]
        summed = [axis % source.ndim for axis in axes_of(source, *call.args[1:2])]
        kept = [axis for axis in emitter.order(call, source.shape) if axis not in summed]
        shape = [source.shape[axis] for axis in kept]
        size = math.prod(shape)
        length = math.prod(source.shape[axis] for axis in summed)
        count = emitter.count(call, shape)
        if size % count:
            raise Unsupported("it mixes the members of the batch")
        # what is summed comes innermost, side by side
        elements = numbered(source).permute(*kept, *summed)
        pointer = emitter.pointer(source, elements, count)
        target = emitter.new(out, shape, count)
        statement = f"{target}[i0] = {function}({length}, {pointer} + {length} * i0);"
        emitter.emit(nest((size // count,), [statement]))
        back = _restore_order(kept)
        emitter.move(out, lambda ids: ids.permute(back).reshape(out.shape))

    return reduce


def _restore_order(axes: Sequence[int]) -> list[int]:
    """Return the permutation that sorts axes."""
    ranks = sorted(axes)
    return inverse([ranks.index(axis) for axis in axes])


def _cumsum(emitter: Emitter, call: Call) -> None:
    """Lower running totals along one axis, which becomes the innermost one."""
    source, out = call.args[0], call.outputs[0]
    along = call.args[1] % source.ndim
    order = [axis for axis in emitter.order(call, source.shape) if axis != along]
    order.append(along)
    elements = numbered(source).permute(order)
    length = elements.shape[-1]
    count = emitter.count(call, elements.shape)
    pointer = emitter.pointer(source, elements, count)
    target = emitter.new(out, elements.shape, count)
    statement = f"running_total({length}, {target} + {length} * i0, {pointer} + {length} * i0);"
    lines = source.numel() // (count * length)
    emitter.emit(nest((lines,), [statement]))
    back = inverse(order)
    emitter.move(out, lambda ids: ids.permute(back))


def _solve(emitter: Emitter, call: Call) -> None:
    """Solve linear systems, and remember whose factors these are."""
    matrix, right = call.args[:2]
    # derivatives of a solve ask for its factors, which elimination does not keep
    emitter.matrices[id(call.outputs[1])] = matrix
    _eliminate(emitter, call, matrix, right)


def _solve_again(emitter: Emitter, call: Call) -> None:
    """Solve with the factors of a matrix that was met before, as derivatives of linear solves do."""
    factors, _, right = call.args
    if id(factors) not in emitter.matrices or call.kwargs.get("adjoint"):
        kinds = "with other factors, or with the transposed matrix"
        raise Unsupported(f"a linear solve {kinds}, has no compiled form")
    _eliminate(emitter, call, emitter.matrices[id(factors)], right)


def _eliminate(emitter: Emitter, call: Call, matrix: Tensor, right: Tensor) -> None:
    """Elimination for each matrix (n, n) of a member with its right-hand sides (n, k)."""
    out = call.outputs[0]
    if call.kwargs.get("left", True) is False:
        raise Unsupported("a linear solve from the right has no compiled form")
    n = matrix.shape[-1]
    columns = out.numel() * n // matrix.numel()
    count = emitter.count(call, out.shape)
    a = emitter.pointer(matrix, numbered(matrix), count)
    b = emitter.pointer(right, numbered(right), count)
    target = emitter.new(out, out.shape, count)
    pointers = f"{target} + {n * columns} * i0, {a} + {n * n} * i0, {b} + {n * columns} * i0"
    scratch = emitter.array(n * (n + columns))
    statement = f"solve({n}, {columns}, {scratch}, {pointers});"
    solves = out.numel() // (count * n * columns)
    emitter.emit(nest((solves,), [statement]))


def _join(emitter: Emitter, call: Call) -> None:
    """`cat` and `stack`."""
    tensors, *axis = call.args
    _gather(emitter, call, tensors, lambda pieces: call.op(pieces, *axis, **call.kwargs))


def _pad(emitter: Emitter, call: Call) -> None:
    """Lower the source, and a constant around it."""
    source, widths, *values = call.args
    fill = 0.0
    if values:
        fill = float(values[0])
    constant = emitter.keep(torch.tensor([fill], dtype=emitter.dtype))

    def padded(pieces: list[Tensor]) -> Tensor:
        inner, around = pieces
        return torch.constant_pad_nd(inner, widths, around.item())

    _gather(emitter, call, [source, constant], padded)


def _scatter(emitter: Emitter, call: Call) -> None:
    """Lower a tensor with a part replaced: the form of `result[..., 0] = part` once nothing works in
    place.
    """
    source, piece, *place = call.args
    _gather(emitter, call, [source, piece], lambda pair: call.op(*pair, *place, **call.kwargs))


def _gather(
    emitter: Emitter,
    call: Call,
    tensors: Sequence[Tensor],
    assemble: Callable[[list[Tensor]], Tensor],
) -> None:
    """Put a result together from the entries of several tensors, whose numbers `assemble` puts
    together likewise.
    """
    out = call.outputs[0]
    # of each entry of the result, the tensor that it comes from, and its place there
    origins = assemble([torch.full(x.shape, k) for k, x in enumerate(tensors)])
    elements = assemble([numbered(x) for x in tensors])
    order = _origin_order(emitter, tensors, origins, elements)
    shape = [out.shape[axis] for axis in order]
    count = emitter.count(call, shape)
    origins = origins.permute(order).reshape(count, -1)  # (members, K)
    elements = elements.permute(order).reshape(count, -1)
    if not torch.equal(origins, origins[:1].expand_as(origins)):
        raise Unsupported("it mixes the members of the batch")
    # array and place of each entry of a member, of origins (K,) and elements (members, K)
    sources: list[tuple[str, int]] = [("", 0)] * len(origins[0])
    for origin in origins[0].unique().tolist():
        positions = (origins[0] == origin).nonzero().flatten()
        array, places = emitter.place(tensors[origin], elements[:, positions], len(elements))
        for position, place in zip(positions.tolist(), places.tolist(), strict=True):
            sources[position] = (array, place)
    emitter.copy(emitter.new(out, shape, count), sources)
    back = inverse(order)
    emitter.move(out, lambda ids: ids.permute(back))


def _origin_order(
    emitter: Emitter, tensors: Sequence[Tensor], origins: Tensor, elements: Tensor
) -> list[int]:
    """Return the axes of the result with those of the members first, as the elements of its tensors
    tell.
    """
    # entries of constants belong to any member
    ids = torch.full(origins.shape, UNOWNED)
    for k, tensor in enumerate(tensors):
        if is_symbol(tensor):
            entries = origins == k
            ids_of_tensor = emitter.value(tensor).ids.reshape(-1)
            ids[entries] = ids_of_tensor[elements[entries]]
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
