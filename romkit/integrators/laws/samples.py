"""Samples of latent dynamics that a law is fitted to, and three sources of them."""

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit.data as datasets
from romkit.core import checks, tensors
from romkit.core.boundary import Count, Mask, NotNegative, Order, Seed, Times, validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.data.context import context_ranges
from romkit.data.controls import control_matrix, held_if_told
from romkit.data.trajectories import check_grid, matched
from romkit.data.velocity import Smoothing, differentiated, smoothest, stretches
from romkit.integrators.base import LatentField
from romkit.integrators.galerkin import Galerkin
from romkit.projections import Operator, Path
from romkit.systems.problem import Problem


@validated
@dataclass(frozen=True, eq=False)
class Scaling:
    """Names of variables, and their scaling before they enter a term: (x - shift) / scale.

    A scaled variable prints as δ and its name; unscaled ones (shift 0, scale 1) print as they are.

    Attributes:
        names: of the d variables.
        shift, scale: (d,) float64, or (..., d) where each problem of a stack has its own.

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
    def none(cls, names: Sequence[str]) -> "Scaling":
        """Scaling that leaves variables as they are."""
        zero = torch.zeros(len(names), dtype=torch.float64)
        return cls(tuple(names), zero, zero + 1)

    @classmethod
    @validated
    def of_context(cls, data: xr.Dataset) -> "Scaling":
        """Scaling of the context to [-1, 1] over its training range, or over its values where none
        is declared.

        Inputs follow, scaled to [-1, 1] over their values.
        """
        control, (low, high) = control_matrix(data), context_ranges(data)
        low = torch.from_numpy(np.concatenate([low, np.nanmin(control, axis=(0, 1))]))
        high = torch.from_numpy(np.concatenate([high, np.nanmax(control, axis=(0, 1))]))
        scale = torch.where(high > low, (high - low) / 2, 1.0)
        return cls(
            datasets.context_names(data) + datasets.control_names(data), (low + high) / 2, scale
        )

    def __len__(self) -> int:
        return len(self.names)

    def equals(self, other: "Scaling") -> bool:
        """Whether names and scaling are the same."""
        pairs = (self.shift, other.shift), (self.scale, other.scale)
        return self.names == other.names and all(
            torch.equal(mine, theirs) for mine, theirs in pairs
        )

    def __getitem__(self, problem: int) -> "Scaling":
        """Scaling of one problem of a stack; the same where problems share it."""
        return self._each(lambda part: part[problem])

    def repeated(self, number: int) -> "Scaling":
        """Scaling of a stack of this many stacks; the same where problems share it."""
        return self._each(lambda part: part.expand(number, *part.shape))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Scaling":
        return (
            self
            if self.shift.ndim == 1
            else Scaling(self.names, change(self.shift), change(self.scale))
        )

    def on(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        """Map x (..., d) -> (x - shift) / scale, for tensors of the dtype and device of `like`.

        Leading axes of x match problems with their own scaling from the left.
        """
        if self.symbols == self.names:
            return lambda x: x
        shift, scale = self.shift.to(like), self.scale.to(like)
        return lambda x: (x - align(shift, x)) / align(scale, x)

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        """Symbol of each variable in an equation: δ and its name where any problem scales it."""
        scaled = (
            torch.atleast_2d((self.shift != 0) | (self.scale != 1)).flatten(0, -2).any(0).tolist()
        )
        return tuple(
            f"δ{name}" if own else name for name, own in zip(self.names, scaled, strict=True)
        )

    @property
    def definitions(self) -> list[str]:
        """Definition of each scaled variable, as text; for a single problem."""
        found = []
        for symbol, name, a, b in zip(
            self.symbols, self.names, self.shift.tolist(), self.scale.tolist(), strict=True
        ):
            moved = f"({name} {'-' if a > 0 else '+'} {abs(a):.6g})" if a else name
            found += [f"{symbol} = {moved} / {b:.6g}"] if symbol != name else []
        return found


SAMPLED = ("inputs", "targets", "context", "drift")
"""Attributes of `LatentSamples` with a row for each sample."""


@validated
@dataclass(frozen=True, eq=False)
class LatentSamples:
    """N samples of ż = g(z; c), or of z̈ = g(z, ż; c). `a + b` joins the samples of both.

    Leading axes are problems, each with a law of its own.

    Attributes:
        inputs: z (..., N, m), or (z, ż) (..., N, 2m).
        targets: ż or z̈ (..., N, m).
        context: (..., N, p) in physical units; an axis of size 1 where problems share it.
        drift: D_cρ ċ (..., N, m), motion of z with a moving context while the state stays; no part
            of the law.
        variables: names of the inputs and how they enter the terms.
        parameters: names of the context parameters and how they enter the terms.
        source: where the samples came from, in words.
        times: (T,) where the samples are whole trajectories, one after the other, at these times;
            else None.
        control_names: names of the inputs among the parameters, the last ones.
        held: whether the inputs are held until the next sample; else they are straight lines. None
            where that is not known.

    Samples may be missing: the numbers of such a row are NaN, `observed` says which, and `complete`
    leaves them out.

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
    held: bool | None = None

    @classmethod
    @validated
    def first_order(
        cls, z: Tensor, zdot: Tensor, context: Tensor | None = None, **labels: object
    ) -> "LatentSamples":
        """Samples of ż = g(z; c), from tensors or arrays.

        Args:
            z: (..., N, m); or trajectories (..., C, T, m), with `times`.
            zdot: the same.
            context: (..., N, p), or (N, p) for all problems; with `times` (..., C, T, p), or (C,
                p).
            **labels: `names` of the latent coordinates, z0, z1, ... by default; `parameters`, names
                of the context parameters or their Scaling, c0, c1, ... by default; `times` (T,);
                `control_names`, of the last parameters that are inputs; `drift`, as z, of
                trajectories whose context moves, zero by default; and `source`, in words.

        Raises:
            InputError: shapes that do not match, infinite values, or none that is complete.
        """
        return latent_samples({"z": z, "zdot": zdot}, context, **labels)

    @classmethod
    @validated
    def second_order(
        cls, z: Tensor, dz: Tensor, ddz: Tensor, context: Tensor | None = None, **labels: object
    ) -> "LatentSamples":
        """Samples of z̈ = g(z, ż; c), each of z, dz, ddz (..., N, m); the rest as in `first_order`."""
        return latent_samples({"z": z, "dz": dz, "ddz": ddz}, context, **labels)

    @property
    def observed(self) -> Tensor:
        """(N,) which samples are complete, in every problem."""
        parts = (
            getattr(self, part).isfinite().all(-1).reshape(-1, len(self)).all(0) for part in SAMPLED
        )
        return functools.reduce(torch.logical_and, parts)

    def complete(self) -> "LatentSamples":
        """Samples without missing ones, no longer trajectories; the same where none is missing."""
        rows = self.observed
        return self if bool(rows.all()) else self.only(rows)

    def paths(self, *parts: Tensor) -> list[Tensor]:
        """Parts (..., N, k) of whole trajectories as (S, C, T, k), all problems on one axis.

        Raises:
            InputError: single samples.
        """
        return [one_axis(part).unflatten(1, (-1, len(trajectory_times(self)))) for part in parts]

    @property
    def latents(self) -> Tensor:
        """Latent states z (..., N, m)."""
        return self.inputs[..., : self.targets.shape[-1]]

    @property
    def order(self) -> int:
        """1 for ż = g(z; c), 2 for z̈ = g(z, ż; c)."""
        return self.inputs.shape[-1] // self.targets.shape[-1]

    def scaled(self) -> "LatentSamples":
        """Standardise the terms: latent coordinates of mean 0 and standard deviation 1.

        Where latents are far from zero or of very different size, one threshold then fits all
        terms. Each problem of a stack is scaled by its own samples; rates keep their zero, and have
        the scale of their variable.
        """
        z = self.latents.double()
        z = z[..., z.isfinite().all(-1).reshape(-1, len(self)).all(0), :]
        mean, deviation = z.mean(-2), z.std(-2)
        deviation = torch.where(deviation > 0, deviation, 1.0)
        shift = torch.cat([mean, torch.zeros_like(mean)][: self.order], dim=-1)
        scale = torch.cat([deviation] * self.order, dim=-1)
        return replace(self, variables=Scaling(self.variables.names, shift, scale))

    @validated
    def only(self, rows: Mask, times: Times | None = None) -> "LatentSamples":
        """Some of the samples, by a mask (N,); no longer trajectories, unless their times are
        given.
        """
        return replace(
            self, **{part: getattr(self, part)[..., rows, :] for part in SAMPLED}, times=times
        )

    def __len__(self) -> int:
        return self.targets.shape[-2]

    @validated
    def __add__(self, other: "LatentSamples") -> "LatentSamples":
        mine, theirs = ((each.variables, each.parameters) for each in (self, other))
        if not all(a.equals(b) for a, b in zip(mine, theirs, strict=True)):
            fix = "join samples of one projection, and scale them afterwards"
            mine, theirs = (
                (*variables.symbols, *context.symbols) for variables, context in (mine, theirs)
            )
            raise InputError(
                "samples", expected=f"{mine} with the same scaling", got=str(theirs), fix=fix
            )
        source = (
            self.source if other.source == self.source else f"{self.source}; and {other.source}"
        )
        joined = {
            part: torch.cat([getattr(self, part), getattr(other, part)], dim=-2) for part in SAMPLED
        }
        return replace(self, **joined, source=source, times=None)

    def __repr__(self) -> str:
        return f"LatentSamples({len(self)} samples of {', '.join(self.variables.names)}; {self.source})"


