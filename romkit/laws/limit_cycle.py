"""Laws of motion that has settled on a closed orbit at each context, however sharp its corners."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from romkit.core.boundary import Natural, Order, validated
from romkit.core.errors import InputError
from romkit.core.polynomials import total_degree
from romkit.core.tensors import least_norm
from romkit.core.types import TensorMap
from romkit.integrators.base import Flow, LearnedField, lost_beyond
from romkit.integrators.region import Region
from romkit.laws.base import TrajectoryEstimator
from romkit.laws.chebyshev import Chebyshev
from romkit.laws.orbits import NODES, AlongOrbit, Orbit
from romkit.laws.period import Cycle, find_cycle, fourier
from romkit.laws.samples import LatentSamples
from romkit.laws.scaling import Scaling
from romkit.solvers.base import Solver
from romkit.systems.problem import Problem

DEGREES = 1, 2, 3, 4, 5
"""Degrees in the context to choose from."""


@validated
@dataclass(frozen=True, eq=False, repr=False)
class LimitCycleLaw(LearnedField):
    """ż = v(s; c) γ'(s; c) - κ (z - γ(s; c)): along a closed orbit γ at its measured speed v, and
    back to it, where γ(s) is the point nearest to z.

    The place s in [0, 1) along the orbit is half the phase φ and half the length: jumps have a part of
    it, and so have places where the motion rests.

    Attributes:
        nodes: (..., k, N, m + 1) points of the orbit at even places s, and φ - s there, for each of k
            polynomials in the context.
        frequency: (..., k) of the number of periods in a unit of time.
        library: polynomials in the context.
        context: names and scaling of the context.
        residual: (...) root mean square distance of the data from their orbits [deviations].
        harmonics: of the Fourier series of the orbits, the most of all runs.
        order, source, samples, control_names, held, domain, report: as in every `LearnedField`.

    Example:
        >>> import torch
        >>> from romkit.laws import LimitCycle
        >>> t, speed = torch.linspace(0, 6, 121), torch.tensor([[2.0], [3.0], [4.0]])
        >>> z = torch.stack([(speed * t).cos(), (speed * t).sin()], -1).double()
        >>> law = LimitCycle(degree=1).fit_samples(z, torch.zeros_like(z), speed, times=t)
        >>> law.period(torch.tensor([3.0])).round(decimals=3)
        tensor(2.0940)
    """

    nodes: Tensor
    frequency: Tensor
    library: Chebyshev
    context: Scaling
    source: str
    samples: Natural
    residual: Tensor
    harmonics: Natural
    order: Order = 1
    control_names: tuple[str, ...] = ()
    held: bool | None = None
    control_unit: str = ""
    domain: Region | None = None
    report: Sequence[Mapping[str, Any]] = ()

    FACTS: ClassVar[tuple[str, ...]] = ("residual",)
    """Attributes that describe the fit, and may be infinite (see `core.packing`)."""

    @property
    def latent_dim(self) -> int:
        """m."""
        return self.nodes.shape[-1] - 1

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the parameters that the orbits depend on."""
        return self.context.names

    @property
    def coefficient_count(self) -> int:
        """Number of coefficients of the Fourier series of orbits, and of their frequency; nodes are
        made of these.
        """
        of_series = (2 * self.harmonics + 1) * self.latent_dim
        return (of_series + 1) * self.frequency.numel()

    def period(self, c: Tensor) -> Tensor:
        """Return period (...) at contexts c (..., p) in physical units."""
        return 1 / self._evaluate_context(self.frequency.unsqueeze(-1), c).squeeze(-1)

    def right_hand_side(self, c: Tensor) -> TensorMap:
        """Map z (..., m) -> ż at a context c (..., p) in physical units."""
        return self._orbit(c).rate

    def flow(self, c: Tensor) -> Flow:
        """Map (z (..., m), times (T,)) -> exact states (..., T, m) from the first time on, at a
        context c (..., p) that stays.
        """
        return self._orbit(c).states

    def _default_solver(self, problem: Problem, engine: str, start: Tensor) -> Solver:
        operator = problem.path.operator
        # along a context that moves, and for compiled code, the field is integrated
        if operator is None or engine == "compiled":
            return super()._default_solver(problem, engine, start)
        context = operator.context
        if not self.context_names:
            context = context[..., :0]
        return AlongOrbit(self.flow(context), lost_beyond(self, start))

    def _orbit(self, c: Tensor) -> "Orbit":
        nodes = self._evaluate_context(self.nodes.flatten(-2), c)
        return Orbit(nodes.unflatten(-1, self.nodes.shape[-2:]), 1 / self.period(c))

    def _evaluate_context(self, coefficients: Tensor, c: Tensor) -> Tensor:
        """Return coefficients (..., k, n) at contexts c (..., p): (..., n); leading axes match from
        the left.
        """
        scaled = self.context.on(c)(c)
        terms = torch.stack(self.library(scaled), dim=-1)  # (..., k)
        weights = coefficients.to(terms)
        *lead, k, n = weights.shape
        # contexts behind stacked laws have axes of their own
        absent = max(0, terms.ndim - 1 - len(lead)) if lead else 0
        weights = weights.reshape(*lead, *(1,) * absent, k, n)
        return (terms.unsqueeze(-2) @ weights).squeeze(-2)

    def details(self) -> list[str]:
        """Return distance of the data from their orbits, the largest of a stack."""
        distance = float(self.residual.max())
        return [f"closed orbits, {distance:.1e} deviations from the data"]

    def __repr__(self) -> str:
        names = ", ".join(self.context.names) or "none"
        facts = [f"{self.latent_dim} latents, context {names}", *self.details()]
        facts += [f"{self.samples} samples", self.source]
        return f"LimitCycleLaw({'; '.join(facts)})"


