"""RESULTS.md from results.json: python -m studies.own_data.report."""

from pathlib import Path

from studies.own_data.sets import SETS
from studies.pieces import stored
from studies.report import table, write_text

HERE = Path(__file__).parent
PULSES, FRESH = ("pulses", "noisy-pulses"), (1, 2, 3)
"""Sets of pulses, and seeds of their data, split and training that chose no setting."""
LARGE = """

## A large state

n = 20 000, 2 000 snapshots, default layers {layers}, one seed, one thread: seconds per epoch {wall} by the clock, \
{cpu} of the processor; at most {peak_memory_GiB:.1f} GiB. POD with ten modes: {cpu_seconds_of_pod:.1f} CPU s."""


def page(found: dict[str, dict]) -> str:
    """Text of RESULTS.md."""
    rows, rivals, fresh = [], [], []
    for name in (name for name in found if name in SETS):
        one, errors = found[name], found[name]["errors"]
        medians = [f"{errors[key]:.3f}" for key in ("projection_median", "forecast_median")]
        rows.append([name, one["lines"], f"{one['cpu_seconds']:.0f}", one["method"], *medians])
    for kind in (kind for kind in PULSES if kind in found):
        own = f"romkit: {found[kind]['method']} and neural ODE, 2 latents"
        rivals.append([kind, own, *_against_clean(found[kind])])
        for name, row in found.get("rivals", {}).items():
            if name.startswith(f"{kind},"):
                numbers = (row["projection_median"], row["forecast_median_to_40"])
                rivals.append([kind, name.removeprefix(f"{kind}, "), *(f"{x:.3f}" for x in numbers)])
    for kind in PULSES:
        for seed in (0, *FRESH):
            if (key := f"{kind}, seed {seed}" if seed else kind) in found:
                measured = f"{found[key]['errors_to_40']['forecast_median']:.3f}"
                fresh.append([f"{kind}, seed {seed}", *_against_clean(found[key]), measured])
    large = ""
    if "large" in found:
        one = found["large"]
        keys = {"wall": "seconds_per_epoch", "cpu": "cpu_seconds_per_epoch"}
        clocks = {name: ", ".join(f"{x:.1f}" for x in one[key]) for name, key in keys.items()}
        large = LARGE.format_map(one | clocks | {"layers": tuple(one["layers"])})
    return (
        (HERE / "RESULTS.template")
        .read_text(encoding="utf-8")
        .format(
            sets=table(rows, ("set", "lines", "CPU s", "method", "projection", "forecast")),
            rivals=table(rivals, ("data", "model", "projection", "forecast")),
            fresh=table(fresh, ("data", "projection", "forecast", "measured")) + large,
        )
    )


def _against_clean(one: dict) -> list[str]:
    """Errors to 40 time units against the states without noise: of the projection, of the forecast."""
    errors = one["errors_to_40"]
    clean = one.get("errors_against_clean", errors)
    forecast = clean.get("forecast_median_to_40", errors["forecast_median"])
    return [f"{clean['projection_median']:.3f}", f"{forecast:.3f}"]


if __name__ == "__main__":
    write_text(HERE / "RESULTS.md", page(stored(HERE / "results.json")))
