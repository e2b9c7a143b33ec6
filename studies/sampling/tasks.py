"""Errors of reduced models over the number of contexts that they were fitted to, by ways to choose
these.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from scipy.stats import qmc, spearmanr

import romkit
from romkit.bases import Basis
from romkit.core.files import make_folder
from romkit.integrators import Galerkin
from romkit.laws import Steady
from romkit.projections import Projection, unstack
from romkit.solvers import RK4
from romkit.systems import Burgers2D, CylinderWake, System
from romkit.verbs.sample import DESIGNS, design, nearest
from studies.runner import Numbers, Study, frozen
from studies.symmetry.tasks import KINDS, simulated
from studies.symmetry.tasks import STEP as INTERVAL
from studies.wake.data import EVERY, TRAIN, UNSEEN, compute, opened, snapshots, stored
from studies.wake.reduced import (
    LAST,
    LENGTH,
    STEP,
    DragLift,
    Reduced,
    behind,
    cycle,
    follow,
    linear,
)
from studies.wake.tasks import basis, through
from studies.wake.tasks import coordinates as runs

FOLDER = "runs/sampling/contexts"
"""Simulations that all methods and seeds share."""

RANK, MODES = 32, 64
"""Modes of the wake: all that its truth has here, and those in front of an NcAE, as in
studies/wake; most of them.
"""

FIVE = (52.0, 70.0, 100.0, 130.0, 150.0)
"""Runs of studies/wake next to a Chebyshev grid from the onset of shedding, at 49, to 150."""


class Case(NamedTuple):
    """Candidates and unseen trajectories of a system, by seed, and the reduced model that is
    fitted.
    """

    system: System
    candidates: xr.Dataset
    unseen: xr.Dataset
    settings: dict[str, object]


def ncae_sizes(rank: int) -> dict[str, object]:
    """Return sizes of the NcAE of the wake behind so many modes."""
    return {"layers": (3, 12, 24, rank), "embedding": (1, 8, 8, 8)}


def wake(seed: int, number: int = 24, unseen: int = 16) -> Case:
    """Shedding on its limit cycle, 0.8 s or two periods and a half, of POD-Galerkin with 32 modes,
    the truth here.
    """
    system, known = through(RANK), runs((*TRAIN, *UNSEEN), RANK)
    places = np.random.default_rng(seed).random(number)
    places[[0, -1]] = 0.0, 1.0  # so that all have the ends of the range
    places = np.concatenate(
        [(np.arange(number) + places) / number, (np.arange(unseen) + 0.5) / unseen]
    )
    reynolds = 55 + 95 * places
    near = np.abs(known["Re"].values - reynolds[:, None]).argmin(1)
    start = known["state"].values[near, -1].astype(float)
    run = romkit.simulate(system, Re=reynolds, initial_state=start, duration=20.8, dt=0.016)
    run = run.isel(time=slice(-51, None))
    run = run.assign_coords(time=run["time"] - run["time"][0])
    parts = run.isel(trajectory=slice(number)), run.isel(trajectory=slice(number, None))
    return Case(system, *parts, {"latent_dim": 24})


def burgers(seed: int, cells: int = 12, number: int = 20, rank: int = 24) -> Case:
    """Shocks over 25 s; candidates are the corners of the range and points of low discrepancy, as
    unseen ones are.
    """
    system = Burgers2D(cells=cells, dt=0.5)
    low, high = (
        np.array([getattr(each, end) for each in system.context]) for end in ("low", "high")
    )
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    inner, unseen = (
        qmc.Sobol(2, seed=np.random.default_rng(s)).random_base2(6)[:k]
        for s, k in ((seed, number), (1000, 16))
    )
    mu1, mu2 = (low + np.concatenate([corners, inner, unseen]) * (high - low)).T
    run = system.dataset(mu1=mu1, mu2=mu2)
    parts = run.isel(trajectory=slice(-16)), run.isel(trajectory=slice(-16, None))
    return Case(system, *parts, {"latent_dim": rank, "basis": rank})


CASES: dict[str, Callable[[int], Case]] = {
    "wake": wake,
    "burgers": burgers,
    "burgers with 48 modes": functools.partial(burgers, rank=48),
    "small burgers": functools.partial(burgers, cells=6, number=8, rank=10),
}


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset."""
    found = []
    for title, row in Study("sampling").presets[preset].items():
        function = f"studies.sampling.tasks:{row.pop('function')}"
        if not function.endswith("curves"):
            found.append(Numbers(title, function, frozen(row)))
            continue
        seeds = range(row.pop("seeds"))
        found += [
            Numbers(f"{title}, seed {seed}", function, frozen(row | {"seed": seed}))
            for seed in seeds
        ]
    return found


