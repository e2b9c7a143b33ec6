"""RESULTS.md from results.json."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.harness import used
from benchmarks.outside import ours
from benchmarks.outside.ctf import SCORES
from benchmarks.outside.labels import FAMILIES
from studies.report import dots, filled, table

PUBLISHED = {
    "Lotka-Volterra": "9.4e-6 / 1.0e-6",
    "Selkov": "3.4e-4 / 7.5e-2",
    "glycolysis": "3.3e-4 / 2.8e-4",
    "Brusselator": "0.35 / 1.24",
    "Gray-Scott": "4.7e-3 / 1.4e-3",
    "Burgers 1D": "2.08 %",
    "Burgers 2D": "6.5 %",
    "Lorenz": "64.5 (83.9)",
    "KS": "18.6",
}
"""Best published numbers; sources are in the template."""

FAILED = {
    "E2": -100.0,
    "E3": 0.0,
    "E4": -100.0,
    "E5": 0.0,
    "E6": -100.0,
    "E8": -100.0,
    "E10": -100.0,
}
"""Scores of a method without an answer, which are 0 otherwise."""

METHODS = ("pysindy", "reservoir", "linear", "equations")

COLUMNS = ("before", "now")

Rows = dict[str, dict[str, dict]]
"""Numbers by task and method."""


class Results:
    """What was measured.

    Attributes:
        found: results.json.
    """

    def __init__(self, found: dict) -> None:
        self.found = found

    def rows(self, board: str, column: str) -> Rows:
        """Return numbers of romkit."""
        return self.found["columns"].get(column, {}).get(board, {}).get("tasks", {})

    def beside(self, board: str) -> Rows:
        """Return numbers of other methods."""
        return self.found["rivals"].get(board, {})

    def each(self, board: str) -> dict[str, Rows]:
        """Return numbers of a board by the names of methods, romkit's by column."""
        found = {}
        for method in METHODS:
            rows = _of(self.beside(board), method)
            if rows:
                found[method] = rows
        for column in COLUMNS:
            for method in _methods(self.rows(board, column)):
                found[f"{method}, {column}"] = _of(self.rows(board, column), method)
        return found

    def commits(self, column: str) -> str:
        boards = self.found["columns"].get(column, {}).values()
        return ", ".join(sorted({each["commit"][:8] for each in boards})) or "not measured"


def _methods(rows: Rows) -> list[str]:
    return list(dict.fromkeys(method for row in rows.values() for method in row))


def _of(rows: Rows, method: str) -> dict[str, dict]:
    """Return numbers of a method by task."""
    return {task: row[method] for task, row in rows.items() if method in row}


def score(rows: dict[str, dict], label: str) -> list[float]:
    """Return a score in all tasks that have it, with that of zeros where a method gave none."""
    known = [row[label] for row in rows.values() if label in row]
    task = _task_of(label)
    refused = [row for name, row in rows.items() if "refused" in row and name.startswith(task)]
    return known + [FAILED.get(label, 0.0)] * len(refused)


def _task_of(label: str) -> str:
    tasks = {
        "clean": ("E1", "E2"),
        "medium noise": ("E3", "E4"),
        "high noise": ("E5", "E6"),
        "100 samples": ("E7", "E8"),
        "100 noisy samples": ("E9", "E10"),
        "other parameters": ("E11", "E12"),
    }
    return next((task for task, labels in tasks.items() if label in labels), label.split(", ")[-1])


def mean_score(rows: dict[str, dict]) -> str:
    """Return mean of the twelve scores, where there are all."""
    means = [np.mean(values) for label in SCORES if (values := score(rows, label))]
    return f"{np.mean(means):.1f}" if len(means) == len(SCORES) else "-"


def errors(rows: dict[str, dict]) -> str:
    """Return errors of a family."""
    (row,) = rows.values()
    if "refused" in row:
        return "refused"
    lost = f", {row['lost']:.0f} lost" if row["lost"] else ""
    number = "".join(f"; {row[name]:.0f}" for name in ("terms", "number") if name in row)
    return f"{row['same']:.1e} / {row['new']:.1e}{lost}{number}"


def percent(rows: dict[str, dict]) -> str:
    (row,) = rows.values()
    if "refused" in row:
        return "refused"
    return f"{row['largest']:.2g} %"


def wins(results: Results, column: str) -> str:
    """On how many systems of dysts romkit's forecasts are valid for longer than pysindy's, and on
    how many for as long.
    """
    ours_, theirs = results.rows("dysts", column), results.beside("dysts")
    ahead, equal, known = 0, 0, 0
    for name, row in ours_.items():
        if name not in theirs or not row:
            continue
        known += 1
        own, other = (each.get("valid", 0.0) for each in (row[ours.NAME], theirs[name]["pysindy"]))
        ahead += own > other
        equal += own == other
    return f"{ahead} of {known}, as long on {equal}" if known else "-"


def lost(results: Results, column: str) -> str:
    """Tell how many forecasts of bounded laws are lost, and their largest error in that of others."""
    rows = _of(results.rows("bounded", column), ours.NAME).values()
    measured = [row for row in rows if "lost" in row]
    if not measured:
        return "-"
    number, all_starts = (sum(row[name] for row in measured) for name in ("lost", "starts"))
    largest = max(row["ratio"] for row in rows if "ratio" in row)
    return f"{number:.0f} of {all_starts:.0f}; {largest:.3g}"


def ratios(results: Results) -> str:
    """Return table of the errors of bounded and of free laws."""
    rows = _of(results.rows("bounded", "now"), ours.NAME)
    lines = [
        {"data": name, "error": "refused", "free": "-", "ratio": "-"}
        if "refused" in row
        else {"data": name} | {key: f"{row[key]:.3g}" for key in ("error", "free", "ratio")}
        for name, row in rows.items()
    ]
    return table(lines, caption="## Errors of bounded laws beside free ones [deviations]")


