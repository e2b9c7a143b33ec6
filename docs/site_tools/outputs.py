"""Outputs of the Python blocks of a page, beneath them: what they print, and the figures that they make.

`python -m docs.site_tools.outputs docs/guide/own_data.md` runs the blocks of pages, and writes outputs and pictures into
them, so that they show in the repository. When the site is built, the pages of `WOVEN` run again; with `--check` pages are
compared with what their blocks print now, and stay as they are.
"""

import contextlib
import io
import itertools
import math
import os
import re
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/figures/pages"
WOVEN = ("guide/first_model", "guide/own_data", "howto/coming_from")
"""Pages of the site, without endings, whose outputs are made when it is built."""

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?P<output>(?:\n```text\n.*?^```\n|\n!\[[^\]]*\]\([^)]*figures/pages/[^)]*\)\n)*)",
    re.M | re.S,
)
"""A block of Python, and the outputs beneath it."""

WIDTH = 72
"""Columns of code and outputs."""

MOST = 24
"""Lines of an output that are shown; of more the first ones."""


def woven(page: Path, text: str, pictures: Path = PICTURES) -> str:
    """Return the text of a page with fresh outputs beneath its blocks, which are one script."""
    namespace: dict[str, object] = {"__name__": "page"}
    shown: set[int] = set()
    number = 0

    def run(match: re.Match[str]) -> str:
        nonlocal number
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(match["code"], page, "exec"), namespace)
        parts = [f"```python\n{match['code']}```\n"]
        lines = []
        for line in printed.getvalue().rstrip().splitlines():
            lines += textwrap.wrap(line, WIDTH, subsequent_indent=" " * 9) or [""]
        if lines:
            rest = [f"... ({len(lines) - MOST} more lines)"] if len(lines) > MOST else []
            output = "\n".join([*lines[:MOST], *rest])
            parts.append(f"\n```text\n{output}\n```\n")
        for value in list(namespace.values()):
            if isinstance(value, Figure) and id(value) not in shown:
                shown.add(id(value))
                number += 1
                path = pictures / f"{page.stem}-{number}.png"
                value.savefig(path, dpi=110)
                above = Path(os.path.relpath(path, page.parent)).as_posix()
                words = value.get_suptitle().splitlines() or ["the figure of these lines"]
                parts.append(f"\n![{words[0]}]({above})\n")
        return "".join(parts)

    pictures.mkdir(exist_ok=True)
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            return BLOCK.sub(run, text)
        finally:
            os.chdir(here)


def refresh(app: object, docname: str, content: list[str]) -> None:
    """Run the blocks of a page of `WOVEN` when the site reads it."""
    if docname in WOVEN and app.config.plot_gallery not in (0, False, "0"):
        content[0] = woven(Path(app.env.doc2path(docname)), content[0])


def setup(app: object) -> dict[str, bool]:
    """Connect before links are followed."""
    app.connect("source-read", refresh, priority=100)
    return {"parallel_read_safe": True}


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def differences(before: str, after: str, *, tolerance: float = 0.1) -> list[str]:
    """List lines of outputs that differ in words, or in numbers by more than rounding of machines."""
    differing = []
    pairs = zip(BLOCK.finditer(before), BLOCK.finditer(after), strict=True)
    for old, new in pairs:
        lines = [
            [line for line in block["output"].splitlines() if not line.startswith("![")]
            for block in (old, new)
        ]
        for was, is_now in itertools.zip_longest(*lines, fillvalue=""):
            numbers = [[*map(float, NUMBER.findall(line))] for line in (was, is_now)]
            words = [NUMBER.sub("", line).split() for line in (was, is_now)]
            # a clock shows another time at each run
            is_clock = "seconds" in was and words[0] == words[1]
            if not is_clock and (
                words[0] != words[1]
                or not all(
                    math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-6)
                    for a, b in zip(*numbers, strict=True)
                )
            ):
                differing.append(f"{was!r} is now {is_now!r}")
    return differing


if __name__ == "__main__":
    is_check, failed = "--check" in sys.argv, False
    for name in sys.argv[1:]:
        if name == "--check":
            continue
        file = Path(name).resolve()
        text = file.read_text(encoding="utf-8")
        if is_check:
            with tempfile.TemporaryDirectory() as folder:
                fresh = woven(file, text, Path(folder))
            found = differences(text, fresh)
            print(f"{name}: {len(found)} outputs differ", *found, sep="\n  ")
            failed = failed or bool(found)
        else:
            file.write_text(woven(file, text), encoding="utf-8")
    sys.exit(failed)
