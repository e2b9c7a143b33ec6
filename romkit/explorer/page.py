"""The page: sliders on the left, figures that follow them, and a second tab for data of one's own."""

import time
from collections.abc import Callable

import numpy as np
import panel as pn
from bokeh.models import ColumnDataSource, LinearColorMapper, Slider
from bokeh.plotting import figure

from romkit.certificates import certify
from romkit.core.errors import RomkitError
from romkit.explorer.exploration import Exploration, Orbit, View, stride
from romkit.explorer.own_data import OwnData
from romkit.projections import Projection
from romkit.systems import System

ADDRESS = "127.0.0.1"
"""This machine alone: nothing that is shown or uploaded leaves it."""

TRUTH, REDUCED, FLOOR = "#777777", "#D55E00", "#0072B2"
CURVES = {"error": "reduced model", "projected": "projection alone", "lag": "reduced model"}
PROMPT = 0.1
"""Seconds that a slider may wait: while it moves, models whose view takes longer show the reduced model alone."""

PATIENCE = 5.0
"""Seconds of a view from which on the full model waits for a button, and does not follow a slider that is let go."""

NEAR = 0.02
"""Radius of the ball of a certificate, in deviations of the whole state."""

LIMIT = 3.0
"""Deviations at which the colours of the fields end."""


class Page:
    """The figures of a model and the sliders that move them.

    Args:
        exploration: answers to them.
    """

    def __init__(self, exploration: Exploration):
        self.exploration = exploration
        self.sliders = {
            p.name: Slider(
                title=f"{p.name}{'' if p.units == '1' else f' in {p.units}'}",
                start=p.low,
                end=p.high,
                step=(p.high - p.low) / 200,
                value=(p.low + p.high) / 2,
                format="0.0000",
                width=260,
            )  # Bokeh's own, because Panel's wait for a while before they say that they were moved
            for p in exploration.system.context
        }
        self.reduced, self.compared, self.manifold = (ColumnDataSource() for _ in range(3))
        self.fields = {name: ColumnDataSource() for name in ("truth", "reduced")}
        self.branch, self.here = ColumnDataSource(), ColumnDataSource()
        self.facts = pn.pane.Markdown("", width=260)
        self.compare = pn.widgets.Button(label="Run the full model here", width=260, visible=False)
        self.compare.on_click(lambda event: self._run_here())
        self.button = pn.widgets.Button(label="Certify at this context", width=260)
        self.button.on_click(lambda event: self.certify())
        near = NEAR * exploration.double.normalization.state_std.norm().item()
        self.radius = pn.widgets.FloatInput(label="for states within", value=round(near, 4), start=1e-6, width=260)
        self.certificate = pn.pane.Markdown("", width=260)
        exploration.run(self.context)  # known from here on
        began = time.perf_counter()
        self.view = exploration.view(self.context)
        self._follow_sliders(exploration.seconds + time.perf_counter() - began)
        self._show(self.view)
        self._show_branch()

    @property
    def context(self) -> dict[str, float]:
        return {name: float(slider.value) for name, slider in self.sliders.items()}

    def preview(self) -> None:
        """Shows the reduced model at the context of the sliders, from where the full model started last."""
        orbit = self.exploration.orbit(self.context, self.view)
        with pn.io.hold():  # one message to the browser, which draws once
            self._show_orbit(orbit)
            self._clear()

    def update(self) -> None:
        """Shows both models at the context of the sliders."""
        try:
            self.view = self.exploration.view(self.context)
        except RomkitError as error:
            self.facts.object = f"**{error}**"
            return
        with pn.io.hold():
            self._show(self.view)
            self.certificate.object = ""

    def certify(self) -> None:
        """Shows bounds of the Lipschitz constants at the context of the sliders."""
        at, radius = self.exploration.at(self.context)[0], self.radius.value
        with self.button.param.update(loading=True):
            try:
                found = certify(self.exploration.double, at, radius=radius)
            except RomkitError as error:
                self.certificate.object = f"**{error}**"
                return
        columns = (found[name].values for name in ("map", "lower", "upper"))
        rows = [f"| {which} | {lower:.3g} | {upper:.3g} |" for which, lower, upper in zip(*columns, strict=True)]
        self.certificate.object = (
            f"Lipschitz constants within {radius:.3g} of the mean state:\n\n"
            "| map | found | at most |\n| --- | --- | --- |\n" + "\n".join(rows)
        )

    def layout(self) -> pn.viewable.Viewable:
        title = f"## {self.exploration.system.name}"
        certified = (self.radius, self.button, self.certificate)
        left = pn.Column(title, *self.sliders.values(), self.compare, self.facts, *certified, width=290)
        plots = pn.FlexBox(
            self._portrait(), self._latent(), self._field("truth"), self._field("reduced"),
            self._curves("NRMSE", ("error", "projected"), log=True), self._curves("lag, time units", ("lag",)),
            self._diagram(),
            styles={"flex": "1 1 400px"},
        )  # fmt: skip
        return pn.FlexBox(left, plots)  # one below the other on narrow screens

    def _run_here(self) -> None:
        with self.compare.param.update(loading=True):
            self.update()

    def _follow_sliders(self, seconds: float) -> None:
        """Every move is shown at once; by which part of the page depends on the seconds of a view."""
        self.compare.visible = seconds > PATIENCE
        for slider in self.sliders.values():
            if seconds < PROMPT:
                slider.on_change("value", lambda attr, old, new: self.update())
                continue
            slider.on_change("value", lambda attr, old, new: self.preview())
            if seconds < PATIENCE:
                slider.on_change("value_throttled", lambda attr, old, new: self.update())

    def _show(self, view: View) -> None:
        self._show_orbit(view.orbit)
        self._show_field("truth", view.orbit.time, view.truth[:, :: stride(len(view.directions))])
        self.compared.data = {
            "time": view.orbit.time, "x": view.portrait[:, 0], "y": view.portrait[:, 1],
            "error": view.error, "projected": view.projected, "lag": view.lag,
        }  # fmt: skip
        self.facts.object = (
            f"valid for **{view.valid_time:.3g}** of {view.orbit.time[-1]:.3g}  \n"
            f"error at the end **{view.error[-1]:.2g}**, of the projection alone {view.projected[-1]:.2g}  \n"
            f"‖P(P(x)) - P(x)‖ at most {view.idempotency:.1e}"
        )

    def _show_orbit(self, orbit: Orbit) -> None:
        z = np.pad(orbit.latent, ((0, 0), (0, 1)))  # there may be one coordinate alone
        self.reduced.data = {"x": orbit.portrait[:, 0], "y": orbit.portrait[:, 1], "z0": z[:, 0], "z1": z[:, 1]}
        self.manifold.data = {"xs": list(orbit.manifold[..., 0]), "ys": list(orbit.manifold[..., 1])}
        self._show_field("reduced", orbit.time, orbit.states)
        self.here.data = {"value": [next(iter(self.context.values()))]}

    def _show_field(self, name: str, times: np.ndarray, states: np.ndarray) -> None:
        self.fields[name].data = {
            "image": [states.T.astype(np.float32)], "x": [times[0]], "y": [0],
            "width": [times[-1] - times[0]], "height": [len(self.view.directions)],
        }  # fmt: skip

    def _clear(self) -> None:
        """What belongs to the full model at another context goes."""
        for source in (self.compared, self.fields["truth"]):
            source.data = {name: [] for name in source.data}
        self.facts.object = "the reduced model alone: the full one has not run at this context"
        self.certificate.object = ""

    def _show_branch(self) -> None:
        name = next(iter(self.sliders))
        values, extremes = self.exploration.branch(name, self.view)
        self.branch.data = {"value": values, "extreme": extremes}

    def _portrait(self) -> figure:
        plot = _figure("orbit and manifold in two leading directions", "direction 1", "direction 2")
        plot.multi_line("xs", "ys", source=self.manifold, color=FLOOR, line_alpha=0.3, legend_label="manifold")
        plot.line("x", "y", source=self.compared, color=TRUTH, legend_label="full model")
        plot.line("x", "y", source=self.reduced, color=REDUCED, legend_label="reduced model")
        return _legend_above(plot)

    def _latent(self) -> figure:
        plot = _figure("latent orbit", "latent coordinate 0", "latent coordinate 1")
        plot.line("z0", "z1", source=self.reduced, color=REDUCED)
        return plot

    def _curves(self, label: str, names: tuple[str, ...], *, log: bool = False) -> figure:
        plot = _figure(label, "time", label, y_axis_type="log" if log else "linear")
        for name, colour in zip(names, (REDUCED, FLOOR), strict=False):
            plot.line("time", name, source=self.compared, color=colour, legend_label=CURVES[name])
        return _legend_above(plot)

    def _field(self, name: str) -> figure:
        plot = _figure({"truth": "full model", "reduced": "reduced model"}[name], "time", "component")
        mapper = LinearColorMapper("Viridis256", low=-LIMIT, high=LIMIT)
        plot.image("image", "x", "y", "width", "height", source=self.fields[name], color_mapper=mapper)
        return plot

    def _diagram(self) -> figure:
        name = next(iter(self.sliders))
        plot = _figure("maxima of the orbit", name, "maximum of one component")
        plot.scatter("value", "extreme", source=self.branch, size=3, color=REDUCED)
        plot.vspan("value", source=self.here, color=FLOOR)
        return plot


