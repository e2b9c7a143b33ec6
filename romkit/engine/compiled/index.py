"""Which numbers of a tensor belong to which member of the batch, found by letting torch move indices around.

A `Located` names its elements by integers that carry the member in the upper bits. Views, transposes, slices and
broadcasts are torch calls on these integers and cost nothing at run time. `locate` then reads off where the elements of
one member are, and refuses what mixes members.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.engine.compiled.record import Unsupported

_BITS = 32
_EVERY_MEMBER = 1 << 30
"""Stands for the member of a value that does not depend on the member, such as cos(t)."""

UNOWNED = _EVERY_MEMBER << _BITS
"""An id that any member may have."""


@dataclass(frozen=True)
class Located:
    """Elements of a buffer in the order and shape of a tensor; ids = member · 2³² + place in the buffer."""

    buffer: str
    ids: Tensor


def member_value(buffer: str, shape: torch.Size, members: int) -> Located:
    """A fresh buffer of numel / members elements for each member, the outermost axes being the members."""
    member = torch.arange(members).unsqueeze(1)
    place = torch.arange(math.prod(shape) // members)
    return Located(buffer, ((member << _BITS) + place).reshape(shape))


def shared_value(buffer: str, shape: torch.Size) -> Located:
    """A fresh buffer that is the same for every member."""
    return Located(buffer, ((_EVERY_MEMBER << _BITS) + torch.arange(math.prod(shape))).reshape(shape))


def is_shared(value: Located) -> bool:
    """Whether the value is the same for every member."""
    return bool((value.ids >> _BITS == _EVERY_MEMBER).all())


def locate(ids: Tensor, members: int) -> Tensor:
    """(K,) places of the K elements that each member owns of a tensor with these ids.

    Raises:
        Unsupported: the elements are not the member's own, or members differ in more than their number.
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
        raise Unsupported(f"a tensor of shape {tuple(ids.shape)} does not split into {members} members")
    return ids.reshape(members, -1)


def members_first(ids: Tensor, lead: Sequence[int]) -> list[int]:
    """The axes of a tensor with these ids, those of the members first: as they are, or `lead` moved to the front."""
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
    """The order of the outermost axis that puts the entries of the first member first, then those of the second, ..."""
    return torch.argsort((ids >> _BITS).reshape(len(ids), -1)[:, 0], stable=True)


class AffineIndex(NamedTuple):
    """base + Σ strides[d] · i_d."""

    base: int
    strides: tuple[int, ...]

    def __str__(self) -> str:
        terms = [f"{stride} * i{d}" if stride != 1 else f"i{d}" for d, stride in enumerate(self.strides) if stride]
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
    return AffineIndex(0, tuple(math.prod(dims[axis + 1 :]) if size > 1 else 0 for axis, size in enumerate(dims)))


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
