"""`romkit.score`: how far a reduced trajectory is from the truth, over time, and until when it can be trusted."""

from collections.abc import Callable

import torch
import xarray as xr
from torch import Tensor

from romkit import arrays, checks
from romkit.boundary import checked
from romkit.data import DIMS, context_names, times_of, trajectories
from romkit.data.layout import component_names
from romkit.data.matching import check_components
from romkit.errors import InputError
from romkit.metrics import VALID_THRESHOLD, nrmse, valid_time


@checked
def score(truth: xr.Dataset, reduced: xr.Dataset) -> xr.Dataset:
    """Errors of a reduced model against the truth.

    Args:
        truth: `state` (trajectory, time, component), of a simulation or measured. Missing values do not count: errors
            are means over what was measured, NaN where nothing was.
        reduced: what `romkit.follow` returned for it, or any dataset with `state` and a coordinate `state_std`
            (component) by which errors are normalised.

    Returns:
        `nrmse` (..., time) and `valid_time` (...), in front `seed` and `trajectory` as in `reduced`.

    Raises:
        InputError: the two do not have the same trajectories, times and components.

    Example:
        >>> import romkit
        >>> truth = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> errors = romkit.score(truth, romkit.follow(romkit.load("ncae-lorenz96"), truth))
        >>> errors.nrmse.dims, errors.valid_time.dims
        (('trajectory', 'time'), ('trajectory',))
    """
    for dim in DIMS:
        if truth.sizes.get(dim) != reduced.sizes.get(dim):
            got = f"{reduced.sizes.get(dim)} against {truth.sizes.get(dim)} in the truth"
            raise InputError("reduced", expected=f"the same {dim} as the truth", got=got, fix="follow this very truth")
    for name in ("state", "state_std"):
        if name not in reduced:
            got, fix = f"variables {sorted(map(str, reduced.variables))}", "score what romkit.follow returned"
            raise InputError("reduced", expected=f"a variable {name}", got=got, fix=fix)
    times = times_of(truth)
    if "time" in reduced.coords and not _close(times_of(reduced), times):
        fix = "follow this very truth"
        raise InputError("reduced", expected="the times of the truth", got="as many others", fix=fix)
    _check_contexts(truth, reduced)
    reduced = reduced.assign(state=reduced["state"].transpose(..., *DIMS))
    check_components("reduced", reduced, component_names(truth))
    lead, size = reduced["state"].dims[:-2], truth.sizes["component"]
    checks.last_axis("reduced.state_std", reduced["state_std"].shape, size, "one for each component")
    x = trajectories(truth, "state")
    errors = _measured(nrmse, x, *(torch.from_numpy(reduced[n].values.copy()) for n in ("state", "state_std")))
    unit = truth["time"].attrs.get("units", "1")
    named = {"units": "1", "long_name": "normalised error of the reduced model"}
    until = {"units": unit, "long_name": f"time until NRMSE exceeds {VALID_THRESHOLD}"}
    return xr.Dataset(
        {
            "nrmse": ((*lead, "time"), errors.numpy(), named),
            "valid_time": (lead, _until(times, errors, x).numpy(), until),
        },
        coords={"time": truth["time"]},
    )


def _close(times: Tensor, others: Tensor) -> bool:
    """Whether times differ by less than what a change of precision makes of them, and less than a step."""
    step = float(others.diff().min()) if len(others) > 1 else torch.inf
    return bool(((times - others).abs() <= torch.clamp(1e-6 * others.abs(), max=step / 100)).all())


def _check_contexts(truth: xr.Dataset, reduced: xr.Dataset) -> None:
    """Raise InputError where both name their trajectories or contexts, and these differ, as in another order."""
    for name in {*context_names(truth), "trajectory"} & {*truth.coords} & {*reduced.coords}:
        own, given = truth[name].values, reduced[name].values
        if own.shape == given.shape and not arrays.alike(own, given):
            fix = "follow this very truth, in its order"
            raise InputError("reduced", expected=f"the {name} of the truth", got=checks.shown(given.tolist()), fix=fix)


def _measured(error: Callable[..., Tensor], truth: Tensor, reduced: Tensor, std: Tensor) -> Tensor:
    """`error` of the components that are not missing in the truth."""
    missing = truth.isnan()
    if not bool(missing.any()):
        return error(truth, reduced, std)
    there = (~missing).double()
    square = torch.where(missing, 0.0, ((truth - reduced) / std).square()).sum(-1)
    return (square / there.sum(-1)).sqrt()


def _until(times: Tensor, errors: Tensor, truth: Tensor) -> Tensor:
    """Valid time, of which missing samples say nothing: it ends with the last measured one at the latest."""
    nothing = truth.isnan().all(-1).expand(errors.shape)
    if not bool(nothing.any()):
        return valid_time(times, errors)
    last = torch.where(nothing, times[0], times).amax(-1) - times[0]
    return torch.minimum(valid_time(times, torch.where(nothing, 0.0, errors)), last)