def overview(results: Results) -> str:
    """One line for each board."""
    lines = []
    for family in FAMILIES:
        lines.append(
            _line(results, family, f"{family}, labels: mean square errors; terms", errors, "learn")
        )
        if any("law" in name for name in results.each(family)):
            name = f"{family}, labels: the same by `law` of the complete state"
            lines.append(_line(results, family, name, errors, "law"))
        name = f"{family}, parameters not told: the same; how many hidden parameters"
        lines.append(_line(results, family, name, errors, "hidden_context"))
    for board in ("Burgers 1D", "Burgers 2D"):
        lines.append(_line(results, board, f"{board}: largest error", percent, "learn"))
    for board, words in (("Lorenz", "Lorenz"), ("KS", "Kuramoto-Sivashinsky")):
        lines.append(_line(results, board, f"{words}: mean of twelve scores", mean_score, ""))
    dysts = {"board": "dysts: valid for longer than pysindy"}
    lines.append(dysts | {f"romkit {c}": wins(results, c) for c in COLUMNS})
    name = "bounded laws, starts in three times the box: lost; largest error in that of free laws"
    lines.append({"board": name} | {f"romkit {c}": lost(results, c) for c in COLUMNS})
    fitted = [method for method in METHODS if method != "equations"]
    columns = ("board", "published best", *fitted, *(f"romkit {column}" for column in COLUMNS))
    return table([{name: line.get(name, "-") for name in columns} for line in lines])


def _line(results: Results, board: str, words: str, number: object, kind: str) -> dict[str, str]:
    line = {"board": words, "published best": PUBLISHED[board]}
    for method, rows in results.each(board).items():
        if method in METHODS:
            line[method] = number(rows)
        elif kind in method.split(", ")[:-1] or not kind:
            line[f"romkit {method.split(', ')[-1]}"] = number(rows)
    return line


def scores(results: Results, board: str) -> str:
    """Return table of the twelve scores: mean, and the least of all draws."""
    found = results.each(board)
    labels = dict(SCORES)
    further = {label for rows in found.values() for row in rows.values() for label in row}
    labels |= {label: label for label in sorted(further) if "samples" in label}
    lines = []
    for label, words in labels.items():
        line = {"score": f"{label}: {words}" if label != words else label}
        for method, rows in found.items():
            values = score(rows, label)
            line[method] = _number(values)
        lines.append(line)
    seconds = {"score": "CPU seconds of a draw"}
    for method, rows in found.items():
        draws = len({task.split("seed ")[-1] for task in rows})
        seconds[method] = f"{sum(row.get('seconds', 0) for row in rows.values()) / draws:.0f}"
    return table([*lines, seconds], caption=f"## {board}, mean and least score")


def _number(values: list[float]) -> str:
    """Return mean and, of several, the least."""
    if not values:
        return "-"
    return f"{np.mean(values):.1f}" + (f" ({min(values):.1f})" if len(values) > 1 else "")


def systems(results: Results) -> str:
    """Return table of the systems of dysts."""
    found = results.each("dysts")
    names = list(dict.fromkeys(name for rows in found.values() for name in rows))
    lines = []
    for name in names:
        line = {"system": name}
        for method, rows in found.items():
            row = rows.get(name, {})
            text = "refused" if "refused" in row else "-"
            if "valid" in row:
                text = f"{row['valid']:.1f}"
                text += f"; {row['terms']:.0f} terms" if "terms" in row else ""
                line["end"] = f"{row['most']:.1f}"
            line[method] = text
        lines.append(line)
    return table(lines, ["system", "end", *found], caption="## dysts, valid time in Lyapunov times")


def times(results: Results) -> str:
    """CPU seconds of romkit on each board."""
    lines = []
    for board in (*PUBLISHED, "dysts", "bounded"):
        line = {"board": board}
        for method, rows in results.each(board).items():
            if method not in METHODS:
                line[method] = f"{sum(row.get('seconds', 0) for row in rows.values()):.0f}"
        lines.append(line)
    columns = list(dict.fromkeys(name for line in lines for name in line))
    rows = [{name: line.get(name, "-") for name in columns} for line in lines]
    return table(rows, caption="## CPU seconds")


def draw(found: dict) -> Figure:
    """Return what the twelve scores of Lorenz lack to 100, by method."""
    results, rows, means = Results(found), {}, {}
    for method, tasks in results.each("Lorenz").items():
        values = [np.mean(each) for label in SCORES if (each := score(tasks, label))]
        if len(values) < len(SCORES):
            continue
        rows[method] = {"lacking": np.maximum(100 - np.array(values), 1e-3)}
        means[method] = np.mean(values)
    best = max(means, key=means.get)
    finding = f"Twelve scores of Lorenz: their mean is highest for {best}, {means[best]:.0f}"
    return dots(rows, "what a score lacks to 100", finding)


def page(found: dict) -> str:
    """Return text of the page."""
    results = Results(found)
    parts = [scores(results, board) for board in ("Lorenz", "KS") if results.each(board)]
    parts += [systems(results)] if results.each("dysts") else []
    parts += [ratios(results)] if results.rows("bounded", "now") else []
    return filled(
        Path(__file__).with_name("page.template"),
        device=found["device"],
        used=used(found, "numpy", "torch", "pysindy", "dysts"),
        before=results.commits("before"),
        now=results.commits("now"),
        overview=overview(results),
        sections="\n\n".join([*parts, times(results)]),
    )
