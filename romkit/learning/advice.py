"""Advice on a learned model, by its errors and by what its runs have in common."""

import functools
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr

from romkit.core.types import Array
from romkit.data import context_names, even_step
from romkit.data.habits import jumps
from romkit.laws.noise import white_noise
from romkit.learning.contexts import describe_context
from romkit.learning.errors import AT_EQUAL_TIMES, Errors, mean_kept
from romkit.learning.symptoms import (
    individual_spread,
    opposite_share,
    quarter_period,
    way,
)
from romkit.metrics import deviations

PHASE_COUNTS, OUT_OF_PHASE = 0.2, 0.33
"""Error of a forecast above which its phase is looked at, and the share of it that is left without
the phase, up to which it is one of phase.
"""

NEGLIGIBLE = 0.005
"""Error of a forecast below which nothing more is needed [deviations]."""

LIMITED = 2.0
"""Error of a forecast, in that of the projection, up to which the manifold limits it."""

MOSTLY = 0.7
"""Deviation of noise, in the error of a forecast, from which on it is half of its square."""

MORE = 1.2
"""Deviation of noise, in the error of a forecast, up to which it may be noise at all."""

FOLLOWED = 0.25
"""Error of runs that a law has learned from, in that of held-out runs, up to which it follows them."""

UNSEEN = 1.5
"""Error of held-out runs, in that of runs that a model has learned from, from which on more runs
help.
"""

EQUAL = 0.001
"""Share by which the slowest clock exceeds the fastest up to which speeds are called equal."""

CLEAR = 0.5
"""Share by which the slowest clock exceeds the fastest from which on their ratios show it."""

SCATTER = 0.5
"""Difference between individuals, in the error of the forecast, from which on it is what limits it."""


WITHOUT_A_MODEL = {
    "nearest run": "the nearest run",
    "nearest run, shifted": "the nearest run, shifted in time",
    AT_EQUAL_TIMES: "an interpolation between the runs",
}
"""Forecasts that need no model, in words."""


