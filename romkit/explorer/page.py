"""Page of the explorer: sliders and the figures that follow them, and a second tab for data of
one's own.
"""

import re
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import numpy as np
import panel as pn
from bokeh.models import (
    BasicTickFormatter,
    ColorBar,
    ColumnDataSource,
    CustomJS,
    LinearColorMapper,
    LogTicker,
    NumericInput,
    Slider,
)
from bokeh.plotting import figure
from panel.io.threads import StoppableThread
from tornado.ioloop import IOLoop
from tornado.web import RequestHandler

from romkit.certificates import certify
from romkit.core.boundary import validated
from romkit.core.errors import InputError, RomkitError
from romkit.core.types import Array
from romkit.explorer.exploration import Exploration, Orbit, View, stride
from romkit.explorer.own import OwnData, render_error, text
from romkit.plotting.style import BLUE, NEUTRAL, ORANGE
from romkit.projections import Projection
from romkit.systems import System

ADDRESS = "127.0.0.1"
"""Address of the server: this machine alone, so that nothing that is shown or uploaded leaves it."""

HOSTS = (ADDRESS, "localhost")
"""Names of this machine in a browser; requests to other names, and from other pages, are refused."""

FOREIGN = f"(?!({'|'.join(map(re.escape, HOSTS))})$).*"
"""Pattern of all other names."""

IMPORTS = "/components/.*"
"""Pattern of addresses at which panel imports modules by their names, which no page of romkit needs: a
picture of another page may be there, too.
"""

PROMPT = 0.1
"""Longest time of a view [s] that a moving slider waits for; slower models show the reduced model
alone meanwhile.
"""

WIDTH = 260
"""Width of a slider and of what stands below it [pixels]."""

FONT = "system-ui, sans-serif"
"""Font of the page, in its figures too."""

TEMPLATE = """{% extends base %}
{% block preamble %}<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.4 system-ui, sans-serif; }
main { padding: 0 .5rem; }
h1 { font-size: 1.3rem; margin: .3rem 0; }
</style>{% endblock %}
{% block contents %}<main><h1>romkit: {{ system | e }}</h1>{{ embed(roots.page) }}</main>{% endblock %}"""
"""Document with the landmark and the heading that screen readers look for."""

BROWSER = """
for (const slider of sliders) {
    const handle = cb_context.index.find_one(slider).shadow_el.querySelector(".noUi-handle");
    handle.setAttribute("aria-label", slider.title);
    const say = () => {
        const text = `${slider.title} ${Number(slider.value.toPrecision(5))}`;
        if (handle.getAttribute("aria-valuetext") !== text) handle.setAttribute("aria-valuetext", text);
    };
    say();
    // the slider writes a bare number there at each move
    new MutationObserver(say).observe(handle, {attributeFilter: ["aria-valuetext"]});
}
document.addEventListener("keydown", event => {
    const [target] = event.composedPath();
    if (event.key === "Enter" && target.className.includes("bk-tab")) target.click();
});
const inputs = root => [...root.querySelectorAll("*")].flatMap(element => {
    if (element.matches("input[type=file]")) return [element];
    return element.shadowRoot ? inputs(element.shadowRoot) : [];
});
document.addEventListener("dragover", event => event.preventDefault());
document.addEventListener("drop", event => {
    event.preventDefault();
    for (const input of inputs(document)) {
        input.files = event.dataTransfer.files;
        input.dispatchEvent(new Event("change"));
    }
});
"""
"""Code for the browser: sliders get the names that Bokeh writes beside them, and say their values;
the Enter key opens tabs; files that are dropped on the page are chosen in the tab for data.
"""


