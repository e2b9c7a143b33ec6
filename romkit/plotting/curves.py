"""Figures of curves: portraits, spectra, trainings, and forecasts with their intervals."""

import itertools
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import xarray as xr
from annotated_types import MinLen
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from romkit import metrics
from romkit.core import checks
from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.data import even_step, trajectories
from romkit.data.trajectories import check_components
from romkit.plotting import style
from romkit.projections import Projection

MAX_PAIRS = 6
"""Largest number of planes in one figure."""


@validated
def plot_latent(latent: xr.DataArray | xr.Dataset, *, colour: str = "time") -> Figure:
    """Latent portraits: every plane of two latent coordinates, at most six; of one coordinate,
    against time.

    Args:
        latent: result of `P.encode(data)`, a forecast, or a rollout.
        colour: quantity that the colour shows, "time" or the name of a context parameter.

    Raises:
        InputError: no latent coordinates, or an unknown colour.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_latent
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.2)
        >>> figure = plot_latent(romkit.load("ncae-lorenz96")(data).encode(data), colour="F")
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('z0', 'z1')
    """
    values = latent.get("latent") if isinstance(latent, xr.Dataset) else latent
    if values is None or "latent_component" not in values.dims:
        got, fix = type(latent).__name__, "give P.encode(data), a forecast or a rollout"
        raise InputError("latent", expected="latent coordinates", got=got, fix=fix)
    values = values.rename(latent_component="axis")
    names = [f"z{k}" for k in range(values.sizes["axis"])]
    pairs = list(itertools.combinations(range(len(names)), 2))[:MAX_PAIRS]
    return _curves(values, names, pairs, colour)


@validated
def plot_phase(
    data: xr.Dataset, x: str, y: str, *, variable: str = "state", colour: str = "time"
) -> Figure:
    """A phase plane: one component of the state against another, a curve for each trajectory.

    Args:
        data: in romkit's schema, a forecast, or a rollout.
        x: name of the component on the horizontal axis.
        y: name of the component on the vertical axis.
        variable: "state", or of a rollout "truth", "rom" or "projected".
        colour: quantity that the colour shows, "time" or the name of a context parameter.

    Raises:
        InputError: an unknown component, variable or colour.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_phase
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.2)
        >>> figure = plot_phase(data, "x0", "x9", colour="F")
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('x0', 'x9')
    """
    checks.one_of(
        "variable",
        variable,
        [str(name) for name, own in data.data_vars.items() if "component" in own.dims],
    )
    components = [str(name) for name in data["component"].values]
    for argument, name in (("x", x), ("y", y)):
        checks.one_of(argument, name, components)
    style.check_numbers("data", data, "time", variable)
    values = data[variable].isel(component=[components.index(x), components.index(y)])
    return _curves(values.drop_vars("component").rename(component="axis"), [x, y], [(0, 1)], colour)


def _curves(
    values: xr.DataArray, names: list[str], pairs: list[tuple[int, int]], colour: str
) -> Figure:
    """Planes (a, b) of values (..., time, axis), with a curve for each trajectory; NaN are gaps."""
    known = [
        str(name)
        for name, coord in values.coords.items()
        if coord.dtype.kind in "iuf" and name != "axis"
    ]
    checks.one_of("colour", colour, known)
    time = "time" if "time" in values.dims else values.dims[-2]
    lead = [dim for dim in values.dims if dim not in (time, "axis")]
    shade = (
        values.coords[colour].broadcast_like(values.isel(axis=0, drop=True)).transpose(*lead, time)
    )
    lines, shades = values.transpose(*lead, time, "axis").values, shade.values.astype(float)
    lines, shades = lines.reshape(-1, *lines.shape[-2:]), shades.reshape(-1, shades.shape[-1])
    if not pairs:  # a single coordinate against time
        t = np.broadcast_to(values[time].values, lines.shape[:2])
        lines, names, pairs = (
            np.stack([t, lines[..., 0]], axis=-1),
            [style.label(values[time]), names[0]],
            [(0, 1)],
        )
    with style.style():
        figure, axes = style.panels(1, len(pairs))
        scale = style.colours(shades)
        for panel, (a, b) in zip(axes[0], pairs, strict=True):
            for line, tint in zip(lines, shades, strict=True):
                points = line[:, [a, b]]
                pieces = LineCollection(np.stack([points[:-1], points[1:]], axis=1), linewidth=0.9)
                pieces.set_color(scale.to_rgba(tint[:-1]))
                panel.add_collection(pieces)
                panel.plot(*points[0], ".", color=scale.to_rgba(tint[0]), markersize=4)
            panel.autoscale_view()
            style.plain(panel).set(xlabel=names[a], ylabel=names[b])
        figure.colorbar(scale, ax=axes.ravel().tolist(), label=style.label(values.coords[colour]))
    return figure


