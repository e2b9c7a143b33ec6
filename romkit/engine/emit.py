"""Statements of the compiled field, and the numbers that they read."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from romkit.core.types import Args, Pair, Shape, TensorMap
from romkit.engine.build import Unsupported
from romkit.engine.formulas import vector
from romkit.engine.places import (
    AffineIndex,
    Located,
    affine,
    contiguous,
    fresh,
    is_shared,
    locate,
    member_dims,
    members_first,
    numbered,
    runs,
    split,
)
from romkit.engine.trace import Call, is_symbol


class ConstantPools:
    """The two pools of numbers that a kernel reads: C, shared by all members, and M, one row per
    member.

    Values are never written into the source, so that one compiled kernel serves every context and
    every training.
    """

    def __init__(self, members: int, dtype: torch.dtype):
        self._members, self.dtype = members, dtype
        self._pools: dict[str, list[tuple[Tensor, Tensor | None]]] = {"C": [], "M": []}
        self._sizes = {"C": 0, "M": 0}
        self._offsets: dict[Args, int] = {}

    def place(self, tensor: Tensor, elements: Tensor, count: int) -> tuple[str, Tensor]:
        """Return the pool that keeps the elements of a tensor, and (K,) their places in it.

        Args:
            tensor: the constant.
            elements: numbers of its elements in row-major order, split among `count` members.
            count: how many members share them out; 1 if all of them go to everyone.
        """
        rows = split(elements, count)
        # one copy is read by all, and stays in the cache
        if torch.equal(rows, rows[:1].expand_as(rows)):
            return "C", rows[0] + self._store("C", (id(tensor),), tensor, None)
        first = rows.min(dim=1, keepdim=True).values  # (members, 1)
        relative = rows - first
        aligned = torch.equal(relative, relative[:1].expand_as(relative))
        if aligned:  # each member has the same piece of the tensor, from another place on
            taken = first + torch.arange(int(relative.max()) + 1)
        else:
            taken, relative = rows, torch.arange(rows.shape[1]).unsqueeze(0)
        key = (id(tensor), taken.shape[1], taken[:, 0].numpy().tobytes(), not aligned)
        return "M", relative[0] + self._store("M", key, tensor, taken)

    def pack(self, lanes: int) -> Pair:
        """C (size,) and M (blocks, size, lanes): the members of a block lie side by side, the last
        one fills it up.

        The numbers are those that the constants have now.
        """
        zero = torch.zeros(self._members, 1, dtype=self.dtype)  # no pool is empty
        of_all = [tensor.reshape(1, -1).to(self.dtype) for tensor, _ in self._pools["C"]]
        shared = torch.cat([*of_all, zero[:1]], dim=1)[0]
        own = [tensor.reshape(-1)[taken].to(self.dtype) for tensor, taken in self._pools["M"]]
        rows = torch.cat([*own, zero], dim=1)  # (members, size)
        blocks = math.ceil(self._members / lanes)
        # lanes without a member compute the last one again
        member = torch.arange(blocks * lanes).clamp(max=self._members - 1)
        by_block = rows[member].reshape(blocks, lanes, -1)
        return shared.contiguous(), by_block.mT.contiguous()

    @property
    def own_size(self) -> int:
        """Length of a row of M."""
        return self._sizes["M"] + 1

    def _store(self, pool: str, key: Args, tensor: Tensor, taken: Tensor | None) -> int:
        if (pool, *key) not in self._offsets:
            self._offsets[pool, *key] = self._sizes[pool]
            self._pools[pool].append((tensor, taken))
            size = tensor.numel() if taken is None else taken.shape[1]
            self._sizes[pool] += size
        return self._offsets[pool, *key]


@dataclass
class _Loop:
    """Elementwise statements over the same indices; `held` are the buffers whose current element is
    in a variable.
    """

    dims: Shape
    lines: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)

    def serves(self, dims: Shape, places: Sequence[object]) -> bool:
        """Tell whether a statement over these axes may join, whose operands are at these places."""
        if self.dims != dims:
            return False
        # of a buffer that the loop fills, other elements are not there yet
        tensors = [place for place in places if isinstance(place, tuple)]
        filled = [index for array, index in tensors if array in self.held]
        return all(index == contiguous(dims) for index in filled)

    def element(self, place: object) -> object:
        """Expression for an operand at a place; numbers as they are."""
        if not isinstance(place, tuple):
            return place
        array, index = place
        return f"x_{array}" if array in self.held else f"vec({array}[{index}])"


def _drop_unread(text: str, keep: Collection[str]) -> tuple[str, set[str]]:
    """Statements without stores to arrays that nothing reads, and the names of these arrays."""
    mentions = Counter(re.findall(r"\bv\d+\b", text))
    # a store whose array is named nowhere else has no reader
    store = re.compile(r"\n  (v\d+)\[[^]]*\] = x_\1;")
    unread = set()
    for name in store.findall(text):
        if mentions[name] == 1 and name not in keep:
            unread.add(name)

    def kept(match: re.Match[str]) -> str:
        return "" if match[1] in unread else match[0]

    return store.sub(kept, text), unread


class Emitter:
    """Statements for one block of members, in the making.

    A method that asks for `elements` takes the numbers of a tensor's elements in row-major order,
    with the members as the outermost axes, and `count`, among how many members they are split: 1 if
    they are the same for all.

    Args:
        inputs: tensors that the statements are given, and where.
        lead: leading axes of the state, whose entries are the members.
        constants: what the statements read from outside.

    Attributes:
        dtype: of the state.
        members: how many there are.
        sizes: of the arrays that the statements keep, by name.
        scratch: how many numbers of each member these are.
        matrices: that were factorised, by the identity of the factors.
    """

    def __init__(
        self,
        inputs: Sequence[tuple[Tensor, Located]],
        lead: Sequence[int],
        constants: ConstantPools,
    ):
        self.lead, self.members = tuple(lead), math.prod(lead)
        self.constants, self.dtype = constants, constants.dtype
        self._values = {id(tensor): where for tensor, where in inputs}
        self.matrices: dict[int, Tensor] = {}
        self.sizes: dict[str, int] = {}
        self._kept: list[Tensor] = []
        self._lines: list[str] = []
        self._loop: _Loop | None = None

    @property
    def scratch(self) -> int:
        return sum(self.sizes.values())

    def source(self, places: Mapping[str, int] | None = None) -> str:
        """Return all statements so far, without arrays that nothing reads; those with a place in M
        are kept there.
        """
        self._flush()
        places = places or {}
        text, unread = _drop_unread("\n".join(self._lines), keep=places)
        for name in unread:
            del self.sizes[name]
        declared = []
        for name, size in self.sizes.items():
            if name in places:
                declared.append(f"V *const {name} = M + {places[name]};")
            else:
                declared.append(f"V {name}[{size}];")
        return "\n".join([*declared, text])

    # -- where things are ------------------------------------------------------------------------------------------

    def keep(self, tensor: Tensor) -> Tensor:
        """Hold a tensor that is not part of the trace: tensors are known by their identity."""
        # else its id could be given to another tensor
        self._kept.append(tensor)
        return tensor

    def known(self, tensor: Tensor) -> bool:
        return id(tensor) in self._values

    def value(self, tensor: Tensor) -> Located:
        if not self.known(tensor):
            raise Unsupported("it uses a result that has no compiled form")
        return self._values[id(tensor)]

    def assign(self, tensor: Tensor, value: Located) -> None:
        """Record where a result is kept."""
        self._values[id(tensor)] = value

    def new(self, tensor: Tensor, shape: Sequence[int], count: int) -> str:
        """Return a fresh buffer for a result, whose elements it holds in the order of `shape`."""
        name = self.array(math.prod(shape) // count)
        self.assign(tensor, fresh(name, shape, None if count < self.members else count))
        return name

    def move(self, tensor: Tensor, move: TensorMap) -> None:
        """Turn the order in which a buffer was filled into that of the result."""
        value = self.value(tensor)
        self.assign(tensor, Located(value.buffer, move(value.ids)))

    def count(self, call: Call, shape: Sequence[int]) -> int:
        """Return number of members that a result of this shape is split among, the members being
        outermost.
        """
        lead = self.lead
        if len(shape) > len(lead) and tuple(shape[: len(lead)]) == lead:
            return self.members
        shared = all(is_shared(self.value(symbol)) for symbol in call.symbols)
        return 1 if shared else self.members

    def order(self, call: Call, shape: Sequence[int]) -> list[int]:
        """Return the axes of a result that arguments are broadcast to, with those of the members
        put first.
        """
        for leaf in call.symbols:
            if not is_shared(self.value(leaf)):
                return members_first(self.value(leaf).ids.expand(shape), self.lead)
        return list(range(len(shape)))

    def place(self, tensor: Tensor, elements: Tensor, count: int) -> tuple[str, Tensor]:
        """Return the array and the (K,) places of these elements, for each member."""
        if not is_symbol(tensor):
            return self.constants.place(tensor, elements, count)
        value = self.value(tensor)
        if count < self.members and not is_shared(value):
            raise Unsupported("it mixes the members of the batch")
        return value.buffer, locate(value.ids.reshape(-1)[elements], count)

    def strided(
        self, tensor: Tensor, elements: Tensor, dims: Shape, count: int
    ) -> tuple[str, AffineIndex]:
        """Like `place`, with places as a function of the indices of `dims`; copied side by side
        where there is none.
        """
        array, places = self.place(tensor, elements, count)
        index = affine(places, dims)
        if index is not None:
            return array, index
        # copied side by side, where loops can go
        name = self.array(len(places))
        self.copy(name, [(array, place) for place in places.tolist()])
        return name, contiguous(dims)

    def pointer(self, tensor: Tensor, elements: Tensor, count: int) -> str:
        """Return an expression for a pointer to these elements, side by side."""
        size = elements.numel() // count
        array, index = self.strided(tensor, elements, (size,), count)
        if index.strides == (1,) or size == 1:
            return f"{array} + {index.base}"
        name = self.array(size)
        self.emit(nest((size,), [f"{name}[i0] = vec({array}[{index}]);"]))
        return name

    def array(self, size: int) -> str:
        """Return name of a fresh array of so many numbers of each member."""
        name = f"v{len(self.sizes)}"
        self.sizes[name] = size
        return name

    def give(self, target: str, result: Tensor, shape: Sequence[int]) -> None:
        """Write a result, expanded to `shape`, to the array `target`."""
        elements = numbered(result).expand(shape)
        array, places = self.place(result, elements, self.members)
        self.copy(target, [(array, place) for place in places.tolist()])

    # -- statements ------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        """Append a statement."""
        self._flush()
        self._lines.append(line)

    def copy(self, target: str, sources: list[tuple[str, int]]) -> None:
        """Fill `target` element by element from (array, place), in as few loops as the places
        allow.
        """
        start = 0
        for array, group in itertools.groupby(sources, key=lambda source: source[0]):
            places = [place for _, place in group]
            for position, place, stride, length in runs(places):
                index = AffineIndex(place, (stride,))
                line = f"{target}[{start + position} + i0] = vec({array}[{index}]);"
                self.emit(nest((length,), [line]))
            start += len(places)

    def elementwise(self, call: Call, formula: Callable[..., str]) -> None:
        """Compute each number of the result from one of each argument; calls in a row share a loop
        where they can.
        """
        out = call.outputs[0]
        order = self.order(call, out.shape)
        shape = torch.Size(out.shape[axis] for axis in order)
        count = self.count(call, shape)
        dims = member_dims(shape, count)

        def located(arg: object) -> object:
            """Return array and index of a tensor; numbers as they are."""
            if not isinstance(arg, Tensor):
                return arg
            elements = numbered(arg).expand(out.shape).permute(order)
            return self.strided(arg, elements, dims, count)

        places = [located(arg) for arg in call.args]
        # the open loop if it goes over these axes and has the elements at hand; else another one
        if self._loop is not None and not self._loop.serves(dims, places):
            self._flush()
        if self._loop is None:
            self._loop = _Loop(dims)
        loop = self._loop
        operands = [loop.element(place) for place in places]
        try:
            written = formula(*operands, **call.kwargs)
        except TypeError as error:
            reason = f"{call.op} with {sorted(call.kwargs)} has no compiled form"
            raise Unsupported(reason) from error
        target = self.new(out, shape, count)
        self.move(out, lambda ids: ids.permute(inverse(order)))
        loop.lines.append(f"const V x_{target} = {vector(written)};")
        loop.lines.append(f"{target}[{contiguous(dims)}] = x_{target};")
        loop.held.add(target)

    def _flush(self) -> None:
        if self._loop is not None:
            self._lines.append(nest(self._loop.dims, self._loop.lines))
            self._loop = None


def inverse(order: Sequence[int]) -> list[int]:
    """Return the permutation that undoes `order`."""
    return sorted(range(len(order)), key=order.__getitem__)


def nest(dims: Shape, lines: list[str]) -> str:
    """Statements inside a loop for each of `dims`, with indices i0, i1, ..."""
    loops = " ".join(f"for (int i{d} = 0; i{d} < {size}; i{d}++)" for d, size in enumerate(dims))
    return f"{loops} {{\n  " + "\n  ".join(lines) + "\n}"
