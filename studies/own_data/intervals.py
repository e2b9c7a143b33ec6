"""How often the truth is within the intervals of ensembles, on new runs of the five sets.

python -m studies.own_data.intervals                # all that is not yet in intervals.json
python -m studies.own_data.intervals plumes         # these

Projection and laws are those of `paths`, with 30 % of the training runs held out for the calibration. The runs that
count are those of another seed, at other contexts; of the spirals, which have no seed, 30 % of the runs.
"""

import contextlib
import io
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import xarray as xr

import romkit
from romkit.core import runtime
from romkit.core.files import atomic
from studies.markdown import table
from studies.own_data import paths, sets

RESULTS, TARGET = (Path(__file__).parent / name for name in ("intervals.json", "INTERVALS.md"))
MEMBERS = {"neural-ode": 5, "sindy": 20}
PREPARED = {
    "pulses": lambda raw: romkit.data.describe(raw, context=["rate"]),
    "noisy-pulses": lambda raw: romkit.data.describe(raw, context=["rate"]),
    "forced-array": lambda raw: romkit.data.describe(raw, context=["beta"], state=["q", "v"], control=["shaker"]),
    "plumes": lambda raw: romkit.data.from_arrays(*raw[:2], context=raw[2]),
    "spirals": lambda raw: romkit.data.describe(raw, context=["dose"]),
}
FLOW = {"method": "flow", "latent_dim": 2, "basis": 40, "units": (64, 64, 64), "epochs": 250, "velocity_weight": 0.1}
PLANS = {
    "plumes": ({"method": "ncae", "latent_dim": 2, "basis": 20, "epochs": 400}, "sindy"),
    "spirals": ({"method": "ncae", "latent_dim": 2, "basis": 20, "epochs": 400}, "sindy"),
    "forced-array": ({"method": "ncae", "latent_dim": 2, "epochs": 100}, "sindy"),
    "pulses": (FLOW, "neural-ode"),
    "noisy-pulses": (FLOW, "neural-ode"),
}
LAWS = {"sindy": paths.CUBIC, "neural-ode": paths.NETWORK}


def main(names: list[str]) -> None:
    warnings.filterwarnings("ignore", category=romkit.errors.ExtrapolationWarning)
    for name in names or PLANS:
        found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if name not in found:
            with atomic(RESULTS) as temporary:
                temporary.write_text(json.dumps(found | {name: one_set(name)}, indent=1) + "\n")
            print(name, json.dumps(json.loads(RESULTS.read_text())[name]["coverage_90"]), flush=True)
    report(json.loads(RESULTS.read_text()))


def report(found: dict[str, dict]) -> None:
    """INTERVALS.md: coverage of the 90 % intervals, and whether it is within 80 to 97 %."""
    rows = []
    for name, one in found.items():
        covered = one["coverage_90"]
        shares = [f"{covered[kind]:.0%}" for kind in ("validation", "out of bag", "none")]
        holds = "yes" if 0.80 <= covered["validation"] <= 0.97 else "no"
        law = f"{one['settings']['method']}, {one['members']} x {one['law'].partition('(')[0]}"
        sizes = f"{one['width']:.2g}", f"{one['forecast_median']:.2f}", f"{one['cpu_seconds']:.0f}"
        rows.append([name, law, one["runs"]["test"], *shares, holds, *sizes])
    kinds = ["validation", "out of bag", "not calibrated", "80 to 97 %"]
    head = ["set", "ensemble", "new runs", *kinds, "width", "NRMSE of the mean", "CPU s"]
    text = """# Intervals

Made by `python -m studies.own_data.intervals`. The share of the samples of new runs within 90 % intervals: calibrated
by validation runs, by runs that members had not drawn, and not at all; the median width of the first in deviations,
and the median error of the mean. Where that is large, intervals hold by being wide."""
    missing = [name for name in PLANS if name not in found]
    rest = f"\n\nNot computed: {', '.join(missing)}." if missing else ""
    TARGET.write_text(f"{text}\n\n{table(head, rows)}{rest}\n", encoding="utf-8")


def one_set(name: str) -> dict[str, object]:
    """Coverage of intervals that were calibrated by validation runs, by runs that members had not drawn, and not."""
    settings, law = PLANS[name]
    with contextlib.redirect_stdout(io.StringIO()):
        data, test = (PREPARED[name](sets.SETS[name](seed=seed)) for seed in (0, 1))
    if name == "spirals":  # which has the same runs for every seed
        data, test = romkit.data.split(data, 0.3)
    train, validation = romkit.data.split(data, 0.3)
    parts = {"train": train, "validation": validation, "test": test}
    started = time.process_time()
    projection = romkit.fit(data=train, **settings)
    drawn = romkit.bootstrap(projection, LAWS[law], train, members=MEMBERS[law])
    calibrated = drawn.calibrated(validation)
    seconds = time.process_time() - started
    kinds = {"validation": calibrated, "out of bag": drawn, "none": romkit.Ensemble(drawn.projection, drawn.law)}
    found = {kind: each.reliability(test) for kind, each in kinds.items()}
    return {
        "settings": settings,
        "law": str(LAWS[law]),
        "members": MEMBERS[law],
        "runs": {key: len(each.trajectory) for key, each in parts.items()},
        "coverage_90": {kind: _at(table, 0.9) for kind, table in found.items()},
        "levels": found["validation"].level.values.tolist(),
        "coverage": {kind: table.coverage.values.round(4).tolist() for kind, table in found.items()},
        "coverage_90_of_each_run": found["validation"].coverage_of.sel(level=0.9).values.round(4).tolist(),
        "width": _width(calibrated.follow(test)),
        "forecast_median": float(romkit.score(test, calibrated.follow(test)).nrmse.median()),
        "cpu_seconds": seconds,
        "provenance": {"versions": runtime.versions(), "device": runtime.device_name("cpu"), "seed": 0},
    }


def _at(table: xr.Dataset, level: float) -> float:
    return round(float(table.coverage.sel(level=level)), 4)


def _width(band: xr.Dataset) -> float:
    """Median width of the 90 % interval, in standard deviations of the components."""
    return float(np.nanmedian(((band.upper - band.lower) / band.state_std).values))


if __name__ == "__main__":
    main(sys.argv[1:])
