"""Commands of `romkit` that show what a file holds: `plot`, as a picture or an animation, and
`report`, as one page of HTML.

A page is written in Markdown first, with figures by name, and rendered with them.
"""

import base64
import functools
import html
import io
import itertools
import mimetypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import romkit
from romkit.cli import facts, inputs, output, results
from romkit.core import checks
from romkit.core.errors import FileError

if TYPE_CHECKING:
    import xarray as xr
    from markdown_it.token import Token

    from romkit.plotting.style import Figure


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
    sources: Annotated[list[str], Argument(metavar="FILE")],
    out: Path | None = None,
) -> None:
    """Write one HTML file with figures, tables and provenance; it needs nothing else to be read.

    FILE is what `romkit rollout`, `fit`, `law` or `dataset` wrote, or the REPORT.md of a study. The
    page is named after the file or its folder.

    \b
    Examples:
      romkit report runs/rollout-lorenz96/rollout.nc
      romkit report ncae-lorenz96 --out model.html
      romkit report studies/paper/results/REPORT.md

    Args:
        sources: Files by romkit, a REPORT.md, or a pretrained model; a page for each.
        out: Page to write, of one file; report-NAME.html by default.
    """
    for source, target in results.result_targets(sources, out, "report-{}.html").items():
        _write_page(source, target)


