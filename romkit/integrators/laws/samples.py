"""Samples of latent dynamics that a law is fitted to, and the three sources of them."""

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core import tensors as arrays
from romkit.core.boundary import Count, Mask, Natural, NotNegative, Numbers, Order, Seed, Times, validated
from romkit.core.errors import InputError
from romkit.core.tensors import align
from romkit.data import (
    check_dataset,
    check_states,
    context_matrix,
    context_names,
    context_ranges,
    control_matrix,
    control_names,
    even_step,
    pieces,
    smoothest,
    times_of,
    trajectories,
)
from romkit.data.context import check_dims
from romkit.data.trajectories import check_components, check_grid
from romkit.integrators.base import LatentField
from romkit.integrators.galerkin import Galerkin
from romkit.projections import Operator, Path
from romkit.systems.problem import Problem


@validated
@dataclass(frozen=True, eq=False)
class Scaling:
    """Names of variables, and how they are scaled before they enter a term: (x - shift) / scale.

    A variable that is scaled prints as δ and its name; unscaled ones (shift 0, scale 1) print as they are.

    Attributes:
        names: of the d variables.
        shift, scale: (d,) float64, or (..., d) where each problem of a stack is scaled by itself.

    Example:
        >>> import torch
        >>> from romkit.integrators import Scaling
        >>> scaling = Scaling(("a", "b"), shift=torch.tensor([0.0, 2.0]), scale=torch.tensor([1.0, 4.0]))
        >>> scaling.symbols, scaling.definitions
        (('a', 'δb'), ['δb = (b - 2) / 4'])
        >>> scaling.on(torch.zeros(1))(torch.tensor([1.0, 4.0]))
        tensor([1.0000, 0.5000])
    """

    names: tuple[str, ...]
    shift: Tensor
    scale: Tensor

    @classmethod
    @validated
    def none(cls, names: Sequence[str]) -> "Scaling":
        """The variables as they are."""
        zero = torch.zeros(len(names), dtype=torch.float64)
        return cls(tuple(names), zero, zero + 1)

    @classmethod
    @validated
    def standard(cls, names: Sequence[str], z: Tensor, rates: Natural) -> "Scaling":
        """To mean 0 and standard deviation 1 over samples (..., N, m), each problem by itself.

        Args:
            names: of the m variables, then of their rates.
            z: the samples of the variables.
            rates: how many rates follow, none or m; they keep their zero, and have the scale of their variable.
        """
        tensors.axes("z", z, "N m")
        z = z.double()
        there = z.isfinite().all(-1).reshape(-1, z.shape[-2]).all(0)  # the others are missing
        z = z if bool(there.all()) else z[..., there, :]
        mean, deviation = z.mean(-2), z.std(-2)
        deviation = torch.where(deviation > 0, deviation, 1.0)
        shift = torch.cat([mean, torch.zeros_like(mean[..., :rates])], dim=-1)
        return cls(tuple(names), shift, torch.cat([deviation, deviation[..., :rates]], dim=-1))

    @classmethod
    @validated
    def of_context(cls, data: xr.Dataset) -> "Scaling":
        """Scale the context to [-1, 1] over its training range, or over the values in the dataset where none is given.

        Inputs follow, to [-1, 1] over their values.
        """
        control = control_matrix(data)
        reached = np.stack([np.nanmin(control, axis=(0, 1)), np.nanmax(control, axis=(0, 1))])
        check_dims(data, "trajectory", "time")
        low, high = torch.from_numpy(np.concatenate([context_ranges(data), reached], axis=1))
        scale = (high - low) / 2
        names = context_names(data) + control_names(data)
        return cls(names, (low + high) / 2, torch.where(scale > 0, scale, 1.0))

    def __len__(self) -> int:
        return len(self.names)

    @validated
    def __getitem__(self, problem: int) -> "Scaling":
        """Scaling of one problem of a stack, or the one that all share."""
        if self.shift.ndim == 1:
            return self
        problem = checks.index("problem", problem, len(self.shift))
        return replace(self, shift=self.shift[problem], scale=self.scale[problem])

    @validated
    def repeated(self, number: Count) -> "Scaling":
        """Scaling of a stack of this many stacks; unchanged where problems share it."""
        if self.shift.ndim == 1:
            return self
        return replace(self, **{k: getattr(self, k).expand(number, *self.shift.shape) for k in ("shift", "scale")})

    @validated
    def equals(self, other: "Scaling") -> bool:
        """Whether names and scaling are the same."""
        same = all(torch.equal(getattr(self, k), getattr(other, k)) for k in ("shift", "scale"))
        return self.names == other.names and same

    @validated
    def on(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        """The map x (..., d) -> (x - shift) / scale, for tensors of the dtype and device of `like`.

        Leading axes of x match problems with a scaling of their own from the left.
        """
        if not any(self._scaled):
            return lambda x: x
        shift, scale = self.shift.to(like), self.scale.to(like)
        return lambda x: (x - align(shift, x)) / align(scale, x)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbol of each variable in an equation."""
        return tuple(f"δ{name}" if scaled else name for name, scaled in zip(self.names, self._scaled, strict=True))

    @property
    def definitions(self) -> list[str]:
        """Definition of each scaled variable, as text; for a single problem."""
        rows = zip(self.names, self.shift.tolist(), self.scale.tolist(), self._scaled, strict=True)
        return [f"δ{name} = {_scaled_text(name, shift, scale)}" for name, shift, scale, scaled in rows if scaled]

    @functools.cached_property
    def _scaled(self) -> list[bool]:
        """For each variable, whether any problem scales it."""
        return torch.atleast_2d((self.shift != 0) | (self.scale != 1)).flatten(0, -2).any(0).tolist()


def _scaled_text(name: str, shift: float, scale: float) -> str:
    if shift == 0:
        return f"{name} / {scale:.6g}"
    return f"({name} {'-' if shift > 0 else '+'} {abs(shift):.6g}) / {scale:.6g}"


SAMPLED = ("inputs", "targets", "context", "drift")
"""Parts that have a row for each sample."""


@validated
@dataclass(frozen=True, eq=False)
class LatentSamples:
    """N samples of ż = g(z; c), or of z̈ = g(z, ż; c). `a + b` joins the samples of both.

    Leading axes are problems, each with a law of its own.

    Attributes:
        inputs: z (..., N, m), or (z, ż) (..., N, 2m).
        targets: ż or z̈ (..., N, m).
        context: (..., N, p) in physical units; an axis of size 1 where problems share it.
        drift: D_cρ ċ (..., N, m), no part of the law: how z moves with a context that moves while the state stays.
        variables: names of the inputs and how they enter the terms.
        parameters: names of the context parameters and how they enter the terms.
        source: where the samples came from, in words.
        times: (T,) where the samples are whole trajectories, one after the other, at these times; else None.
        control_names: those of the parameters, the last ones, that are inputs.

    Samples may be missing: the numbers of such a row are NaN, `observed` says which, and `complete` leaves them out.

    Example:
        >>> import torch
        >>> from romkit.integrators import LatentSamples
        >>> z = torch.linspace(0, 1, 50, dtype=torch.float64).reshape(50, 1)
        >>> samples = LatentSamples.first_order(z, -2 * z, names=["a"], source="ż = -2 z")
        >>> samples
        LatentSamples(50 samples of a; ż = -2 z)
        >>> (samples + samples).order, len(samples + samples)
        (1, 100)
    """

    inputs: Tensor
    targets: Tensor
    context: Tensor
    drift: Tensor
    variables: Scaling
    parameters: Scaling
    source: str
    times: Tensor | None = None
    control_names: tuple[str, ...] = ()

    @classmethod
    @validated
    def first_order(cls, z: object, zdot: object, context: object = None, **labels: object) -> "LatentSamples":
        """Samples of ż = g(z; c), from tensors or arrays.

        Args:
            z: (..., N, m); or trajectories (..., C, T, m), with `times`.
            zdot: the same.
            context: (..., N, p), or (N, p) for all problems; with `times` (..., C, T, p), or (C, p).
            **labels: `names` of the latent coordinates, z0, z1, ... by default; `parameters`, names of the context
                parameters or their Scaling, c0, c1, ... by default; `times` (T,); `control_names`, of the last
                parameters that are inputs; `drift`, as z, of trajectories whose context moves, zero by default; and
                `source`, in words.

        Raises:
            InputError: shapes that do not match, infinite values, or none that is complete.
        """
        return cls._checked({"z": z, "zdot": zdot}, context, **_known(labels))

    @classmethod
    @validated
    def second_order(
        cls, z: object, dz: object, ddz: object, context: object = None, **labels: object
    ) -> "LatentSamples":
        """Samples of z̈ = g(z, ż; c), each of z, dz, ddz (..., N, m); the rest as in `first_order`."""
        return cls._checked({"z": z, "dz": dz, "ddz": ddz}, context, **_known(labels))

    @property
    def observed(self) -> Tensor:
        """(N,) which samples are complete, in every problem."""
        parts = (getattr(self, part) for part in SAMPLED)
        return functools.reduce(torch.logical_and, (x.isfinite().all(-1).reshape(-1, len(self)).all(0) for x in parts))

    def complete(self) -> "LatentSamples":
        """The samples without missing ones, which are trajectories no more; the same where none is missing."""
        rows = self.observed
        return self if bool(rows.all()) else self.only(rows)

    @property
    def latents(self) -> Tensor:
        """Latent states z (..., N, m)."""
        return self.inputs[..., : self.targets.shape[-1]]

    @property
    def order(self) -> int:
        """1 for ż = g(z; c), 2 for z̈ = g(z, ż; c)."""
        return self.inputs.shape[-1] // self.targets.shape[-1]

    def scaled(self) -> "LatentSamples":
        """Scale the latent coordinates: they enter the terms with mean 0 and standard deviation 1.

        Where latents are far from zero or of very different size, this is what makes one threshold fit all terms. Each
        problem of a stack is scaled by its own samples.
        """
        m = self.targets.shape[-1]
        scaling = Scaling.standard(self.variables.names, self.inputs[..., :m], rates=m * (self.order - 1))
        return replace(self, variables=scaling)

    @validated
    def only(self, rows: Mask) -> "LatentSamples":
        """Some of the samples, by a mask (N,), which are trajectories no more."""
        parts = {part: getattr(self, part)[..., rows, :] for part in SAMPLED}
        return replace(self, **parts, times=None)

    def __len__(self) -> int:
        return self.targets.shape[-2]

    @validated
    def __add__(self, other: "LatentSamples") -> "LatentSamples":
        if not (self.variables.equals(other.variables) and self.parameters.equals(other.parameters)):
            mine, theirs = ((*each.variables.symbols, *each.parameters.symbols) for each in (self, other))
            fix = "join samples of one projection, and scale them afterwards"
            raise InputError("samples", expected=f"{mine} with the same scaling", got=str(theirs), fix=fix)
        source = self.source if other.source == self.source else f"{self.source}; and {other.source}"
        pairs = {part: (getattr(self, part), getattr(other, part)) for part in SAMPLED}
        joined = {part: torch.cat(pair, dim=-2) for part, pair in pairs.items()}
        return replace(self, **joined, source=source, times=None)

    def __repr__(self) -> str:
        return f"LatentSamples({len(self)} samples of {', '.join(self.variables.names)}; {self.source})"

    @classmethod
    def _checked(
        cls,
        given: dict[str, object],
        context: object,
        *,
        names: Sequence[str] | None = None,
        parameters: Scaling | Sequence[str] | None = None,
        times: object = None,
        source: str = "given latent states and rates",
        control_names: Sequence[str] = (),
        drift: object = None,
    ) -> "LatentSamples":
        z, *rates = _states(given)
        moved = z.new_zeros(()).expand_as(z) if drift is None else _states({"z": z, "drift": drift})[1]
        times = None if times is None else _times(times, z)
        c = _context(context, z, trajectories=times is not None)
        if times is not None:
            z, moved, *rates = (x.flatten(-3, -2) for x in (z, moved, *rates))
        names = tuple(f"z{k}" for k in range(z.shape[-1])) if names is None else tuple(names)
        if len(names) != z.shape[-1]:
            expected = f"{z.shape[-1]} names, one per latent"
            raise InputError("names", expected=expected, got=str(names), fix="name each latent")
        if not isinstance(parameters, Scaling):
            parameters = Scaling.none([f"c{k}" for k in range(c.shape[-1])] if parameters is None else parameters)
        if len(parameters) != c.shape[-1]:
            expected = f"{len(parameters)} parameters ({', '.join(parameters.names)}) on the last axis"
            raise InputError("context", expected=expected, got=f"{c.shape[-1]}", fix="name every parameter once")
        if len({*names}) < len(names):
            raise InputError("names", expected="names that differ", got=str(names), fix="rename the latents")
        if set(names) & set(parameters.names):
            raise InputError("names", expected="names unlike the context's", got=str(names), fix="rename the latents")
        variables = Scaling.none(names + tuple(f"{name}'" for name in names) * (len(rates) - 1))
        inputs = torch.cat([z, *rates[:-1]], dim=-1)
        return cls(inputs, rates[-1], c, moved, variables, parameters, source, times, tuple(control_names))


def without_rounding(z: Tensor, *rates: Tensor) -> tuple[Tensor, ...]:
    """Latents (..., C, T, m) that are no more than rounding beside the others are at rest: no law can know them."""
    mean = z.nanmean((-3, -2), keepdim=True)
    size = (z - mean).square().nanmean((-3, -2), keepdim=True).sqrt()
    rests = size <= torch.finfo(torch.float32).eps * torch.hypot(size, mean).amax(-1, keepdim=True)
    whole = mean.float().to(z)  # of few bits, so that sums of it are exact
    return torch.where(rests & z.isfinite(), whole, z), *(torch.where(rests, 0.0, rate) for rate in rates)


def trajectory_times(samples: LatentSamples) -> Tensor:
    """(T,) the times of samples that are whole trajectories.

    Raises:
        InputError: they are not.
    """
    if samples.times is None:
        fix = "give z (C, T, m) and times (T,), neither joined nor thinned out"
        raise InputError("samples", expected="whole trajectories with their times", got="single ones", fix=fix)
    return samples.times


def interval(samples: LatentSamples) -> float:
    """The time between two samples of a trajectory.

    Raises:
        InputError: no trajectories, or uneven times.
    """
    times = trajectory_times(samples)
    dt = even_step(times.numpy())
    if dt is None:
        raise InputError("times", expected="equally spaced times", got=f"{len(times)} others", fix="resample the data")
    return dt


def _known(labels: dict[str, object]) -> dict[str, object]:
    for name in labels:
        checks.one_of("labels", name, ("names", "parameters", "times", "source", "control_names", "drift"))
    return labels


def _tensor(argument: str, value: object) -> Tensor:
    """A floating-point tensor (..., N, k) of numbers; NaN where they are missing."""
    tensor = arrays.tensor(argument, value).detach()
    if tensor.ndim < 2 or 0 in tensor.shape[-2:-1]:
        expected, got = "shape (..., samples, components)", f"shape {tuple(tensor.shape)}"
        raise InputError(argument, expected=expected, got=got, fix="add the axis")
    if not bool(tensor.sum().isfinite()) and bool(tensor.isinf().any()):  # a sum is the cheapest look at all of them
        raise InputError(argument, expected="numbers, or NaN where missing", got="infinity", fix="drop those samples")
    if bool(tensor.isnan().all()) and tensor.numel():
        raise InputError(
            argument, expected="numbers, or NaN where missing", got="NaN alone", fix="check where it is from"
        )
    return tensor


def _states(given: dict[str, object]) -> list[Tensor]:
    """Named tensors of one shape."""
    tensors = {name: _tensor(name, value) for name, value in given.items()}
    z = tensors["z"]
    for name, tensor in tensors.items():
        if tensor.shape != z.shape:
            expected, got = f"shape {tuple(z.shape)}, as z", f"shape {tuple(tensor.shape)}"
            raise InputError(name, expected=expected, got=got, fix="give one rate for each latent state")
    return [tensor.to(z.device) for tensor in tensors.values()]


def _times(value: object, z: Tensor) -> Tensor:
    times = arrays.times("times", value).double()
    if times.ndim != 1 or z.ndim < 3 or z.shape[-2] != len(times):
        expected, got = "one per latent state of a trajectory, with z (..., C, T, m)", f"{tuple(times.shape)}"
        raise InputError("times", expected=expected, got=f"shape {got} for z {tuple(z.shape)}", fix="match the axes")
    return times


def _context(value: object, z: Tensor, *, trajectories: bool) -> Tensor:
    """(..., N, p) with as many axes as the samples, leading ones of size 1 where problems share it."""
    *lead, N, _ = z.flatten(-3, -2).shape if trajectories else z.shape
    if value is None:
        return z.new_empty((*(1 for _ in lead), N, 0))
    c = given = _tensor("context", value).to(z.device)
    if trajectories:
        c = c.repeat_interleave(z.shape[-2], 0) if c.ndim == 2 else c.flatten(-3, -2)
    shared = c.reshape((1,) * len(lead) + tuple(c.shape)) if c.ndim == 2 else c
    fits = shared.ndim == len(lead) + 2 and shared.shape[-2] == N
    if not fits or any(own not in (1, size) for own, size in zip(shared.shape[:-2], lead, strict=True)):
        expected = f"the context of each of {N} samples" + (f", or of each problem {tuple(lead)} too" if lead else "")
        fix = "give the context of every sample, parameters on the last axis"
        raise InputError("context", expected=expected, got=f"shape {tuple(given.shape)}", fix=fix)
    return shared


NUDGE = 1e-3
"""Time, in steps of the data, by which the context is moved for the difference quotient of encoded states."""


@runtime_checkable
class ProjectionFamily(Protocol):
    """A torch module that, called with a dataset, gives the operator at its contexts (see `romkit.projections`)."""

    def __call__(self, context: xr.Dataset) -> Operator: ...

    def double(self) -> "ProjectionFamily": ...


@validated
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


@validated
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


@validated
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


@validated
def galerkin_samples(
    projection: ProjectionFamily,
    data: xr.Dataset,
    problem: Callable[[Path, Tensor], Problem],
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
    task = problem(Path.constant(P), P.context)
    with torch.no_grad():
        parts = tuple(_variable(several, name, P) for name in ("state", "velocity")[: task.order])
        scattered = [_scattered(part, spread, draw) for part in task.split(task.encode(P, parts))]
        times = torch.from_numpy(several["time"].values.astype(np.float64)).unsqueeze(-1)  # beside states (C, T, n)
        rate = dynamics.latent_rate(task)(times, task.join(*scattered))
    exists = rate.isfinite().all(-1)
    several = several.assign_coords(time=range(several.sizes["time"]))  # no trajectories: `only` forgets the times
    samples = _samples(several, *scattered, torch.where(exists.unsqueeze(-1), rate, 0.0), source=source)
    return samples.only(exists.flatten(-2).reshape(-1, len(samples)).all(0) & samples.observed)


def _operator(projection: ProjectionFamily, data: xr.Dataset) -> Operator:
    if frame := getattr(projection, "frame", None):  # a user's may have none
        check_components("data", data, frame.state_names)
        check_grid(data, frame.fields)
    return copy.deepcopy(projection).double()(data)


def _variable(data: xr.Dataset, name: str, P: Operator) -> Tensor:
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
    """Samples of z and ż, or of z, ż and z̈, each (..., C, T, m), with the drift of z."""
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
