"""Claims of the paper (claims.toml), judged by what was measured."""

import functools
import itertools
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.stats import wilcoxon

from studies.paper import tables
from studies.paper.datasets import METHODS
from studies.paper.tables import Results

YES, NO, OPEN, MISSING = "yes", "no", "open", "missing"
"""Outcomes of a part: it is so, it is not so, the seeds do not decide it, nothing was measured."""
HOLDS, PARTLY, FAILS, UNTESTABLE = "holds", "holds in part", "does not hold", "not testable"
NAMED = 4
"""How many parts that are not so are named beside a verdict."""
RESAMPLES, LEVEL = 4000, 0.95
"""Of the bootstrap over seeds."""
ENTRIES = {entry[:5]: entry for entry in tables.reference()}
DEFAULTS = {
    "table": "reconstruction",
    "condition": "clean",
    "method": "ncae",
    "factor": 1.0,
    "label": "",
}
Row = Mapping[str, object]


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


class Ratio(NamedTuple):
    """mean(a) / mean(b) over seeds, its 95 % bootstrap interval, and the p-value of Wilcoxon's
    signed-rank test.
    """

    value: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}], p = {self.p:.2g}"


Test = Callable[[Results, Row], Part | list[Part]]
T = TypeVar("T")


class Missing(Exception):
    """Nothing was measured of what a part is about."""


def judge(results: Results) -> list[Verdict]:
    """Verdicts on all claims, in the order of the paper."""
    text = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
    verdicts = []
    for claim in text["claim"]:
        rows = [row for each in claim["parts"] for row in _expanded(each, text)]
        parts = tuple(part for row in rows for part in _parts(results, row))
        measured = [part for part in parts if part.outcome != MISSING]
        so = sum(part.outcome == YES for part in measured)
        verdict = PARTLY
        if not measured:
            verdict = UNTESTABLE
        elif so in (0, len(measured)):  # the parts that are missing could still change it
            verdict = (HOLDS if so else FAILS) + (" so far" if len(measured) < len(parts) else "")
        verdicts.append(Verdict(claim["statement"], verdict, parts, _why(parts)))
    return verdicts


def _parts(results: Results, row: Row) -> list[Part]:
    try:
        found = TESTS[row["test"]](results, row)
    except Missing:
        return [Part(MISSING, f"{row['label']}: not measured")]
    return [found] if isinstance(found, Part) else found


def _expanded(row: Row, groups: Row) -> Iterator[dict[str, object]]:
    """Yield rows for all combinations of listed values; `along` and `worst_of` are lists of a
    single row.
    """
    whole = {
        k: groups[v[1:]] if isinstance(v, str) and v.startswith("@") else v for k, v in row.items()
    }
    axes = [k for k, v in whole.items() if isinstance(v, list) and k not in ("along", "worst_of")]
    for values in itertools.product(*(whole[k] for k in axes)):
        one = DEFAULTS | whole | dict(zip(axes, values, strict=True))
        yield one | {"label": one["label"].format(**one)}


def _why(parts: Sequence[Part]) -> str:
    """Return how many parts are so, and which are not."""
    text = [f"{sum(part.outcome == YES for part in parts)} of {len(parts)} parts so"]
    for outcome, name in (
        (NO, "not so"),
        (OPEN, "undecided by the seeds"),
        (MISSING, "not measured"),
    ):
        labels = [part.numbers.split(": ")[0] for part in parts if part.outcome == outcome]
        more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
        text += [f"{name}: {'; '.join(labels[:NAMED])}{more}"] if labels else []
    return ". ".join(text)


@functools.cache
def _bootstrap(number: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, number, size=(RESAMPLES, number))


def ratio(a: np.ndarray, b: np.ndarray) -> Ratio:
    """Return ratio of the means of a and b (S,), positive; the seeds of both are resampled
    together.

    An infinite value counts: the ratio is then 0 or infinite, and NaN, which decides nothing, if
    both are. The p-value is of the ranks of ln(a / b), which infinities cannot upset; 1 where
    nothing differs.
    """
    draws = _bootstrap(len(a))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios, tail = a[draws].mean(1) / b[draws].mean(1), (1 - LEVEL) / 2
        known = ratios[~np.isnan(ratios)]
        low, high = (
            np.quantile(known, (tail, 1 - tail)) if np.isfinite(ratios).any() else (0, np.inf)
        )
        logs = np.nan_to_num(np.log(a) - np.log(b), nan=0.0, posinf=1e9, neginf=-1e9)
        p = float(wilcoxon(logs).pvalue) if np.any(logs) else 1.0
        return Ratio(float(a.mean() / b.mean()), float(low), float(high), p)


