"""Calibration of estimates by training data: noise of the model, and scores of data it has seen."""

import functools
from collections.abc import Sequence

import torch
import xarray as xr
from torch import Tensor

from romkit.assimilation.calibration import KNOWN, SAMPLES, Calibration, samples_of
from romkit.assimilation.leastsquares import LeastSquares
from romkit.assimilation.modelerror import ModelError, Weight
from romkit.assimilation.observations import Observations
from romkit.assimilation.prediction import Prediction
from romkit.core import tensors
from romkit.core.boundary import Count, Numbers, Positive, validated
from romkit.core.errors import InputError
from romkit.core.types import TensorTuple
from romkit.data.trajectories import Trajectories
from romkit.engine import Engine
from romkit.models import Dynamics
from romkit.projections import Projection
from romkit.solvers import Solver
from romkit.systems import System

EXACT = 1e-3
"""Noise, in deviations of the states, that latent states of known samples are fitted with."""


@validated
def calibrate(
    projection: Projection,
    training: xr.Dataset,
    observations: xr.Dataset,
    *,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    sensors: Sequence[object] | None = None,
    noise: Positive | Numbers | None = None,
    solver: Solver | None = None,
    engine: Engine = "auto",
    starts: Count = 4,
) -> Calibration:
    """Measure the errors of a reduced model, and of contexts estimated with it, on data with known
    contexts.

    Args:
        projection: a single one, with a context.
        training: trajectories of some ten contexts or more, not shorter than the observations, in
            which the times of the observations recur. All windows of longer ones count, and make
            intervals narrower. Contexts between those that the projection was fitted to show its
            errors best.
        observations: such as will be made: their times, and without `noise` their values, count.
        dynamics: as of `romkit.infer`, and so are all that follow.
        system: the full model.
        sensors: the observed components.
        noise: its standard deviation.
        solver: of the latent equation.
        engine: that integrates it.
        starts: training samples that a search starts from.

    Returns:
        Calibration for all observations of these sensors at these times since the first.

    Raises:
        InputError: training data of too few contexts, too short, or at other times.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> data = system.dataset(F=[3.14, 3.15, 3.16, 3.18], duration=0.05)
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> calibration = romkit.calibrate(ncae, data, data.isel(time=[0]), noise=0.1)
        >>> calibration.d.shape[1], calibration.values.shape[1]
        (1, 36)
    """
    # noise, in deviations of the states, by which observations are fitted to see how large it
    # is
    guess = 0.1
    seen = Observations.read(projection, observations, sensors)
    y = samples_of(seen, dynamics)
    repeats = y.shape[-1] // len(seen.rows)  # times of a window
    std = tensors.divisor(projection.frame.state_std.double()[seen.rows])
    # noise that is not known may be small
    least = EXACT * std if noise is None else noises_of(noise, seen.rows)
    predict = Prediction(
        projection, seen.times, seen.rows, training, least, dynamics, system, solver, engine
    )
    std = std.repeat(repeats)  # (N,)
    d, w, values, trajectory = training_samples(predict, training)
    w = _nearest_latents(predict, d, w, values, std)
    errors = values - predict(d, w)

    def calibrated(noise: Tensor, chosen: Tensor | slice = slice(None)) -> Calibration:
        of_d = d[chosen]
        of_w = w[chosen]
        numbers = trajectory[chosen].unique(return_inverse=True)[1]
        error = ModelError.fit(of_d, of_w, numbers, errors[chosen] / noise)
        untried = torch.zeros(0)
        return Calibration(
            predict,
            error,
            of_d,
            of_w,
            values[chosen],
            noise,
            untried,
            untried,
            untried,
            1.0,
        )

    if noise is None:
        guessed = calibrated(guess * std)
        sigma = _residual_noise(guessed, y, std, starts)
    else:
        sigma = least.repeat(repeats)
    of_samples = functools.partial(calibrated, sigma)
    return calibrated(sigma).tried(of_samples, y.shape[1], starts)


def _nearest_latents(
    predict: Prediction, d: Tensor, w: Tensor, values: Tensor, std: Tensor
) -> Tensor:
    """Latent states (K, q) that predict samples (K, N) best at their contexts, from encoded ones."""
    y = values.unsqueeze(1)  # (K, 1, N)
    no_modes = std.new_zeros(len(std), 1)
    no_covariance = std.new_zeros(len(d), 1, 1)
    weight = Weight.build(no_modes, no_covariance, y.isfinite())
    held = torch.full_like(d[0], KNOWN)
    unbounded = torch.full_like(d[0], torch.inf)
    problem = LeastSquares(predict, y, EXACT * std, weight, (d, held), unbounded)
    fit = problem.solved(d, w.unsqueeze(1))
    return fit.w.squeeze(1)


