"""Placement of sensors: components of the state that tell most about context and latent state."""

from collections.abc import Sequence

import torch
import xarray as xr
from torch import Tensor

from romkit.assimilation.calibrating import noises_of, training_samples
from romkit.assimilation.calibration import KNOWN
from romkit.assimilation.observations import rows_of
from romkit.assimilation.prediction import Prediction, differentiate
from romkit.core import runtime, tensors
from romkit.core.boundary import Count, Numbers, Positive, Times, validated
from romkit.core.errors import InputError
from romkit.core.types import Pair
from romkit.engine import Engine
from romkit.models import Dynamics
from romkit.projections import Projection
from romkit.solvers import Solver
from romkit.systems import System

SAMPLES = 40
"""Training samples, about, at which sensitivities are evaluated."""


@validated
def sensors(
    projection: Projection,
    count: Count,
    *,
    training: xr.Dataset,
    noise: Positive | Numbers,
    times: Times | None = None,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    candidates: Sequence[object] | None = None,
    solver: Solver | None = None,
    engine: Engine = "auto",
) -> xr.Dataset:
    """Choose the components whose observations tell most about context and latent state.

    Each next sensor raises the D-optimality criterion most: the mean over contexts of log det(Σ⁻¹ +
    Σᵢ Jᵢᵀ Jᵢ / σᵢ²), for the variances Σ of contexts and latent states in training, sensitivities J
    of the observed numbers, and the sum σ² of the variances of noise and error of the reduced
    model. At a single context and with equal and small σ the first sensors, as many as there are
    unknowns, are pivots of the QR decomposition of Σ^½ Jᵀ.

    Args:
        projection: a single one, with a context.
        count: number of sensors.
        training: trajectories at the contexts that sensors are chosen for.
        noise: standard deviation of the observations, a number or one for each candidate.
        times: of a window that sensors observe, from 0 on; without, they observe single snapshots.
        dynamics: law of the latent state in a window, as in `romkit.follow`.
        system: the full model, for dynamics that look at it.
        candidates: names or numbers of components to choose from, all by default.
        solver: of the latent equation; by default `RK4` with a step that is checked.
        engine: as of `romkit.rollout`: "auto" compiles the field where it can be and that pays.

    Returns:
        Dataset along `sensor`, in the order of choice: `component`, which
        `romkit.infer(sensors=...)` takes, its `name` and the `criterion`; `bound` (sensor,
        parameter) on the standard deviation of the context, root mean square over contexts, once
        this sensor is added; `bound_of_all` (parameter) of all candidates.

    Raises:
        InputError: more sensors than candidates; times without dynamics, or the reverse; unfit
            training data.

    Source: Manohar, Brunton, Kutz, Brunton (2018), of pivots; Chaloner, Verdinelli (1995), of Σ.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.15, 3.16, 3.17], duration=1.0)
        >>> chosen = romkit.sensors(romkit.load("ncae-lorenz96"), 4, training=data, noise=0.1)
        >>> len(set(chosen.component.values.tolist())), chosen.bound.dims
        (4, ('sensor', 'parameter'))
    """
    frame = projection.frame
    rows = torch.tensor(rows_of(frame.state_names, candidates, "candidates"))
    _check(count, len(rows), times, dynamics)
    if times is None:
        times = torch.zeros(1)
    times = times.double()
    sigma = noises_of(noise, rows)
    predict = Prediction(projection, times, rows, training, sigma, dynamics, system, solver, engine)
    prior, information = _information(predict, training, sigma)
    chosen: list[int] = []
    criterion: list[float] = []
    bound: list[Tensor] = []
    total = prior.expand(len(information), -1, -1)  # (K, u, u)
    for _ in runtime.track(range(count), "sensors"):
        with_sensor = total.unsqueeze(1) + information  # (K, s, u, u)
        value = torch.logdet(with_sensor).mean(0)  # (s,)
        value[chosen] = -torch.inf
        best = int(value.argmax())
        total = total + information[:, best]
        chosen.append(best)
        criterion.append(float(value[best]))
        bound.append(_bound(total, predict))
    bound_of_all = _bound(prior + information.sum(1), predict)
    names = [frame.state_names[row] for row in rows[chosen]]
    over = ("sensor", "parameter")
    labels = {
        "component": ("sensor", rows[chosen].numpy(), "number of the component"),
        "criterion": ("sensor", criterion, "mean logarithm of the determinant of the information"),
        "bound": (over, torch.stack(bound).numpy(), "bound on the deviation"),
        "bound_of_all": ("parameter", bound_of_all.numpy(), "bound by all candidates"),
    }
    variables = {
        name: (dims, values, {"long_name": words}) for name, (dims, values, words) in labels.items()
    }
    coords = {
        "name": ("sensor", names),
        "parameter": list(frame.context_names),
        "units": ("parameter", list(frame.context_units)),
    }
    attrs = {"noise": sorted({*sigma.tolist()})}
    return xr.Dataset(variables, coords, attrs)


def _check(count: int, candidates: int, times: Tensor | None, dynamics: Dynamics | None) -> None:
    """Refuse more sensors than candidates, and times without dynamics or the reverse."""
    if count > candidates:
        raise InputError(
            "count",
            expected=f"at most {candidates}, the number of candidates",
            got=str(count),
            fix="ask for fewer sensors",
        )
    if (times is None) != (dynamics is None):
        raise InputError(
            "times",
            expected="times and dynamics together",
            got="times alone" if dynamics is None else "dynamics alone",
            fix="give both for a window, none for snapshots",
        )


def _information(predict: Prediction, training: xr.Dataset, noise: Tensor) -> Pair:
    """Precision (u, u) of u contexts and latent states in training, and information (K, s, u, u) of
    each sensor.
    """
    d, w, values, _ = training_samples(predict, training)
    spread = torch.cat([d, w], dim=1).var(0)
    spread = spread.clamp(min=1 / KNOWN)
    chosen = tensors.evenly(len(d), SAMPLES)
    error = torch.zeros_like(noise)
    information = []
    for k in runtime.track(chosen.split(1), "sensitivities"):
        x, jacobian = differentiate(predict, d[k], w[k])
        square = (values[k] - x) ** 2
        square = square.reshape(-1, len(noise))  # (T, s)
        error += square.mean(0) / len(chosen)
        unknowns = jacobian.shape[-1]
        slopes = jacobian.reshape(-1, len(noise), unknowns)  # (T, s, u)
        information.append(torch.einsum("tsi,tsj->sij", slopes, slopes))
    variance = (noise**2 + error)[:, None, None]
    precision = torch.diag(1 / spread)
    return precision, torch.stack(information) / variance


def _bound(information: Tensor, predict: Prediction) -> Tensor:
    """Return standard deviations (p,) of the context by information (K, u, u), root mean squares."""
    contexts = len(predict.scale)
    covariance = torch.linalg.inv(information)
    variances = covariance.diagonal(dim1=1, dim2=2)
    mean = variances[:, :contexts].mean(0)
    return predict.scale * mean.sqrt()
