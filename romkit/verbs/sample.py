"""`romkit.sample`: contexts to simulate, or runs to train on, each where the reduced model so far
errs most.
"""

import functools
import hashlib
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import xarray as xr
from annotated_types import Ge
from scipy.stats import qmc

from romkit.core import checks, runtime
from romkit.core.boundary import Count, FilePath, NotNegative, Seed, validated
from romkit.core.errors import ExtrapolationWarning, InputError
from romkit.core.files import expanded, make_folder
from romkit.core.parallel import PIECES, Pool, mapped
from romkit.data import (
    check_states,
    context_matrix,
    context_names,
    open_dataset,
    save_dataset,
)
from romkit.data.context import context_array
from romkit.integrators import Estimator, LatentDynamics
from romkit.projections import Projection
from romkit.systems import System, system_of
from romkit.verbs.compare import digest
from romkit.verbs.ensemble import NUMBERS, Ensemble, bootstrap
from romkit.verbs.estimate import error_estimate
from romkit.verbs.fit import fit, method_of
from romkit.verbs.runs import follow, score

DESIGNS = ("greedy", "uniform", "chebyshev", "sobol", "random")
"""Ways to choose contexts: by estimates, two kinds of grid, points of low discrepancy, and random
points.
"""

LOST = 1e100
"""Estimate at a candidate whose rollout is lost."""


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """Chosen contexts with their data, and the reduced model of these, as `romkit.sample` returns
    them.

    Attributes:
        data: the trajectories, in the order in which they were chosen.
        projection: fitted to them.
        dynamics: fitted to them, or as it was given to `romkit.sample`.
        history: `estimate` (round, candidate), the estimated error of each fit, with the contexts
            of the candidates as coordinates; `entered` (candidate), the round whose fit was the
            first with a candidate, -1 for none.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0, duration=0.5)
        >>> found = romkit.sample(system, budget=3, candidates=7, latent_dim=4)
        >>> found.data.sizes["trajectory"], found.projection.latent_dim, int(found.history.entered.max())
        (3, 4, 1)
    """

    data: xr.Dataset
    projection: Projection
    dynamics: LatentDynamics | None
    history: xr.Dataset

    @property
    def contexts(self) -> dict[str, np.ndarray]:
        """Values of the chosen contexts by name, as `system.dataset(**contexts)` takes them."""
        return {name: self.data[name].values for name in context_names(self.data)}

    def __repr__(self) -> str:
        return f"Sample({', '.join(f'{name} {values.tolist()}' for name, values in self.contexts.items())})"