@validated
def plot_spectrum(run: xr.Dataset) -> Figure:
    """Power spectra of the truth and of the reduced model, the mean over components; one panel for
    each trajectory.

    Args:
        run: a rollout; or a dataset or forecast, whose `state` is shown.

    Titles have the context, and the Hellinger distance of the two, the mean over components
    (`romkit.metrics.hellinger_distance`).

    Raises:
        InputError: uneven times, or missing samples.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_spectrum
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.5)
        >>> figure = plot_spectrum(data)
        >>> figure.axes[0].get_xlabel()
        'frequency'
    """
    run = style.members(run).isel(seed=0, drop=True)
    names = ("truth", "rom") if "truth" in run else ("state",)
    style.check_numbers("run", run, "time", *names)
    step = even_step(run["time"].values)
    if step is None:
        got, fix = "uneven steps" if run.sizes["time"] > 1 else "one time", "resample the data"
        raise InputError("run", expected="evenly spaced times for a spectrum", got=got, fix=fix)
    drawn = [trajectories(run, name) for name in names]
    if not bool(drawn[0].isfinite().all()):
        fix = "select trajectories and times without gaps"
        raise InputError(
            "run", expected="whole trajectories for a spectrum", got="missing samples", fix=fix
        )
    frequency = np.fft.rfftfreq(run.sizes["time"], step)
    along = f"frequency{style.unit(run['time'], ' (1/{})')}"
    with style.style():
        figure, axes = style.panels(1, min(style.MAX_COLUMNS, len(drawn[0])), sharey=True)
        texts = (style.truth(run), "reduced model") if "truth" in run else names
        for k, panel in enumerate(axes[0]):
            for values, colour, text in zip(drawn, (style.DARK, style.ORANGE), texts, strict=False):
                density = metrics.power_density(values[k]).mean(-1).numpy()
                panel.plot(frequency[1:], density[1:], color=colour, label=text)
            titles = [style.context(run, k, varying=True)]
            if len(drawn) == 2:
                titles.append(
                    f"distance {float(metrics.hellinger_distance(*(x[k] for x in drawn)).mean()):.2g}"
                )
            panel.set_title("\n".join(filter(None, titles)))
            panel.set(yscale="log", xscale="log", xlabel=along)
            style.plain(panel)
        axes[0, 0].set_ylabel("power density")
        axes[0, 0].legend(frameon=False)
    return figure


@validated
def plot_training(model: Projection) -> Figure:
    """Losses after each epoch, on the training data and, where some were held out, on those; the
    epoch that was kept.

    Args:
        model: a trained projection; each seed of a stack is a line.

    Raises:
        InputError: a projection whose report has no losses.

    Example:
        >>> import romkit
        >>> from romkit.plotting import plot_training
        >>> figure = plot_training(romkit.load("ncae-lorenz96"))
        >>> figure.axes[0].get_xlabel()
        'epoch'
    """
    reports = model.report.get("seeds", [model.report])
    if not all(report.get("losses") for report in reports):
        fix = "give what romkit.fit returned for a method with parameters to train"
        raise InputError(
            "model", expected="a trained projection", got="one without losses", fix=fix
        )
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=4.2, height=2.6)
        width = 0.7 if len(reports) > 1 else 1.1
        for k, report in enumerate(reports):
            training, held_out, kept = ("training", "held out", "kept") if k == 0 else (None,) * 3
            axes.plot(report["losses"], color=style.BLUE, linewidth=width, label=training)
            if curve := report.get("validation_losses"):
                axes.plot(curve, color=style.ORANGE, linewidth=width, label=held_out)
                best = report["best_epoch"]
                axes.plot(best, curve[best], "o", color=style.ORANGE, markersize=3.5, label=kept)
            if report.get("diverged"):
                axes.axvline(
                    len(report["losses"]) - 1, color=style.NEUTRAL, linestyle=":", linewidth=0.8
                )
        title = f"{model.name}, {model.latent_dim} latent coordinates"
        style.plain(axes).set(yscale="log", xlabel="epoch", ylabel="loss", title=title)
        axes.legend(frameon=False)
    return figure