@dataclass(frozen=True)
class Evidence:
    """Errors and runs that advice rests on.

    Attributes:
        errors: of runs that were left out.
        seen: of the runs that the model was fitted to.
        latent_dim: of the model.
        train, test: runs that it was fitted to, and those that judge it.
        has_inputs: whether the law has inputs.
        held_out: whether the model was fitted without the runs that judge it.
        interpolated_in: parameters or coordinates in which runs are interpolated for forecasts, "R"
            or "1/R"; "" where forecasts are made by the law.
        clocks: the fastest and the slowest clock of the runs, in the median one, where these are
            interpolated at equal phases; None at equal times.
        in_phase: mean error of the forecasts when pieces are shifted in time [deviations].
        late: largest shift of the last pieces, in the unit of time.
    """

    errors: Errors
    seen: Errors
    latent_dim: int
    train: xr.Dataset
    test: xr.Dataset
    has_inputs: bool
    held_out: bool
    interpolated_in: str = ""
    clocks: tuple[float, float] | None = None
    in_phase: float = np.inf
    late: float = 0.0

    def sentence(self) -> str:
        """Return the verdict on how far to trust the model, and what would help most."""
        if self.interpolated_in:
            return self._say_interpolation()
        failure = self._failure()
        if failure:
            causes = self._causes() or self._help()
            return f"{failure}{causes}"
        forecast, projection = self._error("forecast"), self._error("projection")
        if forecast <= NEGLIGIBLE:
            return (
                f"Forecasts err by {forecast:.2g} of the deviation of the data, {self._best_known} by "
                f"{self._baseline_error:.2g}: nothing more is needed."
            )
        individuals = self._say_individuals()
        noise = self._noise
        # measured runs err by their noise at least: more than the error are jumps of inputs, say
        if MOSTLY * forecast < noise <= MORE * forecast:
            return (
                f"Most of the error of {forecast:.2g} is noise of the data ({noise:.2g}): more runs or "
                f"latents would gain little.{individuals}"
            )
        causes = individuals or self._help()
        if forecast <= LIMITED * projection:
            return (
                f"The manifold limits the forecast ({projection:.2g} of its error of "
                f"{forecast:.2g}).{causes}"
            )
        # closed orbits follow driven runs, too, but do not know when the drive began
        causes = self._say_incomplete_state() or causes
        of_manifold = f", the manifold {projection:.2g}" if projection > 0 else ""
        return f"The law limits the forecast ({forecast:.2g}{of_manifold}).{causes}"

    def _failure(self, *, useful: float = 0.5) -> str:
        """Return the verdict on a model that is of no use; empty for one that is.

        `useful`: error of a forecast above which it is called of no use.
        """
        if self._is_lost.any():
            return self._say_lost()
        if self._keeps_the_motion:
            return self._phase_verdict()
        if self._is_no_better:
            return self._no_better()
        forecast = self._error("forecast")
        if forecast <= useful:
            return ""
        projection = self._error("projection")
        if forecast <= LIMITED * projection:
            return (
                f"The manifold of {self.latent_dim} latents limits the forecasts: they err by "
                f"{forecast:.2g}, the manifold by {projection:.2g}."
            )
        return f"No law follows these runs: forecasts err by {forecast:.2g}."

    @property
    def _keeps_the_motion(self) -> bool:
        """Whether forecasts that are far off are near when they are shifted in time."""
        forecast = self._error("forecast")
        return forecast > PHASE_COUNTS and self.in_phase < OUT_OF_PHASE * forecast

    def _phase_verdict(self) -> str:
        """Return the verdict on forecasts that keep the motion and lose its phase."""
        times = self.test["time"]
        duration = float(times[-1] - times[0])
        return (
            f"Forecasts keep the motion and lose its phase: they err by "
            f"{self._error('forecast'):.2g}, and by {self.in_phase:.2g} with their timing corrected, "
            f"which is off by up to {abs(self.late):.2g} at time {duration:.4g}. Shorter forecasts "
            "keep it."
        )

    @property
    def _is_lost(self) -> Array:
        """Which held-out runs (C,) have a forecast that is lost."""
        return ~np.isfinite(self.errors["forecast"])

    @functools.cached_property
    def individual_spread(self) -> float:
        """Difference of runs that the context does not tell [deviations]; NaN where it limits no
        forecast.
        """
        spread = individual_spread(self.train)
        of_seen = float(np.mean(self.seen["forecast"]))
        if spread > SCATTER * min(self._error("forecast"), of_seen):
            return spread
        return np.nan

    @property
    def _baseline_error(self) -> float:
        """Least error of the forecasts that need no model."""
        return min(self._error(name) for name in WITHOUT_A_MODEL)

    @property
    def _best_known(self) -> str:
        """Forecast that needs no model and has the least error, in words."""
        return WITHOUT_A_MODEL[min(WITHOUT_A_MODEL, key=self._error)]

    @property
    def _uncertainty(self) -> float:
        """Standard error of a mean over the held-out runs, which individuals scatter."""
        if self.individual_spread > 0:
            return self.individual_spread / np.sqrt(len(self.errors["forecast"]))
        return 0.0

    @property
    def _is_no_better(self) -> bool:
        """Whether a forecast that needs no model is as good, as far as the held-out runs tell."""
        return self._baseline_error - self._error("forecast") < self._uncertainty

    def _say_interpolation(self) -> str:
        """Return the verdict on runs that are interpolated, and what they do not hold for."""
        law = f"{self._error('law'):.2g}"
        method = f"are runs interpolated in {self.interpolated_in} at equal times"
        if self.clocks is not None:
            method = (
                f"are runs interpolated in {self.interpolated_in} at equal phases of their clocks"
                f"{self._speeds}"
            )
        verdict = (
            f"Forecasts {method}: they err by "
            f"{self._error('forecast'):.2g}, the best law by {law}. They hold for the starts and the "
            "times of the runs alone; other starts and longer forecasts are refused, and "
            "model.of_law() makes them with the error of the law."
        )
        if self._error("forecast") <= NEGLIGIBLE:
            return verdict
        cause = self._say_jumps() or self._say_single_variable() or self._say_incomplete_state()
        if cause:
            return f"{verdict}{cause}"
        worst = int(np.argmax(self.errors["forecast"]))
        return f"{verdict} More runs beside {describe_context(self.test, worst)} would help most."

    @property
    def _speeds(self) -> str:
        """Difference of the clocks in words, with digits that show it; empty where none do."""
        assert self.clocks is not None  # of runs that are interpolated
        fastest, slowest = self.clocks
        excess = slowest / fastest - 1
        if excess < EQUAL:
            return ""
        about = ", since they are about one motion at several speeds"
        if excess < CLEAR:
            return f"{about} (the slowest takes {excess:.1%} longer than the fastest)"
        return f"{about} (from {fastest:.2g} to {slowest:.2g} times the time of the middle one)"

    def _no_better(self) -> str:
        """Return the verdict on a model that a forecast without one equals."""
        forecast, nearest = self._error("forecast"), self._baseline_error
        baseline = self._best_known
        runs = _counted(len(self.errors["forecast"]))
        if nearest <= forecast:
            return (
                f"Not better than {baseline}: over {runs} the model errs by {forecast:.2g}, "
                f"{baseline} by {nearest:.2g}."
            )
        return (
            f"Not better than {baseline}, as far as {runs} can tell: the model errs by "
            f"{forecast:.2g}, {baseline} by {nearest:.2g}, and chance moves such a mean by "
            f"{self._uncertainty:.2g}."
        )

    def _say_lost(self) -> str:
        """Return sentences on forecasts that are lost, and on the others."""
        worst = int(np.argmax(self._is_lost))
        kept = self.errors["forecast"][~self._is_lost]
        remainder = ""
        if len(kept) > 0:
            remainder = f" The {len(kept)} others err by {np.mean(kept):.2g}."
        return f"The forecast at {describe_context(self.test, worst)} is lost.{remainder}"

    def _divergence_advice(self) -> str:
        """Return sentence on what to do about forecasts that are lost."""
        worst = describe_context(self.test, int(np.argmax(self._is_lost)))
        return f" More runs beside {worst} would help most, or shorter forecasts from there."

    def _causes(self) -> str:
        """Return sentences on why no law can follow the runs; empty where none shows."""
        causes = (
            self._say_jumps,
            self._say_single_variable,
            self._say_incomplete_state,
            self._say_individuals,
        )
        for cause in causes:
            sentence = cause()
            if sentence:
                return sentence
        return self._say_inputs()

    def _help(self) -> str:
        """Write what more runs would bring, where errors show that they help."""
        forecast, of_seen = self._error("forecast"), float(np.mean(self.seen["forecast"]))
        if self._is_lost.any():
            return self._divergence_advice()
        if forecast > UNSEEN * of_seen:
            worst = int(np.argmax(self.errors["forecast"]))
            return (
                f" On runs that it was fitted to it errs by {of_seen:.2g}: more runs beside "
                f"{describe_context(self.test, worst)} would help most."
            )
        if self._keeps_the_motion:
            return f" It loses it on runs that it was fitted to, too ({of_seen:.2g})."
        return self._say_saturated(of_seen)

    def _say_saturated(self, of_seen: float) -> str:
        """Return sentence for a model that errs as much on runs that it has learned from."""
        return (
            f" It errs as much on runs that it has learned from ({of_seen:.2g}), so more runs would not "
            "help; more latents or a longer search may: latent_dim=..., seconds=..."
        )

    @property
    def _noise(self) -> float:
        """Deviation of the noise of the data [deviations], root mean square of the components; NaN
        where it cannot be told of one, or times are uneven.
        """
        if even_step(self.train["time"].values) is None:
            return np.nan
        paths = torch.from_numpy(self.train["state"].values / deviations(self.train)).double()
        return float(white_noise(paths).square().mean().sqrt())

    def _say_jumps(self) -> str:
        """Return sentence for states that jump, which no law follows."""
        for sentence in jumps(self.train):
            return f" The state jumps: {sentence}."
        return ""

    def _say_single_variable(self, *, turning: float = 1.5) -> str:
        """Return sentence for a single variable that turns: no law of it alone can do that.

        `turning`: length of the way of a variable, in its range, from which on it goes back
        and forth.
        """
        states = self.train["state"].values
        if states.shape[-1] > 1 or self.has_inputs:
            return ""
        for run in states[..., 0]:
            course = run[np.isfinite(run)]
            if len(course) > 2 and way(course) > turning * np.ptp(course):
                return (
                    " A law of one variable alone cannot rise and fall through the same values: "
                    'give a second variable, or an input (page "Your own data", hidden variables).'
                )
        return ""

    def _say_incomplete_state(self, *, two_ways: float = 0.1) -> str:
        """Return sentence for states at which runs go in two directions, as positions without rates
        do.

        `two_ways`: share of the returns to a state that leave it in the opposite direction,
        from which on the state lacks something: it is 0 for states, and a quarter to a half
        for positions alone.
        """
        share = opposite_share(self.train)
        if share < two_ways or self.has_inputs:
            return ""
        sentence = (
            f" The state does not tell where a run goes next: {share:.0%} of the returns to a state "
            "leave it in the opposite direction. Give rates beside positions"
        )
        every = quarter_period(self.train)
        if every is None:
            return f"{sentence}, or a part of the past: romkit.data.delayed."
        past = f"romkit.data.delayed(data, delays=1, every={every})"
        return f"{sentence}, or a part of the past: {past}."

    def _say_inputs(self, *, missed: float = 0.1) -> str:
        """Return sentence for runs that are alike at equal times and on the manifold, but follow no
        law.

        `missed`: error of the projection, in that of the forecast, below which the law
        misses what moves the runs.
        """
        forecast = self._error("forecast")
        is_held = self._error("projection") < missed * forecast < np.inf
        # a law that follows its own runs lacks other runs, and no input
        is_followed = float(np.mean(self.seen["forecast"])) < FOLLOWED * forecast
        if self.has_inputs or not is_held or is_followed:
            return ""
        if self._error("nearest run") > forecast:
            return ""
        return (
            " If something acts on the runs that changes in time, a load or a heater say, name it: "
            "romkit.data.describe(data, control=[...])."
        )

    def _say_individuals(self) -> str:
        """Return sentence for runs that differ by more than their context explains."""
        spread = self.individual_spread
        if not spread > 0:
            return ""
        names = ", ".join(context_names(self.train))
        return (
            f" Individuals differ by more than {names} explains, by {spread:.2g} deviations: the "
            "forecast is of their mean, and the bars hold their differences. A further parameter in "
            "which they differ would help."
        )

    def _error(self, name: str) -> float:
        """Return mean error of a forecast over the held-out runs that are not lost."""
        return mean_kept(self.errors[name])


def _counted(runs: int) -> str:
    """Return number of held-out runs in words."""
    if runs == 1:
        return "one left-out run"
    return f"{runs} left-out runs"
