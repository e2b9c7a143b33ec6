"""Pictures of drift: error over time, valid time by context, share of rollouts that diverge."""

import json
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from studies.style import COLOURS, panels

DYNAMICS = ("galerkin", "petrov-galerkin", "lspg", "sindy", "neural-ode")
REFINED = "dynamics"
"""The training that is drawn dashed."""


def drift_curves(runs: Sequence[xr.Dataset]) -> Figure:
    """NRMSE over time for each latent dynamics: median over seeds and contexts, 10 to 90 % over contexts for NcAE."""
    figure, ((*axes,),) = panels(1, len(DYNAMICS), (13, 3.2))
    for name, ax in zip(DYNAMICS, axes, strict=True):
        for run in _drawn(runs):
            low, middle, high = (run.nrmse.sel(dynamics=name, quantile=q).median("seed") for q in (0.1, 0.5, 0.9))
            (line,) = ax.loglog(run.curve_time, _shown(middle), **_look(run))
            if _config(run)["method"] == "ncae":
                ax.fill_between(run.curve_time, _shown(low), _shown(high), color=line.get_color(), alpha=0.12, lw=0)
        ax.axhline(0.5, color="0.6", lw=0.6)
        ax.set(title=name, xlabel="time (time units)", ylim=(3e-3, 3))
    axes[0].set_ylabel("NRMSE")
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return figure


def valid_by_forcing(runs: Sequence[xr.Dataset]) -> Figure:
    """Valid time against F for the trainings of NcAE: median over seeds, with the quartiles."""
    figure, ((*axes,),) = panels(1, len(DYNAMICS), (13, 3.2))
    for name, ax in zip(DYNAMICS, axes, strict=True):
        for run in (run for run in runs if _config(run)["method"] == "ncae"):
            low, middle, high = run.valid_time.sel(dynamics=name).quantile([0.25, 0.5, 0.75], "seed")
            (line,) = ax.semilogy(run.F, middle, marker="o", label=_config(run)["training"])
            ax.fill_between(run.F, low, high, color=line.get_color(), alpha=0.12, lw=0)
        ax.set(title=name, xlabel="forcing F", ylim=(0.1, 1500))
    axes[0].set_ylabel("valid prediction time (time units)")
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return figure


def share_diverged(runs: Sequence[xr.Dataset]) -> Figure:
    """Share of rollouts that diverge: models by dynamics, in per cent."""
    names = [str(name) for name in runs[0].dynamics.values]
    shares = np.array([run.diverged.mean(("seed", "context")).sel(dynamics=names) for run in runs])
    figure, ((ax,),) = panels(1, 1, (8, 1 + 0.25 * len(runs)))
    picture = ax.imshow(100 * shares, cmap="magma_r", vmin=0, vmax=100, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        ax.text(column, row, f"{share:.0%}", ha="center", va="center", color="w" if share > 0.5 else "k")
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_yticks(range(len(runs)), [f"{_config(run)['method']}/{_config(run)['training']}" for run in runs])
    figure.colorbar(picture, label="diverged (%)")
    return figure


def _drawn(runs: Sequence[xr.Dataset]) -> list[xr.Dataset]:
    """All methods with the paper's loss, and with the preset `dynamics` where that was done."""
    return [run for run in runs if _config(run)["training"] in ("paper-loss", REFINED)]


def _config(run: xr.Dataset) -> dict[str, object]:
    return json.loads(run.attrs["config"])


def _look(run: xr.Dataset) -> dict[str, object]:
    method, training = _config(run)["method"], _config(run)["training"]
    style = "--" if training == REFINED else "-"
    return {"color": COLOURS.get(method, "#B8860B"), "linestyle": style, "label": f"{method}/{training}"}


def _shown(curve: xr.DataArray) -> xr.DataArray:
    """A diverged rollout leaves the picture at its top."""
    return curve.where(np.isfinite(curve), 1e3)
