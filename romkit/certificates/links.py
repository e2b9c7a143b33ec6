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
        spread, reach = matrix.abs() @ self.spread, matrix.abs() @ self.reach
        return Signal(matrix @ self.value, matrix @ self.rows, matrix @ self.middle, spread, reach)

    def plus(self, other: "Signal") -> "Signal":
        rows = sum(
            _wide(s.rows, max(self.rows.shape[1], other.rows.shape[1])) for s in (self, other)
        )
        middle, spread = self.middle + other.middle, self.spread + other.spread
        return Signal(self.value + other.value, rows, middle, spread, self.reach + other.reach)


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
        eye = torch.eye(self.columns, dtype=torch.float64)
        self.inputs = [
            Signal(center, rows, rows, torch.zeros_like(rows), torch.full_like(center, radius))
            for center, radius, rows in zip(centers, self.radii, eye.split(self.sizes), strict=True)
        ]

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
        middle = sum(gain.middle.unsqueeze(1) * x.middle for x, gain in arguments)
        spread = sum(_spread(x, gain) for x, gain in arguments)
        reach = sum(
            gain.largest * torch.minimum(x.reach, self._by_gradient(x)) for x, gain in arguments
        )
        if all(bool((gain.low == gain.high).all()) for _, gain in arguments):
            rows = sum(gain.low.unsqueeze(1) * _wide(x.rows, self.columns) for x, gain in arguments)
            return Signal(value, rows, middle, spread, reach)
        self.blocks.append(arguments)
        rows = torch.cat(
            [value.new_zeros(len(value), self.columns), torch.eye(len(value), dtype=value.dtype)], 1
        )
        self.columns = rows.shape[1]
        return Signal(value, rows, middle, spread, reach)

    def _by_gradient(self, x: Signal) -> Tensor:
        parts = zip(
            self.radii, x.middle.split(self.sizes, 1), x.spread.split(self.sizes, 1), strict=True
        )
        return sum(
            radius * (middle.norm(dim=1) + spread.norm(dim=1)) for radius, middle, spread in parts
        )


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
    start, own = sum(units.sizes), slice(sum(units.sizes[:which]), sum(units.sizes[: which + 1]))
    size = used = units.sizes[which]
    known, blocks = torch.zeros(units.columns, units.columns, dtype=torch.float64), []
    known[own, :size] = torch.eye(
        size, dtype=torch.float64
    )  # each unit by the input and by those that are left
    for arguments in units.blocks:
        rows = [_wide(x.rows, units.columns) @ known for x, _ in arguments]
        alive = [(row != 0).any(1) for row in rows]
        free = sum(
            there & (gain.radius > 0) for there, (_, gain) in zip(alive, arguments, strict=True)
        ).bool()
        block = known[start : start + len(free)]
        block += sum(
            gain.middle.unsqueeze(1) * row for row, (_, gain) in zip(rows, arguments, strict=True)
        )
        seen = [k for k, there in enumerate(alive) if bool((there & free).any())]
        if seen:
            gains = tuple(Range(*(end[free] for end in arguments[k].gain)) for k in seen)
            signals = [arguments[k].signal for k in seen]
            sizes = tuple(
                (x.middle[:, own].norm(dim=1) + x.spread[:, own].norm(dim=1))[free] for x in signals
            )
            blocks.append(Block(tuple(rows[k][free][:, :used] for k in seen), gains, sizes))
            number = len(sizes[0])
            block[free] = torch.eye(units.columns, dtype=torch.float64)[used : used + number]
            used += number
        start += len(free)
    last = (_wide(output.rows, units.columns) @ known)[:, :used]
    norms = (
        [torch.linalg.matrix_norm(part[:, own], 2) for part in (output.middle, output.spread)]
        if size
        else [0.0]
    )
    return Links(size, tuple(blocks), last, float(sum(norms)))


def _spread(x: Signal, gain: Range) -> Tensor:
    return gain.middle.abs().unsqueeze(1) * x.spread + gain.radius.unsqueeze(1) * (
        x.middle.abs() + x.spread
    )


def _wide(rows: Tensor, columns: int) -> Tensor:
    """Rows padded with zeros for the units that came later."""
    return torch.nn.functional.pad(rows, (0, columns - rows.shape[1]))
