"""A learned model: what `romkit.learn` returns."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from romkit.core import files
from romkit.core.boundary import (
    Count,
    FilePath,
    Finite,
    Natural,
    Positive,
    Seconds,
    Seed,
    validated,
)
from romkit.core.errors import FitWarning, InputError, warn
from romkit.data import fields
from romkit.data.coordinates import with_coordinates
from romkit.learning import saved, words
from romkit.learning.bars import intervals_of, joined
from romkit.learning.errors import Errors, VariableErrors, of_kept
from romkit.learning.interpolation import InterpolatedRuns
from romkit.learning.judged import Judged
from romkit.learning.manifolds import Model, chosen
from romkit.learning.page import write_page
from romkit.learning.preference import clocks_of_runs
from romkit.learning.quiet import quiet
from romkit.learning.refit import refitted
from romkit.learning.rhythm import drive
from romkit.solvers import Adaptive
from romkit.verbs.export import export as export_model
from romkit.verbs.forecast import forecast as forecast_once

if TYPE_CHECKING:
    from romkit.plotting.style import Figure


@dataclass(frozen=True, eq=False)
class Learned(Judged):
    """A reduced model of runs, with its errors on runs that were held out.

    Attributes:
        projection: the manifold.
        law: equation of motion of its latents.
        settings: with which the law was fitted.
        ensemble: laws that miss a context each, with calibrated intervals; None where none was
            asked for, or there are too few runs.
        train, test: the runs that it was learned from, and those that judge it.
        run: `romkit.rollout` along the held-out runs; where runs are interpolated, their forecasts,
            too, as `between`.
        errors: of each held-out run, of the forecast, of the projection alone, and of forecasts that
            need no model: the nearest training run, that run shifted in time, and rest at the mean.
            The mean of those of the forecast is the error at contexts that it has not seen. They are
            in deviations of the training data, one for all components of a unit, as laws are judged.
        errors_of_variables: the same of each variable, in its unit and in its deviation.
        errors_of_seen: the same of some runs that it was learned from.
        trials: manifolds that were tried.
        seconds: of the processor.
        fitted_to_all: whether projection and law have learned from the held-out runs, too, after
            errors were measured.
        period: of what drives the runs, given or taken; None where nothing does.
        without_bars: reason why there is no ensemble, "" where there is one.
        bars_before: widths of intervals before the fit to all runs; None before it.
        interpolated: runs interpolated in the context at equal times or phases, which forecast in
            place of the law; None where the law does. Errors of the law are then those called "law".
        coordinates: 1/c or log c of parameters c in which laws were tried, with errors of the choice;
            None where none promised to be better. `train` names those that were taken.
        compared: errors of the choice between the law and interpolated runs; None where these were
            not tried.
        between: errors of the choice between held inputs and straight lines; None where somebody has
            stated one, or the runs show none but the one that inputs look like.
        rhythm: errors of the choice with a period that was seen, and without; None where none was
            seen, or none was needed.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t, speed = np.linspace(0, 6, 61), np.linspace(1.0, 2.0, 5)
        >>> phase = speed[:, None, None] * t[:, None] - np.arange(4)
        >>> runs = romkit.data.from_arrays(np.sin(phase), t, context={"speed": speed})
        trajectories  5 of up to 61 samples, n = 4
        state         state (component 4), float64
        context       speed 1 ... 2 (float)
        time          0 ... 6, every 0.1
        velocity      none; estimated where it is needed
        >>> model = romkit.learn(runs, members=0, latent_dim=2)
        >>> sorted(model.errors)[:3]
        ['forecast', 'nearest run', 'nearest run, shifted']
        >>> sorted(model.errors)[3:]
        ['projection', 'rest', 'runs interpolated at equal times']
        >>> bool((model.errors["forecast"] < model.errors["nearest run"]).all())
        True
    """

    @validated
    def forecast(
        self,
        initial_state: object = None,
        *,
        duration: Positive,
        dt: Positive,
        start: Finite = 0.0,
        **options: object,
    ) -> xr.Dataset:
        """Forecast from a state, with an interval where there is an ensemble: `lower` and `upper`
        before the names of the variables.

        Where runs are interpolated, the context chooses the run: `initial_state` may be left out, and
        one that is none of the runs', or a forecast beyond their end, is refused. `of_law` forecasts
        these.

        Args:
            initial_state: as `romkit.forecast` takes it.
            duration: length of the forecast, in the time unit of the data.
            dt: interval of the output.
            start: time of the first state since the rhythm began, for a model with a `period`, or
                since the first sample of the runs, where they are interpolated.
            **options: others of `romkit.forecast`: the context by name, and of runs with inputs
                `control`, samples (time, input) or a function of time.
        """
        self._refuse_arguments_of_that_name(options)
        if self.interpolated is None and self.period is None:
            _refuse_start(start)
        options |= {"duration": duration, "dt": dt}
        if initial_state is not None:
            options["initial_state"] = initial_state
        if self.interpolated is not None:
            return fields(self.interpolated.forecast(start=start, **options))
        if self.period is not None:
            self._refuse_inputs(options)
            options |= self._driven(start, duration, options)
        if self.ensemble is None:
            return forecast_once(self.projection, dynamics=self.law, **options)
        return fields(self.ensemble.forecast(**options))

    def of_law(self) -> "Learned":
        """The model with forecasts by its law: from any start, and for any time, with the errors of
        the law.
        """
        if self.interpolated is None:
            return self
        return replace(
            self,
            interpolated=None,
            errors=_by_law(self.errors),
            errors_of_variables=_of_each(self.errors_of_variables, _by_law),
            errors_of_seen=_by_law(self.errors_of_seen),
            bars_before=None,
        )

    def _refuse_arguments_of_that_name(self, options: Mapping[str, object]) -> None:
        """Refuse a context parameter that is called like an argument, and is not in `context`."""
        arguments = {"start", "level", *inspect.signature(forecast_once).parameters}
        by_name = options.get("context") or {}
        for name in self.projection.frame.context_names:
            if name in arguments and name not in by_name:
                raise InputError(
                    name,
                    expected="the context parameter in context={...}, since an argument has its name",
                    got="none",
                    fix=f"give context={{'{name}': ...}}",
                )

    def _refuse_inputs(self, options: Mapping[str, object]) -> None:
        """Refuse inputs beside those of the rhythm."""
        if options.get("control") is not None:
            expected = f"no inputs: the model has its own, of period {self.period:.4g}"
            fix = "leave them out; start= is the time since the rhythm began"
            raise InputError("control", expected=expected, got="inputs", fix=fix)

    def _driven(
        self, start: float, duration: float, options: Mapping[str, object]
    ) -> dict[str, object]:
        """Inputs of the rhythm, and a solver whose steps end at their kinks."""
        inputs, kinks = drive(self.train, self.period, start, duration)
        driven: dict[str, object] = {"control": inputs}
        if options.get("solver") is None:
            tolerance = {"rtol": options["rtol"]} if options.get("rtol") is not None else {}
            driven["solver"] = Adaptive(jump_times=tuple(kinks.tolist()), **tolerance)
            driven["rtol"] = None
        return driven

    @validated
    def refitted(self, *, members: Natural = 5, seed: Seed = 0) -> "Learned":
        """The model with the same settings, fitted to all runs, held-out ones too.

        Its `errors` are still those of the model before, which had not seen the held-out runs: one
        that knows more runs is at least as good as a rule. Its intervals are calibrated by runs
        between others, each forecast by a law that has not seen it.

        Args:
            members: as of `romkit.learn`; of six contexts, say, four lie between others.
            seed: of all random numbers.
        """
        with quiet():
            projection, law = refitted(self.projection, self.settings, self._all_runs, seed)
        law = replace(law, report=self.law.report)
        model = replace(self, projection=projection, law=law)
        return self._of_all_runs(model, members, seed)

    @validated
    def chosen_anew(
        self,
        *,
        latent_dim: Count | None = None,
        members: Natural = 5,
        seconds: Seconds = 60.0,
        seed: Seed = 0,
    ) -> "Learned":
        """A model whose latents, manifold and law are chosen by all runs, held-out ones too: of few
        contexts one more makes another model.

        No run is left that judges it: its `errors` are those of the model before, whose settings may
        be others.

        Args:
            latent_dim: number of latents; by default chosen.
            members: laws that miss a context each, for the intervals; 0 for none.
            seconds: of the processor, about how long the choice may take.
            seed: of all random numbers.
        """
        best, trials = chosen(self._all_runs, latent_dim, seconds, seed)
        model = replace(
            self,
            projection=best.projection,
            law=best.law,
            settings=best.settings,
            trials=trials,
        )
        return self._of_all_runs(model, members, seed)

    def _of_all_runs(self, model: "Learned", members: int, seed: int) -> "Learned":
        """A model that was fitted to all runs, with intervals by all of them."""
        everything = self._all_runs
        fitted = Model(model.projection, model.settings, model.law, [])
        intervals = intervals_of(fitted, everything, None, members, seed)
        model = replace(
            model,
            ensemble=intervals.ensemble,
            without_bars=intervals.without,
            bars_before=self.bars,
            train=everything,
            fitted_to_all=True,
        )
        if self.interpolated is not None:
            clocks = None
            if self.interpolated.clocks is not None:
                clocks = clocks_of_runs(everything)
            between = InterpolatedRuns.of(
                model.projection,
                with_coordinates(everything, self.interpolated.coordinates),
                None,
                members >= 2,
                clocks,
                self.interpolated.weights_of,
            )
            return replace(model, interpolated=between)
        if members and self.ensemble is not None and model.ensemble is None:
            warn(f"refitted: bars {words.without_bars(model)}", FitWarning)
        return model

    @property
    def _all_runs(self) -> xr.Dataset:
        """Runs of the training with the held-out ones."""
        if self.fitted_to_all:
            return self.train
        return joined(self.train, self.test)

    def plot(self) -> "Figure":
        """Truth, model and difference of held-out runs, with the error over time, whose mean over
        time and runs is `error`: forecasts from before a fit to all runs.
        """
        from romkit.learning.pictures import picture  # matplotlib, half a second

        return picture(self)

    @property
    def choices(self) -> list[str]:
        """Sentences with the errors by which coordinates, and the law or an interpolation, were taken."""
        return words.choices(self)

    @validated
    def report(self, folder: FilePath) -> Path:
        """Write REPORT.md with pictures into a folder: errors, what was tried, and what would help.

        `romkit report FOLDER/REPORT.md` makes one page of HTML of it.
        """
        return write_page(self, files.expanded(folder))

    @validated
    def save(self, folder: FilePath) -> Path:
        """Write all of the model into a folder, which is made: `projection.safetensors`,
        `law.safetensors`, with an ensemble `ensemble/`, the runs, and `learned.json`. An earlier model
        there is replaced once the new one is complete.
        """
        folder = files.expanded(folder)
        saved.write(self, folder)
        return folder

    @classmethod
    @validated
    def load(cls, folder: FilePath) -> "Learned":
        """Read what `save` wrote: a model with the same forecasts, errors and report, which
        `refitted` fits to the same runs.

        Raises:
            FileError: files that are missing, changed, or of another save.
        """
        return cls(**saved.attributes(files.expanded(folder)))

    def export(self, path: FilePath, **options: object) -> Path:
        """Write the model as C, an FMU or programs of PyTorch: `romkit.export` with its law.

        Raises:
            InputError: runs that are interpolated, which have no law.
        """
        if self.interpolated is not None:
            law_error = of_kept(self.errors["law"])
            fix = f"model.of_law().export(...), whose forecasts err by {law_error:.2g}"
            raise InputError("model", expected="a law", got="interpolated runs", fix=fix)
        return export_model(self.projection, path, dynamics=self.law, **options)

    def __repr__(self) -> str:
        return words.printed(self)


def _refuse_start(start: float) -> None:
    """Refuse the time of a start where nothing depends on it."""
    if start != 0:
        expected = "none: the law of the model does not depend on time"
        fix = "leave it out; a state after that time is the initial_state"
        raise InputError("start", expected=expected, got=f"{start:g}", fix=fix)


def _by_law(errors: Errors) -> Errors:
    """Errors of a model whose forecasts are interpolated runs as those of its law."""
    others = {name: values for name, values in errors.items() if name != "law"}
    return others | {"forecast": errors["law"]}


def _of_each(
    errors_of_variables: Mapping[str, VariableErrors], change: Callable[[Errors], Errors]
) -> dict[str, VariableErrors]:
    """Errors of each variable, changed."""
    changed = {}
    for name, errors in errors_of_variables.items():
        absolute = change(errors.absolute)
        changed[name] = errors._replace(absolute=absolute, relative=change(errors.relative))
    return changed
