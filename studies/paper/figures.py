"""The figures of the study. Each takes the results and gives a figure, or None where its results
are missing.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import matplotlib
import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from romkit.projections.activations import inverse_pair
from studies.paper.tables import METHOD_OF, NAME_OF, SYSTEMS, Results, compared, reference
from studies.report import COLOURS, TITLES, panels

SLOPES = {
    "π/20": math.pi / 20,
    "π/8": math.pi / 8,
    "π/4.5": math.pi / 4.5,
    "π/4.05": math.pi / 4.05,
}
CLIP = (1e-7, 1e8)
"""What the logarithmic axes of idempotency show; larger is marked at the upper end."""


def hovmoeller(results: Results) -> Figure | None:
    """Return the wave at both ends of the range of F, and the wave number between them."""
    data = results.bifurcation
    if data is None:
        return None
    figure, [axes] = panels(1, 3, (8.4, 2.6))
    F, time = data["forcing"].values, data["time"].values
    for panel, states, forcing in zip(axes, data["state"].values, F[[0, -1]], strict=False):
        extent = (-0.5, states.shape[1] - 0.5, time[0], time[-1])
        image = panel.imshow(
            states, origin="lower", aspect="auto", extent=extent, interpolation="nearest"
        )
        panel.set(title=f"F = {forcing:.3f}", xlabel="component k", ylabel="time")
    figure.colorbar(image, ax=axes[:2], label="state")
    axes[2].step(F, data["wave_number"].values, where="mid", color="#222222")
    axes[2].axvline(3.163, color=COLOURS["ncae"], linestyle=":", label="published:\n3.163")
    axes[2].set(
        title="dominant wave number", xlabel="F", yticks=np.unique(data["wave_number"].values)
    )
    axes[2].legend(frameon=False, loc="lower left")
    return figure


def activations(results: Results) -> Figure:
    """Return the pairs of activations, mirrored at the diagonal, up to the slope at which they
    become too steep.
    """
    figure, [axes] = panels(1, len(SLOPES), (8.4, 2.3))
    x = torch.linspace(-2, 2, 201, dtype=torch.float64)
    for panel, (label, slope) in zip(axes, SLOPES.items(), strict=True):
        minus, plus = inverse_pair(torch.tensor([slope], dtype=torch.float64))
        panel.plot(x, plus(x.unsqueeze(-1)), color=COLOURS["ncae"], label="σ₊")
        panel.plot(x, minus(x.unsqueeze(-1)), color=COLOURS["cae"], linestyle="--", label="σ₋")
        panel.plot(x, x, color="0.7", linewidth=0.7, linestyle=":")
        panel.set(title=f"α = {label}", xlabel="x", ylim=(-4, 4))
    axes[0].legend(frameon=False)
    return figure


def idempotency(results: Results) -> Figure:
    """Return mean over seeds of the idempotency error at each step, with the range of the seeds,
    and the published means.
    """
    figure, [axes] = panels(1, 2, (8.4, 3.2))
    for panel, system in zip(axes, SYSTEMS, strict=True):
        for method, data in results.clean(system).items():
            errors, steps = np.clip(data["idempotency_error"].values, *CLIP), data["step"].values
            _band(
                panel,
                method,
                steps,
                errors.mean(0),
                errors.min(0),
                errors.max(0),
                label=NAME_OF[method],
            )
        for entry in reference():
            if entry.table == "idempotency" and entry.system == system:
                step, colour = (
                    int(entry.condition.removeprefix("step ")),
                    COLOURS[_own(entry.method)],
                )
                panel.plot(step, min(entry.mean, CLIP[1]), "o", color=colour, mfc="none")
        panel.set(
            title=TITLES[system],
            xlabel="projection step",
            yscale="log",
            ylim=(CLIP[0], 2 * CLIP[1]),
        )
    axes[0].set_ylabel("idempotency error")
    _legend_of_all(axes, title="lines ours,\ncircles published")
    return figure


def error_against_forcing(results: Results) -> Figure | None:
    """Return position error at each test forcing of Lorenz96, with the training forcings."""
    if not (found := results.clean("lorenz96")):
        return None
    figure, [[panel]] = panels(1, 1, (6.4, 3.0))
    for method, data in found.items():
        errors = data["error_by_context"]
        ends = errors.min("seed"), errors.max("seed")
        _band(
            panel,
            method,
            data["context"],
            errors.median("seed"),
            *ends,
            "o-",
            alpha=0.1,
            label=NAME_OF[method],
        )
    for k, forcing in enumerate(data.attrs["training_contexts"]):
        panel.axvline(
            forcing, ymax=0.04, color="0.4", linewidth=1, label=None if k else "training forcings"
        )
    panel.axvline(3.165, color="0.6", linestyle=":", label="change of wave number")
    panel.set(xlabel="F", ylabel="position RMSE (median and range of seeds)", yscale="log")
    panel.legend(**RIGHT)
    return figure


def training_curves(results: Results) -> Figure:
    """Median training loss over the epochs, each method's own."""
    figure, [axes] = panels(1, 2, (8.4, 2.9))
    for panel, system in zip(axes, SYSTEMS, strict=True):
        for method, data in results.clean(system).items():
            low, middle, high = np.quantile(data["loss"].values, (0.1, 0.5, 0.9), axis=0)
            label = NAME_OF[method] + ("" if data.attrs["velocity_weight"] else " (positions only)")
            _band(panel, method, data["epoch"], middle, low, high, label=label)
        panel.set(title=TITLES[system], xlabel="epoch", yscale="log")
    axes[0].set_ylabel("training loss (median, 10 to 90 % of seeds)")
    _legend_of_all(axes)
    return figure


