"""Report of a preset, from its results alone."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from studies.paper import readings, tables
from studies.paper.claims import Verdict, judge, spread
from studies.paper.datasets import METHODS
from studies.paper.figures import FIGURES
from studies.paper.tables import NAME_OF, Entry, Measured, Results, measure, reached, reference, statistics
from studies.paper.tasks import tasks
from studies.report import TITLES, save_png, table, write_text

TABLES = {
    "reconstruction": "Reconstruction",
    "latent_geometry": "Latent geometry",
    "ablation_modulation": "Ablation of the modulation",
    "idempotency": "Idempotency error by step",
    "ood_context": "Contexts out of the training range",
    "train_noise_state": "State noise at training",
    "train_noise_context": "Context noise at training",
    "train_noise_both": "State and context noise at training",
    "test_noise_state": "State noise at evaluation",
    "test_noise_context": "Context noise at evaluation",
    "test_noise_both": "State and context noise at evaluation",
}
SHORT = {"position_rmse": "pos.", "velocity_rmse": "vel.", "latent_covariance_cn": "CN", "latent_velocity_cv": "CV"}


def write(folder: Path, preset: str) -> Path:
    """Write REPORT.md, summary.csv and figures/ into `folder`, from the results in its subfolder of the preset."""
    results = tables.load(folder / preset)
    write_text(folder / "summary.csv", tables.summary(results))
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    drawn = {name: draw(results) for name, (draw, _) in FIGURES.items()}
    pictures = [name for name, figure in drawn.items() if figure is not None]
    for name in pictures:
        save_png(drawn[name], folder / "figures" / f"{name}.png")
    return write_text(folder / "REPORT.md", page(preset, results, pictures))


def page(preset: str, results: Results, pictures: Sequence[str]) -> str:
    """Text of the report."""
    verdicts = judge(results)
    best = readings.closest(results)
    missed = _missed(results, best)
    parts = (
        f"{v.statement} **{v.verdict}**\n\n" + "".join(f"- {p.outcome}: {p.numbers}\n" for p in v.parts)
        for v in verdicts
    )
    sections = {
        "headline": _headline(results, verdicts),
        "reached": _reached(results),
        "cured": sum(cured for cured, _ in missed),
        "missed_count": len(missed),
        "closest": readings.described(best),
        "missed": table([row for _, row in missed], ["table", "system", "condition", "metric", *_MISSED]),
        "claims": table([[v.statement, f"**{v.verdict}**", v.why] for v in verdicts], ["claim", "verdict", "why"]),
        "parts": "\n".join(parts),
        "figures": "\n".join(f"![{FIGURES[n][1]}](figures/{n}.png)\n\n{FIGURES[n][1]}\n" for n in pictures),
        "tables": "\n".join(f"### {title}\n\n{_tables(results, name)}" for name, title in TABLES.items()),
        **{name: make(results) for name, make in readings.SECTIONS.items()},
        "budgets": _budgets(results),
        "tuned": _tuned(results),
        "run": _run(preset, results),
    }
    template = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    return template.format(
        preset=preset, **{k: v.rstrip("\n") if isinstance(v, str) else v for k, v in sections.items()}
    )


def _headline(results: Results, verdicts: Sequence[Verdict]) -> str:
    there = [(entry, m) for entry in reference() if (m := measure(results, entry)) is not None]
    ours = [reached(entry, m) for entry, m in there if entry.method == "NcAE"]
    counts = Counter(verdict.verdict for verdict in verdicts)
    lost = sum(int(data["diverged"].sum()) for data in results.trained)
    seeds = sum(data.sizes["seed"] for data in results.trained)
    share = f"{sum(ours) / len(ours):.0%}" if ours else "none"
    return (
        f"{len(there)} of the {len(reference())} published numbers have a measured one. NcAE reaches or beats its "
        f"published mean in {sum(ours)} of its {len(ours)} measured entries ({share}). {len(verdicts)} claims: "
        + ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common())
        + f". {lost} of {seeds} trainings diverged."
    )


def _reached(results: Results) -> str:
    rows = []
    for name in NAME_OF.values():
        found = [(e, m) for e in reference() if e.method == name and (m := measure(results, e)) is not None]
        means = [(entry, statistics(entry, m)[0]) for entry, m in found]
        close = sum(mean == entry.mean or abs(mean - entry.mean) <= 2 * entry.std for entry, mean in means)
        rows.append([name, len(found), sum(reached(*pair) for pair in found), close])
    return table(
        rows, ["method", "measured", "at or below the published mean", "within two published standard deviations"]
    )


_MISSED = ("ours", "ours, closest", "published")


def _missed(results: Results, best: tables.Choices) -> list[tuple[bool, list[str]]]:
    """NcAE's entries above their published mean, and whether the closest choices reach them."""
    found = []
    for entry in reference():
        measured = measure(results, entry)
        if entry.method == "NcAE" and measured is not None and not reached(entry, measured):
            other = measure(results, entry, best)
            where = TABLES[entry.table], TITLES[entry.system], entry.condition, SHORT.get(entry.metric, "idempotency")
            ours, published = _ours_and_published(entry, measured)
            found.append((reached(entry, other), [*where, ours, _ours_and_published(entry, other)[0], published]))
    return found