def errors(case: Case, model: Projection, data: xr.Dataset) -> np.ndarray:
    """(C,) mean over time of the errors of rollouts."""
    return (
        romkit.score(data, romkit.follow(model, data, system=case.system))["nrmse"]
        .mean("time")
        .values
    )


def curves(case: str, numbers: Sequence[int], more: Sequence[int], seed: int) -> dict[str, object]:
    """Return errors at unseen contexts (number, context) by method, chosen contexts, and what the
    estimate is worth.

    Beside the methods of `romkit.sample`, "true error" is greedy choice by the error itself, which
    no user has, and "all candidates" is the model that is fitted to all of them.
    """
    now = CASES[case](seed)
    fitted = lambda data: romkit.fit("pod", data, **now.settings)  # noqa: E731
    settings = {
        "projection": "pod",
        "system": now.system,
        "seed": seed,
        "folder": FOLDER,
        **now.settings,
    }
    greedy = romkit.sample(now.candidates, numbers[-1], "greedy", **settings)
    entered = greedy.history["entered"].values
    order = [int(k) for k in np.argsort(entered, kind="stable") if entered[k] >= 0]
    true, first = [], order[:2]
    strong = list(first)
    while len(strong) < numbers[-1]:
        found = errors(now, fitted(now.candidates.isel(trajectory=strong)), now.candidates)
        strong.append(int(np.where(np.isin(np.arange(len(found)), strong), -1.0, found).argmax()))
    for number in numbers:
        true.append(
            errors(now, fitted(now.candidates.isel(trajectory=order[:number])), now.candidates)
        )
    judged = [greedy.history["estimate"].values[number - 2] for number in numbers]
    chosen = {
        "greedy": [order[:number] for number in numbers],
        "true error": [strong[:number] for number in numbers],
    }
    c = romkit.data.context_matrix(now.candidates)
    places = (c - c.min(0)) / np.ptp(c, axis=0)
    for method in DESIGNS[1:]:
        chosen[method] = [
            nearest(places, design(method, places.shape[1], number, seed))
            for number in (*numbers, *more)
        ]
    chosen["all candidates"] = [list(range(len(c)))]
    unseen = {
        method: [
            errors(now, fitted(now.candidates.isel(trajectory=rows)), now.unseen).tolist()
            for rows in several
        ]
        for method, several in chosen.items()
    }
    correlation = [float(spearmanr(*pair)[0]) for pair in zip(true, judged, strict=True)]
    facts = {
        "numbers": [*numbers, *more],
        "contexts": c.tolist(),
        "chosen": chosen,
        "errors": unseen,
    }
    return facts | {
        "rank correlation": correlation,
        "true errors": [each.tolist() for each in true],
    }


def waves(
    kind: str, numbers: Sequence[int], symmetry: bool, seeds: int, steps: int, unseen: int = 8
) -> dict:
    """Return errors (seed, context) at unseen forcings by dynamics and number of contexts, of NcAEs
    with two coordinates.

    Args:
        kind: of waves, from studies/symmetry.
        numbers: of contexts, in Chebyshev grids.
        symmetry: whether shifts are factored out: then one coordinate is the phase, and `Steady` is
            a second dynamics.
        seeds: of the NcAEs.
        steps: of the optimizer, for each number nearly the same.
        unseen: number of forcings.
    """
    system, train, _ = KINDS[kind]
    at = lambda places: train.min() + np.ptp(train) * places  # noqa: E731
    truth = simulated(system, at((np.arange(unseen) + 0.5) / unseen), 60.0)
    sizes = {"symmetry": "shift", "latent_dim": 1} if symmetry else {"latent_dim": 2}
    found = {name: [] for name in ("Galerkin", *(["law"] if symmetry else []))}
    for number in numbers:
        data = simulated(system, at(design("chebyshev", 1, number, 0)[:, 0]), 60.0)
        epochs = max(1, round(steps * 256 / (number * data.sizes["time"])))
        training = {"epochs": epochs, "batch_size": 256, "engine": "torch", "verbose": False}
        stack = romkit.fit("ncae", data, seeds=range(seeds), **training, **sizes)
        for name in found:
            dynamics = Galerkin() if name == "Galerkin" else Steady().fit(stack, data)
            run = romkit.follow(
                stack, truth, dynamics=dynamics, system=system, solver=RK4(INTERVAL)
            )
            found[name].append(romkit.score(truth, run)["nrmse"].mean("time").values.tolist())
    return {"numbers": list(numbers), "symmetry": symmetry, "waves": found}


