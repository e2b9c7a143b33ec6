"""Outputs of the Python blocks of a page, beneath them: what they print, and the figures that they make.

`python -m docs.site_tools.outputs docs/guide/own_data.md` runs the blocks of pages, and writes outputs and pictures into
them, so that they show in the repository. With `--check` pages stay as they are, and are compared with what their blocks
print now: `make reference`, and so CI, does that with the pages of `QUICK`, `make docs` with one of the others, too,
another one each day. `--check all` takes all, before a release say.
"""

import contextlib
import datetime
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
QUICK = (
    "docs/guide/systems.md",
    "docs/howto/coming_from.md",
    "docs/howto/hidden.md",
    "docs/howto/waves.md",
)
"""Pages whose blocks take seconds."""

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


def pages() -> list[Path]:
    """Return the pages of the site that have outputs."""
    texts = {page: page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("docs/*/*.md"))}
    return [page for page, text in texts.items() if any(m["output"] for m in BLOCK.finditer(text))]


def check(page: Path) -> bool:
    """Print the outputs of a page that differ from what its blocks print; tell whether there are none."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        found = differences(text, woven(page, text, Path(folder)))
    print(f"{page.relative_to(ROOT)}: {len(found)} outputs differ", *found, sep="\n  ", flush=True)
    return not found


def main() -> int:
    """Check the pages that are named, or `quick`, `turn` and `all`, or write their outputs."""
    names = [name for name in sys.argv[1:] if name != "--check"]
    quick = [ROOT / name for name in QUICK]
    others = [page for page in pages() if page not in quick]
    today = datetime.date.today().toordinal()
    lists = {"quick": quick, "turn": [others[today % len(others)]], "all": [*quick, *others]}
    chosen = [page for name in names for page in lists.get(name, [Path(name).resolve()])]
    if "--check" in sys.argv:
        return 0 if all([check(page) for page in chosen]) else 1
    for page in chosen:
        page.write_text(woven(page, page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
