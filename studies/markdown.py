"""Tables of a report."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown, and a line that says so where there is nothing to show."""
    if not rows:
        return "Nothing was measured.\n"
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)
