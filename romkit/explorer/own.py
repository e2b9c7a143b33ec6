"""Tab of the explorer for data of one's own: `romkit.learn`, with its errors and a picture."""

import io
import itertools
import tempfile
from pathlib import Path

import numpy as np
import panel as pn
import xarray as xr
from bokeh.models import NumericInput, TextInput

from romkit.core.display import escape_markdown
from romkit.core.errors import RomkitError
from romkit.data import fields, save_dataset
from romkit.learning import Learned, learn
from romkit.learning.steady import require_motion
from romkit.learning.words import HEADLINE
from romkit.readers.arrays import from_arrays
from romkit.readers.several import read_runs

WIDTH = 260
"""Width of a setting [pixels]."""

SECONDS = 8
"""Seconds of the processor for the choice of a law: somebody waits for the page."""


def text(content: str, **look: object) -> pn.pane.Markdown:
    """Return a pane of Markdown in which HTML is text: names in files of others must not become
    elements.
    """
    return pn.pane.Markdown(
        content, renderer="markdown-it", renderer_options={"html": False}, **look
    )


def render_error(error: Exception) -> str:
    """Return an error in bold, without the links and pictures that a name in it may spell."""
    return f"**{escape_markdown(str(error))}**"


class OwnData:
    """Tab from files of runs to forecasts of left-out runs."""

    def __init__(self) -> None:
        self.file = pn.widgets.FileInput(label="files of runs", accept=".nc,.csv", multiple=True)
        self.context = TextInput(
            title="parameters, with commas", placeholder="those of the data", width=WIDTH
        )
        self.seconds = NumericInput(title="seconds for a law", value=SECONDS, low=1, width=WIDTH)
        self.button = pn.widgets.Button(label="learn", color="primary", width=WIDTH)
        self.button.on_click(lambda event: self.run())
        self.example = pn.widgets.Button(label="try an example", width=WIDTH)
        self.example.on_click(lambda event: self.run_example())
        self.download = pn.widgets.FileDownload(
            callback=lambda: io.BytesIO(_encode(example())),
            filename="waves.nc",
            label="the example's file",
            width=WIDTH,
        )
        self.said = text("Choose files of runs over time, or drop them anywhere on the page.")
        self.picture = pn.pane.Matplotlib(
            None, tight=True, sizing_mode="scale_width", max_width=900, alt_text="rollout"
        )

    def layout(self) -> pn.viewable.Viewable:
        """Return settings beside the result, above it on narrow screens."""
        settings = (self.file, self.context, self.seconds, self.button)
        examples = (self.example, self.download)
        result = pn.Column(self.said, self.picture, styles={"flex": "1 1 300px"})
        return pn.FlexBox(pn.Column(*settings, *examples, width=290), result)

    def run(self) -> None:
        """Learn from the chosen files; an error in one is shown in one line."""
        contents = self.file.value
        if not contents:
            self.said.object = "Choose a file first."
            return
        names = self.file.filename or []
        if isinstance(contents, bytes):
            contents = [contents]
        if isinstance(names, str):
            names = [names]
        typed = [name.strip() for name in self.context.value.split(",") if name.strip()]
        with self.button.param.update(loading=True):
            try:
                self._show(_learned(contents, names, typed or None, self.seconds.value))
            except (RomkitError, ValueError, OSError) as error:
                self.said.object = render_error(error)

    def run_example(self) -> None:
        """Learn from the example."""
        with self.example.param.update(loading=True):
            self._show(require_motion(learn(example(), seconds=self.seconds.value)))

    def _show(self, learned: Learned) -> None:
        lines = [learned.advice, "", f"| {HEADLINE} | |", "| --- | --- |"]
        for name, error in learned.mean_errors.items():
            lines.append(f"| {name} | {error:.3g} |")
        self.said.object = "\n".join(lines)
        self.picture.object = learned.plot()


def _learned(
    contents: list[bytes], names: list[str], context: list[str] | None, seconds: float
) -> Learned:
    """Return the model of runs in files, netCDF or tables."""
    with tempfile.TemporaryDirectory(prefix="romkit-") as folder:
        paths = []
        for number, (content, name) in enumerate(itertools.zip_longest(contents, names)):
            # names that a page gives stay out of the file system
            ending = "csv" if str(name).lower().endswith(".csv") else "nc"
            path = Path(folder) / f"run{number:04d}.{ending}"
            path.write_bytes(content)
            paths.append(path)
        data, _ = read_runs(paths)
        if isinstance(data, xr.Dataset):
            data = data.compute()
    return require_motion(learn(data, context, seconds=seconds))


def example() -> xr.Dataset:
    """Return runs of a travelling wave that steepens, at eight speeds: the example of the tab."""
    speed = np.linspace(1.0, 2.0, 8)
    time = np.linspace(0.0, 6.0, 61)
    place = np.linspace(0.0, 2 * np.pi, 24, endpoint=False)
    phase = place - speed[:, None, None] * time[:, None]  # (8, 61, 24)
    wave = np.sin(phase) + 0.2 * speed[:, None, None] * np.sin(2 * phase)
    return from_arrays(wave, time, context={"speed": speed})


def _encode(data: xr.Dataset) -> bytes:
    """Return the content of a netCDF file of the data."""
    with tempfile.TemporaryDirectory(prefix="romkit-") as folder:
        return save_dataset(fields(data), Path(folder) / "waves.nc").read_bytes()
