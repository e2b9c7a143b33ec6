"""Data of five motions, each at contexts of training and at others between them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

import romkit
from romkit.systems import KuramotoSivashinsky, Pendulum
from studies.first_afternoon.sets import SETS, measure
from studies.wake.data import TRAIN, UNSEEN
from studies.wake.tasks import coordinates

SIDE, SPACING = 36, 1.0
"""Points along a side of the square of the spiral, and their distance."""

ISLAND = (24.0, 12.0, 4.0)
"""Centre and radius of a disc in which the spiral's oscillation dies out."""

SPIRAL_STEP, SETTLED, SPIRAL_LENGTH, SPIRAL_EVERY = 0.05, 150.0, 40.0, 5
"""Step of RK4, time that is left out, duration, and steps between samples."""


class Case(NamedTuple):
    """A motion.

    Attributes:
        train, unseen: contexts.
        make: runs at contexts.
        latents: number of latents of each manifold.
        basis: number of modes in front of each manifold; None where the data are their coordinates.
    """

    train: Sequence[float]
    unseen: Sequence[float]
    make: Callable[[Sequence[float]], xr.Dataset]
    latents: int
    basis: int | None = None


def burgers(viscosities: Sequence[float]) -> xr.Dataset:
    """Return a wave that steepens and decays on a ring of 64 points."""
    source = SETS["decay to a fixed point"]
    runs = []
    for nu in viscosities:
        at_one = source._replace(low=nu, high=nu)
        runs.append(measure(at_one, runs=1)[0])
    return romkit.data.describe(xr.concat(runs, "run"), context=["nu"])


def waves(lengths: Sequence[float]) -> xr.Dataset:
    """Travelling waves of Kuramoto and Sivashinsky on 64 points."""
    data = KuramotoSivashinsky(transient=600.0).dataset(L=list(lengths), duration=30.0)
    return data.isel(time=slice(None, None, 4))


def pendulums(lengths: Sequence[float]) -> xr.Dataset:
    """Return a chain of four links of which the first has several lengths."""
    rest = dict.fromkeys(("l2", "l3", "l4"), 0.5)
    data = Pendulum().dataset(l1=list(lengths), **rest, duration=2.0)
    return data.isel(time=slice(None, None, 20))


def spirals(twists: Sequence[float]) -> xr.Dataset:
    """Settled spiral waves of two variables on a square with an island."""
    twist = np.array(twists)[:, None, None]
    place = np.arange(SIDE) * SPACING
    x, y = np.meshgrid(place, place, indexing="ij")
    centre = place.mean() - 0.25
    inside = (x - ISLAND[0]) ** 2 + (y - ISLAND[1]) ** 2 < ISLAND[2] ** 2
    growth = np.where(inside, -1.0, 1.0)
    angle = np.arctan2(y - centre, x - centre)
    radius = np.tanh(np.hypot(x - centre, y - centre) / 4)
    shape = (len(twists), SIDE, SIDE)
    a = np.broadcast_to(radius * np.exp(1j * angle), shape).copy()

    def rate(a: np.ndarray) -> np.ndarray:
        size = np.abs(a) ** 2
        edged = np.pad(a, ((0, 0), (1, 1), (1, 1)), mode="edge")
        neighbours = edged[:, 2:, 1:-1] + edged[:, :-2, 1:-1]
        neighbours = neighbours + edged[:, 1:-1, 2:] + edged[:, 1:-1, :-2]
        diffusion = (neighbours - 4 * a) / SPACING**2
        return (growth - size) * a - 1j * twist * size * a + diffusion

    samples = []
    skipped = round(SETTLED / SPIRAL_STEP)
    for k in range(skipped + round(SPIRAL_LENGTH / SPIRAL_STEP)):
        if k >= skipped and (k - skipped) % SPIRAL_EVERY == 0:
            samples.append(a)
        h = SPIRAL_STEP
        k1 = rate(a)
        k2 = rate(a + h / 2 * k1)
        k3 = rate(a + h / 2 * k2)
        k4 = rate(a + h * k3)
        a = a + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    field = np.stack(samples, axis=1)  # (C, T, side, side)
    dims = ("run", "time", "x", "y")
    times = np.arange(len(samples)) * SPIRAL_STEP * SPIRAL_EVERY
    coords = {"time": times, "twist": ("run", np.array(twists))}
    data = xr.Dataset({"u": (dims, field.real), "v": (dims, field.imag)}, coords)
    return romkit.data.describe(data, context=["twist"])


CASES = {
    "wake": Case(TRAIN, UNSEEN, coordinates, 3),
    "burgers": Case(np.geomspace(0.05, 0.3, 10), np.geomspace(0.06, 0.27, 5), burgers, 3),
    "kuramoto-sivashinsky": Case(
        np.linspace(11.8, 12.8, 10), np.linspace(11.9, 12.7, 5), waves, 3, 24
    ),
    "pendulum": Case(np.linspace(0.4, 0.6, 9), (0.43, 0.47, 0.53, 0.57), pendulums, 4),
    "spiral": Case((0.6, 0.7, 0.8, 0.9, 1.0, 1.1), (0.65, 0.85, 1.05), spirals, 3, 32),
}
