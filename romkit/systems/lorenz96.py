"""Lorenz96: a ring of n variables with one forcing constant, across its change of wave number."""

import functools
from dataclasses import dataclass
from typing import Annotated

import torch
import xarray as xr
from annotated_types import Ge
from numpy.random import Generator
from torch import Tensor

from romkit.core.boundary import NotNegative, Positive, validated
from romkit.core.types import Array
from romkit.data import ContextParameter
from romkit.projections import Shifts
from romkit.systems.base import System
from romkit.systems.terms import Term


@validated
@dataclass(frozen=True)
class Lorenz96(System):
    """ẋₖ = (xₖ₊₁ - xₖ₋₂) xₖ₋₁ - xₖ + F,   k = 0, ..., n-1, indices modulo n.

    Near F = 3.163 the travelling wave on the attractor changes its wave number from 8 to 7. The
    switch is slow: 100 time units after the start no wave has changed for good, so the transient is
    1000 by default.

    The initial state is xₖ = F + sin(8.05 · 2πk/n). Its index starts at 0; starting at 1 moves the
    switch to 3.145.

    Args:
        n: number of variables, at least 4.
        transient: time discarded before the first sample.
        dt: step of the RK4 integration, and sampling interval.
        duration: length of the recorded trajectories.

    What you should see: a periodic wave, standard deviation about 1.5 in x and 3.7 in ẋ.
    Source: Lorenz (1996); Adriaens et al. (2026), appendix "Lorenz96".

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> data = system.dataset(F=[3.14, 3.15, 3.18], duration=0.5)
        >>> dict(data.state.sizes)
        {'trajectory': 3, 'time': 50, 'component': 36}
    """

    n: Annotated[int, Ge(4)] = 36
    transient: NotNegative = 1000.0
    dt: Positive = 0.01
    duration: Positive = 5.0
    horizon: Positive = 100.0

    name = "lorenz96"
    time_units = "1"
    context = (ContextParameter("F", "1", 3.133, 3.193, "forcing constant"),)
    symmetry = Shifts(continuous=False)

    @functools.cached_property
    def state_names(self) -> list[str]:
        """x0, ..., x{n-1}, in the order of the ring."""
        return [f"x{k}" for k in range(self.n)]

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        # one copy is cheaper than three rolls
        end = x[..., -2:]
        begin = x[..., :1]
        ring = torch.cat([end, x, begin], dim=-1)
        ahead = ring[..., 3:]
        before = ring[..., 1:-2]
        two_before = ring[..., :-3]
        return (ahead - two_before) * before - x + c

    def terms(self) -> tuple[Term, ...]:
        ones = torch.ones(self.n, dtype=torch.float64)

        def advection(x: Tensor, y: Tensor) -> Tensor:
            difference = x.roll(-1, -1) - x.roll(2, -1)
            return difference * y.roll(1, -1)

        return Term(0, lambda: ones, lambda c: c), Term(1, lambda x: -x), Term(2, advection)

    def initial_state(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        # not a whole number of waves, so that no symmetry holds them
        k = torch.arange(self.n, dtype=contexts.dtype)
        angle = 8.05 * 2 * torch.pi * k / self.n
        return contexts + torch.sin(angle)

    def train_contexts(self, rng: Generator) -> Array:
        """18 forcing constants, uniform over the range (appendix "Lorenz96", data collection)."""
        forcing = self.context[0]
        return rng.uniform(forcing.low, forcing.high, size=(18, 1))

    def annotate(self, data: xr.Dataset) -> xr.Dataset:
        """Add `wave_number`: the dominant spatial frequency of each trajectory, averaged over its
        snapshots.

        The number of a trajectory with lost snapshots is NaN.
        """
        states = torch.from_numpy(data["state"].values)
        numbers = dominant_wave_number(states)
        lost = states.isnan().flatten(-2).any(-1)
        if bool(lost.any()):
            # whole numbers have no NaN, so that they become real ones
            numbers = torch.where(lost, torch.nan, numbers)
        attrs = {"units": "1", "long_name": "dominant wave number"}
        return data.assign(wave_number=("trajectory", numbers.numpy(), attrs))


def dominant_wave_number(states: Tensor) -> Tensor:
    """(...) wave number with the most power in states (..., T, n), the power averaged over T."""
    waves = torch.fft.rfft(states, dim=-1)
    power = waves.abs().square().mean(-2)
    return power[..., 1:].argmax(-1) + 1