@validated
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
    described = {(each.attrs.get("kind"), each.attrs.get("parameter")) for each in branches}
    if len(described) != 1 or not all("special_kind" in each.coords for each in branches):
        fix, got = (
            "give results of romkit.continuation, all of one kind and parameter",
            "other datasets",
        )
        raise InputError("branches", expected="branches", got=got, fix=fix)
    ((kind, parameter),) = described
    full = component is None and any("decoded" in each for each in branches)
    names = [str(name) for name in branches[0]["component"].values]
    chosen = names[0] if component is None else checks.one_of("component", component, names)

    def height(branch: xr.Dataset, prefix: str = "") -> np.ndarray:
        if kind == "orbits":
            return branch[f"{prefix}period"].values
        if full:
            states = branch[f"{prefix}decoded" if "decoded" in branch else f"{prefix}state"].values
            return np.sqrt((states**2).mean(-1))
        return branch[f"{prefix}state"].sel(component=chosen).values

    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=4.2, height=2.6)
        colours = itertools.cycle([style.BLUE, style.NEUTRAL])
        for branch, label in zip(
            branches, itertools.chain(labels, itertools.repeat("")), strict=False
        ):
            at, values = branch[parameter].values, height(branch)
            if "distance" in branch:
                axes.plot(at, values, ".", color=style.DARK, label=label or "full model")
                continue
            stable, colour = branch["stable"].values, next(colours)
            for rows, line, word in ((stable, "-", "stable"), (~stable, "--", "unstable")):
                if rows.any():
                    # a part ends at the first point of the next one, so that no gap is seen
                    ends = rows | np.roll(rows, 1) & (np.arange(len(rows)) > 0)
                    named = " ".join(
                        filter(None, (label, word if not label or line == "--" else ""))
                    )
                    axes.plot(at, np.where(ends, values, np.nan), line, color=colour, label=named)
            for special, marker in zip(np.unique(branch["special_kind"]), "osD^v", strict=False):
                here, drawn = (
                    branch["special_kind"].values == special,
                    axes.get_legend_handles_labels()[1],
                )
                named = None if special in drawn else special
                there = branch["special_parameter"][here], height(branch, "special_")[here]
                axes.plot(*there, marker, color=style.ORANGE, label=named)
        called = (
            "period" if kind == "orbits" else "root mean square of the state" if full else chosen
        )
        style.plain(axes).set(xlabel=style.label(branches[0][parameter]), ylabel=called)
        axes.legend(frameon=False)
    return figure


@validated
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
    style.check_numbers(
        "history", history, "estimate", "entered", fix="give romkit.sample(...).history"
    )
    parameters = [coord for coord in history.coords.values() if coord.dims == ("candidate",)]
    estimate, entered = history["estimate"].values, history["entered"].values
    chosen = np.flatnonzero(entered >= 0)
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=4.2, height=2.6)
        x = parameters[0].values
        if len(parameters) == 1:
            scale, order = style.colours(np.arange(len(estimate))), np.argsort(x)
            for number, curve in enumerate(estimate):
                axes.plot(x[order], curve[order], color=scale.to_rgba(number), linewidth=0.9)
            y = [
                estimate[max(entered[k] - 1, 0), k] for k in chosen
            ]  # the estimate by which it was chosen
            axes.set(yscale="log", ylabel="estimated error")
        else:
            scale, y = style.colours(estimate[-1]), parameters[1].values[chosen]
            axes.scatter(
                x, parameters[1].values, c=estimate[-1], cmap=scale.cmap, norm=scale.norm, s=12
            )
            axes.set(ylabel=style.label(parameters[1]))
        axes.plot(x[chosen], y, "o", color=style.ORANGE, markersize=3.5)
        for k, height in zip(chosen, y, strict=True):
            axes.annotate(
                str(entered[k]), (x[k], height), xytext=(2, 2), textcoords="offset points"
            )
        style.plain(axes).set(xlabel=style.label(parameters[0]))
        figure.colorbar(
            scale, ax=axes, label="round" if len(parameters) == 1 else "estimated error"
        )
    return figure


