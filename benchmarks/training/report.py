"""RESULTS.md from results.json: `python -m benchmarks.training.report`."""

import json
from pathlib import Path

from romkit.core.files import atomic

FOLDER = Path(__file__).parent
WAYS = ("eager", "compiled", "captured", "compiled and captured")
HEAD = """| contestant | ms per seed and step | range | of geoopt's | of JAX's | of the arithmetic | start, s |
|---|---|---|---|---|---|---|
"""


def page(found: dict[str, object], throughput: dict[str, dict]) -> str:
    """The text of RESULTS.md, from results.json and throughput.json."""
    config, versions = found["config"], found["versions"]
    used = ", ".join(f"{name} {versions[name]}" for name in ("torch", "geoopt", "jax") if name in versions)
    intro = f"""# Results

Written by report.py from results.json. {found["device"]}; all on one core; {used}.
Batch {config["batch_size"]}, {config["seeds"]} seeds, median of {config["repeats"]} rounds in which the contestants \
take turns ({config["steps"]} steps of every seed each, {config["plain_steps"]} of geoopt's).
Times are CPU times of the process, so that other users of the machine count less; wall times are in results.json. \
*Start* is the wall time of the first step; of what is compiled, in a fresh process with empty caches.
"""
    sections = (_section(name, system) for name, system in found["systems"].items())
    return intro + "".join(sections) + _throughput(found, throughput)


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


def _throughput(found: dict[str, object], throughput: dict[str, dict]) -> str:
    measured = {tuple(name.split("/")): entry for name, entry in throughput.items()}
    on_gpu = {name: entry for name, entry in measured.items() if name[1] == "cuda"}
    if not on_gpu:
        return ""
    device = {entry["device"] for entry in on_gpu.values()}
    versions = {entry["versions"]["torch"] for entry in on_gpu.values()}
    lines = "".join(_throughput_row(found, name, entry) for name, entry in on_gpu.items())
    return f"""
## On a GPU

Written from throughput.json. {", ".join(device)}; torch {", ".join(versions)}; Adam, batch \
{found["config"]["batch_size"]}, thousands of seed-steps per second by the clock on the wall; the last column against \
romkit compiled on the one core of the tables above.

| system | seeds | {" | ".join(WAYS)} | times a core |
|---|---|{"---|" * len(WAYS)}---|
{lines}"""


def _throughput_row(found: dict[str, object], name: tuple[str, ...], entry: dict[str, dict]) -> str:
    system, _, seeds = name
    rates = entry["seed_steps_per_second"]
    core = 1e3 / found["systems"][system]["contestants"]["romkit, adam, compiled"]["cpu_ms"]
    cells = [system, seeds.split()[0], *(f"{rates[way] / 1e3:.3g}" for way in WAYS), f"{rates[WAYS[-1]] / core:.3g}"]
    return f"| {' | '.join(cells)} |\n"


def write(folder: Path = FOLDER) -> None:
    """RESULTS.md."""
    throughput = folder / "throughput.json"
    found, rates = json.loads((folder / "results.json").read_text()), {}
    if throughput.exists():
        rates = json.loads(throughput.read_text())
    with atomic(folder / "RESULTS.md") as temporary:
        temporary.write_text(page(found, rates))


if __name__ == "__main__":
    write()