@validated
@dataclass(frozen=True)
class LimitCycle(TrajectoryEstimator):
    """Settings of a fit; `fit` returns the closed orbit at each context and the speed along it.

    For motion that has settled on a limit cycle, above all relaxation oscillations, whose jumps no
    polynomial follows. The orbit of each run is a Fourier series in its phase, at the frequency that
    fits the run best; orbits are aligned along their length, and are polynomials in the context.
    Nothing of a transient is learned: off the orbit a state returns to the point nearest to it.

    Args:
        degree: of orbits and frequencies in the context; None to choose it by held-out contexts.

    Raises:
        InputError: of `fit`, for runs that have not settled on closed orbits, or are shorter than one
            and a half periods, for inputs, a context that moves, second order, and fewer contexts
            than polynomials.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t, speed = np.linspace(0, 6, 121), np.linspace(2.0, 3.0, 6)
        >>> phase = speed[:, None, None] * t[:, None] - np.arange(4)
        >>> data = romkit.data.from_arrays(np.sin(phase), t, context={"speed": speed})
        trajectories  6 of up to 121 samples, n = 4
        state         state (component 4), float64
        context       speed 2 ... 3 (float)
        time          0 ... 6, every 0.05
        rates         none given; estimated where needed
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> law = romkit.laws.LimitCycle(degree=1).fit(pod, data)
        >>> run = romkit.rollout(data, pod, dynamics=law)
        >>> bool(abs(run.rom - run.truth).max() < 0.02)
        True
    """

    degree: Natural | None = None

    def candidates(self, samples: LatentSamples) -> "list[LimitCycle]":
        if self.degree is not None:
            return [self]
        contexts = _count_harmonics(_find_starts(samples))
        settings = []
        for degree in DEGREES:
            # one context at least has to be held out
            if len(total_degree(len(samples.parameters), degree)) < contexts:
                settings.append(replace(self, degree=degree))
        return settings or [replace(self, degree=0)]

    def _fit(self, samples: LatentSamples, seed: int) -> LimitCycleLaw:
        _check(samples)
        samples = samples.to("cpu")  # orbits are found by SciPy
        (paths,) = samples.paths(samples.latents.double())  # (S, C, T, m)
        library = Chebyshev(self.degree or 0)
        context = _scaling(samples)
        terms = self._terms(library, context, samples)
        assert samples.times is not None  # of whole trajectories
        times = samples.times.double()
        fitted = [_orbits(path, times, _find_starts(samples)) for path in paths]
        lead = samples.latents.shape[:-2]
        nodes, frequency, residual = [], [], []
        for orbits in fitted:
            # polynomials in the context through the orbits of all runs
            flat = torch.cat([orbits.nodes.flatten(1), orbits.frequency.unsqueeze(-1)], 1)
            weights = least_norm(terms, flat)
            nodes.append(weights[:, :-1].unflatten(-1, orbits.nodes.shape[1:]))
            frequency.append(weights[:, -1])
            residual.append(orbits.residual)
        return LimitCycleLaw(
            torch.stack(nodes).reshape(*lead, *nodes[0].shape),
            torch.stack(frequency).reshape(*lead, -1),
            library,
            context,
            f"{samples.source}, closed orbits",
            len(samples),
            torch.stack(residual).reshape(lead),
            max(orbits.harmonics for orbits in fitted),
        )

    def _terms(self, library: Chebyshev, context: Scaling, samples: LatentSamples) -> Tensor:
        """Polynomials in the context (C, k) of each run.

        Raises:
            InputError: fewer contexts than polynomials.
        """
        contexts = _find_starts(samples)
        number = _count_harmonics(contexts)
        # before they are made: of a high degree they fill the memory
        needed = math.comb(library.degree + contexts.shape[-1], contexts.shape[-1])
        if number < needed:
            expected = f"{needed} contexts or more for degree {self.degree}"
            raise InputError("data", expected=expected, got=f"{number}", fix="lower the degree")
        return torch.stack(library(context.on(contexts)(contexts)), dim=-1)

    def _unexplained(self, law: LearnedField, samples: LatentSamples) -> None:
        return None  # rates of the data, wrong at jumps, are not fitted