def _write_page(source: str, target: Path) -> None:
    from romkit.core.files import atomic, existing, make_folder

    file = Path(source)
    if file.suffix == ".md":
        markdown = existing(file).read_text(encoding="utf-8", errors="replace")
        text = page(markdown, file.stem, functools.partial(_picture, file.parent))
    else:
        described, figures = _described(source)
        text = page(f"# {file.stem}\n\n{described}", file.stem, figures.__getitem__)
    make_folder(target.parent)
    with atomic(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    output.add(**{source: str(target)})
    output.wrote(target)


def page(text: str, title: str, picture: Callable[[str], bytes]) -> str:
    """Return Markdown as one file of HTML with its pictures, whose bytes `picture` gives; a heading
    replaces `title`.
    """
    markdown_it = checks.extra("report", "markdown_it", "report")
    # raw HTML stays text: the report may come from a stranger
    markdown = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for token in tokens:
        for child in token.children or ():
            if child.type == "image":
                # within the page, which goes to others without its folder
                name = str(child.attrs["src"])
                content = picture(name)
                # address that holds a picture
                kind = mimetypes.guess_type(name)[0] or "image/png"
                child.attrs["src"] = f"data:{kind};base64,{base64.b64encode(content).decode()}"
            elif child.type.startswith("link"):  # to files that the page leaves behind
                child.tag, child.attrs = "em", {}
    title = _heading(tokens) or title
    body = markdown.renderer.render(tokens, markdown.options, {})
    head = f"{HEAD}<title>{html.escape(title)}</title>"
    return f"<!doctype html>\n<html lang='en'><head>{head}</head>\n<body>{body}</body></html>\n"


def _heading(tokens: "Sequence[Token]") -> str:
    """Return the text of the first heading of level one."""
    for token, text in itertools.pairwise(tokens):
        if token.tag == "h1":
            return text.content
    return ""


def _picture(folder: Path, name: str) -> bytes:
    """Return the content of a picture that a report shows.

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
            problem="is no picture below the folder of the report, and the page would pass it on",
            fix=f"put it there, as {', '.join(PICTURES)}, or drop it from the report",
        )
    return existing(file).read_bytes()


def _described(source: str) -> tuple[str, dict[str, bytes]]:
    """Return the facts and pictures in Markdown, and the pictures by file name."""
    figures: dict[str, Figure] = {}
    is_model = Path(source).suffix == ".safetensors"
    if is_model or source in romkit.projections.pretrained():
        model = romkit.load(source)
        described = facts.model_facts(model)
        if isinstance(model, romkit.projections.Projection):
            described["made_by"] = model.report.get("versions", {})
            if model.curves()[1]:
                figures["training"] = romkit.plotting.plot_training(model)
    else:
        data = romkit.data.open_dataset(source)
        described = facts.data_facts(data)
        if "truth" in data:
            described = facts.run_facts(data) | {"attributes": described["attributes"]}
            figures["rollout"] = romkit.plotting.plot_rollout(data)
            figures["latent"] = romkit.plotting.plot_latent(data)
    pictures = [f"![{name}]({name}.png)" for name in figures]
    contents = {f"{name}.png": _png(figure) for name, figure in figures.items()}
    return "\n\n".join([*pictures, facts.format_markdown(described)]), contents


def _png(figure: "Figure") -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120)
    return data.getvalue()


MOVIES = (".gif", ".mp4")
"""Endings for which fields over a plane are animated."""


def plot(
    sources: Annotated[list[str], Argument(metavar="FILE")],
    variable: str | None = None,
    truth: Annotated[str | None, Option(metavar="FILE")] = None,
    out: Path | None = None,
) -> None:
    """Draw what a file holds.

    A rollout is drawn as truth, reduced model and difference; a forecast with its interval; fields
    over a plane as maps at some times, and as an animation where the picture is a .gif or .mp4;
    fields along a line against time; other states as curves. Data that romkit did not write are
    described first.

    \b
    Examples:
      romkit plot runs/rollout-lorenz96/rollout.nc
      romkit plot runs/forecast/forecast.nc --truth held-out.nc --out forecast.pdf
      romkit plot flow.nc --variable u --out flow.gif

    Args:
        sources: Data, forecasts or rollouts; a picture for each.
        variable: The variable of a field to show.
        truth: Data to draw beside a forecast.
        out: Picture to write, of one file; NAME.png by default.
    """
    for source, target in results.result_targets(sources, out, "{}.png").items():
        _draw(source, target, variable, truth)


def _draw(source: str, target: Path, variable: str | None, truth: str | None) -> None:
    from romkit import plotting

    data = _opened(source)
    output.add(**{source: str(target)})
    if target.suffix.lower() in MOVIES:
        movie = plotting.animate(data, variable=variable)
        output.wrote(plotting.save_animation(movie, target))
        return
    output.wrote(plotting.save_figure(_figure(data, variable, truth), target))


def _opened(source: str) -> "xr.Dataset":
    """Return data of romkit, or of its user's habit, which are described first."""
    if Path(source).suffix.lower() == ".csv":
        return romkit.data.describe(inputs.read_own(source))
    data = romkit.data.open_dataset(source)
    of_romkit = "component" in data.dims or "layout" in data.attrs
    if of_romkit or "truth" in data:
        return data
    return romkit.data.describe(data)


def _figure(data: "xr.Dataset", variable: str | None, truth: str | None) -> "Figure":
    """Return the figure that suits the data."""
    from romkit import plotting
    from romkit.data.grids import stack_components
    from romkit.plotting.forecasts import plot_courses

    if "truth" in data and variable is None:
        return plotting.plot_rollout(data)
    data = stack_components(data)
    if "lower" in data and variable is None:
        beside = None
        if truth is not None:
            beside = romkit.data.open_dataset(truth)
        return plotting.plot_forecast(data, beside)
    dimensions = _dimensions(data, variable)
    if 2 in dimensions:
        return plotting.plot_frames(data, variable=variable)
    if 1 in dimensions:
        return plotting.plot_space_time(data, variable=variable)
    return plot_courses(data)


def _dimensions(data: "xr.Dataset", variable: str | None) -> list[int]:
    """Return numbers of dimensions of the variables, or of the one that is named."""
    from romkit.data.layout import layout_of
    from romkit.data.spelling import known_name

    dimensions = {entry.name: len(entry.dims) for entry in layout_of(data).variables}
    if variable is None:
        return list(dimensions.values())
    return [dimensions[known_name("variable", variable, dimensions)]]
