"""Sources of samples for a law: encoded data, differentiated ones, and the latent field of a full
model.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit.data as datasets
from romkit.core import checks
from romkit.core.boundary import Count, NotNegative, Order, Seed, unchecked, validated
from romkit.core.errors import InputError
from romkit.core.tensors import copy_to_device
from romkit.core.types import Array
from romkit.data.controls import control_matrix, held_if_told, input_unit, smooth_stretches
from romkit.data.rates import warn_rates
from romkit.data.times import stretches
from romkit.data.trajectories import check_grid, matched
from romkit.data.velocity import Smoothing, differentiated, smoothest
from romkit.integrators.base import LatentField
from romkit.integrators.galerkin import Galerkin
from romkit.laws.samples import LatentSamples, complete_rows
from romkit.laws.scaling import Scaling
from romkit.projections import Operator, Path
from romkit.systems.problem import Problem

NUDGE = 1e-3
"""Difference of the context by which the drift of encoded states is measured [time steps of its
motion].
"""


MEASURED = 0.5
"""Share of the components of a snapshot with gaps, at least, for its latents to be trusted."""


@runtime_checkable
class ProjectionFamily(Protocol):
    """A torch module that, called with a dataset, gives the operator at its contexts (see
    `romkit.projections`).
    """

    @property
    def latent_dim(self) -> int: ...

    def __call__(self, context: xr.Dataset) -> Operator: ...

    def double(self) -> "ProjectionFamily": ...

    def law_space(self, data: xr.Dataset) -> "tuple[ProjectionFamily, xr.Dataset]": ...


def placed(projection: ProjectionFamily, device: torch.device | None) -> ProjectionFamily:
    """Copy a projection to a device, where laws of its latents are then fitted; None leaves it."""
    return projection if device is None else copy_to_device(projection, device)


# -- encoded data ----------------------------------------------------------------------------------


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
        >>> from romkit.laws import encoded_samples
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.18])
        >>> samples = encoded_samples(romkit.fit("pod", data, latent_dim=2), data)
        >>> len(samples), samples.variables.names, samples.parameters.names
        (100, ('z0', 'z1'), ('F',))
    """
    datasets.check_dataset(data)
    warn_rates(data)
    encoder = Encoder.match(projection, data)
    P = encoder.P
    x = encoder.variable("state")
    v = encoder.variable("velocity")
    with torch.no_grad():
        z, dz = P.encode_jvp(x, v)
        drift = encoder.drift(x)
        if "acceleration" not in encoder.data:
            source = "encoded data, rate Dρ(x) ẋ"
            return encoder.samples(z, dz, source=source, drift=drift)
        _, curvature = torch.func.jvp(lambda q: P.encode_jvp(q, v).tangent, (x,), (v,))
        acceleration = encoder.variable("acceleration")
        ddz = P.encode_jvp(x, acceleration).tangent + curvature
        source = "encoded data, rate Dρ(q) q̈ + D²ρ(q)(q̇, q̇)"
        return encoder.samples(z, dz, ddz, source=source, drift=drift)


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
    encoder = Encoder.match(projection, data)
    times = datasets.times_of(encoder.data)
    x = encoder.variable("state")
    if len(times) < 2:
        fix = "give trajectories"
        raise InputError("data", expected="two times or more", got="one", fix=fix)
    with torch.no_grad():
        z = encoder.encode(x)
        drift = encoder.drift(x)
    # second order in the interval, at uneven times too
    rate = torch.gradient(z, spacing=(times.to(z),), dim=-2)[0]
    if drift is not None:
        rate = rate - drift
    return encoder.samples(z, rate, source="encoded data", drift=drift)


