"""Coordinates of context parameters, c, 1/c or log c, chosen by training runs that are left out."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.bases import decompose
from romkit.core import runtime
from romkit.core.errors import InputError
from romkit.core.polynomials import Monomials
from romkit.core.tensors import divisor
from romkit.core.types import Array
from romkit.data import context_names
from romkit.data.context import context_ranges
from romkit.data.coordinates import (
    ATTRIBUTE,
    COORDINATES,
    PLAIN,
    are_worth_a_try,
    with_coordinates,
)
from romkit.learning.contexts import groups_between, number_of_contexts, scaled_contexts
from romkit.learning.errors import without_gaps
from romkit.learning.manifolds import Kinds, Model, chosen
from romkit.learning.quiet import quiet
from romkit.learning.scale import deviations
from romkit.learning.trials import Trial

CLEARLY = 0.5
"""Error on left-out runs in another coordinate, in that of the parameter itself, below which it is
taken.
"""

LATENTS = 4
"""Most directions of the states that equations are compared in."""

DEGREES = {1: 5, 2: 3, 3: 3, 4: 2}
"""Degrees of these equations, by the number of directions."""

CONTEXT_DEGREES = (1, 2)
"""Degrees in the context that are compared."""

WINDOWS, LENGTH = 30, 4
"""Windows of each run, evenly spread, and the share of a run that each is, a fourth: noise at its
ends is then small beside the change between them.
"""

RIDGE = 1e-10
"""Penalty of coefficients, in the mean square of the terms."""


class Tried(NamedTuple):
    """Errors of the choice, on training runs that were left out, in coordinates and without them.

    Attributes:
        names: of the coordinates, by parameter.
        error, plain: of the best law [deviations], in these and in the parameters themselves.
    """

    names: Mapping[str, str]
    error: float
    plain: float

    @property
    def is_taken(self) -> bool:
        """Whether laws are in these coordinates."""
        return self.error < CLEARLY * self.plain


class Chosen(NamedTuple):
    """Model of training runs, what was tried, and the runs with the coordinates that it is in.

    Attributes:
        tried: other coordinates; None where none promised to be better.
    """

    model: Model
    trials: list[Trial]
    train: xr.Dataset
    tried: Tried | None


def chosen_in_coordinates(
    train: xr.Dataset,
    latent_dim: int | None,
    seconds: float,
    seed: int,
    kinds: Kinds | None = None,
) -> Chosen:
    """The manifold and law that forecast left-out training runs best, in the parameters themselves,
    or in coordinates that equations of the same runs prefer, where these err by clearly less.
    """
    began = time.process_time()
    model, trials = chosen(train, latent_dim, seconds, seed, kinds)
    plain = Chosen(model, trials, train, None)
    names = better_coordinates(train, Increments.of(train).error)
    if not names:
        return plain
    remaining = seconds - (time.process_time() - began)
    if remaining < seconds / 2:
        runtime.told(f"learn: more seconds would allow a trial in {coordinates_in_words(names)}")
        return plain
    runtime.told(f"learn: again in {coordinates_in_words(names)}")
    changed = with_coordinates(train, names)
    try:
        with quiet():
            other, trials_of_other = chosen(changed, latent_dim, remaining, seed, kinds)
    except InputError:  # all laws are lost
        return plain
    tried = Tried(names, mean_error(other), mean_error(model))
    if not tried.is_taken:
        return plain._replace(tried=tried)
    return Chosen(other, trials_of_other, changed, tried)


def mean_error(model: Model) -> float:
    """Mean error of a law on the training runs that it was compared by; infinite without any."""
    if not model.left_out:
        return np.inf
    return float(torch.cat([errors for _, errors in model.left_out]).mean())


def better_coordinates(
    train: xr.Dataset, error_of: Callable[[xr.Dataset], float]
) -> dict[str, str]:
    """Coordinates in which an error of runs is clearly less than in the parameters themselves, one
    parameter after the other; those that the data name stay.
    """
    names: dict[str, str] = {}
    least = None
    ranges = zip(context_names(train), *context_ranges(train), strict=True)
    for parameter, low, high in ranges:
        if ATTRIBUTE in train[parameter].attrs or low <= 0 or not are_worth_a_try(low, high):
            continue
        if least is None:
            least = error_of(train)
        errors = {}
        for name in COORDINATES:
            if name != PLAIN:
                errors[name] = error_of(with_coordinates(train, names | {parameter: name}))
        best = min(errors, key=errors.get)
        if errors[best] < CLEARLY * least:
            names[parameter] = best
            least = errors[best]
    return names


def coordinates_in_words(names: Mapping[str, str]) -> str:
    """Coordinates of parameters, `1/R, log K`."""
    return ", ".join(COORDINATES[name].of(parameter) for parameter, name in names.items())


class Increments(NamedTuple):
    """Changes of states over windows of time beside the integrals of polynomials of the states.

    An equation of motion ż = Σ ξ(c) θ(z) is linear in its coefficients: Δz = Σ ξ(c) ∫ θ(z) dt. So a
    least-squares fit tells at once how smoothly they depend on a coordinate of the context.

    Attributes:
        integrals: (C, W, K) of terms over windows.
        changes: (C, W, m) of states.

    Source: Schaeffer, McCalla (2017), Sparse model selection via integral terms.
    """

    integrals: Tensor
    changes: Tensor

    @classmethod
    def of(cls, train: xr.Dataset) -> "Increments":
        """Increments of runs along the main directions of their states."""
        from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

        z = main_directions(without_gaps(train) / deviations(train))  # (C, T, m)
        m = z.shape[-1]
        terms = Monomials(m, DEGREES[m])(z)  # (C, T, K)
        times = train["time"].values.astype(float)
        course = CubicSpline(times, terms.numpy(), axis=1).antiderivative()
        since_start = torch.from_numpy(course(times))
        length = max(1, (len(times) - 1) // LENGTH)
        begins = torch.linspace(0, len(times) - 1 - length, WINDOWS).round().long().unique()
        integrals = since_start[:, begins + length] - since_start[:, begins]
        return cls(integrals, z[:, begins + length] - z[:, begins])

    def error(self, train: xr.Dataset) -> float:
        """Share of the changes of runs that equations of all others leave, in the coordinates of the
        data; infinite with too few contexts to tell.
        """
        groups = groups_between(train)
        contexts = torch.from_numpy(2 * scaled_contexts(train, train) - 1)  # (C, p)
        # without a context there is one more than terms
        most = number_of_contexts(train) - 2
        errors = [np.inf]
        for degree in CONTEXT_DEGREES:
            of_context = Monomials(contexts.shape[1], degree)(contexts)  # (C, q)
            if len(groups) > 0 and of_context.shape[1] <= most:
                errors.append(self._left_out(of_context, groups))
        return min(errors)

    def _left_out(self, of_context: Tensor, groups: list[Array]) -> float:
        """Mean error on the runs of each group by an equation of the others."""
        runs, windows, _ = self.integrals.shape
        products = self.integrals[..., None] * of_context[:, None, None]  # (C, W, K, q)
        terms = products.reshape(runs, windows, -1)
        terms = terms / divisor(terms.square().mean((0, 1)).sqrt())
        size = divisor(self.changes.square().mean().sqrt())
        errors = []
        for left_out in groups:
            kept = np.setdiff1d(np.arange(runs), left_out)
            design = terms[kept].flatten(0, 1)
            target = self.changes[kept].flatten(0, 1)
            gram = design.mT @ design
            gram.diagonal().add_(RIDGE * len(design))
            coefficients = torch.linalg.solve(gram, design.mT @ target)
            missed = self.changes[left_out] - terms[left_out] @ coefficients
            errors.append(missed.square().mean().sqrt() / size)
        return float(torch.stack(errors).mean())


def main_directions(states: Array) -> Tensor:
    """Coordinates (C, T, m) of states (C, T, n) along their main directions, each in [-1, 1]."""
    centred = torch.from_numpy(states - states.mean((0, 1))).double()
    modes = decompose(centred.flatten(0, 1), LATENTS).modes
    coordinates = centred @ modes
    return coordinates / divisor(coordinates.abs().amax((0, 1)))
