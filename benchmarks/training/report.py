"""RESULTS.md from results.json: `python -m benchmarks.training.report`."""

import json
from pathlib import Path

from romkit.files import atomic

FOLDER = Path(__file__).parent
HEAD = """| contestant | ms per seed and step | range | of geoopt's | of JAX's | of the arithmetic | start, s |
|---|---|---|---|---|---|---|
"""


def page(found: dict[str, object]) -> str:
    """The text of RESULTS.md."""
    config, versions = found["config"], found["versions"]
    used = ", ".join(f"{name} {versions[name]}" for name in ("torch", "geoopt", "jax") if name in versions)
    intro = f"""# Results

Written by report.py from results.json. {found["device"]}; all on one core; {used}.
Batch {config["batch_size"]}, {config["seeds"]} seeds, median of {config["repeats"]} rounds in which the contestants \
take turns ({config["steps"]} steps of every seed each, {config["plain_steps"]} of geoopt's).
Times are CPU times of the process, so that other users of the machine count less; wall times are in results.json. \
*Start* is the wall time of the first step; of what is compiled, in a fresh process with empty caches.
"""
    return intro + "".join(_section(name, system) for name, system in found["systems"].items())


def _section(name: str, system: dict[str, object]) -> str:
    times = {contestant: result["cpu_ms"] for contestant, result in system["contestants"].items()}
    lines = "".join(_row(contestant, system, times) for contestant in times)
    return f"\n## {name}, layers {'-'.join(map(str, system['layers']))}\n\n{HEAD}{lines}\n{_floor(system['floor'])}"


def _row(contestant: str, system: dict[str, object], times: dict[str, float]) -> str:
    result, ms = system["contestants"][contestant], times[contestant]
    plain = next(iter(times.values()))
    rival = _rival(contestant, times)
    cells = [
        contestant,
        f"{ms:.3f}",
        f"{result['low_ms']:.3f} - {result['high_ms']:.3f}",
        f"1/{plain / ms:.1f}",
        "" if rival is None else f"{ms / rival:.2f}",
        f"{ms / system['floor']['replay_ms']:.1f}",
        f"{result['start_s']:.0f}",
    ]
    return f"| {' | '.join(cells)} |\n"


def _rival(contestant: str, times: dict[str, float]) -> float | None:
    """The time of JAX with the same optimizer; geoopt's is the Riemannian one."""
    optimizer = "adam" if ", adam," in contestant else "riemannian-adam"
    return times.get(f"JAX, {optimizer}, jit(scan)")


def _floor(floor: dict[str, float]) -> str:
    return f"""
The loss and its gradient take {floor["megaflop"]:.2f} Mflop of matrix products per seed and step, which move \
{floor["megabyte"]:.2f} MB. At the rate of a large product ({floor["peak_gflop_per_s"]:.0f} Gflop/s) that is \
{floor["peak_ms"]:.3f} ms; the same products one after the other at their own sizes \
({floor["replay_gflop_per_s"]:.0f} Gflop/s) take {floor["replay_ms"]:.3f} ms, which is *the arithmetic* of the table; \
moving their operands and results once inside the cache takes {floor["memory_ms"]:.3f} ms.
"""


if __name__ == "__main__":
    with atomic(FOLDER / "RESULTS.md") as temporary:
        temporary.write_text(page(json.loads((FOLDER / "results.json").read_text())))
