"""`romkit.sample`: contexts to simulate, or runs to train on, each where the reduced model so far
errs most.
"""

import functools
import hashlib
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import xarray as xr
from annotated_types import Ge
from scipy.stats import qmc

from romkit.core import checks, runtime
from romkit.core.boundary import Count, FilePath, NotNegative, Seed, Share, validated
from romkit.core.errors import ExtrapolationWarning, InputError
from romkit.core.files import expanded, make_folder
from romkit.core.parallel import PIECES, Pool, mapped
from romkit.core.types import Array, Entries, NameSequence, Settings, Variables, frozen
from romkit.data import (
    check_states,
    context_matrix,
    context_names,
    open_dataset,
    save_dataset,
)
from romkit.data.contexts import context_array, ends_of
from romkit.integrators import LatentDynamics
from romkit.laws import Estimator
from romkit.projections import Projection
from romkit.systems import System, system_of
from romkit.verbs.bootstrap import bootstrap
from romkit.verbs.compare import digest
from romkit.verbs.ensemble import NUMBERS, Ensemble
from romkit.verbs.estimate import error_estimate
from romkit.verbs.fit import find_method, fit
from romkit.verbs.follow import follow
from romkit.verbs.score import score

DESIGNS = ("greedy", "uniform", "chebyshev", "expanded", "sobol", "random")
"""Ways to choose contexts: by estimates, three kinds of grid, points of low discrepancy, and random
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
        >>> system = romkit.systems.Lorenz96(n=8, transient=0.0, duration=0.2)
        >>> found = romkit.sample(system, 3, "greedy", candidates=4, latent_dim=4)
        >>> found.data.sizes["trajectory"], found.projection.latent_dim, int(found.history.entered.max())
        (3, 4, 1)
    """

    data: xr.Dataset
    projection: Projection
    dynamics: LatentDynamics | None
    history: xr.Dataset

    @property
    def contexts(self) -> dict[str, Array]:
        """Values of the chosen contexts by name, as `system.dataset(**contexts)` takes them."""
        return {name: self.data[name].values for name in context_names(self.data)}

    def __repr__(self) -> str:
        values = [f"{name} {column.tolist()}" for name, column in self.contexts.items()]
        return f"Sample({', '.join(values)})"