def _figure(title: str, x: str, y: str, **options: object) -> figure:
    return figure(title=title, x_axis_label=x, y_axis_label=y, width=400, height=270, toolbar_location=None, **options)


def _legend_above(plot: figure) -> figure:
    (legend,) = plot.legend  # where it hides no curve
    legend.orientation, legend.border_line_alpha = "horizontal", 0.0
    plot.add_layout(legend, "above")
    return plot


def application(projection: Projection, system: System | None = None) -> Callable[[], pn.viewable.Viewable]:
    """What makes the page, anew for every visitor."""
    exploration = Exploration(projection, system)  # checked here, before anything is served

    def page() -> pn.viewable.Viewable:
        return pn.Tabs(("Model", Page(exploration).layout()), ("Your own data", OwnData().layout()), dynamic=True)

    return page


def explore(
    projection: Projection, system: System | None = None, *, port: int = 0, show: bool = True, threaded: bool = False
) -> object:
    """Serve the explorer on this machine alone, until it is interrupted.

    Args:
        projection: a single one; its system is compared with.
        system: the full model, where romkit does not know it by name.
        port: to listen at; 0 for any that is free.
        show: open a browser.
        threaded: return at once with the server in a thread, whose `stop()` ends it.

    Raises:
        InputError: a projection that cannot be explored.

    Example:
        >>> import romkit
        >>> from romkit.explorer import explore
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> explore(romkit.projections.stack([ncae, ncae]))
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: projection: expected a single one, got a stack; take one of it,
        romkit.projections.unstack(projection)[0]
    """
    pages = {"/": application(projection, system)}
    origin = [f"{name}:{port}" for name in (ADDRESS, "localhost")] if port else None
    return pn.serve(
        pages, address=ADDRESS, port=port, show=show, threaded=threaded, title="romkit", websocket_origin=origin
    )
