"""Errors of reduced models over the number of contexts that they were fitted to, by ways to choose these."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from scipy.stats import qmc, spearmanr

import romkit
from romkit.integrators import Galerkin
from romkit.projections import Projection, unstack
from romkit.systems import Burgers2D, System
from romkit.verbs.sample import DESIGNS, design, nearest
from studies.runner import Numbers, Study, frozen
from studies.wake.data import TRAIN, UNSEEN
from studies.wake.reduced import LAST, LENGTH, DragLift, behind, cycle, follow
from studies.wake.tasks import SIZES, basis, runs, through

FOLDER = "runs/sampling/contexts"
"""Simulations that all methods and seeds share."""

RANK = 32
"""Modes of the wake: all that its truth has here, and those in front of an NcAE, as in studies/wake."""


class Case(NamedTuple):
    """Candidates and unseen trajectories of a system, by seed, and the reduced model that is fitted."""

    system: System
    candidates: xr.Dataset
    unseen: xr.Dataset
    settings: dict[str, object]


def wake(seed: int, number: int = 24, unseen: int = 16) -> Case:
    """Shedding on its limit cycle, 0.8 s or two periods and a half, of POD-Galerkin with 32 modes, the truth here."""
    system, known = through(RANK), runs((*TRAIN, *UNSEEN), RANK)
    places = np.random.default_rng(seed).random(number)
    places[[0, -1]] = 0.0, 1.0  # so that all have the ends of the range
    places = np.concatenate([(np.arange(number) + places) / number, (np.arange(unseen) + 0.5) / unseen])
    reynolds = 55 + 95 * places
    near = np.abs(known["Re"].values - reynolds[:, None]).argmin(1)
    start = known["state"].values[near, -1].astype(float)
    run = romkit.simulate(system, Re=reynolds, initial_state=start, duration=20.8, dt=0.016)
    run = run.isel(time=slice(-51, None))
    run = run.assign_coords(time=run["time"] - run["time"][0])
    parts = run.isel(trajectory=slice(number)), run.isel(trajectory=slice(number, None))
    return Case(system, *parts, {"latent_dim": 24})


def burgers(seed: int, cells: int = 12, number: int = 20, rank: int = 24) -> Case:
    """Shocks over 25 s; candidates are the corners of the range and points of low discrepancy, as unseen ones are."""
    system = Burgers2D(cells=cells, dt=0.5)
    low, high = (np.array([getattr(each, end) for each in system.context]) for end in ("low", "high"))
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    inner, unseen = (
        qmc.Sobol(2, seed=np.random.default_rng(s)).random_base2(6)[:k] for s, k in ((seed, number), (1000, 16))
    )
    mu1, mu2 = (low + np.concatenate([corners, inner, unseen]) * (high - low)).T
    run = system.dataset(mu1=mu1, mu2=mu2)
    parts = run.isel(trajectory=slice(-16)), run.isel(trajectory=slice(-16, None))
    return Case(system, *parts, {"latent_dim": rank, "basis": rank})


CASES: dict[str, Callable[[int], Case]] = {
    "wake": wake,
    "burgers": burgers,
    "small burgers": functools.partial(burgers, cells=6, number=8, rank=10),
}


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset."""
    found = []
    for title, row in Study("sampling").presets[preset].items():
        function = f"studies.sampling.tasks:{row.pop('function')}"
        if function.endswith("five"):
            found.append(Numbers(title, function, frozen(row)))
            continue
        seeds = range(row.pop("seeds"))
        found += [Numbers(f"{title}, seed {seed}", function, frozen(row | {"seed": seed})) for seed in seeds]
    return found


def errors(case: Case, model: Projection, data: xr.Dataset) -> np.ndarray:
    """(C,) mean over time of the errors of rollouts."""
    return romkit.score(data, romkit.follow(model, data, system=case.system))["nrmse"].mean("time").values


