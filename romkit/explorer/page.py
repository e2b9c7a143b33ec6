"""Page of the explorer: sliders and the figures that follow them, and a second tab for data of
one's own.
"""

import socket
import time
from collections.abc import Callable

import numpy as np
import panel as pn
from bokeh.models import ColumnDataSource, CustomJS, LinearColorMapper, NumericInput, Slider
from bokeh.plotting import figure

from romkit.certificates import certify
from romkit.core.boundary import validated
from romkit.core.display import as_plain_markdown
from romkit.core.errors import InputError, RomkitError
from romkit.data import describe, split
from romkit.data.storage import dataset_of_bytes
from romkit.explorer.exploration import Exploration, Orbit, View, stride
from romkit.integrators import LAWS
from romkit.plotting import plot_rollout
from romkit.plotting.style import BLUE, NEUTRAL, ORANGE
from romkit.projections import METHODS, Projection
from romkit.systems import System
from romkit.verbs.fit import fit
from romkit.verbs.runs import rollout

ADDRESS = "127.0.0.1"
"""Address of the server: this machine alone, so that nothing that is shown or uploaded leaves it."""

HOSTS = (ADDRESS, "localhost")
"""Names of this machine in a browser; requests to other names, and from other pages, are refused."""

PROMPT = 0.1
"""Longest time of a view [s] that a moving slider waits for; slower models show the reduced model
alone meanwhile.
"""

PATIENCE = 5.0
"""Time of a view [s] from which on the full model waits for a button instead of following a
released slider.
"""

NEAR = 0.02
"""Radius of the ball of a certificate, in standard deviations of the whole state."""

HELD_OUT = 0.25
"""Share of the contexts in a user's data that is held out, as in `romkit.compare`."""

LIMIT = 3.0
"""End of the colour scale of fields, in standard deviations."""

TEMPLATE = """{% extends base %}
{% block contents %}<main><h1>romkit: {{ system | e }}</h1>{{ embed(roots.page) }}</main>{% endblock %}"""
"""Document with the landmark and the heading that screen readers look for."""

KEYBOARD = """
for (const slider of sliders) {
    const handle = cb_context.index.find_one(slider).shadow_el.querySelector(".noUi-handle");
    handle.setAttribute("aria-label", slider.title);
}
document.addEventListener("keydown", event => {
    const [target] = event.composedPath();
    if (event.key === "Enter" && target.className.includes("bk-tab")) target.click();
});
"""
"""Code for the browser: sliders get the names that Bokeh writes beside them, and the Enter key
opens tabs.
"""


