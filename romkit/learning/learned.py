"""A learned model: what `romkit.learn` returns."""

import base64
import inspect
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from romkit.core import files
from romkit.core.boundary import FilePath, Finite, Positive, validated
from romkit.core.display import Display, format_text
from romkit.core.errors import InputError
from romkit.data import fields
from romkit.learning import saved, words
from romkit.learning.errors import Errors, VariableErrors, mean_kept
from romkit.learning.judged import Judged
from romkit.learning.page import write_page
from romkit.learning.rhythm import drive
from romkit.solvers import Adaptive
from romkit.verbs.export import export as export_model
from romkit.verbs.forecast import forecast as forecast_once

if TYPE_CHECKING:
    from romkit.hidden import PlacedRun
    from romkit.plotting.style import Figure


@dataclass(frozen=True, eq=False)
class Learned(Judged, Display):
    """A reduced model of runs, with its errors on runs that were left out.

    Attributes:
        projection: the manifold.
        law: equation of motion of its latents; `law.report` has a row for each candidate.
        settings: with which the law was fitted.
        calibration: of the intervals; None where there are too few runs.
        inside: share of the truth within the intervals of left-out runs, each calibrated by the
            others; NaN with fewer than three of them, and where runs are held out.
        train: the runs that it was fitted to.
        test: the runs that judge it: those of the folds, or held-out ones.
        run: `romkit.rollout` along these, of folds by models with the same settings that were
            fitted without them; where runs are interpolated, their forecasts, too, as `between`.
        errors: of each of these runs, of the forecast, of the projection alone, and of forecasts
            that need no model: the nearest training run, that run shifted in time, and rest at the
            mean. They are in deviations of the training data, one for all components of a unit, as
            laws are judged. Runs that were left out leave wider gaps than those of the model, for
            which `error` makes up.
        errors_of_variables: the same of each variable, in its unit and in its deviation.
        errors_of_seen: of the runs that it was fitted to.
        seconds: of the processor.
        held_out: whether runs were held out from the choice and the fit.
        period: of what drives the runs, as it was given; None where nothing does.
        interpolated: runs interpolated in the context at equal times or phases, which forecast in
            place of the law; None where the law does. Errors of the law are then those called "law".
        hidden: parameters that nobody recorded, with what places new runs; None where none was
            asked for.

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
        rates         none given; estimated where needed
        >>> model = romkit.learn(runs, latent_dim=2)
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
        context: dict[str, object] | None = None,
        **options: object,
    ) -> xr.Dataset:
        """Forecast from a state, with an interval where there is a calibration: `lower` and
        `upper` before the names of the variables.

        Where runs are interpolated, the context chooses the run: `initial_state` may be left out, and
        one that is none of the runs', or a forecast beyond their end, is refused. `of_law` forecasts
        these.

        Args:
            initial_state: as `romkit.forecast` takes it.
            duration: length of the forecast, in the time unit of the data.
            dt: interval of the output.
            start: time of the first state since the rhythm began, for a model with a `period`, or
                since the first sample of the runs, where they are interpolated.
            context: parameters by name where one is called like an argument.
            **options: others of `romkit.forecast`: the context by name, and of runs with inputs
                `control`, samples (time, input) or a function of time.
        """
        options["context"] = context
        self._refuse_misplaced_contexts(options)
        if self.interpolated is None and self.period is None:
            _refuse_start(start)
        options |= {"duration": duration, "dt": dt}
        if initial_state is not None:
            options["initial_state"] = initial_state
        if self.interpolated is not None:
            forecast = fields(self.interpolated.forecast(start=start, **options))
            return forecast.assign_attrs(forecast_by=words.describe_interpolation(self))
        if self.period is not None:
            self._refuse_inputs(options)
            options |= self._driven(start, duration, options)
        if self.intervals is None:
            return forecast_once(self.projection, dynamics=self.law, **options)
        return fields(self.intervals.forecast(**options))

    def place(self, run: xr.Dataset) -> "PlacedRun":
        """Find the hidden context of a new run: `context` of what is returned gives the parameters
        that `forecast` takes, and `values` has intervals.

        Raises:
            InputError: a model without hidden parameters, or runs that cannot be placed.
        """
        if self.hidden is None:
            fix = "learn(runs, context='hidden'); of a known context give it to forecast"
            raise InputError("model", expected="hidden parameters", got="none", fix=fix)
        return self.hidden.place(run)

    def of_law(self) -> "Learned":
        """Return the model with forecasts by its law: from any start, and for any time, with the
        errors of the law.
        """
        if self.interpolated is None:
            return self
        return replace(
            self,
            interpolated=None,
            errors=_relabel_errors(self.errors),
            errors_of_variables=_map_errors(self.errors_of_variables, _relabel_errors),
        )

    def _refuse_misplaced_contexts(self, options: Mapping[str, object]) -> None:
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
        """Return inputs of the rhythm, and a solver whose steps end at their kinks."""
        inputs, kinks = drive(self.train, self.period, start, duration)
        driven: dict[str, object] = {"control": inputs}
        if options.get("solver") is None:
            tolerance = {"rtol": options["rtol"]} if options.get("rtol") is not None else {}
            driven["solver"] = Adaptive(jump_times=tuple(kinks.tolist()), **tolerance)
            driven["rtol"] = None
        return driven

    def plot(self) -> "Figure":
        """Draw truth, model and difference of the runs that judge it, with the error over time, whose
        mean over time and runs is that of `errors["forecast"]`.
        """
        from romkit.learning.pictures import picture  # matplotlib, half a second

        return picture(self)

    @validated
    def report(self, folder: FilePath) -> Path:
        """Write REPORT.md with pictures into a folder: errors, what was tried, and what would help.

        `romkit report FOLDER/REPORT.md` makes one page of HTML of it.
        """
        return write_page(self, files.expanded(folder))

    @validated
    def save(self, folder: FilePath) -> Path:
        """Write all of the model into a folder, which is made: `projection.safetensors`,
        `law.safetensors`, `calibration.nc`, the runs, and `learned.json`. An earlier model there is
        replaced once the new one is complete.
        """
        folder = files.expanded(folder)
        saved.write(self, folder)
        return folder

    @classmethod
    @validated
    def load(cls, folder: FilePath) -> "Learned":
        """Read what `save` wrote: a model with the same forecasts, errors and report.

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
            law_error = mean_kept(self.errors["law"])
            fix = f"model.of_law().export(...), whose forecasts err by {law_error:.2g}"
            raise InputError("model", expected="a law", got="interpolated runs", fix=fix)
        return export_model(self.projection, path, dynamics=self.law, **options)

    def facts(self) -> dict[str, str]:
        """Return what a person reads first, by name: kind, errors, intervals, choice and advice."""
        return words.facts(self)

    def figure_html(self) -> str:
        """Return the picture of `plot`."""
        file = io.BytesIO()
        self.plot().savefig(file, format="png", dpi=80)
        picture = base64.b64encode(file.getvalue()).decode()
        return (
            f"<img style='max-width:60%;object-fit:contain' alt='truth and model' "
            f"src='data:image/png;base64,{picture}'/>"
        )

    def __repr__(self) -> str:
        return format_text(self.facts())


def _refuse_start(start: float) -> None:
    """Refuse the time of a start where nothing depends on it."""
    if start != 0:
        expected = "none: the law of the model does not depend on time"
        fix = "leave it out; a state after that time is the initial_state"
        raise InputError("start", expected=expected, got=f"{start:g}", fix=fix)


def _relabel_errors(errors: Errors) -> Errors:
    """Return errors of a model whose forecasts are interpolated runs as those of its law."""
    baselines = {name: values for name, values in errors.items() if name != "law"}
    return baselines | {"forecast": errors["law"]}


def _map_errors(
    errors_of_variables: Mapping[str, VariableErrors], change: Callable[[Errors], Errors]
) -> dict[str, VariableErrors]:
    """Return errors of each variable, changed."""
    changed = {}
    for name, errors in errors_of_variables.items():
        absolute = change(errors.absolute)
        changed[name] = errors._replace(absolute=absolute, relative=change(errors.relative))
    return changed
