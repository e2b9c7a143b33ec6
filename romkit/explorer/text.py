"""Text of the page, in which nothing of a file becomes an element."""

import panel as pn

from romkit.core.display import as_plain_markdown


def text(content: str, **look: object) -> pn.pane.Markdown:
    """Pane of Markdown in which HTML is text: names in files of others must not become elements."""
    return pn.pane.Markdown(
        content, renderer="markdown-it", renderer_options={"html": False}, **look
    )


def of_error(error: Exception) -> str:
    """Return an error in bold, without the links and pictures that a name in it may spell."""
    return f"**{as_plain_markdown(str(error))}**"
