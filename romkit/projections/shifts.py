"""Shifts of a ring, and the waves in data that they carry round it."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, validated
from romkit.core.errors import InputError
from romkit.core.types import Array, Names
from romkit.data import DIMS, even_step
from romkit.projections.frame import Frame
from romkit.projections.wave import Wave


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
        """Return states (..., n) shifted by one point."""
        fields = x.unflatten(-1, (self.variables, -1))  # (..., variables, points)
        return fields.roll(1, -1).flatten(-2)

    def wave(self, data: xr.Dataset, frame: Frame) -> Wave:
        """Return coordinates of the waves in data whose frame is given.

        Raises:
            InputError: no ring of even steps, no single wave that never vanishes, or travelling
                states that depend on the place.
        """
        number, points = self._fields(frame)
        # refuse unless the places of points, where the data have some, are equidistant
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
        x = _ring_states(data, number, points)  # (trajectory, time, variable, point)
        coefficients = np.fft.rfft(x)[..., 1:]  # (trajectory, time, variable, wave number)
        power = np.nanmean(np.abs(coefficients) ** 2, axis=1)  # (trajectory, variable, wave number)
        largest = power[:, 0].argmax(-1) + 1
        dominant = sorted(set(largest.tolist()))
        units = frame.state_units[::points]
        k = self._number(dominant, power, points, units)
        wave = self._wave(k, points, units)
        if wave.harmonics < 1:
            raise InputError(
                "symmetry",
                expected=f"a wave number that {points} points resolve",
                got=k,
                fix="give number=1, which keeps all of a state",
            )
        # the first field alone defines the phase; the others are aligned with it
        leading = x[..., 0, :]
        coefficient = np.fft.fft(leading)[..., k % points] * (2 / points) ** 0.5
        _check_amplitude(leading, coefficient, k, dominant)
        _check_even(x, coefficient)
        return replace(wave, amplitude=float(np.nanmean(np.abs(coefficient))))

    def _fields(self, frame: Frame) -> tuple[int, int]:
        """Return number of fields on the ring, and of its points.

        Raises:
            InputError: fields that are not on one ring.
        """
        layout = frame.fields
        n = len(frame.state_names)
        number = len(layout.variables)
        if layout.is_plain:
            number = self.variables
        points = n // number
        shapes = {variable.shape for variable in layout.variables if not variable.mask}
        on_ring = len(shapes) == 1 and len(*shapes) == 1
        if points * number != n or not on_ring:
            variables = [f"{variable.name} {variable.dims}" for variable in layout.variables]
            raise InputError(
                "data",
                expected="fields on one ring",
                got=", ".join(variables),
                fix="leave symmetry out, or select them",
            )
        return number, points

    def _number(
        self, dominant: list[int], power: Array, points: int, units: Names, pure: float = 0.99
    ) -> int:
        """Return the wave number: the given one, or that of the data if harmonics of a single one
        hold `pure` of the energy of the deviations; else 1.
        """
        if self.number is not None:
            return self.number
        if len(dominant) > 1:
            return 1
        k = dominant[0]
        share = self._wave(k, points, units).share(power)
        return k if share >= pure else 1

    def _wave(self, number: int, points: int, units: Names) -> Wave:
        """Return the wave of a number, with as many harmonics as the grid tells apart; none at its
        highest frequency.
        """
        harmonics = (points // np.gcd(points, number) - 1) // 2
        if self.continuous:
            harmonics = min(harmonics, (points - 1) // 2 // number)
        return Wave(points, number, int(harmonics), units)


def _ring_states(data: xr.Dataset, number: int, points: int) -> Array:
    """Return states (trajectory, time, variable, point), NaN where a snapshot is incomplete."""
    x = data["state"].transpose(*DIMS).values.astype(np.float64)
    x = x.reshape(*x.shape[:2], number, points)
    complete = np.isfinite(x).all((-2, -1), keepdims=True)
    return np.where(complete, x, np.nan)


def _check_amplitude(
    u: Array, wave: Array, k: int, dominant: list[int], smallest: float = 0.01
) -> None:
    """Raise if a wave (C, T) of number k of the first field u (C, T, n) vanishes in a snapshot, below
    the smallest share of the deviations: without a wave there is no phase.
    """
    size = np.nanmean(((u - np.nanmean(u)) ** 2).sum(-1)) ** 0.5
    least = np.nanmin(np.abs(wave)) / size
    if least > smallest:
        return
    numbers = f"numbers of the trajectories are {dominant}"
    raise InputError(
        "data",
        expected=f"a wave of number {k} that never vanishes",
        got=f"one that falls to {least:.1e} of the deviations; {numbers}",
        fix="fit waves of each number by themselves, data.isel(trajectory=...), or leave "
        "symmetry out",
    )


def _check_even(x: Array, wave: Array, share: float = 0.05, laps: float = 3.0) -> None:
    """Raise if states (C, T, variables, n) of waves (C, T) that travel depend on the place.

    Args:
        x: the states.
        wave: its coefficients.
        share: largest one of the variance of states, or of their squares, that may depend on it.
        laps: wavelengths from which a trajectory travels.
    """
    for states, coefficients in zip(x, wave, strict=True):
        complete = np.isfinite(coefficients)
        phase = np.unwrap(np.angle(coefficients[complete]))
        travelled = abs(phase[-1] - phase[0])
        if travelled <= laps * 2 * np.pi:
            continue  # a wave that rests may differ from place to place
        waves = states[complete]
        deviation = waves - waves.mean((0, 2), keepdims=True)
        uneven = max(_place_variance(deviation), _place_variance(deviation**2))
        if uneven > share:
            raise InputError(
                "symmetry",
                expected="travelling waves that are alike at all places",
                got=f"{uneven:.0%} of a variance by place",
                fix="leave the argument out: these data have no such symmetry",
            )


def _place_variance(values: Array) -> float:
    """Return largest share of the variance of a variable in values (T, variables, n) that depends
    on the place.
    """
    of_places = values.mean(0).var(-1)  # (variables,)
    return float((of_places / values.var((0, 2))).max())