@validated
def sample(
    source: System | xr.Dataset,
    budget: Annotated[int, Ge(2)] = 8,
    method: Annotated[str, checks.choice(DESIGNS)] | None = None,
    *,
    projection: object = "pod",
    dynamics: LatentDynamics | Estimator | None = None,
    tolerance: NotNegative = 0.0,
    at_once: Count = 1,
    candidates: Count | Mapping[str, object] = 100,
    system: System | None = None,
    windows: Count = 5,
    seed: Seed = 0,
    folder: FilePath = "runs/sample",
    executor: Pool | None = None,
    **settings: object,
) -> Sample:
    """Choose contexts, simulate them, and fit a reduced model to them.

    The greedy method fits the model to the contexts so far, at first the corners of the range where
    the budget has more (else two at opposite ends, three if laws are bootstrapped). It estimates its
    error at all candidates (`romkit.error_estimate`), simulates where the estimate is largest, and
    trains on from the last weights. The other methods choose all contexts before the first simulation. No choice looks at
    the truth of a candidate. The estimates of a round cost ten steps of the full model at each of
    the candidates, a simulation of a thousand steps for a hundred of them (see `windows`). Data
    without equations are judged by the disagreement of an ensemble: of `seeds=range(3)`, or else of
    bootstraps of the law. Estimates are in units of `nrmse`, by one factor for all, from the errors
    at the contexts of the fit, which are known.

    Simulations and trainings are kept in the folder: a call that was interrupted goes on, and one
    with a larger budget computes what is new.

    Args:
        source: a system; or a dataset, whose trajectories are the candidates, and nothing is
            simulated.
        budget: largest number of contexts, two or more.
        method: "greedy"; "uniform" or "chebyshev", grids of at most so many points; "sobol" or
            "random". Of a dataset, the trajectories nearest to these points are taken. By default
            "greedy" for one parameter, or with a tolerance, and "uniform" for several, where
            greedy choice was less accurate than a grid.
        projection: method of `romkit.fit`.
        dynamics: of rollouts at the candidates, by default as of `romkit.rollout`; or settings of a
            law, `SINDy()` say, which is fitted anew in each round.
        tolerance: greedy choice ends as soon as no estimate exceeds it.
        at_once: number of contexts that greedy choice simulates at a time, apart from each other.
        candidates: of a system: number of points of a grid of contexts where the error is
            estimated, or contexts by name, `{"F": [3.14, 3.15, 3.18]}`.
        system: whose equations the estimate evaluates, of data that do not name it.
        windows: of the full model on the path at each candidate, of two steps each, by which the
            error is estimated.
        seed: of random points, and of fits.
        folder: of simulations and trainings, one for each system; it is made.
        executor: simulates contexts, and follows pieces of the candidates, in other processes,
            which must see the folder; `concurrent.futures`, submitit and dask have some.
        **settings: of `romkit.fit`: `latent_dim=2`, `epochs=100`. With a number of modes as
            `basis`, each round has a basis of its own, and its training starts anew.

    Raises:
        InputError: a source without contexts, an unknown method, candidates beyond the range of the
            system, or a simulation that fails.

    Source: Prud'homme et al. (2002), Reliable real-time solution of parametrized partial differential equations:
    reduced-basis output bound methods, for greedy choice.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0, duration=0.5)
        >>> found = romkit.sample(system, budget=3, candidates=7, latent_dim=4)
        >>> found.contexts["F"][:2].round(3).tolist(), dict(found.history.estimate.sizes)
        ([3.133, 3.193], {'round': 2, 'candidate': 7})
        >>> romkit.sample(system, 3, "chebyshev", candidates=7, latent_dim=4).contexts["F"].round(3).tolist()
        [3.137, 3.163, 3.189]
    """
    simulates, (kind, sizes) = isinstance(source, System), method_of("projection", projection)
    judge = system or (source if simulates else system_of(source))
    if judge is None and not isinstance(dynamics, Estimator):
        expected, fix = (
            "settings of a law, for data without equations",
            "give SINDy(), say, or system=...",
        )
        raise InputError("dynamics", expected=expected, got=checks.shown(dynamics), fix=fix)
    names, low, high, grid = _candidates(source, candidates)
    first = (
        3 if judge is None and "seeds" not in settings else 2
    )  # bootstraps need three trajectories
    if method is None:
        method = "uniform" if len(names) > 1 and tolerance == 0.0 else "greedy"
    corners = 2 ** len(names)
    first = corners if first <= corners < budget else min(first, budget)
    points = design(method, len(names), first if method == "greedy" else budget, seed)
    if simulates and method != "greedy":
        grid = np.concatenate([low + points * (high - low), grid])
    places = (grid - low) / np.where(high > low, high - low, 1.0)
    folder = expanded(folder).absolute()
    make_folder(folder)
    model, kept, estimates, entered, chosen = None, {}, [], np.full(len(grid), -1), []
    new = nearest(places, points[: len(grid)])
    with runtime.track(range(min(budget, len(grid))), "contexts") as bar:
        while new:
            entered[new], chosen = len(estimates), chosen + new
            if simulates:
                rows = [
                    (source, dict(zip(names, row, strict=True)), folder)
                    for row in grid[chosen].tolist()
                ]
                parts = mapped(_simulated, rows, executor, "simulations")
                data = xr.concat(parts, "trajectory", combine_attrs="drop_conflicts")
                starts = data.isel(trajectory=_distance(places, places[chosen]).argmin(1))
            else:
                data, starts = source.isel(trajectory=chosen), source
            if (
                kind.trained
            ):  # the name of a training holds that of the training whose weights it begins with
                facts = f"{kept} {digest(data)} {kind.__qualname__} {sizes} {settings} {seed}"
                kept = {"checkpoint": folder / hashlib.sha256(facts.encode()).hexdigest()[:16]}
            start = None if isinstance(settings.get("basis"), int) else model
            model = fit(kind.with_sizes(**sizes), data, seed=seed, start=start, **kept, **settings)
            law = (
                dynamics.fit(model, data, seed=seed)
                if isinstance(dynamics, Estimator)
                else dynamics
            )
            followed = functools.partial(follow, model, dynamics=law, system=judge)
            if judge is None:
                followed = (
                    Ensemble(model, law)
                    if model.seeds
                    else bootstrap(model, dynamics, data, seed=seed)
                ).follow
            contexts = {
                name: ("trajectory", grid[:, k], data[name].attrs) for k, name in enumerate(names)
            }
            judged = functools.partial(_estimate, followed, judge, windows)
            estimate = _in_pieces(judged, starts.assign_coords(contexts), executor)
            with np.errstate(divide="ignore", invalid="ignore"):
                estimate *= np.nanmedian(
                    score(data, followed(data))["nrmse"].mean("time").values / estimate[chosen]
                )
            estimates.append(np.nan_to_num(estimate, nan=LOST, posinf=LOST))
            bar.update(len(new))
            left = budget - len(chosen) if method == "greedy" else 0
            new = _worst(
                np.where(estimates[-1] > tolerance, estimates[-1], 0.0),
                places,
                chosen,
                min(at_once, left),
            )
    named = {"units": "1", "long_name": "estimated error"}
    found = {
        "estimate": (("round", "candidate"), np.stack(estimates), named),
        "entered": ("candidate", entered),
    }
    history = xr.Dataset(
        found, {name: ("candidate", *values[1:]) for name, values in contexts.items()}
    )
    return Sample(data, model, law, history)


