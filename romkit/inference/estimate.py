"""Context and latent state from observations, with intervals that know the error of the reduced
model.
"""

import time
from collections.abc import Mapping, Sequence

import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Numbers, Part, Positive, validated
from romkit.core.errors import InputError
from romkit.engine import Engine
from romkit.inference.calibration import Calibration, calibrate, samples_of
from romkit.inference.observations import Observations
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
    engine: Engine = "compiled",
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
        engine: "compiled", or "torch" where a field cannot be compiled (see `romkit.engine`).
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
        with known contexts, which cannot tell less.

    Raises:
        InputError: fewer observations than unknowns; sensors, times or training data that do not
            fit.

    Source: Kaipio, Somersalo (2007), of the error of the model; Vovk, Gammerman, Shafer (2005), of
    the intervals.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> data = system.dataset(F=[3.14, 3.15, 3.16, 3.17, 3.18], duration=1.0)
        >>> found = romkit.infer(romkit.load("ncae-lorenz96"), data.isel(time=[0, 50]), training=data, noise=0.1)
        >>> found.estimate.dims, found.latent.dims
        (('trajectory', 'parameter'), ('trajectory', 'time', 'latent_component'))
    """
    started = time.perf_counter()
    own = {
        "training": training,
        "dynamics": dynamics,
        "system": system,
        "sensors": sensors,
        "noise": noise,
    }
    if isinstance(source, Calibration):
        for name, value in own.items():
            if value is not None:
                fix = "drop it, or give it to romkit.calibrate"
                raise InputError(
                    name, expected="nothing, since the calibration has it", got="a value", fix=fix
                )
    else:
        if training is None:
            fix = "give data with known contexts, such as the projection was fitted to"
            raise InputError("training", expected="a dataset", got="none", fix=fix)
        source = calibrate(
            source, observations=observations, **own, solver=solver, engine=engine, starts=starts
        )
    frame, predict = source.predict.frame, source.predict
    given = Observations.of(source.predict.projection, observations, predict.rows.tolist())
    y = samples_of(given, predict.dynamics)
    _check(source, given, y)
    found = source.estimates(y, source.prior(prior or {}), starts)
    estimate, scale = predict.context(found.d), predict.scale
    half = found.std * source.quantile(source.scores, level)
    ends = [
        predict.context((found.d + side * half).clamp(-source.bound, source.bound))
        for side in (-1, 1)
    ]
    false_alarms = max(FALSE_ALARMS, 2 / (1 + float(source.votes.sum())))
    limits = source.quantile(
        source.strange, 1 - false_alarms / 2
    )  # either of the two may raise the alarm
    latent = found.w if predict.dynamics is None else found.w.squeeze(1)
    each, interval = ("trajectory", "parameter"), f"end of the {level:.0%} interval"
    variables = {
        "estimate": (each, estimate, "estimate of the context"),
        "std": (each, scale * found.std, "standard deviation"),
        "lower": (each, ends[0], f"lower {interval}"),
        "upper": (each, ends[1], f"upper {interval}"),
        "covariance": (
            (*each, "parameter_2"),
            found.covariance * scale * scale.unsqueeze(-1),
            "covariance",
        ),
        "latent": (
            ("trajectory", "time", "latent_component")[:: 4 - latent.ndim],
            latent,
            "latent state",
        ),
        "residual": (
            "trajectory",
            found.residual,
            "root mean square residual, in units of its weights",
        ),
        "expected_residual": (
            "trajectory",
            torch.full_like(found.residual, source.residual),
            "its expectation",
        ),
        "explained": (
            "trajectory",
            (found.strange <= limits).all(1),
            "whether a context in the range explains them",
        ),
    }
    names = list(frame.context_names)
    coords = {
        "parameter": names,
        "parameter_2": names,
        "units": ("parameter", list(frame.context_units)),
    }
    attrs = {
        "projection": frame.system or type(predict.projection).__name__,
        "dynamics": "none" if predict.dynamics is None else type(predict.dynamics).__name__,
        "sensors": [frame.state_names[row] for row in predict.rows],
        "noise": sorted({*source.noise.tolist()}),
        "level": level,
        "false_alarms": false_alarms,
        "starts": starts,
        "seconds": time.perf_counter() - started,
    }
    data = {
        name: (dims, x.numpy(), {"long_name": words})
        for name, (dims, x, words) in variables.items()
    }
    return xr.Dataset(data, coords, attrs)


def _check(source: Calibration, given: Observations, y: Tensor) -> None:
    """Raise where observations are at other times than those of the calibration, or fewer than
    unknowns.
    """
    times, known = given.times - given.times[0], source.predict.times
    if source.predict.dynamics is not None and (
        y.shape[-1] != source.values.shape[1]
        or len(times) != len(known)
        or not torch.allclose(times, known, atol=1e-6 * float(1 + known[-1]))
    ):
        got, fix = (
            f"{len(given.values[0])} times",
            "observe at these times, NaN where a number is missing",
        )
        expected = f"the {len(known)} times of the calibration"
        raise InputError("observations", expected=expected, got=got, fix=fix)
    there = y.isfinite()
    unknowns = source.d.shape[1] + source.w.shape[1] * there.any(-1).sum(1)
    few = there.sum((1, 2)) < unknowns
    if bool(few.any()):
        k = int(few.nonzero()[0])
        got, fix = (
            f"{int(there[k].sum())} in trajectory {k}",
            "observe more components, or a longer window",
        )
        raise InputError(
            "observations", expected=f"{int(unknowns[k])} numbers or more", got=got, fix=fix
        )
