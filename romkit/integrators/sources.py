"""Samples of the latent dynamics of a projection: three sources, each with what it is good for.

`encoded_samples`: the exact latent velocity Dρ(x) ẋ of data with velocities, the motion as it was. On an attractor it
says nothing about directions across; simulate transients to see them.
`differentiated_samples`: the same from a sequence of states alone.
`galerkin_samples`: the latent field of the full model at points scattered around the data, which sees across as well.
"""

import copy
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import checks
from romkit.boundary import Count, NotNegative, Numbers, Order, Seed, Times, checked
from romkit.data import (
    check_dataset,
    check_states,
    context_matrix,
    context_names,
    control_matrix,
    control_names,
    even_step,
    pieces,
    smoothest,
    times_of,
    trajectories,
)
from romkit.data.matching import check_components, check_grid
from romkit.errors import InputError
from romkit.integrators.base import LatentField
from romkit.integrators.galerkin import Galerkin
from romkit.integrators.samples import LatentSamples, without_rounding
from romkit.integrators.scaling import Scaling
from romkit.problem import ConstantPath, Problem
from romkit.types import OperatorPath, ProjectionOperator

NUDGE = 1e-3
"""In time steps, by which the context is moved to see how encoded states move with it."""


@runtime_checkable
class ProjectionFamily(Protocol):
    """A torch module that, called with a dataset, gives the operator at its contexts (see `romkit.projections`)."""

    def __call__(self, context: xr.Dataset) -> ProjectionOperator: ...

    def double(self) -> "ProjectionFamily": ...


@checked
def encoded_samples(projection: ProjectionFamily, data: xr.Dataset) -> LatentSamples:
    """z = ρ(x) and its exact rate at every snapshot of a dataset.

    First order: ż = Dρ(x) ẋ. With a variable `acceleration`: z̈ = Dρ(q) q̈ + D²ρ(q)(q̇, q̇) for samples of second order.

    Args:
        projection: trained on such data; a stack of seeds gives a stack of problems.
        data: in romkit's schema, with velocities.

    Raises:
        InputError: the dataset has no velocities.

    Example:
        >>> import romkit
        >>> from romkit.integrators import encoded_samples
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.18])
        >>> samples = encoded_samples(romkit.fit("pod", data, latent_dim=2), data)
        >>> len(samples), samples.variables.names, samples.parameters.names
        (100, ('z0', 'z1'), ('F',))
    """
    check_dataset(data)
    P = _operator(projection, data)
    x, v = _variable(data, "state", P), _variable(data, "velocity", P)
    with torch.no_grad():
        (z, dz), drift = P.encode_jvp(x, v), _drift(projection, data, x)
        if "acceleration" not in data:
            return _samples(data, z, dz, source="encoded data, rate Dρ(x) ẋ", drift=drift)
        curvature = torch.func.jvp(lambda q: P.encode_jvp(q, v).tangent, (x,), (v,))[1]
        ddz = P.encode_jvp(x, _variable(data, "acceleration", P)).tangent + curvature
        return _samples(data, z, dz, ddz, source="encoded data, rate Dρ(q) q̈ + D²ρ(q)(q̇, q̇)", drift=drift)


@checked
def differentiated_samples(
    projection: ProjectionFamily,
    data: xr.Dataset,
    *,
    order: Order = 1,
    window: Count | None = None,
    degree: Count | None = None,
) -> LatentSamples:
    """z = ρ(x) with rates by differentiation in time; the dataset needs no velocities.

    Args:
        projection: trained on such data.
        data: in romkit's schema, with evenly spaced times.
        order: 2 for an equation of second order, else 1.
        window: of `differentiate`; by default the one that predicts left-out latents best, longer for noisy data.
        degree: of the polynomial in the window; by default likewise.

    Raises:
        InputError: the order is neither 1 nor 2, `differentiate` refuses the times or its settings, or order 2 with a
            context that moves.

    Example:
        >>> import romkit
        >>> from romkit.integrators import differentiated_samples
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> samples = differentiated_samples(pod, data.drop_vars("velocity"))
        >>> samples.targets.shape, samples.order
        (torch.Size([100, 2]), 1)
    """
    check_states(data)
    P = _operator(projection, data)
    x = _variable(data, "state", P)
    with torch.no_grad():
        z, drift = P.encode(x), _drift(projection, data, x)
    times = times_of(data)
    best = smoothest(*_stretches(z))
    window, degree = window or best.window, degree or best.degree
    rates = [_by_stretches(z, times, order=k, window=window, degree=degree) for k in range(1, order + 1)]
    rates[0] = rates[0] if drift is None else rates[0] - drift
    source = f"encoded data, rates by differentiation (window {window}, degree {degree})"
    return _samples(data, z, *rates, source=source, drift=drift)


