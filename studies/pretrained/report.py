"""RESULTS.md, a card for each model that ships."""

from pathlib import Path

import romkit
from romkit.projections.storage import PRETRAINED
from studies.report import table
from studies.runner import Study

MODES = "\nAll modes of its basis, by POD-Galerkin, `system.through(model.basis)`:\n\n"
ASKED = {
    "use": "method",
    "system": "system",
    "valid for": "context",
    "sizes": "config",
    "modes in front": "basis",
    "parameters": "parameters",
    "data": "data",
    "recipe": "recipe",
    "training": "training",
}
"""Facts of a model, by their label on its card."""
FACTS = """
- position RMSE {position_rmse:.4f}, velocity RMSE {velocity_rmse:.3f}
- rollouts with {rollout[dynamics]}: {rollout[diverged]} diverged{seconds}
- seed {report[seed]} of a stack of {report[seeds_in_stack]}, {minutes:.1f} minutes for all, {report[device]}, \
torch {report[versions][torch]}

"""


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md into `folder`, about the models that ship."""
    return Study("pretrained").write_page(folder, preset, page, "RESULTS.md") if preset == "full" else folder / preset


def page(results: dict[str, dict]) -> str:
    """Text of RESULTS.md."""
    text = "# The models that ship\n\nWritten by report.py from models and full.json; errors over the test contexts.\n"
    for name, result in sorted(results.items()):
        text += _card(name) + FACTS.format_map(result | _seconds(result)) + _errors(result)
        if "rollout_of_modes" in result:
            text += MODES + _errors({"rollout": result["rollout_of_modes"]})
        if "shedding" in result:
            text += f"\n{_shedding(result['shedding'])}"
    return text


def _card(name: str) -> str:
    """Facts of the file itself: purpose, data, recipe, range of validity; and its licence."""
    facts, size = romkit.load(name).facts(), (PRETRAINED / f"{name}.safetensors").stat().st_size / 1e6
    rows = [[label, facts[key]] for label, key in ASKED.items() if key in facts]
    rows.append(["file", f"{size:.2g} MB"])
    rows.append(["out of that range", "a warning, and no promise but P(P(x)) = P(x), which holds at every context"])
    rows.append(["licence", "BSD 3-Clause, as romkit"])
    return table(rows, ["", f"`romkit.load({name!r})`"], f"\n## {name}") + "\n"


def _seconds(result: dict) -> dict[str, object]:
    """Minutes of the training, and seconds of all rollouts, for both models."""
    full, reduced = (result["rollout"].get(f"seconds_{which}_model") for which in ("full", "reduced"))
    text = f"; {full:.3g} s of the full model, {reduced:.3g} s of the reduced one" if full and reduced else ""
    return {"minutes": result["report"]["seconds"] / 60, "seconds": text}


def _errors(result: dict) -> str:
    spreads = {"NRMSE of the projection": result["nrmse_of_projection"]} if "nrmse_of_projection" in result else {}
    spreads |= {f"NRMSE of the rollout at {time}": row for time, row in result["rollout"]["nrmse"].items()}
    spreads["valid time"] = result["rollout"]["valid_time"]
    keys, rows = ("smallest", "10 %", "median", "90 %", "largest"), []
    for label, row in spreads.items():
        share = f"{row['share_below_0.1']:.0%}" if "share_below_0.1" in row else ""
        rows.append([label, *(f"{row[key]:.3g}" for key in keys), share])
    return table(rows, ("over test contexts", *keys, "below 0.1"))


def _shedding(found: dict) -> str:
    """Errors of the wake's Strouhal number and lift."""
    names = {"model": "this model", "modes": "all modes, POD-Galerkin"}
    rows = [
        [f"{quantity}, {label}", *(f"{error:.2%}" for error in found[name][which])]
        for which, quantity in (("Strouhal", "Strouhal number"), ("lift", "largest lift"))
        for name, label in names.items()
    ]
    return table(rows, ["errors at each Reynolds number", *(f"{reynolds:g}" for reynolds in found["Re"])])