def _ours_and_published(entry: Entry, measured: Measured) -> list[str]:
    pairs = statistics(entry, measured)[:2], (entry.mean, entry.std)
    return [f"{mean:.3g}" if np.isnan(std) else f"{mean:.3g} ± {std:.2g}" for mean, std in pairs]


def _tables(results: Results, name: str) -> str:
    text = ""
    for system, title in TITLES.items():
        entries = [entry for entry in reference() if (entry.table, entry.system) == (name, system)]
        columns = list(dict.fromkeys((e.condition, e.metric) for e in entries))
        rows = []
        for method in dict.fromkeys(e.method for e in entries):
            cells = {(e.condition, e.metric): _cell(results, e) for e in entries if e.method == method}
            rows.append([method, *(cells.get(column, "") for column in columns)])
        heads = [" ".join(filter(None, (c if c != "clean" else "", SHORT.get(m, "")))) for c, m in columns]
        text += table(rows, [title, *heads]) + "\n"
    return text.rstrip("\n") + "\n"


def _cell(results: Results, entry: Entry) -> str:
    measured = measure(results, entry)
    if measured is None:
        published = f"{entry.mean:.3g}" if np.isnan(entry.std) else f"{entry.mean:.3g} ± {entry.std:.2g}"
        return f"missing ({published})"
    ours, published = _ours_and_published(entry, measured)
    lost = int(measured.diverged.sum())
    return f"{ours} ({published})" + (f", {lost} diverged" if lost else "")


def _budgets(results: Results) -> str:
    rows = []
    for system, title in TITLES.items():
        for method in METHODS:
            data = results.find("clean", system, method)
            if data is not None:
                a, record = data.attrs, results.records.get(data.attrs["task"], {})
                counts = [a["parameter_count"], a["epochs"], a["batch_size"], a["steps"]]
                minutes = f"{record.get('cpu_seconds', np.nan) / 60:.1f}"
                optimizer = f"{a['optimizer']}, {a['learning_rate']:g}"
                rows.append([title, NAME_OF[method], *counts, optimizer, minutes])
    head = ["system", "method", "parameters", "epochs", "batch", "steps", "optimizer, rate", "CPU minutes, all seeds"]
    return table(rows, head)


def _tuned(results: Results) -> str:
    rows = []
    for data in results.select(kind="tuned"):
        a = data.attrs
        chosen = [f"{a['learning_rate']:.3g}", f"{a['penalty_weight']:g}"]
        scores = ", ".join(f"{score:.3g}" for score in np.atleast_1d(a["trial_scores"]))
        errors = [spread(tables.errors_of(data, metric)) for metric in tables.ERRORS]
        rows.append([TITLES[a["system"]], NAME_OF[a["method"]], *chosen, scores, *errors])
    head = ["system", "method", "rate", "penalty", "validation losses of the trials", "position RMSE", "velocity RMSE"]
    return table(rows, head)


def _run(preset: str, results: Results) -> str:
    names = [task.name for task in tasks(preset)]
    missing = set(results.missing(names))
    kinds = {name: "-".join(name.split("-")[:2]) for name in names}
    rows, left = [], 0.0
    for kind in dict.fromkeys(kinds.values()):
        members = [name for name in names if kinds[name] == kind]
        minutes = [results.records[n]["cpu_seconds"] / 60 for n in members if n in results.records and n not in missing]
        mean, absent = np.mean(minutes) if minutes else np.nan, sum(name in missing for name in members)
        left += 0.0 if np.isnan(mean) else mean * absent
        rows.append([kind, len(members), absent, f"{mean:.1f}", f"{sum(minutes):.0f}"])
    spent = sum(record["cpu_seconds"] for record in results.records.values()) / 3600
    devices = sorted({data.attrs["device"] for data in results.trained})
    commits = sorted({str(record.get("commit", ""))[:12] for record in results.records.values()})
    versions = json.loads(results.trained[0].attrs["versions"]) if results.trained else {}
    absent = ", ".join(name for name in names if name in missing)
    return (
        table(rows, ["tasks", "all", "missing", "CPU minutes each", "CPU minutes spent"])
        + f"\nSpent {spent:.1f} CPU hours; missing tasks of kinds that were measured would take {left / 60:.1f} more.\n"
        + f"Device: {'; '.join(devices)}. Commits: {', '.join(commits)}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".\n\n"
        + (f"Missing: {absent}." if missing else "Nothing is missing.")
    )
