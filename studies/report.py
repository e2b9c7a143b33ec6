"""Building blocks of reports: Markdown tables, pages filled from a template, figures of one look."""

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
    return text + "".join(f"| {' | '.join(map(str, line))} |\n" for line in (head, ["---"] * len(head), *cells))


def filled(template: Path, **values: object) -> str:
    """Text of a page from its template, whose fields are in the syntax of `str.format`."""
    return template.read_text(encoding="utf-8").format_map(values)


def write_text(path: str | os.PathLike, text: str) -> Path:
    """Write a page, all of it or nothing."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[list[Axes]]]:
    """Figure of `rows` x `columns` panels, `size` inches in all."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained", dpi=110)
        return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def save_png(figure: Figure, path: str | os.PathLike) -> Path:
    """Write a PNG without the date and version that would make each one different."""
    picture = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(picture, format="png", metadata={"Software": None})
    with atomic(path) as temporary:
        temporary.write_bytes(picture.getvalue())
    return Path(path)
