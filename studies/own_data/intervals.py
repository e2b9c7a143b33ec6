"""Coverage of the intervals of ensembles on new runs: python -m studies.own_data.intervals [--preset smoke].

Projection and laws are those of `paths`, with 30 % of the training runs held out for the calibration. New runs are
those of another seed, at other contexts; of the spirals, which have no seed, 30 % of the runs.
"""

import contextlib
import io
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr

import romkit
from romkit.integrators import Estimator
from studies.own_data import paths, sets
from studies.own_data.run import QUICK, SCALES
from studies.pieces import Numbers, command
from studies.report import table

HERE = Path(__file__).parent
MEMBERS = {"neural-ode": 5, "sindy": 20}
LAWS = {"sindy": paths.CUBIC, "neural-ode": paths.NETWORK}
DESCRIBED = {
    "pulses": {"context": ["rate"]},
    "noisy-pulses": {"context": ["rate"]},
    "forced-array": {"context": ["beta"], "state": ["q", "v"], "control": ["shaker"]},
    "spirals": {"context": ["dose"]},
}
FLOW = {"method": "flow", "latent_dim": 2, "basis": 40, "units": (64, 64, 64), "epochs": 250, "velocity_weight": 0.1}
PLANS = {
    "plumes": ({"method": "ncae", "latent_dim": 2, "basis": 20, "epochs": 400}, "sindy"),
    "spirals": ({"method": "ncae", "latent_dim": 2, "basis": 20, "epochs": 400}, "sindy"),
    "forced-array": ({"method": "ncae", "latent_dim": 2, "epochs": 100}, "sindy"),
    "pulses": (FLOW, "neural-ode"),
    "noisy-pulses": (FLOW, "neural-ode"),
}
HEAD = (
    "set", "ensemble", "new runs", "validation", "out of bag", "not calibrated", "80 to 97 %", "width",
    "NRMSE of the mean", "CPU s",
)  # fmt: skip


def page(found: dict[str, dict]) -> str:
    """Text of INTERVALS.md: coverage of the 90 % intervals, and whether it is within 80 to 97 %."""
    rows = []
    for name, one in found.items():
        covered = one["coverage_90"]
        law = f"{one['settings']['method']}, {one['members']} x {one['law'].partition('(')[0]}"
        rows.append(
            [name, law, one["runs"]["test"], *(f"{covered[k]:.0%}" for k in ("validation", "out of bag", "none"))]
        )
        rows[-1] += ["yes" if 0.80 <= covered["validation"] <= 0.97 else "no", f"{one['width']:.2g}"]
        rows[-1] += [f"{one['forecast_median']:.2f}", f"{one['cpu_seconds']:.0f}"]
    return f"""# Intervals

Made by `python -m studies.own_data.intervals`. The share of the samples of new runs within 90 % intervals: calibrated
by validation runs, by runs that members had not drawn, and not at all; the median width of the first in deviations,
and the median error of the mean. Where that is large, intervals hold by being wide.

{table(rows, HEAD)}
"""


def prepared(name: str, size: dict[str, float], seed: int) -> xr.Dataset:
    """Data of a set in the layout of romkit."""
    raw = sets.SETS[name](seed=seed, **size)
    with contextlib.redirect_stdout(io.StringIO()):
        if name == "plumes":
            return romkit.data.from_arrays(*raw[:2], context=raw[2])
        return romkit.data.describe(raw, **DESCRIBED[name])


def one_set(name: str, size: dict[str, float], settings: dict[str, object], law: Estimator, members: int) -> Numbers:
    """Coverage of intervals that were calibrated by validation runs, by runs that members had not drawn, and not."""
    warnings.filterwarnings("ignore", category=romkit.errors.ExtrapolationWarning)
    if name == "spirals":  # which has the same runs for every seed
        data, test = romkit.data.split(prepared(name, size, 0), 0.3)
    else:
        data, test = (prepared(name, size, seed) for seed in (0, 1))
    train, validation = romkit.data.split(data, 0.3)
    started = time.process_time()
    projection = romkit.fit(data=train, **settings)
    drawn = romkit.bootstrap(projection, law, train, members=members)
    calibrated = drawn.calibrated(validation)
    seconds = time.process_time() - started
    kinds = {"validation": calibrated, "out of bag": drawn, "none": romkit.Ensemble(drawn.projection, drawn.law)}
    found = {kind: each.reliability(test) for kind, each in kinds.items()}
    band = calibrated.follow(test)
    return {
        "settings": settings,
        "law": str(law),
        "members": members,
        "runs": {
            "train": len(train.trajectory),
            "validation": len(validation.trajectory),
            "test": len(test.trajectory),
        },
        "coverage_90": {kind: round(float(each.coverage.sel(level=0.9)), 4) for kind, each in found.items()},
        "levels": found["validation"].level.values.tolist(),
        "coverage": {kind: each.coverage.values.round(4).tolist() for kind, each in found.items()},
        "coverage_90_of_each_run": found["validation"].coverage_of.sel(level=0.9).values.round(4).tolist(),
        "width": float(np.nanmedian(((band.upper - band.lower) / band.state_std).values)),
        "forecast_median": float(romkit.score(test, band).nrmse.median()),
        "cpu_seconds": seconds,
    }


FULL = {name: partial(one_set, name, {}, plan, LAWS[law], MEMBERS[law]) for name, (plan, law) in PLANS.items()}
SMOKE = {
    name: partial(one_set, name, SCALES["smoke"].sets[name], PLANS[name][0] | {"epochs": 6}, law, 3)
    for name, law in (("spirals", paths.CUBIC), ("pulses", QUICK))
}

if __name__ == "__main__":
    command(HERE, {"full": FULL, "smoke": SMOKE}, page, file="intervals.json", target="INTERVALS.md")
