"""Notation of a table of text: its separator, its decimal sign, and what is a number or a date."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

COMMENT = ("#", "%", "!", "//", "@")
"""Beginnings of lines of comment."""

BLANKS = r"\s+"
"""Separator of columns that are aligned by blanks."""

SEPARATORS = (";", "\t", ",", BLANKS)

JUDGED_BY = 60
"""Last ones of these lines, in which separators are counted."""

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eEdD][-+]?[0-9]+)?|[-+]?(inf|nan)", re.I)
"""A number, perhaps with the exponent of Fortran."""

CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"

DATE = re.compile(
    r"([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})"
    rf"([ T]{CLOCK})?(Z|[-+][0-9]{{2}}:?[0-9]{{2}})?|{CLOCK}"
)
"""A date, a time of day, or both."""

IN_PARENTHESES = re.compile(r'^\s*\(("[^()]*")\)\s*$')
"""A line of names in quotes, all of them in parentheses."""


@dataclass(frozen=True)
class Notation:
    """Separators of columns, and between the digits of a number."""

    separator: str

    decimal: str = "."

    def cells(self, line: str) -> list[str]:
        """The cells of a line, without blanks around."""
        if self.separator == BLANKS:
            # Fluent has its names in parentheses
            line = IN_PARENTHESES.sub(r"\1", line)
            return re.findall(r'"[^"]*"|\S+', line)
        row = next(csv.reader([line], delimiter=self.separator, skipinitialspace=True), [])
        return [cell.strip() for cell in row]

    def is_value(self, cell: str) -> bool:
        """Whether a cell holds a number or a date."""
        text = cell.strip('"')
        if DATE.fullmatch(text):
            return True
        if self.decimal == ",":
            text = text.replace(",", ".")
        return NUMBER.fullmatch(text) is not None


def is_comment(line: str) -> bool:
    return line.lstrip().startswith(COMMENT)


def notation_of(lines: Sequence[str]) -> Notation:
    """The notation by which most cells of the last lines are numbers or dates, in most columns."""
    rows = [line for line in lines if line.strip() and not is_comment(line)]
    if not rows:
        return Notation(",")
    judged = rows[1:][-JUDGED_BY:] or rows
    best, best_score = Notation(","), (-1.0, 0)
    for separator in SEPARATORS:
        for decimal in (".", ","):
            if separator == decimal or not _is_used(separator, decimal, judged):
                continue
            notation = Notation(separator, decimal)
            score = _score(notation, judged)
            if score > best_score:
                best, best_score = notation, score
    return best


def _is_used(separator: str, decimal: str, lines: Sequence[str]) -> bool:
    """Whether most lines have a separator, and some a comma between digits if it is the decimal."""
    if separator != BLANKS:
        number = sum(separator in line for line in lines)
        if number < len(lines) / 2:
            return False
    return decimal == "." or any(re.search(r"[0-9],[0-9]", line) for line in lines)


def _score(notation: Notation, lines: Sequence[str]) -> tuple[float, int]:
    """Share of cells with values, empty ones aside, and number of cells."""
    values, texts, cells = 0, 0, 0
    for line in lines:
        row = notation.cells(line)
        cells += len(row)
        for cell in row:
            if notation.is_value(cell):
                values += 1
            elif cell:
                texts += 1
    share = values / max(values + texts, 1)
    return round(share, 3), cells