@validated
def latent_samples(
    given: object,
    context: Tensor | None,
    *,
    names: Sequence[str] | None = None,
    parameters: Scaling | Sequence[str] | None = None,
    times: Times | None = None,
    source: str = "given latent states and rates",
    control_names: Sequence[str] = (),
    drift: Tensor | None = None,
) -> LatentSamples:
    """Samples of latent states and their rates {name: (..., N, m)}, as `LatentSamples.first_order`
    describes.
    """
    z, all_given = given["z"].detach(), given if drift is None else given | {"drift": drift}
    for name, x in all_given.items():
        tensors.axes(name, x, "samples components")
        check_numbers(name, x)
    tensors.same_shape(**all_given)
    drift = z.new_zeros(()).expand_as(z) if drift is None else drift
    values = [x.detach().to(z.device) for x in (*given.values(), drift)]
    if times is not None:
        times = times.double()
        if z.ndim < 3 or z.shape[-2] != len(times):
            expected = "one per latent state of a trajectory, with z (..., C, T, m)"
            got = f"shape {tuple(times.shape)} for z {tuple(z.shape)}"
            raise InputError("times", expected=expected, got=got, fix="match the axes")
        values = [x.flatten(-3, -2) for x in values]
    z, *rates, drift = values
    c = context_of_samples(context, z, times)
    names = tuple(f"z{k}" for k in range(z.shape[-1])) if names is None else names
    if not isinstance(parameters, Scaling):
        parameters = Scaling.none(
            [f"c{k}" for k in range(c.shape[-1])] if parameters is None else parameters
        )
    if len(parameters) != c.shape[-1]:
        expected = f"{len(parameters)} parameters ({', '.join(parameters.names)}) on the last axis"
        raise InputError(
            "context", expected=expected, got=f"{c.shape[-1]}", fix="name every parameter once"
        )
    if len(names) != z.shape[-1] or len({*names, *parameters.names}) < len(names) + len(
        {*parameters.names}
    ):
        expected = f"{z.shape[-1]} names, one per latent, unlike each other and the context's"
        raise InputError("names", expected=expected, got=str(names), fix="name each latent once")
    variables = Scaling.none(names + tuple(f"{name}'" for name in names) * (len(rates) - 1))
    inputs = torch.cat([z, *rates[:-1]], dim=-1)
    return LatentSamples(
        inputs, rates[-1], c, drift, variables, parameters, source, times, control_names
    )


