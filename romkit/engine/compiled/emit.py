"""Statements of the compiled field, and where each tensor of the recording is kept while they run."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from romkit.engine.compiled.constants import Constants
from romkit.engine.compiled.formulas import vector
from romkit.engine.compiled.index import (
    AffineIndex,
    Located,
    affine,
    contiguous,
    is_shared,
    locate,
    member_dims,
    member_value,
    members_first,
    runs,
    shared_value,
)
from romkit.engine.compiled.record import Call, Recording, Unsupported, is_symbol


@dataclass
class _Loop:
    """Elementwise statements over the same indices; `held` are the buffers whose current element is in a variable."""

    dims: tuple[int, ...]
    lines: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)


class Emitter:
    """C++ statements for one block of members, in the making.

    A method that asks for `elements` takes the numbers of a tensor's elements in row-major order, with the members as
    the outermost axes, and `count`, among how many members they are split: 1 if they are the same for all.

    Attributes:
        dtype: of the state.
        lead: leading axes of the state, whose entries are the members.
        members: how many there are.
        constants: what the statements read from outside.
        scratch: how many numbers of each member the statements keep.
    """

    def __init__(self, recording: Recording):
        shape, self.dtype = recording.y.shape, recording.y.dtype
        self.lead, self.members = shape[:-1], math.prod(shape[:-1])
        self.constants = Constants(self.members, self.dtype)
        self._values = {
            id(recording.t): shared_value("t", torch.Size()),
            id(recording.y): member_value("y", shape, self.members),
        }
        self._matrices: dict[int, Tensor] = {}
        self._kept: list[Tensor] = []
        self._sizes: dict[str, int] = {}
        self._lines: list[str] = []
        self._loop: _Loop | None = None

    @property
    def scratch(self) -> int:
        return sum(self._sizes.values())

    def source(self) -> str:
        """Everything so far."""
        self._flush()
        return "\n".join([f"V {name}[{size}];" for name, size in self._sizes.items()] + self._lines)

    # -- where things are ------------------------------------------------------------------------------------------

    def keep(self, tensor: Tensor) -> Tensor:
        """Tensors are known by their identity, so those that are not part of the recording must be held here."""
        self._kept.append(tensor)
        return tensor

    def known(self, tensor: Tensor) -> bool:
        return id(tensor) in self._values

    def value(self, tensor: Tensor) -> Located:
        if not self.known(tensor):
            raise Unsupported("it uses a result that has no compiled form")
        return self._values[id(tensor)]

    def assign(self, tensor: Tensor, value: Located) -> None:
        """Say where a result is."""
        self._values[id(tensor)] = value

    def factorised(self, factors: Tensor, matrix: Tensor) -> None:
        """Remember which matrix was factorised."""
        self._matrices[id(factors)] = matrix

    def matrix_of(self, factors: Tensor) -> Tensor:
        """The matrix with these factors."""
        if id(factors) not in self._matrices:
            raise Unsupported("it uses a result that has no compiled form")
        return self._matrices[id(factors)]

    def new(self, tensor: Tensor, shape: Sequence[int], count: int) -> str:
        """A fresh buffer for a result, whose elements it holds in the order of `shape`."""
        name = self._scratch(math.prod(shape) // count)
        shared = count < self.members
        self.assign(tensor, shared_value(name, shape) if shared else member_value(name, shape, count))
        return name

    def move(self, tensor: Tensor, move: Callable[[Tensor], Tensor]) -> None:
        """Turn the order in which a buffer was filled into that of the result."""
        value = self.value(tensor)
        self.assign(tensor, Located(value.buffer, move(value.ids)))

    def count(self, call: Call, shape: Sequence[int]) -> int:
        """Among how many members a result of this shape is split, the members being outermost."""
        symbols = [leaf for leaf in tree_leaves((call.args, call.kwargs)) if is_symbol(leaf)]
        per_member = tuple(shape[: len(self.lead)]) == tuple(self.lead) and len(shape) > len(self.lead)
        return self.members if per_member or not all(is_shared(self.value(s)) for s in symbols) else 1

    def order(self, call: Call, shape: Sequence[int]) -> list[int]:
        """The axes of a result that arguments are broadcast to, with those of the members put first."""
        for leaf in tree_leaves((call.args, call.kwargs)):
            if is_symbol(leaf) and not is_shared(self.value(leaf)):
                return members_first(self.value(leaf).ids.expand(shape), self.lead)
        return list(range(len(shape)))

    def place(self, tensor: Tensor, elements: Tensor, count: int) -> tuple[str, Tensor]:
        """The array and the (K,) places of these elements, for each member."""
        if not is_symbol(tensor):
            return self.constants.place(tensor, elements, count)
        value = self.value(tensor)
        if count < self.members and not is_shared(value):
            raise Unsupported("it mixes the members of the batch")
        return value.buffer, locate(value.ids.reshape(-1)[elements], count)

    def strided(self, tensor: Tensor, elements: Tensor, dims: tuple[int, ...], count: int) -> tuple[str, AffineIndex]:
        """The same with places as a function of the indices of `dims`; copied side by side where there is none."""
        array, places = self.place(tensor, elements, count)
        index = affine(places, dims)
        if index is not None:
            return array, index
        name = self._scratch(len(places))
        self.copy(name, [(array, place) for place in places.tolist()])
        return name, contiguous(dims)

    def pointer(self, tensor: Tensor, elements: Tensor, count: int) -> str:
        """An expression for a pointer to these elements, side by side."""
        size = elements.numel() // count
        array, index = self.strided(tensor, elements, (size,), count)
        if index.strides == (1,) or size == 1:
            return f"{array} + {index.base}"
        name = self._scratch(size)
        self.emit(nest((size,), [f"{name}[i0] = vec({array}[{index}]);"]))
        return name

    def _scratch(self, size: int) -> str:
        name = f"v{len(self._sizes)}"
        self._sizes[name] = size
        return name

    # -- statements ------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        """Append a statement."""
        self._flush()
        self._lines.append(line)

    def copy(self, target: str, sources: list[tuple[str, int]]) -> None:
        """Fill `target` element by element from (array, place), in as few loops as the places allow."""
        start = 0
        while start < len(sources):
            array = sources[start][0]
            end = next((k for k in range(start, len(sources)) if sources[k][0] != array), len(sources))
            for position, place, stride, length in runs([place for _, place in sources[start:end]]):
                index = AffineIndex(place, (stride,))
                self.emit(nest((length,), [f"{target}[{start + position} + i0] = vec({array}[{index}]);"]))
            start = end

    def elementwise(self, call: Call, formula: Callable[..., str]) -> None:
        """One number of the result from one number of each argument; calls in a row share a loop where they can."""
        out = call.outputs[0]
        order = self.order(call, out.shape)
        shape = torch.Size(out.shape[axis] for axis in order)
        count = self.count(call, shape)
        dims = member_dims(shape, count)
        here = contiguous(dims)

        def find(arg: Tensor) -> tuple[str, AffineIndex]:
            elements = torch.arange(arg.numel()).reshape(arg.shape).expand(out.shape).permute(order)
            return self.strided(arg, elements, dims, count)

        found = [find(arg) if isinstance(arg, Tensor) else arg for arg in call.args]
        places = [operand for operand in found if isinstance(operand, tuple)]
        if self._loop and (self._loop.dims != dims or any(a in self._loop.held and at != here for a, at in places)):
            self._flush()
        self._loop = self._loop or _Loop(dims)
        operands = [self._element(*operand) if isinstance(operand, tuple) else operand for operand in found]
        target = self.new(out, shape, count)
        self.move(out, lambda ids: ids.permute(inverse(order)))
        self._loop.lines += [
            f"const V x_{target} = {vector(_written(call, formula, operands))};",
            f"{target}[{here}] = x_{target};",
        ]
        self._loop.held.add(target)

    def _element(self, array: str, index: AffineIndex) -> str:
        return f"x_{array}" if array in self._loop.held else f"vec({array}[{index}])"

    def _flush(self) -> None:
        if self._loop is not None:
            self._lines.append(nest(self._loop.dims, self._loop.lines))
            self._loop = None


def _written(call: Call, formula: Callable[..., str], operands: list) -> str:
    try:
        return formula(*operands, **call.kwargs)
    except TypeError as error:
        raise Unsupported(f"{call.op} with {sorted(call.kwargs)} has no compiled form") from error


def inverse(order: Sequence[int]) -> list[int]:
    """The permutation that undoes `order`."""
    return sorted(range(len(order)), key=order.__getitem__)


def nest(dims: tuple[int, ...], lines: list[str]) -> str:
    """Statements inside a loop for each of `dims`, with indices i0, i1, ..."""
    loops = " ".join(f"for (int i{d} = 0; i{d} < {size}; i{d}++)" for d, size in enumerate(dims))
    return f"{loops} {{\n  " + "\n  ".join(lines) + "\n}"
