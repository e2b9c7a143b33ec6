"""Laws of fields that are the same at every cell of a grid: partial differential equations, and
their like on lattices.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import runtime
from romkit.core.boundary import Count, Natural, Order, validated
from romkit.core.errors import InputError
from romkit.core.tensors import divisor, evenly
from romkit.core.types import TensorMap
from romkit.data.layout import layout_of
from romkit.data.times import even_step
from romkit.integrators.base import Flow, LearnedField, lost_beyond
from romkit.integrators.region import Region
from romkit.laws import symbolic
from romkit.laws.base import TrajectoryEstimator
from romkit.laws.chebyshev import Chebyshev
from romkit.laws.orbits import AlongOrbit
from romkit.laws.polynomial import number_of_contexts
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.scaling import Scaling
from romkit.laws.sources import ProjectionFamily, followed_samples
from romkit.laws.weak import LAGS, lag, smooth_weights
from romkit.projections.identity import Identity
from romkit.solvers.base import Solver
from romkit.systems.problem import Problem

PERIODIC, MIRRORED, FIXED = EDGES = "periodic", "mirrored", "fixed"
"""What is beyond the edges: the other side, the mirror image, or cells whose values stay."""

Term = tuple[tuple[int, ...], int, int]
"""Powers of the fields, and the difference and the field that it is of; -1 for none."""


@dataclass(frozen=True)
class Grid:
    """A state of fields on one grid, one field after the other.

    Attributes:
        fields, axes: names.
        shape, spacing: of the axes.
    """

    fields: tuple[str, ...]
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    spacing: tuple[float, ...]

    @classmethod
    def of(cls, data: xr.Dataset) -> "Grid":
        """Grid of the state of a dataset, by its layout.

        Raises:
            InputError: it has none.
        """
        layout = layout_of(data)
        variables = layout.variables
        first = variables[0]
        expected = (
            "fields u(time, x) or u(time, y, x) on one even grid of four cells or more a side"
        )
        fix = "give them with dimensions of space, not as a flat state"
        if layout.is_plain or not 1 <= len(first.dims) <= 2 or min(first.shape) < 4:
            got = f"{first.name} with dims {first.dims} of sizes {first.shape}"
            raise InputError("data", expected=expected, got=got, fix=fix)
        for variable in variables:
            if variable.mask or (variable.dims, variable.shape) != (first.dims, first.shape):
                got = f"{variable.name} with other cells than {first.name}, or masked ones"
                raise InputError("data", expected=expected, got=got, fix=fix)
        spacing = []
        for dim, size in zip(first.dims, first.shape, strict=True):
            places = np.asarray(layout.coords.get(dim, {}).get("values", np.arange(size)))
            step = even_step(places) if places.dtype.kind in "iuf" else 1.0
            if step is None:
                got, fix = f"uneven {dim}", f"interpolate them: data.interp({dim}=...)"
                raise InputError("data", expected=expected, got=got, fix=fix)
            spacing.append(float(step))
        names = tuple(variable.name for variable in variables)
        return cls(names, tuple(first.dims), first.shape, tuple(spacing))

    @property
    def size(self) -> int:
        """Number of components of a state."""
        return len(self.fields) * math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class GridSamples(LatentSamples):
    """Samples of states whose grid is known."""

    grid: Grid | None = None


@dataclass(frozen=True)
class Cells:
    """Terms of a law at each cell of a grid, and their sums as rates.

    Fields are kept by Fourier series, in which differences are products; those that are smooth
    have derivatives in place of differences, and as many cells as their series needs.

    Attributes:
        grid: see there.
        edges: one of `EDGES`.
        degree: of the powers of the fields.
        products: whether differences have factors.
        modes: highest wave number of each axis, of derivatives; none of differences.
    """

    grid: Grid
    edges: str
    degree: int
    products: bool = False
    modes: tuple[int, ...] = ()

    @functools.cached_property
    def whole(self) -> tuple[int, ...]:
        """Shape of the grid with its mirror images."""
        images = 2 if self.edges == MIRRORED else 1
        return tuple(images * size for size in self.grid.shape)

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape in which fields are kept: products of `degree` fields are free of aliases."""
        if not self.modes:
            return self.whole
        needed = [(self.degree + 1) * (mode + 1) for mode in self.modes]
        return tuple(min(size, few + few % 2) for size, few in zip(self.whole, needed, strict=True))

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.shape), 0))

    @functools.cached_property
    def waves(self) -> list[Tensor]:
        """Phase of a wave from one cell to the next, along each axis, as a factor of the modes."""
        phases = []
        for k, size in enumerate(self.shape):
            is_last = k == len(self.shape) - 1
            frequency = torch.fft.rfftfreq if is_last else torch.fft.fftfreq
            wave = frequency(size, dtype=torch.float64) * size  # numbers of waves
            phase = 2 * math.pi * wave / self.whole[k]
            phases.append(phase.reshape(-1, *(1,) * (len(self.shape) - 1 - k)))
        return phases

    @functools.cached_property
    def kept(self) -> Tensor:
        """Modes (...) that the series have."""
        return self._lower(1.0)

    def _lower(self, share: float) -> Tensor:
        """Modes (...) of the lower share of those that the series have."""
        lower = torch.ones((), dtype=torch.bool)
        for phase, mode, size in zip(self.waves, self.modes, self.whole, strict=False):
            lower = lower & (phase.abs() <= 2 * math.pi * (share * mode + 0.5) / size)
        return lower

    @functools.cached_property
    def differences(self) -> dict[str, Tensor]:
        """Factors (...) of the modes that make a difference of a field, by its name; the field
        itself first.
        """
        one = torch.ones([len(wave) for wave in self.waves], dtype=torch.complex128)
        names, odd, even = self.grid.axes, [], []
        for phase, h in zip(self.waves, self.grid.spacing, strict=True):
            odd.append(1j * (phase if self.modes else phase.sin()) / h)
            even.append((-phase.square() if self.modes else 2 * phase.cos() - 2) / h**2)
        made = {"": one}
        for name, first, second in zip(names, odd, even, strict=True):
            made[f"_{name}"] = one * first
            made[f"_{name}{name}"] = one * second
        if len(names) == 2:
            made[f"_{2 * names[0]}{2 * names[1]}"] = one * even[0] * even[1]
        elif self.edges != FIXED:  # where differences reach no farther than to the edge
            made[f"_{3 * names[0]}"] = one * odd[0] * even[0]
            made[f"_{4 * names[0]}"] = one * even[0] ** 2
        return {name: torch.where(self.kept, factor, 0) for name, factor in made.items()}

    @functools.cached_property
    def terms(self) -> list[Term]:
        """The constant, fields and their differences, powers, and products of both."""
        fields = range(len(self.grid.fields))
        numbers = range(len(self.differences))
        (none,) = self._powers(0)
        terms: list[Term] = [(none, -1, -1)]
        terms += [(none, j, g) for j in numbers for g in fields]
        for degree in range(2, self.degree + 1):
            terms += [(powers, -1, -1) for powers in self._powers(degree)]
        if self.products:
            for degree in range(1, self.degree):
                terms += itertools.product(self._powers(degree), numbers[1:], fields)
        return terms

    def _powers(self, degree: int) -> list[tuple[int, ...]]:
        """List powers of the fields in the monomials of a degree."""
        fields = range(len(self.grid.fields))
        factors = itertools.combinations_with_replacement(fields, degree)
        return [tuple(map(chosen.count, fields)) for chosen in factors]

    @functools.cached_property
    def names(self) -> list[str]:
        """Names of the terms: u v_xx, say."""
        names, differences = [], [*self.differences]
        for powers, j, g in self.terms:
            factors = [
                field if power == 1 else f"{field}^{power}"
                for field, power in zip(self.grid.fields, powers, strict=True)
                if power
            ]
            factors += [self.grid.fields[g] + differences[j]] if j >= 0 else []
            names.append(" ".join(factors) or "1")
        return names

    def series(self, x: Tensor) -> Tensor:
        """Series (..., F, *modes) of states (..., n)."""
        u = x.unflatten(-1, (len(self.grid.fields), *self.grid.shape))
        if self.edges == MIRRORED:
            for axis in self.axes:
                u = torch.cat([u, u.flip(axis)], axis)
        for axis, size in zip(self.axes, self.shape, strict=True):
            u = _resampled(u, axis, size)
        return torch.where(self.kept, torch.fft.rfftn(u, dim=self.axes), 0)

    def states(self, series: Tensor) -> Tensor:
        """States (..., n) of series (..., F, *modes)."""
        u = self.values(series)
        for axis, size, own in zip(self.axes, self.whole, self.grid.shape, strict=True):
            u = _resampled(u, axis, size).narrow(axis, 0, own)
        return u.flatten(-1 - len(self.shape))

    def values(self, series: Tensor) -> Tensor:
        """Values (..., *shape) of series (..., *modes)."""
        return torch.fft.irfftn(series, s=self.shape, dim=self.axes)

    def smooth(self, values: Tensor, *, share: float = 0.7) -> Tensor:
        """Values (..., *shape) of the lower modes: of products of the fields, the higher ones miss
        what modes that the series do not have would give.
        """
        if not self.modes:
            return values
        series = torch.fft.rfftn(values, dim=self.axes)
        return self.values(torch.where(self._lower(share), series, 0))

    @functools.cached_property
    def linear_terms(self) -> list[int]:
        """Numbers of the fields and their differences among the terms."""
        return [k for k, (powers, j, _) in enumerate(self.terms) if j >= 0 and not any(powers)]

    def values_of(self, numbers: Sequence[int], series: Tensor) -> Iterator[Tensor]:
        """Values (..., *shape) of terms of these numbers, of series (..., F, *modes)."""
        axis = -1 - len(self.shape)
        fields = self.values(series).unbind(axis)
        factors = [*self.differences.values()]
        made: dict[tuple[int, int], Tensor] = {}
        for number in numbers:
            powers, j, g = self.terms[number]
            value = torch.ones_like(fields[0]) if j < 0 and not any(powers) else None
            for field, power in zip(fields, powers, strict=True):
                for _ in range(power):
                    value = field if value is None else value * field
            if j >= 0:
                if (j, g) not in made:
                    made[j, g] = self.values(factors[j] * series.select(axis, g))
                value = made[j, g] if value is None else value * made[j, g]
            assert value is not None  # a term is the constant, or has factors
            yield value

    def linear(self, weights: Tensor) -> Tensor:
        """Factors (..., F, F, *modes) of the series by which the linear terms of weights (..., K, F)
        act, from the last F to the first one.
        """
        F = len(self.grid.fields)
        factors = torch.stack([*self.differences.values()])
        of_fields = weights[..., 1 : 1 + len(factors) * F, :].unflatten(-2, (-1, F))
        # (..., J, g, f)
        mixed = of_fields.to(factors).movedim(-3, -1).transpose(-3, -2) @ factors.flatten(1)
        return mixed.unflatten(-1, factors.shape[1:])

    @property
    def is_inner(self) -> Tensor:
        """Cells (*shape) whose values do not stay."""
        inner = torch.ones(self.shape, dtype=torch.bool)
        if self.edges == FIXED:
            for axis in self.axes:
                inner.select(axis, 0).fill_(False)
                inner.select(axis, -1).fill_(False)
        return inner


