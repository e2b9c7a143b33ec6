"""RESULTS.md from the numbers of the preset "full"."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from studies.first_afternoon.later import LATER
from studies.first_afternoon.rivals import PACKAGES
from studies.first_afternoon.sets import SETS, Source
from studies.first_afternoon.unseen import UNSEEN
from studies.report import dots, filled, table
from studies.runner import Study

BASELINES = {"nearest": "nearest run", "shifted": "nearest run, shifted"}
RIVALS = [label for package in PACKAGES for label in (package, f"{package}, scaled")]


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md into `folder`."""
    return Study("first_afternoon").write_page(folder, preset, page, "RESULTS.md", draw)


GROUPS = {
    "later": ("Sets kept aside", LATER),
    "unseen": ("Sets seen late", UNSEEN),
    "errors": ("Sets used while the method was made", SETS),
}
"""Title and sets of each group, by the name of its picture."""

COUNTS = {
    "finite": "every forecast is finite",
    "near": "error at most twice the projection's, or 0.005",
    "nearest": "every forecast is better than the training run at the nearest parameter",
    "shifted": "every forecast is better than that run, shifted in time to the start of the held-out run",
    "best": "every forecast is better than those of every other package",
}


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md; groups of which nothing was run are left out."""
    costs = [
        found[f"seconds {label}"]
        for found in results.values()
        for label in RIVALS
        if f"seconds {label}" in found
    ]
    facts = {name: _facts(results, sets) for name, (_, sets) in GROUPS.items()}
    present = {name: group for name, group in facts.items() if group["number"]}
    rows = [["data sets, held-out runs"]]
    rows[0] += [f"{group['number']}, {group['runs']}" for group in present.values()]
    for key, words in COUNTS.items():
        rows.append([words, *(f"{group[key]} of {group['number']}" for group in present.values())])
    columns = ("", *(GROUPS[name][0].lower() for name in present))
    template = Path(__file__).with_name("RESULTS.template")
    return filled(
        template,
        summary=table(rows, columns),
        sections="\n".join(_section(name, group) for name, group in present.items()),
        fastest=min(costs),
        slowest=max(costs),
    )


def _section(name: str, group: dict[str, object]) -> str:
    title = GROUPS[name][0]
    missing = len(GROUPS[name][1]) - group["number"]
    note = f"Sets not run yet: {missing}.\n\n" if missing else ""
    picture = (
        f"![Error of romkit, of the nearest run and of other packages, {title.lower()}; packages "
        f"whose rollouts were lost are left out]({name}.png)"
    )
    tables = "\n".join(group[key] for key in ("errors", "rivals", "laws", "sets"))
    return f"## {title}\n\n{note}{picture}\n\n{tables}"


def draw(results: dict[str, dict]) -> dict[str, Figure]:
    """Return mean error on each set, of romkit, of the nearest run and of each package in its
    better variant.
    """
    pictures = {}
    for name, (_, sets) in GROUPS.items():
        group = _chosen(results, sets)
        if group:
            pictures[f"{name}.png"] = _dots(group)
    return pictures


def _facts(results: dict[str, dict], sources: dict[str, Source]) -> dict[str, object]:
    """Return counts and tables of some data sets."""
    results = _chosen(results, sources)
    if not results:
        return {"number": 0}
    sets = [[name, *_units(sources[name]), found["n"]] for name, found in results.items()]
    errors, rivals, laws = [], [], []
    for name, found in results.items():
        row = {
            "set": name,
            "noise": _noise(found["noise"]),
            "projection": _mean(found["projection"]),
            "romkit": _mean(found["romkit"]),
        }
        errors.append(row | {label: _mean(found[key]) for key, label in BASELINES.items()})
        rivals.append(
            {"set": name, "romkit": _mean(found["romkit"])}
            | {label: _mean(found[label]) for label in RIVALS}
        )
        laws.append(
            {
                "set": name,
                "latents": found["latents"],
                "manifold's degree": found["manifold"].get("degree", "-"),
                "law": found["settings"],
                "CPU seconds": f"{found['seconds']:.0f}",
            }
        )
    return {
        "number": len(results),
        "runs": sum(len(found["romkit"]) for found in results.values()),
        "finite": sum(np.isfinite(found["romkit"]).all() for found in results.values()),
        "nearest": sum(_all(found, "nearest") for found in results.values()),
        "shifted": sum(_all(found, "shifted") for found in results.values()),
        "near": sum(_near(found) for found in results.values()),
        "best": sum(all(_all(found, label) for label in RIVALS) for found in results.values()),
        "sets": table(sets, ("set", "parameter", "one time unit, s", "size", "noise", "n")),
        "errors": table(errors),
        "rivals": table(rivals),
        "laws": table(laws),
    }


def _dots(results: dict[str, dict]) -> Figure:
    rows = {}
    for name, found in results.items():
        mean = {label: np.mean(found[label]) for label in ("romkit", *BASELINES, *RIVALS)}
        best = {each: np.fmin(mean[each], mean[f"{each}, scaled"]) for each in PACKAGES}
        rows[name] = {"romkit": mean["romkit"], "nearest run": mean["nearest"], **best}
    won = sum(row["romkit"] <= np.nanmin(list(row.values())) for row in rows.values())
    finding = f"Mean error of held-out runs: romkit's recipe is the most accurate on {won} of {len(rows)} data sets"
    return dots(rows, "error, standard deviations of the training data", finding)


def _chosen(results: dict[str, dict], sources: dict[str, Source]) -> dict[str, dict]:
    """Return numbers of romkit and of rivals by data set, in the order of names."""
    return {
        name: results[name] | results[f"{name}, rivals"]
        for name in sorted(sources)
        if name in results and f"{name}, rivals" in results
    }


def _units(source: Source) -> list[str]:
    span = f"{source.parameter} from {source.low:g} to {source.high:g}"
    return [
        span,
        f"{source.second:g}",
        f"{source.size:g}",
        f"{source.noise:.0%}" if source.noise else "-",
    ]


def _noise(errors: list[float]) -> str:
    """Return size of the noise of measurements, in the measure of all errors."""
    return _mean(errors) if np.any(errors) else "-"


def _mean(errors: list[float]) -> str:
    return f"{np.mean(errors):.3f}" if np.isfinite(errors).all() else "lost"


def _all(found: dict, other: str) -> bool:
    """Tell whether every held-out run has a smaller error than by the other means."""
    theirs = np.nan_to_num(np.array(found[other], dtype=float), nan=np.inf)
    return bool((np.array(found["romkit"], dtype=float) < theirs).all())


def _near(found: dict) -> bool:
    """Tell whether the mean error is at most twice the projection's, or 0.005."""
    error, projection = (
        np.mean(np.array(found[key], dtype=float)) for key in ("romkit", "projection")
    )
    return bool(error <= max(2 * projection, 0.005))