def _residual_noise(calibration: Calibration, y: Tensor, std: Tensor, starts: int) -> Tensor:
    """Return standard deviations (N,) of the noise, one share of those of the states, from the
    residual of observations (B, G, N).
    """
    prior = calibration.prior({})
    estimates = calibration.estimates(y, prior, starts)
    d = estimates.d.repeat_interleave(y.shape[1], 0)
    w = estimates.w.flatten(0, 1)
    x = calibration.predict(d, w).reshape(y.shape)
    share = (y - x) / std
    return std * share.square().nanmean().sqrt()


def noises_of(noise: float | Tensor, rows: Tensor) -> Tensor:
    """Return standard deviations (s,) of the noise of sensors."""
    count = len(rows)
    noise = torch.as_tensor(noise, dtype=torch.float64)
    fits = noise.shape in ((), (count,))
    if not fits or not bool((noise > 0).all()):
        raise InputError(
            "noise",
            expected=f"a positive number, or {count} of them, one for each sensor",
            got=f"{noise.tolist()!r:.40}",
            fix="give standard deviations",
        )
    return noise.expand(count)


def training_samples(
    predict: Prediction, training: xr.Dataset
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return contexts (K, p), latent states (K, q), observed numbers (K, N), and numbers of the
    trajectories (K,).
    """
    data, fields = _checked_training(predict, training)
    steps = _steps(predict, data)  # (T,)
    number = len(data.states)
    windows = len(data.times) - int(steps[-1])  # of a trajectory
    most = max(1, SAMPLES // number)
    offsets = tensors.evenly(windows, most).unique()  # (O,)
    states = data.states[:, offsets[:, None] + steps]  # (C, O, T, n)
    observed = states[..., predict.rows]  # (C, O, T, s)
    values = observed.flatten(2).flatten(0, 1)  # (K, N)
    starts = [states[:, offsets].flatten(0, 1) for states in fields]  # (K, n)
    d = (data.contexts.initial - predict.shift) / predict.scale
    d = d.repeat_interleave(len(offsets), 0)
    trajectory = torch.arange(number).repeat_interleave(len(offsets))
    numbers = torch.cat([values, *starts], dim=1)
    complete = numbers.isfinite().all(1)
    d = d[complete]
    values = values[complete]
    starts = [states[complete] for states in starts]
    trajectory = trajectory[complete].unique(return_inverse=True)[1]
    w = predict.encode(d, starts)
    return d, w, values, trajectory


def _checked_training(
    predict: Prediction, training: xr.Dataset, *, fewest: int = 4
) -> tuple[Trajectories, TensorTuple]:
    """Return trajectories of enough constant contexts; their states, and velocities of a model of
    order two.

    `fewest`: smallest number of training contexts: errors are measured at contexts that are
    left out.
    """
    frame = predict.frame
    data = Trajectories.read(
        training, frame.context_names, frame.state_names, frame.fields, units=frame.units
    )
    contexts = len(data.contexts.initial.unique(dim=0))
    varies = data.contexts.path is not None
    if varies or contexts < fewest:
        got = str(contexts)
        if varies:
            got = "some that vary in time"
        raise InputError(
            "training",
            expected=f"{fewest} constant contexts or more",
            got=got,
            fix="give more trajectories",
        )
    if predict.order == 1:
        return data, (data.states,)
    if data.velocities is None:
        raise InputError(
            "training",
            expected="a variable 'velocity'",
            got="none",
            fix="see romkit.data.with_velocity",
        )
    return data, (data.states, data.velocities)


def _steps(predict: Prediction, data: Trajectories, *, recur: float = 1e-3) -> Tensor:
    """Return numbers (T,) of the training times, from the first of a window on, that a window has.

    `recur`: difference of times that are the same, in intervals of the training data.
    """
    if predict.dynamics is None:
        return torch.zeros(1, dtype=torch.long)
    step = 1.0
    if len(data.times) > 1:
        step = float(data.times.diff().median())
    steps = (predict.times / step).round().long()
    on_grid = step * steps.double()
    recur = torch.allclose(on_grid, predict.times, atol=recur * step)
    if int(steps[-1]) >= len(data.times) or not recur:
        window = float(predict.times[-1])
        span = float(data.times[-1] - data.times[0])
        raise InputError(
            "training",
            expected=f"trajectories of {window:g} or longer, with all times of the observations",
            got=f"{span:g} in steps of {step:g}",
            fix="simulate longer, with this interval or a part of it",
        )
    return steps
