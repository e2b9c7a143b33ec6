"""What a claim is made of, and how parts that were measured become a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from studies.paper.comparison import ratio
from studies.paper.results import Results
from studies.paper.tables import NAME_OF, Choices, Entry, measure, reference

YES, NO, OPEN, MISSING = "yes", "no", "open", "missing"
"""Outcomes of a part: it is so, it is not so, the seeds do not decide it, nothing was measured."""
HOLDS, PARTLY, FAILS, UNTESTABLE = "holds", "holds in part", "does not hold", "not testable"
NAMED = 4
"""How many parts that are not so are named beside a verdict."""
ENTRIES = {entry[:5]: entry for entry in reference()}


class Part(NamedTuple):
    """One thing that a claim says: the outcome, and the numbers that it rests on."""

    outcome: str
    numbers: str


class Verdict(NamedTuple):
    """A claim, judged."""

    statement: str
    verdict: str
    parts: tuple[Part, ...]
    why: str


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, in our words, and how to look whether it is so."""

    statement: str
    parts: Callable[[Results], Sequence[Part]]

    def judge(self, results: Results) -> Verdict:
        """The verdict on what was measured."""
        parts = tuple(self.parts(results))
        return Verdict(self.statement, _verdict(parts), parts, _why(parts))


CLAIMS: list[Claim] = []
"""Every claim, in the order of the paper."""


def claim(statement: str) -> Callable[[Callable[[Results], Sequence[Part]]], Callable[[Results], Sequence[Part]]]:
    """Adds a function that gives the parts of this statement to `CLAIMS`."""

    def register(parts: Callable[[Results], Sequence[Part]]) -> Callable[[Results], Sequence[Part]]:
        CLAIMS.append(Claim(statement, parts))
        return parts

    return register


def values(results: Results, table: str, system: str, method: str, condition: str, metric: str) -> np.ndarray | None:
    """Ours for a published entry, one per seed; None where they are missing. Methods by romkit's names."""
    measured = measure(results, entry(table, system, method, condition, metric), Choices())
    return None if measured is None else measured.values


def entry(table: str, system: str, method: str, condition: str, metric: str) -> Entry:
    """The published entry of a method by romkit's name."""
    return ENTRIES[table, system, NAME_OF[method], condition, metric]


def lower(label: str, a: np.ndarray | None, b: np.ndarray | None, *, below: float = 1.0) -> Part:
    """Whether the mean of a is lower than `below` times that of b, by the interval of their ratio."""
    if a is None or b is None:
        return missing(label)
    compared = ratio(a, b * below)
    outcome = {True: YES, False: NO, None: OPEN}[compared.below_one]
    return Part(outcome, f"{label}: {spread(a)} against {spread(b)}, ratio {ratio(a, b)}")


def fact(label: str, holds: bool) -> Part:
    """A part that needs no test."""
    return Part(YES if holds else NO, label)


def missing(label: str) -> Part:
    """A part of which nothing was measured."""
    return Part(MISSING, f"{label}: not measured")


def spread(values: np.ndarray) -> str:
    """Mean ± standard deviation over seeds."""
    with np.errstate(invalid="ignore"):
        return f"{np.mean(values):.3g} ± {np.std(values):.2g}"


def _verdict(parts: Sequence[Part]) -> str:
    """What the parts that were measured say; "so far" where others could still change it."""
    measured = [part for part in parts if part.outcome != MISSING]
    if not measured:
        return UNTESTABLE
    so = sum(part.outcome == YES for part in measured)
    if 0 < so < len(measured):
        return PARTLY
    return (HOLDS if so else FAILS) + (" so far" if len(measured) < len(parts) else "")


def _why(parts: Sequence[Part]) -> str:
    """How many parts are so, and which are not."""
    text = [f"{sum(part.outcome == YES for part in parts)} of {len(parts)} parts so"]
    for outcome, name in ((NO, "not so"), (OPEN, "undecided by the seeds"), (MISSING, "not measured")):
        labels = [part.numbers.split(": ")[0] for part in parts if part.outcome == outcome]
        more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
        text += [f"{name}: {'; '.join(labels[:NAMED])}{more}"] if labels else []
    return ". ".join(text)
