"""Projections with shifts of a ring factored out: the shape of a wave, and the phase by which it
has travelled.
"""

import copy
import functools
from dataclasses import asdict, dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, validated
from romkit.core.errors import InputError
from romkit.data import DIMS, even_step
from romkit.data.schema import of_other_coordinates
from romkit.projections.base import Projection
from romkit.projections.frame import Frame
from romkit.projections.methods import method_named
from romkit.projections.networks import Curve, Curves, joined
from romkit.projections.operator import EncoderDecoder

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
        return x.unflatten(-1, (self.variables, -1)).roll(1, -1).flatten(-2)

    def wave(self, data: xr.Dataset, frame: Frame) -> "Wave":
        """Coordinates of the waves in data whose frame is given.

        Raises:
            InputError: no ring of even steps, no single wave that never vanishes, or travelling
                states that depend on the place.
        """
        layout = frame.fields
        sizes = {v.shape for v in layout.variables if not v.mask}
        number = self.variables if layout.is_plain else len(layout.variables)
        points = len(frame.state_names) // number
        if len(sizes) != 1 or len(*sizes) != 1 or points * number != len(frame.state_names):
            got = ", ".join(f"{v.name} {v.dims}" for v in layout.variables)
            raise InputError(
                "data",
                expected="fields on one ring",
                got=got,
                fix="leave symmetry out, or select them",
            )
        for name in {v.dims[0] for v in layout.variables} & layout.coords.keys():
            place = np.asarray(layout.coords[name]["values"])
            if place.dtype.kind in "iuf" and even_step(place) is None and even_step(-place) is None:
                fix = "interpolate the data to such places"
                raise InputError(
                    "data", expected=f"a ring with even steps of {name}", got="uneven ones", fix=fix
                )
        x = data["state"].transpose(*DIMS).values.astype(np.float64)
        x = x.reshape(*x.shape[:2], number, points)
        x = np.where(np.isfinite(x).all((-2, -1), keepdims=True), x, np.nan)
        power = np.nanmean(
            np.abs(np.fft.rfft(x)[..., 1:]) ** 2, axis=1
        )  # (trajectory, variable, wave number)
        found = sorted({int(k) + 1 for k in power[:, 0].argmax(-1)})
        k, units = self.number or found[0], frame.state_units[::points]
        if self.number is None and (
            len(found) > 1 or self._of(k, points, units).share(power) < PURE
        ):
            k = 1
        wave = self._of(k, points, units)
        if wave.harmonics < 1:
            expected, fix = (
                f"a wave number that {points} points resolve",
                "give number=1, which keeps all of a state",
            )
            raise InputError("symmetry", expected=expected, got=k, fix=fix)
        first = np.fft.fft(x[..., 0, :])[..., k % points] * (2 / points) ** 0.5
        deviation = x[..., 0, :] - np.nanmean(x[..., 0, :])
        least = np.nanmin(np.abs(first)) / np.nanmean((deviation**2).sum(-1)) ** 0.5
        if not least > VANISHING:
            got = f"one that falls to {least:.1e} of the deviations; numbers of the trajectories are {found}"
            fix = "fit waves of each number by themselves, data.isel(trajectory=...), or leave symmetry out"
            raise InputError(
                "data", expected=f"a wave of number {k} that never vanishes", got=got, fix=fix
            )
        _check_even(x, first)
        return Wave(**(asdict(wave) | {"amplitude": float(np.nanmean(np.abs(first)))}))

    def _of(self, number: int, points: int, units: tuple[str, ...]) -> "Wave":
        """The wave of a number, with as many harmonics as the grid tells apart; none at its highest
        frequency.
        """
        apart = (points // np.gcd(points, number) - 1) // 2
        return Wave(
            points,
            number,
            int(min(apart, (points - 1) // 2 // number) if self.continuous else apart),
            units,
        )


def _check_even(x: np.ndarray, wave: np.ndarray) -> None:
    """Raise if states (C, T, variables, n) of waves (C, T) that travel depend on the place."""
    for states, coefficients in zip(x, wave, strict=True):
        there = np.isfinite(coefficients)
        phase = np.unwrap(np.angle(coefficients[there]))
        deviation = states[there] - states[there].mean((0, 2), keepdims=True)
        for powers in (deviation, deviation**2):
            uneven = float((powers.mean(0).var(-1) / powers.var((0, 2))).max())
            if abs(phase[-1] - phase[0]) > LAPS * 2 * np.pi and uneven > UNEVEN:
                expected, got = (
                    "travelling waves that are alike at all places",
                    f"{uneven:.0%} of a variance by place",
                )
                raise InputError(
                    "symmetry", expected=expected, got=got, fix="leave it out: the data lack it"
                )


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
    units: tuple[str, ...]
    amplitude: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates of an aligned state."""
        each = [f"{part}{m}" for part in ("re", "im") for m in range(1, self.harmonics + 1)] + [
            "mean"
        ]
        names = [f"{name}{f or ''}" for f in range(len(self.units)) for name in each]
        return ("amplitude", *names[1 : self.harmonics], *names[self.harmonics + 1 :])

    def share(self, power: np.ndarray) -> float:
        """Share of the power (..., wave number - 1) that the harmonics hold."""
        numbers = self.number * np.arange(1, self.harmonics + 1) % self.points
        return float(power[..., np.minimum(numbers, self.points - numbers) - 1].sum() / power.sum())

    def aligned(self, x: Curve) -> Curve:
        """Coordinates of the aligned state and the phase (..., r + 1), and their rate, of states
        (..., n).
        """
        a, *rates = (self._harmonics(part) for part in x)
        re, im, mean = a
        p, q, m = re[..., :1, :1], im[..., :1, :1], self._orders(mean)
        r, phase = (p * p + q * q).sqrt(), torch.atan2(q, p)
        u, v = _rotated(re, im, -m * phase)
        found = [self._joined(u, v, mean, self.amplitude * (r / self.amplitude).log(), phase)]
        for dre, dim, dmean in rates:
            dphase = (p * dim[..., :1, :1] - q * dre[..., :1, :1]) / (r * r)
            du, dv = _rotated(dre, dim, -m * phase)
            du, dv = du + m * dphase * v, dv - m * dphase * u
            found.append(self._joined(du, dv, dmean, self.amplitude * du[..., :1, :1] / r, dphase))
        return tuple(found)

    def placed(self, y: Curve) -> Curve:
        """States (..., n), and their rate, of coordinates and phase (..., r + 1)."""
        value, *rates = y
        r = self.amplitude * (value[..., :1] / self.amplitude).exp()
        (u, v, mean), m = self._parted(r, value), self._orders(value)
        phase = value[..., -1:].unsqueeze(-1)
        re, im = _rotated(u, v, m * phase)
        found = [self._state(re, im, mean)]
        for rate in rates:
            du, dv, dmean = self._parted(r * rate[..., :1] / self.amplitude, rate)
            dre, dim = _rotated(du, dv, m * phase)
            dphase = rate[..., -1:].unsqueeze(-1)
            found.append(self._state(dre - m * dphase * im, dim + m * dphase * re, dmean))
        return tuple(found)

    def project(self, data: xr.Dataset) -> xr.Dataset:
        """A dataset of the coordinates of aligned states, with their velocity where the data have
        one.
        """
        names = [name for name in ("state", "velocity") if name in data]
        curve = tuple(
            torch.from_numpy(data[name].transpose(*DIMS).values).double() for name in names
        )
        parts = zip(names, self.aligned(curve), strict=True)
        values = {name: part[..., :-1].numpy() for name, part in parts}
        return of_other_coordinates(data, values, self.names, self.component_units)

    @property
    def component_units(self) -> tuple[str, ...]:
        """Unit of each coordinate."""
        return tuple(unit for unit in self.units for _ in range(2 * self.harmonics + 1))[1:]

    def _orders(self, like: Tensor) -> Tensor:
        return torch.arange(1, self.harmonics + 1, dtype=like.dtype, device=like.device)

    def _harmonics(self, x: Tensor) -> tuple[Tensor, ...]:
        """Re Z, Im Z (..., fields, M) and means (..., fields, 1) in an orthonormal basis."""
        a = x.unflatten(-1, (len(self.units), self.points)) @ _modes(
            self.points, self.number, self.harmonics
        ).to(x)
        return a.split((self.harmonics, self.harmonics, 1), dim=-1)

    def _state(self, *harmonics: Tensor) -> Tensor:
        a = torch.cat(harmonics, dim=-1)
        return (a @ _modes(self.points, self.number, self.harmonics).to(a).mT).flatten(-2)

    def _joined(self, u: Tensor, v: Tensor, mean: Tensor, first: Tensor, phase: Tensor) -> Tensor:
        M, rest = self.harmonics, torch.cat([u, v, mean], dim=-1).flatten(-2)
        return torch.cat([first[..., 0], rest[..., 1:M], rest[..., M + 1 :], phase[..., 0]], dim=-1)

    def _parted(self, first: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        M = self.harmonics
        whole = torch.cat([first, y[..., 1:M], torch.zeros_like(first), y[..., M:-1]], dim=-1)
        return whole.unflatten(-1, (len(self.units), -1)).split((M, M, 1), dim=-1)


def _rotated(u: Tensor, v: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Points (u, v) of a plane, turned by an angle."""
    cos, sin = angle.cos(), angle.sin()
    return u * cos - v * sin, u * sin + v * cos


@functools.lru_cache(maxsize=32)
def _modes(points: int, number: int, harmonics: int) -> Tensor:
    """(n, 2M + 1) orthonormal cosines, sines, and the constant; whole numbers are reduced before
    they become angles.
    """
    turns = torch.outer(torch.arange(points), number * torch.arange(1, harmonics + 1)) % points
    angle = 2 * torch.pi / points * turns.double()
    waves = torch.cat([angle.cos(), angle.sin()], dim=-1) * (2 / points) ** 0.5
    return torch.cat([waves, torch.full((points, 1), points**-0.5, dtype=torch.float64)], dim=-1)


class SlicedMaps(Curves):
    """Maps of shape and phase, of maps of aligned states in the coordinates of their frame."""

    decode_curvature = EncoderDecoder.decode_curvature

    def __init__(self, wave: Wave, frame: Frame, maps: EncoderDecoder):
        self.wave, self.frame, self.maps = wave, frame, maps

    def encoded(self, y: Curve) -> Curve:
        value, *rates = parts = self.wave.aligned(y)
        point = self.frame.normalise(value[..., :-1])
        tangents = [self.frame.normalise_tangent(rate[..., :-1]) for rate in rates]
        z = self.maps.encode_jvp(point, *tangents) if rates else [self.maps.encode(point)]
        return tuple(joined(a, b[..., -1:]) for a, b in zip(z, parts, strict=True))

    def decoded(self, z: Curve) -> Curve:
        shapes = [part[..., :-1] for part in z]
        value, *rates = self.maps.decode_jvp(*shapes) if len(z) > 1 else [self.maps.decode(*shapes)]
        y = [self.frame.denormalise(value), *map(self.frame.denormalise_tangent, rates)]
        return self.wave.placed(tuple(joined(a, b[..., -1:]) for a, b in zip(y, z, strict=True)))


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
        contexts = {
            "context_names": frame.context_names,
            "context_units": frame.context_units,
            "fixed": frame.fixed,
            "time_units": frame.time_units,
        }
        inner = Frame("", self.wave.names, self.wave.component_units, **contexts)
        self._hold(method_named(method)(inner, generator, **settings))

    def _hold(self, inner: Projection) -> None:
        self.inner, self.latent_dim = inner, inner.latent_dim + 1
        self.idempotent, self.trained = inner.idempotent, inner.trained

    @classmethod
    def of(cls, inner: Projection, wave: Wave, data: xr.Dataset) -> "Sliced":
        """Projection of full states from one of aligned states, with names, units and deviations of
        full data.
        """
        frame = Frame.from_dataset(data)
        n = len(frame.state_names)
        frame._set(
            state_shift=np.zeros(n), state_scale=np.ones(n)
        )  # alignment needs physical states
        sliced = cls(
            frame, torch.Generator(), method=inner.name, settings=inner.config, wave=asdict(wave)
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