@validated
def sample(
    source: System | xr.Dataset,
    budget: Annotated[int, Ge(2)] = 8,
    method: Annotated[str, checks.choice(DESIGNS)] | None = None,
    *,
    projection: object = "pod",
    dynamics: LatentDynamics | Estimator | None = None,
    tolerance: NotNegative = 0.0,
    plateau: Count | None = None,
    min_decrease: Share = 0.0,
    at_once: Count = 1,
    candidates: Count | Settings = 100,
    system: System | None = None,
    windows: Count = 5,
    seed: Seed = 0,
    folder: FilePath = "runs/sample",
    executor: Pool | None = None,
    **settings: object,  # of `fit`, so that no name above may be one of its settings
) -> Sample:
    """Choose contexts, simulate them, and fit a reduced model to them.

    The methods choose all contexts before the first simulation, but for the greedy one. That fits
    the model to the contexts so far, at first the corners of the range where the budget has more
    (else two at opposite ends, three if laws are bootstrapped). It estimates its error at all
    candidates (`romkit.error_estimate`), simulates where the estimate is largest, and trains on from
    the last weights. No choice looks at the truth of a candidate.

    The estimates of a round cost ten steps of the full model at each of the candidates, a simulation
    of a thousand steps for a hundred of them (see `windows`). Data without equations are judged by
    the disagreement of an ensemble: of `seeds=range(3)`, or else of bootstraps of the law. Estimates
    are in units of `nrmse`, by one factor for all, from the errors at the contexts of the fit, which
    are known.

    Simulations and trainings are kept in the folder: a call that was interrupted goes on, and one
    with a larger budget computes what is new.

    Args:
        source: a system; or a dataset, whose trajectories are the candidates, and nothing is
            simulated.
        budget: largest number of contexts, two or more.
        method: "greedy"; "uniform", "chebyshev" or "expanded", grids of at most so many points, the
            last of Chebyshev points that are stretched to the ends of the range; "sobol" or
            "random". Of a dataset, the trajectories nearest to these points are taken. By default
            "greedy" with a tolerance, a plateau, or several at once; else "expanded" for one
            parameter, or for a budget below 2^p, and "chebyshev" for p parameters.
        projection: method of `romkit.fit`.
        dynamics: of rollouts at the candidates, by default as of `romkit.rollout`; or settings of a
            law, `SINDy()` say, which is fitted anew in each round.
        tolerance: greedy choice ends as soon as no estimate at the contexts that are left exceeds it.
        plateau: greedy choice ends as soon as this number of contexts has not lowered the estimated
            error, `history.estimate.max("candidate")`, by more than the share `min_decrease`. The
            lowest error over these contexts is compared with the lowest before them. There is no
            plateau where each round before them lost a rollout. By default no plateau ends it.
        min_decrease: share of the error, from 0 to 1, by which it falls where it is on no plateau.
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
            system, a tolerance or a plateau without greedy choice, `min_decrease` without a plateau,
            or a simulation that fails.

    Source: Prud'homme et al. (2002), Reliable real-time solution of parametrized partial
    differential equations: reduced-basis output bound methods, for greedy choice; Brutman (1978), On
    the Lebesgue function for polynomial interpolation, for expanded Chebyshev points.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(n=8, transient=0.0, duration=0.2)
        >>> found = romkit.sample(system, 3, "greedy", candidates=4, latent_dim=4)
        >>> found.contexts["F"][:2].round(3).tolist(), dict(found.history.estimate.sizes)
        ([3.133, 3.193], {'round': 2, 'candidate': 4})
        >>> romkit.sample(system, 3, candidates=4, latent_dim=4).contexts["F"].round(3).tolist()
        [3.133, 3.163, 3.193]
    """
    names, low, high, grid = _candidates(source, candidates)
    stopping = Stopping(tolerance, plateau, min_decrease)
    method = _checked_method(method, len(names), budget, stopping, at_once)
    # system by whose equations errors are estimated; None where laws are fitted in each round
    judge = system
    if judge is None:
        judge = source if isinstance(source, System) else system_of(source)
    if judge is None and not isinstance(dynamics, Estimator):
        raise InputError(
            "dynamics",
            expected="settings of a law, for data without equations",
            got=checks.shown(dynamics),
            fix="give SINDy(), say, or system=...",
        )
    number = budget
    if method == "greedy":
        number = _first_number(len(names), budget, judge, settings)
    points = design(method, len(names), number, seed)
    if isinstance(source, System) and method != "greedy":
        grid = np.concatenate([low + points * (high - low), grid])
    places = (grid - low) / np.where(high > low, high - low, 1.0)
    kind, sizes = find_method("projection", projection)
    folder = expanded(folder).absolute()
    make_folder(folder)
    plan = Plan(
        source=source,
        budget=min(budget, len(grid)),
        method=method,
        kind=kind,
        sizes=sizes,
        dynamics=dynamics,
        stopping=stopping,
        at_once=at_once,
        judge=judge,
        windows=windows,
        seed=seed,
        folder=folder,
        executor=executor,
        settings=settings,
        names=names,
        grid=grid,
        places=places,
        first=nearest(places, points[: len(grid)]),
    )
    rounds: list[Round] = []
    added = plan.first
    with runtime.track(range(plan.budget), "contexts") as bar:
        while added:
            rounds.append(_round(plan, rounds[-1] if rounds else None, added))
            bar.update(len(added))
            added = _next(plan, rounds)
    latest = rounds[-1]
    return Sample(latest.data, latest.model, latest.dynamics, _history(plan, rounds))


