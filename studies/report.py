"""Building blocks of reports: Markdown tables, pages filled from a template, figures of one look."""

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from romkit.core.files import atomic

COLOURS = {
    "ncae": "#D55E00",
    "cae": "#0072B2",
    "context-cae": "#56B4E9",
    "ae": "#222222",
    "context-ae": "#999999",
    "film-ae": "#009E73",
    "soft-ncae": "#CC79A7",
}
"""Colour of each method; Okabe & Ito's, which colour-blind eyes can tell apart."""
SERIES = ("#D55E00", "#0072B2", "#222222", "#009E73", "#CC79A7", "#999999")
"""Colours of series that are no methods, the first one for romkit or for the result that counts."""
TITLES = {"lorenz96": "Lorenz96", "pendulum": "Pendulum"}
STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


Row = Sequence[object] | Mapping[str, object]


def table(rows: Sequence[Row], columns: Iterable[str] = (), caption: str = "") -> str:
    """Markdown table with a caption above it; a line that says so if there are no rows.

    Columns may be the keys of the rows.
    """
    text = f"{caption}\n\n" if caption else ""
    if not rows:
        return f"{text}Nothing was measured.\n"
    head = list(columns or rows[0])
    cells = (row.values() if isinstance(row, Mapping) else row for row in rows)
    return text + "".join(
        f"| {' | '.join(map(str, line))} |\n" for line in (head, ["---"] * len(head), *cells)
    )


def filled(template: Path, **values: object) -> str:
    """Return text of a page from its template, whose fields are in the syntax of `str.format`."""
    return template.read_text(encoding="utf-8").format_map(values)


def write_text(path: str | os.PathLike, text: str) -> Path:
    """Write a page, all of it or nothing."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[list[Axes]]]:
    """Return figure of `rows` x `columns` panels, `size` inches in all."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained", dpi=110)
        return figure, figure.subplots(rows, columns, squeeze=False).tolist()


@matplotlib.rc_context(STYLE)
def dots(values: Mapping[str, Mapping[str, object]], label: str, finding: str) -> Figure:
    """Return figure with a row for each contestant and a dot for each of its numbers, on a
    logarithmic axis.

    Args:
        values: a number or several by contestant, then by series; numbers that are not finite are
            left out.
        label: of the axis, with its unit.
        finding: title, what the picture shows.
    """
    figure, [[axis]] = panels(1, 1, (7, 1.1 + 0.22 * len(values)))
    series = list(dict.fromkeys(name for row in values.values() for name in row))
    for name, colour in zip(series, SERIES, strict=False):
        found = [(np.ravel(row[name]), k) for k, row in enumerate(values.values()) if name in row]
        x, y = (
            np.concatenate([x for x, _ in found]),
            np.concatenate([np.full(len(x), k) for x, k in found]),
        )
        axis.plot(x, y, "o", color=colour, label=name, alpha=0.8)
    axis.set(
        xscale="log",
        xlabel=label,
        yticks=range(len(values)),
        yticklabels=values,
        ylim=(len(values) - 0.5, -0.5),
    )
    axis.set_title(finding, loc="left", x=0, wrap=True)
    low, high = axis.get_xlim()
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 3) if high < 1e4 * low else (1,), numticks=15))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.grid(axis="y", color="0.9")
    axis.set_axisbelow(True)
    if len(series) > 1:
        figure.legend(loc="outside lower center", ncols=len(series))
    return figure


def save_png(figure: Figure, path: str | os.PathLike) -> Path:
    """Write a PNG without the date and version that would make each one different."""
    picture = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(picture, format="png", metadata={"Software": None})
    with atomic(path) as temporary:
        temporary.write_bytes(picture.getvalue())
    return Path(path)