def check_numbers(argument: str, x: Tensor) -> None:
    """Raise where numbers are infinite, or all of them missing."""
    if not x.numel() or bool(x.sum().isfinite()):  # a sum is the cheapest look at all of them
        return
    got = "infinity" if bool(x.isinf().any()) else "NaN alone" if bool(x.isnan().all()) else ""
    if got:
        raise InputError(
            argument, expected="numbers, or NaN where missing", got=got, fix="drop those samples"
        )


def context_of_samples(given: Tensor | None, z: Tensor, times: Tensor | None) -> Tensor:
    """Context (..., N, p) with as many axes as z (..., N, m), leading ones of size 1 where problems
    share it.
    """
    *lead, N, _ = z.shape
    if given is None:
        return z.new_empty((*(1 for _ in lead), N, 0))
    check_numbers("context", given)
    c = given.detach().to(z.device)
    if times is not None and c.ndim > 1:
        c = c.repeat_interleave(len(times), 0) if c.ndim == 2 else c.flatten(-3, -2)
    c = c[(None,) * len(lead)] if c.ndim == 2 else c
    own, wanted = tuple(c.shape[:-1]), (*lead, N)
    if (
        len(own) != len(wanted)
        or own[-1] != N
        or any(a not in (1, b) for a, b in zip(own, wanted, strict=True))
    ):
        expected = f"the context of each of {N} samples" + (
            f", or of each problem {tuple(lead)} too" if lead else ""
        )
        fix = "give the context of every sample, parameters on the last axis"
        raise InputError("context", expected=expected, got=f"shape {tuple(given.shape)}", fix=fix)
    return c


