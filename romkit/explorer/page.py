"""The page: sliders on the left, figures that follow them, and a second tab for data of one's own."""

import time
from collections.abc import Callable

import panel as pn
from bokeh.models import ColumnDataSource, LinearColorMapper
from bokeh.plotting import figure

from romkit.certificates import certify
from romkit.errors import RomkitError
from romkit.explorer.exploration import Exploration, View
from romkit.explorer.own_data import OwnData
from romkit.projections import Projection
from romkit.systems import System

ADDRESS = "127.0.0.1"
"""This machine alone: nothing that is shown or uploaded leaves it."""

TRUTH, REDUCED, FLOOR = "#777777", "#D55E00", "#0072B2"
CURVES = {"error": "reduced model", "projected": "projection alone", "lag": "reduced model"}
PROMPT = 0.2
"""Seconds of a view from which on the page follows a slider when it is let go, and not while it moves."""

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
            p.name: pn.widgets.FloatSlider(
                label=f"{p.name}{'' if p.units == '1' else f' in {p.units}'}",
                start=p.low,
                end=p.high,
                step=(p.high - p.low) / 200,
                value=(p.low + p.high) / 2,
                format="0.0000",
            )
            for p in exploration.system.context
        }
        self.source = ColumnDataSource()
        self.fields = {name: ColumnDataSource() for name in ("truth", "reduced")}
        self.branch, self.here = ColumnDataSource(), ColumnDataSource()
        self.facts = pn.pane.Markdown("", width=260)
        self.button = pn.widgets.Button(label="Certify at this context", width=260)
        self.button.on_click(lambda event: self.certify())
        near = NEAR * exploration.double.normalization.state_std.norm().item()
        self.radius = pn.widgets.FloatInput(label="for states within", value=round(near, 4), start=1e-6, width=260)
        self.certificate = pn.pane.Markdown("", width=260)
        began = time.perf_counter()
        self._show(exploration.view(self.context), self.context)
        moment = "value" if time.perf_counter() - began < PROMPT else "value_throttled"
        self._show_branch()
        for slider in self.sliders.values():
            slider.param.watch(lambda event: self.update(), moment)

    @property
    def context(self) -> dict[str, float]:
        return {name: float(slider.value) for name, slider in self.sliders.items()}

    def update(self) -> None:
        """Shows the context of the sliders."""
        try:
            view = self.exploration.view(self.context)
        except RomkitError as error:
            self.facts.object = f"**{error}**"
            return
        self._show(view, self.context)
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
        left = pn.Column(title, *self.sliders.values(), self.facts, *certified, width=290)
        plots = pn.FlexBox(
            self._portrait(), self._curves("NRMSE", ("error", "projected"), log=True), self._field("truth"),
            self._field("reduced"), self._curves("lag, time units", ("lag",)), self._diagram(),
        )  # fmt: skip
        return pn.FlexBox(left, plots)  # one below the other on narrow screens

    def _show(self, view: View, context: dict[str, float]) -> None:
        full = self.exploration.portrait(view.truth)
        self.source.data = {
            "time": view.time, "x": view.portrait[:, 0], "y": view.portrait[:, 1], "full_x": full[:, 0],
            "full_y": full[:, 1], "error": view.error, "projected": view.projected, "lag": view.lag,
        }  # fmt: skip
        for name, source in self.fields.items():
            states = getattr(view, name)
            source.data = {
                "image": [states.T], "x": [view.time[0]], "y": [0],
                "width": [view.time[-1] - view.time[0]], "height": [states.shape[1]],
            }  # fmt: skip
        self.here.data = {"value": [next(iter(context.values()))]}
        self.facts.object = (
            f"valid for **{view.valid_time:.3g}** of {view.time[-1]:.3g}  \n"
            f"error at the end **{view.error[-1]:.2g}**, of the projection alone {view.projected[-1]:.2g}  \n"
            f"‖P(P(x)) - P(x)‖ at most {view.idempotency:.1e}"
        )

    def _show_branch(self) -> None:
        name = next(iter(self.sliders))
        values, extremes = self.exploration.branch(name, self.context)
        self.branch.data = {"value": values, "extreme": extremes}

    def _portrait(self) -> figure:
        plot = _figure("orbit in two leading directions", "direction 1", "direction 2")
        plot.line("full_x", "full_y", source=self.source, color=TRUTH, legend_label="full model")
        plot.line("x", "y", source=self.source, color=REDUCED, legend_label="reduced model")
        return plot

    def _curves(self, label: str, names: tuple[str, ...], *, log: bool = False) -> figure:
        plot = _figure(label, "time", label, y_axis_type="log" if log else "linear")
        for name, colour in zip(names, (REDUCED, FLOOR), strict=False):
            plot.line("time", name, source=self.source, color=colour, legend_label=CURVES[name])
        plot.legend.location = "top_left"
        return plot

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
        romkit.errors.InputError: projection: expected a single one, got a stack; take one of it,
        romkit.projections.unstack(projection)[0]
    """
    pages = {"/": application(projection, system)}
    origin = [f"{name}:{port}" for name in (ADDRESS, "localhost")] if port else None
    return pn.serve(
        pages, address=ADDRESS, port=port, show=show, threaded=threaded, title="romkit", websocket_origin=origin
    )
