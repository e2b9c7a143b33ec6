"""Page of results: tables and figures of all results of a preset."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.report import COLOURS, TITLES, panels, save_png, table, write_text
from studies.rollout_drift.tasks import SWITCH
from studies.runner import read

MARGIN = 0.004
"""Distance from the change of wave number that counts as away from it, in F."""
UNITS = {"lorenz96": "time units", "pendulum": "s"}
LINES = {"paper-loss": "-", "dynamics": "--", "timing-galerkin": ":"}
"""Trainings of the curves, and how they are drawn."""
NOTHING = "-"
WAYS = {
    "phase_drift": "phase",
    "amplitude_drift": "amplitude",
    "wave_number_agreement": "wave number",
    "lyapunov_sum": "Lyapunov",
    "peak_energy_drift": "energy",
    "hellinger_distance": "Hellinger",
    "valid_time_strict": "valid (0.05)",
    "manifold_distance": "off manifold",
}
"""Scores and their columns; a system has those that its results have."""
PHASE = """### Phase by forcing

Rate at which the reduced wave runs ahead of the true one by Galerkin, in 0.001 rad per time unit: mean over
seeds ± their standard deviation. Where the mean is larger, the error is one that all seeds make.

"""
Runs = dict[tuple[str, str], xr.Dataset]
"""Results on a system by (method/training, dynamics), the models with the longest valid times first."""


def write(folder: Path, preset: str) -> Path:
    """Write REPORT.md and its figures into `folder`, from the results of a preset there and its archive."""
    found: dict[str, list[xr.Dataset]] = {}
    for run in read(folder / preset):
        found.setdefault(json.loads(run.attrs["config"])["model"]["system"], []).append(run)
    systems = {system: _sorted(runs) for system, runs in found.items()}
    text = (
        f"# Drift of rollouts\n\nWritten by report.py from {sum(map(len, systems.values()))} result files. A valid "
        "time that is the length of the rollout means that the error stayed below the threshold to the end. A dash is "
        "what was not measured.\n"
    )
    for system, runs in systems.items():
        figures = FIGURES if "F" in _any(runs).coords else {k: v for k, v in FIGURES.items() if k != "valid_by_forcing"}
        for name, draw in figures.items():
            save_png(draw(runs, UNITS[system]), folder / f"{name}-{system}.png")
        text += "\n" + _section(system, runs, list(figures))
    return write_text(folder / "REPORT.md", text)


def _sorted(runs: list[xr.Dataset]) -> Runs:
    named = {(f"{run.attrs['method']}/{run.attrs['training']}", run.attrs["dynamics"]): run for run in runs}
    best: dict[str, float] = {}
    for (model, _), run in named.items():
        best[model] = max(best.get(model, 0.0), float(run.valid_time.sel(mode="latent").median()))
    return dict(sorted(named.items(), key=lambda item: (-best[item[0][0]], item[0])))


def _any(runs: Runs) -> xr.Dataset:
    return next(iter(runs.values()))


def _config(run: xr.Dataset, name: str) -> float:
    return json.loads(run.attrs["config"])[name]


def _section(system: str, runs: Runs, figures: list[str]) -> str:
    some, duration = _any(runs), _config(_any(runs), "duration")
    devices = sorted({run.attrs["device"] for run in runs.values()})
    versions = json.loads(some.attrs["versions"])
    names = ", ".join(f"{name} {versions[name]}" for name in ("romkit", "torch", "torchdiffeq"))
    bounds = duration / 10, duration / 2, duration
    ways = [name for name in WAYS if any(name in run for run in runs.values())]
    rows = [[*key, *(_way(run.sel(mode="latent"), name) for name in ways)] for key, run in runs.items()]
    first = {model: run for (model, _), run in reversed(runs.items())}
    head = ["model", "position RMSE", "velocity RMSE", "seeds that diverged", "CPU minutes"]
    models = dict.fromkeys(model for model, _ in runs)
    return (Path(__file__).with_name("page.md").read_text(encoding="utf-8")).format(
        title=TITLES[system],
        contexts=some.sizes["context"],
        duration=duration,
        units=UNITS[system],
        provenance=f"{', '.join(devices)}; {names}.",
        valid=_by_dynamics(runs, _valid),
        where="Away from the change of wave number, share" if "F" in some.coords else "Share",
        bounds=" / ".join(f"{bound:g}" for bound in bounds),
        shares=_by_dynamics(runs, lambda run: _shares(run, bounds)),
        pictures="\n".join(f"![{name}]({name}-{system}.png)\n" for name in figures),
        restart=max(_config(run, "restart") for run in runs.values()),
        reencoded=_by_dynamics(runs, _valid, mode="re-encoded"),
        ways=table(rows, ["model", "dynamics", *(WAYS[name] for name in ways)]),
        phase=f"{PHASE}{_phase_by_forcing(runs)}\n" if "F" in some.coords else "",
        training=table([[model, *_training(first[model])] for model in models], head).rstrip("\n"),
    )


def _by_dynamics(runs: Runs, cell: Callable[[xr.Dataset], str], mode: str = "latent") -> str:
    """Table of models by latent dynamics."""
    names = list(dict.fromkeys(name for (_, name), run in runs.items()))
    names = [name for name in names if any(n == name and mode in run.mode for (_, n), run in runs.items())]
    rows = []
    for model in dict.fromkeys(model for model, _ in runs):
        own = [runs.get((model, name)) for name in names]
        rows.append([model, *(NOTHING if run is None else cell(run.sel(mode=mode)) for run in own)])
    return table(rows, ["model", *names])


def _valid(run: xr.Dataset) -> str:
    lost, median = int(run.diverged.sum()), float(run.valid_time.median())
    return f"{float(f'{median:.3g}'):g}" + (f" ({lost} of {run.diverged.size})" if lost else "")


def _shares(run: xr.Dataset, bounds: tuple[float, ...]) -> str:
    times = run.valid_time
    if "F" in run.coords:
        times = times.isel(context=np.abs(run.F.values - SWITCH) >= MARGIN)
    return " / ".join(f"{float((times >= bound).mean()):.0%}" for bound in bounds)


def _way(run: xr.Dataset, name: str) -> str:
    """Median of a score over the rollouts for which it is known; a rollout that diverged at once has NaN."""
    values = run[name].values if name in run else np.array([])
    known = values[~np.isnan(values)]
    if not known.size:
        return NOTHING
    if name != "lyapunov_sum":
        return f"{np.median(np.abs(known)):.2g}"
    unstable = int((known > 0).sum())
    return f"{np.median(known):.2g}" + (f" ({unstable} of {known.size} positive)" if unstable else "")


def _phase_by_forcing(runs: Runs) -> str:
    rows = []
    for (model, dynamics), run in runs.items():
        if dynamics == "galerkin" and run.sizes["seed"] > 1:
            drift = 1e3 * run.phase_drift.sel(mode="latent")
            ends = zip(drift.mean("seed").values, drift.std("seed").values, strict=True)
            rows.append([model, *(f"{mean:.1f} ± {std:.1f}" for mean, std in ends)])
    return table(rows, ["model", *(f"F = {value:.4f}" for value in _any(runs).F.values)])


def _training(run: xr.Dataset) -> list[str]:
    errors = [f"{float(run[name].mean()):.3f} ± {float(run[name].std()):.3f}" for name in _ERRORS]
    lost = f"{int(run.training_diverged.sum())} of {run.sizes['seed']}"
    return [*errors, lost, f"{run.attrs['training_cpu_seconds'] / 60:.1f}"]


_ERRORS = ("position_rmse", "velocity_rmse")


def drift_curves(runs: Runs, unit: str) -> Figure:
    """NRMSE over time for each latent dynamics: median over seeds and contexts, 10 to 90 % over contexts for NcAE."""

    def draw(ax: Axes, run: xr.Dataset) -> None:
        low, middle, high = (run.nrmse.sel(quantile=q).median("seed") for q in (0.1, 0.5, 0.9))
        low, middle, high = (x.where(np.isfinite(x), 1e3) for x in (low, middle, high))  # off the picture at its top
        (line,) = ax.loglog(run.curve_time, middle, **_look(run))
        if run.attrs["method"] == "ncae":
            ax.fill_between(run.curve_time, low, high, color=line.get_color(), alpha=0.12, lw=0)

    def finish(ax: Axes) -> None:
        ax.axhline(0.5, color="0.6", lw=0.6)
        ax.set(xlabel=f"time ({unit})", ylim=(3e-3, 3))

    return _panels(runs, "NRMSE", draw, finish)


def share_valid(runs: Runs, unit: str) -> Figure:
    """Share of rollouts that are still valid, in per cent, over time, for each latent dynamics."""

    def draw(ax: Axes, run: xr.Dataset) -> None:
        lasting = 100 * (run.valid_time >= run.curve_time).mean(("seed", "context"))
        ax.plot(run.curve_time, lasting, **_look(run))

    finish = lambda ax: ax.set(xlabel=f"time ({unit})", xscale="log", ylim=(0, 102))  # noqa: E731
    return _panels(runs, "still valid (%)", draw, finish)


def valid_by_forcing(runs: Runs, unit: str) -> Figure:
    """Valid time against F for each latent dynamics: median over seeds, with the quartiles for NcAE."""
    duration = _config(_any(runs), "duration")

    def draw(ax: Axes, run: xr.Dataset) -> None:
        low, middle, high = run.valid_time.quantile([0.25, 0.5, 0.75], "seed")
        (line,) = ax.plot(run.F, middle, marker=".", **_look(run))
        if run.attrs["method"] == "ncae":
            ax.fill_between(run.F, low, high, color=line.get_color(), alpha=0.12, lw=0)

    def finish(ax: Axes) -> None:
        ax.set_xlabel("forcing F")
        ax.set_yscale("symlog", linthresh=1)
        ax.set_ylim(-0.1, 1.5 * duration)

    return _panels(runs, f"valid prediction time ({unit})", draw, finish)


def share_diverged(runs: Runs, unit: str) -> Figure:
    """Share of rollouts that diverge, in per cent: models by dynamics; grey is not measured."""
    models, names = (list(dict.fromkeys(key[k] for key in runs)) for k in (0, 1))
    shares = np.full((len(models), len(names)), np.nan)
    for (model, name), run in runs.items():
        shares[models.index(model), names.index(name)] = 100 * float(run.diverged.sel(mode="latent").mean())
    figure, ((ax,),) = panels(1, 1, (6, 1 + 0.25 * len(models)))
    ax.set_facecolor("0.85")
    picture = ax.imshow(shares, cmap="magma_r", vmin=0, vmax=100, aspect="auto")
    for row, column in np.argwhere(np.isfinite(shares)):
        share = shares[row, column]
        ax.text(column, row, f"{share:.0f}", ha="center", va="center", color="w" if share > 50 else "k")
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_yticks(range(len(models)), models)
    figure.colorbar(picture, label="diverged (%)")
    return figure


FIGURES: dict[str, Callable[[Runs, str], Figure]] = {
    draw.__name__: draw for draw in (drift_curves, share_valid, valid_by_forcing, share_diverged)
}
"""Figures of a system; that over forcings only where there are some."""


def _panels(
    runs: Runs, label: str, draw: Callable[[Axes, xr.Dataset], None], finish: Callable[[Axes], object]
) -> Figure:
    """Panel for each latent dynamics with rollouts that stay latent, of the trainings of LINES; one legend for all."""
    names = list(dict.fromkeys(name for _, name in runs))
    figure, ((*axes,),) = panels(1, len(names), (13, 3.2))
    axes[0].set_ylabel(label)
    for name, ax in zip(names, axes, strict=True):
        ax.set_title(name)
        for (_, dynamics), run in runs.items():
            if dynamics == name and run.attrs["training"] in LINES:
                draw(ax, run.sel(mode="latent"))
        finish(ax)
    lines = {label: line for ax in figure.axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines.keys(), loc="outside right center", frameon=False)
    return figure


def _look(run: xr.Dataset) -> dict[str, object]:
    method, training = run.attrs["method"], run.attrs["training"]
    return {"color": COLOURS.get(method, "#B8860B"), "linestyle": LINES[training], "label": f"{method}/{training}"}
