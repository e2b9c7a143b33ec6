"""Page of results: tables and figures of all results of a preset."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.report import COLOURS, TITLES, filled, panels, save_png, table, write_text
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
Runs = dict[tuple[str, str], xr.Dataset]
"""Results on a system by (method/training, dynamics), the models with the longest valid times
first.
"""


def write(folder: Path, preset: str) -> Path:
    """Write REPORT.md and its figures into `folder`, from the results of a preset there and its
    archive.
    """
    found: dict[str, list[xr.Dataset]] = {}
    for run in read(folder / preset):
        found.setdefault(_config(run, "model")["system"], []).append(run)
    text = ""
    for system, runs in ((system, _sorted(runs)) for system, runs in found.items()):
        figures = [draw for draw in FIGURES if draw != valid_by_forcing or "F" in _any(runs).coords]
        for draw in figures:
            save_png(draw(runs, UNITS[system]), folder / f"{draw.__name__}-{system}.png")
        text += "\n" + _section(system, runs, [draw.__name__ for draw in figures])
    head = filled(Path(__file__).with_name("head.template"), files=sum(map(len, found.values())))
    return write_text(folder / "REPORT.md", head + text)


def _sorted(runs: list[xr.Dataset]) -> Runs:
    named = {
        (f"{run.attrs['method']}/{run.attrs['training']}", run.attrs["dynamics"]): run
        for run in runs
    }
    best: dict[str, float] = {}
    for (model, _), run in named.items():
        best[model] = max(best.get(model, 0.0), float(run.valid_time.sel(mode="latent").median()))
    return dict(sorted(named.items(), key=lambda item: (-best[item[0][0]], item[0])))


def _any(runs: Runs) -> xr.Dataset:
    return next(iter(runs.values()))


def _config(run: xr.Dataset, name: str) -> Any:
    return json.loads(run.attrs["config"])[name]


def _section(system: str, runs: Runs, figures: list[str]) -> str:
    some, duration = _any(runs), _config(_any(runs), "duration")
    devices, versions = (
        sorted({run.attrs["device"] for run in runs.values()}),
        json.loads(some.attrs["versions"]),
    )
    names = ", ".join(f"{name} {versions[name]}" for name in ("romkit", "torch", "torchdiffeq"))
    bounds = duration / 10, duration / 2, duration
    ways = {
        name: title for name, title in WAYS.items() if any(name in run for run in runs.values())
    }
    rows = []
    for (model, dynamics), run in runs.items():
        latent = run.sel(mode="latent")
        cells = {title: _way(latent, name) for name, title in ways.items()}
        rows.append({"model": model, "dynamics": dynamics} | cells)
    first = {model: run for (model, _), run in reversed(runs.items())}
    waves = "F" in some.coords
    return filled(
        Path(__file__).with_name("page.md"),
        title=TITLES[system],
        contexts=some.sizes["context"],
        duration=duration,
        units=UNITS[system],
        provenance=f"{', '.join(devices)}; {names}.",
        valid=_by_dynamics(runs, _valid),
        where="Away from the change of wave number, share" if waves else "Share",
        bounds=" / ".join(f"{bound:g}" for bound in bounds),
        shares=_by_dynamics(runs, lambda run: _shares(run, bounds)),
        pictures="\n".join(f"![{name}]({name}-{system}.png)\n" for name in figures),
        restart=max(_config(run, "restart") for run in runs.values()),
        reencoded=_by_dynamics(runs, _valid, mode="re-encoded"),
        ways=table(rows),
        phase=f"{_phase_by_forcing(runs)}\n" if waves else "",
        training=table([_training(model, first[model]) for model in _models(runs)]).rstrip("\n"),
    )


def _models(runs: Runs) -> list[str]:
    return list(dict.fromkeys(model for model, _ in runs))


def _dynamics(runs: Runs, mode: str = "latent") -> list[str]:
    return list(dict.fromkeys(name for (_, name), run in runs.items() if mode in run.mode))


def _by_dynamics(runs: Runs, cell: Callable[[xr.Dataset], str], mode: str = "latent") -> str:
    """Return table of models by latent dynamics."""
    rows = []
    for model in _models(runs):
        own = {name: runs.get((model, name)) for name in _dynamics(runs, mode)}
        cells = {
            name: NOTHING if run is None else cell(run.sel(mode=mode)) for name, run in own.items()
        }
        rows.append({"model": model} | cells)
    return table(rows)


def _valid(run: xr.Dataset) -> str:
    lost, median = int(run.diverged.sum()), float(run.valid_time.median())
    return f"{float(f'{median:.3g}'):g}" + (f" ({lost} of {run.diverged.size})" if lost else "")


def _shares(run: xr.Dataset, bounds: tuple[float, ...]) -> str:
    times = run.valid_time
    if "F" in run.coords:
        times = times.isel(context=np.abs(run.F.values - SWITCH) >= MARGIN)
    return " / ".join(f"{float((times >= bound).mean()):.0%}" for bound in bounds)


def _way(run: xr.Dataset, name: str) -> str:
    """Median of a score over the rollouts for which it is known; a rollout that diverged at once
    has NaN.
    """
    values = run[name].values if name in run else np.array([])
    known = values[~np.isnan(values)]
    if not known.size:
        return NOTHING
    if name != "lyapunov_sum":
        return f"{np.median(np.abs(known)):.2g}"
    unstable = int((known > 0).sum())
    return f"{np.median(known):.2g}" + (
        f" ({unstable} of {known.size} positive)" if unstable else ""
    )


def _phase_by_forcing(runs: Runs) -> str:
    rows = []
    for (model, dynamics), run in runs.items():
        if dynamics == "galerkin" and run.sizes["seed"] > 1:
            drift = 1e3 * run.phase_drift.sel(mode="latent")
            ends = zip(
                run.F.values, drift.mean("seed").values, drift.std("seed").values, strict=True
            )
            rows.append(
                {"model": model}
                | {f"F = {F:.4f}": f"{mean:.1f} ± {std:.1f}" for F, mean, std in ends}
            )
    return filled(Path(__file__).with_name("phase.template"), phase=table(rows))


def _training(model: str, run: xr.Dataset) -> dict[str, str]:
    errors = {name: run[f"{name}_rmse"] for name in ("position", "velocity")}
    return {
        "model": model,
        **{
            f"{name} RMSE": f"{float(error.mean()):.3f} ± {float(error.std()):.3f}"
            for name, error in errors.items()
        },
        "seeds that diverged": f"{int(run.training_diverged.sum())} of {run.sizes['seed']}",
        "CPU minutes": f"{run.attrs['training_cpu_seconds'] / 60:.1f}",
    }


def drift_curves(runs: Runs, unit: str) -> Figure:
    """NRMSE over time for each latent dynamics: median over seeds and contexts, 10 to 90 % over
    contexts for NcAE.
    """

    def draw(ax: Axes, run: xr.Dataset) -> None:
        low, middle, high = (run.nrmse.sel(quantile=q).median("seed") for q in (0.1, 0.5, 0.9))
        low, middle, high = (
            x.where(np.isfinite(x), 1e3) for x in (low, middle, high)
        )  # off the picture at its top
        (line,) = ax.loglog(run.curve_time, middle, **_look(run))
        if run.attrs["method"] == "ncae":
            ax.fill_between(run.curve_time, low, high, color=line.get_color(), alpha=0.12, lw=0)

    def finish(ax: Axes) -> None:
        ax.axhline(0.5, color="0.6", lw=0.6)
        ax.set(xlabel=f"time ({unit})", ylim=(3e-3, 3))

    return _panels(runs, "NRMSE", draw, finish)


def share_valid(runs: Runs, unit: str) -> Figure:
    """Return share of rollouts that are still valid, in per cent, over time, for each latent
    dynamics.
    """

    def draw(ax: Axes, run: xr.Dataset) -> None:
        lasting = 100 * (run.valid_time >= run.curve_time).mean(("seed", "context"))
        ax.plot(run.curve_time, lasting, **_look(run))

    finish = lambda ax: ax.set(xlabel=f"time ({unit})", xscale="log", ylim=(0, 102))  # noqa: E731
    return _panels(runs, "still valid (%)", draw, finish)


def valid_by_forcing(runs: Runs, unit: str) -> Figure:
    """Return valid time against F for each latent dynamics: median over seeds, with the quartiles
    for NcAE.
    """
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
    """Return share of rollouts that diverge, in per cent: models by dynamics; grey is not measured."""
    models, names = _models(runs), _dynamics(runs)
    shares = np.full((len(models), len(names)), np.nan)
    for (model, name), run in runs.items():
        shares[models.index(model), names.index(name)] = 100 * float(
            run.diverged.sel(mode="latent").mean()
        )
    figure, ((ax,),) = panels(1, 1, (6, 1 + 0.25 * len(models)))
    ax.set_facecolor("0.85")
    picture = ax.imshow(shares, cmap="magma_r", vmin=0, vmax=100, aspect="auto")
    for row, column in np.argwhere(np.isfinite(shares)):
        share = shares[row, column]
        ax.text(
            column, row, f"{share:.0f}", ha="center", va="center", color="w" if share > 50 else "k"
        )
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_yticks(range(len(models)), models)
    figure.colorbar(picture, label="diverged (%)")
    return figure


FIGURES = (drift_curves, share_valid, valid_by_forcing, share_diverged)
"""Figures of a system; that over forcings only where there are some."""


def _panels(
    runs: Runs,
    label: str,
    draw: Callable[[Axes, xr.Dataset], None],
    finish: Callable[[Axes], object],
) -> Figure:
    """Panel for each latent dynamics with rollouts that stay latent, of the trainings of LINES; one
    legend for all.
    """
    names = _dynamics(runs)
    figure, ((*axes,),) = panels(1, len(names), (13, 3.2))
    axes[0].set_ylabel(label)
    for name, ax in zip(names, axes, strict=True):
        ax.set_title(name)
        for (_, dynamics), run in runs.items():
            if dynamics == name and run.attrs["training"] in LINES:
                draw(ax, run.sel(mode="latent"))
        finish(ax)
    lines = {
        label: line
        for ax in figure.axes
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(lines.values(), lines.keys(), loc="outside right center", frameon=False)
    return figure


def _look(run: xr.Dataset) -> dict[str, object]:
    method, training = run.attrs["method"], run.attrs["training"]
    return {
        "color": COLOURS.get(method, "#B8860B"),
        "linestyle": LINES[training],
        "label": f"{method}/{training}",
    }