@dataclass(frozen=True)
class Stopping:
    """Rules that end greedy choice before the budget, as of `romkit.sample`."""

    tolerance: float
    plateau: int | None
    min_decrease: float

    def __post_init__(self) -> None:
        if self.plateau is None and self.min_decrease > 0.0:
            raise InputError(
                "plateau",
                expected="a number of contexts, with min_decrease",
                got="None",
                fix="give plateau=3, say",
            )

    @property
    def early(self) -> bool:
        """Whether the choice may end before the budget."""
        return self.tolerance > 0.0 or self.plateau is not None

    def stagnates(self, errors: Array, counts: Array) -> bool:
        """Tell whether errors (R,) of rounds with so many contexts have not fallen by more than the
        share over the last `plateau` contexts.
        """
        if self.plateau is None:
            return False
        before = counts <= counts[-1] - self.plateau
        if not before.any():
            return False
        # an error that rises for a round and then falls further is no plateau: lowest errors count
        lowest_before = errors[before].min()
        lowest_since = errors[~before].min()
        if lowest_before >= LOST:
            # fewer candidates may be lost than before, which the largest error does not show
            return False
        return bool(lowest_since >= (1.0 - self.min_decrease) * lowest_before)

    def excess(self, estimate: Array) -> Array:
        """Estimates (N,) where they exceed the tolerance; 0 where no simulation is worth its cost."""
        return np.where(estimate > self.tolerance, estimate, 0.0)


@frozen
class Plan:
    """A call of `romkit.sample`, checked.

    Attributes:
        source: system, or trajectories that are there.
        budget: largest number of contexts; there may be fewer candidates.
        method: of choosing them.
        kind, sizes: class of the projection, and its sizes.
        dynamics: of rollouts, or settings of a law.
        stopping: rules that may end greedy choice before the budget.
        at_once, windows, seed, executor, settings: as of `romkit.sample`.
        judge: system by whose equations errors are estimated; None for the disagreement of an
            ensemble.
        folder: of simulations and trainings.
        names: of the p parameters.
        grid: (N, p) contexts of the candidates; for a grid of a system, its points come first.
        places: (N, p) the same, from 0 to 1.
        first: candidates of the first round.
    """

    source: System | xr.Dataset
    budget: int
    method: str
    kind: type[Projection]
    sizes: Entries
    dynamics: LatentDynamics | Estimator | None
    stopping: Stopping
    at_once: int
    judge: System | None
    windows: int
    seed: int
    folder: Path
    executor: Pool | None
    settings: Entries
    names: NameSequence
    grid: Array
    places: Array
    first: list[int]

    def coords(self, dim: str, data: xr.Dataset) -> Variables:
        """Return contexts of the candidates as coordinates, with the attributes of data."""
        return {n: (dim, self.grid[:, k], data[n].attrs) for k, n in enumerate(self.names)}


@frozen
class Round:
    """A model of the contexts so far, and its estimated errors.

    Attributes:
        chosen: candidates, in the order of their choice.

        data: their trajectories.
        model: fitted to them.
        dynamics: fitted to them, or as they were given.
        checkpoint: file of the training, whose name holds that of the round before; None without.
        estimate: (N,) errors at the candidates.

    """

    chosen: list[int]
    data: xr.Dataset
    model: Projection
    dynamics: LatentDynamics | None
    checkpoint: Path | None
    estimate: Array


def _checked_method(
    method: str | None, parameters: int, budget: int, stopping: Stopping, at_once: int
) -> str:
    """Return the method, or the default one; refused where a stopping rule would do nothing."""
    if method is None:
        if stopping.early or at_once > 1:
            return "greedy"
        return default_design(parameters, budget)
    if stopping.early and method != "greedy":
        raise InputError(
            "method",
            expected="greedy, which alone ends early",
            got=method,
            fix='leave tolerance and plateau out, or the method, which then is "greedy"',
        )
    return method


