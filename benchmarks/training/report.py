"""RESULTS.md from results.json and throughput.json."""

import json
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.harness import Result, used
from studies.report import dots, filled, table

FOLDER = Path(__file__).parent


def page(found: Result, throughput: Path = FOLDER / "throughput.json") -> str:
    """Return text of RESULTS.md."""
    text = filled(FOLDER / "page.template", **found, used=used(found, "torch", "geoopt", "jax"))
    text += "".join(_system(name, system) for name, system in found["systems"].items())
    rates = json.loads(throughput.read_text(encoding="utf-8")) if throughput.exists() else {}
    return text + _gpu(found, {name: entry for name, entry in rates.items() if "/cuda/" in name})


def draw(found: Result) -> dict[str, Figure]:
    """Return times of each contestant on each system."""
    times = {}
    for system, results in found["systems"].items():
        for name, result in results["contestants"].items():
            times.setdefault(name, {})[system] = result["cpu_ms"]
    fastest = {
        min(times, key=lambda name: times[name].get(system, float("inf")))
        for system in found["systems"]
    }
    finding = f"Fastest on each system: {' and '.join(sorted(fastest))}"
    return {"times.png": dots(times, "CPU time per seed and step, ms", finding)}


def _system(name: str, system: Result) -> str:
    times = {contestant: result["cpu_ms"] for contestant, result in system["contestants"].items()}
    geoopt, rows = next(iter(times.values())), []
    for contestant, ms in times.items():
        result = system["contestants"][contestant]
        optimizer = (
            "adam" if ", adam," in contestant else "riemannian-adam"
        )  # geoopt's is the Riemannian one
        rival = times.get(f"JAX, {optimizer}, jit(scan)")
        row = {
            "contestant": contestant,
            "ms per seed and step": f"{ms:.3f}",
            "range": f"{result['low_ms']:.3f} - {result['high_ms']:.3f}",
            "of geoopt's": f"1/{geoopt / ms:.1f}",
            "of JAX's": "" if rival is None else f"{ms / rival:.2f}",
            "of the arithmetic": f"{ms / system['floor']['replay_ms']:.1f}",
            "start, s": f"{result['start_s']:.0f}",
        }
        rows.append(row)
    title = f"\n## {name}, layers {'-'.join(map(str, system['layers']))}"
    return table(rows, caption=title) + filled(FOLDER / "floor.template", **system["floor"])


def _gpu(found: Result, entries: Result) -> str:
    compiled, rows = "romkit, adam, compiled", []
    if not entries or any(
        compiled not in system["contestants"] for system in found["systems"].values()
    ):
        return ""
    for name, entry in entries.items():
        system, _, seeds = name.split("/")
        rates = entry["seed_steps_per_second"]
        core = 1e3 / found["systems"][system]["contestants"][compiled]["cpu_ms"]
        *_, fastest = rates.values()
        rows.append(
            [
                system,
                seeds.split()[0],
                *(f"{rate / 1e3:.3g}" for rate in rates.values()),
                f"{fastest / core:.3g}",
            ]
        )
    devices = ", ".join({entry["device"] for entry in entries.values()})
    versions = ", ".join({entry["versions"]["torch"] for entry in entries.values()})
    batch = {"batch_size": found["config"]["batch_size"]}
    text = filled(FOLDER / "gpu.template", devices=devices, versions=versions, **batch)
    return text + table(rows, ("system", "seeds", *rates, "times a core"))
