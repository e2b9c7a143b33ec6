"""Bifurcation diagrams, and the error over contexts by which they are sampled."""

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.core.types import Array, NameSequence
from romkit.data.spelling import known_name
from romkit.plotting import style

MARKERS = "osD^v"
"""Markers of kinds of special points, in their alphabetical order."""


@validated
@style.plain_names
def plot_branches(
    *branches: xr.Dataset, component: str | None = None, labels: NameSequence = ()
) -> Figure:
    """Bifurcation diagram: equilibria, or the periods of orbits, over the parameter of branches.

    Stable parts are solid, unstable ones dashed; special points have markers, and what the full
    model has is dots.

    Args:
        branches: results of `romkit.continuation`, and of `romkit.verify`, all of one kind and
            parameter.
        component: name of the component of an equilibrium. By default the root mean square of the
            full state where a branch has one, and otherwise the first component.
        labels: of the branches, in the legend.

    Raises:
        InputError: no branches or other datasets; an unknown component.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_branches
        >>> branch = romkit.continuation(romkit.systems.Lorenz96(n=4), start=[0.5] * 4, F=(0.5, 2.0))
        >>> plot_branches(branch).axes[0].get_ylabel()
        'x0'
    """
    kind, parameter = _checked_kind(branches)
    component, name = _vertical(branches, kind, component)
    height = functools.partial(_height, kind, component)
    colours = itertools.cycle([style.BLUE, style.NEUTRAL])
    endless = itertools.chain(labels, itertools.repeat(""))
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=4.2, height=2.6)
        for branch, label in zip(branches, endless, strict=False):
            at = branch[parameter].values
            values = height(branch)
            # what `verify` found are points of the full model, and no branch
            if "distance" in branch:
                axes.plot(at, values, ".", color=style.DARK, label=label or "full model")
                continue
            stable = branch["stable"].values
            solid, dashed = (label, f"{label} unstable") if label else ("stable", "unstable")
            colour = next(colours)
            for rows, look, words in ((stable, "-", solid), (~stable, "--", dashed)):
                if rows.any():
                    axes.plot(at, _piece(values, rows), look, color=colour, label=words)
            _draw_special_points(axes, branch, height)
        style.plain(axes)
        axes.set_xlabel(style.label(branches[0][parameter]))
        axes.set_ylabel(name)
        handles, labels = axes.get_legend_handles_labels()
        # points of the full model beside several branches have one entry
        entries = dict(zip(labels, handles, strict=True))
        axes.legend(entries.values(), entries.keys(), frameon=False)
    return figure


def _checked_kind(branches: Sequence[xr.Dataset]) -> tuple[str, str]:
    """Kind and parameter that all branches share."""
    kinds = {(str(b.attrs.get("kind")), str(b.attrs.get("parameter"))) for b in branches}
    if len(kinds) == 1:
        kind, parameter = kinds.pop()
        if all({"special_kind", parameter} <= {*branch.coords} for branch in branches):
            return kind, parameter
    raise InputError(
        "branches",
        expected="branches",
        got="other datasets",
        fix="give results of romkit.continuation, all of one kind and parameter",
    )


def _vertical(
    branches: Sequence[xr.Dataset], kind: str, component: str | None
) -> tuple[str | None, str]:
    """Return the component on the vertical axis, None for the full state, and the axis' name."""
    if kind == "orbits":
        return None, "period"
    names = [str(name) for name in branches[0]["component"].values]
    if component is None and not any("decoded" in branch for branch in branches):
        component = names[0]
    if component is None:
        return None, "root mean square of the state"
    chosen = known_name("component", component, names)
    return chosen, chosen


def _height(kind: str, component: str | None, branch: xr.Dataset, prefix: str = "") -> Array:
    """Return what stands on the vertical axis (points,): the period, a component, or the root mean
    square of the full state, of a branch or of its special points.
    """
    if kind == "orbits":
        return branch[f"{prefix}period"].values
    if component is not None:
        return branch[f"{prefix}state"].sel(component=component).values
    variable = "decoded" if "decoded" in branch else "state"
    return np.sqrt(np.square(branch[f"{prefix}{variable}"].values).mean(-1))


def _piece(values: Array, rows: Array) -> Array:
    """Return values of some rows of a branch, NaN elsewhere.

    A piece ends at the first point of the next one, so that no gap is seen.
    """
    after = np.roll(rows, 1)
    after[0] = False
    return np.where(rows | after, values, np.nan)


def _draw_special_points(axes: Axes, branch: xr.Dataset, height: Callable[..., Array]) -> None:
    kinds = branch["special_kind"].values
    at = branch["special_parameter"].values
    heights = height(branch, "special_")
    for kind, marker in zip(np.unique(kinds), MARKERS, strict=False):
        rows = kinds == kind
        # one entry of the legend for the points of all branches
        _, labels = axes.get_legend_handles_labels()
        label = None if kind in labels else kind
        axes.plot(at[rows], heights[rows], marker, color=style.ORANGE, label=label)


@validated
@style.plain_names
def plot_sample(history: xr.Dataset) -> Figure:
    """Estimated error over the contexts: of one parameter a curve for each round; of more, the last
    round in a plane.

    Contexts that were chosen have dots, with their rounds as numbers.

    Args:
        history: of the result of `romkit.sample`.

    Raises:
        InputError: another dataset.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_sample
        >>> system = romkit.systems.Lorenz96(transient=0.0, duration=0.5)
        >>> figure = plot_sample(romkit.sample(system, budget=3, candidates=7, latent_dim=4).history)
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('F', 'estimated error')
    """
    fix = "give romkit.sample(...).history"
    style.check_numbers("history", history, "estimate", "entered", fix=fix)
    parameters = [coord for coord in history.coords.values() if coord.dims == ("candidate",)]
    x = parameters[0].values
    estimate = history["estimate"].values  # (rounds, candidates)
    entered = history["entered"].values
    chosen = np.flatnonzero(entered >= 0)
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=4.2, height=2.6)
        if len(parameters) == 1:
            numbers = np.arange(len(estimate))
            scale, words = style.colours(numbers), "round"
            order = np.argsort(x)
            for curve, colour in zip(estimate, scale.to_rgba(numbers), strict=True):
                axes.plot(x[order], curve[order], color=colour, linewidth=0.9)
            # a context was chosen by the estimate of the round before it, the first by none
            heights = estimate[np.maximum(entered[chosen] - 1, 0), chosen]
            axes.set(yscale="log", ylabel="estimated error")
        else:
            scale, words = style.colours(estimate[-1]), "estimated error"
            axes.scatter(x, parameters[1].values, c=scale.to_rgba(estimate[-1]), s=12)
            heights = parameters[1].values[chosen]
            axes.set_ylabel(style.label(parameters[1]))
        axes.plot(x[chosen], heights, "o", color=style.ORANGE, markersize=3.5)
        for number, right, up in zip(entered[chosen], x[chosen], heights, strict=True):
            axes.annotate(str(number), (right, up), xytext=(2, 2), textcoords="offset points")
        figure.colorbar(scale, ax=axes, label=words)
        style.plain(axes).set(xlabel=style.label(parameters[0]))
    return figure