def latent_orbits(results: Results) -> Figure | None:
    """Return first two latents of the first seed, one curve for each test context, coloured by its
    first parameter.
    """
    shown = ("ncae", "cae", "film-ae", "ae")
    if not any(results.find("clean", *pair) for pair in itertools.product(SYSTEMS, shown)):
        return None
    figure, axes = panels(2, len(shown), (8.4, 4.2))
    for row, system in zip(axes, SYSTEMS, strict=True):
        for panel, method in zip(row, shown, strict=True):
            panel.set(title=f"{TITLES[system]}, {NAME_OF[method]}", xlabel="z₁")
            if (data := results.find("clean", system, method)) is not None:
                _draw_orbits(panel, data)
        row[0].set_ylabel("z₂, colour: " + ("F" if system == "lorenz96" else "l₁"))
    return figure


def scatter(results: Results) -> Figure:
    """Return all published numbers against ours."""
    figure, [[panel]] = panels(1, 1, (5.4, 3.9))
    frame, ends = compared(results), (1e-7, 1e6)
    frame = frame[frame["n_seeds"] > 0]
    panel.plot(ends, ends, color="0.7", linewidth=0.8)
    for method, of in frame.groupby(frame["method"].map(_own), sort=False):
        x, y = (of[column].clip(*ends) for column in ("mean", "ours"))
        panel.plot(x, y, ".", color=COLOURS[method], alpha=0.7, label=NAME_OF[method])
    panel.set(xscale="log", yscale="log", xlabel="published", ylabel="ours", xlim=ends, ylim=ends)
    panel.legend(**RIGHT)
    return figure


FIGURES: dict[str, tuple[Callable[[Results], Figure | None], str]] = {
    "hovmoeller": (hovmoeller, "Lorenz96 on both sides of the change of wave number."),
    "activations": (
        activations,
        "The pairs of activations; near α = π/4 they become too steep to train.",
    ),
    "idempotency": (idempotency, "Idempotency error by step; values beyond 1e8 are drawn there."),
    "error-against-F": (
        error_against_forcing,
        "Where the errors on Lorenz96 come from: forcings near the change.",
    ),
    "training": (training_curves, "Training curves."),
    "latent-orbits": (latent_orbits, "Latent orbits of the first seed, coloured by context."),
    "scatter": (scatter, "Every published number against ours."),
}
"""Every figure by its file's name, with its caption."""


RIGHT = {"frameon": False, "loc": "center left", "bbox_to_anchor": (1, 0.5)}
"""Place of a legend."""


def _band(
    panel: Axes, method: str, x: Sequence, middle: Sequence, low: Sequence, high: Sequence, style: str = "-", *,
    alpha: float = 0.12, label: str,
) -> None:  # fmt: skip
    """Line in the colour of a method, in a band of the same colour."""
    panel.plot(x, middle, style, color=COLOURS[method], label=label)
    panel.fill_between(x, low, high, color=COLOURS[method], alpha=alpha, linewidth=0)


def _legend_of_all(axes: Sequence[Axes], title: str | None = None) -> None:
    """One legend right of the last panel, with what any of them shows."""
    found = {
        label: line
        for panel in axes
        for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    axes[-1].legend(found.values(), found.keys(), title=title, **RIGHT)


def _own(name: str) -> str:
    """romkit's name of a method of the paper, the ablations counted as NcAE."""
    return METHOD_OF[name] if METHOD_OF[name] in COLOURS else "ncae"


def _draw_orbits(panel: Axes, data: xr.Dataset) -> None:
    contexts = data["orbit_context"].values
    low, high = contexts.min(), contexts.max()
    for orbit, context in zip(data["latent_orbits"].values, contexts, strict=True):
        colour = matplotlib.colormaps["viridis"](float((context - low) / (high - low or 1)))
        panel.plot(orbit[:, 0], orbit[:, 1], color=colour, linewidth=0.7)
