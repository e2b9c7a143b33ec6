"""Signals of a network over a whole ball of states and contexts: units whose derivatives have known
ranges.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.certificates.intervals import Range

ANYWHERE = 1e9
"""A ball of this radius is the whole space: slopes have reached their limits there, to rounding."""


class Signal(NamedTuple):
    """A vector (k,) of the network, anywhere on the balls of the inputs.

    Attributes:
        value: at their centers.
        rows: (k, N) its differential, as a linear function of those of the inputs and of the units
            before it.
        middle, spread: (k, inputs) enclosure of its gradient: no entry is further from the middle
            than the spread.
        reach: the largest distance from `value`.
    """

    value: Tensor
    rows: Tensor
    middle: Tensor
    spread: Tensor
    reach: Tensor

    def through(self, matrix: Tensor) -> "Signal":
        """A x."""
        size = matrix.abs()
        return Signal(
            value=matrix @ self.value,
            rows=matrix @ self.rows,
            middle=matrix @ self.middle,
            spread=size @ self.spread,
            reach=size @ self.reach,
        )

    def plus(self, other: "Signal") -> "Signal":
        columns = max(self.rows.shape[1], other.rows.shape[1])
        return Signal(
            value=self.value + other.value,
            rows=_wide(self.rows, columns) + _wide(other.rows, columns),
            middle=self.middle + other.middle,
            spread=self.spread + other.spread,
            reach=self.reach + other.reach,
        )


class Argument(NamedTuple):
    """A signal that units depend on, and the range of their derivatives by the signal."""

    signal: Signal
    gain: Range


class Units:
    """Units between the inputs (states (n,) and contexts (p,)) and an output.

    Args:
        centers: of the inputs.
        radii: of the balls about them, in the Euclidean norm.
    """

    def __init__(self, centers: Sequence[Tensor], radii: Sequence[float]):
        self.radii = [min(radius, ANYWHERE) for radius in radii]
        self.sizes = [len(center) for center in centers]
        self.blocks: list[tuple[Argument, ...]] = []
        self.columns = sum(self.sizes)
        self.inputs: list[Signal] = []
        identity = torch.eye(self.columns, dtype=torch.float64).split(self.sizes)
        for center, radius, rows in zip(centers, self.radii, identity, strict=True):
            exact, reach = torch.zeros_like(rows), torch.full_like(center, radius)
            self.inputs.append(Signal(center, rows, rows, exact, reach))

    def over(self, x: Signal) -> Range:
        """Range of a signal: its value at the centers, plus or minus its reach or that of its
        gradient.
        """
        reach = torch.minimum(x.reach, self._by_gradient(x))
        return Range(x.value - reach, x.value + reach)

    def constant(self, value: Tensor) -> Signal:
        rows = value.new_zeros(len(value), sum(self.sizes))
        return Signal(value, rows, rows, rows, torch.zeros_like(value))

    def units(self, value: Tensor, *arguments: Argument) -> Signal:
        """One unit for each entry of `value`, a function of the arguments' entries; none where all
        gains are exact.
        """
        middle, spread, reach = 0.0, 0.0, 0.0
        for x, gain in arguments:
            middle = middle + gain.middle.unsqueeze(1) * x.middle
            spread = spread + _spread(x, gain)
            reach = reach + gain.largest * torch.minimum(x.reach, self._by_gradient(x))
        if all(bool((gain.low == gain.high).all()) for _, gain in arguments):
            rows = sum(gain.low.unsqueeze(1) * _wide(x.rows, self.columns) for x, gain in arguments)
            return Signal(value, rows, middle, spread, reach)
        self.blocks.append(arguments)
        before = value.new_zeros(len(value), self.columns)
        identity = torch.eye(len(value), dtype=value.dtype)
        rows = torch.cat([before, identity], 1)
        self.columns = rows.shape[1]
        return Signal(value, rows, middle, spread, reach)

    def _by_gradient(self, x: Signal) -> Tensor:
        """Reach (k,) of a signal by the norms of its gradient's rows."""
        reach = 0.0
        middles, spreads = x.middle.split(self.sizes, 1), x.spread.split(self.sizes, 1)
        for radius, middle, spread in zip(self.radii, middles, spreads, strict=True):
            reach = reach + radius * (middle.norm(dim=1) + spread.norm(dim=1))
        return reach


