"""RESULTS.md from results.json: python -m studies.limit_cycle.report."""

import json
from pathlib import Path

import numpy as np

from romkit.core.files import atomic
from studies.markdown import table

RESULTS = Path(__file__).parent / "results.json"
ROWS = {
    "off the orbit, in its radii": "distance",
    "turns": "turns",
    "valid time": "valid_time",
}


def page(found: dict[str, object]) -> str:
    """The page."""
    cubic = found["cubic"]
    parts = [
        "# Equations on the limit cycles of Lorenz96\n\nWritten by report.py from results.json; the README says how.\n",
        "## A first attempt\n",
        f"```\n{cubic['equation']}\n```\n",
        f"Valid for {_list(cubic['valid_time'])} time units at F = {_list(cubic['F'])}.\n",
        *(_wave(name, found) for name in found if name.startswith("wave number")),
        f"{found['device']}, torch {found['versions']['torch']}.\n",
    ]
    return "\n".join(parts)


def _wave(name: str, found: dict[str, object]) -> str:
    wave, duration = found[name], found["duration"]
    within = [distance for distance, _ in wave["candidates"] if distance < found["bound"]]
    size = np.abs(np.array(wave["size"]) - 1).max()
    rows = [(label, *(_digits(value) for value in wave[key])) for label, key in ROWS.items()]
    return f"""## W{name[1:]}

```
{wave["equation"]}
```

Rollouts of {duration:g} time units at forcings that played no part in fit and choice; {wave["diverged"]} diverged.

{table(("F", *(f"{F:g}" for F in wave["F"])), rows)}
The last cycles differ in size from the true ones by at most {100 * size:.1f} %. Of {len(wave["candidates"])} \
candidates {len(within)} met the bound; the pace of the one that was chosen was multiplied by {wave["pace"]:.4f}. \
{wave["cpu_seconds"]:.0f} CPU seconds.
"""


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def _list(values: list[float]) -> str:
    return " and ".join(f"{value:.3g}" for value in values)


def write(results: Path = RESULTS) -> None:
    """The page beside the results."""
    with atomic(results.with_name("RESULTS.md")) as temporary:
        temporary.write_text(page(json.loads(results.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    write()
