"""RESULTS.md from results.json: `python -m benchmarks.rollout.report`."""

import json
from pathlib import Path

from benchmarks.rollout.with_torch import ROMKIT
from romkit.core.files import atomic

FOLDER = Path(__file__).parent
HEAD = """| contestant | µs per step, trajectory | range | times romkit's | s, 10 000 steps | steps timed | start, s |
|---|---|---|---|---|---|---|
"""
SIZE_HEAD = """
## Cost against n

An untrained NcAE 2-18-n, romkit's default solver, µs of CPU time per step of RK4 and trajectory.

| n | contexts | engine | full model | reduced model | f | projection | solve |
|---|---|---|---|---|---|---|---|
"""
SIZE_FOOT = """
The projection is φ(z) and its Jacobian; the solve is JᵀJ, Jᵀf and the 2 x 2 system. Shares are differences between \
runs of the whole field, of the field with f replaced by -x, and of the projection alone. Nothing is sampled, so the \
reduced model costs more than the full one: f costs a few operations per component, the projection over a hundred. \
It pays where f is dear or steps can be longer.
"""
PRINTED_HEAD = """
## What a rollout prints

`romkit rollout lorenz96 --F 3.15` prints what it costs, by the clock on the wall. µs per step, every one of which is
written, beside the CPU time of the same steps:

| model | printed | timed |
|---|---|---|
"""


_WHERE = {
    "cpu": (
        "all on one core",
        "Times are CPU times of the process, so that other users of the machine count less; wall times are in "
        "results.json.",
    ),
    "wall": ("all on this GPU", "Times are by the clock on the wall, until the GPU has finished."),
}


def page(found: dict[str, object]) -> str:
    """The text of RESULTS.md."""
    versions = found["versions"]
    packages = ("torch", "torchdiffeq", "torchode", "jax", "diffrax")
    used = ", ".join(f"{name} {versions[name]}" for name in packages if name in versions)
    where, clock = _WHERE[found.get("clock", "cpu")]
    intro = f"""# Results

Written by report.py from results.json. {found["device"]}; {where}; {used}.
Galerkin field of the pretrained NcAE of Lorenz96 (2-18-36), float64, dt = 0.01; median of \
{found["config"]["repeats"]} rounds in which the contestants take turns. {clock}
*Steps timed* says how many steps a contestant really took; 10 000 steps are extrapolated from them. Adaptive solvers \
choose their own steps, and a "step" is the 0.01 time units that RK4 would take. *Start* is the wall time that the \
first call takes longer than later ones (compilation, nothing cached); romkit's later calls still record the field, \
and that is in its time.

{_calibration(found["calibration"])}"""
    cases = "".join(_section(case, found.get("clock", "cpu")) for case in found["cases"])
    return intro + cases + (_sizes(found["sizes"]) + _printed(found["printed"]) if found["sizes"] else "")


def _calibration(calibrated: dict[str, dict[str, float]]) -> str:
    lines = [
        f"- {name}: rtol = atol = {c['tolerance']:.1e}, error {c['error']:.1e} (RK4's is {c['rk4_error']:.1e})"
        for name, c in calibrated.items()
    ]
    head = "Tolerances of the adaptive solvers: the largest, in steps of √10, with which they are as accurate as RK4."
    return "\n".join([head, "", *lines, ""])


def _section(case: dict[str, object], clock: str) -> str:
    times = {name: result[f"{clock}_us"] for name, result in case["contestants"].items()}
    ours = times[ROMKIT]
    lines = "".join(
        _row(name, result, times[name], ours, case["contexts"]) for name, result in case["contestants"].items()
    )
    plural = "s" if case["contexts"] > 1 else ""
    title = f"\n## {case['contexts']} context{plural}\n\n"
    check = f"\nFields differ by at most {case['field_difference']:.0e} of the largest component.\n"
    return title + HEAD + lines + check + _floor(case["floor"], ours)


def _row(name: str, result: dict[str, float], own: float, ours: float, contexts: int) -> str:
    cells = [
        name,
        _digits(own),
        f"{_digits(result['low_us'])} - {_digits(result['high_us'])}",
        f"{own / ours:.2f}",
        _digits(own * contexts / 100),
        f"{result['steps']}",
        f"{result['start_s']:.1f}",
    ]
    return f"| {' | '.join(cells)} |\n"


def _floor(floor: dict[str, float], ours: float) -> str:
    return f"""
The floor: {floor["kiloflop"]:.1f} kflop of matrix products per step and trajectory take \
{_digits(floor["arithmetic_us"])} µs at the rate of a large product ({floor["peak_gflop_per_s"]:.0f} Gflop/s in \
float64); reading weights, biases and slopes ({floor["kilobyte"]:.1f} kB) takes {_digits(floor["memory_us"])} µs. \
romkit takes {_digits(ours / floor["arithmetic_us"])} times as long as the arithmetic, which leaves out the {_ROOTS} \
square roots and as many divisions of the activations.
"""


_ROOTS = 4 * (2 + 18)


def _sizes(sizes: list[dict[str, object]]) -> str:
    return SIZE_HEAD + "".join(map(_size_row, sizes)) + SIZE_FOOT


def _size_row(size: dict[str, object]) -> str:
    parts = ("f_us", "projection_us", "solve_us")
    cells = [
        f"{size['n']}",
        f"{size['contexts']}",
        f"{size['engine']}",
        *(_digits(size[key] / size["contexts"]) for key in ("full_us", "whole_us")),
        *(f"{round(100 * size[key] / size['whole_us'])} %" for key in parts),
    ]
    return f"| {' | '.join(cells)} |\n"


def _printed(found: dict[str, float]) -> str:
    rows = "".join(
        f"| {model} | {_digits(found[f'{model}_printed_us'])} | {_digits(found[f'{model}_us'])} |\n"
        for model in ("full", "reduced")
    )
    return PRINTED_HEAD + rows


def _digits(x: float) -> str:
    """Three significant digits, and no exponent."""
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def write(folder: Path = FOLDER) -> None:
    """RESULTS.md, and RESULTS-cuda.md of a GPU, if there are such results."""
    for suffix in ("", "-cuda"):
        results = folder / f"results{suffix}.json"
        if results.exists():
            with atomic(folder / f"RESULTS{suffix}.md") as temporary:
                temporary.write_text(page(json.loads(results.read_text())))


if __name__ == "__main__":
    write()
