"""README's recipe on twenty data sets that romkit did not make, beside the nearest training run and
other packages.
"""

import time

import numpy as np
import xarray as xr

import romkit
from studies.first_afternoon.rivals import side_by_side
from studies.first_afternoon.sets import SETS, measure
from studies.first_afternoon.unseen import UNSEEN
from studies.runner import Numbers, Study

LATENT = 3


def tasks(preset: str) -> list[Numbers]:
    """Two tasks for each data set: README's recipe, and the rivals."""
    table = Study("first_afternoon").presets[preset]
    names = table.pop("sets", [*SETS, *UNSEEN])
    recipes = [Numbers.of(name, afternoon, name=name, **table) for name in names]
    return recipes + [
        Numbers.of(f"{name}, rivals", rivals, name=name, runs=table["runs"]) for name in names
    ]


def afternoon(name: str, runs: int, seconds: float, **settings: object) -> dict[str, object]:
    """Errors of held-out runs, the mean over time against states without noise, and seconds.

    Args:
        name: of the data set.
        runs: number of runs.
        seconds: for the law.
        settings: of the projection, beside README's.
    """
    train, held_out, truth = divided(name, runs)
    started = time.perf_counter()
    projection = romkit.fit("flow", train, latent_dim=LATENT, **settings)
    fitted = time.perf_counter()
    law = romkit.law(projection, train, seconds=seconds)
    found = {"seconds fit": fitted - started, "seconds law": time.perf_counter() - fitted}
    run = romkit.rollout(held_out, projection, dynamics=law)
    return found | {
        "n": train.sizes["component"],
        "law": next(row["law"] for row in law.report if row["chosen"]),
        "tried": [dict(row) for row in law.report],
        "projection": errors(run["projected"].values, train, truth),
        "romkit": errors(run["rom"].values, train, truth),
    }


def rivals(name: str, runs: int) -> dict[str, object]:
    """Errors of the nearest training run and of other packages, and their seconds."""
    train, held_out, truth = divided(name, runs)
    (parameter,) = romkit.data.context_names(train)
    at, c, starts = (
        held_out[parameter].values,
        train[parameter].values,
        held_out["state"].values[:, 0],
    )
    nearest = np.stack([train["state"].values[np.abs(c - value).argmin()] for value in at])
    shifted = np.stack([_shifted(run, start) for run, start in zip(nearest, starts, strict=True)])
    found = {"nearest": errors(nearest, train, truth), "shifted": errors(shifted, train, truth)}
    for scaled in (False, True):
        given = train["state"].values, c, held_out["state"].values, at, train["time"].values
        for package, (states, cost) in side_by_side(*given, scaled=scaled).items():
            label = f"{package}, scaled" if scaled else package
            found |= {label: errors(states, train, truth), f"seconds {label}": cost}
    return found


def divided(name: str, runs: int) -> tuple[xr.Dataset, xr.Dataset, xr.Dataset]:
    """Training runs, held-out ones, and these without noise."""
    source = (SETS | UNSEEN)[name]
    measured, clean = measure(source, runs=runs)
    data, exact = (
        romkit.data.describe(each, context=[source.parameter]) for each in (measured, clean)
    )
    train, held_out = romkit.data.split(data, 0.25)
    return train, held_out, romkit.data.split(exact, 0.25)[1]


def errors(states: np.ndarray, train: xr.Dataset, truth: xr.Dataset) -> list[float]:
    """Error of each held-out run: root mean square over components in standard deviations, mean
    over time.
    """
    apart = (states - truth["state"].values) / train["state"].values.std((0, 1))
    return np.sqrt((apart**2).mean(-1)).mean(-1).tolist()


def _shifted(run: np.ndarray, start: np.ndarray) -> np.ndarray:
    """A run (T, n) from where it is closest to the start; at its end it goes on from the state most
    like it.
    """
    k, path = int(np.square(run - start).sum(-1).argmin()), []
    for _ in range(len(run)):
        path.append(run[k])
        k = (
            k + 1
            if k + 1 < len(run)
            else int(np.square(run[: len(run) // 2] - run[-1]).sum(-1).argmin()) + 1
        )
    return np.array(path)
