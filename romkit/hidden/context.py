"""Hidden contexts of runs: their number, their values with intervals, and forecasts by them."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Part, Positive, validated
from romkit.core.errors import (
    DivergenceWarning,
    ExtrapolationWarning,
    FitWarning,
    InputError,
    warn,
)
from romkit.core.types import Array, Names, NameSequence, Pair, Settings, frozen
from romkit.hidden.discovery import Discovery, discovered
from romkit.hidden.errors import Estimate, law_derivatives, residual_noise
from romkit.hidden.family import Family
from romkit.hidden.joint import FINEST
from romkit.hidden.labels import SPARE, Labels, Polynomial
from romkit.hidden.placing import Placed, placed
from romkit.hidden.reading import (
    SHORTEST,
    Frame,
    assign_hidden,
    described,
    group_labels,
    grouped,
    known_names,
)
from romkit.laws import courses
from romkit.laws.courses import Runs
from romkit.laws.sensitivities import FARTHEST
from romkit.laws.shooting import SAMPLES
from romkit.numerics import normal_factor


@validated
def hidden_context(
    runs: xr.Dataset | pd.DataFrame,
    group: str | None = None,
    *,
    context: NameSequence | None = None,
    latent_dim: Count | None = None,
) -> "HiddenContext":
    """Find parameters that differ between groups of runs and that nobody recorded: how many there
    are, and their values.

    One polynomial law in the latents holds for all runs; its coefficients are polynomials of known
    and hidden parameters. Both are fitted to trajectories by multiple shooting. The number of hidden
    parameters, the degree of the law and that of its coefficients are the simplest of which
    forecasts are within one standard error of the best: of the second part of the runs of groups
    that were left out, placed by the first part. Polynomials of one hidden parameter come before a
    second one.

    Hidden parameters have zero mean and unit covariance over the groups, no correlation with known
    ones, and the sign that makes them positive for the first run; the first one has the largest
    effect. They are what the motion tells: up to a smooth change of parameters, and several
    quantities with the same effect count as one.

    Args:
        runs: trajectories in a dataset, or a table.
        group: name of the coordinate that tells which runs share a context; by default each run has
            its own.
        context: names of the parameters that are known; by default those that the data declare.
        latent_dim: number of modes that describe states of more than six components; by default as
            few as hold 99.9 % of their variance, two or three.

    Returns:
        The hidden context: `runs` with it as parameters, `values`, `place`, `forecast`.

    Raises:
        InputError: fewer than four groups, a run of fewer than six samples, inputs, or known
            parameters that move.

    Source: Kirchmeyer, Yin, Donà, Baskiotis, Rakotomamonjy, Gallinari (2022), Generalizing to new
    physical systems via context-informed dynamics model, for the question; Bock, Plitt (1984) for
    the method.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t, stiffness = np.linspace(0, 6, 31), np.array([1.0, 1.2, 1.5, 1.7, 2.0])
        >>> w = np.sqrt(stiffness)[:, None]
        >>> states = np.stack([np.cos(w * t), -w * np.sin(w * t)], axis=-1)
        >>> found = romkit.hidden_context(romkit.data.from_arrays(states, t))
        trajectories  5 of up to 31 samples, n = 2
        state         state (component 2), float64
        context       none
        time          0 ... 6, every 0.2
        rates         none given; estimated where needed
        >>> found.number
        1
        >>> order = np.argsort(found.values["value"].values[:, 0])
        >>> order.tolist() in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0])
        True
    """
    data = described(runs, context)
    recorded = known_names(data, group, context)
    labels = group_labels(data, group)
    groups, frame, names = grouped(data, labels, recorded, latent_dim)
    discovery = discovered(groups)
    return HiddenContext(data, group, recorded, names, groups.runs.group.numpy(), frame, discovery)


@frozen
class HiddenContext:
    """Parameters that differ between groups of runs, and the laws that they enter.

    Attributes:
        data: the runs as they came.
        group: name of the coordinate of the groups; None where each run has its own.
        known: names of the parameters that are known.
        groups: names of the groups, in the order of their first runs.
        rows: (C,) number of the group of each run.
        frame: latents, units, and ranges of known parameters.
        discovery: laws, contexts and their errors.
        labels: maps to parameters of which some are known; see `labelled`.
    """

    data: xr.Dataset
    group: str | None
    known: Names
    groups: Array
    rows: Array
    frame: Frame
    discovery: Discovery
    labels: Labels | None = None

    @property
    def number(self) -> int:
        """Number of hidden parameters."""
        return self.discovery.chosen.structure.hidden

    @property
    def names(self) -> Names:
        """Names of the hidden parameters: hidden1, hidden2, ..."""
        return tuple(f"hidden{k + 1}" for k in range(self.number))

    @property
    def runs(self) -> xr.Dataset:
        """The runs, with hidden parameters as parameters of their context."""
        hidden = self._hidden.numpy()[self.rows]  # (C, r)
        columns = dict(zip(self.names, hidden.T, strict=True))
        return assign_hidden(self.data, self.known, columns)

    @property
    def values(self) -> xr.Dataset:
        """Hidden parameters of the groups: `value`, and `lower` and `upper` at level 0.9."""
        return self.intervals(0.9)

    @validated
    def intervals(self, level: Part) -> xr.Dataset:
        """Hidden parameters (group, parameter) of the groups, with intervals.

        Intervals are those of differences between groups: a shift or a factor of all is a choice.
        """
        posterior = self.discovery.posterior
        deviations = self.discovery.of_contexts * posterior.deviations
        coords = {"group": self.groups, "parameter": list(self.names)}
        return _interval(self._hidden, deviations, level, ("group", "parameter"), coords)

    @property
    def trials(self) -> pd.DataFrame:
        """Errors of forecasts of left-out groups, for each structure that was tried [the largest
        state, its distance from the mean].
        """
        rows = []
        for trial in self.discovery.trials:
            row = {
                "hidden parameters": trial.structure.hidden,
                "degree of the law": trial.structure.degree,
                "degree in the context": trial.structure.bend,
                "error": trial.error,
                "chosen": trial is self.discovery.chosen,
            }
            rows.append(row)
        return pd.DataFrame(rows)

    @property
    def _hidden(self) -> Tensor:
        return self.discovery.posterior.family.hidden

    @validated
    def place(self, run: xr.Dataset) -> "PlacedRun":
        """Find the hidden context of a new run, or of several that share one, from its samples.

        Args:
            run: trajectories of one context, with known parameters as coordinates.

        Raises:
            InputError: other components, fewer than six samples, or several contexts.

        Warns:
            FitWarning: no context makes the law follow the run.
            ExtrapolationWarning: its context is beyond those of the groups.
        """
        data = described(run, None)
        self._check(data)
        values = self._known_of(data)
        states = torch.from_numpy(data["state"].values.astype(float))
        times = torch.from_numpy(data["time"].values.astype(float))
        seen = states.isfinite().all(-1).any(0)
        # runs from the first time at which one is complete to the last, the latest of many
        rows = seen.nonzero().flatten()
        most = max(SHORTEST, SAMPLES // len(states))
        start, stop = int(rows[0]), int(rows[-1]) + 1
        start = max(start, stop - most)
        states, times = states[:, start:stop], times[start:stop]
        group = torch.zeros(len(states), dtype=torch.long)
        family = self.discovery.posterior.family
        runs = self.frame.scale.runs(self.frame.latents(states), times, group)
        at = placed(family, self.discovery.motion, runs, values)
        self._warn_if_unlike(at)
        estimate = Estimate.evaluate(at, self.discovery.posterior)
        return PlacedRun(self, estimate, float(times[0]), float(times[-1]))

    def _warn_if_unlike(
        self, at: Placed, *, unlike: float = 3.0, counts: float = 0.02, beyond: float = 0.1
    ) -> None:
        """Warn of a run that the law does not follow, or whose context is far from the groups.

        `unlike`, `counts`: deviation of the residuals of a placed run, in that of the
        training and in the largest latent, from which on it is of another kind.

        `beyond`: share of the range of a hidden parameter, beyond it, from which on a
        placed one is far from the groups.
        """
        noise = residual_noise(at.end, self.number)
        usual = self.discovery.posterior.noise.variance
        deviation = noise.variance**0.5
        if noise.variance > unlike**2 * usual and deviation > counts:
            warn(
                f"place: no context makes the law follow the run; residuals of {deviation:.2g} of the "
                f"largest state, {usual**0.5:.2g} in the training; its context and forecast mean little",
                FitWarning,
            )
        hidden = at.family.hidden[0]
        low, high = self._hidden.amin(0), self._hidden.amax(0)
        outside = torch.maximum(low - hidden, hidden - high) > beyond * (high - low)
        for k in outside.nonzero().flatten().tolist():
            warn(
                f"{self.names[k]}: {float(hidden[k]):.3g} of a placed run is beyond those of the "
                f"groups, {float(low[k]):.3g} to {float(high[k]):.3g}",
                ExtrapolationWarning,
            )

    @validated
    def labelled(self, values: Settings) -> "HiddenContext":
        """Tell the meaning of hidden parameters by known values of some groups.

        Args:
            values: parameters by name, a number for each group (NaN where it is unknown), in the
                order of `groups`.

        Returns:
            The same context with maps between both, whose errors `labels` shows; `forecast` takes
            the parameters by these names, and placed runs have them.

        Raises:
            InputError: another number of values, no hidden parameter, or too few known values.
        """
        columns = [np.asarray(value, dtype=float) for value in values.values()]
        for name, column in zip(values, columns, strict=True):
            if column.shape != (len(self.groups),):
                expected = f"{len(self.groups)} numbers, one for each group"
                fix = "give NaN where a value is unknown"
                raise InputError(name, expected=expected, got=f"shape {column.shape}", fix=fix)
        labels = torch.from_numpy(np.stack(columns, -1))
        rows = labels.isfinite().all(-1)
        fewest = 1 + max(self.number, labels.shape[1]) + SPARE
        if self.number == 0 or int(rows.sum()) < fewest:
            got = f"{int(rows.sum())} with {self.number} hidden parameters"
            fix = "give values of more groups"
            raise InputError("values", expected=f"{fewest} known groups", got=got, fix=fix)
        hidden = self._hidden[rows]
        names = tuple(values)
        maps = Labels(
            names, Polynomial.fit(hidden, labels[rows]), Polynomial.fit(labels[rows], hidden)
        )
        return replace(self, labels=maps)

    @validated
    def forecast(
        self,
        initial_state: Array,
        *,
        duration: Positive,
        dt: Positive,
        group: object = None,
        level: Part = 0.9,
        **values: float,
    ) -> xr.Dataset:
        """Forecast from a state at the context of a group, or at values of the parameters.

        Args:
            initial_state: (n,) or (trajectories, n).
            duration: length of the forecast.
            dt: interval of the output.
            group: name of a group of the training.
            level: of the intervals of a measurement, `lower` and `upper`.
            **values: known parameters, with hidden ones or those of `labelled`; hidden ones are 0,
                the mean, where nothing is given.

        Raises:
            InputError: a group or a name that there is not.
        """
        posterior = self.discovery.posterior
        if group is not None:
            rows = np.flatnonzero(self.groups == group)
            if len(rows) == 0:
                fix = "see groups"
                raise InputError("group", expected="one of the groups", got=group, fix=fix)
            family = posterior.family.only(torch.from_numpy(rows))
            of_weights = posterior.of_weights(int(rows[0]))
        else:
            recorded, hidden = self._placed_context(values)
            family = posterior.family.at(recorded, hidden)
            along = law_derivatives(family)
            of_weights = along @ posterior.of_law @ along.mT
        states = torch.from_numpy(np.atleast_2d(initial_state).astype(float))
        number = round(duration / dt)
        times = dt * torch.arange(number + 1, dtype=torch.float64)
        start = self.frame.scale.scaled(self.frame.latents(states))
        reached, deviations = [], []
        for w in start:
            state, deviation = self._extend(family, of_weights, w, times)
            reached.append(state)
            deviations.append(deviation)
        run = self._dataset(torch.stack(reached), torch.stack(deviations), times, level)
        return run if np.ndim(initial_state) > 1 else run.isel(trajectory=0)

    def _extend(self, family: Family, of_weights: Tensor, w: Tensor, times: Tensor) -> Pair:
        """Return states and deviations (T, m) from a state, in units of the fit."""
        motion = self.discovery.motion
        clock = times / self.frame.scale.tau
        none = torch.zeros(1, dtype=torch.long)
        start = w.reshape(1, 1, -1)
        runs = Runs(start.expand(1, len(clock), -1), clock, none, clock.new_ones(1, 1))
        sample = torch.arange(len(clock))[:, None, None]
        course = courses.course(runs, sample, 1 / FINEST)
        states, slopes = motion.sensitivities(family.weights, start, course)
        slopes = slopes[:, 0, 0]
        variance = torch.einsum("tmi,ij,tmj->tm", slopes, of_weights, slopes)
        variance = variance + self.discovery.posterior.noise.of_latents
        return states[:, 0, 0], variance.clamp(min=0.0).sqrt()

    def _dataset(
        self, reached: Tensor, deviations: Tensor, times: Tensor, level: float
    ) -> xr.Dataset:
        """Return states (k, T, m) in units of the fit as a dataset with intervals."""
        lost = (reached.abs().amax(-1, keepdim=True) >= FARTHEST).cummax(1).values
        if lost.any():
            warn("a forecast leaves all data; it is NaN from there on", DivergenceWarning)
        states = self.frame.states(reached.masked_fill(lost, torch.nan)).numpy()
        width = normal_factor(level) * self.discovery.of_forecasts
        half = width * self.frame.deviations(deviations).numpy()
        dims = ("trajectory", "time", "component")
        variables = {"state": states, "lower": states - half, "upper": states + half}
        coords = {"time": times.numpy(), "component": self.data["component"].values}
        return xr.Dataset({name: (dims, x) for name, x in variables.items()}, coords)

    def _placed_context(self, values: Mapping[str, float]) -> Pair:
        """Known (1, p) and hidden (1, r) parameters of values by name."""
        labels = self.labels.names if self.labels else ()
        self._check_names(values, labels)
        recorded = torch.tensor([[values[name] for name in self.known]], dtype=torch.float64)
        hidden = torch.tensor([[values.get(name, 0.0) for name in self.names]], dtype=torch.float64)
        if self.labels and not values.keys().isdisjoint(labels):
            labelled = torch.tensor([[values[name] for name in labels]]).double()
            hidden = self.labels.hidden(labelled)
        return self.frame.known(recorded), hidden.reshape(1, self.number)

    def _check_names(self, values: Mapping[str, float], labels: NameSequence) -> None:
        """Refuse names of no parameter, and parameters without a value; labels come together."""
        allowed = [*self.known, *self.names, *labels]
        fix = f"give {', '.join(allowed)}" if allowed else "leave it out"
        for name in values:
            if name not in allowed:
                raise InputError(name, expected="a parameter", got="an unknown name", fix=fix)
        needed = [*self.known]
        if not values.keys().isdisjoint(labels):
            needed += labels
        missing = [name for name in needed if name not in values]
        if missing:
            raise InputError(missing[0], expected="a number", got="none", fix="give all of them")

    def _check(self, data: xr.Dataset) -> None:
        """Refuse runs of other components, or of several groups."""
        components = list(data["component"].values)
        expected = list(self.data["component"].values)
        if components != expected:
            got = f"{len(components)} others"
            fix = "give runs of the same quantities"
            raise InputError("run", expected=f"components {expected[:4]}", got=got, fix=fix)
        if self.group in data.coords and len(np.unique(data[self.group].values)) > 1:
            fix = "place them one by one"
            raise InputError("run", expected="runs of one group", got="several", fix=fix)
        enough = int(np.isfinite(data["state"].values).all(-1).sum(1).min())
        if enough < SHORTEST:
            fix = "wait for more"
            raise InputError("run", expected=f"{SHORTEST} samples or more", got=enough, fix=fix)

    def _known_of(self, data: xr.Dataset) -> Tensor:
        """Known parameters (1, p) of a new run, in the units of the fit."""
        values = []
        for name in self.known:
            own: Array = np.empty(0)
            if name in data.coords:
                own = np.unique(data[name].values)
            if len(own) != 1:
                fix = "give it as a coordinate"
                raise InputError(name, expected="one known value", got=len(own), fix=fix)
            values.append(float(own[0]))
        return self.frame.known(torch.tensor([values], dtype=torch.float64))

    @property
    def identifiability(self) -> str:
        """Say what values of hidden parameters mean, in a line."""
        if self.number == 0:
            return "runs do not differ by more than their law and their starts tell"
        change = "an affine change"
        if self.discovery.chosen.structure.bend > 1:
            change = "a smooth change"
        clocks = [name for name, share in zip(self.names, self._are_clocks(), strict=True) if share]
        said = f"known up to {change} of parameters; quantities of the same effect count as one"
        if clocks:
            said += f"; {clocks[0]} scales time"
        return said

    def _are_clocks(self, *, clock: float = 0.99) -> list[bool]:
        """Tell whether each hidden parameter makes all rates faster by one factor.

        `clock`: cosine between the effect of a parameter and that of a faster clock from
        which on they are one.
        """
        family = self.discovery.posterior.family
        tangents, rates = family.tangents, family.weights.flatten(1)  # (G, K m, r)
        along = torch.einsum("gn,gnr->r", rates, tangents)
        sizes = rates.norm() * tangents.square().sum((0, 1)).sqrt()
        return (along.abs() > clock * sizes).tolist()

    def __repr__(self) -> str:
        noun = "parameter" if self.number == 1 else "parameters"
        lines = [f"hidden context  {self.number} {noun} in {len(self.groups)} groups"]
        best: dict[int, float] = {}
        for trial in self.discovery.trials:
            hidden = trial.structure.hidden
            best[hidden] = min(best.get(hidden, math.inf), trial.error)
        errors = ", ".join(f"{error:.2g} with {number}" for number, error in best.items())
        lines.append(f"left-out error  {errors}")
        degree, bend = self.discovery.chosen.structure.degree, self.discovery.chosen.structure.bend
        lines.append(f"law             degree {degree}, {bend} in the context")
        if self.known:
            lines.append(f"known           {', '.join(self.known)}")
        lines.append(f"meaning         {self.identifiability}")
        if self.labels is not None:
            lines.append(f"labels          {self.labels!r}")
        return "\n".join(lines)


def _interval(
    values: Tensor,
    deviations: Tensor,
    level: float,
    dims: Names,
    coords: Settings,
) -> xr.Dataset:
    """Return values with intervals of normal deviations."""
    half = normal_factor(level) * deviations
    columns = {"value": values, "lower": values - half, "upper": values + half}
    return xr.Dataset({name: (dims, x.numpy()) for name, x in columns.items()}, coords)


@frozen
class PlacedRun:
    """New run whose hidden context was found.

    Attributes:
        found: the hidden context of the training.
        estimate: context of the run with its covariance.
        began, ended: times of its first and last samples.
    """

    found: HiddenContext
    estimate: Estimate
    began: float
    ended: float

    @property
    def context(self) -> dict[str, float]:
        """Hidden parameters by name."""
        hidden = self.estimate.at.family.hidden[0].tolist()
        return dict(zip(self.found.names, hidden, strict=True))

    @property
    def values(self) -> xr.Dataset:
        """Hidden parameters, and those of `labelled`: `value`, `lower` and `upper` at level 0.9."""
        return self.intervals(0.9)

    @validated
    def intervals(self, level: Part) -> xr.Dataset:
        """Hidden parameters (parameter) with intervals, and behind them those of `labelled`."""
        values = self.estimate.at.family.hidden[0]
        factor = self.found.discovery.of_contexts
        covariance = factor**2 * self.estimate.covariance
        deviations = covariance.diagonal().sqrt()
        names = [*self.found.names]
        labels = self.found.labels
        if labels is not None:
            slope = labels.known.slope(values)  # (k, r)
            variance = (slope @ covariance @ slope.mT).diagonal() + labels.known.variances(values)
            values = torch.cat([values, labels.known(values)])
            deviations = torch.cat([deviations, variance.sqrt()])
            names += labels.names
        return _interval(values, deviations, level, ("parameter",), {"parameter": names})

    @validated
    def forecast(
        self, *, duration: Positive, dt: Positive, run: int = 0, level: Part = 0.9
    ) -> xr.Dataset:
        """Forecast the run from its last sample on, with intervals of a measurement that
        include the error of its context.

        Args:
            duration: length of the forecast.
            dt: interval of the output.
            run: number of the run, where several were placed together.
            level: of the intervals.
        """
        number = round(duration / dt)
        times = self.ended + dt * torch.arange(number + 1, dtype=torch.float64)
        clock = (times - self.began) / self.found.frame.scale.tau
        reached, deviations = self.estimate.forecast(clock, run)
        return self.found._dataset(
            reached.unsqueeze(0), deviations.unsqueeze(0), times, level
        ).isel(trajectory=0)

    def __repr__(self) -> str:
        lines = []
        table = self.values
        for name in table["parameter"].values:
            row = table.sel(parameter=name)
            value, lower, upper = (float(row[k]) for k in ("value", "lower", "upper"))
            lines.append(f"{name}  {value:.4g} ({lower:.4g} to {upper:.4g})")
        return "\n".join(lines) or "no hidden parameter"


HIDDEN = "hidden"
"""Name in `context` that asks for hidden parameters."""


def wants_hidden(context: str | NameSequence | None) -> bool:
    """Tell whether hidden parameters are asked for, alone or beside known ones."""
    names = [context] if isinstance(context, str) else context
    return names is not None and HIDDEN in names


def with_hidden_context(
    runs: xr.Dataset, context: str | NameSequence, group: str | None
) -> tuple[xr.Dataset, HiddenContext]:
    """Find the hidden context of runs, and add it to them as parameters.

    Args:
        runs: in romkit's schema, or to be described.
        context: "hidden", or with it the names of known parameters.
        group: name of the coordinate of runs that share a context.

    Raises:
        InputError: no hidden parameter, and none that is known.
    """
    names = [context] if isinstance(context, str) else list(context)
    recorded = [name for name in names if name != HIDDEN]
    hidden = hidden_context(runs, group, context=recorded)
    if hidden.number == 0 and not recorded:
        expected = "runs that differ by a hidden parameter"
        fix = "leave context out, or romkit.law for one law of all"
        raise InputError("context", expected=expected, got="runs of one law", fix=fix)
    return hidden.runs, hidden
