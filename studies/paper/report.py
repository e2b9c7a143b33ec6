"""Report of a preset, from its results alone."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from studies.paper import readings, tables
from studies.paper.claims import judge, spread
from studies.paper.figures import FIGURES
from studies.paper.tables import NAME_OF, Results, compared
from studies.paper.tasks import tasks
from studies.report import TITLES, filled, save_png, table, write_text

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
SHORT = {
    "position_rmse": "pos.",
    "velocity_rmse": "vel.",
    "latent_covariance_cn": "CN",
    "latent_velocity_cv": "CV",
}


def write(folder: Path, preset: str) -> Path:
    """Write REPORT.md, summary.csv and figures/ into `folder`, from the results in its subfolder of
    the preset.
    """
    results = tables.load(folder / preset)
    write_text(folder / "summary.csv", tables.summary(results))
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    drawn = {name: draw(results) for name, (draw, _) in FIGURES.items()}
    pictures = [name for name, figure in drawn.items() if figure is not None]
    for name in pictures:
        save_png(drawn[name], folder / "figures" / f"{name}.png")
    return write_text(folder / "REPORT.md", page(preset, results, pictures))


def page(preset: str, results: Results, pictures: Sequence[str]) -> str:
    """Return text of the report."""
    verdicts, entries = judge(results), compared(results)
    missed, closest = _missed(entries), compared(results, readings.closest(results, "NcAE"))
    counts = Counter(verdict.verdict for verdict in verdicts)
    ours = entries[(entries["method"] == "NcAE") & (entries["n_seeds"] > 0)]
    parts = (
        f"{v.statement} **{v.verdict}**\n\n"
        + "".join(f"- {p.outcome}: {p.numbers}\n" for p in v.parts)
        for v in verdicts
    )
    sections = {
        "reached": _reached(entries),
        "missed": table([_beside(entries.loc[k], closest.loc[k]) for k in missed]),
        "claims": table(
            [{"claim": v.statement, "verdict": f"**{v.verdict}**", "why": v.why} for v in verdicts]
        ),
        "parts": "\n".join(parts),
        "figures": "\n".join(
            f"![{FIGURES[n][1]}](figures/{n}.png)\n\n{FIGURES[n][1]}\n" for n in pictures
        ),
        "tables": "\n".join(
            f"### {title}\n\n{_tables(entries, name)}" for name, title in TABLES.items()
        ),
        **{name: make(results) for name, make in readings.SECTIONS.items()},
        "budgets": _budgets(results),
        "tuned": _tuned(results),
        **_run(preset, results),
    }
    return filled(
        Path(__file__).with_name("page.md"),
        preset=preset,
        measured=(entries["n_seeds"] > 0).sum(),
        published=len(entries),
        reached_count=readings.count_reached(results).replace(" of ", " of its "),
        share=f"{ours['reached'].mean():.0%}" if len(ours) else "none",
        claims_count=len(verdicts),
        verdicts=", ".join(f"{verdict} {count}" for verdict, count in counts.most_common()),
        lost=sum(int(data["diverged"].sum()) for data in results.trained),
        seeds=sum(data.sizes["seed"] for data in results.trained),
        cured=closest["reached"][missed].sum(),
        missed_count=len(missed),
        closest=readings.described(results, "NcAE"),
        closest_of_all=readings.described(results, "all methods"),
        **{name: text.rstrip("\n") for name, text in sections.items()},
    )


def _reached(entries: pd.DataFrame) -> str:
    rows = []
    for name in NAME_OF.values():
        own = entries[(entries["method"] == name) & (entries["n_seeds"] > 0)]
        close = (own["ours"] == own["mean"]) | ((own["ours"] - own["mean"]).abs() <= 2 * own["std"])
        row = {
            "method": name,
            "measured": len(own),
            "at or below the published mean": own["reached"].sum(),
        }
        rows.append(row | {"within two published standard deviations": close.sum()})
    return table(rows)


def _missed(entries: pd.DataFrame) -> pd.Index:
    """NcAE's entries above their published mean."""
    return entries.index[
        (entries["method"] == "NcAE") & (entries["n_seeds"] > 0) & ~entries["reached"]
    ]


def _beside(entry: pd.Series, closest: pd.Series) -> dict[str, str]:
    return {
        "table": TABLES[entry["table"]],
        "system": TITLES[entry["system"]],
        "condition": entry["condition"],
        "metric": SHORT.get(entry["metric"], "idempotency"),
        "ours": _plus_minus(entry["ours"], entry["spread"]),
        "ours, closest": _plus_minus(closest["ours"], closest["spread"]),
        "published": _plus_minus(entry["mean"], entry["std"]),
    }