def _resampled(u: Tensor, axis: int, size: int) -> Tensor:
    """Fields with another number of cells along an axis, by their Fourier series."""
    own = u.shape[axis]
    if own == size:
        return u
    return torch.fft.irfft(torch.fft.rfft(u, dim=axis), n=size, dim=axis) * (size / own)


class Motion:
    """Rates and steps of series at weights (B, K, F) of the terms, one for each of B runs.

    Steps are exact for linear terms of each field by itself, and of fourth order for the others.

    Source: Cox, Matthews (2002), Exponential time differencing for stiff systems.
    """

    def __init__(self, cells: Cells, weights: Tensor):
        self.cells = cells
        axes = len(cells.shape)
        self.spread = (..., *(None,) * axes)
        self.weights = weights
        used = (weights != 0).any(-1).any(0).nonzero().flatten().tolist()
        self.nonlinear = [k for k in used if k not in cells.linear_terms]
        mixing = cells.linear(weights)  # (B, F, F, *modes)
        own = mixing.diagonal(dim1=1, dim2=2).movedim(-1, 1)  # (B, F, *modes)
        self.inner = cells.is_inner
        self.is_masked = not bool(self.inner.all())
        self.own = torch.zeros_like(own) if self.is_masked else own
        if not self.is_masked:
            F = own.shape[1]
            mixing = mixing * (1 - torch.eye(F))[self.spread]
        # which fields act on which, so that others cost nothing
        acts = (mixing != 0).flatten(3).any(-1).any(0)
        self.mixing = mixing
        self.pairs = acts.nonzero().tolist()
        self._steps: dict[float, tuple[Tensor, ...]] = {}

    def other(self, series: Tensor) -> Tensor:
        """Rates (B, F, *modes) of all but the linear terms of each field by itself."""
        cells = self.cells
        rate = torch.zeros_like(series)
        if self.nonlinear:
            axes = len(cells.shape)
            values = torch.stack([*cells.values_of(self.nonlinear, series)], 1)
            weighted = self.weights[:, self.nonlinear].mT @ values.flatten(-axes)
            rate = torch.fft.rfftn(weighted.unflatten(-1, cells.shape), dim=cells.axes)
            if cells.modes:
                rate = torch.where(cells.kept, rate, 0)
        for f, g in self.pairs:
            rate[:, f] += self.mixing[:, f, g] * series[:, g]
        if self.is_masked:
            rate = torch.fft.rfftn(cells.values(rate) * self.inner, dim=cells.axes)
        return rate

    def rate(self, series: Tensor) -> Tensor:
        """Rates (B, F, *modes)."""
        return self.own * series + self.other(series)

    def moved(self, series: Tensor, duration: float, steps: int) -> Tensor:
        """Series (B, F, *modes) after so many steps."""
        h = duration / steps
        if h not in self._steps:
            self._steps = {h: _weights_of_step(self.own, h)}
        whole, half, first, f1, f2, f3 = self._steps[h]
        for _ in range(steps):
            n0 = self.other(series)
            a = half * series + first * n0
            n1 = self.other(a)
            n2 = self.other(half * series + first * n1)
            n3 = self.other(half * a + first * (2 * n2 - n0))
            series = whole * series + f1 * n0 + f2 * (n1 + n2) + f3 * n3
        return series

    def steps_of(
        self, series: Tensor, duration: float, *, accurate: float = 3e-8, most: int = 256
    ) -> int:
        """Return number of steps whose error counts nothing.

        `accurate`: change of states, relative to their size, by which more steps are not needed.
        `most`: steps, at most.
        """
        steps, reached = 1, self.moved(series, duration, 1)
        while steps < most:
            steps = 2 * steps
            finer = self.moved(series, duration, steps)
            change, size = (
                each.abs().square().flatten(1).sum(-1) for each in (finer - reached, finer)
            )
            is_lost = ~change.isfinite() & (steps >= most / 4)
            # of fourth order, the finer steps err by a fifteenth of the change
            if bool(((change <= (15 * accurate) ** 2 * size) | is_lost).all()):
                break
            reached = finer
        return steps