class Page:
    """Figures of a model, and the sliders that move them.

    Args:
        exploration: evaluates both models.
    """

    def __init__(self, exploration: Exploration):
        self.exploration = exploration
        self.sliders = {}
        for parameter in exploration.system.context:
            # slider over the range of a parameter
            unit = "" if parameter.units == "1" else f" in {parameter.units}"
            # Bokeh's own, because Panel's wait for a while before they say that they were moved
            self.sliders[parameter.name] = Slider(
                title=f"{parameter.name}{unit}",
                format="0.0000",
                width=WIDTH,
                start=parameter.low,
                end=parameter.high,
                step=(parameter.high - parameter.low) / 200,  # steps from end to end
                value=(parameter.low + parameter.high) / 2,
            )
        self.first = next(iter(self.sliders))
        self.reduced, self.compared, self.manifold = (ColumnDataSource() for _ in range(3))
        self.fields = {name: ColumnDataSource() for name in ("full model", "reduced model")}
        self.branch, self.here = ColumnDataSource(), ColumnDataSource()
        self.facts = text("", width=WIDTH)
        self._make_buttons()
        self._start()

    def _make_buttons(self, *, share: float = 0.02) -> None:
        """Make buttons, and the radius of a certificate: a share of the deviation of the whole
        state.
        """
        self.play = pn.widgets.Toggle(label=f"Play {self.first}", width=WIDTH // 2 - 5)
        self.play.param.watch(lambda event: self._play(event.new), "value")
        self.playing = None
        self.reset = pn.widgets.Button(label="Reset", width=WIDTH // 2 - 5)
        self.reset.on_click(lambda event: self._reset())
        self.compare = pn.widgets.Button(
            label="Run the full model here", width=WIDTH, visible=False
        )
        self.compare.on_click(self._run_here)
        self.button = pn.widgets.Button(label="Certify at this context", width=WIDTH)
        self.button.on_click(lambda event: self.certify())
        near = share * self.exploration.double.frame.state_std.norm().item()
        self.radius = NumericInput(
            title="for states within", mode="float", value=round(near, 4), low=1e-6, width=WIDTH
        )
        self.certificate = text("", width=WIDTH)

    def _start(self) -> None:
        """Show both models at a context away from where the motion changes its kind."""
        exploration = self.exploration
        middle = exploration.middle
        exploration.run(middle)  # kept, so that the view below is timed without it
        began = time.perf_counter()
        self.view = exploration.view(middle)
        seconds = exploration.seconds + time.perf_counter() - began
        branch = exploration.branch(self.first, self.view)
        self.branch.data = {"value": branch[0], "extreme": branch[1]}
        self.home = middle | {self.first: exploration.calm(self.first, branch)}
        for name, slider in self.sliders.items():
            slider.value = self.home[name]
        self.view = exploration.view(self.home)
        self._follow_sliders(seconds)
        self._show(self.view)

    @property
    def context(self) -> dict[str, float]:
        """Values of the sliders."""
        return {name: float(slider.value) for name, slider in self.sliders.items()}

    def preview(self) -> None:
        """Show the reduced model at the context of the sliders, from the initial state of the last
        view.
        """
        orbit = self.exploration.orbit(self.context, self.view)
        with pn.io.hold():  # one message to the browser, which draws once
            self._show_orbit(orbit)
            for source in (self.compared, self.fields["full model"]):  # of the previous context
                source.data = {name: [] for name in source.data}
            self.facts.object = "the reduced model alone: the full one has not run at this context"
            self.certificate.object = ""

    def update(self) -> None:
        """Show both models at the context of the sliders."""
        try:
            self.view = self.exploration.view(self.context)
        except RomkitError as error:
            self.facts.object = render_error(error)
            return
        with pn.io.hold():
            self._show(self.view)
            self.certificate.object = ""

    def certify(self) -> None:
        """Show bounds of the Lipschitz constants at the context of the sliders."""
        context = self.exploration.at(self.context)[0]
        radius = self.radius.value
        with self.button.param.update(loading=True):
            try:
                bounds = certify(self.exploration.double, context, radius=radius)
            except RomkitError as error:
                self.certificate.object = render_error(error)
                return
        lines = [
            f"Lipschitz constants within {radius:.3g} of the mean state:",
            "",
            "| map | found | at most |",
            "| --- | --- | --- |",
        ]
        columns = (bounds[name].values for name in ("map", "lower", "upper"))
        for name, lower, upper in zip(*columns, strict=True):
            lines.append(f"| {name} | {lower:.3g} | {upper:.3g} |")
        self.certificate.object = "\n".join(lines)

    def layout(self) -> pn.viewable.Viewable:
        """Return the sliders beside the figures, above them on narrow screens."""
        moving = pn.Row(self.play, self.reset, width=WIDTH)
        certified = (self.radius, self.button, self.certificate)
        controls = (*self.sliders.values(), moving, self.compare, self.facts, *certified)
        plots = pn.FlexBox(*self._figures(), styles={"flex": "1 1 300px"})
        return pn.FlexBox(pn.Column(*controls, width=290), plots)

    def _run_here(self, event: object) -> None:
        with self.compare.param.update(loading=True):
            self.update()

    def _play(self, on: bool, *, period: int = 300) -> None:
        """Move the first slider to and fro until the button is pressed again.

        `period`: milliseconds from one picture to the next.
        """
        if self.playing is not None:
            self.playing.stop()
            self.playing = None
        if on:
            self.playing = pn.state.add_periodic_callback(self.step, period=period)

    def step(self, *, steps: int = 4) -> None:
        """Move the first slider a little, and from its end back to its begin."""
        slider = self.sliders[self.first]
        value = slider.value + steps * slider.step
        # sums of steps are rounded
        if value > slider.end * (1 + 1e-12):
            value = slider.start
        slider.value = value

    def _reset(self) -> None:
        """Go back to the context of the beginning."""
        self.play.value = False
        for name, slider in self.sliders.items():
            slider.value = self.home[name]

    def _follow_sliders(self, seconds: float, *, patience: float = 5.0) -> None:
        """Show every move at once: both models, or the reduced model alone where a view takes long.

        `patience`: time of a view [s] from which on the full model waits for a button instead of
        following a released slider.
        """
        # a full model that takes longer would queue up behind a slider that moves
        self.compare.visible = seconds > patience
        for slider in self.sliders.values():
            if seconds < PROMPT:
                slider.on_change("value", lambda attr, old, new: self.update())
                continue
            slider.on_change("value", lambda attr, old, new: self.preview())
            if seconds < patience:
                slider.on_change("value_throttled", lambda attr, old, new: self.update())

    def _show(self, view: View) -> None:
        self._show_orbit(view.orbit)
        shown = view.truth[:, :: stride(len(view.directions))]
        self._show_field("full model", view.orbit.time, shown)
        self.compared.data = {
            "time": view.orbit.time,
            "x": view.portrait[:, 0],
            "y": view.portrait[:, 1],
            "error": view.error,
            "projected": view.projected,
            "lag": view.lag,
        }
        lines = [
            f"valid for **{view.valid_time:.3g}** of {view.orbit.time[-1]:.3g}",
            f"error at the end **{view.error[-1]:.2g}**, of the projection alone "
            f"{view.projected[-1]:.2g}",
            f"‖P(P(x)) - P(x)‖ at most {view.idempotency:.1e}",
        ]
        self.facts.object = "  \n".join(lines)

    def _show_orbit(self, orbit: Orbit) -> None:
        z = np.pad(orbit.latent, ((0, 0), (0, 1)))  # a second column where there is one coordinate
        self.reduced.data = {
            "x": orbit.portrait[:, 0],
            "y": orbit.portrait[:, 1],
            "z0": z[:, 0],
            "z1": z[:, 1],
        }
        self.manifold.data = {
            "xs": list(orbit.manifold[..., 0]),
            "ys": list(orbit.manifold[..., 1]),
        }
        self._show_field("reduced model", orbit.time, orbit.states)
        self.here.data = {"value": [self.context[self.first]]}

    def _show_field(self, name: str, times: Array, states: Array) -> None:
        self.fields[name].data = {
            "image": [states.T.astype(np.float32)],
            "x": [times[0]],
            "y": [0],
            "width": [times[-1] - times[0]],
            "height": [len(self.view.directions)],
        }

    def _figures(self) -> list[figure]:
        portrait = _figure(
            "orbit and manifold in two leading directions", "direction 1", "direction 2"
        )
        portrait.multi_line(
            "xs", "ys", source=self.manifold, color=BLUE, line_alpha=0.3, legend_label="manifold"
        )
        portrait.line("x", "y", source=self.compared, color=NEUTRAL, legend_label="full model")
        portrait.line("x", "y", source=self.reduced, color=ORANGE, legend_label="reduced model")
        latent = _figure("latent orbit", "latent coordinate 0", "latent coordinate 1")
        latent.line("z0", "z1", source=self.reduced, color=ORANGE)
        error, lag = self._error(), self._lag()
        for plot in (portrait, error, lag):
            # put the legend where it hides no curve
            (legend,) = plot.legend
            legend.orientation = "horizontal"
            legend.border_line_alpha = 0.0
            legend.padding = legend.margin = 0
            legend.label_text_font = FONT
            legend.label_text_font_size = "11px"
            plot.add_layout(legend, "above")
        return [portrait, latent, *self._fields(), error, lag, self._diagram()]

    def _fields(self, *, limit: float = 3.0) -> list[figure]:
        """Return the pictures of both models over time, with one colour scale.

        `limit`: end of the colour scale of fields, in standard deviations.
        """
        mapper = LinearColorMapper("Viridis256", low=-limit, high=limit)
        plots = []
        for name, source in self.fields.items():
            plot = _figure(f"{name}, in deviations", "time", "component")
            plot.image("image", "x", "y", "width", "height", source=source, color_mapper=mapper)
            bar = ColorBar(color_mapper=mapper, width=8, padding=4)
            bar.major_label_text_font = FONT
            plot.add_layout(bar, "right")
            plots.append(plot)
        return plots

    def _error(self) -> figure:
        plot = _figure("NRMSE", "time", "NRMSE", y_axis_type="log")
        # labels of each power of ten overlap where errors go over many of them
        plot.yaxis.ticker = LogTicker(desired_num_ticks=4, num_minor_ticks=0)
        plot.line("time", "error", source=self.compared, color=ORANGE, legend_label="reduced model")
        plot.line(
            "time", "projected", source=self.compared, color=BLUE, legend_label="projection alone"
        )
        return plot

    def _lag(self) -> figure:
        plot = _figure("lag, time units", "time", "lag, time units")
        plot.yaxis.formatter = BasicTickFormatter(use_scientific=False)
        plot.line("time", "lag", source=self.compared, color=ORANGE, legend_label="reduced model")
        return plot

    def _diagram(self) -> figure:
        plot = _figure("maxima of the orbit", self.first, "maximum of one component")
        plot.scatter("value", "extreme", source=self.branch, size=3, color=ORANGE)
        plot.vspan("value", source=self.here, color=BLUE)
        return plot


def _figure(title: str, x: str, y: str, **options: object) -> figure:
    plot = figure(
        title=title,
        x_axis_label=x,
        y_axis_label=y,
        html_attributes={"role": "img", "aria-label": f"{title}: {y} against {x}"},
        sizing_mode="stretch_width",
        min_width=280,
        max_width=400,
        height=270,
        toolbar_location=None,
        **options,
    )
    plot.title.text_font = FONT
    for axis in plot.axis:
        axis.axis_label_text_font = axis.major_label_text_font = FONT
        axis.minor_tick_line_color = None
    return plot


def application(projection: Projection, system: System | None = None) -> Callable[[], pn.Template]:
    """Return function that makes a new page for every visitor."""
    exploration = Exploration(projection, system)  # checked here, before anything is served

    def page() -> pn.Template:
        _check_host(pn.state.headers.get("Host", ""))
        _check_origin(pn.state.headers.get("Origin", ""))
        model, document = Page(exploration), pn.Template(TEMPLATE)
        document.add_variable("system", exploration.system.name)
        document.add_panel(
            "page",
            pn.Tabs(("Model", model.layout()), ("Your own data", OwnData().layout()), dynamic=True),
        )
        code = CustomJS(args={"sliders": list(model.sliders.values())}, code=BROWSER)
        pn.state.curdoc.js_on_event("document_ready", code)
        return document

    return page


def _check_host(host: str) -> None:
    """Refuse a page of another name for this machine: a site whose name leads here (DNS rebinding)
    would read what the page shows.
    """
    name = host.rpartition(":")[0] or host
    if name not in HOSTS:
        raise InputError(
            "Host",
            expected=" or ".join(HOSTS),
            got=repr(host),
            fix="open the address that romkit printed",
        )


def _check_origin(origin: str) -> None:
    """Refuse a page that another page asks for; browsers name it, and leave it out where a user
    opens the page.
    """
    if origin:
        _check_host(urlsplit(origin).hostname or origin)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        return free.getsockname()[1]


@validated
def explore(
    projection: Projection,
    system: System | None = None,
    *,
    port: int = 0,
    show: bool = True,
    threaded: bool = False,
) -> object:
    """Serve the explorer on this machine alone, until it is interrupted.

    Args:
        projection: a single projection, not a stack.
        system: the full model; by default the system that the projection was trained on.
        port: port to listen at; 0 for any free one.
        show: open a browser.
        threaded: return at once with the server in a thread; its `stop()` ends it.

    Raises:
        InputError: a projection that cannot be explored.

    Example:
        >>> import romkit
        >>> from romkit.explorer import explore
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> explore(romkit.projections.stack([ncae, ncae]))
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: projection: expected a single one, got a stack of 2 seeds; take
        one of them, romkit.projections.unstack(projection)[0]
    """
    # an error in the model comes before the server, as one line
    pages = {"/": application(projection, system)}
    port = port or _free_port()
    # websockets of other pages are refused by these names, and their documents by `_check_origin`
    origins = [f"{name}:{port}" for name in HOSTS]
    settings = {"address": ADDRESS, "title": "romkit", "port": port, "show": show}
    settings["websocket_origin"] = origins
    if not threaded:
        return _serve(pages, settings)
    loop = IOLoop(make_current=False)
    settings["loop"] = loop
    server = StoppableThread(target=_serve, io_loop=loop, args=(pages, settings), owns_loop=True)
    server.start()
    return server


def _serve(pages: dict[str, Callable], settings: dict[str, object]) -> object:
    """Serve pages until the server is stopped, to requests that are for this machine."""
    server = pn.serve(pages, start=False, **settings)
    # ahead of all routes of panel
    server._tornado.add_handlers(FOREIGN, [(".*", _Refused)])
    server._tornado.add_handlers(".*", [(IMPORTS, _Refused)])
    server.start()
    server.io_loop.start()
    return server


class _Refused(RequestHandler):
    """Answer to requests under another name of this machine, and to those for modules."""

    def prepare(self) -> None:
        """Refuse, whatever is asked."""
        self.send_error(403)
