"""RESULTS.md from results.json and throughput.json: `python -m benchmarks.training.report`."""

import json
from pathlib import Path

from benchmarks.harness import Result, report, used
from studies.report import table

FOLDER = Path(__file__).parent
COLUMNS = ("contestant", "ms per seed and step", "range", "of geoopt's", "of JAX's", "of the arithmetic", "start, s")


def page(found: Result, throughput: Path = FOLDER / "throughput.json") -> str:
    """Text of RESULTS.md."""
    text = _template("page").format(**found, used=used(found, "torch", "geoopt", "jax"))
    text += "".join(_system(name, system) for name, system in found["systems"].items())
    rates = json.loads(throughput.read_text(encoding="utf-8")) if throughput.exists() else {}
    return text + _gpu(found, {name: entry for name, entry in rates.items() if "/cuda/" in name})


def _template(name: str) -> str:
    return (FOLDER / f"{name}.template").read_text(encoding="utf-8")


def _system(name: str, system: Result) -> str:
    times = {contestant: result["cpu_ms"] for contestant, result in system["contestants"].items()}
    geoopt, rows = next(iter(times.values())), []
    for contestant, ms in times.items():
        result = system["contestants"][contestant]
        optimizer = "adam" if ", adam," in contestant else "riemannian-adam"  # geoopt's is the Riemannian one
        rival = times.get(f"JAX, {optimizer}, jit(scan)")
        rows.append([contestant, f"{ms:.3f}", f"{result['low_ms']:.3f} - {result['high_ms']:.3f}"])
        rows[-1] += [f"1/{geoopt / ms:.1f}", "" if rival is None else f"{ms / rival:.2f}"]
        rows[-1] += [f"{ms / system['floor']['replay_ms']:.1f}", f"{result['start_s']:.0f}"]
    title = f"\n## {name}, layers {'-'.join(map(str, system['layers']))}"
    return table(rows, COLUMNS, title) + _template("floor").format(**system["floor"])


def _gpu(found: Result, entries: Result) -> str:
    compiled, rows = "romkit, adam, compiled", []
    if not entries or any(compiled not in system["contestants"] for system in found["systems"].values()):
        return ""
    for name, entry in entries.items():
        system, _, seeds = name.split("/")
        rates = entry["seed_steps_per_second"]
        core = 1e3 / found["systems"][system]["contestants"][compiled]["cpu_ms"]
        *_, fastest = rates.values()
        rows.append(
            [system, seeds.split()[0], *(f"{rate / 1e3:.3g}" for rate in rates.values()), f"{fastest / core:.3g}"]
        )
    devices = ", ".join({entry["device"] for entry in entries.values()})
    versions = ", ".join({entry["versions"]["torch"] for entry in entries.values()})
    text = _template("gpu").format(devices=devices, versions=versions, batch_size=found["config"]["batch_size"])
    return text + table(rows, ("system", "seeds", *rates, "times a core"))


if __name__ == "__main__":
    report(FOLDER, page)