def one_axis(x: Tensor) -> Tensor:
    """Problems (..., N, k) as (S, N, k)."""
    return x.unsqueeze(0) if x.ndim == 2 else x.flatten(0, -3)


def trajectory_times(samples: LatentSamples) -> Tensor:
    """Times (T,) of samples that are whole trajectories.

    Raises:
        InputError: they are single samples.
    """
    if samples.times is None:
        fix = "give z (C, T, m) and times (T,), neither joined nor thinned out"
        raise InputError(
            "samples", expected="whole trajectories with their times", got="single ones", fix=fix
        )
    return samples.times


def interval(samples: LatentSamples) -> float:
    """Time between two samples of a trajectory.

    Raises:
        InputError: no trajectories, or uneven times.
    """
    times = trajectory_times(samples)
    dt = datasets.even_step(times.numpy())
    if dt is None:
        raise InputError(
            "times",
            expected="equally spaced times",
            got=f"{len(times)} others",
            fix="resample the data",
        )
    return dt


NUDGE = 1e-3
"""Difference of the context by which the drift of encoded states is measured [time steps of its
motion].
"""


@runtime_checkable
class ProjectionFamily(Protocol):
    """A torch module that, called with a dataset, gives the operator at its contexts (see
    `romkit.projections`).
    """

    def __call__(self, context: xr.Dataset) -> Operator: ...

    def double(self) -> "ProjectionFamily": ...

    def for_law(self, data: xr.Dataset) -> "tuple[ProjectionFamily, xr.Dataset]": ...


