"""A page of HTML in one file: headings, tables, text and pictures, with nothing to load from elsewhere."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import IO, Protocol


class Drawing(Protocol):
    """A figure: what can write itself as a picture."""

    def savefig(self, file: IO[bytes], *, format: str, dpi: float) -> None: ...


STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td { padding: .15rem .8rem .15rem 0; vertical-align: top; overflow-wrap: anywhere; }
th { text-align: left; padding-right: .8rem; }
td:first-child { opacity: .7; white-space: nowrap; }
img { max-width: 100%; background: white; }
pre { overflow-x: auto; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole file."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "\n".join([f"<h1>{escape(title)}</h1>", *parts])
    return f"<!doctype html>\n<html lang='en'><head>{head}<style>{STYLE}</style></head>\n<body>{body}</body></html>\n"


def section(title: str, *parts: str) -> str:
    """A heading with what belongs to it."""
    return "\n".join([f"<h2>{escape(title)}</h2>", *parts])


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows of text."""
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def text(plain: str) -> str:
    """Text as it is printed."""
    return f"<pre>{escape(plain)}</pre>"


def picture(figure: Drawing, described: str) -> str:
    """A figure, within the page."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120)
    coded = base64.b64encode(data.getvalue()).decode()
    return f'<img alt="{escape(described, quote=True)}" src="data:image/png;base64,{coded}">'