class Block(NamedTuple):
    """Units u = Σₐ gainₐ (matrixₐ · [input, units before]); `sizes` bound the gradients' norms of
    these products.
    """

    matrices: tuple[Tensor, ...]
    gains: tuple[Range, ...]
    sizes: tuple[Tensor, ...]


class Links(NamedTuple):
    """The differential of an output by one input (size columns, first), through blocks of units,
    one after the other.

    Attributes:
        size: of the input.
        blocks: their matrices are (units, size + units before).
        last: (r, size + all units).
        enclosure: a bound of the norm of the gradient.
    """

    size: int
    blocks: tuple[Block, ...]
    last: Tensor
    enclosure: float


def links(units: Units, output: Signal, which: int) -> Links:
    """Links from the input of this number to the output, with the other input held fixed.

    Units that the input does not reach are left out, and those with exact gains are parts of the
    matrices.
    """
    start = sum(units.sizes)
    offset, size = sum(units.sizes[:which]), units.sizes[which]
    columns = slice(offset, offset + size)  # of the input
    # each unit by the input and by those that are left
    known = torch.zeros(units.columns, units.columns, dtype=torch.float64)
    known[columns, :size] = torch.eye(size, dtype=torch.float64)
    blocks: list[Block] = []
    used = size
    for arguments in units.blocks:
        rows = [_wide(x.rows, units.columns) @ known for x, _ in arguments]
        moved = [(row != 0).any(1) for row in rows]
        free = _free(moved, arguments)
        block = known[start : start + len(free)]
        for row, (_, gain) in zip(rows, arguments, strict=True):
            block += gain.middle.unsqueeze(1) * row
        seen = [k for k, moves in enumerate(moved) if bool((moves & free).any())]
        if seen:
            matrices = tuple(rows[k][free][:, :used] for k in seen)
            blocks.append(_block(matrices, [arguments[k] for k in seen], free, columns))
            number = len(matrices[0])
            identity = torch.eye(units.columns, dtype=torch.float64)
            block[free] = identity[used : used + number]
            used += number
        start += len(free)
    last = (_wide(output.rows, units.columns) @ known)[:, :used]
    return Links(size, tuple(blocks), last, _enclosure(output, columns))


def _free(moved: Sequence[Tensor], arguments: Sequence[Argument]) -> Tensor:
    """Units (k,) whose derivative by an input that moves is not known exactly."""
    free = torch.zeros_like(moved[0])
    for moves, (_, gain) in zip(moved, arguments, strict=True):
        free |= moves & (gain.radius > 0)
    return free


def _block(
    matrices: tuple[Tensor, ...], arguments: Sequence[Argument], free: Tensor, columns: slice
) -> Block:
    """Block of the free units of these arguments."""
    gains, sizes = [], []
    for x, gain in arguments:
        gains.append(Range(gain.low[free], gain.high[free]))
        middle = x.middle[:, columns].norm(dim=1)
        spread = x.spread[:, columns].norm(dim=1)
        sizes.append((middle + spread)[free])
    return Block(matrices, tuple(gains), tuple(sizes))


def _enclosure(output: Signal, columns: slice) -> float:
    """Bound of the norm of the gradient by an input, from that of its entries."""
    if columns.stop == columns.start:
        return 0.0
    middle = torch.linalg.matrix_norm(output.middle[:, columns], 2)
    spread = torch.linalg.matrix_norm(output.spread[:, columns], 2)
    return float(middle + spread)


def _spread(x: Signal, gain: Range) -> Tensor:
    """Spread (k, inputs) of the gradient of units with this gain of a signal."""
    of_signal = gain.middle.abs().unsqueeze(1) * x.spread
    of_gain = gain.radius.unsqueeze(1) * (x.middle.abs() + x.spread)
    return of_signal + of_gain


def _wide(rows: Tensor, columns: int) -> Tensor:
    """Rows padded with zeros for the units that came later."""
    return torch.nn.functional.pad(rows, (0, columns - rows.shape[1]))