def compare(label: str, a: np.ndarray, b: np.ndarray, factor: float = 1.0) -> Part:
    """Tell whether the mean of a is lower than `factor` times that of b, by the interval of their
    ratio.
    """
    scaled = ratio(a, b * factor)
    outcome = YES if scaled.high < 1 else NO if scaled.low > 1 else OPEN
    return Part(outcome, f"{label}: {spread(a)} against {spread(b)}, ratio {ratio(a, b)}")


def spread(values: np.ndarray) -> str:
    """Return mean ± standard deviation over seeds."""
    with np.errstate(invalid="ignore"):
        return f"{np.mean(values):.3g} ± {np.std(values):.2g}"


def _fact(label: str, holds: bool) -> Part:
    return Part(YES if holds else NO, label)


def _entry(row: Row) -> tables.Entry | None:
    where = (
        row["table"],
        row["system"],
        tables.NAME_OF[row["method"]],
        row["condition"],
        row["metric"],
    )
    return ENTRIES.get(where)


def _values(results: Results, row: Row, **others: str) -> np.ndarray:
    """Ours for a published entry, one per seed."""
    return _there(tables.measure(results, _entry({**row, **others}))).values


def _there(found: T | None) -> T:
    """Return a result. Raises `Missing` where it is None."""
    if found is None:
        raise Missing
    return found


def _other(row: Row) -> dict[str, str]:
    """Return what is different on the other side of a comparison."""
    names = {"than": "method", "than_table": "table", "than_condition": "condition"}
    return {own: row[name] for name, own in names.items() if name in row}


def _lower(results: Results, row: Row) -> Part:
    ours = _values(results, row)
    if "worst_of" in row:
        ours = max((_values(results, row, method=name) for name in row["worst_of"]), key=np.mean)
    return compare(row["label"], ours, _values(results, row, **_other(row)), row["factor"])


def _not_lower(results: Results, row: Row) -> Part:
    part = _lower(results, row)
    return _fact(part.numbers, part.outcome != YES)


def _varies(results: Results, row: Row) -> Part:
    sides = row, {**row, **_other(row)}
    a, b = (np.std(_values(results, side)) for side in sides)
    published = " against ".join(f"{_entry(side).std:g}" for side in sides)
    numbers = f"standard deviation {a:.2g} ({row['method']}) against {b:.2g} ({row['than']})"
    return _fact(f"{row['label']}: {numbers}; published {published}", bool(a > row["factor"] * b))


def _monotone(results: Results, row: Row) -> Part:
    found = [_values(results, row, table="reconstruction")]
    found += [_values(results, row, condition=condition) for condition in row["along"]]
    grows = bool(np.all(np.diff([float(np.mean(values)) for values in found]) > 0))
    return _fact(f"{row['label']}: {' -> '.join(map(spread, found))}", grows)


def _means(results: Results, row: Row) -> dict[str, float | None]:
    """Return mean over seeds of each method that the paper has in this column."""
    entries = {method: _entry({**row, "method": method}) for method in tables.NAME_OF}
    found = {method: tables.measure(results, entry) for method, entry in entries.items() if entry}
    return {
        method: None if each is None else float(np.mean(each.values))
        for method, each in found.items()
    }


def _best(results: Results, row: Row) -> Part:
    means = {
        k: mean for k, mean in _means(results, row).items() if k != "ncae" and mean is not None
    }
    rival = _there(min(means, key=means.get, default=None))
    label = f"{row['label']}, ncae below the best baseline, {rival}"
    return compare(label, _values(results, row), _values(results, row, method=rival))


def _wins(results: Results, row: Row) -> list[Part]:
    """Return how many of the conditions with noise, of which all methods were measured, each method
    is best in.
    """
    winners: Counter[str] = Counter()
    columns = dict.fromkeys(
        (e.table, e.system, e.condition, e.metric) for e in ENTRIES.values() if "noise" in e.table
    )
    for table, system, condition, metric in columns:
        means = _means(
            results, {"table": table, "system": system, "condition": condition, "metric": metric}
        )
        if None not in means.values():
            winners[min(means, key=means.get)] += 1
    ours, measured = winners["ncae"], _there(sum(winners.values()) or None)
    counts = ", ".join(f"{method} {count}" for method, count in winners.most_common())
    others = max((count for method, count in winners.items() if method != "ncae"), default=0)
    part, whole = map(int, row["at_least"].split(" of "))
    label = f"lowest mean error in {measured} measured conditions of {len(columns)}: {counts}"
    share = f"ncae in {ours} of {measured} ({ours / measured:.0%}; {part} of {whole} is {100 * part / whole:.0f} %)"
    return [_fact(label, ours > others), _fact(share, ours / measured >= part / whole)]