@validated
def plot_forecast(
    band: xr.Dataset,
    truth: xr.Dataset | None = None,
    *,
    components: Annotated[Sequence[str], MinLen(1)] | None = None,
) -> Figure:
    """Mean and interval of an ensemble over time.

    Args:
        band: result of `Ensemble.forecast` or `Ensemble.follow`.
        truth: the data that were followed, drawn as a line; missing samples are gaps.
        components: names of the components to draw; by default the four that vary most.

    Raises:
        InputError: a run without interval, or unknown components.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> from romkit.plotting import plot_forecast
        >>> wave = np.sin(np.linspace(0, 6, 50))[:, None]
        >>> parts = {"lower": wave - 0.1, "state": wave, "upper": wave + 0.1}
        >>> band = {name: (("time", "component"), part) for name, part in parts.items()}
        >>> figure = plot_forecast(xr.Dataset(band, {"time": np.linspace(0, 6, 50), "component": ["x0"]}))
        >>> len(figure.axes)
        1
    """
    fix = "give what Ensemble.forecast or Ensemble.follow returned"
    style.check_numbers("band", band, "time", "lower", "state", "upper", fix=fix)
    runs = style.members(band).isel(seed=0, drop=True).isel(trajectory=slice(style.MAX_COLUMNS))
    names = [str(name) for name in runs["component"].values]
    if truth is not None:
        truth = style.members(truth).isel(seed=0, drop=True)
        check_components("truth", truth, names)
        if truth.sizes["trajectory"] < runs.sizes["trajectory"]:
            expected, got = (
                f"{runs.sizes['trajectory']} trajectories, as in the band",
                truth.sizes["trajectory"],
            )
            raise InputError(
                "truth", expected=expected, got=got, fix="give the data that were followed"
            )
    if components is None:
        spread = runs["state"].std(("trajectory", "time")).values
        components = [names[k] for k in np.sort(np.argsort(spread)[::-1][: style.MAX_CURVES])]
    for name in components:
        checks.one_of("components", name, names)
    with style.style():
        figure, axes = style.panels(
            len(components), runs.sizes["trajectory"], width=3.0, height=1.3, sharex=True
        )
        for row, name in zip(axes, components, strict=True):
            for k, panel in enumerate(row):
                run = runs.isel(trajectory=k, component=names.index(name))
                share = f"{run['lower'].attrs.get('level', 0.9):.0%} interval"
                look = {"color": style.BLUE, "alpha": 0.25, "lw": 0}
                panel.fill_between(run["time"], run["lower"], run["upper"], label=share, **look)
                whole = {"where": np.isinf(run["upper"]), "transform": panel.get_xaxis_transform()}
                panel.fill_between(
                    run["time"], 0, 1, **whole, **look
                )  # where the interval has no end
                panel.plot(run["time"], run["state"], color=style.BLUE, label="mean")
                if truth is not None:
                    own = truth.isel(trajectory=k, component=names.index(name))
                    panel.plot(own["time"], own["state"], color=style.DARK, lw=0.8, label="truth")
                style.plain(panel)
            row[0].set_ylabel(name)
        for panel in axes[-1]:
            panel.set_xlabel(style.label(runs["time"]))
        lines, words = axes[0, 0].get_legend_handles_labels()
        figure.legend(lines, words, loc="outside lower center", ncols=3, frameon=False)
    return figure


@validated
def plot_calibration(reliability: xr.Dataset) -> Figure:
    """Coverage of intervals against their level; on the diagonal an ensemble is calibrated.

    Args:
        reliability: result of `Ensemble.reliability`; thin lines are single trajectories.

    Example:
        >>> import xarray as xr
        >>> from romkit.plotting import plot_calibration
        >>> each = [[0.4, 0.5], [0.9, 0.94]]  # level, trajectory
        >>> coverage = {"coverage": ("level", [0.45, 0.92]), "coverage_of": (("level", "trajectory"), each)}
        >>> figure = plot_calibration(xr.Dataset(coverage, {"level": [0.5, 0.9]}))
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('level of the interval', 'share of the truth within')
    """
    fix = "give what Ensemble.reliability returned"
    style.check_numbers("reliability", reliability, "level", "coverage", "coverage_of", fix=fix)
    with style.style():
        figure, ((axes,),) = style.panels(1, 1, width=3.2, height=3.0)
        axes.plot([0, 1], [0, 1], color=style.NEUTRAL, lw=0.8, ls=":", label="calibrated")
        level = reliability["level"].values
        for own in reliability["coverage_of"].transpose("trajectory", "level").values:
            axes.plot(level, own, color=style.ORANGE, lw=0.4, alpha=0.6)
        axes.plot(
            level,
            reliability["coverage"],
            "o-",
            color=style.ORANGE,
            markersize=3,
            label="all trajectories",
        )
        axes.set(
            xlabel="level of the interval",
            ylabel="share of the truth within",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        style.plain(axes).legend(frameon=False)
    return figure