def _weights_of_step(own: Tensor, h: float, *, farthest: float = 30.0) -> tuple[Tensor, ...]:
    """Return factors of a step of length h.

    `farthest`: largest growth in a step; of laws that are fitted, a first guess may grow by more.
    """
    z = torch.complex((h * own.real).clamp(max=farthest), h * own.imag)
    p1, p2, p3 = _phi(z)
    half, _, _ = _phi(z / 2)
    return (
        z.exp(),
        (z / 2).exp(),
        h / 2 * half,
        h * (p1 - 3 * p2 + 4 * p3),
        h * (2 * p2 - 4 * p3),
        h * (4 * p3 - p2),
    )


def _phi(z: Tensor, *, orders: int = 20) -> list[Tensor]:
    """φ₁, φ₂, φ₃ of the exponential, by its series near 0, of so many orders."""
    near = z.abs() < 1
    small, large = torch.where(near, z, 0), torch.where(near, 1, z)
    value, values = large.exp(), []
    for k in range(1, 4):
        value = (value - 1 / math.factorial(k - 1)) / large
        series = torch.zeros_like(small)
        for j in reversed(range(orders)):
            series = series * small + 1 / math.factorial(j + k)
        values.append(torch.where(near, series, value))
    return values


# -- the law ---------------------------------------------------------------------------------------


def _parts(factor: Any, name: str, sizes: Mapping[Any, float], digits: int) -> list[str]:
    """List signed products of numbers and parameters with a term, `+ 0.1 F u_xx`, of its factor: a
    polynomial of SymPy in parameters of some sizes.
    """
    parts = factor.as_coefficients_dict()
    size = {part: abs(float(value * part.subs(sizes))) for part, value in parts.items()}
    text = []
    for part, value in parts.items():
        # what is left of parts that cancel is no part
        if size[part] <= 10.0**-digits * max(size.values()):
            continue
        number = f"{abs(float(value)):#.{digits}g}".rstrip(".")
        of_context = str(part).replace("**", "^").replace("*", " ")
        words = [number, *(word for word in (of_context, name) if word != "1")]
        text.append(f"{'-' if value < 0 else '+'} {' '.join(words)}")
    return text