@validated
def encoded_samples(projection: ProjectionFamily, data: xr.Dataset) -> LatentSamples:
    """Latent states z = ρ(x) and their exact rates at every snapshot of a dataset.

    First order: ż = Dρ(x) ẋ. With a variable `acceleration`: z̈ = Dρ(q) q̈ + D²ρ(q)(q̇, q̇) for
    samples of second order.

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
    datasets.check_dataset(data)
    encoder = Encoder.of(projection, data)
    P, data, x, v = encoder.P, encoder.data, encoder.variable("state"), encoder.variable("velocity")
    with torch.no_grad():
        (z, dz), drift = P.encode_jvp(x, v), encoder.drift(x)
        if "acceleration" not in data:
            source = "encoded data, rate Dρ(x) ẋ"
            return _samples(data, z, dz, source=source, drift=drift, names=encoder.names)
        curvature = torch.func.jvp(lambda q: P.encode_jvp(q, v).tangent, (x,), (v,))[1]
        ddz = P.encode_jvp(x, encoder.variable("acceleration")).tangent + curvature
        source = "encoded data, rate Dρ(q) q̈ + D²ρ(q)(q̇, q̇)"
        return _samples(data, z, dz, ddz, source=source, drift=drift, names=encoder.names)


@validated
def followed_samples(projection: ProjectionFamily, data: xr.Dataset) -> LatentSamples:
    """Latent states z = ρ(x) at any times, for laws that are fitted to trajectories and not to
    rates.

    Rates are exact where the data have velocities, else central differences, NaN beside gaps. With
    a variable `acceleration` samples are of second order.

    Args:
        projection: trained on such data; a stack of seeds gives a stack of problems.
        data: in romkit's schema, with two times or more.

    Raises:
        InputError: no states, or a single time.
    """
    if "velocity" in data:
        return encoded_samples(projection, data)
    datasets.check_states(data)
    encoder = Encoder.of(projection, data)
    times, x = datasets.times_of(encoder.data), encoder.variable("state")
    if len(times) < 2:
        fix = "give trajectories"
        raise InputError("data", expected="two times or more", got="one", fix=fix)
    with torch.no_grad():
        z, drift = encoder.P.encode(x), encoder.drift(x)
    rate = torch.gradient(z, spacing=(times.to(z),), dim=-2)[0]
    rate = rate if drift is None else rate - drift
    return _samples(encoder.data, z, rate, source="encoded data", drift=drift, names=encoder.names)


@validated
def differentiated_samples(
    projection: ProjectionFamily,
    data: xr.Dataset,
    *,
    order: Order = 1,
    window: Count | None = None,
    degree: Count | None = None,
) -> LatentSamples:
    """Latent states z = ρ(x) with rates by differentiation in time; the dataset needs no
    velocities.

    Rates are those of a polynomial through the samples in a window; none in stretches that are
    shorter.

    Args:
        projection: trained on such data.
        data: in romkit's schema, with evenly spaced times.
        order: 2 for an equation of second order, else 1.
        window: samples that the polynomial is fitted to, an odd number above the degree; by default
            the one that predicts left-out latents best, longer for noisy data.
        degree: of the polynomial, at least `order`; by default likewise.

    Raises:
        InputError: the order is neither 1 nor 2, times are uneven or fewer than the window, the
            settings do not fit each other, or order 2 with a context that moves.

    Source: Savitzky, Golay (1964); scipy.signal.savgol_filter.

    Example:
        >>> import romkit
        >>> from romkit.integrators import differentiated_samples
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> samples = differentiated_samples(pod, data.drop_vars("velocity"))
        >>> samples.targets.shape, samples.order
        (torch.Size([100, 2]), 1)
    """
    return _differentiated(projection, data, order, window, degree)[0]


def windows(projection: ProjectionFamily, data: xr.Dataset) -> list[LatentSamples]:
    """Samples as of `differentiated_samples`, and with a window twice as long where there is room
    for four of those.
    """
    return _differentiated(projection, data, 1, None, None, lengths=(1, 2))


def _differentiated(
    projection: ProjectionFamily,
    data: xr.Dataset,
    order: int,
    window: int | None,
    degree: int | None,
    lengths: Sequence[int] = (1,),
) -> list[LatentSamples]:
    """Samples with rates by windows that are so many times as long as the given, or best, one."""
    datasets.check_states(data)
    encoder = Encoder.of(projection, data)
    data, times, x = encoder.data, datasets.times_of(data), encoder.variable("state")
    with torch.no_grad():
        z, drift = encoder.P.encode(x), encoder.drift(x)
    paths = (
        z.reshape(-1, *z.shape[-3:]).movedim(0, -2).flatten(-2).cpu().numpy()
    )  # of all problems, side by side
    whole = np.isfinite(paths).all(-1)
    best, found = smoothest(paths, whole), []
    for length in lengths:
        rule = Smoothing((window or best.window) * length + (length + 1) % 2, degree or best.degree)
        if length > 1 and 4 * rule.window > max(
            piece.stop - piece.start for _, piece in stretches(whole)
        ):
            break
        parts, rates = _smooth_stretches(rule, order, times, whole), []
        for k in range(1, order + 1):
            rate = differentiated(paths, times.numpy(), parts, functools.partial(rule, order=k))
            rates.append(
                torch.from_numpy(rate)
                .unflatten(-1, (-1, z.shape[-1]))
                .movedim(-2, 0)
                .reshape(z.shape)
                .to(z)
            )
        rates[0] = rates[0] if drift is None else rates[0] - drift
        source = (
            f"encoded data, rates by differentiation (window {rule.window}, degree {rule.degree})"
        )
        found.append(_samples(data, z, *rates, source=source, drift=drift, names=encoder.names))
    return found


def _smooth_stretches(
    rule: Smoothing, order: int, times: Tensor, whole: np.ndarray
) -> list[tuple[int, slice]]:
    """Stretches of complete samples (C, T) that are as long as the window.

    Raises:
        InputError: a window that the degree or the order does not fit, no stretches, or uneven
            times.
    """
    checks.at_least("degree", rule.degree, order)
    if checks.at_least("window", rule.window, rule.degree + 1) % 2 == 0:
        raise InputError(
            "window", expected="an odd number", got=rule.window, fix=f"take {rule.window + 1}"
        )
    parts = stretches(whole, rule.window)
    if not parts:
        got = f"{len(times)}, or gaps between them"
        raise InputError(
            "data",
            expected=f"at least {rule.window} times in a row",
            got=got,
            fix="shorten the window",
        )
    for _, piece in parts:
        if datasets.even_step(times[piece].numpy()) is None:
            steps = times[piece].diff()
            got = f"steps from {steps.min().item():g} to {steps.max().item():g}"
            fix = "add velocities, romkit.data.with_velocity(data, method='gradient'), or resample the data"
            raise InputError("times", expected="evenly spaced times", got=got, fix=fix)
    return parts


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
    """Latent field of the full model at points scattered around the encoded data.

    A point is left out for all models of a stack where one of them has no such field, because the
    tangents of its decoder are dependent.

    Args:
        projection: trained on such data.
        data: in romkit's schema; with velocities for a mechanical system.
        problem: (path, context (..., p)) -> the problem to reduce: `system.problem`.
        spread: standard deviation of the Gaussian scatter, in standard deviations of each latent
            coordinate.
        copies: scattered points per snapshot.
        seed: of the scatter.
        dynamics: source of the latent field; `Galerkin()` by default.

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
    datasets.check_states(data)
    dynamics, draw = dynamics or Galerkin(), torch.Generator().manual_seed(seed)
    several = data.isel(time=[k for k in range(data.sizes["time"]) for _ in range(copies)])
    source = f"{type(dynamics).__name__} field around the encoded data (spread {spread:g})"
    encoder = Encoder.of(projection, several)
    P, several = encoder.P, encoder.data
    task = problem(Path.constant(P), P.context)
    with torch.no_grad():
        parts = tuple(encoder.variable(name) for name in ("state", "velocity")[: task.order])
        scattered = [_scattered(part, spread, draw) for part in task.split(task.encode(P, parts))]
        times = torch.from_numpy(several["time"].values.astype(np.float64)).unsqueeze(
            -1
        )  # beside states (C, T, n)
        rate = dynamics.latent_rate(task)(times, task.join(*scattered))
    exists = rate.isfinite().all(-1)
    several = several.assign_coords(
        time=range(several.sizes["time"])
    )  # no trajectories: `only` forgets the times
    rate = torch.where(exists.unsqueeze(-1), rate, 0.0)
    samples = _samples(several, *scattered, rate, source=source, names=encoder.names)
    return samples.only(exists.flatten(-2).reshape(-1, len(samples)).all(0) & samples.observed)


