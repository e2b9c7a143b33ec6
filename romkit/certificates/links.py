"""Signals of a network over a whole ball of states and contexts: units whose derivatives have known
ranges.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.certificates.ranges import Range
from romkit.core.types import TensorTuple

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
        """Return a x."""
        size = matrix.abs()
        return Signal(
            matrix @ self.value,
            matrix @ self.rows,
            matrix @ self.middle,
            size @ self.spread,
            size @ self.reach,
        )

    def plus(self, other: "Signal") -> "Signal":
        columns = max(self.rows.shape[1], other.rows.shape[1])
        value = self.value + other.value
        rows = _wide(self.rows, columns) + _wide(other.rows, columns)
        return Signal(
            value,
            rows,
            self.middle + other.middle,
            self.spread + other.spread,
            self.reach + other.reach,
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
        of_inputs = torch.eye(self.columns, dtype=torch.float64).split(self.sizes)
        for center, radius, rows in zip(centers, self.radii, of_inputs, strict=True):
            exact = torch.zeros_like(rows)
            signal = Signal(center, rows, rows, exact, torch.full_like(center, radius))
            self.inputs.append(signal)

    def over(self, x: Signal) -> Range:
        """Range of a signal: its value at the centers, plus or minus its reach."""
        reach = self._reach(x)
        return Range(x.value - reach, x.value + reach)

    def constant(self, value: Tensor) -> Signal:
        rows = value.new_zeros(len(value), sum(self.sizes))
        return Signal(value, rows, rows, rows, torch.zeros_like(value))

    def units(self, value: Tensor, *arguments: Argument) -> Signal:
        """One unit for each entry of `value`, a function of the arguments' entries; none where all
        gains are exact.
        """
        middle = spread = reach = value.new_zeros(())
        exact = True
        for x, gain in arguments:
            middle = middle + gain.middle.unsqueeze(1) * x.middle
            spread = spread + _spread(x, gain)
            reach = reach + gain.largest * self._reach(x)
            is_exact = bool((gain.low == gain.high).all())
            exact = exact and is_exact
        if exact:
            rows = torch.zeros((), dtype=torch.float64)
            for x, gain in arguments:
                rows = rows + gain.low.unsqueeze(1) * _wide(x.rows, self.columns)
        else:
            # rows (k, N + k) of units of their own, behind all others
            count = len(value)
            before = value.new_zeros(count, self.columns)
            rows = torch.cat([before, torch.eye(count, dtype=value.dtype)], 1)
            self.blocks.append(arguments)
            self.columns = rows.shape[1]
        return Signal(value, rows, middle, spread, reach)

    def _reach(self, x: Signal) -> Tensor:
        """Return deviations (k,) from the centre, by enclosures or by gradients."""
        reach = x.reach.new_zeros(())
        middles, spreads = x.middle.split(self.sizes, 1), x.spread.split(self.sizes, 1)
        for radius, middle, spread in zip(self.radii, middles, spreads, strict=True):
            reach = reach + radius * (middle.norm(dim=1) + spread.norm(dim=1))
        return torch.minimum(x.reach, reach)


class Block(NamedTuple):
    """Units u = Σₐ gainₐ (matrixₐ · [input, units before]); `sizes` bound the gradients' norms of
    these products.
    """

    matrices: TensorTuple
    gains: tuple[Range, ...]
    sizes: TensorTuple


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
    offset = sum(units.sizes[:which])
    size = units.sizes[which]
    columns = slice(offset, offset + size)  # of the input
    # each unit by the input and by the units that are kept
    matched = torch.zeros(units.columns, units.columns, dtype=torch.float64)
    matched[columns, :size] = torch.eye(size, dtype=torch.float64)
    identity = torch.eye(units.columns, dtype=torch.float64)
    blocks: list[Block] = []
    used = size
    for arguments in units.blocks:
        rows = [_wide(x.rows, units.columns) @ matched for x, _ in arguments]
        moved = [(row != 0).any(1) for row in rows]
        end = start + len(rows[0])
        of_units = matched[start:end]
        free = torch.zeros_like(moved[0])  # whose derivative by what moves is not known exactly
        for row, moves, (_, gain) in zip(rows, moved, arguments, strict=True):
            of_units += gain.middle.unsqueeze(1) * row
            free |= moves & (gain.radius > 0)
        block = _block(rows, moved, arguments, free, used, columns)
        if block.matrices:
            blocks.append(block)
            number = int(free.sum())
            of_units[free] = identity[used : used + number]
            used += number
        start = end
    last = _wide(output.rows, units.columns) @ matched
    enclosure = 0.0
    if size:
        # the norm of the gradient by the input is bounded by that of its entries
        entries = output.middle[:, columns], output.spread[:, columns]
        enclosure = float(sum(torch.linalg.matrix_norm(signal, 2) for signal in entries))
    return Links(size, tuple(blocks), last[:, :used], enclosure)


def _block(
    rows: Sequence[Tensor],
    moved: Sequence[Tensor],
    arguments: Sequence[Argument],
    free: Tensor,
    used: int,
    columns: slice,
) -> Block:
    """Block of the free units: the arguments that move one of them, with the columns in use."""
    matrices, gains, sizes = [], [], []
    for row, moves, (x, gain) in zip(rows, moved, arguments, strict=True):
        if not bool((moves & free).any()):
            continue
        matrices.append(row[free][:, :used])
        gain = gain.map(lambda end: end[free])
        gains.append(gain)
        middle = x.middle[:, columns].norm(dim=1)
        spread = x.spread[:, columns].norm(dim=1)
        sizes.append((middle + spread)[free])
    return Block(tuple(matrices), tuple(gains), tuple(sizes))


def _spread(x: Signal, gain: Range) -> Tensor:
    """Spread (k, inputs) of the gradient of units with this gain of a signal."""
    middle = gain.middle.abs().unsqueeze(1)
    radius = gain.radius.unsqueeze(1)
    of_signal = middle * x.spread
    of_gain = radius * (x.middle.abs() + x.spread)
    return of_signal + of_gain


def _wide(rows: Tensor, columns: int) -> Tensor:
    """Return rows padded with zeros for the units that came later."""
    missing = columns - rows.shape[1]
    return torch.nn.functional.pad(rows, (0, missing))
