"""Places to simulate at in the unit cube of contexts: designs of points, and choices by estimates."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import qmc

from romkit.core.types import Array

DESIGNS = ("greedy", "uniform", "chebyshev", "expanded", "sobol", "random")
"""Ways to choose contexts: by estimates, three kinds of grid, points of low discrepancy, and random
points.
"""


def default_design(parameters: int, budget: int) -> str:
    """Design that was never much less accurate than a grid (studies/sampling)."""
    # along one axis models err most beyond their outermost points; with a corner for each context,
    # in several dimensions, they err most in between
    if parameters == 1 or budget < 2**parameters:
        return "expanded"
    return "chebyshev"


def design(method: str, p: int, number: int, seed: int) -> Array:
    """(at most `number`, p) points from 0 to 1; those that greedy choice begins with."""
    if method == "greedy":
        # two ends of a diagonal say nothing about what a second parameter does
        if p > 1 and number == 2**p:
            return _product([np.array([0.0, 1.0])] * p)
        return np.linspace(0.0, 1.0, number)[:, None].repeat(p, axis=1)
    if method == "random":
        return np.random.default_rng(seed).random((number, p))
    if method == "sobol":
        sequence = qmc.Sobol(p, seed=np.random.default_rng(seed))
        return sequence.random_base2(math.ceil(math.log2(number)))[:number]
    return _product([AXES[method](count) for count in _counts(p, number)])


def _counts(p: int, number: int) -> list[int]:
    """Return numbers of points along p axes, as equal as their product allows, which is `number` at
    most.
    """
    counts = [1] * p
    while True:
        free = []
        for k, count in enumerate(counts):
            if math.prod(counts) // count * (count + 1) <= number:
                free.append(k)
        if not free:
            return counts
        counts[min(free, key=counts.__getitem__)] += 1


def _product(axes: Sequence[Array]) -> Array:
    """(N, p) points of a grid with these axes."""
    p = len(axes)
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, p)


def _uniform(count: int) -> Array:
    """Equal distances, with both ends; the middle if there is one point."""
    return np.linspace(0, 1, count) if count > 1 else np.array([0.5])


def _chebyshev(count: int) -> Array:
    """Roots of a Chebyshev polynomial."""
    angles = np.pi * (np.arange(count) + 0.5) / count
    return (1 - np.cos(angles)) / 2


def _expanded(count: int) -> Array:
    """Roots of a Chebyshev polynomial, stretched to both ends; the middle if there is one point."""
    roots = _chebyshev(count)
    if count == 1:
        return roots
    return (roots - roots[0]) / (roots[-1] - roots[0])


AXES = {"uniform": _uniform, "chebyshev": _chebyshev, "expanded": _expanded}
"""Points of a grid along one axis, from 0 to 1."""


def nearest(places: Array, points: Array) -> list[int]:
    """Candidate nearest to each point, each once."""
    chosen: list[int] = []
    for apart in distance(places, points).T:
        apart[chosen] = np.inf
        chosen.append(int(apart.argmin()))
    return chosen


def distance(places: Array, points: Array) -> Array:
    """(N, k) distances of places (N, p) from points (k, p)."""
    return np.linalg.norm(places[:, None] - points, axis=-1)


def worst(estimate: Array, places: Array, chosen: list[int], number: int) -> list[int]:
    """Return candidates of the largest estimates, times the distance from those of the same round;
    far ones among equals.
    """
    apart = distance(places, places[chosen]).min(1)
    value = estimate * (apart > 0) * (1 + 1e-9 * apart)
    entering: list[int] = []
    while len(entering) < number and value.any():
        entering.append(int(value.argmax()))
        # a second one beside the one just taken would learn little
        taken = places[entering[-1:]]
        value = value * distance(places, taken)[:, 0]
    return entering