class Encoder(NamedTuple):
    """A projection in float64 and a dataset with the context and components that it was trained on,
    in its order.
    """

    projection: ProjectionFamily
    data: xr.Dataset
    P: Operator

    @classmethod
    def of(cls, projection: ProjectionFamily, data: xr.Dataset) -> "Encoder":
        """Match projection and data.

        Raises:
            InputError: data of another context, components or layout.
        """
        if frame := getattr(projection, "frame", None):  # a user's may have none
            data = matched("data", data, frame.context_names, frame.state_names, frame.units)
            check_grid(data, frame.fields)
        projection = copy.deepcopy(projection).double()
        return cls(projection, data, projection(data))

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the latents, where the projection has some for them."""
        return getattr(self.projection, "latent_names", None)

    def variable(self, name: str) -> Tensor:
        """Variable (C, T, n), with a leading axis of size 1 where the operator has seeds."""
        fix = "differentiated_samples works from states alone" if name == "velocity" else "add it"
        x = datasets.trajectories(self.data, name, fix=fix).to(self.P.context)
        return (
            x if self.P.context.ndim == datasets.context_matrix(self.data).ndim else x.unsqueeze(0)
        )

    def drift(self, x: Tensor) -> Tensor | None:
        """D_cρ ċ (..., C, T, m) at states x (..., C, T, n), by differences; None where no context
        moves.
        """
        data = self.data
        names = [name for name in datasets.context_names(data) if "time" in data[name].dims]
        if not names or data.sizes["time"] < 2:
            return None
        step, order = NUDGE * float(data["time"].diff("time").min()), 1 + (data.sizes["time"] > 2)
        change = {name: step * data[name].differentiate("time", edge_order=order) for name in names}

        def encoded(sign: int) -> Tensor:
            moved = {
                name: data[name].copy(data=data[name] + sign * each)
                for name, each in change.items()
            }
            return self.projection(data.assign_coords(moved)).encode(x)

        return (encoded(1) - encoded(-1)) / (2 * step)


def _scattered(z: Tensor, spread: float, generator: torch.Generator) -> Tensor:
    """Latent states (..., C, T, m) with Gaussian scatter in units of the deviation of each
    coordinate.
    """
    rows = z.flatten(-3, -2)
    complete = rows.isfinite().all(-1).reshape(-1, rows.shape[-2]).all(0)
    deviation = rows[..., complete, :].std(-2, keepdim=True).unsqueeze(-2)
    return z + spread * deviation * torch.randn(z.shape, generator=generator, dtype=z.dtype).to(z)


def _samples(
    data: xr.Dataset,
    z: Tensor,
    *rates: Tensor,
    source: str,
    drift: Tensor | None = None,
    names: Sequence[str] | None = None,
) -> LatentSamples:
    """Samples of z and ż, or of z, ż and z̈, each (..., C, T, m), and the drift of z.

    Latents with names of their own are physical quantities.
    """
    if len(rates) == 2 and drift is not None:
        expected, fix = (
            "a context that stays for a law of order 2",
            "drop the acceleration, for one of order 1",
        )
        raise InputError("data", expected=expected, got="one that moves", fix=fix)
    if "transient" in data.attrs:
        source += f", transient of {float(data.attrs['transient']):g} discarded"
    # latents that are no more than rounding beside the others are at rest: no law can know them
    mean = z.nanmean((-3, -2), keepdim=True)
    size = (z - mean).square().nanmean((-3, -2), keepdim=True).sqrt()
    largest = torch.hypot(size, mean)
    if names is None:  # else they may have units of their own, in which some are small
        largest = largest.amax(-1, keepdim=True)
    rests = size <= torch.finfo(torch.float32).eps * largest
    z = torch.where(
        rests & z.isfinite(), mean.float().to(z), z
    )  # a mean of few bits, so that sums of it are exact
    values = [z, *(torch.where(rests, 0.0, rate) for rate in rates)]
    context, inputs = datasets.context_matrix(data), datasets.control_names(data)
    if inputs:  # (C, T, p + q), inputs behind the context
        context = (
            context
            if context.ndim == 3
            else np.repeat(context[:, None], data.sizes["time"], axis=1)
        )
        context = np.concatenate([context, control_matrix(data)], axis=-1)
    labels = {
        "times": datasets.times_of(data),
        "parameters": Scaling.of_context(data),
        "control_names": inputs,
        "names": names,
    }
    make = LatentSamples.first_order if len(rates) == 1 else LatentSamples.second_order
    samples = make(*values, torch.from_numpy(context).to(z), source=source, drift=drift, **labels)
    return replace(samples, held=held_if_told(data)) if inputs else samples