class Page:
    """Figures of a model, and the sliders that move them.

    Args:
        exploration: evaluates both models.
    """

    def __init__(self, exploration: Exploration):
        self.exploration = exploration
        self.sliders = {}
        for p in exploration.system.context:
            look = {
                "title": f"{p.name}{'' if p.units == '1' else f' in {p.units}'}",
                "format": "0.0000",
                "width": 260,
            }
            ends = {
                "start": p.low,
                "end": p.high,
                "step": (p.high - p.low) / 200,
                "value": (p.low + p.high) / 2,
            }
            # Bokeh's own, because Panel's wait for a while before they say that they were moved
            self.sliders[p.name] = Slider(**look, **ends)
        self.reduced, self.compared, self.manifold = (ColumnDataSource() for _ in range(3))
        self.fields = {name: ColumnDataSource() for name in ("full model", "reduced model")}
        self.branch, self.here = ColumnDataSource(), ColumnDataSource()
        self.facts = _text("", width=260)
        self.compare = pn.widgets.Button(label="Run the full model here", width=260, visible=False)
        self.compare.on_click(self._run_here)
        self.button = pn.widgets.Button(label="Certify at this context", width=260)
        self.button.on_click(lambda event: self.certify())
        near = NEAR * exploration.double.frame.state_std.norm().item()
        self.radius = NumericInput(
            title="for states within", mode="float", value=round(near, 4), low=1e-6, width=260
        )
        self.certificate = _text("", width=260)
        exploration.run(self.context)  # kept, so that the view below is timed without it
        began = time.perf_counter()
        self.view = exploration.view(self.context)
        self._follow_sliders(exploration.seconds + time.perf_counter() - began)
        self._show(self.view)
        values, extremes = exploration.branch(next(iter(self.sliders)), self.view)
        self.branch.data = {"value": values, "extreme": extremes}

    @property
    def context(self) -> dict[str, float]:
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
            self.facts.object = _error(error)
            return
        with pn.io.hold():
            self._show(self.view)
            self.certificate.object = ""

    def certify(self) -> None:
        """Show bounds of the Lipschitz constants at the context of the sliders."""
        at, radius = self.exploration.at(self.context)[0], self.radius.value
        with self.button.param.update(loading=True):
            try:
                found = certify(self.exploration.double, at, radius=radius)
            except RomkitError as error:
                self.certificate.object = _error(error)
                return
        columns = (found[name].values for name in ("map", "lower", "upper"))
        rows = [
            f"| {which} | {lower:.3g} | {upper:.3g} |"
            for which, lower, upper in zip(*columns, strict=True)
        ]
        title = f"Lipschitz constants within {radius:.3g} of the mean state:\n\n"
        self.certificate.object = (
            f"{title}| map | found | at most |\n| --- | --- | --- |\n" + "\n".join(rows)
        )

    def layout(self) -> pn.viewable.Viewable:
        certified = (self.radius, self.button, self.certificate)
        left = pn.Column(*self.sliders.values(), self.compare, self.facts, *certified, width=290)
        plots = pn.FlexBox(*self._figures(), styles={"flex": "1 1 400px"})
        return pn.FlexBox(left, plots)  # one below the other on narrow screens

    def _run_here(self, event: object) -> None:
        with self.compare.param.update(loading=True):
            self.update()

    def _follow_sliders(self, seconds: float) -> None:
        """Show every move at once: both models, or the reduced model alone where a view takes long."""
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
        self._show_field(
            "full model", view.orbit.time, view.truth[:, :: stride(len(view.directions))]
        )
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
        self.here.data = {"value": [next(iter(self.context.values()))]}

    def _show_field(self, name: str, times: np.ndarray, states: np.ndarray) -> None:
        self.fields[name].data = {
            "image": [states.T.astype(np.float32)], "x": [times[0]], "y": [0],
            "width": [times[-1] - times[0]], "height": [len(self.view.directions)],
        }  # fmt: skip

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
        fields = {name: _figure(name, "time", "component") for name in self.fields}
        mapper = LinearColorMapper("Viridis256", low=-LIMIT, high=LIMIT)
        for name, plot in fields.items():
            plot.image(
                "image", "x", "y", "width", "height", source=self.fields[name], color_mapper=mapper
            )
        error = _figure("NRMSE", "time", "NRMSE", y_axis_type="log")
        error.line(
            "time", "error", source=self.compared, color=ORANGE, legend_label="reduced model"
        )
        error.line(
            "time", "projected", source=self.compared, color=BLUE, legend_label="projection alone"
        )
        lag = _figure("lag, time units", "time", "lag, time units")
        lag.line("time", "lag", source=self.compared, color=ORANGE, legend_label="reduced model")
        for plot in (portrait, error, lag):
            (legend,) = plot.legend
            legend.orientation, legend.border_line_alpha = "horizontal", 0.0
            plot.add_layout(legend, "above")  # where it hides no curve
        diagram = _figure(
            "maxima of the orbit", next(iter(self.sliders)), "maximum of one component"
        )
        diagram.scatter("value", "extreme", source=self.branch, size=3, color=ORANGE)
        diagram.vspan("value", source=self.here, color=BLUE)
        return [portrait, latent, *fields.values(), error, lag, diagram]


def _text(text: str, **look: object) -> pn.pane.Markdown:
    """Pane of Markdown in which HTML is text: names in files of others must not become elements."""
    return pn.pane.Markdown(text, renderer="markdown-it", renderer_options={"html": False}, **look)


