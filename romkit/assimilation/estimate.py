"""Context and latent state from observations, with intervals that know the error of the reduced
model.
"""

import time
from collections.abc import Mapping, Sequence

import torch
import xarray as xr
from torch import Tensor

from romkit.assimilation.calibrating import calibrate
from romkit.assimilation.calibration import Calibration, Estimates, samples_of
from romkit.assimilation.observations import Observations
from romkit.core import checks
from romkit.core.boundary import Count, Numbers, Part, Positive, validated
from romkit.core.errors import InputError
from romkit.core.types import Kwargs, Names, Variables
from romkit.engine import Engine
from romkit.models import Dynamics
from romkit.projections import Projection
from romkit.solvers import Solver
from romkit.systems import System

FALSE_ALARMS = 0.01
"""Share of observations that the model explains and that are said to be unexplained."""


@validated
def infer(
    source: Projection | Calibration,
    observations: xr.Dataset,
    *,
    training: xr.Dataset | None = None,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    sensors: Sequence[object] | None = None,
    noise: Positive | Numbers | None = None,
    prior: Mapping[str, Sequence[float]] | None = None,
    solver: Solver | None = None,
    engine: Engine = "auto",
    starts: Count = 4,
    level: Part = 0.9,
) -> xr.Dataset:
    """Estimate context and latent state of each trajectory of observations.

    Nonlinear least squares over both at once, weighted by the noise and by the error of the reduced
    model. The mean of this error is learned from data with known contexts and subtracted, its
    scatter enters the weights; intervals are those that hold on such data.

    Args:
        source: a projection; or what `romkit.calibrate` returned, for observations of the same
            sensors at the same times, which then takes a fraction of a second.
        observations: `state` (trajectory, time, component), NaN where it is missing; snapshots need
            no times.
        training: data with known contexts (see `romkit.calibrate`).
        dynamics: law of the latent state, as in `romkit.follow`; without, each snapshot has its own
            latent state.
        system: the full model, for dynamics that look at it.
        sensors: names or numbers of the observed components, all by default.
        noise: standard deviation of the noise, a number or one for each sensor; without, it is
            estimated from the residual of all observations.
        prior: mean and standard deviation of parameters, by name; without, any value in the range
            of the training.
        solver: of the latent equation; by default `RK4` with a step that is checked.
        engine: as of `romkit.rollout`: "auto" compiles the field where it can be and that pays.
        starts: training samples that the search starts from; more where a residual is far above its
            expectation.
        level: of the intervals.

    Returns:
        Dataset of trajectories: `estimate`, `std`, `lower`, `upper` (…, parameter), `covariance`
        (…, parameter, parameter_2), `latent`, of the first time with dynamics, or of each time;
        `residual` of the fit, as the root of a mean square in units of its weights,
        `expected_residual`, and `explained`, false where the residual is too large or a context
        beyond the range would explain more. Attributes record settings, seconds, and the share of
        `false_alarms` on the average over calibrations: 1 %, or 2 / (K + 1) of K < 199 trajectories
        with known contexts, which cannot tell less. It holds for windows like those of the
        training (`false_alarms_hold_for`); of others more are said to be unexplained.

    Raises:
        InputError: fewer observations than unknowns; sensors, times or training data that do not
            fit.

    Source: Kaipio, Somersalo (2007), of the error of the model; Vovk, Gammerman, Shafer (2005), of
    the intervals.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> data = system.dataset(F=[3.14, 3.15, 3.16, 3.18], duration=0.1)
        >>> found = romkit.infer(romkit.load("ncae-lorenz96"), data.isel(time=[0, 9]), training=data, noise=0.1)
        >>> found.estimate.dims, found.latent.dims
        (('trajectory', 'parameter'), ('trajectory', 'time', 'latent_component'))
    """
    started = time.perf_counter()
    arguments: Kwargs = {
        "training": training,
        "dynamics": dynamics,
        "system": system,
        "sensors": sensors,
        "noise": noise,
    }
    calibration = _calibration(source, observations, arguments, solver, engine, starts)
    predict = calibration.predict
    seen = Observations.read(predict.projection, observations, predict.rows.tolist())
    y = samples_of(seen, predict.dynamics)
    if calibration.predict.dynamics is not None:
        _check_times(calibration, seen, y)
    numbers, unknowns = calibration.counted(y)
    too_few = (numbers < unknowns).nonzero()
    if len(too_few):
        k = int(too_few[0])
        raise InputError(
            "observations",
            expected=f"{int(unknowns[k])} numbers or more",
            got=f"{int(numbers[k])} in trajectory {k}",
            fix="observe more components, or a longer window",
        )
    stated = calibration.prior(prior or {})
    estimates = calibration.estimates(y, stated, starts)
    votes = float(calibration.votes.sum())
    false_alarms = max(FALSE_ALARMS, 2 / (1 + votes))
    variables = _variables(calibration, estimates, level, false_alarms)
    frame = predict.frame
    names = list(frame.context_names)
    coords = {
        "parameter": names,
        "parameter_2": names,
        "units": ("parameter", list(frame.context_units)),
    }
    dynamics_name = "none"
    if predict.dynamics is not None:
        dynamics_name = type(predict.dynamics).__name__
    attrs = {
        "projection": frame.system or type(predict.projection).__name__,
        "dynamics": dynamics_name,
        "sensors": [frame.state_names[row] for row in predict.rows],
        "noise": sorted({*calibration.noise.tolist()}),
        "level": level,
        "false_alarms": false_alarms,
        "false_alarms_hold_for": _describe_windows(calibration),
        "starts": starts,
        "seconds": time.perf_counter() - started,
    }
    return xr.Dataset(variables, coords, attrs)