# -- differentiated data ---------------------------------------------------------------------------


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
        >>> from romkit.laws import differentiated_samples
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> samples = differentiated_samples(pod, data.drop_vars("velocity"))
        >>> samples.targets.shape, samples.order
        (torch.Size([100, 2]), 1)
    """
    latents = Latents.encode(projection, data)
    best = unchecked(smoothest)(latents.paths, latents.whole)
    rule = Smoothing(best.window if window is None else window, degree or best.degree)
    return latents.smoothed(rule, order)


def windows(projection: ProjectionFamily, data: xr.Dataset) -> list[LatentSamples]:
    """Return samples as of `differentiated_samples`, and with a window twice as long where there is
    room for four of those.
    """
    latents = Latents.encode(projection, data)
    best = unchecked(smoothest)(latents.paths, latents.whole)
    samples = [latents.smoothed(best, 1)]
    wide = Smoothing(2 * best.window + 1, best.degree)  # an odd number
    if 4 * wide.window <= latents.longest_stretch:
        samples.append(latents.smoothed(wide, 1))
    return samples


class Latents(NamedTuple):
    """Encoded trajectories that rates are to be found of.

    Attributes:
        encoder: the projection and the data.
        times: (T,) of the samples.
        z: (..., C, T, m) latent states.
        drift: of these, None where no context moves.
        paths: (C, T, S m) the latents of all problems side by side.
        whole: (C, T) which of their samples are complete, by numbers of the stretches in which no
            input jumps.
    """

    encoder: "Encoder"
    times: Tensor
    z: Tensor
    drift: Tensor | None
    paths: Array
    whole: Array

    @classmethod
    def encode(cls, projection: ProjectionFamily, data: xr.Dataset) -> "Latents":
        """Encode trajectories."""
        datasets.check_states(data)
        encoder = Encoder.match(projection, data)
        x = encoder.variable("state")
        with torch.no_grad():
            z = encoder.encode(x)
            drift = encoder.drift(x)
        # rates of all problems come from one pass over the samples
        by_problem = z.reshape(-1, *z.shape[-3:])  # (S, C, T, m)
        side_by_side = by_problem.movedim(0, -2).flatten(-2)  # (C, T, S m)
        paths = side_by_side.cpu().numpy()
        is_complete = smooth_stretches(encoder.data, np.isfinite(paths).all(-1))
        return cls(encoder, datasets.times_of(encoder.data), z, drift, paths, is_complete)

    @property
    def longest_stretch(self) -> int:
        """Samples in the longest stretch without a gap."""
        return max(piece.stop - piece.start for _, piece in stretches(self.whole))

    def smoothed(self, rule: Smoothing, order: int) -> LatentSamples:
        """Return samples with rates by this rule."""
        pieces = _smooth_stretches(rule, order, self.times, self.whole)
        rates = []
        for k in range(1, order + 1):
            derivative = functools.partial(rule, order=k)
            rate = differentiated(self.paths, self.times.numpy(), pieces, derivative)
            rates.append(self._reshape_rows(rate))
        if self.drift is not None:
            rates[0] = rates[0] - self.drift
        settings = f"window {rule.window}, degree {rule.degree}"
        source = f"encoded data, rates by differentiation ({settings})"
        return self.encoder.samples(self.z, *rates, source=source, drift=self.drift)

    def _reshape_rows(self, paths: Array) -> Tensor:
        """Return numbers (C, T, S m) in the shape of z."""
        m = self.z.shape[-1]
        by_problem = torch.from_numpy(paths).unflatten(-1, (-1, m))  # (C, T, S, m)
        numbers = by_problem.movedim(-2, 0).reshape(self.z.shape)
        return numbers.to(self.z)


def _smooth_stretches(
    rule: Smoothing, order: int, times: Tensor, whole: Array
) -> list[tuple[int, slice]]:
    """Stretches of complete samples (C, T) that are as long as the window.

    Raises:
        InputError: a window that the degree or the order does not fit, no stretches, or uneven
            times.
    """
    checks.check_minimum("degree", rule.degree, order)
    checks.check_minimum("window", rule.window, rule.degree + 1)
    if rule.window % 2 == 0:
        fix = f"take {rule.window + 1}"
        raise InputError("window", expected="an odd number", got=rule.window, fix=fix)
    pieces = stretches(whole, rule.window)
    if not pieces:
        expected = f"at least {rule.window} times in a row"
        got = f"{len(times)}, or gaps between them"
        raise InputError("data", expected=expected, got=got, fix="shorten the window")
    for _, piece in pieces:
        if datasets.even_step(times[piece].numpy()) is None:
            steps = times[piece].diff()
            shortest = steps.min().item()
            longest = steps.max().item()
            got = f"steps from {shortest:g} to {longest:g}"
            with_gradient = "romkit.data.with_velocity(data, method='gradient')"
            fix = f"add velocities, {with_gradient}, or resample the data"
            raise InputError("times", expected="evenly spaced times", got=got, fix=fix)
    return pieces


# -- the field of a full model ---------------------------------------------------------------------


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
        >>> from romkit.laws import galerkin_samples
        >>> system = romkit.systems.Lorenz96(transient=0.0, duration=0.2)
        >>> data = system.dataset(F=[3.14, 3.18])
        >>> samples = galerkin_samples(romkit.load("ncae-lorenz96"), data, system.problem, copies=3)
        >>> len(samples), samples.order
        (120, 1)
    """
    datasets.check_states(data)
    if dynamics is None:
        dynamics = Galerkin()
    draw = torch.Generator().manual_seed(seed)
    # each copy is scattered by itself
    repeated = np.repeat(np.arange(data.sizes["time"]), copies)
    encoder = Encoder.match(projection, data.isel(time=repeated))
    P = encoder.P
    task = problem(Path.constant(P), P.context)
    with torch.no_grad():
        names = ("state", "velocity")[: task.order]
        encoded = task.encode(P, tuple(encoder.variable(name) for name in names))
        scattered = [_scattered(latents, spread, draw) for latents in task.split(encoded)]
        times = torch.from_numpy(encoder.data["time"].values.astype(np.float64))
        # beside states (C, T, n)
        rate = dynamics.latent_rate(task)(times.unsqueeze(-1), task.join(*scattered))
    exists = rate.isfinite().all(-1)  # (..., C, T)
    rate = torch.where(exists.unsqueeze(-1), rate, 0.0)
    # no trajectories: `only` forgets the times, which may not be repeated until then
    counted = encoder.data.assign_coords(time=range(encoder.data.sizes["time"]))
    source = f"{type(dynamics).__name__} field around the encoded data (spread {spread:g})"
    samples = encoder._replace(data=counted).samples(*scattered, rate, source=source)
    everywhere = exists.flatten(-2).reshape(-1, len(samples)).all(0)
    return samples.only(everywhere & samples.observed)