def _first_number(parameters: int, budget: int, judge: System | None, settings: Settings) -> int:
    """Return number of contexts that greedy choice begins with: the corners of the range if it may."""
    # laws are bootstrapped from three trajectories
    fewest = 3 if judge is None and "seeds" not in settings else 2
    corners = 2**parameters
    return corners if fewest <= corners < budget else min(fewest, budget)


def _round(plan: Plan, before: Round | None, new: list[int]) -> Round:
    """Fit to the contexts so far and these, and estimate errors at all candidates."""
    chosen = [*before.chosen, *new] if before is not None else new
    data, starts = _data(plan, before, chosen)
    checkpoint = _checkpoint(plan, before, data)
    kept = {} if checkpoint is None else {"checkpoint": checkpoint}
    start = None
    if before is not None and not isinstance(plan.settings.get("basis"), int):
        start = before.model  # a basis of its own would make its weights those of other coordinates
    kind = plan.kind.with_sizes(**plan.sizes)
    model = fit(kind, data, seed=plan.seed, start=start, **kept, **plan.settings)
    dynamics = plan.dynamics
    if isinstance(dynamics, Estimator):
        dynamics = dynamics.fit(model, data, seed=plan.seed)
    followed = _follower(plan, data, model, dynamics)

    judged = functools.partial(_estimate, followed, plan.judge, plan.windows)
    estimate = _map_pieces(
        judged, starts.assign_coords(plan.coords("trajectory", data)), plan.executor
    )
    errors = score(data, followed(data))["nrmse"].mean("time").values
    with np.errstate(divide="ignore", invalid="ignore"):
        # errors at the contexts of the fit are known: one factor gives estimates their unit
        estimate = estimate * np.nanmedian(errors / estimate[chosen])
    estimate = np.nan_to_num(estimate, nan=LOST, posinf=LOST)
    return Round(chosen, data, model, dynamics, checkpoint, estimate)


def _data(plan: Plan, before: Round | None, chosen: list[int]) -> tuple[xr.Dataset, xr.Dataset]:
    """Return trajectories of chosen contexts, and those whose first states rollouts at the
    candidates start from.
    """
    if isinstance(plan.source, xr.Dataset):
        return plan.source.isel(trajectory=chosen), plan.source
    runs = [] if before is None else [before.data]
    begin = 0 if before is None else len(before.chosen)
    rows = []
    for values in plan.grid[chosen[begin:]].tolist():
        context = dict(zip(plan.names, values, strict=True))
        rows.append((plan.source, context, plan.folder))
    runs += mapped(_simulated, rows, plan.executor, "simulations")
    data = xr.concat(runs, "trajectory", combine_attrs="drop_conflicts")
    closest = distance(plan.places, plan.places[chosen]).argmin(1)
    return data, data.isel(trajectory=closest)


def _checkpoint(plan: Plan, before: Round | None, data: xr.Dataset) -> Path | None:
    """File of a training; its name holds that of the training whose weights it begins with."""
    if not plan.kind.trained:
        return None
    kept = before and before.checkpoint
    facts = (
        f"{kept} {digest(data)} {plan.kind.__qualname__} {plan.sizes} {plan.settings} {plan.seed}"
    )
    return plan.folder / hashlib.sha256(facts.encode()).hexdigest()[:16]


def _follower(
    plan: Plan, data: xr.Dataset, model: Projection, dynamics: LatentDynamics | None
) -> Callable[..., xr.Dataset]:
    """Return function that follows trajectories by the model, or by an ensemble where no equations
    judge it.
    """
    if plan.judge is not None:
        return functools.partial(follow, model, dynamics=dynamics, system=plan.judge)
    if model.seeds:
        return Ensemble(model, dynamics).follow
    return bootstrap(model, plan.dynamics, data, seed=plan.seed).follow


