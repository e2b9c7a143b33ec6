"""Coordinates of a wave on a ring: its shape, and the phase by which it has travelled."""

import functools
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.types import Array, Names, Pair, TensorTuple
from romkit.data import DIMS
from romkit.data.schema import replace_states
from romkit.projections.networks import Curve


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
        """Return share of the power (..., wave number - 1) that the harmonics hold."""
        numbers = self.number * np.arange(1, self.harmonics + 1) % self.points
        on_grid = np.minimum(numbers, self.points - numbers)  # as the grid sees them
        return float(power[..., on_grid - 1].sum() / power.sum())

    def aligned(self, x: Curve) -> Curve:
        """Return coordinates of the aligned state and the phase (..., r + 1), and their rate, of
        states (..., n).
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
            dlog = self.amplitude * du[..., :1, :1] / r
            curve.append(self._joined(du, dv, dmean, dlog, dphase))
        return tuple(curve)

    def placed(self, y: Curve) -> Curve:
        """Return states (..., n), and their rate, of coordinates and phase (..., r + 1)."""
        value, *rates = y
        m = self._orders(value)
        r = self.amplitude * (value[..., :1] / self.amplitude).exp()
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
        """Return a dataset of the coordinates of aligned states, with their velocity where the data
        have one.
        """
        names = [name for name in ("state", "velocity") if name in data]
        states = []
        for name in names:
            states.append(torch.from_numpy(data[name].transpose(*DIMS).values).double())
        values = {}
        for name, y in zip(names, self.aligned(tuple(states)), strict=True):
            values[name] = y[..., :-1].numpy()  # without the phase
        return replace_states(data, values, self.names, self.component_units)

    @property
    def component_units(self) -> Names:
        """Unit of each coordinate."""
        units: list[str] = []
        for unit in self.units:
            units += [unit] * (2 * self.harmonics + 1)
        return tuple(units[1:])

    def _orders(self, like: Tensor) -> Tensor:
        return torch.arange(1, self.harmonics + 1, dtype=like.dtype, device=like.device)

    def _harmonics(self, x: Tensor) -> TensorTuple:
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
        """Return coordinates and phase (..., r + 1), without Re Y₁ and Im Y₁ of the first field."""
        M = self.harmonics
        y = torch.cat([u, v, mean], dim=-1).flatten(-2)
        cosines = y[..., 1:M]
        beyond = y[..., M + 1 :]
        columns = [amplitude[..., 0], cosines, beyond, phase[..., 0]]
        return torch.cat(columns, dim=-1)

    def _parted(self, first: Tensor, y: Tensor) -> TensorTuple:
        """Re Y, Im Y and means of coordinates and phase (..., r + 1), with Re Y₁ as given."""
        M = self.harmonics
        zero = torch.zeros_like(first)  # Im Y₁
        further = y[..., 1:M]
        columns = [first, further, zero, y[..., M:-1]]
        fields = torch.cat(columns, dim=-1)
        fields = fields.unflatten(-1, (len(self.units), -1))
        return fields.split((M, M, 1), dim=-1)


def _rotated(u: Tensor, v: Tensor, angle: Tensor) -> Pair:
    """Return points (u, v) of a plane, turned by an angle."""
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
