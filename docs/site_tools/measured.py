"""Pages of studies and benchmarks as pages of the site, so that the site has the numbers of their result files."""

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
FOLDER = "measured"
ROOMS = ("studies", "benchmarks")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")


def write(app: Sphinx, config: object) -> None:
    """Mirror every page and picture into `measured/`, at the same place as in the repository."""
    target = Path(app.srcdir) / FOLDER
    shutil.rmtree(target, ignore_errors=True)
    for room in ROOMS:
        found = [*(ROOT / room).rglob("*.md"), *(ROOT / room).rglob("*.png")]
        for source in sorted(
            file for file in found if file.name != "page.md"
        ):  # text of a report, without its numbers
            copy = target / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
        front = target / room / "README.md"
        pages = sorted(
            (page for page in (target / room).rglob("*.md") if page != front),
            key=lambda page: (page.parent, page.name != "README.md"),
        )
        entries = "\n".join(_entry(page, front.parent) for page in pages)
        text = f"{front.read_text(encoding='utf-8')}\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{entries}\n```\n"
        front.write_text(text, encoding="utf-8")


def _entry(page: Path, room: Path) -> str:
    """Line of a table of contents; a page of results bears the name of its study."""
    name = page.relative_to(room).with_suffix("")
    title = page.read_text(encoding="utf-8").split("\n", 1)[0].strip("# ")
    if page.name == "README.md":
        return str(name)
    return f"{name.parts[0]}: {title} <{name}>"


def follow_links(app: Sphinx, docname: str, content: list[str]) -> None:
    """Point links that leave the site to copies within the site; turn links without a copy into plain text."""
    if Path(app.env.doc2path(docname)).suffix != ".md":
        return
    site, here = Path(app.srcdir), Path(app.env.doc2path(docname)).parent
    place = ROOT / here.relative_to(site / FOLDER) if here.is_relative_to(site / FOLDER) else here

    def changed(match: re.Match) -> str:
        label, link, anchor = match.groups()
        linked = (place / link).resolve()
        found = linked if linked.is_relative_to(site) else site / FOLDER / linked.relative_to(ROOT)
        found = found / "README.md" if found.is_dir() and not found.suffix else found
        if found.suffix not in (".md", ".png") or not found.exists():
            return f"`{label}`"
        up = Path(*[".."] * len(here.relative_to(site).parts)) / found.relative_to(site)
        return f"[{label}]({up}{anchor or ''})"

    content[0] = LINK.sub(changed, content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", write)
    app.connect("source-read", follow_links)
    return {"parallel_read_safe": True}
