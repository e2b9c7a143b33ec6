"""REPORT.md: page.md filled with the tables of all presets that have results."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from studies.exactness.tasks import BEYOND, NOISE, TIMED
from studies.report import TITLES, dots, filled, save_png, table, write_text
from studies.rollout_drift.report import MARGIN
from studies.rollout_drift.tasks import SWITCH
from studies.runner import Study, read

Runs = list[xr.Dataset]
RACES = {preset: f"size {preset}" for preset in ("smoke", "equal", "half", "double")}
RACES |= {"paper": "FiLM+AE's sizes of the paper", "bent": "encoders that are networks"}
RACES |= {
    "long": "size equal, 400 epochs",
    "adam": "size equal, by Adam",
    "time": "size equal, as long as the flow's",
}
EQUAL = ("equal", "long", "time")
"""Races at size equal, by the length of training."""
BELOW = 0.012
"""Distance below the change of wave number, in F, within which other waves are strong in the data."""
DURATION = 30.0
"""Length of the pendulum's rollouts, in s."""
SUMMARY = ("system", "race", "position, means", "medians", "velocity, means", "medians")
MAPS = {"encoder": "ρ", "decoder": "φ", "projection": "P"}


def write(folder: Path, preset: str = "") -> Path:
    """Write REPORT.md into `folder` from the results of all presets there and their archives."""
    results = {name: read(folder / name) for name in Study("exactness").presets}
    certificates, energies = (
        [run for run in results["guarantees"] if run.attrs["kind"] == kind]
        for kind in ("certificates", "energy")
    )
    races = [
        _race(title, found, system) for (title, found), system in product(_races(results), TITLES)
    ]
    ratios = _ratios(results)
    if ratios:
        save_png(_drawn(ratios), folder / "ratios.png")
    text = filled(
        Path(__file__).with_name("page.md"),
        summary=table(
            [[*race, *(f"{x:.2f}" for x in row.values())] for race, row in ratios.items()], SUMMARY
        ),
        races="".join(races),
        noise=_robustness(results["robustness"]),
        noise_seeds=_provenance(results["robustness"]),
        certificates=_certificates(certificates),
        contexts=_certificates_of_the_context(certificates),
        energies=_energies(energies),
        rollouts=_rollouts("Rollouts after training on snapshots, size equal", results["rollouts"]),
        dynamics=_rollouts("Rollouts with the preset dynamics, size equal", results["dynamics"]),
        epochs=max((run.sizes["epoch"] for run in results["cost"]), default=TIMED),
        costs=_costs(results["cost"]),
        times="\n".join(_times(results, system) for system in TITLES),
    )
    return write_text(folder / "REPORT.md", text)


def _races(results: dict[str, Runs]) -> list[tuple[str, Runs]]:
    """Return title and results of each race, without other measurements."""
    return [
        (title, [run for run in results[name] if "kind" not in run.attrs])
        for name, title in RACES.items()
    ]


def _of(found: Runs, system: str) -> Runs:
    return [run for run in found if run.attrs["system"] == system]


def _over_contexts(errors: xr.DataArray) -> np.ndarray:
    return np.sqrt((errors**2).mean("context")).values