def _error(error: Exception) -> str:
    """An error in bold, without the links and pictures that a name in it may spell."""
    return f"**{as_plain_markdown(str(error))}**"


def _figure(title: str, x: str, y: str, **options: object) -> figure:
    look = {"width": 400, "height": 270, "toolbar_location": None}
    label = {"role": "img", "aria-label": f"{title}: {y} against {x}"}
    return figure(
        title=title, x_axis_label=x, y_axis_label=y, html_attributes=label, **look, **options
    )


class OwnData:
    """Tab from a netCDF file to a rollout of held-out trajectories."""

    def __init__(self):
        self.file = pn.widgets.FileInput(label="data", accept=".nc", multiple=False)
        self.method = pn.widgets.Select(label="projection", options=list(METHODS), value="ncae")
        self.law = pn.widgets.Select(label="law", options=list(LAWS), value="neural-ode")
        self.latent_dim = NumericInput(title="latent coordinates", value=2, low=1, high=20)
        self.epochs = NumericInput(title="epochs", value=100, low=1)
        self.button = pn.widgets.Button(label="fit", color="primary")
        self.said = _text("A netCDF file of runs over time.")
        self.picture = pn.pane.Matplotlib(
            None, tight=True, sizing_mode="scale_width", max_width=900, alt_text="rollout"
        )
        self.button.on_click(lambda event: self.run())

    def layout(self) -> pn.viewable.Viewable:
        settings = (self.file, self.method, self.law, self.latent_dim, self.epochs, self.button)
        return pn.FlexBox(
            pn.Column(*settings, width=290),
            pn.Column(self.said, self.picture, styles={"flex": "1 1 340px"}),
        )

    def run(self) -> None:
        """Fit and follow; an error in the file is shown in one line."""
        if not self.file.value:
            self.said.object = "Choose a file first."
            return
        with self.button.param.update(loading=True):
            try:
                opened = dataset_of_bytes(self.file.value, "data")
                train, test = split(describe(opened), HELD_OUT)
                settings = {
                    "latent_dim": self.latent_dim.value,
                    "epochs": self.epochs.value,
                    "verbose": False,
                }
                projection = fit(self.method.value, train, **settings)
                run = rollout(
                    test, projection, dynamics=LAWS[self.law.value]().fit(projection, train)
                )
            except (RomkitError, ValueError, OSError) as error:
                self.said.object = _error(error)
                return
            self.picture.object = plot_rollout(run)
            self.said.object = (
                f"held-out trajectories: median valid time {float(run['valid_time'].median()):.3g}"
            )


def application(projection: Projection, system: System | None = None) -> Callable[[], pn.Template]:
    """Function that makes a new page for every visitor."""
    exploration = Exploration(projection, system)  # checked here, before anything is served

    def page() -> pn.Template:
        _check_host(pn.state.headers.get("Host", ""))
        model, shown = Page(exploration), pn.Template(TEMPLATE)
        shown.add_variable("system", exploration.system.name)
        shown.add_panel(
            "page",
            pn.Tabs(("Model", model.layout()), ("Your own data", OwnData().layout()), dynamic=True),
        )
        code = CustomJS(args={"sliders": list(model.sliders.values())}, code=KEYBOARD)
        pn.state.curdoc.js_on_event("document_ready", code)
        return shown

    return page


def _check_host(host: str) -> None:
    """Refuse a page of another name for this machine: a site whose name leads here (DNS rebinding)
    would read what the page shows.
    """
    name = host.rpartition(":")[0] or host
    if name not in HOSTS:
        fix = "open the address that romkit printed"
        raise InputError("Host", expected=" or ".join(HOSTS), got=repr(host), fix=fix)


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
        romkit.core.errors.InputError: projection: expected a single one, got a stack; take one of it,
        romkit.projections.unstack(projection)[0]
    """
    pages = {"/": application(projection, system)}
    port = port or _free_port()
    origins = [f"{name}:{port}" for name in HOSTS]
    options = {"port": port, "show": show, "threaded": threaded, "websocket_origin": origins}
    return pn.serve(pages, address=ADDRESS, title="romkit", **options)