def _diverges(results: Results, row: Row) -> Part:
    data = _there(results.find("clean", row["system"], row["method"]))
    lost = int(data["diverged"].sum())
    label = f"{row['label']}: {lost} of {data.sizes['seed']} seeds diverge"
    return _fact(label, (lost > 0) == (row["method"] == row["only"]))


def _idempotent(results: Results, row: Row) -> Part:
    data = _there(results.find("clean", row["system"], row["method"]))
    largest = data["idempotency_error"].values.mean(0).max()
    return _fact(
        f"{row['label']}: largest mean over the steps {largest:.2g}", bool(largest <= row["bound"])
    )


def _of_values(holds: Callable[[np.ndarray, Row], bool]) -> Test:
    """Test of one column by itself."""

    def test(results: Results, row: Row) -> Part:
        values = _values(results, row)
        return _fact(f"{row['label']}: {spread(values)}", holds(values, row))

    return test


def _measured(results: Results, row: Row) -> Part:
    """Tell whether a number of NcAE's propositions is within its bound for all seeds."""
    values = _there(results.find("clean", row["system"], "ncae"))[row["name"]].values
    low, high = values.min(), values.max()
    holds = high <= row["less"] if "less" in row else low >= row["more"]
    return _fact(
        f"{row['system']}, {row['label']}: {low:.2g} to {high:.2g} over seeds", bool(holds)
    )


def _switches(results: Results, row: Row) -> list[Part]:
    """Where the wave number of Lorenz96 changes."""
    data = _there(results.bifurcation)
    F, numbers = data["forcing"].values, data["wave_number"].values
    changes = np.flatnonzero(np.diff(numbers))
    places = ", ".join(
        f"{numbers[k]} to {numbers[k + 1]} between {F[k]:.4f} and {F[k + 1]:.4f}" for k in changes
    )
    first, last, once = int(numbers[0]), int(numbers[-1]), len(changes) == 1
    ends = f"wave number {first} at F = {F[0]:.3f}, {last} at F = {F[-1]:.3f}"
    near = f"the change is within {row['within']} of {row['at']}"
    return [
        _fact(ends, (first, last) == (row["from"], row["to"])),
        _fact(f"changes: {places or 'none'}", once),
        _fact(near, once and abs(F[changes[0]] - row["at"]) < row["within"]),
    ]


def _velocity_term(results: Results, row: Row) -> Part:
    """Tell whether the published errors of a method fit a training with the velocity term better."""
    on, off = (tables.velocity_mismatch(results, row["method"], weight) for weight in (1.0, 0.0))
    numbers = f"mean |ln(ours / published)| {on:.2f} with the term, {off:.2f} without"
    return _fact(f"{row['label']}: {_there(None if np.isnan(on + off) else numbers)}", on < off)


def _best_tuned(results: Results, row: Row) -> Part:
    found = {method: results.find("tuned", row["system"], method) for method in METHODS}
    errors = {
        method: tables.errors_of(data, row["metric"])
        for method, data in found.items()
        if data is not None
    }
    rival = _there(
        min(errors.keys() - {"ncae"}, key=lambda method: np.mean(errors[method]), default=None)
    )
    label = f"{row['label']}, tuned ncae below the best tuned baseline, {rival}"
    return compare(label, _there(errors.get("ncae")), errors[rival])


TESTS: dict[str, Test] = {
    "lower": _lower,
    "not lower": _not_lower,
    "varies": _varies,
    "varies by its mean": _of_values(lambda values, row: bool(np.std(values) > np.mean(values))),
    "above": _of_values(lambda values, row: bool(np.mean(values) > row["bound"])),
    "below": _of_values(lambda values, row: bool(np.mean(values) < row["bound"])),
    "monotone": _monotone,
    "best": _best,
    "wins": _wins,
    "diverges": _diverges,
    "idempotent": _idempotent,
    "measured": _measured,
    "switches": _switches,
    "velocity term": _velocity_term,
    "best tuned": _best_tuned,
}
