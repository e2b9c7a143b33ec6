"""`romkit.learn` on thirty data sets that romkit did not make, beside the nearest training run and
other packages.
"""

import numpy as np
import xarray as xr

import romkit
from studies.first_afternoon.later import LATER
from studies.first_afternoon.rivals import side_by_side
from studies.first_afternoon.sets import SETS, measure
from studies.first_afternoon.unseen import UNSEEN
from studies.runner import Numbers, Study

EVERY = LATER | UNSEEN | SETS
HELD_OUT = 0.25


def tasks(preset: str) -> list[Numbers]:
    """Two tasks for each data set: `romkit.learn`, and the rivals."""
    table = Study("first_afternoon").presets[preset]
    names = table.pop("sets", [*EVERY])
    recipes = [Numbers.of(name, learned, name=name, **table) for name in names]
    return recipes + [
        Numbers.of(f"{name}, rivals", rivals, name=name, runs=table["runs"]) for name in names
    ]


def learned(name: str, runs: int, **settings: object) -> dict[str, object]:
    """Errors of held-out runs, the mean over time against states without noise, and seconds.

    Args:
        name: of the data set.
        runs: number of runs.
        settings: of `romkit.learn`.
    """
    source = EVERY[name]
    measured, _ = measure(source, runs=runs)
    model = romkit.learn(measured, source.parameter, held_out=HELD_OUT, **settings)
    train, held_out, truth = divided(name, runs)
    row = next(row for row in model.law.report if row["chosen"])
    return {
        "seconds": model.seconds,
        "n": train.sizes["component"],
        "latents": model.projection.latent_dim,
        "manifold": {key: str(value) for key, value in model.projection.config.items()},
        "law": row["law"],
        "settings": row["settings"],
        "tried": [
            {"latents": t.latent_dim, "projection": t.projection_error, **t.law}
            for t in model.trials
            if t.law is not None
        ],
        "advice": model.advice,
        "noise": errors(held_out["state"].values, train, truth),
        "projection": errors(model.run["projected"].values, train, truth),
        "romkit": errors(model.run["rom"].values, train, truth),
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
    source = EVERY[name]
    measured, clean = measure(source, runs=runs)
    data, exact = (
        romkit.data.describe(each, context=[source.parameter]) for each in (measured, clean)
    )
    train, held_out = romkit.data.split(data, HELD_OUT)
    return train, held_out, romkit.data.split(exact, HELD_OUT)[1]


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