@validated
@dataclass(frozen=True, eq=False, repr=False)
class CellEquation(LearnedField):
    """A law of fields that is the same at every cell: u_t is a sum of terms of the fields, and of
    their differences or derivatives, at the cell.

    Attributes:
        cells: the terms.
        coefficients: (K, q, F) of each term and polynomial in the context, for each field.
        library: the polynomials.
        context: names and scaling of the context.
        residual: (F,) share of the variance of changes of each field that the law leaves.
        order, source, samples, control_names, held, domain, report: as in every `LearnedField`.
        last: states (runs, n) at the last samples of noisy runs, without their noise; None of others.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> import xarray as xr
        >>> x, t = np.linspace(0, 2 * np.pi, 32, endpoint=False), np.linspace(0, 2, 41)
        >>> u = sum(np.exp(-0.1 * k**2 * t[:, None]) * np.sin(k * (x + t[:, None])) for k in (1, 2, 3))
        >>> runs = romkit.data.describe(xr.Dataset({"u": (("time", "x"), u)}, {"time": t, "x": x}))
        trajectories  1 of up to 41 samples, n = 32
        state         u (x 32), float64
        context       none
        time          0 ... 2, every 0.05
        rates         none given; estimated where needed
        >>> law = romkit.laws.CellLaw(degree=1).fit(romkit.fit("identity", runs), runs)
        >>> law.cells.edges, [round(float(number), 3) for number in law.coefficients.flatten() if number]
        ('periodic', [1.0, 0.1])
    """

    cells: Cells
    coefficients: Tensor
    library: Chebyshev
    context: Scaling
    source: str
    samples: Natural
    residual: Tensor
    order: Order = 1
    control_names: tuple[str, ...] = ()
    held: bool | None = None
    control_unit: str = ""
    domain: Region | None = None
    report: Sequence[Mapping[str, Any]] = ()
    last: Tensor | None = None

    FACTS: ClassVar[tuple[str, ...]] = ("residual",)
    """Attributes that describe the fit, and may be infinite (see `core.packing`)."""

    @property
    def latent_dim(self) -> int:
        """n."""
        return self.cells.grid.size

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the parameters that the law depends on."""
        return self.context.names

    @property
    def coefficient_count(self) -> int:
        """Number of coefficients that are not zero."""
        return int((self.coefficients != 0).sum())

    def motion_of(self, c: Tensor) -> Motion:
        """Return rates and steps at contexts c (B, p) in physical units."""
        return Motion(self.cells, weights_of(self.coefficients, self.factors(c)))

    def factors(self, c: Tensor) -> Tensor:
        """Return polynomials (B, q) of contexts c (B, p)."""
        return factors_of(self.library, self.context, c)

    def right_hand_side(self, c: Tensor) -> TensorMap:
        """Map w (..., n) -> ẇ at a context c (..., p) in physical units."""

        def rate(w: Tensor) -> Tensor:
            series, context = self._in_series(w, c)
            reached = self.motion_of(context).rate(series)
            return self.cells.states(reached).reshape(w.shape).to(w)

        return rate

    def _in_series(self, w: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Series (B, F, *modes) of states (..., n), and their contexts (B, p), of one row where all
        are the same.
        """
        w = w.double()
        series = self.cells.series(w.reshape(-1, w.shape[-1]))
        c = c.double().expand(*w.shape[:-1], c.shape[-1]).reshape(len(series), c.shape[-1])
        if bool((c == c[:1]).all()):
            c = c[:1]
        return series, c

    def flow(self, c: Tensor) -> Flow:
        """Map (w (..., n), times (T,)) -> states (..., T, n) from the first time on, at a context
        c (..., p) that stays.
        """

        def states(w: Tensor, times: Tensor) -> Tensor:
            series, context = self._in_series(w, c)
            motion = self.motion_of(context)
            reached = torch.empty(len(series), len(times), w.shape[-1], dtype=w.dtype)
            reached[:, 0] = w.reshape(-1, w.shape[-1])
            intervals = times.double().diff()
            # times are rounded, and equal intervals share a step
            unit = 1e-9 * float(intervals.sum())
            longest = None
            for k, interval in enumerate(intervals.tolist()):
                duration = round(interval / unit) * unit
                # after 1, 2, 4 ... intervals, since motion slows down and speeds up
                if longest is None or k & (k - 1) == 0:
                    longest = duration / motion.steps_of(series, duration)
                steps = max(1, math.ceil(duration / longest - 1e-6))
                series = motion.moved(series, duration, steps)
                reached[:, k + 1] = self.cells.states(series).to(w)
            return reached.reshape(*w.shape[:-1], len(times), w.shape[-1])

        return states

    @validated
    def without_noise(
        self,
        states: Tensor,
        times: Tensor,
        contexts: Tensor | None = None,
        *,
        gains: Sequence[float] = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125),
        first: int = 500,
    ) -> Tensor:
        """States (C, T, n) of runs at even times (T,) and contexts (C, p) without their noise: the
        law, drawn towards each sample by a part of its distance.

        `gains`: parts to choose from, by the distance from samples before they are used.
        `first`: samples that choose it.

        Source: Luenberger (1971), An introduction to observers.
        """
        step = float(times.double().diff().mean())
        if contexts is None:
            contexts = states.new_empty(len(states), 0)
        data = self.cells.series(states)  # (C, T, F, *modes)
        runs = len(data)

        def followed(number: int, gains: Tensor) -> tuple[Tensor, Tensor]:
            """Series (gains, C, T, F, *modes), and mean squares (gains,) of the distances."""
            motion = self.motion_of(contexts.repeat(len(gains), 1))
            gain = gains.repeat_interleave(runs).reshape(-1, *(1,) * (data.ndim - 2))
            series = data[:, 0].repeat(len(gains), *(1,) * (data.ndim - 2))
            steps = motion.steps_of(series, step, accurate=1e-5)
            path, missed = [series], torch.zeros(len(gains), dtype=torch.float64)
            for sample in range(1, number):
                ahead = motion.moved(series, step, steps)
                apart = data[:, sample].repeat(len(gains), *(1,) * (data.ndim - 2)) - ahead
                missed += apart.abs().square().flatten(1).sum(-1).reshape(len(gains), -1).sum(-1)
                series = ahead + gain * apart
                path.append(series)
            return torch.stack(path, 1), missed

        every = torch.tensor(gains, dtype=torch.float64)
        _, missed = followed(min(first, len(times)), every)
        best = every[missed.nan_to_num(torch.inf).argmin()].unsqueeze(0)
        path, _ = followed(len(times), best)
        return self.cells.states(path)

    def _default_solver(self, problem: Problem, engine: str, start: Tensor) -> Solver:
        operator = problem.path.operator
        if operator is None or engine == "compiled":
            return super()._default_solver(problem, engine, start)
        context = operator.context if self.context_names else operator.context[..., :0]
        return AlongOrbit(self.flow(context), lost_beyond(self, start))

    @validated
    def formulas(self, digits: Count = 4, most: Count | None = None) -> list[str]:
        """Return a line for each field, `u_t = 0.1 u_xx - u u_x`, in the context itself.

        Args:
            digits: of numbers.
            most: terms of each equation, the first ones; by default all.
        """
        import sympy

        polynomials = symbolic.physical_factors(self.context, self.library)
        largest = (self.context.shift.abs() + self.context.scale).tolist()
        sizes = dict(zip(map(sympy.Symbol, self.context.names), largest, strict=True))
        lines = []
        for f, field in enumerate(self.cells.grid.fields):
            text: list[str] = []
            for k, name in enumerate(self.cells.names):
                row = self.coefficients[k, :, f].tolist()
                factor = sympy.expand(sum(a * b for a, b in zip(row, polynomials, strict=True)))
                text += _parts(factor, name, sizes, digits)
            rest = f" + ... ({len(text[most:])} more)" if most and text[most:] else ""
            rate = " ".join(text[:most]).removeprefix("+ ") or "0"
            if rate.startswith("- "):
                rate = "-" + rate[2:]
            lines.append(f"{field}_t = {rate}{rest}")
        return lines

    def details(self) -> list[str]:
        """Return the formulas, and how differences are taken."""
        kind = "derivatives" if self.cells.modes else "differences"
        return [*self.formulas(), f"{kind}, {self.cells.edges} edges"]

    def __repr__(self) -> str:
        grid = self.cells.grid
        size = " x ".join(map(str, grid.shape))
        facts = f"{', '.join(grid.fields)} on {size} cells, {self.samples} samples; {self.source}"
        return "\n  ".join([f"CellEquation({facts})", *self.details()])


def factors_of(library: Chebyshev, context: Scaling, c: Tensor) -> Tensor:
    """Return polynomials (B, q) of contexts c (B, p) in physical units."""
    terms = library(context.on(c)(c))
    return torch.stack(torch.broadcast_tensors(*terms), -1)


def weights_of(coefficients: Tensor, factors: Tensor) -> Tensor:
    """Return weights (B, K, F) of terms, of coefficients (K, q, F) and factors (B, q)."""
    return torch.einsum("kqf,bq->bkf", coefficients, factors)


# -- the fit ---------------------------------------------------------------------------------------


EXACT = 1e-6
"""Error [deviations of the data] that counts nothing."""


