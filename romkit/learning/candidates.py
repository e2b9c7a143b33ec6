"""Candidates of `romkit.learn`: manifolds with laws of their latents, and interpolated runs."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import xarray as xr

from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data import context_names
from romkit.data.context import context_ranges
from romkit.data.controls import HELD, LINEAR, inputs_held
from romkit.data.coordinates import ATTRIBUTE, COORDINATES, PLAIN, are_worth_a_try, with_coordinates
from romkit.laws import Estimator
from romkit.laws.choice import ALL, LawCandidate, Space
from romkit.learning.interpolation import RIDGES, Interpolation, regression
from romkit.learning.rhythm import driving_period, with_rhythm
from romkit.learning.spaces import Change, Spaces
from romkit.verbs.law import settings_of

LADDER = (2, 3, 4, 5, 6, 8, 12)
"""Numbers of latents that are tried, as long as the error falls."""

COMPLETE = 20
"""Most components of a state of which laws are tried as it is."""

SPARSE = 6
"""Most components of a state of which sparse equations are tried."""

KINDS = ("polynomial", "limit-cycle")
"""Laws that are tried by default."""


class ModelCandidate(LawCandidate):
    """A manifold with a law of its latents.

    Args:
        spaces: of the runs.
        latents: number of latents; 0 for all components as they are.
        estimator: settings of the law.
        seed: of its fits.
        simpler: settings of the same kind that are tried before it.
    """

    def __init__(
        self,
        spaces: Spaces,
        latents: int,
        estimator: Estimator,
        seed: int,
        simpler: Sequence[Estimator] = (),
    ):
        state = f"{latents} latents" if latents else "complete state"
        label = f"{spaces.label}, {state}, " if spaces.label else f"{state}, "
        super().__init__(estimator, self._space, spaces.folds, seed, label)
        self.spaces = spaces
        self.latents = latents
        self.simpler = simpler

    def _space(self, fold: int) -> Space:
        return self.spaces.space(self.estimator, self.latents, fold)

    def neighbours(self) -> "list[ModelCandidate]":
        """List the law with further settings, and in other coordinates of the parameters, with inputs
        that are held or linear between samples, and with the period that all runs show; after such
        a change simpler laws, which it may make exact.
        """
        samples, _ = self.space(ALL)
        further = [self._beside(self.spaces, e) for e in self.estimator.neighbours(samples)]
        if self.spaces.label:
            return further + [self._beside(self.spaces, e) for e in self.simpler]
        several = [self.spaces.changed(*change) for change in changes(self.spaces.data)]
        return further + [self._beside(spaces, self.estimator) for spaces in several]

    def _beside(self, spaces: Spaces, estimator: Estimator) -> "ModelCandidate":
        """Return a candidate of as many latents."""
        return ModelCandidate(spaces, self.latents, estimator, self.seed, self.simpler)


class RunsCandidate:
    """Runs interpolated in the context.

    Args:
        spaces: of the runs.
        interpolation: between them.
    """

    complexity = 10**9
    """Any law of equal error is preferred: it holds for other starts and longer times, too."""

    def __init__(self, spaces: Spaces, interpolation: Interpolation):
        self.spaces = spaces
        self.interpolation = interpolation
        prefix = f"{spaces.label}, " if spaces.label else ""
        self.name = f"{prefix}{interpolation}"

    def errors(self, fold: int) -> Array:
        """Interpolate the runs that a fold keeps: errors (k,) of the others."""
        return self.interpolation.errors(self.spaces.data, self.spaces.folds[fold])

    def errors_of_segments(self, fold: int) -> Array:
        """Interpolate likewise: segments err as whole runs do, whatever their starts."""
        return self.errors(fold)

    def neighbours(self) -> "list[RunsCandidate]":
        """List the same interpolation in other coordinates of the parameters."""
        if self.spaces.label:
            return []
        several = [self.spaces.changed(*change) for change in of_coordinates(self.spaces.data)]
        return [RunsCandidate(spaces, self.interpolation) for spaces in several]


def rungs(
    spaces: Spaces,
    latent_dim: int | None,
    kinds: Sequence[str | Estimator] | None,
    seconds: float,
    seed: int,
) -> "Iterator[list[ModelCandidate]]":
    """List manifolds with laws by the number of latents; a small complete state first."""
    n = spaces.data.sizes["component"]
    for latents in _ladder(n, latent_dim):
        # equations of physical quantities have few terms
        usual = (*KINDS, "sindy") if latents == 0 and n <= SPARSE else KINDS
        of_laws = usual if kinds is None else kinds
        yield _of_latents(spaces, latents, map(settings_of, of_laws), seconds, seed)


def _ladder(components: int, latent_dim: int | None) -> list[int]:
    """List numbers of latents, 0 for the complete state: first where it is small, else last."""
    if latent_dim is not None:
        is_complete = latent_dim == components <= COMPLETE
        return [0 if is_complete else latent_dim]
    fewer = [latents for latents in LADDER if latents < components]
    if components <= SPARSE:
        return [0, *fewer]
    if components <= COMPLETE:
        return [*fewer, 0]
    return fewer


def _of_latents(
    spaces: Spaces, latents: int, kinds: Iterable[Estimator], seconds: float, seed: int
) -> list[ModelCandidate]:
    """List laws of so many latents; none where the runs do not have so many directions."""
    candidates: list[ModelCandidate] = []
    for kind in kinds:
        try:
            samples, _ = spaces.space(kind, latents, 0)
            settings = kind.affordable(samples, seconds / (1 + len(spaces.folds)))
        except InputError:
            continue
        for number, each in enumerate(settings):
            candidates.append(ModelCandidate(spaces, latents, each, seed, settings[:number]))
    return candidates


def interpolations(spaces: Spaces) -> list[RunsCandidate]:
    """List ways between runs: at equal times, at equal phases of their clocks, and regressions."""
    ways = [Interpolation(), Interpolation(by_clocks=True)]
    ways += [Interpolation(regression(ridge)) for ridge in RIDGES]
    return [RunsCandidate(spaces, way) for way in ways]


def changes(data: xr.Dataset) -> list[tuple[str, Change]]:
    """List changes to data, with their names, that may make laws simpler."""
    several = of_coordinates(data)
    if "control" in data:
        if "between" not in data["control"].attrs:
            rule = LINEAR if inputs_held(data) else HELD
            several.append((f"inputs {rule} between samples", partial(with_rule, rule=rule)))
        return several
    period = driving_period(data)
    if period is not None:
        several.append((f"period {period:.6g}", partial(with_rhythm, period=period)))
    return several


def of_coordinates(data: xr.Dataset) -> list[tuple[str, Change]]:
    """List coordinates 1/c and log c of each parameter whose range is wide enough to tell."""
    several: list[tuple[str, Change]] = []
    lowest, highest = context_ranges(data)
    for parameter, low, high in zip(context_names(data), lowest, highest, strict=True):
        is_open = ATTRIBUTE not in data[parameter].attrs
        if not (is_open and low > 0 and are_worth_a_try(low, high)):
            continue
        for name, coordinate in COORDINATES.items():
            if name != PLAIN:
                change = partial(with_coordinates, names={parameter: name})
                several.append((coordinate.of(parameter), change))
    return several


def with_rule(data: xr.Dataset, rule: str) -> xr.Dataset:
    """Declare a rule for the inputs between samples."""
    return data.assign(control=data["control"].assign_attrs(between=rule))
