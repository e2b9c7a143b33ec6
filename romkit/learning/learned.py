"""A learned model: what `romkit.learn` returns."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.core import display, files
from romkit.core.boundary import FilePath, validated
from romkit.core.runtime import versions
from romkit.data import context_names, fields
from romkit.integrators import LearnedField
from romkit.plotting import plot_forecast, plot_rollout, save_figure
from romkit.plotting.style import Figure
from romkit.projections import Projection
from romkit.verbs.ensemble import Ensemble
from romkit.verbs.export import export as export_model
from romkit.verbs.runs import forecast as forecast_once
from romkit.verbs.storage import save as save_model

Errors = Mapping[str, np.ndarray]
"""Error of each held-out run by what made the forecast [deviations of the training data]."""

USEFUL = 0.5
"""Error of a forecast above which it is called of no use."""

NEGLIGIBLE = 0.005
"""Error of a forecast below which nothing more is needed [deviations]."""

LIMITED = 2.0
"""Error of a forecast, in that of the projection, up to which the manifold limits it."""

NUMBER = re.compile(r"\d+\.\d{4,}(?:e[-+]\d+)?")
"""Numbers of more digits than one reads."""

MISSED = 0.1
"""Error of the projection, in that of the forecast, below which the law misses what moves the runs."""

BAR = 0.9
"""Level of the intervals."""


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
        ensemble: laws of bootstraps with calibrated intervals; None where none was asked for.
        train, test: the runs that it was learned from, and those that judge it.
        run: `romkit.rollout` along the held-out runs.
        errors: of each held-out run, of the forecast, of the projection alone, and of forecasts that
            need no model: the nearest training run, that run shifted in time, and rest at the mean.
        trials: manifolds that were tried.
        seconds: of the processor.

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
    ensemble: Ensemble | None
    train: xr.Dataset
    test: xr.Dataset
    run: xr.Dataset
    errors: Errors
    trials: list[Trial]
    seconds: float

    def forecast(self, **options: object) -> xr.Dataset:
        """Forecast from a state, with an interval where there is an ensemble: `lower` and `upper`
        before the names of the variables.

        Args:
            **options: those of `romkit.forecast`: `initial_state`, `duration`, `dt`, the context by
                name, and of runs with inputs `control`, samples (time, input) or a function of
                time.
        """
        if self.ensemble is None:
            return forecast_once(self.projection, dynamics=self.law, **options)
        return fields(self.ensemble.forecast(**options))

    def plot(self) -> Figure:
        """Truth, model and difference of held-out runs, with the error over time."""
        return plot_rollout(self.run)

    @property
    def advice(self) -> str:
        """Sentence that says how far to trust the model, and what would help most."""
        errors = self.errors["forecast"]
        worst = int(np.argmax(errors))
        where = self._context(worst)
        kept = errors[np.isfinite(errors)]
        if len(kept) < len(errors):
            others = ""
            if len(kept) > 0:
                others = f" The {len(kept)} others err by {np.median(kept):.2g}, in the median."
            return (
                f"The forecast at {where} is lost: give more runs near it, or shorten the forecast."
                f"{others}"
            )
        forecast = self._mean_error("forecast")
        projection = self._mean_error("projection")
        shifted = self._mean_error("nearest run, shifted")
        latents = self.projection.latent_dim + 1
        more_latents = f", or more latents, latent_dim={latents},"
        if any(trial.latent_dim == latents for trial in self.trials):
            # these were tried, and did not help
            more_latents = ""
        if forecast > min(USEFUL, shifted):
            return (
                "No law follows these runs better than the nearest of them: more runs near "
                f"{where}, where the error is largest{more_latents or ','} may help."
                f"{self._advice_on_inputs()}"
            )
        if forecast <= NEGLIGIBLE:
            return (
                f"Forecasts err by {forecast:.2g} of the deviation of the data, the nearest run by "
                f"{shifted:.2g}: nothing more is needed."
            )
        if forecast <= LIMITED * projection:
            return (
                f"The manifold limits the forecast ({projection:.2g} of its error of "
                f"{forecast:.2g}): more runs near {where}{more_latents} may help."
            )
        return (
            f"The law limits the forecast ({forecast:.2g}, the manifold {projection:.2g}): longer "
            f"runs, or more of them near {where}, may help."
        )

    def _advice_on_inputs(self) -> str:
        """Sentence for runs that are alike at equal times and on the manifold, but follow no law."""
        forecast = self._mean_error("forecast")
        is_held = self._mean_error("projection") < MISSED * forecast
        has_inputs = bool(self.law.control_names)
        if has_inputs or not is_held or self._mean_error("nearest run") > forecast:
            return ""
        return (
            " If something acts on them that changes in time, a load or a heater say, name it: "
            "romkit.data.describe(data, control=[...])."
        )

    def _mean_error(self, name: str) -> float:
        """Mean error of a forecast over the held-out runs."""
        return float(np.mean(self.errors[name]))

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
        # one lost forecast must not hide the others
        error = float(np.median(self.errors["forecast"]))
        (settings,) = [row["settings"] for row in self.law.report if row["chosen"]]
        latents, components = self.projection.latent_dim, self.train.sizes["component"]
        runs = self.test.sizes["trajectory"]
        return (
            f"Learned({latents} latents of {components} components, {settings}; median error "
            f"{error:.2g} on {runs} held-out runs. {self.advice})"
        )

    def _context(self, run: int) -> str:
        """Context of a held-out run in words."""
        values = display.parameters(self.test.isel(trajectory=run))
        named = []
        for name in context_names(self.test):
            value = float(values[name])
            named.append(f"{name} = {value:.4g}")
        return ", ".join(named)


@validated
def _write_report(learned: Learned, folder: FilePath) -> Path:
    folder = files.expanded(folder)
    files.make_folder(folder)
    save_figure(learned.plot(), folder / "rollout.png")
    pictures = ["![truth, reduced model and difference of held-out runs](rollout.png)"]
    if learned.ensemble is not None:
        band = learned.ensemble.follow(learned.test, level=BAR)
        save_figure(plot_forecast(band, learned.test), folder / "forecast.png")
        pictures.append("![forecasts with their intervals](forecast.png)")
    made_by = ", ".join(f"{name} {version}" for name, version in versions().items())
    sections = [
        "# A reduced model of your runs",
        learned.advice,
        "\n\n".join(pictures),
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
        head.append(learned._context(run))
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
