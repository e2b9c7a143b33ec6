"""A learned model: what `romkit.learn` returns."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import xarray as xr

from romkit.core import display, files
from romkit.core.boundary import FilePath, Natural, Seed, validated
from romkit.core.runtime import versions
from romkit.data import context_names, fields
from romkit.data.controls import Control
from romkit.integrators import Estimator, LearnedField
from romkit.learning.advice import Errors, Evidence, context_in_words, contexts_of
from romkit.learning.bars import Bars, ensemble_of, joined, measured, quiet
from romkit.learning.refit import refitted
from romkit.learning.rhythm import waves
from romkit.plotting import plot_forecast, plot_rollout, save_figure
from romkit.plotting.style import Figure
from romkit.projections import Projection
from romkit.verbs.ensemble import Ensemble
from romkit.verbs.export import export as export_model
from romkit.verbs.runs import forecast as forecast_once
from romkit.verbs.storage import save as save_model

NUMBER = re.compile(r"\d+\.\d{4,}(?:e[-+]\d+)?")
"""Numbers of more digits than one reads."""

BAR = 0.9
"""Level of the intervals."""

FEW_RUNS = 4
"""Runs below which intervals that rest on them are called uncertain."""


@dataclass(frozen=True)
class Trial:
    """One manifold that was tried, with the best law on it.

    Attributes:
        latent_dim: number of latents.
        config: settings of the manifold.
        projection_error: on contexts that were left out, relative to the deviation of the data.
        law: row of the report of `romkit.law` for the law that it took.
    """

    latent_dim: int
    config: Mapping[str, object]
    projection_error: float
    law: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Learned:
    """A reduced model of runs, with its errors on runs that were held out.

    Attributes:
        projection: the manifold.
        law: equation of motion of its latents.
        settings: with which the law was fitted.
        ensemble: laws that miss a context each, with calibrated intervals; None where none was
            asked for, or there are too few runs.
        train, test: the runs that it was learned from, and those that judge it.
        run: `romkit.rollout` along the held-out runs.
        errors: of each held-out run, of the forecast, of the projection alone, and of forecasts that
            need no model: the nearest training run, that run shifted in time, and rest at the mean.
        errors_of_seen: the same of some runs that it was learned from.
        trials: manifolds that were tried.
        seconds: of the processor.
        fitted_to_all: whether projection and law have learned from the held-out runs, too, after
            errors were measured.
        period: of what drives the runs; None where nothing does.

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
        >>> sorted(model.errors)
        ['forecast', 'nearest run', 'nearest run, shifted', 'projection', 'rest']
        >>> bool((model.errors["forecast"] < model.errors["nearest run"]).all())
        True
    """

    projection: Projection
    law: LearnedField
    settings: Estimator
    ensemble: Ensemble | None
    train: xr.Dataset
    test: xr.Dataset
    run: xr.Dataset
    errors: Errors
    errors_of_seen: Errors
    trials: list[Trial]
    seconds: float
    fitted_to_all: bool = False
    period: float | None = None

    def forecast(self, *, start: float = 0.0, **options: object) -> xr.Dataset:
        """Forecast from a state, with an interval where there is an ensemble: `lower` and `upper`
        before the names of the variables.

        Args:
            start: time of the first state since the rhythm began, for a model with a `period`.
            **options: those of `romkit.forecast`: `initial_state`, `duration`, `dt`, the context by
                name, and of runs with inputs `control`, samples (time, input) or a function of
                time.
        """
        if self.period is not None:
            options["control"] = self._rhythm_from(start)
        if self.ensemble is None:
            return forecast_once(self.projection, dynamics=self.law, **options)
        return fields(self.ensemble.forecast(**options))

    def _rhythm_from(self, start: float) -> Control:
        """Inputs at times since a start."""

        def inputs(t: torch.Tensor) -> np.ndarray:
            return waves(float(t) + start, self.period)

        return inputs

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
        everything = joined(self.train, self.test)
        with quiet():
            projection, law = refitted(self.projection, self.settings, everything, seed)
        law = replace(law, report=self.law.report)
        ensemble = ensemble_of(projection, self.settings, law, everything, None, members, seed)
        model = replace(self, projection=projection, law=law, ensemble=ensemble)
        return replace(model, train=everything, fitted_to_all=True)

    def plot(self) -> Figure:
        """Truth, model and difference of held-out runs, with the error over time."""
        return plot_rollout(self.run)

    @property
    def advice(self) -> str:
        """Sentence that says how far to trust the model, and what would help most."""
        tried = [(trial.latent_dim, trial.projection_error) for trial in self.trials]
        evidence = Evidence(
            held_out=self.errors,
            seen=self.errors_of_seen,
            tried=tried,
            latent_dim=self.projection.latent_dim,
            train=self.train,
            test=self.test,
            has_inputs=bool(self.law.control_names),
            fitted_to_all=self.fitted_to_all,
        )
        return evidence.sentence()

    @functools.cached_property
    def bars(self) -> Bars | None:
        """Widths of intervals on the held-out runs, and what they rest on; None without any."""
        if self.ensemble is None:
            return None
        with quiet():
            return measured(self.ensemble, self.test, BAR)

    def report(self, folder: FilePath) -> Path:
        """Write REPORT.md with pictures into a folder: errors, what was tried, and what would help.

        `romkit report FOLDER/REPORT.md` makes one page of HTML of it.
        """
        return _write_report(self, folder)

    @validated
    def save(self, folder: FilePath) -> Path:
        """Write `projection.safetensors`, `law.safetensors` and, with an ensemble, `ensemble/`."""
        folder = files.expanded(folder)
        files.make_folder(folder)
        save_model(self.projection, folder / "projection.safetensors")
        save_model(self.law, folder / "law.safetensors")
        if self.ensemble is not None:
            self.ensemble.save(folder / "ensemble")
        return folder

    def export(self, path: FilePath, **options: object) -> Path:
        """Write the model as C, an FMU or programs of PyTorch: `romkit.export` with its law."""
        return export_model(self.projection, path, dynamics=self.law, **options)

    def __repr__(self) -> str:
        (settings,) = [row["settings"] for row in self.law.report if row["chosen"]]
        latents, components = self.projection.latent_dim, self.train.sizes["component"]
        law = NUMBER.sub(_shortened, str(settings))
        lines = [
            f"Learned: {latents} latents of {components} components, {law}",
            f"error    {self._error_in_words()}",
            f"bars     {self._bars_in_words()}",
            f"advice   {self.advice}",
        ]
        repeats = self._repeats_in_words()
        if repeats:
            lines.insert(3, f"repeats  {repeats}")
        return "\n".join(lines)

    def _error_in_words(self) -> str:
        """Errors of held-out runs, beside those of forecasts that need no model."""
        # one lost forecast must not hide the others
        error, nearest, shifted = (
            float(np.median(self.errors[name]))
            for name in ("forecast", "nearest run", "nearest run, shifted")
        )
        runs = len(self.errors["forecast"])
        before = ", before the fit to all runs" if self.fitted_to_all else ""
        return (
            f"{error:.2g} of the deviation of the data, median of {runs} held-out runs{before} "
            f"(nearest run {nearest:.2g}, shifted in time {shifted:.2g})"
        )

    def _bars_in_words(self) -> str:
        """Width of the intervals, and the runs that they rest on."""
        if self.bars is None:
            return "none: they need members=2 or more, and four contexts"
        errors = self.errors["forecast"]
        bars, error = self.bars, float(np.median(errors[np.isfinite(errors)]))
        few = ": too few for a width to rely on" if bars.runs < FEW_RUNS else ""
        return (
            f"of level {BAR:.0%}, ±{bars.width:.2g} deviations, {bars.width / error:.1f} times the "
            f"error; they rest on {bars.runs} forecasts of runs that their law had not seen{few}"
        )

    def _repeats_in_words(self) -> str:
        """Note that several runs share a context; empty where none do."""
        contexts = contexts_of(self.train)
        if not self.fitted_to_all:
            contexts = np.concatenate([contexts, contexts_of(self.test)])
        number = len(np.unique(contexts, axis=0))
        if number == len(contexts):
            return ""
        return (
            f"{len(contexts)} runs at {number} contexts: those that share one are repeats, which are "
            "held out together"
        )


@validated
def _write_report(learned: Learned, folder: FilePath) -> Path:
    folder = files.expanded(folder)
    files.make_folder(folder)
    save_figure(learned.plot(), folder / "rollout.png")
    pictures = ["![truth, reduced model and difference of held-out runs](rollout.png)"]
    if learned.ensemble is not None:
        with quiet():  # of the held-out runs, and of no forecast of the user
            band = learned.ensemble.follow(learned.test, level=BAR)
        save_figure(plot_forecast(band, learned.test), folder / "forecast.png")
        pictures.append("![forecasts with their intervals](forecast.png)")
    made_by = ", ".join(f"{name} {version}" for name, version in versions().items())
    sections = [
        "# A reduced model of your runs",
        learned.advice,
        "\n\n".join(pictures),
        "## Bars",
        f"{learned._bars_in_words().capitalize()}.",
        "## Errors of held-out runs",
        "Root mean square over components in standard deviations of the training data, mean over "
        "time.",
        _errors_table(learned),
        "## Manifolds and laws that were tried",
        "Errors of training runs that were left out in turn; the final model has learned from them.",
        _trials_table(learned),
        "## A forecast",
        _commands(learned, folder),
        "## Made by",
        f"{made_by}; {learned.seconds:.0f} s of the processor.",
    ]
    path = folder / "REPORT.md"
    with files.atomic(path) as temporary:
        temporary.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    return path


def _commands(learned: Learned, folder: Path) -> str:
    """Lines that make a forecast with the saved model, and draw it."""
    values = []
    for name in context_names(learned.train):
        middle = float(np.median(learned.train[name].values))
        values.append(f"--{name} {middle:.4g}")
    model = f"{folder}/ensemble"
    if learned.ensemble is None:
        model = f"{folder}/projection.safetensors --dynamics {folder}/law.safetensors"
    times = learned.train["time"].values
    duration = times[-1] - times[0]
    step = np.median(np.diff(times))
    length = f"--duration {duration:.4g} --dt {step:.4g}"
    command = f"romkit forecast {model} --from start.nc {length} {' '.join(values)}"
    return f"```sh\n{command}\n```"


def _errors_table(learned: Learned) -> str:
    """A row for each forecast, a column for each held-out run."""
    head = [""]
    for run in range(learned.test.sizes["trajectory"]):
        head.append(context_in_words(learned.test, run))
    rows = []
    for name, errors in learned.errors.items():
        rows.append([name, *map(_in_words, errors)])
    return _table(head, rows)


def _in_words(error: float) -> str:
    """Error of a run, or that its forecast is lost."""
    if np.isfinite(error):
        return f"{error:.2g}"
    return "lost"


def _trials_table(learned: Learned) -> str:
    """A row for each manifold, with the errors on contexts that were left out of the training."""
    head = ["latents", "manifold", "its error", "law", "its error"]
    rows = []
    for trial in learned.trials:
        config = dict(trial.config)
        config.pop("latent_dim", None)
        manifold = [str(trial.latent_dim), display.pairs(config), f"{trial.projection_error:.2g}"]
        settings = NUMBER.sub(_shortened, str(trial.law["settings"]))
        rows.append([*manifold, settings, f"{trial.law['error']:.2g}"])
    return _table(head, rows)


def _shortened(number: re.Match[str]) -> str:
    return f"{float(number[0]):.3g}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    rule = ["---"] * len(head)
    lines = []
    for cells in (head, rule, *rows):
        columns = " | ".join(cells)
        lines.append(f"| {columns} |")
    return "\n".join(lines)
