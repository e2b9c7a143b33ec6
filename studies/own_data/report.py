"""RESULTS.md from results.json.

python -m studies.own_data.report
"""

from pathlib import Path

from studies.markdown import table
from studies.own_data.run import FRESH, PULSES, results
from studies.own_data.sets import SETS

TARGET = Path(__file__).parent / "RESULTS.md"


def main() -> None:
    found = results()
    parts = ["# Results", "Made by `python -m studies.own_data.report` from results.json.", *_sets(found)]
    parts += _pulses(found) + _fresh(found) + _large(found)
    TARGET.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _sets(found: dict) -> list[str]:
    rows = []
    for name, one in found.items():
        if name in SETS:
            errors = one["errors"]
            numbers = [errors[key] for key in ("projection_median", "forecast_median")]
            rows.append(
                [name, one["lines"], f"{one['cpu_seconds']:.0f}", one["method"], *(f"{x:.3f}" for x in numbers)]
            )
    head = ["set", "lines", "CPU s", "method", "projection", "forecast"]
    text = "NRMSE of held-out runs, the median over runs and times; the forecast is over the whole run."
    return ["## Five sets through the whole path", text, table(head, rows)]


def _pulses(found: dict) -> list[str]:
    rows = []
    for kind in PULSES:
        if kind in found:
            row = f"romkit: {found[kind]['method']} and neural ODE, 2 latents"
            rows.append([kind, row, *_against_clean(found[kind])])
        for name, row in found.get("rivals", {}).items():
            if name.startswith(f"{kind},"):
                numbers = (row["projection_median"], row["forecast_median_to_40"])
                rows.append([kind, name.removeprefix(f"{kind}, "), *(f"{x:.3f}" for x in numbers)])
    text = (
        "NRMSE over 40 time units of the same held-out runs against the states without noise, the median over runs and "
        "times. Packages work in POD coordinates, with settings chosen by rollouts of held-out training runs."
    )
    return ["## Pulses beside other packages", text, table(["data", "model", "projection", "forecast"], rows)]


def _against_clean(one: dict) -> list[str]:
    """Errors to 40 time units against the states without noise: of the projection, of the forecast."""
    errors = one["errors_to_40"]
    clean = one.get("errors_against_clean", errors)
    forecast = clean.get("forecast_median_to_40", errors["forecast_median"])
    return [f"{clean['projection_median']:.3f}", f"{forecast:.3f}"]


def _fresh(found: dict) -> list[str]:
    seeds = [0, *FRESH]
    rows = [
        [f"{kind}, seed {seed}", *_against_clean(found[key]), f"{found[key]['errors_to_40']['forecast_median']:.3f}"]
        for kind in PULSES
        for seed in seeds
        if (key := f"{kind}, seed {seed}" if seed else kind) in found
    ]
    text = (
        "The same for other draws of the data, of what is held out and of the training. Settings were chosen while "
        "looking at seed 0, and at no other. The last column is against the states as they were measured."
    )
    return ["## Pulses of fresh seeds", text, table(["data", "projection", "forecast", "measured"], rows)]


def _large(found: dict) -> list[str]:
    if "large" not in found:
        return []
    one = found["large"]
    wall, cpu = (", ".join(f"{x:.1f}" for x in one[key]) for key in ("seconds_per_epoch", "cpu_seconds_per_epoch"))
    text = (
        f"n = 20 000, 2 000 snapshots, default layers {tuple(one['layers'])}, one seed, one thread: seconds per epoch "
        f"{wall} by the clock, {cpu} of the processor; at most {one['peak_memory_GiB']:.1f} GiB. "
        f"POD with ten modes: {one['cpu_seconds_of_pod']:.1f} CPU s."
    )
    return ["## A large state", text]


if __name__ == "__main__":
    main()