def _next(plan: Plan, rounds: Sequence[Round]) -> list[int]:
    """Return candidates of the next round; none where the choice ends."""
    if plan.method != "greedy":
        return []
    errors = np.array([fitted.estimate.max() for fitted in rounds])
    counts = np.array([len(fitted.chosen) for fitted in rounds])
    if plan.stopping.stagnates(errors, counts):
        return []
    latest = rounds[-1]
    number = min(plan.at_once, plan.budget - len(latest.chosen))
    # there is none where no estimate is in excess
    return worst(plan.stopping.excess(latest.estimate), plan.places, latest.chosen, number)


def _history(plan: Plan, rounds: list[Round]) -> xr.Dataset:
    """Estimates of all rounds, and the round in which each candidate was chosen."""
    entered = np.full(len(plan.grid), -1)
    for k in reversed(range(len(rounds))):
        entered[rounds[k].chosen] = k
    estimates = np.stack([fitted.estimate for fitted in rounds])
    attrs = {"units": "1", "long_name": "estimated error"}
    variables = {
        "estimate": (("round", "candidate"), estimates, attrs),
        "entered": ("candidate", entered),
    }
    return xr.Dataset(variables, plan.coords("candidate", rounds[-1].data))


def _candidates(
    source: System | xr.Dataset, requested: int | Settings
) -> tuple[NameSequence, Array, Array, Array]:
    """Return names of the parameters, ends of their ranges (p,), and contexts of the candidates (N,
    p).
    """
    if isinstance(source, xr.Dataset):
        names = context_names(check_states(source))
        _check_contexts(names, names and context_matrix(source).ndim == 3)
        grid = context_matrix(source)
        return names, grid.min(0), grid.max(0), grid
    names = source.context_names
    _check_contexts(names, False)
    low, high = ends_of(source.context)
    if isinstance(requested, int):
        points = design("uniform", len(names), requested, 0)
        return names, low, high, low + points * (high - low)
    grid = context_array(names, requested).reshape(-1, len(names))
    for parameter, values in zip(source.context, grid.T, strict=True):
        smallest = values.min()
        largest = values.max()
        if smallest < parameter.low or largest > parameter.high:
            raise InputError(
                "candidates",
                expected=f"{parameter.name} within {parameter.low:g} to {parameter.high:g}",
                got=f"{smallest:g} to {largest:g}",
                fix="leave those beyond the range out",
            )
    return names, low, high, grid


def _check_contexts(names: NameSequence, moving: bool) -> None:
    """Refuse a source without contexts, or with contexts that move."""
    if names and not moving:
        return
    raise InputError(
        "source",
        expected="a system, or trajectories, with constant contexts",
        got=", ".join(names) or "no context",
        fix="romkit.fit needs no choice of them",
    )


def _simulated(system: System, context: dict[str, float], folder: Path) -> xr.Dataset:
    """Return trajectory at a context; from the folder, if it is there."""
    facts = dict(system.provenance())
    facts.pop("versions", None)
    text = f"{facts} {context} {system.duration}"
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    file = folder / f"{system.name}-{name}.nc"
    if not file.exists():
        save_dataset(system.dataset(**context), file)
    return open_dataset(file)