def _plus_minus(mean: float, std: float) -> str:
    return f"{mean:.3g}" if np.isnan(std) else f"{mean:.3g} ± {std:.2g}"


def _tables(entries: pd.DataFrame, name: str) -> str:
    text = []
    for system, title in TITLES.items():
        own = entries[(entries["table"] == name) & (entries["system"] == system)]
        heads = (
            ["" if c == "clean" else c for c in own["condition"]],
            [SHORT.get(m, "") for m in own["metric"]],
        )
        own = own.assign(head=[" ".join(filter(None, parts)) for parts in zip(*heads, strict=True)])
        rows = [
            {title: method} | {row["head"]: _cell(row) for _, row in of.iterrows()}
            for method, of in own.groupby("method", sort=False)
        ]
        columns = [title, *dict.fromkeys(own["head"])]
        text.append(table([[row.get(column, "") for column in columns] for row in rows], columns))
    return "\n".join(text)


def _cell(entry: pd.Series) -> str:
    published = _plus_minus(entry["mean"], entry["std"])
    if not entry["n_seeds"]:
        return f"missing ({published})"
    lost = f", {entry['n_diverged']} diverged" if entry["n_diverged"] else ""
    return f"{_plus_minus(entry['ours'], entry['spread'])} ({published}){lost}"


def _budgets(results: Results) -> str:
    rows = []
    for system, method, data in ((s, *pair) for s in TITLES for pair in results.clean(s).items()):
        a, record = data.attrs, results.records.get(data.attrs["task"], {})
        row = {
            "system": TITLES[system],
            "method": NAME_OF[method],
            "parameters": a["parameter_count"],
        }
        row |= {"epochs": a["epochs"], "batch": a["batch_size"], "steps": a["steps"]}
        row["optimizer, rate"] = f"{a['optimizer']}, {a['learning_rate']:g}"
        rows.append(
            row | {"CPU minutes, all seeds": f"{record.get('cpu_seconds', np.nan) / 60:.1f}"}
        )
    return table(rows)


def _tuned(results: Results) -> str:
    rows = []
    for data in results.select(kind="tuned"):
        a = data.attrs
        row = {
            "system": TITLES[a["system"]],
            "method": NAME_OF[a["method"]],
            "rate": f"{a['learning_rate']:.3g}",
        }
        row["penalty"] = f"{a['penalty_weight']:g}"
        scores = ", ".join(f"{score:.3g}" for score in np.atleast_1d(a["trial_scores"]))
        row["validation losses of the trials"] = scores
        rows.append(
            row
            | {
                f"{x} RMSE": spread(tables.errors_of(data, f"{x}_rmse"))
                for x in ("position", "velocity")
            }
        )
    return table(rows)


def _run(preset: str, results: Results) -> dict[str, str]:
    """Return what was run, by the names of the places in page.md."""
    names = [task.name for task in tasks(preset)]
    missing, records = set(results.missing(names)), results.records
    frame = pd.DataFrame({"task": names, "kind": ["-".join(name.split("-")[:2]) for name in names]})
    frame["absent"] = frame["task"].isin(missing)
    frame["minutes"] = [
        records[name]["cpu_seconds"] / 60 if name in records and name not in missing else np.nan
        for name in names
    ]
    rows, left = [], 0.0
    for kind, of in frame.groupby("kind", sort=False):
        row = {"tasks": kind, "all": len(of), "missing": of["absent"].sum()}
        row["CPU minutes each"] = f"{of['minutes'].mean():.1f}"
        rows.append(row | {"CPU minutes spent": f"{of['minutes'].sum():.0f}"})
        left += np.nan_to_num(of["minutes"].mean()) * of["absent"].sum()
    versions = json.loads(results.trained[0].attrs["versions"]) if results.trained else {}
    absent = ", ".join(frame["task"][frame["absent"]])
    return {
        "run": table(rows),
        "spent": f"{sum(record['cpu_seconds'] for record in records.values()) / 3600:.1f}",
        "left": f"{left / 60:.1f}",
        "devices": "; ".join(sorted({data.attrs["device"] for data in results.trained})),
        "commits": ", ".join(
            sorted({str(record.get("commit", ""))[:12] for record in records.values()})
        ),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "absent": f"Missing: {absent}." if absent else "Nothing is missing.",
    }