def _check(samples: LatentSamples) -> None:
    """Raise where samples are no trajectories of first order at constant contexts, or have inputs."""
    got = None
    if samples.order != 1:
        got = "second order"
    elif samples.control_names:
        got = f"inputs {', '.join(samples.control_names)}"
    elif not _contexts_stay(samples):
        got = "contexts that move"
    if got is not None:
        expected = "motion of first order, without inputs, at constant contexts"
        raise InputError("data", expected=expected, got=got, fix="take another kind of law")


def _contexts_stay(samples: LatentSamples) -> bool:
    contexts = samples.paths(samples.context)[0]
    return bool((contexts == contexts[:, :, :1]).all())


def _count_harmonics(contexts: Tensor) -> int:
    """Return number of different contexts (C, p); of a system without parameters there is one."""
    return len(contexts.unique(dim=0)) if contexts.shape[1] else 1


def _find_starts(samples: LatentSamples) -> Tensor:
    """Context (C, p) of each run, of the first problem."""
    return samples.paths(samples.context)[0][0, :, 0].double()


def _scaling(samples: LatentSamples) -> Scaling:
    """Scaling of the context, to [-1, 1] over the runs where the samples do not have one."""
    parameters = samples.parameters
    if parameters.symbols != parameters.names or not len(parameters):
        return parameters
    contexts = _find_starts(samples)
    low, high = contexts.amin(0), contexts.amax(0)
    half = torch.where(high > low, (high - low) / 2, 1.0)
    return Scaling(parameters.names, (low + high) / 2, half)


class Orbits(NamedTuple):
    """Closed orbits of all runs, aligned.

    Attributes:
        nodes: (C, N, m + 1) points at even places, and φ - s there.
        frequency: (C,).
        residual: root mean square distance of the data from them [deviations].
        harmonics: of their Fourier series, the most of all runs.
    """

    nodes: Tensor
    frequency: Tensor
    residual: Tensor
    harmonics: int


