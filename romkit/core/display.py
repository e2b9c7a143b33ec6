"""Facts about objects in words, for the command line, reports and notebooks."""

import abc
import inspect
import itertools
import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

WIDTH, HEIGHT = 260, 90
"""Size of a curve in a notebook [pixels]."""


class Display(abc.ABC):
    """Object that notebooks show as a table of facts, with a figure where it has one.

    `facts` is the one source: `format_text` and `html_table` are functions of them, and JSON is the mapping.
    """

    @abc.abstractmethod
    def facts(self) -> dict[str, str]:
        """Kind, sizes, origin and errors of the object, by name."""

    def curves(self) -> tuple[str, Sequence[Sequence[float]]]:
        """Caption and curves of a small figure with a logarithmic axis; no curves by default."""
        return "", ()

    def figure_html(self) -> str:
        """Return what stands beside the facts: the curves, unless overridden."""
        caption, curves = self.curves()
        if not curves:
            return ""
        return f"<div>{_svg(curves)}<br><small>{escape(caption)}</small></div>"

    def _repr_html_(self) -> str:
        title = f"<b>{escape(type(self).__name__)}</b>"
        beside = f"{html_table(self.facts())}{self.figure_html()}"
        return f"<div>{title}<div style='display:flex;gap:2em'>{beside}</div></div>"


def html_table(facts: Mapping[str, str]) -> str:
    """Return facts as a table of HTML, a row for each."""
    rows = "".join(_row(name, value) for name, value in facts.items())
    return f"<table>{rows}</table>"


def format_text(facts: Mapping[str, str]) -> str:
    """Return facts as lines of text in two columns; further lines of a fact stand below its first."""
    width = max(map(len, facts))
    lines = []
    for name, value in facts.items():
        first, *further = value.splitlines() or [""]
        lines.append(f"{name:<{width}}  {first}")
        lines += [f"{'':<{width}}  {line}" for line in further]
    return "\n".join(lines)


def _row(name: str, value: str) -> str:
    """Row of a table of facts."""
    cell = "text-align:left;white-space:pre-wrap;overflow-wrap:anywhere"
    return (
        f"<tr><td style='text-align:left;opacity:.7'>{escape(name)}</td>"
        f"<td style='{cell}'>{escape(value)}</td></tr>"
    )


def escape_markdown(text: str) -> str:
    """One line of Markdown that shows this text: every character that could be markup is escaped."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.split()))


def _svg(curves: Sequence[Sequence[float]]) -> str:
    """SVG of curves over their index; values that a logarithm does not take are left out."""
    points = [
        [(k, math.log10(y)) for k, y in enumerate(curve) if 0 < y < math.inf] for curve in curves
    ]
    places, heights = zip(*itertools.chain([(0, 0.0)], *points), strict=True)
    longest = max(places)
    if not longest:
        return ""
    low, high = min(heights[1:]), max(heights[1:])
    unit = HEIGHT / max(high - low, 1e-12)
    lines = ""
    for curve in points:
        corners = []
        for k, y in curve:
            right = WIDTH * k / longest
            corners.append(f"{right:.1f},{(high - y) * unit:.1f}")
        look = "fill='none' stroke='currentColor' stroke-width='1.2'"
        lines += f"<polyline points='{' '.join(corners)}' {look}/>"
    ends = f"<title>from {10**high:.2g} to {10**low:.2g}</title>"
    box = f"viewBox='-2 -2 {WIDTH + 4} {HEIGHT + 4}' width='{WIDTH}' height='{HEIGHT}'"
    return f"<svg {box}>{ends}{lines}</svg>"


def first_line(documented: object) -> str:
    """Return first paragraph of a docstring on one line, at most a hundred characters."""
    paragraph, _, _ = (inspect.getdoc(documented) or "").partition("\n\n")
    line = " ".join(paragraph.split()).rstrip(".:")
    return textwrap.shorten(line, 100, placeholder=" ...")


def append_unit(unit: object, pattern: str = " {}") -> str:
    """Return unit as it is appended to a number or a label; nothing for dimensionless and mixed
    units.
    """
    # attributes of files may be numbers
    unit = str(unit)
    if unit in ("", "1") or unit.startswith("mixed"):
        return ""
    return pattern.format(unit)


def parameters(data: "xr.Dataset") -> dict[str, "xr.DataArray"]:
    """Return numeric coordinates along trajectories, or along trajectories and time; labels are
    left out.

    A run of a single trajectory has its parameters as scalars.
    """
    return {str(name): coord for name, coord in data.coords.items() if _is_parameter(name, coord)}


def _is_parameter(name: object, coord: "xr.DataArray") -> bool:
    if name in ("trajectory", "time", "component"):
        return False
    along = {*coord.dims} <= {"trajectory", "time"}
    return along and coord.dtype.kind in "iuf" and coord.attrs.get("role") != "label"


def pairs(values: Mapping[str, object]) -> str:
    """Return names and values on one line."""
    return ", ".join(f"{key}={text(value)}" for key, value in values.items())


def text(value: object) -> str:
    """Return text of a value; mappings, which files hold as JSON, become pairs."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    if isinstance(value, Mapping):
        return f"({pairs(value)})"
    return str(value)


def listed(words: Iterable[object], most: int = 4) -> str:
    """Return words with commas between, of many the first few."""
    texts = [str(word) for word in words]
    text = ", ".join(texts[:most])
    return f"{text}, ..." if len(texts) > most else text
