"""What a compiled field reads and does not compute: numbers for all members, and numbers of each member's own."""

import math

import torch
from torch import Tensor

from romkit.engine.compiled.index import split


class Constants:
    """Two pools that the kernel is given: C, shared by all members, and M, one row per member.

    Values are never written into the source, so that one compiled kernel serves every context and every training.
    """

    def __init__(self, members: int, dtype: torch.dtype):
        self._members, self._dtype = members, dtype
        self._pools: dict[str, list[Tensor]] = {"C": [], "M": []}
        self._sizes = {"C": 0, "M": 0}
        self._offsets: dict[tuple, int] = {}

    def place(self, tensor: Tensor, elements: Tensor, count: int) -> tuple[str, Tensor]:
        """Where the elements of a tensor are kept: the pool, and (K,) places in it.

        Args:
            tensor: the constant.
            elements: which of its elements, by their number in row-major order; they are split among `count` members.
            count: how many members share them out; 1 if all of them go to everyone.
        """
        rows = split(elements, count)
        if torch.equal(rows, rows[:1].expand_as(rows)):
            return "C", rows[0] + self._store("C", (id(tensor),), tensor.reshape(1, -1))
        first = rows.min(dim=1, keepdim=True).values
        relative = rows - first
        if not torch.equal(relative, relative[:1].expand_as(relative)):
            first, relative = None, torch.arange(rows.shape[1]).unsqueeze(0)
        taken = rows if first is None else first + torch.arange(int(relative.max()) + 1)
        key = (id(tensor), taken.shape[1], taken[:, 0].numpy().tobytes(), first is None)
        return "M", relative[0] + self._store("M", key, tensor.reshape(-1)[taken])

    def pack(self, lanes: int) -> tuple[Tensor, Tensor]:
        """C (size,) and M (blocks, size, lanes): the members of a block lie side by side, the last one fills it up."""
        shared = torch.cat([*self._pools["C"], torch.zeros(1, 1, dtype=self._dtype)], dim=1)[0]
        own = torch.cat([*self._pools["M"], torch.zeros(self._members, 1, dtype=self._dtype)], dim=1)
        blocks = math.ceil(self._members / lanes)
        member = torch.arange(blocks * lanes).clamp(max=self._members - 1)
        return shared.contiguous(), own[member].reshape(blocks, lanes, -1).mT.contiguous()

    @property
    def own_size(self) -> int:
        """Length of a row of M."""
        return self._sizes["M"] + 1

    def _store(self, pool: str, key: tuple, rows: Tensor) -> int:
        if (pool, *key) not in self._offsets:
            self._offsets[pool, *key] = self._sizes[pool]
            self._pools[pool].append(rows.to(self._dtype))
            self._sizes[pool] += rows.shape[1]
        return self._offsets[pool, *key]
