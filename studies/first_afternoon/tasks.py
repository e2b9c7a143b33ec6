"""`romkit.learn` on thirty data sets that romkit did not make, beside the nearest training run and
other packages.
"""

import contextlib
import io
import time
import warnings

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.core.types import Array
from romkit.data.grids import stack_components
from romkit.metrics import deviations
from studies.first_afternoon.later import LATER
from studies.first_afternoon.rivals import side_by_side
from studies.first_afternoon.sets import SETS, Source, measure
from studies.first_afternoon.unseen import UNSEEN
from studies.runner import Numbers, Study

EVERY = LATER | UNSEEN | SETS
HELD_OUT = 0.25
LEVEL, UNSEEN_CONTEXTS = 0.9, 18
"""Level of the bars, and number of unseen contexts that they are judged at."""


def tasks(preset: str) -> list[Numbers]:
    """Two tasks for each data set: `romkit.learn`, and the rivals."""
    table = Study("first_afternoon").presets[preset]
    names = table.pop("sets", [*EVERY])
    recipes = [Numbers.of(name, learned, name=name, **table) for name in names]
    return recipes + [
        Numbers.of(f"{name}, rivals", rivals, name=name, runs=table["runs"]) for name in names
    ]


def learned(name: str, runs: int, **settings: object) -> dict[str, object]:
    """Learn from the training runs of a set, and score what is forecast.

    A forecast is that of `model.forecast` from the measured first state of a run that `learn` has
    not been given. Beside its error stands the one that the model claims for such runs.

    Args:
        name: of the data set.
        runs: number of runs.
        settings: of `romkit.learn`.

    Returns:
        romkit: errors of the held-out runs against states without noise [deviations of components].
        true, claimed: mean error against measurements at `UNSEEN_CONTEXTS` further contexts, evenly
            over the range, and `model.error`, both in one deviation for each unit.
        held_out, left_out: the same of the held-out runs, and of those that `learn` left out.
        inside: share of these measurements within bars of level `LEVEL`; None without bars.
    """
    train, held_out, truth = divided(name, runs)
    began = time.process_time()
    model = romkit.learn(train, **settings)
    seconds = time.process_time() - began
    states = forecasts(model, held_out)["state"]
    scale = deviations(train)
    further = unseen(name)
    band = forecasts(model, further, **({} if model.intervals is None else {"level": LEVEL}))
    found = {
        "seconds": seconds,
        "n": train.sizes["component"],
        "latents": model.projection.latent_dim,
        "manifold": {key: str(value) for key, value in model.projection.config.items()},
        "settings": str(model.settings),
        "interpolated": getattr(model, "interpolated", None) is not None,
        "tried": len(model.law.report),
        "taken": next(row["settings"] for row in model.law.report if row["chosen"]),
        "advice": model.advice,
        "noise": errors(held_out["state"].values, train, truth),
        "projection": errors(_projected(model, held_out), train, truth),
        "romkit": errors(states, train, truth),
        "true": _mean_error(band["state"], further, scale),
        "held_out": _mean_error(states, held_out, scale),
        "claimed": model.error,
        "left_out": model.mean_errors["forecast"],
    }
    return found | {"inside": _inside(band, further)}


def forecasts(model: romkit.Learned, data: xr.Dataset, **options: object) -> dict[str, Array]:
    """Forecast runs from their first states by `model.forecast`, one by one.

    Returns:
        `state`, and where there are bars `lower` and `upper`, each (C, T, n).
    """
    times = data["time"].values
    span = {"duration": float(times[-1] - times[0]), "dt": float(times[1] - times[0])}
    several = []
    for k in range(data.sizes["trajectory"]):
        run = data.isel(trajectory=k)
        context = {name: float(run[name]) for name in romkit.data.context_names(data)}
        start = run["state"].values[0]  # (n,)
        if "control" in run:
            options["control"] = run["control"].values
        one = _from_start(model, start, context=context, **span, **options)
        several.append(stack_components(one, romkit.data.layout_of(data)))
    names = [name for name in ("state", "lower", "upper") if name in several[0]]
    dims = ("time", "component")
    return {name: np.stack([o[name].transpose(*dims).values for o in several]) for name in names}


def _from_start(model: romkit.Learned, start: Array, **options: object) -> xr.Dataset:
    """Forecast from a state; where runs are interpolated, and the state is none of theirs,
    from the context alone, as the refusal says.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return model.forecast(start, **options)
        except romkit.InputError as error:
            if error.argument != "initial_state":
                raise
            return model.forecast(**options)


def unseen(name: str) -> xr.Dataset:
    """Measured runs of a set in the middle of equal parts of its range."""
    source = EVERY[name]
    part = (source.high - source.low) / UNSEEN_CONTEXTS
    inner = source._replace(low=source.low + part / 2, high=source.high - part / 2)
    runs, _ = measure(inner, runs=UNSEEN_CONTEXTS, seed=1)
    return _described(runs, source)


def _mean_error(states: Array, data: xr.Dataset, scale: Array) -> float:
    """Return mean error of forecasts (C, T, n) of measured runs, in a scale (n,)."""
    return float(_size((states - data["state"].values) / scale).mean())


def _inside(band: dict[str, Array], data: xr.Dataset) -> float | None:
    """Return share of measurements within bars, if there are any; a run that is lost has none inside."""
    if "lower" not in band:
        return None
    truth = data["state"].values
    return float(((band["lower"] <= truth) & (truth <= band["upper"])).mean())


def _projected(model: romkit.Learned, data: xr.Dataset) -> Array:
    """Return states (C, T, n) that are encoded and decoded, without dynamics."""
    states = torch.from_numpy(data["state"].values).double()
    contexts = torch.from_numpy(romkit.data.context_matrix(data)).double()  # (C, p)
    with torch.no_grad():
        at = model.projection.double()(contexts[:, None])
        return at.decode(at.encode(states)).numpy()


def rivals(name: str, runs: int) -> dict[str, object]:
    """Return errors of the nearest training run and of other packages, and their seconds."""
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
    data, exact = (_described(each, source) for each in measure(source, runs=runs))
    train, held_out = romkit.data.split(data, HELD_OUT)
    return train, held_out, romkit.data.split(exact, HELD_OUT)[1]


def _described(data: xr.Dataset, source: Source) -> xr.Dataset:
    """Return runs in romkit's schema."""
    with contextlib.redirect_stdout(io.StringIO()):
        return romkit.data.describe(data, context=[source.parameter])


def errors(states: Array, train: xr.Dataset, truth: xr.Dataset) -> list[float]:
    """Return error of each held-out run: root mean square over components in standard deviations,
    mean over time.
    """
    apart = (states - truth["state"].values) / train["state"].values.std((0, 1))
    return _size(apart).tolist()


def _size(apart: Array) -> Array:
    """Root mean square over components, mean over time, (C,) of (C, T, n)."""
    return np.sqrt((apart**2).mean(-1)).mean(-1)


def _shifted(run: Array, start: Array) -> Array:
    """Return a run (T, n) from where it is closest to the start; at its end it goes on from the
    state most like it.
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
