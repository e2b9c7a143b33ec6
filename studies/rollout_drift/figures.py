"""Pictures of drift: error over time, how many rollouts are valid, valid time by context, how many diverge."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.rollout_drift.results import Results
from studies.style import COLOURS, panels

UNITS = {"lorenz96": "time units", "pendulum": "s"}
LINES = {"paper-loss": "-", "dynamics": "--", "timing-galerkin": ":"}
"""Trainings of the curves, and how they are drawn."""


def drift_curves(found: Results) -> Figure:
    """NRMSE over time for each latent dynamics: median over seeds and contexts, 10 to 90 % over contexts for NcAE."""
    figure, drawn = _by_dynamics(found, "NRMSE")
    for ax, runs in drawn:
        for run in runs:
            low, middle, high = (run.nrmse.sel(quantile=q).median("seed") for q in (0.1, 0.5, 0.9))
            (line,) = ax.loglog(run.curve_time, _shown(middle), **_look(run))
            if run.attrs["method"] == "ncae":
                band = run.curve_time, _shown(low), _shown(high)
                ax.fill_between(*band, color=line.get_color(), alpha=0.12, lw=0)
        ax.axhline(0.5, color="0.6", lw=0.6)
        ax.set(xlabel=f"time ({UNITS[found.system]})", ylim=(3e-3, 3))
    return _with_legend(figure)


def share_valid(found: Results) -> Figure:
    """Share of rollouts that are still valid, in per cent, over time, for each latent dynamics."""
    figure, drawn = _by_dynamics(found, "still valid (%)")
    for ax, runs in drawn:
        for run in runs:
            lasting = 100 * (run.valid_time >= run.curve_time).mean(("seed", "context"))
            ax.plot(run.curve_time, lasting, **_look(run))
        ax.set(xlabel=f"time ({UNITS[found.system]})", xscale="log", ylim=(0, 102))
    return _with_legend(figure)


def valid_by_forcing(found: Results) -> Figure:
    """Valid time against F for each latent dynamics: median over seeds, with the quartiles for NcAE."""
    figure, drawn = _by_dynamics(found, "valid prediction time (time units)")
    for ax, runs in drawn:
        for run in runs:
            low, middle, high = run.valid_time.quantile([0.25, 0.5, 0.75], "seed")
            (line,) = ax.plot(run.F, middle, marker=".", **_look(run))
            if run.attrs["method"] == "ncae":
                ax.fill_between(run.F, low, high, color=line.get_color(), alpha=0.12, lw=0)
        ax.set_xlabel("forcing F")
        ax.set_yscale("symlog", linthresh=1)
        ax.set_ylim(-0.1, 1.5 * found.duration)
    return _with_legend(figure)


def share_diverged(found: Results) -> Figure:
    """Share of rollouts that diverge, in per cent: models by dynamics; grey is not measured."""
    models, names = found.models, found.dynamics
    shares = np.full((len(models), len(names)), np.nan)
    for (model, name), run in found.runs.items():
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


def _by_dynamics(found: Results, label: str) -> tuple[Figure, list[tuple[Axes, list[xr.Dataset]]]]:
    """A panel for each latent dynamics, with the rollouts to draw there: those that stay latent, of some trainings."""
    figure, ((*axes,),) = panels(1, len(found.dynamics), (13, 3.2))
    axes[0].set_ylabel(label)
    drawn = []
    for name, ax in zip(found.dynamics, axes, strict=True):
        ax.set_title(name)
        runs = [run for (_, dynamics), run in found.runs.items() if dynamics == name]
        drawn.append((ax, [run.sel(mode="latent") for run in runs if run.attrs["training"] in LINES]))
    return figure, drawn


def _look(run: xr.Dataset) -> dict[str, object]:
    method, training = run.attrs["method"], run.attrs["training"]
    return {"color": COLOURS.get(method, "#B8860B"), "linestyle": LINES[training], "label": f"{method}/{training}"}


def _with_legend(figure: Figure) -> Figure:
    """One legend for all panels, with each line that any of them has."""
    lines = {label: line for ax in figure.axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines.keys(), loc="outside right center", frameon=False)
    return figure


def _shown(curve: xr.DataArray) -> xr.DataArray:
    """A diverged rollout leaves the picture at its top."""
    return curve.where(np.isfinite(curve), 1e3)