def _map_pieces(
    function: Callable[[xr.Dataset], Array], data: xr.Dataset, executor: Pool | None
) -> Array:
    """function(data) (C,), of some trajectories at a time, as many as memory holds."""
    number = data.sizes["trajectory"]
    size = math.prod(data["state"].shape[1:])
    count = PIECES if executor else 1
    step = max(1, min(math.ceil(number / count), NUMBERS // size))
    pieces = [(data.isel(trajectory=slice(k, k + step)),) for k in range(0, number, step)]
    return np.concatenate(mapped(function, pieces, executor, "candidates"))


def _estimate(
    followed: Callable[..., xr.Dataset], system: System | None, windows: int, data: xr.Dataset
) -> Array:
    """Estimated errors (C,) of rollouts from the first states of trajectories, means over time."""
    with warnings.catch_warnings():
        # candidates are beyond what the model was trained on
        warnings.simplefilter("ignore", ExtrapolationWarning)
        run = followed(data)
    steps = run.sizes["time"] - 1
    windows = max(1, min(windows, steps // 4))
    share = (2 * windows + 0.5) / steps  # two steps for each
    estimate = error_estimate(run, system, windows=windows, share=share)
    return estimate["error"].mean("time").values


# -- designs of points in the unit cube, and choices by estimates -------------------------------------


def default_design(parameters: int, budget: int) -> str:
    """Design that was never much less accurate than a grid (studies/sampling)."""
    # along one axis models err most beyond their outermost points; with a corner for each context,
    # in several dimensions, they err most in between
    if parameters == 1 or budget < 2**parameters:
        return "expanded"
    return "chebyshev"


def design(method: str, p: int, number: int, seed: int) -> Array:
    """(at most `number`, p) points from 0 to 1; those that greedy choice begins with."""
    if method == "greedy":
        # two ends of a diagonal say nothing about what a second parameter does
        if p > 1 and number == 2**p:
            return _product([np.array([0.0, 1.0])] * p)
        return np.linspace(0.0, 1.0, number)[:, None].repeat(p, axis=1)
    if method == "random":
        return np.random.default_rng(seed).random((number, p))
    if method == "sobol":
        sequence = qmc.Sobol(p, seed=np.random.default_rng(seed))
        return sequence.random_base2(math.ceil(math.log2(number)))[:number]
    return _product([AXES[method](count) for count in _counts(p, number)])


def _counts(p: int, number: int) -> list[int]:
    """Return numbers of points along p axes, as equal as their product allows, which is `number` at
    most.
    """
    counts = [1] * p
    while True:
        free = [
            k
            for k, count in enumerate(counts)
            if math.prod(counts) // count * (count + 1) <= number
        ]
        if not free:
            return counts
        counts[min(free, key=counts.__getitem__)] += 1


def _product(axes: Sequence[Array]) -> Array:
    """(N, p) points of a grid with these axes."""
    p = len(axes)
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, p)


def _uniform(count: int) -> Array:
    """Equal distances, with both ends; the middle if there is one point."""
    return np.linspace(0, 1, count) if count > 1 else np.array([0.5])


def _chebyshev(count: int) -> Array:
    """Roots of a Chebyshev polynomial."""
    angles = np.pi * (np.arange(count) + 0.5) / count
    return (1 - np.cos(angles)) / 2


def _expanded(count: int) -> Array:
    """Roots of a Chebyshev polynomial, stretched to both ends; the middle if there is one point."""
    roots = _chebyshev(count)
    if count == 1:
        return roots
    return (roots - roots[0]) / (roots[-1] - roots[0])


AXES = {"uniform": _uniform, "chebyshev": _chebyshev, "expanded": _expanded}
"""Points of a grid along one axis, from 0 to 1."""


def nearest(places: Array, points: Array) -> list[int]:
    """Candidate nearest to each point, each once."""
    chosen: list[int] = []
    for apart in distance(places, points).T:
        apart[chosen] = np.inf
        chosen.append(int(apart.argmin()))
    return chosen


def distance(places: Array, points: Array) -> Array:
    """(N, k) distances of places (N, p) from points (k, p)."""
    return np.linalg.norm(places[:, None] - points, axis=-1)


def worst(estimate: Array, places: Array, chosen: list[int], number: int) -> list[int]:
    """Return candidates of the largest estimates, times the distance from those of the same round;
    far ones among equals.
    """
    apart = distance(places, places[chosen]).min(1)
    value = estimate * (apart > 0) * (1 + 1e-9 * apart)
    entering: list[int] = []
    while len(entering) < number and value.any():
        entering.append(int(value.argmax()))
        # a second one beside the one just taken would learn little
        taken = places[entering[-1:]]
        value = value * distance(places, taken)[:, 0]
    return entering
