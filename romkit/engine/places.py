"""Places of the tensors of a trace while the statements of the compiled field run.

A `Located` names the elements of a tensor by integers that carry the member of the batch in the
upper bits. Views, transposes, slices and broadcasts are torch calls on these integers and cost
nothing at run time. `locate` then reads off the places of one member's elements, and refuses
operations that mix members.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import Shape
from romkit.engine.build import Unsupported

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
    """Return a fresh buffer of numel / members elements for each member, the outermost axes;
    without members, one for all.
    """
    owner = torch.tensor([_EVERY_MEMBER]) if members is None else torch.arange(members)
    place = torch.arange(math.prod(shape) // len(owner))
    ids = (owner.unsqueeze(1) << _BITS) + place  # (members, elements)
    return Located(buffer, ids.reshape(shape))


def numbered(tensor: Tensor) -> Tensor:
    """Return numbers of the elements of a tensor in row-major order."""
    return torch.arange(tensor.numel()).reshape(tensor.shape)


def is_shared(value: Located) -> bool:
    """Tell whether the value is the same for every member."""
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
    owned = (owner == torch.arange(members).unsqueeze(1)) | (owner == _EVERY_MEMBER)
    if not bool(owned.all()) or not torch.equal(place, place[:1].expand_as(place)):
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
    """Return the axes of a tensor with these ids, those of the members first: as they are, or
    `lead` moved to the front.
    """
    axes = list(range(ids.ndim))
    owner = ids >> _BITS
    for start in range(ids.ndim - len(lead) + 1):
        front = axes[start : start + len(lead)]
        order = front + [axis for axis in axes if axis not in front]
        if _are_ordered(owner.permute(order), math.prod(lead)):
            return order
    return axes


def _are_ordered(owner: Tensor, members: int) -> bool:
    """Tell whether elements of these owners are those of the first member, then of the second, ..."""
    if owner.numel() % members:
        return False
    rows = owner.reshape(members, -1)
    expected = torch.arange(members).unsqueeze(1)
    return bool(((rows == expected) | (rows == _EVERY_MEMBER)).all())


def sort_owners(ids: Tensor) -> Tensor:
    """Return the order of the outermost axis that puts the entries of the first member first, then
    those of the second, ...
    """
    return torch.argsort((ids >> _BITS).reshape(len(ids), -1)[:, 0], stable=True)


class AffineIndex(NamedTuple):
    """base + Σ strides[d] · i_d."""

    base: int
    strides: Shape

    def __str__(self) -> str:
        terms = []
        for d, stride in enumerate(self.strides):
            if stride == 1:
                terms.append(f"i{d}")
            elif stride:
                terms.append(f"{stride} * i{d}")
        if self.base or not terms:
            terms.insert(0, str(self.base))
        return " + ".join(terms)


def affine(places: Tensor, dims: Shape) -> AffineIndex | None:
    """Return places (K,) as an affine function of the indices of `dims`, if they are one."""
    grid = places.reshape(dims)
    base = int(grid.flatten()[0])
    strides, rebuilt = [], torch.full((), base)
    for axis, size in enumerate(dims):
        stride = 0
        if size > 1:
            stride = int(grid.select(axis, 1).flatten()[0]) - base
        strides.append(stride)
        rebuilt = rebuilt.unsqueeze(-1) + stride * torch.arange(size)
    if not torch.equal(rebuilt, grid):
        return None
    return AffineIndex(base, tuple(strides))


def member_dims(shape: torch.Size, members: int) -> Shape:
    """Axes of one member in a tensor of this shape, without those of size one."""
    outer = math.prod(shape) // members
    dims: list[int] = []
    for size in reversed(shape):
        if outer <= 1 or outer % size:
            break
        dims.insert(0, size)
        outer //= size
    return tuple(size for size in [outer, *dims] if size > 1) or (1,)


def contiguous(dims: Shape) -> AffineIndex:
    """Return the places of a fresh buffer."""
    strides = []
    for axis, size in enumerate(dims):
        strides.append(math.prod(dims[axis + 1 :]) if size > 1 else 0)
    return AffineIndex(0, tuple(strides))


def runs(places: list[int]) -> list[tuple[int, int, int, int]]:
    """Return places cut into arithmetic progressions: (first position, place, stride, length)."""
    progressions, start = [], 0
    while start < len(places):
        end = start + 1
        stride = 1
        if end < len(places):
            stride = places[end] - places[start]
        while end < len(places) and places[end] - places[end - 1] == stride:
            end += 1
        progressions.append((start, places[start], stride, end - start))
        start = end
    return progressions