def curves(case: str, numbers: Sequence[int], more: Sequence[int], seed: int) -> dict[str, object]:
    """Errors at unseen contexts (number, context) by method, chosen contexts, and what the estimate is worth.

    Beside the methods of `romkit.sample`, "true error" is greedy choice by the error itself, which no user has, and
    "all candidates" is the model that is fitted to all of them.
    """
    now = CASES[case](seed)
    fitted = lambda data: romkit.fit("pod", data, **now.settings)  # noqa: E731
    settings = {"projection": "pod", "system": now.system, "seed": seed, "folder": FOLDER, **now.settings}
    greedy = romkit.sample(now.candidates, numbers[-1], **settings)
    entered = greedy.history["entered"].values
    order = [int(k) for k in np.argsort(entered, kind="stable") if entered[k] >= 0]
    true, first = [], order[:2]
    strong = list(first)
    while len(strong) < numbers[-1]:
        found = errors(now, fitted(now.candidates.isel(trajectory=strong)), now.candidates)
        strong.append(int(np.where(np.isin(np.arange(len(found)), strong), -1.0, found).argmax()))
    for number in numbers:
        true.append(errors(now, fitted(now.candidates.isel(trajectory=order[:number])), now.candidates))
    judged = [greedy.history["estimate"].values[number - 2] for number in numbers]
    chosen = {"greedy": [order[:number] for number in numbers], "true error": [strong[:number] for number in numbers]}
    c = romkit.data.context_matrix(now.candidates)
    places = (c - c.min(0)) / np.ptp(c, axis=0)
    for method in DESIGNS[1:]:
        chosen[method] = [
            nearest(places, design(method, places.shape[1], number, seed)) for number in (*numbers, *more)
        ]
    chosen["all candidates"] = [list(range(len(c)))]
    unseen = {
        method: [errors(now, fitted(now.candidates.isel(trajectory=rows)), now.unseen).tolist() for rows in several]
        for method, several in chosen.items()
    }
    correlation = [float(spearmanr(*pair)[0]) for pair in zip(true, judged, strict=True)]
    facts = {"numbers": [*numbers, *more], "contexts": c.tolist(), "chosen": chosen, "errors": unseen}
    return facts | {"rank correlation": correlation, "true errors": [each.tolist() for each in true]}


def five(choice: str, seeds: int, epochs: int, budget: int = 5) -> dict[str, object]:
    """Strouhal number and largest lift (seed, Re) of NcAEs on five of the ten training runs of studies/wake.

    Args:
        choice: method of `romkit.sample`; each round of greedy choice trains for a fifth of the epochs.
        seeds: of the NcAEs that are measured, on the chosen runs.
        epochs: of their training.
        budget: number of runs.
    """
    data, system, sizes = runs(TRAIN, RANK).astype(float), through(RANK), SIZES["ncae"](RANK)
    training = {"batch_size": 256, "engine": "torch", **sizes}
    given = {"system": system, "projection": "ncae", "epochs": max(1, epochs // 5), "folder": FOLDER}
    kept = data.isel(time=slice(-LAST, None))  # the estimate is that of rollouts on the orbit
    chosen = romkit.sample(kept, budget, choice, **given, **training).contexts["Re"].tolist()
    stack = romkit.fit("ncae", runs(chosen, RANK), seeds=range(seeds), epochs=epochs, **training)
    truth, forces, found = runs(UNSEEN, RANK), DragLift.of(basis(RANK)), []
    y, c = (torch.from_numpy(truth[name].values).double() for name in ("state", "Re"))
    for model in unstack(stack):
        with torch.no_grad():
            bound = behind(system, model.double(), Galerkin())(c.unsqueeze(-1))
            states = bound.decode(follow(bound, y[:, -LAST], LENGTH).states[:, -LAST:])
            lift = forces(states, c[:, None, None])[..., 1].numpy()
        found.append([cycle(each) for each in lift])
    full = [cycle(each) for each in truth["lift"].values]
    facts = {name: [[each[k] for each in cycles] for cycles in found] for k, name in enumerate(("Strouhal", "lift"))}
    return facts | {"Re": list(UNSEEN), "full": full, "chosen": chosen, "seeds": list(range(seeds)), "epochs": epochs}
