"""What objects tell of themselves: facts in words, for the command line, reports and notebooks."""

import abc
import inspect
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 260, 90
"""Of a curve, in pixels."""


class Display(abc.ABC):
    """An object that notebooks show as a table of facts, with a curve where it has one."""

    @abc.abstractmethod
    def facts(self) -> dict[str, str]:
        """What it is, its sizes, how it was made, and its errors, by name."""

    def curves(self) -> tuple[str, Sequence[Sequence[float]]]:
        """What a small figure shows on a logarithmic axis, in words, and the values; no values where there are none."""
        return "", ()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left;opacity:.7'>{escape(name)}</td>"
            f"<td style='text-align:left;white-space:pre-wrap;overflow-wrap:anywhere'>{escape(value)}</td></tr>"
            for name, value in self.facts().items()
        )
        caption, curves = self.curves()
        figure = f"<div>{_drawn(curves)}<br><small>{escape(caption)}</small></div>" if curves else ""
        title = f"<b>{escape(type(self).__name__)}</b>"
        return f"<div>{title}<div style='display:flex;gap:2em'><table>{rows}</table>{figure}</div></div>"


def _drawn(curves: Sequence[Sequence[float]]) -> str:
    """The positive finite values of curves over their place, as lines of an SVG."""
    points = [[(k, math.log10(y)) for k, y in enumerate(c) if 0 < y < math.inf] for c in curves]
    places, heights = zip(*(point for curve in points for point in curve), strict=True) if any(points) else ((), ())
    if len(set(places)) < 2:
        return ""
    low, span = min(heights), max(max(heights) - min(heights), 1e-12)
    lines = ""
    for curve in points:
        at = " ".join(f"{WIDTH * k / max(places):.1f},{HEIGHT * (1 - (y - low) / span):.1f}" for k, y in curve)
        lines += f"<polyline points='{at}' fill='none' stroke='currentColor' stroke-width='1.2'/>"
    ends = f"<title>from {10 ** max(heights):.2g} to {10**low:.2g}</title>"
    return f"<svg viewBox='-2 -2 {WIDTH + 4} {HEIGHT + 4}' width='{WIDTH}' height='{HEIGHT}'>{ends}{lines}</svg>"


def first_line(documented: object) -> str:
    """The first line of a docstring, at most a hundred characters."""
    line = (inspect.getdoc(documented) or "").partition("\n")[0].rstrip(".:")
    return textwrap.shorten(line, 100, placeholder=" ...")


def with_unit(unit: str) -> str:
    """What is appended to a number: a space and the unit, nothing where it has none."""
    return "" if unit in ("", "1") else f" {unit}"


def pairs(values: Mapping[str, object]) -> str:
    """Names and values in one line."""
    return ", ".join(f"{key}={text(value)}" for key, value in values.items())


def text(value: object) -> str:
    """A value as text; mappings, which files hold as JSON, as pairs."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return f"({pairs(value)})" if isinstance(value, Mapping) else str(value)
