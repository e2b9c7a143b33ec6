"""RESULTS.md, a card for each model that ships."""

from pathlib import Path

from matplotlib.figure import Figure

import romkit
from romkit.projections.storage import PRETRAINED
from studies.report import dots, filled, table
from studies.runner import Study

HERE = Path(__file__).parent
ASKED = {
    "use": "method",
    "system": "system",
    "trained for": "context",
    "sizes": "config",
    "modes in front": "basis",
    "parameters, modes included": "parameters",
    "data": "data",
    "recipe": "recipe",
    "training": "training",
}
"""Facts of a model, by their label on its card."""


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md into `folder`, about the models that ship."""
    if preset != "full":
        return folder / preset
    return Study("pretrained").write_page(folder, preset, page, "RESULTS.md", draw)


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    cards = []
    for name, result in sorted(results.items()):
        modes = result.get("rollout_of_modes")
        full, reduced = (
            result["rollout"].get(f"seconds_{which}_model") for which in ("full", "reduced")
        )
        seconds = (
            f"; {full:.3g} s of the full model, {reduced:.3g} s of the reduced one"
            if full and reduced
            else ""
        )
        card = filled(
            HERE / "card.template",
            **result | {"seconds": seconds, "minutes": result["report"]["seconds"] / 60},
            card=_card(name),
            errors=_errors(result),
        )
        card += filled(HERE / "modes.template", errors=_errors({"rollout": modes})) if modes else ""
        cards.append(card + (f"\n{_shedding(result['shedding'])}" if "shedding" in result else ""))
    return filled(HERE / "page.template", cards="".join(cards))


def draw(results: dict[str, dict]) -> dict[str, Figure]:
    """Median errors of each model over its test contexts, at the first and the last time of its
    rollouts.
    """
    rows = {}
    for name, result in sorted(results.items()):
        first, *_, last = result["rollout"]["nrmse"].items()
        rows[f"{name}, {first[0]} to {last[0].removeprefix('t = ')}"] = {
            "at the end": last[1]["median"],
            "at the first time": first[1]["median"],
        }
    below = sum(row["at the end"] < 0.5 for row in rows.values())
    finding = (
        f"At the end of its rollouts the median error of {below} of {len(rows)} models is below 0.5"
    )
    return {"errors.png": dots(rows, "NRMSE, median over test contexts", finding)}


def _card(name: str) -> str:
    """Return facts of the file itself: purpose, data, recipe, range of validity; and its licence."""
    facts, size = (
        romkit.load(name).facts(),
        (PRETRAINED / f"{name}.safetensors").stat().st_size / 1e6,
    )
    rows = [[label, facts[key]] for label, key in ASKED.items() if key in facts]
    rows.append(["file", f"{size:.2g} MB"])
    rows.append(
        [
            "out of that range",
            "a warning, and no promise but P(P(x)) = P(x), which holds at every context",
        ]
    )
    rows.append(["licence", "BSD 3-Clause, as romkit"])
    return table(rows, ["", f"`romkit.load({name!r})`"], f"\n## {name}") + "\n"


def _errors(result: dict) -> str:
    spreads = (
        {"NRMSE of the projection": result["nrmse_of_projection"]}
        if "nrmse_of_projection" in result
        else {}
    )
    spreads |= {
        f"NRMSE of the rollout at {time}": row for time, row in result["rollout"]["nrmse"].items()
    }
    spreads["valid time"] = result["rollout"]["valid_time"]
    keys, rows = ("smallest", "10 %", "median", "90 %", "largest"), []
    for label, row in spreads.items():
        share = f"{row['share_below_0.1']:.0%}" if "share_below_0.1" in row else ""
        rows.append([label, *(f"{row[key]:.3g}" for key in keys), share])
    return table(rows, ("over test contexts", *keys, "below 0.1"))


def _shedding(found: dict) -> str:
    """Return errors of the wake's Strouhal number and lift."""
    names = {"model": "this model", "modes": "all modes, POD-Galerkin"}
    rows = [
        [f"{quantity}, {label}", *(f"{error:.2%}" for error in found[name][which])]
        for which, quantity in (("Strouhal", "Strouhal number"), ("lift", "largest lift"))
        for name, label in names.items()
    ]
    return table(
        rows, ["errors at each Reynolds number", *(f"{reynolds:g}" for reynolds in found["Re"])]
    )