class Segments(NamedTuple):
    """Normal equations of S segments of the data, for P coefficients.

    Attributes:
        matrix: (S, P, P).
        slope: (S, P).
        square: (S,) sum of squares of what is to be explained.
        rows: (S,) number of these.
    """

    matrix: Tensor
    slope: Tensor
    square: Tensor
    rows: Tensor

    def solved(self, chosen: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients (P,) of least squares with those chosen (P,) alone, and what the sum of
        squares loses if one of them is left out too, at weights (S,) of the segments.
        """
        matrix = (weight @ self.matrix.flatten(1)).unflatten(0, self.matrix.shape[1:])
        matrix = matrix[chosen][:, chosen]
        slope = (weight @ self.slope)[chosen]
        unit = divisor(matrix.diagonal().clamp(min=0).sqrt())
        scaled = matrix / unit / unit.unsqueeze(-1)
        inverse = torch.linalg.pinv(scaled, rtol=1e-13, hermitian=True)
        solution = inverse @ (slope / unit)
        loss = solution.square() / inverse.diagonal().clamp(min=1e-300)
        found = matrix.new_zeros(len(chosen))
        found[chosen] = solution / unit
        losses = torch.full_like(found, torch.inf)
        losses[chosen] = loss
        return found, losses

    def errors(self, coefficients: Tensor) -> Tensor:
        """Mean squares (S,) that coefficients (P,) leave."""
        explained = 2 * self.slope @ coefficients
        square = self.matrix @ coefficients @ coefficients
        return ((self.square - explained + square) / self.rows).clamp(min=0)

    def robust(self, chosen: Tensor, *, rounds: int = 10) -> tuple[Tensor, Tensor]:
        """Coefficients (P,), and weights (S,) of the segments by what these leave of them:
        quadrature errs where fields change most.
        """
        weight = torch.ones(len(self.square), dtype=torch.float64)
        for _ in range(rounds):
            found, _ = self.solved(chosen, weight)
            left = self.errors(found)
            weight = 1 / divisor(left.clamp(min=float(left.median())))
            weight = weight / weight.max()
        return found, weight

    def left_out(self, chosen: Tensor, weight: Tensor, *, folds: int = 5) -> Tensor:
        """Mean squares (S,) of segments, with those coefficients chosen (P,) that are fitted to the
        segments of other folds.
        """
        number = torch.arange(len(self.square)) % min(folds, len(self.square))
        errors = torch.zeros_like(self.square)
        for fold in number.unique():
            held = number == fold
            found, _ = self.solved(chosen, torch.where(held, 0, weight))
            errors[held] = self.errors(found)[held]
        return errors

    def left_out_share(self, chosen: Tensor) -> float:
        """Geometric mean of the shares that coefficients chosen (P,) leave of left-out segments."""
        matrix, slope = self.matrix[:, chosen][:, :, chosen], self.slope[:, chosen]
        some = self._replace(matrix=matrix, slope=slope)
        every = chosen[chosen]
        _, weight = some.robust(every)
        share = some.left_out(every, weight) * self.rows / divisor(self.square)
        return float(share.clamp(min=1e-14).log().mean().exp())

    def shortest(self, chosen: Tensor, weight: Tensor, floor: float = 0.0) -> Tensor:
        """Fewest of the coefficients chosen (P,) whose errors on left-out segments are within one
        standard error of the least ones: backward elimination.

        `floor`: mean square that counts nothing; that of six digits by default.
        """
        path = [chosen]
        while int(path[-1].sum()) > 1:
            _, losses = self.solved(path[-1], weight)
            following = path[-1].clone()
            following[losses.argmin()] = False
            path.append(following)
        floor = floor or EXACT**2 * float((weight @ self.square) / (weight @ self.rows))
        errors = [self.left_out(subset, weight) for subset in path]
        scores = torch.stack(errors).clamp(min=floor).log()  # (subsets, S)
        best = int(scores.mean(-1).argmin())
        difference = scores - scores[best]
        allowed = difference.std(-1) / math.sqrt(len(self.square))
        as_good = difference.mean(-1) <= allowed
        return path[int(as_good.nonzero().max())]


class Sampled(NamedTuple):
    """Runs of a grid.

    Attributes:
        states: (C, T, n).
        times: (T,).
        contexts: (C, p).
        factors: (C, q) polynomials in the context.
        unit: (F,) deviation of the changes of each field from one sample to the next.
        spans: run, first and last sample of each segment, S of them.
        is_fine: whether segments have samples enough for a smooth weight.
    """

    states: Tensor
    times: Tensor
    contexts: Tensor
    factors: Tensor
    unit: Tensor
    spans: list[tuple[int, int, int]]
    is_fine: bool

    @property
    def numbers(self) -> int:
        """Number of values in a segment."""
        _, first, last = self.spans[0]
        return (last - first + 1) * self.states.shape[-1]

    def some(self, most: int) -> "Sampled":
        """Return so many segments at most, evenly out of all."""
        chosen = evenly(len(self.spans), most).tolist()
        return self._replace(spans=[self.spans[k] for k in chosen])


def _spans(
    states: Tensor, times: Tensor, length: int, *, fine: int = 16
) -> tuple[list[tuple[int, int, int]], bool]:
    """Segments of runs (C, T, n): of a length [samples] where this is enough for a smooth weight,
    and times are even; else from one sample to the next.

    `fine`: length from which on it is enough.
    """
    is_fine = length >= fine and even_step(times.numpy()) is not None
    complete = states.isfinite().all(-1)  # (C, T)
    spans = []
    for run, there in enumerate(complete):
        known = there.nonzero().flatten().tolist()
        if not is_fine:
            spans += [(run, *pair) for pair in itertools.pairwise(known)]
            continue
        for first in range(0, len(times) - length, max(1, length // 2)):
            if bool(there[first : first + length + 1].all()):
                spans.append((run, first, first + length))
    # rollouts of all segments have the same steps
    lengths = [float(times[last] - times[first]) for _, first, last in spans]
    usual = float(np.median(lengths or [0.0]))
    pairs = zip(spans, lengths, strict=True)
    return [span for span, each in pairs if abs(each - usual) <= 0.01 * usual], is_fine


def _normal_equations(cells: Cells, data: Sampled) -> Segments:
    """Return normal equations of coefficients (K, q, F) by integrals of the law over segments."""
    parts = []
    for run, first, last in data.spans:
        times = data.times[first : last + 1]
        if data.is_fine:
            within, slope = smooth_weights(times, [(0, len(times) - 1)], 6)
            within, across = within[0], -slope[0]
        else:
            within = torch.full((2,), 0.5 * float(times[1] - times[0]), dtype=torch.float64)
            across = torch.tensor([-1.0, 1.0], dtype=torch.float64)
        there = slice(first, last + 1)
        if not data.is_fine:
            there = slice(first, last + 1, last - first)
        series = cells.series(data.states[run, there])
        every = range(len(cells.terms))
        integrals = [torch.tensordot(within, each, 1) for each in cells.values_of(every, series)]
        A = cells.smooth(torch.stack(integrals)) * cells.is_inner  # (K, *shape)
        y = torch.tensordot(across, cells.values(series), 1)
        y = cells.smooth(y)  # (F, *shape)
        A, y = A.flatten(1), y.flatten(1) / data.unit.unsqueeze(-1)
        q = data.factors[run]
        of_fields = data.unit.reciprocal()
        matrix = torch.einsum("kl,p,q,fg->kpflqg", A @ A.T, q, q, of_fields.square().diag())
        slope_ = torch.einsum("kf,f,p->kpf", A @ y.T, of_fields, q)
        P = slope_.numel()
        parts.append((matrix.reshape(P, P), slope_.reshape(P), y.square().sum(), y.numel()))
    matrices, slopes, squares, rows = zip(*parts, strict=True)
    number = torch.tensor(rows, dtype=torch.float64)
    return Segments(torch.stack(matrices), torch.stack(slopes), torch.stack(squares), number)


def shot(
    cells: Cells,
    coefficients: Tensor,
    free: Tensor,
    data: Sampled,
    spans: Sequence[tuple[int, int, int]],
    *,
    iterations: int = 12,
    settled: float = 0.03,
    share: float = 0.1,
    exact: float = EXACT,
) -> Tensor:
    """Coefficients (K, q, F), those that are free, with which the law leads from the first to the
    last sample of each of some segments, from a guess.

    Levenberg and Marquardt's steps; derivatives by differences, one for each free weight of a run.

    `iterations`, `settled`: most steps, and the relative gain after which they end.
    `share`: error of the steps of a rollout, of what the law misses.
    `exact`: root mean square of that [deviations of the data] which counts nothing.
    """
    fit = _Shooting.over(cells, data, spans)
    pairs = free.any(1).nonzero().tolist()  # (k, f)
    cost, damping = fit.cost(fit.missed(coefficients)), 1e-7
    for _ in range(iterations):
        if cost < exact**2:
            break
        fit.accurate = min(max(share * math.sqrt(cost), 0.1 * exact), 1e-3)
        cost = fit.cost(fit.missed(coefficients))
        segments = fit.linearised(coefficients, pairs)
        chosen = free.flatten()
        matrix = segments.matrix.sum(0)[chosen][:, chosen]
        slope = (segments.slope - segments.matrix @ coefficients.flatten()).sum(0)[chosen]
        scale = divisor(matrix.diagonal().sqrt())
        scaled = matrix / scale / scale.unsqueeze(-1)
        before = cost
        for _ in range(8):
            damped = scaled + damping * torch.eye(len(scaled), dtype=torch.float64)
            step = torch.zeros_like(coefficients).flatten()
            step[chosen] = torch.linalg.solve(damped, slope / scale) / scale
            tried = coefficients + step.reshape(coefficients.shape)
            reached = fit.cost(fit.missed(tried))
            if reached < cost:
                coefficients, cost, damping = tried, reached, damping / 10
                break
            damping = max(10 * damping, 1e-9)
        if cost > (1 - settled) * before or runtime.left() <= 0:
            break
    return coefficients


def linearised(
    cells: Cells,
    coefficients: Tensor,
    data: Sampled,
    spans: Sequence[tuple[int, int, int]],
) -> Segments:
    """Return normal equations of coefficients (K, q, F) that are not zero, about these, by rollouts
    over segments.
    """
    fit = _Shooting.over(cells, data, spans)
    fit.accurate = 0.3 * EXACT
    fit.missed(coefficients)
    pairs = (coefficients != 0).any(1).nonzero().tolist()
    return fit.linearised(coefficients, pairs)


@dataclass
class _Shooting:
    """Rollouts of a law from the first to the last sample of S segments.

    Attributes:
        cells: of the law.
        start: series (S, F, *modes).
        truth: (S, F, *shape) in units (F, 1, ...).
        unit: see there.
        factors: (S, q).
        duration: of the segments.
        nudges: (K, F) changes of weights by which derivatives are taken.
        accurate, steps: error of the rollouts, and the steps that they have.
    """

    cells: Cells
    start: Tensor
    truth: Tensor
    unit: Tensor
    factors: Tensor
    duration: float
    nudges: Tensor
    accurate: float = EXACT
    steps: int = 0

    @classmethod
    def over(
        cls,
        cells: Cells,
        data: Sampled,
        spans: Sequence[tuple[int, int, int]],
        *,
        nudge: float = 1e-6,
    ) -> "_Shooting":
        """Rollouts over segments (run, first, last sample).

        `nudge`: of a weight, relative to that by which its term alone makes the changes.
        """
        runs, firsts, lasts = map(list, zip(*spans, strict=True))
        start = cells.series(data.states[runs, firsts])
        truth = cells.values(cells.series(data.states[runs, lasts]))  # (S, F, *shape)
        duration = float((data.times[lasts] - data.times[firsts]).median())
        deviation = divisor(truth.transpose(0, 1).flatten(1).std(-1))
        every = cells.values_of(range(len(cells.terms)), start)
        sizes = torch.stack([each.square().mean().sqrt() for each in every])
        nudges = nudge * deviation / duration / divisor(sizes).unsqueeze(-1)
        unit = deviation.reshape(-1, *(1,) * len(cells.shape))
        factors = data.factors[runs]
        return cls(cells, start, truth / unit, unit, factors, duration, nudges)

    def reached(self, weights: Tensor, copies: int = 1) -> Tensor:
        """States (copies S, F, *shape) at the ends, in units, at weights (copies S, K, F)."""
        start = self.start.repeat(copies, *(1,) * (self.start.ndim - 1))
        motion = Motion(self.cells, weights)
        if copies == 1:
            self.steps = motion.steps_of(start, self.duration, accurate=self.accurate)
        series = motion.moved(start, self.duration, self.steps)
        return self.cells.values(series) / self.unit

    def missed(self, coefficients: Tensor) -> Tensor:
        """Differences (S, F, *shape) from the truth; 1 of what is lost."""
        difference = self.truth - self.reached(weights_of(coefficients, self.factors))
        return (difference.nan_to_num(1.0, 1.0, 1.0).clamp(-1.0, 1.0)) * self.cells.is_inner

    @staticmethod
    def cost(missed: Tensor) -> float:
        return float(missed.square().mean())

    def linearised(
        self,
        coefficients: Tensor,
        pairs: Sequence[tuple[int, int]],
        *,
        numbers: int = 300_000,
    ) -> Segments:
        """Return normal equations of the coefficients (K, q, F) themselves, about these.

        `numbers`: values in rollouts that are made at once.
        """
        weights = weights_of(coefficients, self.factors)
        base = self.reached(weights)
        S, _q = self.factors.shape
        at_once = max(1, numbers // base.numel())
        columns = []
        for begin in range(0, len(pairs), at_once):
            some = pairs[begin : begin + at_once]
            nudged = weights.repeat(len(some), 1, 1).unflatten(0, (len(some), S))
            for number, (k, f) in enumerate(some):
                nudged[number, :, k, f] += self.nudges[k, f]
            moved = self.reached(nudged.flatten(0, 1), len(some)).unflatten(0, (len(some), S))
            scale = torch.stack([self.nudges[k, f] for k, f in some])
            columns.append((moved - base) / scale.reshape(-1, *(1,) * base.ndim))
        missed = (self.truth - base) * self.cells.is_inner
        is_lost = ~(missed.abs() < 1.0)
        J = torch.cat(columns).masked_fill(is_lost, 0.0).nan_to_num(0.0)
        J = (J * self.cells.is_inner).flatten(2).transpose(0, 1)  # (S, pairs, rows)
        r = missed.masked_fill(is_lost, 0.0).flatten(1)
        of_pairs = torch.einsum("sar,sbr->sab", J, J)
        matrix = torch.einsum("sab,sp,sq->sapbq", of_pairs, self.factors, self.factors)
        slope = torch.einsum("sar,sr,sp->sap", J, r, self.factors)
        # among all coefficients
        places = torch.arange(coefficients.numel()).reshape(coefficients.shape)
        rows = torch.stack([places[k, :, f] for k, f in pairs]).flatten()
        whole = coefficients.new_zeros(S, coefficients.numel(), coefficients.numel())
        whole[:, rows.unsqueeze(-1), rows] = matrix.flatten(1, 2).flatten(2)
        slopes = coefficients.new_zeros(S, coefficients.numel())
        slopes[:, rows] = slope.flatten(1)
        theta = coefficients.flatten()
        of_theta = whole @ theta
        square = r.square().sum(-1) + 2 * slopes @ theta + of_theta @ theta
        count = torch.full((S,), float(r.shape[-1]), dtype=torch.float64)
        return Segments(whole, slopes + of_theta, square, count)


def resolved(
    grid: Grid, edges: str, states: Tensor, *, most: int = 200, smooth: float = 1e-6
) -> tuple[tuple[int, ...], bool]:
    """Return highest wave number of each axis that states (N, n) have beside their noise or their
    rounding, none of fields that are not smooth; and whether there is noise in the highest third.

    `most`: states that are looked at.
    `smooth`: power of the highest third, relative to the largest, of fields that have derivatives.
    """
    states = states[evenly(len(states), most)]
    fields = Cells(grid, edges, 1)
    u = fields.values(fields.series(states))  # (N, F, *whole)
    u = u / divisor(u.transpose(0, 1).flatten(1).std(-1)).reshape(-1, *(1,) * len(grid.shape))
    modes, has_noise = [], False
    for axis in fields.axes:
        power = torch.fft.rfft(u, dim=axis).abs().square().movedim(axis, -1)
        power = power.flatten(1, -2).mean(1)  # (N, modes)
        third = power.shape[-1] * 2 // 3
        of_states = power[:, third:].mean(-1)
        power = power.median(0).values
        power = power / divisor(power.max())
        top = power[third:]
        lower, upper = (half.median() for half in top.tensor_split(2))
        # noise is the same at all wave numbers and at all times
        is_noise = bool(lower < 2 * upper) and bool(top.median() > 1e-12)
        is_noise = is_noise and bool(of_states.quantile(0.9) < 4 * of_states.quantile(0.1))
        if not is_noise and bool(top.median() > smooth):
            return (), False
        has_noise = has_noise or is_noise
        floor = max(2 * float(top.median()), 1e-24)
        modes.append(max(1, *(power > floor).nonzero().flatten().tolist(), 1))
    return tuple(modes), has_noise


LADDER: tuple[tuple[int, bool], ...] = (1, False), (2, False), (2, True), (3, False), (3, True)
"""Degrees, and whether differences have factors, from simple to complex laws."""


def _places(cells: Cells, largest: Cells, q: int) -> Tensor | None:
    """Tell which coefficients (K q F,) of the largest law are those of another one, whose terms are
    among its own; None where they are not.
    """
    places = {term: k for k, term in enumerate(largest.terms)}
    if not places.keys() >= {*cells.terms}:
        return None
    chosen = torch.zeros(len(places), q, len(cells.grid.fields), dtype=torch.bool)
    chosen[[places[term] for term in cells.terms]] = True
    return chosen.flatten()


@validated
@dataclass(frozen=True)
class CellLaw(TrajectoryEstimator):
    """Settings of a fit; `fit` returns a law that is the same at every cell of a grid: a partial
    differential equation, or its like on a lattice.

    Rates of the fields at a cell are polynomials in the fields, and differences with neighbours or,
    of smooth fields, derivatives, to which such polynomials may be factors; coefficients are
    polynomials in the context. Terms, and what is beyond the edges, are those by which integrals of
    the law over segments of the data explain left-out segments best; of noisy fields, wave numbers
    above the noise count. Where samples are far apart, coefficients are fitted by rollouts from one
    sample to the next. Terms that left-out segments do not ask for are dropped.

    Fits need the identity of a state whose grid is known: fields u(time, x), or u and v(time, y, x)
    in one dataset.

    Args:
        degree: of the polynomials, 1 to 3; None to choose it, as all that follow.
        products: whether differences have factors, as in u u_x.
        context_degree: of the coefficients.

    Source: Rudy, Brunton, Proctor, Kutz (2017), Data-driven discovery of partial differential
    equations; Messenger, Bortz (2021), Weak SINDy for partial differential equations.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> import xarray as xr
        >>> x, t = np.linspace(0, 2 * np.pi, 32, endpoint=False), np.linspace(0, 2, 41)
        >>> u = sum(np.exp(-0.1 * k**2 * t[:, None]) * np.sin(k * (x + t[:, None])) for k in (1, 2, 3))
        >>> data = romkit.data.describe(xr.Dataset({"u": (("time", "x"), u)}, {"time": t, "x": x}))
        trajectories  1 of up to 41 samples, n = 32
        state         u (x 32), float64
        context       none
        time          0 ... 2, every 0.05
        rates         none given; estimated where needed
        >>> law = romkit.laws.CellLaw().fit(romkit.fit("identity", data), data)
        >>> law.formulas(digits=2)
        ['u_t = 1.0 u_x + 0.10 u_xx']
    """

    degree: Count | None = None
    products: bool | None = None
    context_degree: Natural | None = None

    @classmethod
    def choices(cls, projection: ProjectionFamily, data: xr.Dataset) -> list[LatentSamples]:
        if not isinstance(projection, Identity) or projection.basis is not None:
            fix = "romkit.fit('identity', data)"
            got = type(projection).__name__
            raise InputError("projection", expected="the identity of fields", got=got, fix=fix)
        samples = followed_samples(projection, data)
        parts = {name: getattr(samples, name) for name in samples.__dataclass_fields__}
        return [GridSamples(**parts, grid=Grid.of(data))]

    def neighbours(self, samples: LatentSamples) -> "list[CellLaw]":
        """List the law with coefficients of a higher degree in the context."""
        degree = self._context_degree(samples) + 1
        terms = math.comb(samples.context.shape[-1] + degree, degree)
        if self.context_degree is not None or terms > number_of_contexts(samples) - 2:
            return []
        return [replace(self, context_degree=degree)]

    def compared(self, samples: LatentSamples, seed: int) -> CellEquation:
        return self._law(samples)

    def refitted(
        self, law: LearnedField, samples: LatentSamples, seed: int, *, resampled: bool = False
    ) -> CellEquation:
        return self._polished(law, samples)

    def _fit(self, samples: LatentSamples, seed: int) -> CellEquation:
        return self._polished(self._law(samples), samples)

    def _unexplained(self, law: LearnedField, samples: LatentSamples) -> Tensor:
        assert isinstance(law, CellEquation)
        return law.residual

    def _context_degree(self, samples: LatentSamples) -> int:
        """Degree in the context: 1 where there are as many contexts as terms."""
        if self.context_degree is not None:
            return self.context_degree
        parameters = samples.context.shape[-1]
        return int(0 < parameters < number_of_contexts(samples))

    def _sampled(self, samples: LatentSamples) -> tuple[Grid, Sampled]:
        """Grid and runs of samples.

        Raises:
            InputError: no grid, second order, inputs, contexts that move, or too few of them.
        """
        times = trajectory_times(samples).double()
        grid = getattr(samples, "grid", None)
        states = samples.paths(samples.latents.double())[0][0]  # (C, T, n)
        context = samples.paths(samples.context.double())[0][0]  # (C, T, p)
        got = None
        if grid is None:
            got = "a state without a grid"
        elif samples.order != 1:
            got = "second order"
        elif samples.control_names:
            got = f"inputs {', '.join(samples.control_names)}"
        elif not bool((context == context[:, :1]).all()):
            got = "contexts that move"
        if grid is None or got is not None:
            expected = "fields on a grid, of first order, without inputs, at contexts that stay"
            raise InputError("data", expected=expected, got=got, fix="take another kind of law")
        library = Chebyshev(self._context_degree(samples))
        terms = math.comb(context.shape[-1] + library.degree, library.degree)
        contexts = number_of_contexts(samples)
        if terms > contexts:
            expected = f"{terms} contexts or more for degree {library.degree}"
            fix = "lower the degree, or give runs at more contexts"
            raise InputError("context_degree", expected=expected, got=contexts, fix=fix)
        longest = max(1, int((len(times) - 1) / (4 * LAGS)))
        few = states[..., evenly(states.shape[-1], 64)]
        spans, is_fine = _spans(states, times, round(LAGS * lag(few, longest)))
        if not spans:
            fix = "give longer runs"
            raise InputError("data", expected="two samples of a run", got="none", fix=fix)
        factors = factors_of(library, samples.parameters, context[:, 0])
        changes = states.diff(dim=1).unflatten(-1, (len(grid.fields), -1))
        unit = changes.square().nanmean((0, 1, 3)).sqrt()
        return grid, Sampled(states, times, context[:, 0], factors, divisor(unit), spans, is_fine)

    def _forms(self, grid: Grid, edges: str, modes: tuple[int, ...]) -> Iterator[Cells]:
        """Terms from simple to complex ones."""
        ladder = LADDER
        if self.degree is not None:
            ladder = ((self.degree, False), (self.degree, True))
        for degree, products in ladder:
            if self.products in (None, products):
                yield Cells(grid, edges, degree, products, modes)

    def _law(
        self, samples: LatentSamples, *, most: int = 250, enough: float = 2.0, unlike: float = 0.2
    ) -> CellEquation:
        """Terms, edges and coefficients that explain left-out segments.

        `most`: coefficients of laws that are tried beside the simplest one.
        `enough`: factor on the least left-out error within which a simpler law is taken: where
        samples are far apart it is that of their quadrature.
        `unlike`: share of the changes that a law may leave.

        Raises:
            InputError: no law that is the same at all cells explains the changes.
        """
        grid, data = self._sampled(samples)
        some = data.some(max(12, min(40, 4_000_000 // data.numbers)))
        trials = [*self._trials(grid, data, some, most)]
        least = min(error for error, *_ in trials)
        if not least < unlike:
            raise InputError(
                "data",
                expected="fields whose law is the same at every cell of the grid",
                got=f"changes of which such a law leaves {least:.0%}",
                fix="take another kind of law",
            )
        good = [trial for trial in trials if trial[0] <= enough * least]
        _, _, cells = min(good, key=lambda trial: (trial[1], trial[0]))
        q = data.factors.shape[-1]
        free = torch.ones(len(cells.terms), q, len(grid.fields), dtype=torch.bool)
        segments = _normal_equations(cells, data.some(200) if data.is_fine else some)
        found, weight = segments.robust(free.flatten())
        if not data.is_fine:
            segments = self._shot_from(cells, found.reshape(free.shape), data, some)
            weight = torch.ones_like(segments.square)
        chosen = segments.shortest(free.flatten(), weight, 0.0 if data.is_fine else 10 * EXACT**2)
        found, _ = segments.solved(chosen, weight)
        left = segments.errors(found) * segments.rows / divisor(segments.square)
        how = "segments of the data" if data.is_fine else "rollouts between samples"
        return CellEquation(
            cells,
            found.reshape(free.shape),
            Chebyshev(self._context_degree(samples)),
            samples.parameters,
            f"{samples.source}, {how}",
            len(samples),
            left.median().expand(len(grid.fields)).clone(),
        )

    def _trials(
        self, grid: Grid, data: Sampled, some: Sampled, most: int
    ) -> Iterator[tuple[float, int, Cells]]:
        """Yield left-out errors, numbers of coefficients and terms of laws with all edges."""
        q = data.factors.shape[-1]
        complete = data.states[data.states.isfinite().all(-1)]
        for edges in EDGES:
            smooth = () if edges == FIXED else resolved(grid, edges, complete)[0]
            for modes in {(), smooth}:
                # terms of simpler laws are among those of the last one
                forms = [*self._forms(grid, edges, modes)]
                sizes = [len(cells.terms) * q * len(grid.fields) for cells in forms]
                # normal equations of many fields would fill the memory
                while len(forms) > 1 and sizes[len(forms) - 1] > 2 * most:
                    forms.pop()
                segments = _normal_equations(forms[-1], some)
                for number, (cells, size) in enumerate(zip(forms, sizes, strict=False)):
                    chosen = _places(cells, forms[-1], q)
                    if chosen is not None and (size <= most or number == 0):
                        yield segments.left_out_share(chosen), size, cells

    def _shot_from(
        self, cells: Cells, coefficients: Tensor, data: Sampled, some: Sampled, *, enough: int = 50
    ) -> Segments:
        """Return normal equations about coefficients, by rollouts over segments that a guess
        (K, q, F) explains best, some of each run.

        `enough`: values to fit to for each coefficient.
        """
        segments = _normal_equations(cells, some)
        share = segments.errors(coefficients.flatten()) * segments.rows / divisor(segments.square)
        place: dict[int, int] = {}
        ranked = []
        for k in share.argsort().tolist():
            run = some.spans[k][0]
            place[run] = place.get(run, 0) + 1
            ranked.append((place[run], k))
        size = data.states.shape[-1]
        number = max(len(place), math.ceil(enough * coefficients.numel() / size))
        best = [some.spans[k] for _, k in sorted(ranked)]
        free = torch.ones_like(coefficients, dtype=torch.bool)
        coefficients = shot(cells, coefficients, free, data, best[:number])
        # of two segments of a run one may be left out
        return linearised(cells, coefficients, data, sorted(best[: 2 * number]))

    def _polished(
        self, law: LearnedField, samples: LatentSamples, *, most: int = 2_000
    ) -> CellEquation:
        """Law of the same terms by rollouts over all segments, where samples are far apart; by
        states without their noise, where they are noisy.

        `most`: values to fit to for each coefficient: more of them cost time.
        """
        assert isinstance(law, CellEquation)
        grid, data = self._sampled(samples)
        cells = law.cells
        free = law.coefficients != 0
        if not data.is_fine:
            number = math.ceil(most * law.coefficient_count / data.states.shape[-1])
            data = data.some(max(number, 8))
            coefficients = shot(cells, law.coefficients, free, data, data.spans)
            if torch.equal(coefficients, law.coefficients):  # which was exact already
                return law
            segments = linearised(cells, coefficients, data, data.spans)
            weight = torch.ones_like(segments.square)
            found, _ = segments.solved(
                segments.shortest(free.flatten(), weight, 10 * EXACT**2), weight
            )
            left = segments.errors(found).mean().expand(len(grid.fields)).clone()
            return replace(law, coefficients=found.reshape(free.shape), residual=left)
        complete = bool(data.states.isfinite().all())
        if not cells.modes or not complete or not resolved(grid, cells.edges, data.states[0])[1]:
            return law
        for _ in range(2):
            clean = law.without_noise(data.states, data.times, data.contexts)
            again = data._replace(states=clean).some(200)
            segments = _normal_equations(cells, again)
            chosen = (law.coefficients != 0).flatten()
            _, weight = segments.robust(chosen)
            chosen = segments.shortest(chosen, weight)
            found, _ = segments.solved(chosen, weight)
            law = replace(law, coefficients=found.reshape(free.shape))
        clean = law.without_noise(data.states, data.times, data.contexts)
        return replace(law, last=clean[:, -1])
