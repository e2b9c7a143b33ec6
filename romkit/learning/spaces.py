"""Latent spaces of runs: manifolds that were fitted without the runs of a fold, each once."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.bases import Basis
from romkit.bases.make import adequate_basis
from romkit.core.errors import DataWarning, FitWarning, InputError, warn
from romkit.laws import Estimator
from romkit.laws.choice import ALL, Space
from romkit.laws.decoding import judge_of
from romkit.laws.sources import placed
from romkit.projections import Projection
from romkit.projections.polynomial import CHOSEN
from romkit.verbs.fit import fit

METHOD = "polynomial-manifold"

WIDE = 1_000
"""Number of components from which on states are described by coordinates in a basis, which has at most
so many modes: a manifold of these costs what one of such states does.
"""

KEPT = 1e-4
"""Share of the energy that a basis may leave out."""


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
        source: spaces of the data as they came, whose manifolds these are: a change of coordinates or
            of inputs leaves the states as they are.
    """

    def __init__(
        self,
        data: xr.Dataset,
        folds: Sequence[Tensor],
        label: str = "",
        change: Change | None = None,
        device: torch.device | None = None,
        source: "Spaces | None" = None,
    ):
        self.data = data
        self.folds = folds
        self.label = label
        self.change = change
        self.device = device
        self.source = source
        self._kept: dict[int, xr.Dataset] = {}
        self._bases: dict[int, Basis | None] = {}
        self._projections: dict[tuple[int, int], Projection] = {}
        self._spaces: dict[tuple[object, int, int], Space] = {}
        self._changed: dict[str, Spaces] = {}

    def changed(self, label: str, change: Change) -> "Spaces":
        """Make spaces of changed data, once for each label."""
        if label not in self._changed:
            self._changed[label] = Spaces(
                change(self.data), self.folds, label, change, device=self.device, source=self
            )
        return self._changed[label]

    def like(self, data: xr.Dataset) -> xr.Dataset:
        """Change other runs as those of the training."""
        return data if self.change is None else self.change(data)

    @property
    def period(self) -> float | None:
        """Period with which the change drives the runs; None where it does not."""
        return getattr(self.change, "keywords", {}).get("period")

    def kept(self, fold: int) -> xr.Dataset:
        """Select the runs that a fold keeps."""
        if fold == ALL:
            return self.data
        if fold not in self._kept:
            rows = np.arange(self.data.sizes["trajectory"])
            rows = np.setdiff1d(rows, self.folds[fold].numpy())
            self._kept[fold] = self.data.isel(trajectory=rows)
        return self._kept[fold]

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
                self._bases[fold] = adequate_basis(self.kept(fold), KEPT, WIDE)
        return self._bases[fold]

    def warn_of_basis(self) -> None:
        """Warn where the basis of all runs leaves out more than it may."""
        basis = self._basis(ALL)
        if basis is None or basis.energy is None:
            return
        left_out = 1 - float(basis.energy[-1])
        if left_out > KEPT:
            warn(
                f"state: expected {WIDE} modes that leave out {KEPT:g} of the energy, got "
                f"{left_out:.2g}: no latents show the rest; smooth or coarsen the fields, if they "
                "are noisy",
                FitWarning,
            )

    def space(self, estimator: Estimator, latents: int, fold: int) -> Space:
        """Encode all runs by the manifold of a fold, as an estimator takes samples."""
        key = type(estimator).choices, latents, fold
        if key not in self._spaces:
            projection = placed(self.projection(latents, fold), self.device)
            family, shapes = projection.for_law(self.data)
            samples = estimator.choices(family, shapes)[0]
            self._spaces[key] = Space(samples, judge_of(family, shapes, samples))
        return self._spaces[key]
