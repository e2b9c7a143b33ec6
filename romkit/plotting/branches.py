"""Bifurcation diagrams, and the error over contexts by which they are sampled."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data.spelling import known_name
from romkit.plotting import style

MARKERS = "osD^v"
"""Markers of kinds of special points, in their alphabetical order."""

Height = Callable[..., Array]
"""(branch, prefix of the variables) -> (points,) what stands on the vertical axis."""


@validated
@style.plain_names
def plot_branches(
    *branches: xr.Dataset, component: str | None = None, labels: Sequence[str] = ()
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
    height, name = _height(branches, kind, component)
    colours = itertools.cycle([style.BLUE, style.NEUTRAL])
    no_labels = itertools.repeat("")
    endless = itertools.chain(labels, no_labels)
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=4.2, height=2.6)
        for branch, label in zip(branches, endless, strict=False):
            # what `verify` found are points of the full model, and no branch
            if "distance" in branch:
                _draw_full_model(axes, branch, parameter, height, label)
                continue
            at = branch[parameter].values
            colour = next(colours)
            _draw_stability(axes, at, height(branch), branch, colour, label)
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
    kinds = set()
    for branch in branches:
        kind = str(branch.attrs.get("kind"))
        parameter = str(branch.attrs.get("parameter"))
        is_branch = "special_kind" in branch.coords and parameter in branch.coords
        kinds.add((kind, parameter, is_branch))
    if len(kinds) == 1:
        kind, parameter, is_branch = kinds.pop()
        if is_branch:
            return kind, parameter
    raise InputError(
        "branches",
        expected="branches",
        got="other datasets",
        fix="give results of romkit.continuation, all of one kind and parameter",
    )


def _height(branches: Sequence[xr.Dataset], kind: str, component: str | None) -> tuple[Height, str]:
    """Return the quantity on the vertical axis, and its name."""
    if kind == "orbits":
        return _period, "period"
    has_full_state = any("decoded" in branch for branch in branches)
    if has_full_state and component is None:
        return _size, "root mean square of the state"
    names = [str(name) for name in branches[0]["component"].values]
    chosen = names[0]
    if component is not None:
        chosen = known_name("component", component, names)

    def value(branch: xr.Dataset, prefix: str = "") -> Array:
        states = branch[f"{prefix}state"]
        return states.sel(component=chosen).values

    return value, chosen


def _period(branch: xr.Dataset, prefix: str = "") -> Array:
    return branch[f"{prefix}period"].values


def _size(branch: xr.Dataset, prefix: str = "") -> Array:
    """Root mean square (points,) of the full state."""
    variable = "state"
    if "decoded" in branch:
        variable = "decoded"
    states = branch[f"{prefix}{variable}"].values
    return np.sqrt(np.square(states).mean(-1))


def _draw_full_model(
    axes: Axes, branch: xr.Dataset, parameter: str, height: Height, label: str
) -> None:
    """Draw the points of the full model near those of a branch."""
    if not label:
        label = "full model"
    at = branch[parameter].values
    axes.plot(at, height(branch), ".", color=style.DARK, label=label)


def _draw_stability(
    axes: Axes, at: Array, values: Array, branch: xr.Dataset, colour: str, label: str
) -> None:
    """Draw the stable points of a branch as a solid line, and the others as a dashed one."""
    stable = branch["stable"].values
    solid, dashed = label, f"{label} unstable"
    if not label:
        solid, dashed = "stable", "unstable"
    if stable.any():
        piece = _piece(values, stable)
        axes.plot(at, piece, "-", color=colour, label=solid)
    if not stable.all():
        piece = _piece(values, ~stable)
        axes.plot(at, piece, "--", color=colour, label=dashed)


def _piece(values: Array, rows: Array) -> Array:
    """Return values of some rows of a branch, NaN elsewhere.

    A piece ends at the first point of the next one, so that no gap is seen.
    """
    after = np.roll(rows, 1)
    after[0] = False
    return np.where(rows | after, values, np.nan)


def _draw_special_points(axes: Axes, branch: xr.Dataset, height: Height) -> None:
    kinds = branch["special_kind"].values
    at = branch["special_parameter"].values
    heights = height(branch, "special_")
    in_order = np.unique(kinds)
    for kind, marker in zip(in_order, MARKERS, strict=False):
        rows = kinds == kind
        # one entry of the legend for the points of all branches
        _, labels = axes.get_legend_handles_labels()
        label = kind
        if kind in labels:
            label = None
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
    parameters = []
    for coord in history.coords.values():
        if coord.dims == ("candidate",):
            parameters.append(coord)
    draw = _draw_last_round
    if len(parameters) == 1:
        draw = _draw_rounds
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=4.2, height=2.6)
        draw(figure, axes, history, parameters)
        style.plain(axes).set(xlabel=style.label(parameters[0]))
    return figure


def _draw_rounds(
    figure: Figure, axes: Axes, history: xr.Dataset, parameters: list[xr.DataArray]
) -> None:
    """Draw the estimate over one parameter, a curve for each round."""
    x = parameters[0].values
    estimate = history["estimate"].values  # (rounds, candidates)
    entered = history["entered"].values
    numbers = np.arange(len(estimate))
    scale = style.colours(numbers)
    colours = scale.to_rgba(numbers)
    order = np.argsort(x)
    in_order = x[order]
    for curve, colour in zip(estimate, colours, strict=True):
        axes.plot(in_order, curve[order], color=colour, linewidth=0.9)
    chosen = np.flatnonzero(entered >= 0)
    # a context was chosen by the estimate of the round before it; those of the first round by none
    rounds = np.maximum(entered[chosen] - 1, 0)
    heights = estimate[rounds, chosen]
    axes.set_yscale("log")
    axes.set_ylabel("estimated error")
    _mark_chosen(axes, x[chosen], heights, entered[chosen])
    figure.colorbar(scale, ax=axes, label="round")


def _draw_last_round(
    figure: Figure, axes: Axes, history: xr.Dataset, parameters: list[xr.DataArray]
) -> None:
    """Draw the last estimate over two parameters."""
    x = parameters[0].values
    y = parameters[1].values
    estimate = history["estimate"].values[-1]
    entered = history["entered"].values
    scale = style.colours(estimate)
    colours = scale.to_rgba(estimate)
    axes.scatter(x, y, c=colours, s=12)
    axes.set_ylabel(style.label(parameters[1]))
    chosen = np.flatnonzero(entered >= 0)
    _mark_chosen(axes, x[chosen], y[chosen], entered[chosen])
    figure.colorbar(scale, ax=axes, label="estimated error")


def _mark_chosen(axes: Axes, x: Array, y: Array, rounds: Array) -> None:
    """Draw a dot for each context that was chosen, with the number of its round."""
    axes.plot(x, y, "o", color=style.ORANGE, markersize=3.5)
    for number, right, up in zip(rounds, x, y, strict=True):
        axes.annotate(str(number), (right, up), xytext=(2, 2), textcoords="offset points")
