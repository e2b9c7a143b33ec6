"""Sizes of the components of a state, so that unknowns are of the size of one."""

from collections.abc import Callable

import numpy as np
import torch

from romkit.branches.equations import Scaled
from romkit.core.types import Array, Field, Shape
from romkit.engine.threads import one_thread

SMALL = 1e-6
"""Size of a component, relative to the largest, below which its value alone does not tell a small
unit from what a settling run has left of zero.
"""


def sizes(
    states: Array,
    field: Callable[[int], Field],
    moved: Array,
    by_parameter: Array,
    *,
    decades: Shape = (-15, 8),
) -> Array:
    """Return sizes (d,) of components of states (k, d): their largest values, and of those that are
    small beside others, what the field says of them.

    On an orbit a component is as large as it moves. At rest it is as large as its response to moves
    of the other components and of the parameter by their sizes, or as the move from which on the
    field is no longer linear in it, if that is less: smaller sizes mean shorter steps, larger ones
    hide a component. A value that is not much smaller than that is a size itself. A move or a response
    below the rounding of the largest component is what is left of zero, and says nothing.

    Args:
        states: near the start of a branch, the first one at the start.
        field: number of members -> field f(t, y) at the start.
        moved: (d,) rates at the start times the time scale of an orbit, zero for equilibria.
        by_parameter: (d,) change of the rates over the range of the parameter.
        decades: powers of ten of moves of such a component, relative to the largest one.
    """
    largest = np.abs(states).max(0, initial=0.0)
    is_large = largest > SMALL * largest.max()
    if is_large.all():
        return largest
    w = states[0]
    unit = largest.max() or 1.0
    slopes = Scaled(field(len(w)), torch.ones(len(w), dtype=torch.float64)).slopes(w)
    moves = unit * 10.0 ** np.arange(decades[0], decades[1] + 0.5, 0.5)
    # what moves is not at rest, and takes no part in a response
    is_known = is_large | (moved > moves[0])
    size = np.where(is_large, largest, np.where(is_known, moved, 0.0))
    response = _response(slopes, by_parameter, size, is_known)
    typical = 1.0
    if is_large.any():
        typical = np.sqrt((largest[is_large] ** 2).mean())
    for k in np.flatnonzero(~is_known).tolist():
        sensitivity = _linearity_error(field(2 * len(moves) + 1), w, k, slopes[:, k], moves)
        at_rest = [estimate for estimate in (sensitivity, response[k]) if estimate > moves[0]]
        size[k] = min(at_rest, default=typical)
    return np.where(largest > SMALL * size, largest, size)


def _response(slopes: Array, by_parameter: Array, size: Array, is_known: Array) -> Array:
    """(d,) moves at rest of components of unknown size where the others and the parameter move by
    their sizes.
    """
    response = np.zeros(len(size))
    unknown = ~is_known
    forces = [by_parameter[unknown], *(slopes[np.ix_(unknown, is_known)] * size[is_known]).T]
    block = slopes[np.ix_(unknown, unknown)]
    if np.isfinite(block).all() and np.isfinite(forces).all():
        moves = np.linalg.lstsq(block, np.transpose(forces), rcond=None)[0]
        response[unknown] = np.abs(moves).max(1)
    return response


def _linearity_error(field: Field, w: Array, k: int, slopes: Array, moves: Array) -> float:
    """Longest move of component k that its rate answers in proportion; 0 where all are, or none."""
    row = k
    if slopes[k] == 0:
        row = int(np.abs(slopes).argmax())
    if slopes[row] == 0 or not np.isfinite(slopes[row]):
        return 0.0
    steps = np.concatenate([[0.0], moves, -moves])
    states = np.tile(w, (len(steps), 1))
    states[:, k] += steps
    t = torch.zeros((), dtype=torch.float64)
    with torch.no_grad(), one_thread():
        rates = field(t, torch.from_numpy(states)).numpy()[:, row]
    base, ahead, behind = rates[0], *np.split(rates[1:], 2)
    even = np.abs((ahead + behind) / 2 - base)
    odd = np.abs((ahead - behind) / 2 - slopes[row] * moves)
    with np.errstate(invalid="ignore"):
        is_linear = even + odd <= np.abs(slopes[row] * moves)
    longest = np.flatnonzero(is_linear).max(initial=-1)
    if longest < 0 or longest == len(moves) - 1:
        return 0.0
    return float(moves[longest])
