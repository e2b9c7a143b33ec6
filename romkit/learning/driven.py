"""Runs that swing in step, which something outside may drive: a law with this rhythm as its inputs,
tried by training runs that are left out.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core import runtime
from romkit.core.errors import InputError
from romkit.data.controls import LINEAR
from romkit.learning.between import Steps
from romkit.learning.coordinates import CLEARLY, Chosen, mean_error
from romkit.learning.manifolds import Kinds, chosen
from romkit.learning.quiet import quiet
from romkit.learning.rhythm import KNOWN, rhythm, with_rhythm

FURTHER = 0.25
"""Share of the time of the first choice that the second one may take."""

TURNS = np.linspace(-0.3, 0.3, 61)
"""Turns over the whole time by which a period is sought beside the one that the runs show: what fades
since the start moves the peak of a spectrum.
"""

KINDS = ("polynomial",)
"""Kinds of laws that are tried by default: closed orbits are of what swings by itself."""


class TriedPeriod(NamedTuple):
    """Errors of the choice with a period and without one, on training runs that were left out.

    Attributes:
        period: of what drives the runs, by their steps, in the unit of time.
        error, without: of the best law [deviations], with its sine and cosine as inputs, and without.
    """

    period: float
    error: float
    without: float

    @property
    def is_taken(self) -> bool:
        """Whether the law has the period."""
        return self.error < CLEARLY * self.without


def with_period_that_helps(
    choice: Chosen,
    latent_dim: int | None,
    seconds: float,
    seed: int,
    kinds: Kinds | None = None,
) -> tuple[Chosen, TriedPeriod | None]:
    """The choice of manifold and law, or another one with the period with which all runs swing in
    step, where this errs by clearly less on left-out runs.

    Args:
        choice: without a period.
        latent_dim: number of latents; None to choose one.
        seconds: of the processor, that this choice took.
        seed: of all random numbers.
        kinds: of laws to choose from; None for `KINDS`.
    """
    if "control" in choice.train:
        return choice, None
    without = mean_error(choice.model)
    # what swings by itself is in step, too
    if without <= KNOWN:
        return choice, None
    shown = rhythm(choice.train)
    if shown is None:
        return choice, None
    period = period_of_steps(choice.train, shown)
    runtime.told(f"learn: again with period {period:.4g}, with which all runs swing in step")
    driven = with_rhythm(choice.train, period)
    try:
        with quiet():
            model, trials = chosen(driven, latent_dim, FURTHER * seconds, seed, kinds or KINDS)
    except InputError:  # all laws are lost
        return choice, None
    tried = TriedPeriod(period, mean_error(model), without)
    if not tried.is_taken:
        return choice, tried
    return Chosen(model, trials, driven, choice.tried), tried


def period_of_steps(train: xr.Dataset, around: float) -> float:
    """The period near this one with which the steps of runs follow best from their states and from its
    sine and cosine.
    """
    times = train["time"].values.astype(float)
    periods = 1 / (1 / around + TURNS / (times[-1] - times[0]))
    remainders = []
    for period in periods:
        steps = Steps.of(with_rhythm(train, period))
        remainders.append(float(steps.remainders(LINEAR).mean()))
    return float(periods[np.argmin(remainders)])