def _calibration(
    source: Projection | Calibration,
    observations: xr.Dataset,
    arguments: Kwargs,
    solver: Solver | None,
    engine: Engine,
    starts: int,
) -> Calibration:
    """Return the calibration that was given, or one for these observations."""
    if not isinstance(source, Calibration):
        if arguments["training"] is None:
            raise InputError(
                "training",
                expected="a dataset",
                got="none",
                fix="give data with known contexts, such as the projection was fitted to",
            )
        return calibrate(
            source,
            observations=observations,
            **arguments,
            solver=solver,
            engine=engine,
            starts=starts,
        )
    fix = "drop it, or give it to romkit.calibrate"
    checks.absent("beside a calibration, which has it", fix, **arguments)
    return source


def _variables(
    calibration: Calibration, estimates: Estimates, level: float, false_alarms: float
) -> Variables:
    """Return variables of the dataset of estimates."""
    predict = calibration.predict
    scale = predict.scale
    bound = calibration.bound
    half = estimates.std * calibration.quantile(calibration.scores, level)
    low = (estimates.d - half).clamp(-bound, bound)
    high = (estimates.d + half).clamp(-bound, bound)
    covariance = estimates.covariance * scale * scale.unsqueeze(-1)
    # either of the two limits may raise the alarm
    limits = calibration.quantile(calibration.strange, 1 - false_alarms / 2)
    explained = (estimates.strange <= limits).all(1)
    expected = torch.full_like(estimates.residual, calibration.residual)
    latent = estimates.w
    latent_dims: Names = ("trajectory", "time", "latent_component")
    if predict.dynamics is not None:
        latent = latent.squeeze(1)
        latent_dims = ("trajectory", "latent_component")
    over = ("trajectory", "parameter")
    interval = f"end of the {level:.0%} interval"
    weights = "root mean square residual, in units of its weights"
    rows = [
        ("estimate", over, predict.context(estimates.d), "estimate of the context"),
        ("std", over, scale * estimates.std, "standard deviation"),
        ("lower", over, predict.context(low), f"lower {interval}"),
        ("upper", over, predict.context(high), f"upper {interval}"),
        ("covariance", (*over, "parameter_2"), covariance, "covariance"),
        ("latent", latent_dims, latent, "latent state"),
        ("residual", "trajectory", estimates.residual, weights),
        ("expected_residual", "trajectory", expected, "its expectation"),
        ("explained", "trajectory", explained, "whether a context in the range explains them"),
    ]
    variables = {
        name: (dims, values.numpy(), {"long_name": words}) for name, dims, values, words in rows
    }
    return variables


def _describe_windows(calibration: Calibration) -> str:
    """Windows for which the share of false alarms was measured, in words."""
    predict = calibration.predict
    low = predict.context(calibration.d.amin(0))
    high = predict.context(calibration.d.amax(0))
    ranges = [
        f"{name} from {least:g} to {most:g}"
        for name, least, most in zip(predict.frame.context_names, low, high, strict=True)
    ]
    kind = "snapshots"
    if predict.dynamics is not None:
        kind = f"windows of {float(predict.times[-1]):g}"
    return f"{kind} like those of the training, with {', '.join(ranges)}"


def _check_times(
    calibration: Calibration, seen: Observations, y: Tensor, *, rounding: float = 1e-6
) -> None:
    """Raise where a window has other times than those of the calibration.

    `rounding`: difference of times that are the same, relative to the length of a window.
    """
    known = calibration.predict.times
    times = seen.times - seen.times[0]
    if len(times) == len(known) and y.shape[-1] == calibration.values.shape[1]:
        tolerance = rounding * float(1 + known[-1])
        if torch.allclose(times, known, atol=tolerance):
            return
    raise InputError(
        "observations",
        expected=f"the {len(known)} times of the calibration",
        got=f"{len(seen.values[0])} times",
        fix="observe at these times, NaN where a number is missing",
    )
