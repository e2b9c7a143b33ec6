"""`romkit report`: a run, a model, a law, a basis, a dataset or the report of a study as one HTML
file.

Each is written in Markdown first, with figures by name, and rendered as a page that holds its
figures.
"""

import base64
import functools
import html
import io
import itertools
import mimetypes
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import romkit
from romkit.cli import describe, options
from romkit.core.display import as_plain_markdown
from romkit.core.errors import FileError

RESULTS = ("comparison", "data", "forecast", "law", "projection", "rollout")
"""File names that commands give their results, in folders that are named after the source."""

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp")
"""Endings of files that a report may show."""

HEAD = """<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td { padding: .15rem .8rem .15rem 0; vertical-align: top; overflow-wrap: anywhere; }
th { text-align: left; padding-right: .8rem; }
td:first-child { opacity: .7; white-space: nowrap; }
img { max-width: 100%; background: white; }
pre { overflow-x: auto; }
</style>"""


def report(
    source: Annotated[
        str, Argument(metavar="FILE", help="A file by romkit, a REPORT.md, or a pretrained model.")
    ],
    out: Annotated[Path | None, Option(help="File to write; report-NAME.html by default.")] = None,
) -> None:
    """Write one HTML file with figures, tables and provenance; it needs nothing else to be read.

    FILE is what `romkit rollout`, `fit`, `law` or `dataset` wrote, or the REPORT.md of a study. The
    page is named after the file or its folder.

    \b
    Examples:
      romkit report runs/rollout-lorenz96/rollout.nc
      romkit report ncae-lorenz96 --out model.html
      romkit report studies/paper/results/REPORT.md
    """  # noqa: D301, typer keeps the lines after \b as they are
    file = Path(source)
    name = file.parent.name if file.stem in RESULTS and file.parent.name else file.stem
    target = options.writable(out or Path(f"report-{name}.html"))
    from romkit.core.files import atomic, existing, make_folder

    if file.suffix == ".md":
        markdown = existing(file).read_text(errors="replace")
        text = page(markdown, file.stem, functools.partial(_picture_below, file.parent))
    else:
        sections, figures = _described(source)
        text = page("\n\n".join([f"# {file.stem}", *sections]), file.stem, figures.__getitem__)
    make_folder(target.parent)
    with atomic(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(f"wrote {target}")


def page(text: str, title: str, picture: Callable[[str], bytes]) -> str:
    """Markdown as one file of HTML with its pictures, whose bytes `picture` gives; a heading
    replaces `title`.
    """
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for part in (child for token in tokens for child in token.children or ()):
        if part.type == "image":
            name = str(part.attrs["src"])
            kind = mimetypes.guess_type(name)[0] or "image/png"
            part.attrs["src"] = f"data:{kind};base64,{base64.b64encode(picture(name)).decode()}"
        elif part.type.startswith("link"):  # to files that the page leaves behind
            part.tag, part.attrs = "em", {}
    title = next(
        (below.content for token, below in itertools.pairwise(tokens) if token.tag == "h1"), title
    )
    body = markdown.renderer.render(tokens, markdown.options, {})
    head = f"{HEAD}<title>{html.escape(title)}</title>"
    return f"<!doctype html>\n<html lang='en'><head>{head}</head>\n<body>{body}</body></html>\n"


def _picture_below(folder: Path, name: str) -> bytes:
    """Content of a picture that a report shows.

    The report may be a stranger's and the page goes to others, so only pictures below the report's
    folder are read.

    Raises:
        FileError: another place, another kind of file, or no such file.
    """
    from romkit.core.files import existing

    file = (folder / name).resolve()
    if file.suffix.lower() not in PICTURES or not file.is_relative_to(folder.resolve()):
        raise FileError(
            name,
            problem="is no picture below the folder of the report",
            fix=f"put it there, as {', '.join(PICTURES)}, or drop it from the report",
        )
    return existing(file).read_bytes()


def _described(source: str) -> tuple[list[str], dict[str, bytes]]:
    """Sections in Markdown, and the pictures that they show, by file name."""
    if source in romkit.projections.pretrained() or Path(source).suffix == ".safetensors":
        model = romkit.load(source)
        if not isinstance(model, romkit.projections.Projection):
            title = "Basis" if isinstance(model, romkit.bases.Basis) else "Law"
            return [_printed(title, describe.model(model))], {}
        sections = [
            _printed("Model", describe.model(model)),
            _facts("Made by", model.report.get("versions", {})),
        ]
        if not model.curves()[1]:
            return sections, {}
        curve = "## Training\n\n![loss over epochs](training.png)"
        return [curve, *sections], {"training.png": _png(romkit.plotting.plot_training(model))}
    data = romkit.data.open_dataset(source)
    provenance = _facts(
        "Provenance", {name: value for name, value in data.attrs.items() if value != ""}
    )
    if "truth" not in data:
        return [_printed("Contents", describe.dataset(data.drop_attrs(deep=False))), provenance], {}
    sections = [
        "## Errors\n\n![full and reduced model, error over time](rollout.png)",
        _printed("In numbers", describe.run(data)),
        "## Latent state\n\n![latent state](latent.png)",
        provenance,
    ]
    rollout, latent = romkit.plotting.plot_rollout(data), romkit.plotting.plot_latent(data)
    return sections, {"rollout.png": _png(rollout), "latent.png": _png(latent)}


def _printed(title: str, text: str) -> str:
    """Section with a text as it is printed: an indented block, in which nothing is markup."""
    return f"## {title}\n\n{textwrap.indent(text, '    ')}"


def _facts(title: str, values: Mapping[str, object]) -> str:
    """Section with a table of names and values, in which every character that could be markup is
    escaped.
    """
    rows = [f"## {title}\n\n| | |\n|---|---|"]
    for name, value in values.items():
        rows.append(f"| {as_plain_markdown(str(name))} | {as_plain_markdown(str(value))} |")
    return "\n".join(rows)


def _png(figure: object) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120)
    return data.getvalue()
