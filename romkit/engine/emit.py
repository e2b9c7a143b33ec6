"""Statements of the compiled field, and where each tensor of the trace is kept while they run.

A `Located` names the elements of a tensor by integers that carry the member of the batch in the
upper bits. Views, transposes, slices and broadcasts are torch calls on these integers and cost
nothing at run time. `locate` then reads off the places of one member's elements, and refuses
operations that mix members.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.engine.build import Unsupported
from romkit.engine.formulas import vector
from romkit.engine.trace import Call, is_symbol

_BITS = 32
_EVERY_MEMBER = 1 << 30
"""Mark for the member of a value that does not depend on the member, such as cos(t)."""

UNOWNED = _EVERY_MEMBER << _BITS
"""An id that any member may have."""


@dataclass(frozen=True)
class Located:
    """Elements of a buffer in the order and shape of a tensor; ids = member · 2³² + place in the
    buffer.
    """

    buffer: str
    ids: Tensor


def fresh(buffer: str, shape: Sequence[int], members: int | None = None) -> Located:
    """A fresh buffer of numel / members elements for each member, the outermost axes; without
    members, one for all.
    """
    owner = torch.tensor([_EVERY_MEMBER]) if members is None else torch.arange(members)
    place = torch.arange(math.prod(shape) // len(owner))
    return Located(buffer, ((owner.unsqueeze(1) << _BITS) + place).reshape(shape))


def numbered(tensor: Tensor) -> Tensor:
    """Numbers of the elements of a tensor in row-major order."""
    return torch.arange(tensor.numel()).reshape(tensor.shape)


def is_shared(value: Located) -> bool:
    """Whether the value is the same for every member."""
    return bool((value.ids >> _BITS == _EVERY_MEMBER).all())


def locate(ids: Tensor, members: int) -> Tensor:
    """(K,) places of the K elements that each member owns of a tensor with these ids.

    Raises:
        Unsupported: the elements are not the member's own, or members differ in more than their
            number.
    """
    rows = split(ids, members)
    owner = rows >> _BITS
    place = rows & ((1 << _BITS) - 1)
    own = (owner == torch.arange(members).unsqueeze(1)) | (owner == _EVERY_MEMBER)
    if not bool(own.all()) or not torch.equal(place, place[:1].expand_as(place)):
        raise Unsupported("it mixes the members of the batch")
    return place[0]


def split(ids: Tensor, members: int) -> Tensor:
    """(members, K) rows, the outermost axes being the members."""
    if ids.numel() == 0 or ids.numel() % members:
        raise Unsupported(
            f"a tensor of shape {tuple(ids.shape)} does not split into {members} members"
        )
    return ids.reshape(members, -1)


def members_first(ids: Tensor, lead: Sequence[int]) -> list[int]:
    """The axes of a tensor with these ids, those of the members first: as they are, or `lead` moved
    to the front.
    """
    members = torch.arange(math.prod(lead)).unsqueeze(1)
    axes = list(range(ids.ndim))
    owner = ids >> _BITS
    for start in range(ids.ndim - len(lead) + 1):
        front = axes[start : start + len(lead)]
        order = front + [axis for axis in axes if axis not in front]
        rows = owner.permute(order)
        if rows.numel() % len(members) == 0:
            rows = rows.reshape(len(members), -1)
            if bool(((rows == members) | (rows == _EVERY_MEMBER)).all()):
                return order
    return axes


def by_owner(ids: Tensor) -> Tensor:
    """The order of the outermost axis that puts the entries of the first member first, then those
    of the second, ...
    """
    return torch.argsort((ids >> _BITS).reshape(len(ids), -1)[:, 0], stable=True)


class AffineIndex(NamedTuple):
    """base + Σ strides[d] · i_d."""

    base: int
    strides: tuple[int, ...]

    def __str__(self) -> str:
        terms = [
            f"{stride} * i{d}" if stride != 1 else f"i{d}"
            for d, stride in enumerate(self.strides)
            if stride
        ]
        return " + ".join(([str(self.base)] if self.base or not terms else []) + terms)


def affine(places: Tensor, dims: tuple[int, ...]) -> AffineIndex | None:
    """Places (K,) as an affine function of the indices of `dims`, if they are one."""
    grid = places.reshape(dims)
    base = int(grid.flatten()[0])
    strides, rebuilt = [], torch.full((), base)
    for axis, size in enumerate(dims):
        stride = int(grid.select(axis, 1).flatten()[0]) - base if size > 1 else 0
        strides.append(stride)
        rebuilt = rebuilt.unsqueeze(-1) + stride * torch.arange(size)
    return AffineIndex(base, tuple(strides)) if torch.equal(rebuilt, grid) else None


def member_dims(shape: torch.Size, members: int) -> tuple[int, ...]:
    """Axes of one member in a tensor of this shape, without those of size one."""
    left, dims = math.prod(shape) // members, []
    for size in reversed(shape):
        if left <= 1 or left % size:
            break
        dims.insert(0, size)
        left //= size
    return tuple(size for size in [left, *dims] if size > 1) or (1,)


def contiguous(dims: tuple[int, ...]) -> AffineIndex:
    """The places of a fresh buffer."""
    return AffineIndex(
        0, tuple(math.prod(dims[axis + 1 :]) if size > 1 else 0 for axis, size in enumerate(dims))
    )


def runs(places: list[int]) -> list[tuple[int, int, int, int]]:
    """Places cut into arithmetic progressions: (first position, place, stride, length)."""
    found, start = [], 0
    while start < len(places):
        stride = places[start + 1] - places[start] if start + 1 < len(places) else 1
        end = start + 1
        while end < len(places) and places[end] - places[end - 1] == stride:
            end += 1
        found.append((start, places[start], stride, end - start))
        start = end
    return found


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
        self._offsets: dict[tuple, int] = {}

    def place(self, tensor: Tensor, elements: Tensor, count: int) -> tuple[str, Tensor]:
        """The pool that keeps the elements of a tensor, and (K,) their places in it.

        Args:
            tensor: the constant.
            elements: numbers of its elements in row-major order, split among `count` members.
            count: how many members share them out; 1 if all of them go to everyone.
        """
        rows = split(elements, count)
        if torch.equal(rows, rows[:1].expand_as(rows)):
            return "C", rows[0] + self._store("C", (id(tensor),), tensor, None)
        first = rows.min(dim=1, keepdim=True).values
        relative = rows - first
        if not torch.equal(relative, relative[:1].expand_as(relative)):
            first, relative = None, torch.arange(rows.shape[1]).unsqueeze(0)
        taken = rows if first is None else first + torch.arange(int(relative.max()) + 1)
        key = (id(tensor), taken.shape[1], taken[:, 0].numpy().tobytes(), first is None)
        return "M", relative[0] + self._store("M", key, tensor, taken)

    def pack(self, lanes: int) -> tuple[Tensor, Tensor]:
        """C (size,) and M (blocks, size, lanes): the members of a block lie side by side, the last
        one fills it up.

        The numbers are those that the constants have now.
        """
        shared = [tensor.reshape(1, -1).to(self.dtype) for tensor, _ in self._pools["C"]]
        shared = torch.cat([*shared, torch.zeros(1, 1, dtype=self.dtype)], dim=1)[0]
        own = [tensor.reshape(-1)[taken].to(self.dtype) for tensor, taken in self._pools["M"]]
        own = torch.cat([*own, torch.zeros(self._members, 1, dtype=self.dtype)], dim=1)
        blocks = math.ceil(self._members / lanes)
        member = torch.arange(blocks * lanes).clamp(max=self._members - 1)
        return shared.contiguous(), own[member].reshape(blocks, lanes, -1).mT.contiguous()

    @property
    def own_size(self) -> int:
        """Length of a row of M."""
        return self._sizes["M"] + 1

    def _store(self, pool: str, key: tuple, tensor: Tensor, taken: Tensor | None) -> int:
        if (pool, *key) not in self._offsets:
            self._offsets[pool, *key] = self._sizes[pool]
            self._pools[pool].append((tensor, taken))
            self._sizes[pool] += tensor.numel() if taken is None else taken.shape[1]
        return self._offsets[pool, *key]


@dataclass
class _Loop:
    """Elementwise statements over the same indices; `held` are the buffers whose current element is
    in a variable.
    """

    dims: tuple[int, ...]
    lines: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)


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
        """All statements so far, without arrays that nothing reads; those with a place in M are
        kept there.
        """
        self._flush()
        text, places = "\n".join(self._lines), places or {}
        words = Counter(re.findall(r"\bv\d+\b", text))
        store = re.compile(r"\n  (v\d+)\[[^]]*\] = x_\1;")
        unread = {name for name in store.findall(text) if words[name] == 1 and name not in places}
        text = store.sub(lambda found: "" if found[1] in unread else found[0], text)
        self.sizes = {name: size for name, size in self.sizes.items() if name not in unread}
        kept = {name: f"V *const {name} = M + {place};" for name, place in places.items()}
        return "\n".join(
            [*(kept.get(name, f"V {name}[{size}];") for name, size in self.sizes.items()), text]
        )

    # -- where things are ------------------------------------------------------------------------------------------

    def keep(self, tensor: Tensor) -> Tensor:
        """Hold a tensor that is not part of the trace: tensors are known by their identity."""
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
        """A fresh buffer for a result, whose elements it holds in the order of `shape`."""
        name = self.array(math.prod(shape) // count)
        self.assign(tensor, fresh(name, shape, None if count < self.members else count))
        return name

    def move(self, tensor: Tensor, move: Callable[[Tensor], Tensor]) -> None:
        """Turn the order in which a buffer was filled into that of the result."""
        value = self.value(tensor)
        self.assign(tensor, Located(value.buffer, move(value.ids)))

    def count(self, call: Call, shape: Sequence[int]) -> int:
        """Number of members that a result of this shape is split among, the members being
        outermost.
        """
        per_member = tuple(shape[: len(self.lead)]) == tuple(self.lead) and len(shape) > len(
            self.lead
        )
        return (
            self.members
            if per_member or not all(is_shared(self.value(s)) for s in call.symbols)
            else 1
        )

    def order(self, call: Call, shape: Sequence[int]) -> list[int]:
        """The axes of a result that arguments are broadcast to, with those of the members put
        first.
        """
        for leaf in call.symbols:
            if not is_shared(self.value(leaf)):
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

    def strided(
        self, tensor: Tensor, elements: Tensor, dims: tuple[int, ...], count: int
    ) -> tuple[str, AffineIndex]:
        """Like `place`, with places as a function of the indices of `dims`; copied side by side
        where there is none.
        """
        array, places = self.place(tensor, elements, count)
        index = affine(places, dims)
        if index is not None:
            return array, index
        name = self.array(len(places))
        self.copy(name, [(array, place) for place in places.tolist()])
        return name, contiguous(dims)

    def pointer(self, tensor: Tensor, elements: Tensor, count: int) -> str:
        """An expression for a pointer to these elements, side by side."""
        size = elements.numel() // count
        array, index = self.strided(tensor, elements, (size,), count)
        if index.strides == (1,) or size == 1:
            return f"{array} + {index.base}"
        name = self.array(size)
        self.emit(nest((size,), [f"{name}[i0] = vec({array}[{index}]);"]))
        return name

    def array(self, size: int) -> str:
        """Name of a fresh array of so many numbers of each member."""
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
        while start < len(sources):
            array = sources[start][0]
            end = next(
                (k for k in range(start, len(sources)) if sources[k][0] != array), len(sources)
            )
            for position, place, stride, length in runs([place for _, place in sources[start:end]]):
                index = AffineIndex(place, (stride,))
                self.emit(
                    nest((length,), [f"{target}[{start + position} + i0] = vec({array}[{index}]);"])
                )
            start = end

    def elementwise(self, call: Call, formula: Callable[..., str]) -> None:
        """Compute each number of the result from one of each argument; calls in a row share a loop
        where they can.
        """
        out = call.outputs[0]
        order = self.order(call, out.shape)
        shape = torch.Size(out.shape[axis] for axis in order)
        count = self.count(call, shape)
        dims = member_dims(shape, count)
        here = contiguous(dims)

        def find(arg: Tensor) -> tuple[str, AffineIndex]:
            return self.strided(arg, numbered(arg).expand(out.shape).permute(order), dims, count)

        found = [find(arg) if isinstance(arg, Tensor) else arg for arg in call.args]
        places = [operand for operand in found if isinstance(operand, tuple)]
        if self._loop and (
            self._loop.dims != dims or any(a in self._loop.held and at != here for a, at in places)
        ):
            self._flush()
        self._loop = self._loop or _Loop(dims)
        operands = [
            self._element(*operand) if isinstance(operand, tuple) else operand for operand in found
        ]
        try:
            written = formula(*operands, **call.kwargs)
        except TypeError as error:
            raise Unsupported(
                f"{call.op} with {sorted(call.kwargs)} has no compiled form"
            ) from error
        target = self.new(out, shape, count)
        self.move(out, lambda ids: ids.permute(inverse(order)))
        self._loop.lines += [
            f"const V x_{target} = {vector(written)};",
            f"{target}[{here}] = x_{target};",
        ]
        self._loop.held.add(target)

    def _element(self, array: str, index: AffineIndex) -> str:
        return f"x_{array}" if array in self._loop.held else f"vec({array}[{index}])"

    def _flush(self) -> None:
        if self._loop is not None:
            self._lines.append(nest(self._loop.dims, self._loop.lines))
            self._loop = None


def inverse(order: Sequence[int]) -> list[int]:
    """The permutation that undoes `order`."""
    return sorted(range(len(order)), key=order.__getitem__)


def nest(dims: tuple[int, ...], lines: list[str]) -> str:
    """Statements inside a loop for each of `dims`, with indices i0, i1, ..."""
    loops = " ".join(f"for (int i{d} = 0; i{d} < {size}; i{d}++)" for d, size in enumerate(dims))
    return f"{loops} {{\n  " + "\n  ".join(lines) + "\n}"