def five(choice: str, seeds: int, epochs: int, budget: int = 5) -> dict[str, object]:
    """Strouhal number and largest lift (seed, Re) of NcAEs on five of the ten training runs of
    studies/wake.

    Args:
        choice: method of `romkit.sample`; each round of greedy choice trains for a fifth of the
            epochs.
        seeds: of the NcAEs that are measured, on the chosen runs.
        epochs: of their training.
        budget: number of runs.
    """
    data, system, sizes = runs(TRAIN, RANK).astype(float), through(RANK), ncae_sizes(RANK)
    training = {"batch_size": 256, "engine": "torch", **sizes}
    given = {
        "system": system,
        "projection": "ncae",
        "epochs": max(1, epochs // 5),
        "folder": FOLDER,
    }
    kept = data.isel(time=slice(-LAST, None))  # the estimate is that of rollouts on the orbit
    chosen = romkit.sample(kept, budget, choice, **given, **training).contexts["Re"].tolist()
    stack = romkit.fit("ncae", runs(chosen, RANK), seeds=range(seeds), epochs=epochs, **training)
    return shedding(
        [behind(system, model.double(), Galerkin()) for model in unstack(stack)],
        basis(RANK),
        chosen,
    )


def filled(rank: int, between: Sequence[float], seeds: int, epochs: int) -> dict[str, object]:
    """Return the same of NcAEs on five full runs and on runs of a reduced model between them; of
    the latter, without seeds.

    Nothing here knows of other full runs: modes, tensors and starts are those of the five.

    Args:
        rank: number of modes in front of the NcAE; reduced runs have all.
        between: Reynolds numbers of the reduced runs.
        seeds: of the NcAEs; with none, the reduced model itself is measured.
        epochs: of their training.
    """
    modes, data = five_runs()
    part = modes.truncated(rank)
    system = CylinderWake().through(part)
    if not seeds:
        return shedding([linear(system)], part, FIVE)
    near = np.abs(data["Re"].values - np.array(between)[:, None]).argmin(1)
    given = {
        "initial_state": data["state"].values[near, 0],
        "duration": data["time"].values[-1],
        "dt": STEP,
    }
    reduced = romkit.simulate(CylinderWake().through(modes), Re=list(between), **given)
    data = xr.concat([data, reduced], "trajectory", join="override", combine_attrs="drop_conflicts")
    data = data.isel(component=slice(rank))
    training = {"batch_size": 256, "engine": "compiled", **ncae_sizes(rank)}
    stack = romkit.fit("ncae", data, seeds=range(seeds), epochs=epochs, **training)
    return shedding(
        [behind(system, model.double(), Galerkin()) for model in unstack(stack)], part, FIVE
    )


@functools.cache
def five_runs() -> tuple[Basis, xr.Dataset]:
    """Modes of five full runs, and their coordinates; two minutes for each run that is not in
    runs/wake.
    """
    for reynolds in FIVE:
        if not stored(reynolds).exists():
            make_folder(stored(reynolds).parent)
            compute(reynolds)
    modes = romkit.basis(snapshots(FIVE), MODES, CylinderWake().weight)
    parts = [
        modes.project(opened(reynolds).load()).isel(time=slice(None, None, EVERY))
        for reynolds in FIVE
    ]
    return modes, xr.concat(parts, "trajectory", combine_attrs="override")


def shedding(models: Sequence[Reduced], modes: Basis, chosen: Sequence[float]) -> dict[str, object]:
    """Strouhal number and largest lift (model, Re) at the unseen Reynolds numbers, by rollouts on
    the orbit.
    """
    truth, forces, found = runs(UNSEEN, MODES), DragLift.of(modes), []
    y, c = (torch.from_numpy(truth[name].values).double() for name in ("state", "Re"))
    starts = modes.encode(basis(MODES).decode(y[:, -LAST]))
    for model in models:
        with torch.no_grad():
            bound = model(c.unsqueeze(-1))
            states = bound.decode(follow(bound, starts, LENGTH, rtol=1e-6).states[:, -LAST:])
            lift = forces(states, c[:, None, None])[..., 1].numpy()
        found.append([cycle(each) for each in lift])
    full = [cycle(each) for each in truth["lift"].values]
    facts = {
        name: [[each[k] for each in cycles] for cycles in found]
        for k, name in enumerate(("Strouhal", "lift"))
    }
    return facts | {"Re": list(UNSEEN), "full": full, "chosen": list(chosen)}