def _spread(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ± {values.std():.4f} ({np.median(values):.4f})"


def _spreads(run: xr.Dataset) -> dict[str, str]:
    return {
        f"{kind} RMSE": _spread(_over_contexts(run[f"{kind}_rmse"]))
        for kind in ("position", "velocity")
    }


def _minutes(run: xr.Dataset) -> str:
    return f"{run.attrs['training_cpu_seconds'] / 60:.1f}"


def _provenance(runs: Runs) -> str:
    if not runs:
        return ""
    devices, epochs = (
        ", ".join(sorted({str(run.attrs[name]) for run in runs})) for name in ("device", "epochs")
    )
    seeds = runs[0].seed.values
    return f"Seeds {seeds[0]} to {seeds[-1]}, {epochs} epochs; {devices}."


def _ratios(results: dict[str, Runs]) -> dict[tuple[str, str], dict[str, float]]:
    """Return errors of the flow over those of FiLM+AE, by system and race."""
    ratios = {}
    for (title, runs), system in product(_races(results), TITLES):
        found = {run.attrs["method"]: run for run in _of(runs, system)}
        if {"flow", "film-ae"} <= found.keys():
            ratios[TITLES[system], title] = {
                f"{kind}, {middle.__name__}s": float(middle(own) / middle(other))
                for kind in ("position", "velocity")
                for own, other in [
                    [
                        _over_contexts(found[method][f"{kind}_rmse"])
                        for method in ("flow", "film-ae")
                    ]
                ]
                for middle in (np.mean, np.median)
            }
    return ratios


def _drawn(ratios: dict[tuple[str, str], dict[str, float]]) -> Figure:
    medians = {
        ", ".join(race): {kind: row[f"{kind}, medians"] for kind in ("position", "velocity")}
        for race, row in ratios.items()
    }
    found = [x for row in medians.values() for x in row.values()]
    finding = f"Medians over seeds: the exact flow has the smaller error in {sum(x < 1 for x in found)} of {len(found)}"
    figure = dots(
        medians, "RMSE of the flow / RMSE of FiLM+AE", f"{finding} comparisons with FiLM+AE"
    )
    figure.axes[0].set_xscale("linear")
    figure.axes[0].axvline(1.0, color="0.5", linewidth=0.8, zorder=0)
    return figure


def _race(title: str, found: Runs, system: str) -> str:
    """Section of a race on a system; nothing without results."""
    runs = sorted(
        _of(found, system), key=lambda run: float(_over_contexts(run.velocity_rmse).mean())
    )
    if not runs:
        return ""
    rows, away = [], []
    for run in runs:
        latent, method = run.get("latent_velocity_rmse"), {"method": run.attrs["method"]}
        row = method | {"parameters": run.attrs["parameters"]} | _spreads(run)
        row["latent velocity RMSE"] = "-" if latent is None else _spread(_over_contexts(latent))
        row["idempotency"] = f"{float(run.idempotency_error.max()):.1e}"
        row["diverged"] = f"{int(run.training_diverged.sum())} of {run.sizes['seed']}"
        rows.append(row | {"CPU min": _minutes(run)})
        if system == "lorenz96":
            others = run.velocity_rmse.where((run.F < SWITCH - BELOW) | (run.F > SWITCH), drop=True)
            parts = {
                "mean over forcings": run.velocity_rmse,
                "away from the change of wave number": others,
            }
            away.append(
                method
                | {name: _spread(part.mean("context").values) for name, part in parts.items()}
            )
    text = (
        table(
            rows,
            caption=f"\n## {TITLES[system]}, {title}\n\nRoot mean squares over all test contexts.",
        )
        + "\n"
    )
    if away:
        text += (
            table(away, caption="\nVelocity RMSE of each forcing, averaged over forcings:") + "\n"
        )
    return f"{text}\n{_provenance(runs)}\n\n"


def _costs(costs: Runs) -> str:
    """CPU time of a step of each method."""
    least = _least(costs)
    rows = []
    for (system, method), own in least.items():
        relative = own / least.get((system, "ncae"), np.nan)
        row = {
            "system": TITLES[system],
            "method": method,
            "µs for a seed and step": f"{1e6 * own:.0f}",
        }
        rows.append(row | {"NcAE = 1": f"{relative:.2f}"})
    return table(rows)


def _least(costs: Runs) -> dict[tuple[str, str], float]:
    return {(run.attrs["system"], run.attrs["method"]): float(run.seconds.min()) for run in costs}


def _times(results: dict[str, Runs], system: str) -> str:
    """Section of errors by what whole trainings of size equal cost."""
    least, rows = _least(results["cost"]), []
    steps = {
        run.attrs["method"]: run.attrs["steps_per_epoch"] for run in _of(results["cost"], system)
    }
    for run in (run for preset in EQUAL for run in _of(results[preset], system)):
        if (method := run.attrs["method"]) in steps:
            time, epochs = (
                least[system, method] * steps[method] * run.attrs["epochs"],
                run.attrs["epochs"],
            )
            row = {
                "CPU s for a seed": f"{time:.1f}",
                "method": method,
                "epochs": epochs,
            } | _spreads(run)
            rows.append((time, method, str(epochs), row))
    rows = [row for *_, row in sorted(rows, key=lambda each: each[:3])]
    title = f"\n## {TITLES[system]}, size equal: errors by the time of training\n\nTime of all steps at these costs."
    return table(rows, caption=title)


def _robustness(found: Runs) -> str:
    """Return errors of noisy states, and at contexts out of the range."""
    rows = []
    for run in found:
        cells = []
        for suffix in ("", "_beyond"):
            pairs = (
                run[f"{name}{suffix}"].median("seed").values
                for name in ("position_rmse", "velocity_rmse")
            )
            cells += [
                f"{position:.4f} / {velocity:.4f}"
                for position, velocity in zip(*pairs, strict=True)
            ]
        rows.append([TITLES[run.attrs["system"]], run.attrs["method"], *cells])
    shares = [f"noise {share:.0%}" for share in NOISE] + [
        f"{share:.0%} out of range" for share in BEYOND
    ]
    return table(rows, ["system", "method", *shares])


def _waves(run: xr.Dataset) -> dict[str, str]:
    away = run.valid_time.isel(context=np.abs(run.F.values - SWITCH) >= MARGIN)
    longer = {"share > 100": run.valid_time > 100, "share > 500": run.valid_time > 500}
    longer["share > 500, away"] = away > 500
    median = f"{np.median(run.valid_time):.0f}"
    return {"median": median} | {
        name: f"{float(share.mean()):.0%}" for name, share in longer.items()
    }


def _motions(run: xr.Dataset) -> dict[str, str]:
    whole = run.valid_time >= DURATION * (1 - 1e-9)
    drift = f"{float(run.peak_energy_drift.median()):.0e}"
    return {"valid to the end": f"{float(whole.mean()):.2%}", "energy error, median": drift}


FOLLOWED: dict[str, tuple[str, Callable[[xr.Dataset], dict[str, str]]]] = {
    "lorenz96": (
        "Time until NRMSE exceeds 0.5, of 1000; away from the change of wave number by 0.004 or more.",
        _waves,
    ),
    "pendulum": ("Of 256 configurations over 30 s.", _motions),
}
"""Caption of the rollouts of a system, and its own columns."""


def _rollouts(title: str, found: Runs) -> str:
    """Section of the rollouts of each system that has some."""
    text = ""
    for system, (rule, own) in FOLLOWED.items():
        runs, rows = [run for run in found if run.attrs["task"].startswith(system)], []
        for run in runs:
            row = {name: run.attrs[name] for name in ("method", "dynamics")} | own(run)
            row["diverged"] = f"{int(run.diverged.sum())} of {run.valid_time.size}"
            rows.append(row | {"training, CPU min": _minutes(run)})
        if runs:
            seeds = runs[0].seed.values
            caption = f"\n## {title}: {TITLES[system]}\n\n{rule} Seeds {seeds[0]} to {seeds[-1]}."
            text += table(rows, caption=caption) + "\n"
    return text


def _maps(runs: Runs) -> Iterator[tuple[xr.Dataset, dict[str, str]]]:
    """Certificates of each map, with the cells that name it."""
    for run, (which, symbol) in product(runs, MAPS.items()):
        row, names = (
            run.sel(map=which),
            {"system": TITLES[run.attrs["system"]], "method": run.attrs["method"]},
        )
        yield row, names | {"map": symbol, "radius": f"{float(row.radius.max()):.3g}"}


def _certificates(runs: Runs) -> str:
    rows = []
    for row, own in _maps(runs):
        sizes = {name: f"{float(row[name].max()):.3g}" for name in ("upper", "lower")}
        ratios = {
            "upper / lower": row.upper / row.lower,
            "pairs / bound": row.of_pairs,
            "seconds": row.seconds,
        }
        rows.append(own | sizes | {name: f"{float(x.max()):.2f}" for name, x in ratios.items()})
    return table(rows)


def _certificates_of_the_context(runs: Runs) -> str:
    rows = []
    for row, own in _maps(runs):
        ratio = row.context_upper / row.context_lower
        if np.isfinite(ratio).all():  # not for all states, nor for a map that no context moves
            upper = (
                row.attrs["context_radius"],
                row.context_upper.median(),
                row.context_upper.max(),
            )
            quotients = [f"{float(x):.2f}" for x in (ratio.median(), ratio.max())]
            rows.append([*own.values(), *(f"{float(x):.3g}" for x in upper), *quotients])
    head = ["system", "method", "map", "radius", "of contexts", "upper, median", "largest"]
    return table(rows, [*head, "upper / lower, median", "largest"])


def _energies(runs: Runs) -> str:
    rows = []
    for run in runs:
        error, time = run.energy_error.values, run.time.values
        trend = np.polyfit(time, error, 1)[0] * time[-1]
        sizes = {
            "largest error": np.abs(error).max(),
            "change by the trend": trend,
            "lift": run.attrs["symplecticity"],
        }
        solver = str(run.attrs["solver"]).split(", iter")[0].split(", div")[0] + ")"
        rows.append(
            {"solver": solver, "steps": run.attrs["steps"]}
            | {k: f"{x:.1e}" for k, x in sizes.items()}
        )
    return table(rows)