def _orbits(
    paths: Tensor, times: Tensor, contexts: Tensor, *, closed: float = 0.3, at_rest: float = 1e-3
) -> Orbits:
    """Orbits of runs (C, T, m) at contexts (C, p).

    `closed`: largest distance of a run from its closed orbit [deviations of the run].

    `at_rest`: deviation of a run, relative to the largest one, below which it rests.

    Raises:
        InputError: a run is not on a closed orbit.
    """
    deviations = [path[path.isfinite().all(-1)].std(0).norm() for path in paths]
    largest = max(deviations)
    cycles = []
    for path, deviation in zip(paths, deviations, strict=True):
        observed = path.isfinite().all(-1)
        if not deviation > at_rest * largest:
            raise _not_closed("a run at rest")
        cycle = find_cycle(times[observed], path[observed])
        if cycle is None or cycle.residual > closed:
            raise _not_closed("a run that does not repeat itself")
        cycles.append(cycle)
    frequency = torch.tensor([cycle.frequency for cycle in cycles], dtype=times.dtype)
    residual = torch.tensor([cycle.residual for cycle in cycles], dtype=times.dtype)
    shifts = _shifts(cycles, contexts)
    nodes = [_nodes(cycle, shift) for cycle, shift in zip(cycles, shifts, strict=True)]
    harmonics = max(cycle.harmonics for cycle in cycles)
    return Orbits(torch.stack(nodes), frequency, residual.square().mean().sqrt(), harmonics)


def _not_closed(got: str) -> InputError:
    expected = "runs on closed orbits, of one and a half periods or more"
    fix = "leave the transient out, give longer runs, or take another kind of law"
    return InputError("data", expected=expected, got=got, fix=fix)


def _nodes(cycle: Cycle, shift: float) -> Tensor:
    """Return points of a cycle (N, m + 1) at even places behind a shift, and φ less its mean beside
    s.
    """
    s = torch.arange(NODES, dtype=cycle.series.dtype) / NODES
    place = s + shift
    points = fourier(place, cycle.harmonics) @ cycle.series
    lag = cycle.find_phase(place) - s
    return torch.cat([points, (lag - lag.mean()).unsqueeze(-1)], -1)


def _shifts(cycles: Sequence[Cycle], contexts: Tensor) -> list[float]:
    """Place of each cycle that is to be the first, so that points of neighbours among the contexts
    (C, p) are near each other.
    """
    low, high = contexts.amin(0), contexts.amax(0)
    scaled = (contexts - low) / torch.where(high > low, high - low, 1.0)
    distance = torch.cdist(scaled, scaled)
    shifts = {0: 0.0}
    while len(shifts) < len(cycles):
        # the run whose context is nearest to one that is aligned
        pairs = [(i, j) for i in range(len(cycles)) if i not in shifts for j in shifts]
        number, neighbour = min(pairs, key=lambda pair: float(distance[pair]))
        ahead = _find_shift(cycles[number], cycles[neighbour])
        shifts[number] = (shifts[neighbour] + ahead) % 1
    return [shifts[number] for number in range(len(cycles))]


def _find_shift(cycle: Cycle, target: Cycle, *, shifts: int = 4096) -> float:
    """Shift of a cycle that brings its points nearest to those of another one.

    `shifts`: shifts along an orbit that are tried to align it with its neighbour.
    """
    series, target_series = _complex(cycle.series), _complex(target.series)
    harmonics = min(len(series), len(target_series))
    products = (series[:harmonics] * target_series[:harmonics].conj()).sum(-1)
    spectrum = products.new_zeros(shifts)
    spectrum[1 : harmonics + 1] = products
    overlap = torch.fft.ifft(spectrum).real  # (SHIFTS,)
    return float(overlap.argmax()) / shifts


def _complex(series: Tensor) -> Tensor:
    """Complex amplitudes (h, m), without the mean, of a real series (2 h + 1, m)."""
    cosines, sines = series[1:].chunk(2)
    return torch.complex(cosines, -sines)
