"""What a figure of a rollout shows: members, stretches of time, components, titles."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core import tensors
from romkit.core.errors import InputError
from romkit.metrics import VALID_THRESHOLD

FIELD_SIZE = 24
"""States of at least this many components of one unit are shown as a field, smaller ones as curves."""

MAX_COLUMNS = 4
"""Most contexts, or trajectories, that one figure shows."""

MAX_CURVES = 4
"""Most components that one figure shows as curves."""

PERIODS = 6
"""How many periods of the dominant oscillation a window shows: more of them blur into a texture."""


VARIABLES = {"truth", "rom", "latent", "nrmse", "nrmse_projected", "valid_time", "status", "time", "component"}
"""What a run has to have."""


class Column(NamedTuple):
    """One column of panels: a context, a stretch of time, and what stands above it."""

    trajectory: int
    times: slice
    title: str


def check_run(run: xr.Dataset) -> None:
    """Raise unless these are variables of a rollout, with entries."""
    missing = sorted(VARIABLES - set(map(str, run.variables)))
    empty = [str(dim) for dim, size in run.sizes.items() if size == 0]
    if missing or empty:
        got, fix = f"one without {', '.join(missing + empty)}", "give what romkit.rollout returned"
        raise InputError("run", expected="a run", got=got, fix=fix)
    check_numbers("run", run, *sorted(VARIABLES - {"time", "component"}))
    if not np.isfinite(run["status"].values).all():
        raise InputError("run", expected="a status for each trajectory", got="NaN", fix="give what rollout returned")


def check_numbers(argument: str, data: xr.Dataset, *names: str) -> None:
    """Raise unless these variables have real numbers along dimensions with entries, and times increase."""
    empty = [str(dim) for dim, size in data.sizes.items() if size == 0]
    if "time" not in data or empty:
        fix = "give data in romkit's schema, a forecast or a rollout"
        got = f"none along {', '.join(empty)}" if empty else f"variables {sorted(map(str, data.variables))}"
        raise InputError(argument, expected="times and entries", got=got, fix=fix)
    tensors.times(f"{argument}.time", data["time"].values)
    for name in names:
        if name not in data or data[name].dtype.kind not in "fiu":
            got, fix = f"dtype {data[name].dtype}" if name in data else "none", "convert it, or name another one"
            raise InputError(argument, expected=f"real numbers in {name}", got=got, fix=fix)


def first_seed(run: xr.Dataset) -> xr.Dataset:
    """The run of one seed, with the dimension `trajectory` also where there is a single one."""
    run = run.isel(seed=0, drop=True, missing_dims="ignore")
    return run if "trajectory" in run.dims else run.expand_dims("trajectory")


def members(run: xr.Dataset) -> xr.Dataset:
    """The run with all its dimensions, also those of length one that `romkit.rollout` leaves out."""
    for dim in ("trajectory", "seed"):
        if dim not in run.dims:
            parameters = [name for name, coord in run.coords.items() if coord.ndim == 0]
            run = run.expand_dims(dim)
            if dim == "trajectory":
                run = run.assign_coords({name: run[name].expand_dims("trajectory") for name in parameters})
    return run.transpose("seed", "trajectory", "time", ..., missing_dims="ignore")


def median_seed(run: xr.Dataset) -> int:
    """The seed whose valid prediction time, averaged over the contexts, is the (lower) median."""
    order = np.argsort(run["valid_time"].mean("trajectory").values, kind="stable")
    return int(order[(len(order) - 1) // 2])


def is_field(run: xr.Dataset) -> bool:
    """Whether the state is shown as a field: many components of one unit."""
    return run.sizes["component"] >= FIELD_SIZE and run["truth"].attrs.get("units") != "mixed"


def columns_of(run: xr.Dataset) -> list[Column]:
    """One column per context; for a single context the whole run, or its beginning and its end."""
    time = run["time"].values
    window = _window(time, run["truth"].isel(seed=0, missing_dims="ignore").values)
    whole, last = slice(0, len(time)), slice(len(time) - window, len(time))
    length = f"{time[window - 1] - time[0]:.3g} {unit(run['time'], '{}') or 'time units'}"
    if run.sizes["trajectory"] > 1:
        extent = "" if window == len(time) else f"\nlast {length}"
        return [Column(k, last, context(run, k, varying=True) + extent) for k in range(run.sizes["trajectory"])]
    if window == len(time):
        return [Column(0, whole, "")]
    return [Column(0, slice(0, window), f"first {length}"), Column(0, last, f"last {length}")]


def _window(time: np.ndarray, truth: np.ndarray) -> int:
    """Number of samples of a stretch that can be read, all of them where two such stretches cover most of the run."""
    states = np.nan_to_num(truth - truth.mean(-2, keepdims=True))
    power = np.square(np.abs(np.fft.rfft(states, axis=-2))).sum((0, -1)).cumsum()
    median = np.searchsorted(power, power[-1] / 2)  # in cycles per run: half the power is slower, half is faster
    span = time[-1] - time[0]
    readable = _round(PERIODS * span / max(1, median))
    return int(np.searchsorted(time - time[0], readable)) + 1 if span > 2.5 * readable else len(time)


def _round(length: float) -> float:
    """The next larger of ..., 1, 2, 2.5, 5, 10, ..., so that the axes begin and end at round numbers."""
    decade = 10.0 ** np.floor(np.log10(length)) if length > 0 else 1.0
    return next(decade * m for m in (1, 2, 2.5, 5, 10) if decade * m >= length * (1 - 1e-9))


def context(run: xr.Dataset, trajectory: int, *, varying: bool) -> str:
    """The context parameters of a trajectory that differ between trajectories, or those that do not."""
    values = []
    for name, coord in run.coords.items():
        if coord.dims == ("trajectory",) and coord.dtype.kind in "iuf" and coord.attrs.get("role") != "label":
            differs = len(np.unique(coord.values)) > 1
            if differs == varying:
                values.append(f"{name} = {coord.values[trajectory]:.4g}{unit(coord, ' {}')}")
    return ",\n".join(", ".join(values[k : k + 4]) for k in range(0, len(values), 4))


def headline(run: xr.Dataset) -> str:
    """What was run, on one line."""
    system = run.attrs.get("system", "data")
    method, dynamics = (run.attrs.get(key, "?") for key in ("projection", "dynamics"))
    shared = context(run, 0, varying=False).replace("\n", " ")
    sizes = f"{run.sizes['latent_component']} of {run.sizes['component']} dimensions"
    return f"{system}{' at ' if shared else ''}{shared}: {method} with {sizes}, {dynamics.removesuffix('Model')}"


def title(run: xr.Dataset, shown: xr.Dataset) -> str:
    """The headline, and a line for everything that the figure leaves out."""
    contexts, seeds = run.sizes["trajectory"], run.sizes["seed"]
    lines = [headline(run)]
    if contexts > shown.sizes["trajectory"]:
        lines.append(f"the first {shown.sizes['trajectory']} of {contexts} contexts")
    if seeds > 1:
        lines.append(f"of {seeds} seeds, the one with the median valid time (thin lines: the others)")
    if not is_field(run) and run.sizes["component"] > MAX_CURVES:
        lines.append(f"the {MAX_CURVES} components with the largest relative error")
    return "\n".join(lines)


def unit(variable: xr.DataArray, pattern: str) -> str:
    """The variable's unit put into `pattern`; nothing where it has none."""
    units = variable.attrs.get("units", "1")
    return "" if units in ("1", "", "mixed") else pattern.format(units)


def worst_components(run: xr.Dataset, count: int) -> list[int]:
    """Those with the largest error relative to their own variation, in the order of the state."""
    error = (run["rom"] - run["truth"]).std(("trajectory", "time"))
    relative = (error / run["truth"].std(("trajectory", "time")).clip(1e-12)).fillna(0.0).values
    return sorted(np.argsort(-relative, kind="stable")[:count].tolist())


def error_limits(run: xr.Dataset) -> tuple[float, float]:
    """The range of the error axis: a floor that single good instants do not drag down, room above the threshold."""
    values = np.concatenate([run[name].values.ravel() for name in ("nrmse", "nrmse_projected")])
    values = values[np.isfinite(values) & (values > 0)]
    if len(values) == 0:
        return VALID_THRESHOLD / 10, VALID_THRESHOLD * 10
    return min(np.quantile(values, 0.005), VALID_THRESHOLD) / 2, min(max(1.0, values.max()), 10.0) * 1.6