def _stretches(z: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Latents of all problems side by side (C, T, S m), and which samples (C, T) are complete."""
    paths = z.reshape(-1, *z.shape[-3:]).movedim(0, -2).flatten(-2).cpu().numpy()
    return paths, np.isfinite(paths).all(-1)


def _by_stretches(z: Tensor, times: Tensor, *, window: int, **settings: int) -> Tensor:
    """Derivatives of z (..., C, T, m) between missing samples; NaN in stretches that are shorter than the window."""
    observed = z.isfinite().all(-1)
    if bool(observed.all()):
        return differentiate(z, times, window=window, **settings)
    rates = torch.full_like(z, torch.nan)
    whole = observed.reshape(-1, *observed.shape[-2:]).all(0).numpy()
    for k, row in enumerate(whole):
        for piece in pieces(row):
            if piece.stop - piece.start >= window:
                part = z[..., k, piece, :]
                rates[..., k, piece, :] = differentiate(part, times[piece], window=window, **settings)
    return rates


@checked
def differentiate(x: Numbers, times: Times, *, order: Count = 1, window: Count = 5, degree: Count = 4) -> Tensor:
    """The derivative of x (..., T, k) by time, from a polynomial through the neighbours of each sample.

    Exact for polynomials of this degree. The defaults are central differences of order four; for noisy data take a
    longer window and a lower degree.

    Args:
        x: samples at evenly spaced times.
        times: (T,).
        order: 1 or 2, of the derivative.
        window: samples the polynomial is fitted to, an odd number above the degree.
        degree: of the polynomial, at least `order`.

    Raises:
        InputError: uneven times, fewer samples than the window, or settings that do not fit each other.

    Source: Savitzky, Golay (1964); scipy.signal.savgol_filter.
    """
    from scipy.signal import savgol_filter  # slow to import, and seldom needed

    checks.at_least("degree", degree, order)
    if checks.at_least("window", window, degree + 1) % 2 == 0:
        raise InputError("window", expected="an odd number", got=window, fix=f"take {window + 1}")
    if x.shape[-2] < window:
        raise InputError("x", expected=f"at least {window} times", got=x.shape[-2], fix="shorten the window")
    steps, dt = times.diff(), even_step(times.numpy())
    if dt is None:
        got = f"steps from {steps.min().item():g} to {steps.max().item():g}"
        fix = "add velocities, romkit.data.with_velocity(data, method='gradient'), or resample the data"
        raise InputError("times", expected="evenly spaced times", got=got, fix=fix)
    rates = savgol_filter(x.double().cpu().numpy(), window, degree, deriv=order, delta=dt, axis=-2, mode="interp")
    return torch.from_numpy(rates).to(x)


@checked
def galerkin_samples(
    projection: ProjectionFamily,
    data: xr.Dataset,
    problem: Callable[[OperatorPath, Tensor], Problem],
    *,
    spread: NotNegative = 0.3,
    copies: Count = 1,
    seed: Seed = 0,
    dynamics: LatentField | None = None,
) -> LatentSamples:
    """The latent field of the full model at points scattered around the encoded data.

    A point where some model of a stack has no such field, because the tangents of its decoder are dependent, is left
    out for all.

    Args:
        projection: trained on such data.
        data: in romkit's schema; with velocities for a mechanical system.
        problem: (path, context (..., p)) -> what is to be reduced: `system.problem`.
        spread: standard deviation of the Gaussian scatter, in standard deviations of each latent coordinate.
        copies: scattered points per snapshot.
        seed: of the scatter.
        dynamics: whose latent field; `Galerkin()` by default.

    Raises:
        InputError: data without states, or a mechanical system and data without velocities.

    Example:
        >>> import romkit
        >>> from romkit.integrators import galerkin_samples
        >>> system = romkit.systems.Lorenz96(transient=0.0, duration=0.2)
        >>> data = system.dataset(F=[3.14, 3.18])
        >>> samples = galerkin_samples(romkit.load("ncae-lorenz96"), data, system.problem, copies=3)
        >>> len(samples), samples.order
        (120, 1)
    """
    check_states(data)
    dynamics, draw = dynamics or Galerkin(), torch.Generator().manual_seed(seed)
    several = data.isel(time=[k for k in range(data.sizes["time"]) for _ in range(copies)])
    source = f"{type(dynamics).__name__} field around the encoded data (spread {spread:g})"
    P = _operator(projection, several)
    task = problem(ConstantPath(P), P.context)
    with torch.no_grad():
        parts = tuple(_variable(several, name, P) for name in ("state", "velocity")[: task.order])
        scattered = [_scattered(part, spread, draw) for part in task.split(task.encode(P, parts))]
        times = torch.from_numpy(several["time"].values.astype(np.float64)).unsqueeze(-1)  # beside states (C, T, n)
        rate = dynamics.latent_rate(task)(times, task.join(*scattered))
    exists = rate.isfinite().all(-1)
    several = several.assign_coords(time=range(several.sizes["time"]))  # no trajectories: `only` forgets the times
    samples = _samples(several, *scattered, torch.where(exists.unsqueeze(-1), rate, 0.0), source=source)
    return samples.only(exists.flatten(-2).reshape(-1, len(samples)).all(0) & samples.observed)


def _operator(projection: ProjectionFamily, data: xr.Dataset) -> ProjectionOperator:
    if signature := getattr(getattr(projection, "normalization", None), "signature", None):  # a user's may have none
        check_components("data", data, signature.state_names)
        check_grid(data, signature.fields)
    return copy.deepcopy(projection).double()(data)


def _variable(data: xr.Dataset, name: str, P: ProjectionOperator) -> Tensor:
    """(C, T, n), with a leading axis of size 1 where the operator has seeds."""
    fix = "differentiated_samples works from states alone" if name == "velocity" else "add it"
    x = trajectories(data, name, fix=fix).to(P.context)
    return x if P.context.ndim == context_matrix(data).ndim else x.unsqueeze(0)


def _drift(projection: ProjectionFamily, data: xr.Dataset, x: Tensor) -> Tensor | None:
    """D_cρ ċ (..., C, T, m) at states x (..., C, T, n), by differences; None where no context moves."""
    times = data["time"]
    moving = {name: data[name] for name in context_names(data) if "time" in data[name].dims and len(times) > 1}
    if not moving:
        return None
    step = NUDGE * float(times.diff("time").min())
    rates = {name: c.differentiate("time", edge_order=1 + (len(times) > 2)) for name, c in moving.items()}

    def nudged(by: float) -> Tensor:
        there = {name: c.copy(data=c + by * rates[name]) for name, c in moving.items()}
        return _operator(projection, data.assign_coords(there)).encode(x)

    return (nudged(step) - nudged(-step)) / (2 * step)


def _scattered(z: Tensor, spread: float, generator: torch.Generator) -> Tensor:
    rows = z.flatten(-3, -2)
    there = rows.isfinite().all(-1).reshape(-1, rows.shape[-2]).all(0)  # the others are missing
    deviation = rows[..., there, :].std(-2, keepdim=True).unsqueeze(-2)
    return z + spread * deviation * torch.randn(z.shape, generator=generator, dtype=z.dtype).to(z)


def _samples(data: xr.Dataset, *values: Tensor, source: str, drift: Tensor | None = None) -> LatentSamples:
    """Of z and ż, or of z, ż and z̈, each (..., C, T, m), and the drift of z."""
    make = LatentSamples.first_order if len(values) == 2 else LatentSamples.second_order
    if len(values) == 3 and drift is not None:
        expected, fix = "a context that stays for a law of order 2", "drop the acceleration, for one of order 1"
        raise InputError("data", expected=expected, got="one that moves", fix=fix)
    discarded = f", transient of {float(data.attrs['transient']):g} discarded" if "transient" in data.attrs else ""
    times, parameters = times_of(data), Scaling.of_context(data)
    context = torch.from_numpy(_parameters(data)).to(values[0])
    labels = {"times": times, "parameters": parameters, "control_names": control_names(data), "drift": drift}
    return make(*without_rounding(*values), context, source=source + discarded, **labels)


def _parameters(data: xr.Dataset) -> np.ndarray:
    """Context (C, p), or context and inputs (C, T, p + q) of every sample."""
    context = context_matrix(data)
    if not control_names(data):
        return context
    if context.ndim == 2:
        context = np.repeat(context[:, None], data.sizes["time"], axis=1)
    return np.concatenate([context, control_matrix(data)], axis=-1)
