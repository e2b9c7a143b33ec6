"""RESULTS.md from results.json, RESULTS-cuda.md from results-cuda.json: `python -m benchmarks.rollout.report`."""

from pathlib import Path

from benchmarks.harness import Result, report, used
from studies.report import table

FOLDER = Path(__file__).parent
COLUMNS = (
    "contestant", "µs per step, trajectory", "range", "times romkit's", "s, 10 000 steps", "steps timed", "start, s",
)  # fmt: skip
SIZES = ("n", "contexts", "engine", "full model", "reduced model", "f", "projection", "solve")
CLOCKS = {
    "cpu": {
        "where": "all on one core",
        "times": "Times are CPU times of the process, so that other users of the machine count less; wall times are in "
        "results.json.",
    },
    "wall": {"where": "all on this GPU", "times": "Times are by the clock on the wall, until the GPU has finished."},
}
CHECK = """
Fields differ by at most {difference:.0e} of the largest component.

The floor: {kiloflop:.1f} kflop of matrix products per step and trajectory take {arithmetic} µs at the rate of a large \
product ({peak_gflop_per_s:.0f} Gflop/s in float64); reading weights, biases and slopes ({kilobyte:.1f} kB) takes \
{memory} µs. romkit takes {ratio} times as long as the arithmetic, which leaves out the 80 square roots and as many \
divisions of the activations.
"""


def page(found: Result) -> str:
    """Text of RESULTS.md."""
    clock = found.get("clock", "cpu")
    versions = used(found, "torch", "torchdiffeq", "torchode", "jax", "diffrax")
    tolerances = "".join(
        f"- {name}: rtol = atol = {c['tolerance']:.1e}, error {c['error']:.1e} (RK4's is {c['rk4_error']:.1e})\n"
        for name, c in found["calibration"].items()
    )
    core = ""
    if found["sizes"]:
        sizes = table(list(map(_size, found["sizes"])), SIZES)
        printed = [
            (m, *(_digits(found["printed"][f"{m}{k}_us"]) for k in ("_printed", ""))) for m in ("full", "reduced")
        ]
        core = _template("core").format(sizes=sizes, printed=table(printed, ("model", "printed", "timed")))
    cases = "".join(_case(case, f"{clock}_us") for case in found["cases"])
    parts = {"used": versions, "tolerances": tolerances, "cases": cases, "core": core}
    return _template("page").format_map(found | CLOCKS[clock] | parts).rstrip() + "\n"


def _template(name: str) -> str:
    return (FOLDER / f"{name}.template").read_text(encoding="utf-8")


def _case(case: Result, key: str) -> str:
    contexts, floor = case["contexts"], case["floor"]
    ours = next(iter(case["contestants"].values()))[key]
    rows = []
    for name, result in case["contestants"].items():
        rows.append([name, _digits(result[key]), f"{_digits(result['low_us'])} - {_digits(result['high_us'])}"])
        rows[-1] += [f"{result[key] / ours:.2f}", _digits(result[key] * contexts / 100)]
        rows[-1] += [result["steps"], f"{result['start_s']:.1f}"]
    arithmetic, memory = floor["arithmetic_us"], floor["memory_us"]
    ratios = {"arithmetic": _digits(arithmetic), "memory": _digits(memory), "ratio": _digits(ours / arithmetic)}
    title = f"\n## {contexts} context{'s' * (contexts > 1)}"
    return table(rows, COLUMNS, title) + CHECK.format(difference=case["field_difference"], **floor, **ratios)


def _size(size: Result) -> list[str]:
    costs = [_digits(size[key] / size["contexts"]) for key in ("full_us", "whole_us")]
    shares = [f"{round(100 * size[key] / size['whole_us'])} %" for key in ("f_us", "projection_us", "solve_us")]
    return [size["n"], size["contexts"], size["engine"], *costs, *shares]


def _digits(x: float) -> str:
    """Three significant digits, and no exponent."""
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


if __name__ == "__main__":
    report(FOLDER, page)