def _scattered(z: Tensor, spread: float, generator: torch.Generator) -> Tensor:
    """Latent states (..., C, T, m) with Gaussian scatter in units of the deviation of each
    coordinate.
    """
    rows = z.flatten(-3, -2)  # (..., C T, m)
    complete = rows[..., complete_rows(rows), :]
    deviation = complete.std(-2, keepdim=True).unsqueeze(-2)
    noise = torch.randn(z.shape, generator=generator, dtype=z.dtype)
    return z + spread * deviation * noise.to(z)


# -- what they share -------------------------------------------------------------------------------


class Encoder(NamedTuple):
    """A projection in float64 and a dataset with the context and components that it was trained on,
    in its order.
    """

    projection: ProjectionFamily
    data: xr.Dataset
    P: Operator

    @classmethod
    def match(cls, projection: ProjectionFamily, data: xr.Dataset) -> "Encoder":
        """Match projection and data.

        Raises:
            InputError: data of another context, components or layout.
        """
        frame = getattr(projection, "frame", None)  # a user's may have none
        if frame:
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
        fix = "add it"
        if name == "velocity":
            fix = "differentiated_samples works from states alone"
        x = datasets.trajectories(self.data, name, fix=fix).to(self.P.context)
        has_seeds = self.P.context.ndim != datasets.context_matrix(self.data).ndim
        if has_seeds:
            return x.unsqueeze(0)
        return x

    def encode(self, x: Tensor) -> Tensor:
        """z (..., C, T, m) of states (..., C, T, n), by least squares where components are missing
        and the projection can do without; NaN elsewhere.
        """
        missing = x.isnan()
        if not bool(missing.any()):
            return self.P.encode(x)
        encoded = self.P.encode(x.numpy(force=True))
        z = torch.from_numpy(encoded).to(x)
        # few components would say more of the start of the least squares than of the state
        measured = (~missing).sum(-1, keepdim=True)
        enough = max(MEASURED * x.shape[-1], self.P.latent_dim)
        return torch.where(measured >= enough, z, torch.nan)

    def drift(self, x: Tensor) -> Tensor | None:
        """D_cρ ċ (..., C, T, m) at states x (..., C, T, n), by differences; None where no context
        moves.
        """
        data = self.data
        names = [name for name in datasets.context_names(data) if "time" in data[name].dims]
        if not names or data.sizes["time"] < 2:
            return None
        # small beside the motion of the context between two samples
        step = NUDGE * float(data["time"].diff("time").min())
        order = 2
        if data.sizes["time"] == 2:
            order = 1
        change = {}
        for name in names:
            change[name] = step * data[name].differentiate("time", edge_order=order)

        def encoded(sign: int) -> Tensor:
            moved = {}
            for name, difference in change.items():
                context = data[name] + sign * difference
                moved[name] = data[name].copy(data=context)
            return self.projection(data.assign_coords(moved)).encode(x)

        return (encoded(1) - encoded(-1)) / (2 * step)

    def samples(
        self, z: Tensor, *rates: Tensor, source: str, drift: Tensor | None = None
    ) -> LatentSamples:
        """Return samples of z and ż, or of z, ż and z̈, each (..., C, T, m), and the drift of z.

        Raises:
            InputError: of second order at a context that moves.
        """
        data = self.data
        if len(rates) == 2 and drift is not None:
            expected = "a constant context for a law of order 2"
            fix = "drop the acceleration, for one of order 1"
            raise InputError("data", expected=expected, got="one that moves", fix=fix)
        if "transient" in data.attrs:
            source += f", transient of {float(data.attrs['transient']):g} discarded"
        inputs = datasets.control_names(data)
        states = _append_resting_latents(z, rates, shared_unit=self.names is None)
        make = LatentSamples.second_order
        if len(rates) == 1:
            make = LatentSamples.first_order
        samples = make(
            *states,
            torch.from_numpy(_parameters(data)).to(z),
            source=source,
            drift=drift,
            times=datasets.times_of(data),
            parameters=Scaling.fit(data),
            control_names=inputs,
            names=self.names,
        )
        if not inputs:
            return samples
        unit = input_unit(data["control"])
        return replace(samples, held=held_if_told(data), control_unit=unit)


