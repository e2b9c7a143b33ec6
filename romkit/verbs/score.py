"""Errors of a reduced model against the truth."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, runtime, tensors
from romkit.core.boundary import unchecked, validated
from romkit.core.errors import InputError
from romkit.core.tensors import divisor
from romkit.core.types import Array, Chunked
from romkit.data import DIMS, context_names
from romkit.data.layout import component_names
from romkit.data.schema import add_trajectories, variable_of
from romkit.data.times import times_of
from romkit.data.trajectories import check_components
from romkit.data.units import check_units
from romkit.metrics import VALID_THRESHOLD, pool_units, valid_time

SAME_TRUTH = "follow this very truth"


@validated
def score(truth: xr.Dataset, reduced: xr.Dataset, *, per_component: bool = False) -> xr.Dataset:
    """Return errors of a reduced model against the truth, in standard deviations of the data: one
    for all components of a unit (`romkit.metrics.pool_units`).

    Args:
        truth: `state` (trajectory, time, component), of a simulation or measured. Missing values do
            not count: errors are means over what was measured, NaN where nothing was.
        reduced: what `romkit.follow` returned for it, or any dataset with `state` and a coordinate
            `state_std` (component), the standard deviations of the training data.
        per_component: normalise each component by its own deviation, so that those that hardly move
            count as much as the others; constant ones by 1.

    Returns:
        `nrmse` (..., time) and `valid_time` (...), in front `seed` and `trajectory` as in
        `reduced`.

    Raises:
        InputError: the two do not have the same trajectories, times and components.

    Example:
        >>> import romkit
        >>> truth = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> errors = romkit.score(truth, romkit.follow(romkit.load("ncae-lorenz96"), truth))
        >>> errors.nrmse.dims, errors.valid_time.dims
        (('trajectory', 'time'), ('trajectory',))
    """
    # of one trajectory, `forecast` and `rollout` leave the dimension out
    single = "trajectory" not in reduced.dims
    truth, reduced = _checked_pair(truth, reduced)
    times = unchecked(times_of)(truth)
    x = variable_of(truth, "state", fix="add it").data
    state = reduced["state"].transpose(..., *DIMS)
    std = reduced["state_std"].values.astype(np.float64)
    scale = divisor(std) if per_component else pool_units(std, truth)
    look = nrmse_known(x, state.data, scale)
    numbers = runtime.computed("errors", *look)
    errors, count = map(torch.from_numpy, numbers)
    lead = state.dims[:-2]
    nrmse_attrs = {"units": "1", "long_name": "normalised error of the reduced model"}
    time_attrs = {
        "units": truth["time"].attrs.get("units", "1"),
        "long_name": f"time until NRMSE exceeds {VALID_THRESHOLD}",
    }
    variables = {
        "nrmse": ((*lead, "time"), errors.numpy(), nrmse_attrs),
        "valid_time": (lead, _valid_time(times, errors, count == 0).numpy(), time_attrs),
    }
    scores = xr.Dataset(variables, coords={"time": truth["time"].variable})
    return scores.squeeze("trajectory") if single else scores


def _checked_pair(truth: xr.Dataset, reduced: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Return both with a dimension of trajectories; raise InputError unless they are of the same
    runs.
    """
    for name in ("state", "state_std"):
        if name not in reduced:
            got = sorted(map(str, reduced.variables))
            raise InputError(
                "reduced",
                expected=f"a variable {name}",
                got=f"variables {got}",
                fix="score what romkit.follow returned",
            )
    truth = add_trajectories(truth)
    reduced = add_trajectories(reduced)
    for dim in DIMS:
        size = reduced.sizes.get(dim)
        size_of_truth = truth.sizes.get(dim)
        if size != size_of_truth:
            raise InputError(
                "reduced",
                expected=f"the same {dim} as the truth",
                got=f"{size} against {size_of_truth} in the truth",
                fix=SAME_TRUTH,
            )
    times = unchecked(times_of)(truth)
    if "time" in reduced.coords and not _same_times(unchecked(times_of)(reduced), times):
        raise InputError(
            "reduced", expected="the times of the truth", got="as many others", fix=SAME_TRUTH
        )
    _check_contexts(truth, reduced)
    check_components("reduced", reduced, component_names(truth))
    check_units("reduced", reduced, truth, _common_contexts(truth, reduced))
    size = truth.sizes["component"]
    meaning = "one for each component"
    checks.last_axis("reduced.state_std", reduced["state_std"].shape, size, meaning)
    return truth, reduced


def _same_times(times: Tensor, others: Tensor) -> bool:
    """Tell whether times are equal up to the precision of float32, and nearer than a step."""
    step = torch.inf
    if len(others) > 1:
        step = float(others.diff().min())
    tolerance = torch.clamp(1e-6 * others.abs(), max=step / 100)
    is_near = (times - others).abs() <= tolerance
    return bool(is_near.all())


def _common_contexts(truth: xr.Dataset, reduced: xr.Dataset) -> list[str]:
    """Return parameters that both have."""
    return [name for name in unchecked(context_names)(truth) if name in reduced.coords]


def _check_contexts(truth: xr.Dataset, reduced: xr.Dataset) -> None:
    """Raise InputError where both name their trajectories or contexts, and these differ, as in
    another order.
    """
    names = {*unchecked(context_names)(truth), "trajectory"}
    for name in names & {*truth.coords} & {*reduced.coords}:
        values_of_truth = np.atleast_1d(truth[name].values)
        values = np.atleast_1d(reduced[name].values)
        if values.shape != values_of_truth.shape or tensors.alike(values_of_truth, values):
            continue
        raise InputError(
            "reduced",
            expected=f"the {name} of the truth",
            got=checks.shown(values.tolist()),
            fix=f"{SAME_TRUTH}, in its order",
        )


def nrmse_known(
    truth: Array | Chunked, reduced: Array | Chunked, std: Array
) -> tuple[Array | Chunked, Array | Chunked]:
    """NRMSE (..., T) over the components that are not missing in the truth, NaN where all are; and
    their number.
    """
    truth, reduced = (x.astype(np.float64, copy=False) for x in (truth, reduced))
    missing = np.isnan(truth)
    error = (truth - reduced) / std
    square = np.where(missing, 0.0, error**2)
    count = (~missing).sum(-1)
    mean_square = square.sum(-1) / np.where(count > 0, count, np.nan)
    return np.sqrt(mean_square), count


def _valid_time(times: Tensor, errors: Tensor, nothing: Tensor) -> Tensor:
    """Return valid time without regard to samples of which nothing is measured; at most the time of
    the last other one.
    """
    nothing = nothing.expand(errors.shape)
    usable = torch.where(nothing, times[0], times)
    longest = usable.amax(-1) - times[0]
    errors = torch.where(nothing, 0.0, errors)
    return torch.minimum(unchecked(valid_time)(times, errors), longest)
