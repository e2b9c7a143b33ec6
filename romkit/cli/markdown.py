"""Reports that studies write in Markdown, as HTML with their pictures within."""

import base64
import mimetypes
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from romkit.core.errors import FileError


def rendered(report: Path) -> tuple[str, str]:
    """The title of a file, and the HTML of what is below; what it shows is read from beside it.

    Raises:
        FileError: the file or one of its pictures cannot be read.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(_read(report).decode("utf-8"))
    title = report.stem
    if [token.tag for token in tokens[:3]] == ["h1", "", "h1"]:
        title, tokens = tokens[1].content, tokens[3:]
    for part in (child for token in tokens for child in token.children or ()):
        if part.type == "image":
            _put_within(part, report.parent)
        elif part.type.startswith("link"):  # to files that the page leaves behind
            part.tag, part.attrs = "em", {}
    return title, markdown.renderer.render(tokens, markdown.options, {})


def _put_within(image: Token, folder: Path) -> None:
    """A picture as part of the page, in place of where it is."""
    source = str(image.attrs["src"])
    kind = mimetypes.guess_type(source)[0] or "image/png"
    image.attrs["src"] = f"data:{kind};base64,{base64.b64encode(_read(folder / source)).decode()}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        fix = "give the REPORT.md of a study, with its pictures where they were written"
        raise FileError(path, problem=f"cannot be read ({error.strerror})", fix=fix) from error
