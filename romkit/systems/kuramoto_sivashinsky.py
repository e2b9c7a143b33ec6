"""The Kuramoto-Sivashinsky equation on a ring whose length is the context: steady waves, travelling
waves, chaos.
"""

import functools
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge, MultipleOf
from numpy.random import Generator
from torch import Tensor

from romkit.core.boundary import NotNegative, Positive, validated
from romkit.core.types import ContextFunction, Field, TensorMap, TensorTuple
from romkit.data import ContextParameter
from romkit.projections import Shifts
from romkit.solvers.base import Prepared, Solver
from romkit.solvers.fixed import march
from romkit.systems.base import System
from romkit.systems.terms import Term


@validated
@dataclass(frozen=True)
class KuramotoSivashinsky(System):
    """u_t = -u u_x - u_xx - u_xxxx on a ring of length L, at n equidistant points θ = 2π x / L.

    On the fixed ring of θ, with q = 2π/L: u_t = -q (u²/2)_θ - q² u_θθ - q⁴ u_θθθθ, with Fourier
    collocation. The mean is conserved, and zero. The full model is integrated by exponential time
    differencing of order four (ETDRK4), exact in the stiff linear part, so that its step is limited
    by accuracy alone; L may not move then.

    Args:
        n: number of points, even and at least 16.
        transient: time discarded before the first sample.
        dt: step, and sampling interval.
        duration: length of the recorded trajectories.

    What you should see, from small to large L: rest below 2π; a steady wave with one crest up to L
    = 11.329, with root mean square 1.741 at L = 8; travelling waves; a steady wave with two crests
    from 14.920 to 17.306, where it begins to oscillate with period 14.24; chaos at L = 22, with
    velocities of order one.
    Source: Hyman, Nicolaenko (1986), The Kuramoto-Sivashinsky equation: a bridge between PDEs and
    dynamical systems; Kassam, Trefethen (2005), Fourth-order time-stepping for stiff PDEs.

    Example:
        >>> import romkit
        >>> wave = romkit.systems.KuramotoSivashinsky(n=32, transient=0.0).dataset(L=[8.0, 16.0], duration=0.5)
        >>> dict(wave.state.sizes)
        {'trajectory': 2, 'time': 10, 'component': 32}
        >>> bool(abs(wave.state.mean("component")).max() < 1e-12)  # the mean stays zero
        True
    """

    n: Annotated[int, Ge(16), MultipleOf(2)] = 64
    transient: NotNegative = 200.0
    dt: Positive = 0.05
    duration: Positive = 50.0
    horizon: Positive = 100.0

    name = "kuramoto-sivashinsky"
    time_units = "1"
    context = (ContextParameter("L", "1", 5.0, 22.0, "length of the ring"),)
    context_may_move = False
    symmetry = Shifts()

    @functools.cached_property
    def state_names(self) -> list[str]:
        """u0, ..., u{n-1}, along the ring."""
        return [f"u{k}" for k in range(self.n)]

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        first, second, fourth = (matrix.to(x) for matrix in _derivatives(self.n))
        q = 2 * torch.pi / c
        transport = q / 2 * (x.square() @ first)
        growth = q**2 * (x @ second)
        return -transport - growth - (q**4 * (x @ fourth))

    def terms(self) -> tuple[Term, ...]:
        first, second, fourth = _derivatives(self.n)

        def power(exponent: int) -> ContextFunction:
            return lambda c: (2 * torch.pi / c) ** exponent

        transport = Term(2, lambda x, y: -(x * y) @ first / 2, power(1))
        growth = Term(1, lambda x: -x @ second, power(2))
        damping = Term(1, lambda x: -x @ fourth, power(4))
        return transport, growth, damping

    def initial_state(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        """Four waves: of random heights and phases, or of fixed ones without symmetry."""
        points = torch.arange(self.n, dtype=contexts.dtype)
        theta = 2 * torch.pi * points / self.n
        k = torch.arange(1, 5).unsqueeze(-1)  # (4, 1)
        height = 1 / k
        phase = k.to(theta)
        if rng is not None:
            shape = (len(contexts), 4, 1)
            height = torch.from_numpy(rng.uniform(0, 1, shape)).to(theta)
            angles = rng.uniform(0, 2 * np.pi, shape)
            phase = torch.from_numpy(angles).to(theta)
        waves = height * torch.cos(k * theta + phase)  # (C or 1, 4, n)
        total = waves.sum(-2)
        return total.expand(len(contexts), -1).clone()

    def default_solver(self, context: Tensor | ContextFunction) -> Solver:
        assert isinstance(context, Tensor)  # that stays
        return ETDRK4(self.dt, context[..., 0])


@dataclass(frozen=True, eq=False)
class ETDRK4(Solver):
    """Order four; linear parts without error. For rings of length L (...), one per member."""

    dt: float
    length: Tensor = field(repr=False)

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        return lambda y, t: self._integrate(y, t, label), "torch"

    def _integrate(self, y: Tensor, times: Tensor, label: str) -> Tensor:
        n = y.shape[-1]
        waves = torch.arange(n // 2 + 1)
        q = 2 * torch.pi / self.length.to(y).unsqueeze(-1)
        k = q * waves.to(y)
        linear = k**2 - k**4
        # the first derivative of the highest wave is not seen on the grid
        slope = -0.5j * k * (waves < n // 2)

        def nonlinear(v: Tensor) -> Tensor:
            square = torch.fft.irfft(v, n).square()
            return slope * torch.fft.rfft(square)

        # computed anew where the length of a step changes
        coefficients = functools.lru_cache(maxsize=1)(functools.partial(_coefficients, linear))
        v = torch.fft.rfft(y)

        def steps(t: Tensor, y: Tensor, h: float, number: int) -> Tensor:
            nonlocal v  # waves go on without a transform in between
            for _ in range(number):
                v = _step(nonlinear, v, coefficients(h))
            return torch.fft.irfft(v, n)

        return march(self, steps, y, times, label)


def _step(nonlinear: TensorMap, v: Tensor, coefficients: TensorTuple) -> Tensor:
    """One step of Cox and Matthews (2002), equations 26 to 29."""
    decay, half_decay, q, f1, f2, f3 = coefficients
    n0 = nonlinear(v)
    a = half_decay * v + q * n0
    na = nonlinear(a)
    nb = nonlinear(half_decay * v + q * na)
    c = half_decay * a + q * (2 * nb - n0)
    nc = nonlinear(c)
    return decay * v + f1 * n0 + f2 * (na + nb) + f3 * nc


def _coefficients(linear: Tensor, h: float, *, points: int = 32) -> TensorTuple:
    """Return coefficients of a step h by contour integrals of so many points, free of cancellation
    (Kassam & Trefethen 2005, section 3).
    """
    numbers = torch.arange(1, points + 1, dtype=linear.dtype)
    angle = torch.pi * (numbers - 0.5) / points
    contour = torch.exp(1j * angle)
    z = h * linear.unsqueeze(-1) + contour  # (..., points)
    e = torch.exp(z)
    cube = z**3

    def integral(values: Tensor) -> Tensor:
        return h * values.mean(-1).real

    square = z**2
    half = torch.exp(z / 2)
    at_start = -4 - z + e * (4 - 3 * z + square)
    between = 2 * (2 + z + e * (z - 2))
    at_end = -4 - 3 * z - square + e * (4 - z)
    q = integral((half - 1) / z)
    f1 = integral(at_start / cube)
    f2 = integral(between / cube)
    f3 = integral(at_end / cube)
    decay = torch.exp(h * linear)
    half_decay = torch.exp(h * linear / 2)
    return decay, half_decay, q, f1, f2, f3


@functools.lru_cache(maxsize=8)
def _derivatives(n: int) -> TensorTuple:
    """(n, n) matrices of the first, second and fourth derivative by θ, transposed: they act on
    rows.
    """
    unit = torch.fft.rfft(torch.eye(n, dtype=torch.float64))
    k = torch.arange(n // 2 + 1, dtype=torch.float64)
    # the first derivative of the highest wave is not seen on the grid
    odd = k * (k < n // 2)
    symbols = 1j * odd, -(k**2), k**4
    return tuple(torch.fft.irfft(symbol * unit, n) for symbol in symbols)