def _append_resting_latents(z: Tensor, rates: Sequence[Tensor], shared_unit: bool) -> list[Tensor]:
    """Latents (..., C, T, m) and their rates, with those at rest that are no more than rounding
    beside the others: no law can know them.

    Args:
        z: latent states.
        rates: ż, or ż and z̈.
        shared_unit: whether latents are compared with each other. Latents with names of their own
            are physical quantities, and may have units in which some are small.
    """
    mean = z.nanmean((-3, -2), keepdim=True)
    deviation = (z - mean).square().nanmean((-3, -2), keepdim=True).sqrt()
    largest = torch.hypot(deviation, mean)
    if shared_unit:
        largest = largest.amax(-1, keepdim=True)
    rests = deviation <= torch.finfo(torch.float32).eps * largest
    # a mean of few bits, so that sums of it are exact
    z = torch.where(rests & z.isfinite(), mean.float().to(z), z)
    return [z, *(torch.where(rests, 0.0, rate) for rate in rates)]


def _parameters(data: xr.Dataset) -> Array:
    """Context (C, p) or (C, T, p), with inputs behind it (C, T, p + q) where there are some."""
    context = datasets.context_matrix(data)
    if not datasets.control_names(data):
        return context
    if context.ndim == 2:
        context = np.repeat(context[:, None], data.sizes["time"], axis=1)  # (C, T, p)
    return np.concatenate([context, control_matrix(data)], axis=-1)
