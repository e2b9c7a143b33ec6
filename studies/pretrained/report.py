"""Write RESULTS.md, a card for each model that ships: `python -m studies.pretrained.report`."""

import json
from pathlib import Path

import romkit
from romkit.core.files import atomic
from studies.markdown import table
from studies.pretrained.run import RESULTS, SHIPPED

PAGE = Path(__file__).parent / "RESULTS.md"

MODES = "All modes of its basis, by POD-Galerkin, `system.through(model.basis)`:"


def main() -> None:
    results = json.loads(RESULTS.read_text())
    page = (
        "# The models that ship\n\nWritten by report.py from models and results.json; errors over the test contexts.\n"
    )
    for name, result in sorted(results.items()):
        page += f"\n## {name}\n\n{_card(name)}\n\n{_facts(result)}\n{_table(result)}"
        if "rollout_of_modes" in result:
            page += f"\n{MODES}\n\n{_table({'rollout': result['rollout_of_modes']})}"
        if "shedding" in result:
            page += f"\n{_shedding(result['shedding'])}"
    with atomic(PAGE) as temporary:
        temporary.write_text(page)
    print(page)


def _shedding(found: dict) -> str:
    """Of the wake, what its study asks for."""
    names = {"model": "this model", "modes": "all modes, POD-Galerkin"}
    head = ["errors at each Reynolds number", *(f"{reynolds:g}" for reynolds in found["Re"])]
    rows = [
        [f"{quantity}, {said}", *(f"{error:.2%}" for error in found[name][which])]
        for which, quantity in (("Strouhal", "Strouhal number"), ("lift", "largest lift"))
        for name, said in names.items()
    ]
    return table(head, rows)


def _card(name: str) -> str:
    """What the file itself tells: for what, from which data, how, where it is valid; and its licence."""
    facts = romkit.load(name).facts()
    asked = {
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
    rows = [[said, facts[key]] for said, key in asked.items() if key in facts]
    rows.append(["file", f"{(SHIPPED / f'{name}.safetensors').stat().st_size / 1e6:.2g} MB"])
    rows.append(["out of that range", "a warning, and no promise but P(P(x)) = P(x), which holds at every context"])
    return table(["", f"`romkit.load({name!r})`"], [*rows, ["licence", "BSD 3-Clause, as romkit"]])


def _facts(result: dict) -> str:
    rollout, report = result["rollout"], result["report"]
    return (
        f"- position RMSE {result['position_rmse']:.4f}, velocity RMSE {result['velocity_rmse']:.3f}\n"
        f"- rollouts with {rollout['dynamics']}: {rollout['diverged']} diverged{_seconds(rollout)}\n"
        f"- seed {report['seed']} of a stack of {report['seeds_in_stack']}, {report['seconds'] / 60:.1f} minutes for "
        f"all, {report['device']}, torch {report['versions']['torch']}\n"
    )


def _seconds(rollout: dict) -> str:
    """Of all of them, for both models."""
    full, reduced = (rollout.get(f"seconds_{which}_model") for which in ("full", "reduced"))
    return f"; {full:.3g} s of the full model, {reduced:.3g} s of the reduced one" if full and reduced else ""


def _table(result: dict) -> str:
    rows = {"NRMSE of the projection": result["nrmse_of_projection"]} if "nrmse_of_projection" in result else {}
    rows |= {f"NRMSE of the rollout at {time}": row for time, row in result["rollout"]["nrmse"].items()}
    rows["valid time"] = result["rollout"]["valid_time"]
    page = "| over test contexts | smallest | 10 % | median | 90 % | largest | below 0.1 |\n" + "|---" * 7 + "|\n"
    for label, row in rows.items():
        cells = [f"{row[key]:.3g}" for key in ("smallest", "10 %", "median", "90 %", "largest")]
        share = f"{row['share_below_0.1']:.0%}" if "share_below_0.1" in row else ""
        page += f"| {label} | {' | '.join(cells)} | {share} |\n"
    return page


if __name__ == "__main__":
    main()
