"""Projections with shifts of a ring factored out: the shape of a wave, and the phase by which it
has travelled.
"""

import copy
import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, validated
from romkit.core.errors import InputError
from romkit.core.types import Array, Names, Pair
from romkit.data import DIMS, Layout, even_step
from romkit.data.schema import of_other_coordinates
from romkit.projections.base import Projection
from romkit.projections.frame import Frame
from romkit.projections.maps import EncoderDecoder
from romkit.projections.methods import method_named
from romkit.projections.networks import Curve, Curves, joined

PURE = 0.99
"""Share of the energy of the deviations that harmonics of one wave hold in data that count as waves
of its number.
"""

VANISHING = 0.01
"""Smallest amplitude of the wave in data, relative to deviations of the state: without a wave there
is no phase.
"""

UNEVEN = 0.05
"""Largest share of the variance of states, or of their squares, that may depend on the place in
waves that travel.
"""

LAPS = 3.0
"""Wavelengths from which a trajectory counts as travelling."""


@validated
@dataclass(frozen=True)
class Shifts:
    """Shifts of a ring of equidistant points, a symmetry that `System.symmetry` declares.

    Args:
        continuous: whether shifts by fractions of a point are symmetries, as for Fourier
            collocation; else whole ones.
        variables: number of fields on the ring, one behind the other in the state; of data with a
            layout, theirs.
        number: k of the waves, by default the one that the data have; 1 keeps all of a state.

    Example:
        >>> import romkit
        >>> romkit.systems.Lorenz96().symmetry
        Shifts(continuous=False, variables=1, number=None)
        >>> romkit.systems.Pendulum().symmetry is None
        True
    """

    continuous: bool = True
    variables: Count = 1
    number: Count | None = None

    def turned(self, x: Tensor) -> Tensor:
        """States (..., n) shifted by one point."""
        fields = x.unflatten(-1, (self.variables, -1))  # (..., variables, points)
        return fields.roll(1, -1).flatten(-2)

    def wave(self, data: xr.Dataset, frame: Frame) -> "Wave":
        """Coordinates of the waves in data whose frame is given.

        Raises:
            InputError: no ring of even steps, no single wave that never vanishes, or travelling
                states that depend on the place.
        """
        number, points = self._fields(frame)
        _check_places(frame)
        x = _on_ring(data, number, points)  # (trajectory, time, variable, point)
        coefficients = np.fft.rfft(x)[..., 1:]  # (trajectory, time, variable, wave number)
        power = np.nanmean(np.abs(coefficients) ** 2, axis=1)  # (trajectory, variable, wave number)
        largest = power[:, 0].argmax(-1) + 1
        dominant = sorted(set(largest.tolist()))
        units = frame.state_units[::points]
        k = self._number(dominant, power, points, units)
        wave = self._of(k, points, units)
        if wave.harmonics < 1:
            raise InputError(
                "symmetry",
                expected=f"a wave number that {points} points resolve",
                got=k,
                fix="give number=1, which keeps all of a state",
            )
        # the first field alone defines the phase; the others are aligned with it
        leading = x[..., 0, :]
        spectrum = np.fft.fft(leading)
        coefficient = spectrum[..., k % points] * (2 / points) ** 0.5
        _check_amplitude(leading, coefficient, k, dominant)
        _check_even(x, coefficient)
        amplitude = float(np.nanmean(np.abs(coefficient)))
        return replace(wave, amplitude=amplitude)

    def _fields(self, frame: Frame) -> tuple[int, int]:
        """Number of fields on the ring, and of its points.

        Raises:
            InputError: fields that are not on one ring.
        """
        layout = frame.fields
        n = len(frame.state_names)
        number = len(layout.variables)
        if layout.is_plain:
            number = self.variables
        points = n // number
        if points * number != n or not _on_one_ring(layout):
            variables = [f"{variable.name} {variable.dims}" for variable in layout.variables]
            raise InputError(
                "data",
                expected="fields on one ring",
                got=", ".join(variables),
                fix="leave symmetry out, or select them",
            )
        return number, points

    def _number(self, dominant: list[int], power: Array, points: int, units: Names) -> int:
        """The wave number: the given one, or that of the data if they are waves of a single one."""
        if self.number is not None:
            return self.number
        if len(dominant) > 1:
            return 1
        k = dominant[0]
        share = self._of(k, points, units).share(power)
        return k if share >= PURE else 1

    def _of(self, number: int, points: int, units: Names) -> "Wave":
        """The wave of a number, with as many harmonics as the grid tells apart; none at its highest
        frequency.
        """
        harmonics = (points // np.gcd(points, number) - 1) // 2
        if self.continuous:
            harmonics = min(harmonics, (points - 1) // 2 // number)
        return Wave(points, number, int(harmonics), units)


def _on_one_ring(layout: Layout) -> bool:
    """Whether variables have points along one and the same dimension."""
    shapes = set()
    for variable in layout.variables:
        if not variable.mask:
            shapes.add(variable.shape)
    return len(shapes) == 1 and len(*shapes) == 1


def _check_places(frame: Frame) -> None:
    """Raise unless the places of points, where the data have some, are equidistant."""
    layout = frame.fields
    dimensions = {variable.dims[0] for variable in layout.variables}
    for name in dimensions & layout.coords.keys():
        place = np.asarray(layout.coords[name]["values"])
        if place.dtype.kind not in "iuf":
            continue
        if even_step(place) is None and even_step(-place) is None:
            raise InputError(
                "data",
                expected=f"a ring with even steps of {name}",
                got="uneven ones",
                fix="interpolate the data to such places",
            )


def _on_ring(data: xr.Dataset, number: int, points: int) -> Array:
    """States (trajectory, time, variable, point), NaN where a snapshot is incomplete."""
    x = data["state"].transpose(*DIMS).values.astype(np.float64)
    x = x.reshape(*x.shape[:2], number, points)
    complete = np.isfinite(x).all((-2, -1), keepdims=True)
    return np.where(complete, x, np.nan)


def _check_amplitude(u: Array, wave: Array, k: int, dominant: list[int]) -> None:
    """Raise if a wave (C, T) of number k of the first field u (C, T, n) vanishes in a snapshot."""
    deviation = u - np.nanmean(u)
    size = np.nanmean((deviation**2).sum(-1)) ** 0.5
    least = np.nanmin(np.abs(wave)) / size
    if least > VANISHING:
        return
    numbers = f"numbers of the trajectories are {dominant}"
    raise InputError(
        "data",
        expected=f"a wave of number {k} that never vanishes",
        got=f"one that falls to {least:.1e} of the deviations; {numbers}",
        fix="fit waves of each number by themselves, data.isel(trajectory=...), or leave "
        "symmetry out",
    )


def _check_even(x: Array, wave: Array) -> None:
    """Raise if states (C, T, variables, n) of waves (C, T) that travel depend on the place."""
    for states, coefficients in zip(x, wave, strict=True):
        complete = np.isfinite(coefficients)
        phase = np.unwrap(np.angle(coefficients[complete]))
        travelled = abs(phase[-1] - phase[0])
        if travelled <= LAPS * 2 * np.pi:
            continue  # a wave that rests may differ from place to place
        waves = states[complete]
        deviation = waves - waves.mean((0, 2), keepdims=True)
        uneven = max(_variance_by_place(deviation), _variance_by_place(deviation**2))
        if uneven > UNEVEN:
            raise InputError(
                "symmetry",
                expected="travelling waves that are alike at all places",
                got=f"{uneven:.0%} of a variance by place",
                fix="leave it out: the data lack it",
            )


def _variance_by_place(values: Array) -> float:
    """Largest share of the variance of a variable in values (T, variables, n) that depends on the
    place.
    """
    of_places = values.mean(0).var(-1)  # (variables,)
    share = of_places / values.var((0, 2))
    return float(share.max())


@dataclass(frozen=True)
class Wave:
    """Waves of one number k on a ring of n points, with M harmonics: x_j = Σ Re(Zₘ exp(-2πi k m j /
    n)).

    A wave travels by a phase φ: Zₘ -> Zₘ exp(imφ). A shift by one point is φ = 2πk/n, exactly,
    whether or not k divides n. The first harmonic of the first field defines the phase; the others
    are aligned with it, Yₘ = Zₘ exp(-imφ), so that Im Y₁ = 0. Its amplitude r is kept as a log(r /
    a), so that no coordinate makes it vanish.

    Attributes:
        points, number, harmonics: n, k and M.
        units: of each field on the ring.
        amplitude: a, the mean of r.

    Source: Rowley, Marsden (2000), Reconstruction equations and the Karhunen-Loève expansion for
    systems with symmetry; Budanur et al. (2015), Reduction of SO(2) symmetry for spatially extended
    dynamical systems.
    """

    points: int
    number: int
    harmonics: int
    units: Names
    amplitude: float = 1.0

    @property
    def names(self) -> Names:
        """Names of the coordinates of an aligned state."""
        M = self.harmonics
        cosines = [f"re{m}" for m in range(1, M + 1)]
        sines = [f"im{m}" for m in range(1, M + 1)]
        of_field = [*cosines, *sines, "mean"]
        names = list(of_field)
        # behind an underscore: re1 of the second field is not re11 of the first
        for number in range(1, len(self.units)):
            names += [f"{name}_{number}" for name in of_field]
        # Re Y₁ of the first field is the amplitude, and Im Y₁ is zero
        return ("amplitude", *names[1:M], *names[M + 1 :])

    def share(self, power: Array) -> float:
        """Share of the power (..., wave number - 1) that the harmonics hold."""
        orders = np.arange(1, self.harmonics + 1)
        numbers = self.number * orders % self.points
        on_grid = np.minimum(numbers, self.points - numbers)  # as the grid sees them
        held = power[..., on_grid - 1].sum()
        return float(held / power.sum())

    def aligned(self, x: Curve) -> Curve:
        """Coordinates of the aligned state and the phase (..., r + 1), and their rate, of states
        (..., n).
        """
        value, *tangents = x
        re, im, mean = self._harmonics(value)  # (..., fields, M)
        m = self._orders(mean)
        p = re[..., :1, :1]
        q = im[..., :1, :1]
        r = (p * p + q * q).sqrt()
        phase = torch.atan2(q, p)
        u, v = _rotated(re, im, -m * phase)
        log_amplitude = self.amplitude * (r / self.amplitude).log()
        curve = [self._joined(u, v, mean, log_amplitude, phase)]
        for tangent in tangents:
            dre, dim, dmean = self._harmonics(tangent)
            dp = dre[..., :1, :1]
            dq = dim[..., :1, :1]
            dphase = (p * dq - q * dp) / (r * r)
            # of the harmonics as they are, then of the turn by the phase
            du, dv = _rotated(dre, dim, -m * phase)
            du = du + m * dphase * v
            dv = dv - m * dphase * u
            dr = du[..., :1, :1]
            dlog = self.amplitude * dr / r
            curve.append(self._joined(du, dv, dmean, dlog, dphase))
        return tuple(curve)

    def placed(self, y: Curve) -> Curve:
        """States (..., n), and their rate, of coordinates and phase (..., r + 1)."""
        value, *rates = y
        m = self._orders(value)
        log_amplitude = value[..., :1] / self.amplitude
        r = self.amplitude * log_amplitude.exp()
        u, v, mean = self._parted(r, value)
        phase = value[..., -1:].unsqueeze(-1)
        re, im = _rotated(u, v, m * phase)
        curve = [self._state(re, im, mean)]
        for rate in rates:
            dr = r * rate[..., :1] / self.amplitude
            du, dv, dmean = self._parted(dr, rate)
            dphase = rate[..., -1:].unsqueeze(-1)
            # of the harmonics as they are, then of the turn by the phase
            dre, dim = _rotated(du, dv, m * phase)
            dre = dre - m * dphase * im
            dim = dim + m * dphase * re
            curve.append(self._state(dre, dim, dmean))
        return tuple(curve)

    def project(self, data: xr.Dataset) -> xr.Dataset:
        """A dataset of the coordinates of aligned states, with their velocity where the data have
        one.
        """
        names = [name for name in ("state", "velocity") if name in data]
        states = []
        for name in names:
            x = data[name].transpose(*DIMS).values
            states.append(torch.from_numpy(x).double())
        values = {}
        for name, y in zip(names, self.aligned(tuple(states)), strict=True):
            values[name] = y[..., :-1].numpy()  # without the phase
        return of_other_coordinates(data, values, self.names, self.component_units)

    @property
    def component_units(self) -> Names:
        """Unit of each coordinate."""
        units: list[str] = []
        for unit in self.units:
            units += [unit] * (2 * self.harmonics + 1)
        return tuple(units[1:])

    def _orders(self, like: Tensor) -> Tensor:
        return torch.arange(1, self.harmonics + 1, dtype=like.dtype, device=like.device)

    def _harmonics(self, x: Tensor) -> tuple[Tensor, ...]:
        """Re Z, Im Z (..., fields, M) and means (..., fields, 1) in an orthonormal basis."""
        modes = _modes(self.points, self.number, self.harmonics).to(x)
        fields = x.unflatten(-1, (len(self.units), self.points))
        return (fields @ modes).split((self.harmonics, self.harmonics, 1), dim=-1)

    def _state(self, *harmonics: Tensor) -> Tensor:
        """State (..., n) of what `_harmonics` gives."""
        a = torch.cat(harmonics, dim=-1)  # (..., fields, 2M + 1)
        modes = _modes(self.points, self.number, self.harmonics).to(a)
        return (a @ modes.mT).flatten(-2)

    def _joined(
        self, u: Tensor, v: Tensor, mean: Tensor, amplitude: Tensor, phase: Tensor
    ) -> Tensor:
        """Coordinates and phase (..., r + 1), without Re Y₁ and Im Y₁ of the first field."""
        M = self.harmonics
        y = torch.cat([u, v, mean], dim=-1).flatten(-2)
        cosines = y[..., 1:M]
        beyond = y[..., M + 1 :]
        columns = [amplitude[..., 0], cosines, beyond, phase[..., 0]]
        return torch.cat(columns, dim=-1)

    def _parted(self, first: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """Re Y, Im Y and means of coordinates and phase (..., r + 1), with Re Y₁ as given."""
        M = self.harmonics
        zero = torch.zeros_like(first)  # Im Y₁
        further = y[..., 1:M]
        imaginary_and_means = y[..., M:-1]
        columns = [first, further, zero, imaginary_and_means]
        fields = torch.cat(columns, dim=-1)
        fields = fields.unflatten(-1, (len(self.units), -1))
        return fields.split((M, M, 1), dim=-1)


def _rotated(u: Tensor, v: Tensor, angle: Tensor) -> Pair:
    """Points (u, v) of a plane, turned by an angle."""
    cos = angle.cos()
    sin = angle.sin()
    return u * cos - v * sin, u * sin + v * cos


@functools.lru_cache(maxsize=32)
def _modes(points: int, number: int, harmonics: int) -> Tensor:
    """(n, 2M + 1) orthonormal cosines, sines, and the constant; whole numbers are reduced before
    they become angles.
    """
    orders = torch.arange(1, harmonics + 1)
    turns = torch.outer(torch.arange(points), number * orders) % points
    angle = 2 * torch.pi / points * turns.double()
    height = (2 / points) ** 0.5
    waves = height * torch.cat([angle.cos(), angle.sin()], dim=-1)
    constant = torch.full((points, 1), points**-0.5, dtype=torch.float64)
    return torch.cat([waves, constant], dim=-1)


class SlicedMaps(Curves):
    """Maps of shape and phase, of maps of aligned states in the coordinates of their frame."""

    decode_curvature = EncoderDecoder.decode_curvature

    def __init__(self, wave: Wave, frame: Frame, maps: EncoderDecoder):
        self.wave = wave
        self.frame = frame
        self.maps = maps

    def encoded(self, y: Curve) -> Curve:
        aligned = self.wave.aligned(y)
        value, *rates = (curve[..., :-1] for curve in aligned)
        shape = self.frame.normalise(value)
        if not rates:
            return _with_phases([self.maps.encode(shape)], aligned)
        tangents = map(self.frame.normalise_tangent, rates)
        z = self.maps.encode_jvp(shape, *tangents)
        return _with_phases(z, aligned)

    def decoded(self, z: Curve) -> Curve:
        shapes = [curve[..., :-1] for curve in z]
        if len(z) == 1:
            y = [self.frame.denormalise(self.maps.decode(*shapes))]
            return self.wave.placed(_with_phases(y, z))
        value, *rates = self.maps.decode_jvp(*shapes)
        tangents = map(self.frame.denormalise_tangent, rates)
        y = [self.frame.denormalise(value), *tangents]
        return self.wave.placed(_with_phases(y, z))


def _with_phases(shapes: Sequence[Tensor], phases: Sequence[Tensor]) -> Curve:
    """Shapes with the phases, which stand last in others."""
    curve = []
    for shape, phase in zip(shapes, phases, strict=True):
        curve.append(joined(shape, phase[..., -1:]))
    return tuple(curve)


class Sliced(Projection):
    """A projection of aligned waves with their phase as the last latent coordinate, which
    `fit(symmetry=...)` makes.

    P(g x) = g P(x) for every shift g. Exact if the inner projection is: encoded phases are in (-π,
    π], and decoded states have period 2π in the phase. What harmonics of the wave do not hold is
    projected away.

    Args:
        method, settings: of the inner projection.
        wave: fields of `Wave`.

    Attributes:
        inner: the projection of aligned states.
        wave: the coordinates that it works on.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.KuramotoSivashinsky(n=32, dt=0.1).dataset(L=[12.0, 12.2, 12.4], duration=10.0)
        >>> pod = romkit.fit("pod", data, symmetry="shift", latent_dim=1)
        >>> x = torch.from_numpy(data.state.values)
        >>> P = pod.double()(data)
        >>> torch.allclose(P(x.roll(5, -1)), P(x).roll(5, -1), rtol=0, atol=1e-12)
        True
        >>> (P.encode(x.roll(8, -1)) - P.encode(x))[0, 0, 1].remainder(2 * torch.pi)  # a quarter of the ring
        tensor(1.5708, dtype=torch.float64)
    """

    name = "sliced"

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        *,
        method: str,
        settings: dict[str, object],
        wave: dict,
    ):
        super().__init__(frame, {"method": method, "settings": settings, "wave": wave})
        self.wave = Wave(**(wave | {"units": tuple(wave["units"])}))
        inner = Frame(
            "",
            self.wave.names,
            self.wave.component_units,
            context_names=frame.context_names,
            context_units=frame.context_units,
            fixed=frame.fixed,
            time_units=frame.time_units,
        )
        self._hold(method_named(method)(inner, generator, **settings))

    def _hold(self, inner: Projection) -> None:
        self.inner = inner
        self.latent_dim = inner.latent_dim + 1
        self.idempotent = inner.idempotent
        self.trained = inner.trained

    @classmethod
    def of(cls, inner: Projection, wave: Wave, data: xr.Dataset) -> "Sliced":
        """Projection of full states from one of aligned states, with names, units and deviations of
        full data.
        """
        frame = Frame.from_dataset(data)
        n = len(frame.state_names)
        # alignment needs physical states
        frame._set(state_shift=np.zeros(n), state_scale=np.ones(n))
        sliced = cls(
            frame,
            torch.Generator(),
            method=inner.name,
            settings=inner.config,
            wave=asdict(wave),
        )
        sliced._hold(inner)
        sliced.report = inner.report
        return sliced

    @property
    def shapes(self) -> Projection:
        """The projection of aligned states, with the seeds of this one."""
        inner = copy.copy(self.inner)
        inner.seeds = self.seeds
        return inner

    def for_law(self, data: xr.Dataset) -> tuple[Projection, xr.Dataset]:
        return self.shapes, self.wave.project(data)

    def at(self, c: Tensor) -> SlicedMaps:
        return SlicedMaps(self.wave, self.inner.frame, self.inner.at(c))