def _candidates(source: System | xr.Dataset, given: int | Mapping[str, object]) -> tuple:
    """Names of the parameters, ends of their ranges (p,), and contexts of the candidates (N, p)."""
    measured = isinstance(source, xr.Dataset)
    names = context_names(check_states(source)) if measured else source.context_names
    if not names or (measured and context_matrix(source).ndim == 3):
        expected, fix = (
            "a system, or trajectories, with contexts that stay",
            "romkit.fit needs no choice of them",
        )
        raise InputError("source", expected=expected, got=", ".join(names) or "no context", fix=fix)
    if measured:
        grid = context_matrix(source)
        return names, grid.min(0), grid.max(0), grid
    low, high = np.array([(each.low, each.high) for each in source.context]).T
    if isinstance(given, int):
        return names, low, high, low + design("uniform", len(names), given, 0) * (high - low)
    grid = context_array(names, given).reshape(-1, len(names))
    for name, *ends, values in zip(names, low, high, grid.T, strict=True):
        if values.min() < ends[0] or values.max() > ends[1]:
            got, expected = (
                f"{values.min():g} to {values.max():g}",
                f"{name} within {ends[0]:g} to {ends[1]:g}",
            )
            raise InputError(
                "candidates", expected=expected, got=got, fix="leave those beyond the range out"
            )
    return names, low, high, grid


def design(method: str, p: int, number: int, seed: int) -> np.ndarray:
    """(at most `number`, p) points from 0 to 1; those that greedy choice begins with."""
    if method == "greedy":
        # two ends of a diagonal say nothing about what a second parameter does
        if p > 1 and number == 2**p:
            return np.stack(np.meshgrid(*[[0.0, 1.0]] * p, indexing="ij"), axis=-1).reshape(-1, p)
        return np.linspace(0.0, 1.0, number)[:, None].repeat(p, axis=1)
    if method == "random":
        return np.random.default_rng(seed).random((number, p))
    if method == "sobol":
        return qmc.Sobol(p, seed=np.random.default_rng(seed)).random_base2(
            math.ceil(math.log2(number))
        )[:number]
    counts = [1] * p
    while free := [
        k for k in range(p) if math.prod(counts) // counts[k] * (counts[k] + 1) <= number
    ]:
        counts[min(free, key=counts.__getitem__)] += 1
    axes = [(1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2 for count in counts]
    if method == "uniform":
        axes = [np.linspace(0, 1, count) if count > 1 else np.array([0.5]) for count in counts]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, p)


def nearest(places: np.ndarray, points: np.ndarray) -> list[int]:
    """Candidate nearest to each point, each once."""
    found = []
    for apart in _distance(places, points).T:
        apart[found] = np.inf
        found.append(int(apart.argmin()))
    return found


def _distance(places: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(N, k) distances of places (N, p) from points (k, p)."""
    return np.linalg.norm(places[:, None] - points, axis=-1)


def _worst(estimate: np.ndarray, places: np.ndarray, chosen: list[int], number: int) -> list[int]:
    """Candidates of the largest estimates, times the distance from those of the same round; far
    ones among equals.
    """
    apart, found = _distance(places, places[chosen]).min(1), []
    value = estimate * (apart > 0) * (1 + 1e-9 * apart)
    while len(found) < number and value.any():
        found.append(int(value.argmax()))
        value = value * _distance(places, places[found[-1:]])[:, 0]
    return found


def _simulated(system: System, context: dict[str, float], folder: Path) -> xr.Dataset:
    """Trajectory at a context; from the folder, if it is there."""
    facts = {key: value for key, value in system.provenance().items() if key != "versions"}
    name = hashlib.sha256(f"{facts} {context} {system.duration}".encode()).hexdigest()[:16]
    file = folder / f"{system.name}-{name}.nc"
    if not file.exists():
        save_dataset(system.dataset(**context), file)
    return open_dataset(file)


def _in_pieces(
    function: Callable[[xr.Dataset], np.ndarray], data: xr.Dataset, executor: Pool | None
) -> np.ndarray:
    """function(data) (C,), of some trajectories at a time, as many as memory holds."""
    number, size = data.sizes["trajectory"], math.prod(data["state"].shape[1:])
    step = max(1, min(math.ceil(number / (PIECES if executor else 1)), NUMBERS // size))
    pieces = [(data.isel(trajectory=slice(k, k + step)),) for k in range(0, number, step)]
    return np.concatenate(mapped(function, pieces, executor, "candidates"))


def _estimate(
    followed: Callable[..., xr.Dataset], system: System | None, windows: int, data: xr.Dataset
) -> np.ndarray:
    """Estimated errors (C,) of rollouts from the first states of trajectories, means over time."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ExtrapolationWarning
        )  # candidates are beyond what the model was trained on
        run = followed(data)
    steps = run.sizes["time"] - 1
    windows = max(1, min(windows, steps // 4))
    share = (2 * windows + 0.5) / steps  # two steps for each
    return error_estimate(run, system, windows=windows, share=share)["error"].mean("time").values
