"""Candidates of `romkit.learn`: manifolds with laws of their latents, in latent spaces that were fitted
without the runs of a fold, and interpolated runs.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis
from romkit.bases.make import adequate_basis
from romkit.core.errors import DataWarning, FitWarning, InputError, warn
from romkit.core.types import Array
from romkit.data import context_names
from romkit.data.context import context_ranges
from romkit.data.coordinates import (
    ATTRIBUTE,
    COORDINATES,
    PLAIN,
    are_worth_a_try,
    assign_coordinates,
)
from romkit.laws import CellLaw, Estimator
from romkit.laws.choice import ALL, LawCandidate, Space
from romkit.laws.decoding import make_judge
from romkit.laws.polynomial import HIGHEST
from romkit.laws.sources import placed
from romkit.learning.interpolation import Interpolation
from romkit.projections import Projection
from romkit.projections.polynomial import CHOSEN
from romkit.select import Policy
from romkit.verbs.fit import fit
from romkit.verbs.law import BOUNDED, KINDS, affordable, law_settings

METHOD = "polynomial-manifold"

WIDE = 1_000
"""Number of components from which on states are described by coordinates in a basis, which has at most
so many modes: a manifold of these costs what one of such states does.
"""

NOTICED = 1e-4
"""Share of the energy from which on a warning says that a basis leaves it out."""


VARIANTS = ("clocks", "coordinates")
"""What is tried beside models of the data as they are: runs interpolated at equal phases of their
clocks, and parameters by 1/c or log c.
"""

Change = Callable[[xr.Dataset], xr.Dataset]
"""Change of data, say to other coordinates of its parameters."""


class Spaces:
    """Latent spaces of a dataset.

    Args:
        data: runs.
        folds: numbers (k,) of the runs that each fold leaves out.
        label: of a change to the data, in words; "" for data as they came.
        change: that was made; None for data as they came.
        device: of latent samples; None for the CPU.
        source: spaces of the data as they came, whose manifolds these are: a change of coordinates
            leaves the states as they are.
        variants: those of `VARIANTS` that are tried.
    """

    def __init__(
        self,
        data: xr.Dataset,
        folds: Sequence[Tensor],
        label: str = "",
        change: Change | None = None,
        device: torch.device | None = None,
        source: "Spaces | None" = None,
        variants: Sequence[str] = VARIANTS,
    ):
        self.data = data
        self.folds = folds
        self.label = label
        self.change = change
        self.device = device
        self.source = source
        self.variants = variants
        self._bases: dict[int, Basis | None] = {}
        self._projections: dict[tuple[int, int], Projection] = {}
        self._states: Tensor | None = None
        self._spaces: dict[tuple[object, int, int], Space] = {}
        self._changed: dict[str, Spaces] = {}

    def changed(self, label: str, change: Change) -> "Spaces":
        """Make spaces of changed data, once for each label."""
        if label not in self._changed:
            self._changed[label] = Spaces(
                change(self.data), self.folds, label, change, device=self.device, source=self
            )
        return self._changed[label]

    def in_coordinates(self) -> "list[Spaces]":
        """Make spaces in other coordinates of the parameters, where these are tried."""
        if self.label or "coordinates" not in self.variants:
            return []
        return [self.changed(*change) for change in list_coordinates(self.data)]

    def like(self, data: xr.Dataset) -> xr.Dataset:
        """Change other runs as those of the training."""
        return data if self.change is None else self.change(data)

    def kept(self, fold: int) -> xr.Dataset:
        """Select the runs that a fold keeps."""
        if fold == ALL:
            return self.data
        rows = np.arange(self.data.sizes["trajectory"])
        return self.data.isel(trajectory=np.setdiff1d(rows, self.folds[fold].numpy()))

    def left_out(self, fold: int) -> xr.Dataset:
        """Select the runs that a fold leaves out."""
        return self.data.isel(trajectory=self.folds[fold].numpy())

    def projection(self, latents: int, fold: int) -> Projection:
        """Fit a manifold of so many latents to the runs that a fold keeps; 0 for all components.

        Raises:
            InputError: these runs do not have so many directions.
        """
        if self.source is not None:
            return self.source.projection(latents, fold)
        key = latents, fold
        if key not in self._projections:
            self._projections[key] = self._fitted(latents, fold)
        projection = self._projections[key]
        if latents and projection.latent_dim < latents:
            got = f"{projection.latent_dim}"
            raise InputError("latent_dim", expected=f"{latents} directions", got=got, fix="fewer")
        return projection

    def _fitted(self, latents: int, fold: int) -> Projection:
        train = self.kept(fold)
        if latents == 0:
            return fit("identity", train)
        settings = {}
        if fold != ALL:
            # a fold leaves runs out of a fit, and its errors are those of the same settings
            config = self.projection(latents, ALL).config
            settings = {name: config[name] for name in CHOSEN}
        with warnings.catch_warnings():
            # a smaller manifold is no candidate
            warnings.filterwarnings("ignore", message="latent_dim", category=DataWarning)
            return fit(METHOD, train, latent_dim=latents, basis=self._basis(fold), **settings)

    def _basis(self, fold: int) -> Basis | None:
        """Fit a basis to wide states; None for others."""
        if fold not in self._bases:
            self._bases[fold] = None
            if self.data.sizes["component"] > WIDE:
                # what is left out is an error of each forecast
                tolerance = Policy().enough ** 2
                self._bases[fold] = adequate_basis(self.kept(fold), tolerance, WIDE)
        return self._bases[fold]

    def warn_basis(self) -> None:
        """Warn where the basis of all runs leaves out more than it may."""
        basis = self._basis(ALL)
        if basis is None or basis.energy is None:
            return
        left_out = 1 - float(basis.energy[-1])
        if left_out > NOTICED:
            warn(
                f"state: expected {WIDE} modes that leave out {NOTICED:g} of the energy, got "
                f"{left_out:.2g}: no latents show the rest; smooth or coarsen the fields, if they "
                "are noisy",
                FitWarning,
            )

    def space(self, estimator: Estimator, latents: int, fold: int) -> Space:
        """Encode all runs by the manifold of a fold, as an estimator takes samples."""
        key = type(estimator).choices, latents, fold
        if key not in self._spaces:
            projection = placed(self.projection(latents, fold), self.device)
            family, shapes = projection.law_space(self.data)
            samples = estimator.choices(family, shapes)[0]
            judge = make_judge(family, shapes, samples)
            if shapes is self.data:
                # the same states in each space, of which one copy is enough
                self._states = judge.states if self._states is None else self._states
                judge = replace(judge, states=self._states)
            self._spaces[key] = Space(samples, judge)
        return self._spaces[key]


COMPLETE = 20
"""Most components of a state of which laws are tried as it is."""

SPARSE = 6
"""Most components of a state of which sparse equations are tried."""


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
        """List the law with further settings, and in other coordinates of the parameters; in these
        simpler laws, which they may make exact.
        """
        samples, _ = self.space(ALL)
        further = [self._sibling(self.spaces, e) for e in self.estimator.neighbours(samples)]
        if self.spaces.label:
            return further + [self._sibling(self.spaces, e) for e in self.simpler]
        in_coordinates = self.spaces.in_coordinates()
        return further + [self._sibling(spaces, self.estimator) for spaces in in_coordinates]

    def _sibling(self, spaces: Spaces, estimator: Estimator) -> "ModelCandidate":
        """Return a candidate of as many latents."""
        return ModelCandidate(spaces, self.latents, estimator, self.seed, self.simpler)


class RunsCandidate:
    """Runs interpolated in the context.

    Args:
        spaces: of the runs.
        interpolation: between them.
        least: error that counts. Beside laws it is the error at which nothing further is tried,
            since a law that errs as little holds for other starts, too.
    """

    complexity = 10**9
    """Any law of equal error is preferred: it holds for other starts and longer times, too."""

    def __init__(self, spaces: Spaces, interpolation: Interpolation, *, least: float):
        self.spaces = spaces
        self.interpolation = interpolation
        self.least = least
        prefix = f"{spaces.label}, " if spaces.label else ""
        self.name = f"{prefix}{interpolation}"

    def errors(self, fold: int) -> Array:
        """Interpolate the runs that a fold keeps: errors (k,) of the others, at least `least`."""
        errors = self.interpolation.errors(self.spaces.data, self.spaces.folds[fold])
        return np.maximum(errors, self.least)

    def segment_errors(self, fold: int) -> Array:
        """Interpolate likewise: segments err as whole runs do, whatever their starts."""
        return self.errors(fold)

    def neighbours(self) -> "list[RunsCandidate]":
        """List none: all ways between runs are tried from the beginning."""
        return []


def rungs(
    spaces: Spaces,
    latent_dim: int | None,
    kinds: Sequence[str | Estimator] | None,
    seconds: float,
    seed: int,
) -> "Iterator[list[ModelCandidate]]":
    """List manifolds with laws by the number of latents; a small complete state first.

    Settings that forecast no better than rest where others are of use, such as those that depend on
    no parameter, are not tried with more latents.

    Raises:
        InputError: there are no candidates, of any number of latents.
    """
    refusals: list[InputError] = []
    has_any = False
    for rung in _all_rungs(spaces, latent_dim, kinds, seconds, seed, refusals):
        has_any = has_any or bool(rung)
        yield rung
    if not has_any:
        raise refusals[0]


def _all_rungs(
    spaces: Spaces,
    latent_dim: int | None,
    kinds: Sequence[str | Estimator] | None,
    seconds: float,
    seed: int,
    refusals: list[InputError],
) -> "Iterator[list[ModelCandidate]]":
    """Yield the rungs, empty ones too; refusals are noted."""
    n = spaces.data.sizes["component"]
    # fields whose law is the same at every cell need no manifold
    cell_laws = [law for law in map(law_settings, kinds or ["cells"]) if isinstance(law, CellLaw)]
    if latent_dim in (None, n):
        yield _list_laws(spaces, 0, cell_laws, seconds, seed, refusals)
    useless: list[Estimator] = []
    for latents in _ladder(n, latent_dim):
        # equations of physical quantities have few terms; latents are of any sign, and divide nothing
        usual = (*KINDS, "sindy") if latents == 0 and n <= SPARSE else BOUNDED
        settings = map(law_settings, kinds or usual)
        laws = _list_laws(spaces, latents, settings, seconds, seed, refusals)
        rung = [candidate for candidate in laws if candidate.estimator not in useless]
        yield rung
        useless += _useless(rung, Policy())


def rational_laws(
    spaces: Spaces,
    latent_dim: int | None,
    kinds: Sequence[str | Estimator] | None,
    seconds: float,
    seed: int,
) -> list[ModelCandidate]:
    """List rational laws of complete states behind which a ladder of latents does not begin: states
    that are concentrations say are divided by, and latents are not.
    """
    n = spaces.data.sizes["component"]
    if kinds is not None or latent_dim not in (None, n) or not SPARSE < n <= max(HIGHEST):
        return []
    return _list_laws(spaces, 0, [law_settings("rational")], seconds, seed, [])


def _useless(
    rung: Sequence[ModelCandidate], policy: Policy, *, rest: float = 0.9
) -> list[Estimator]:
    """Return settings of candidates that were tried on the first fold, and whose forecasts are no
    better than rest, which errs by about 1; none where those of all are of no use.

    `rest`: error from which on they are not.
    """
    errors = [float(np.exp(policy.logarithms(candidate.errors(0)).mean())) for candidate in rung]
    if min(errors, default=np.inf) > policy.useful:
        return []
    scored = zip(rung, errors, strict=True)
    return [candidate.estimator for candidate, error in scored if error > rest]


def _ladder(
    components: int, latent_dim: int | None, *, ladder: tuple[int, ...] = (2, 3, 4, 5, 6, 8, 12)
) -> list[int]:
    """List numbers of latents, 0 for the complete state: first where it is small, else last.

    `ladder`: numbers of latents that are tried, as long as the error falls.
    """
    if latent_dim is not None:
        is_complete = latent_dim == components <= COMPLETE
        return [0 if is_complete else latent_dim]
    fewer = [latents for latents in ladder if latents < components]
    if components <= SPARSE:
        return [0, *fewer]
    if components <= COMPLETE:
        return [*fewer, 0]
    return fewer


def _list_laws(
    spaces: Spaces,
    latents: int,
    kinds: Iterable[Estimator],
    seconds: float,
    seed: int,
    refusals: list[InputError],
) -> list[ModelCandidate]:
    """List laws of so many latents; none where the runs do not have so many directions, or where a
    law refuses them, which is noted.
    """
    candidates: list[ModelCandidate] = []
    for kind in kinds:
        try:
            samples, _ = spaces.space(kind, latents, 0)
            settings = affordable(kind, samples, seconds / (1 + len(spaces.folds)))
        except InputError as refusal:
            refusals.append(refusal)
            continue
        for number, estimator in enumerate(settings):
            candidates.append(ModelCandidate(spaces, latents, estimator, seed, settings[:number]))
    return candidates


def interpolations(spaces: Spaces) -> list[RunsCandidate]:
    """List ways between runs, at equal times and at equal phases of their clocks, each in several
    coordinates of the parameters.
    """
    ways = [Interpolation()]
    if "clocks" in spaces.variants:
        ways.append(Interpolation(by_clocks=True))
    all_spaces = [spaces, *spaces.in_coordinates()]
    least = Policy().enough
    return [
        RunsCandidate(in_coordinates, way, least=least)
        for in_coordinates in all_spaces
        for way in ways
    ]


def list_coordinates(data: xr.Dataset) -> list[tuple[str, Change]]:
    """List coordinates 1/c and log c of each parameter whose range is wide enough to tell."""
    changes: list[tuple[str, Change]] = []
    lowest, highest = context_ranges(data)
    for parameter, low, high in zip(context_names(data), lowest, highest, strict=True):
        is_open = ATTRIBUTE not in data[parameter].attrs
        if not (is_open and low > 0 and are_worth_a_try(low, high)):
            continue
        for name, coordinate in COORDINATES.items():
            if name != PLAIN:
                change = partial(assign_coordinates, names={parameter: name})
                changes.append((coordinate.of(parameter), change))
    return changes
