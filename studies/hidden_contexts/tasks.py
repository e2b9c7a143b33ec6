"""Hidden contexts of families whose parameters are known, but are not given to romkit."""

import contextlib
import io
import time

import numpy as np
import torch
import xarray as xr
from scipy.stats import spearmanr

import romkit
from romkit.core.types import Array
from romkit.hidden import HiddenContext
from studies.hidden_contexts.families import FAMILIES, by_lot
from studies.hidden_contexts.runs import dataset, noisy, summary
from studies.runner import Numbers, Study, frozen


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset."""
    planned = []
    for title, row in Study("hidden_contexts").presets[preset].items():
        settings = {name: value for name, value in row.items() if name != "function"}
        function = f"studies.hidden_contexts.{row['function']}"
        planned.append(Numbers(title, function, frozen(settings)))
    return planned


def literature(
    name: str, noise: float = 0.0, runs: int | None = None, seed: int = 0
) -> dict[str, object]:
    """Return mean square errors of new starts in the environments of the training and in new ones,
    which are placed by a run each.

    Args:
        name: of the family.
        noise: of the runs that are learned from and placed [deviations].
        runs: of each environment in the training; all by default.
        seed: of the starts.
    """
    family = FAMILIES[name]
    train, values = family.solved("train", seed)
    train = noisy(train[:, :runs], noise, seed)
    test, _ = family.solved("test", seed)
    new, others = family.solved("new", seed)
    new = noisy(new, noise, 1000 + seed)
    new_test, _ = family.solved("new test", seed)
    times = family.times
    ahead = {"duration": float(times[-1]), "dt": float(times[1])}
    began = time.process_time()
    found = romkit.hidden_context(dataset(train, times), group="environment")
    fitted = time.process_time() - began
    known = [
        found.forecast(states[:, 0], group=k, **ahead)["state"].values - states
        for k, states in enumerate(test)
    ]
    placed = [found.place(dataset(new[k : k + 1], times)) for k in range(len(new))]
    unknown = [
        found.forecast(states[:, 0], **run.context, **ahead)["state"].values - states
        for run, states in zip(placed, new_test, strict=True)
    ]
    seconds = time.process_time() - began
    result = summary(found)
    result |= {
        "truth": values.tolist(),
        "parameters": values.shape[1],
        "known_mse": float(np.square(known).mean()),
        "new_mse": float(np.square(unknown).mean()),
        "described": described(found, test),
        "variance": float(test.var((0, 1, 2)).mean()),
        "fit_seconds": fitted,
        "seconds": seconds,
    }
    if found.number:
        labels = dict(zip(family.names, values.T, strict=True))
        labelled = found.labelled(labels)
        rows = [labelled.place(dataset(new[k : k + 1], times)).values for k in range(len(new))]
        names = list(family.names)
        read = np.array([row["value"].sel(parameter=names).values for row in rows])
        result |= {"new_truth": others.tolist(), "new_read": read.tolist()}
        result["largest_label_error"] = float(np.abs(read - others).max())
    return result


def described(found: HiddenContext, test: Array) -> float:
    """Return mean square error of new states that latents cannot describe, a floor of any law."""
    states = torch.from_numpy(test)
    frame = found.frame
    image = frame.states(frame.scale.scaled(frame.latents(states)))
    return float((image - states).square().mean())


def lots(first: int, number: int, noise: float) -> dict[str, object]:
    """Return numbers of hidden parameters of families by lot."""
    rows = []
    for k in range(first, first + number):
        lot = by_lot(k)
        data = dataset(noisy(lot.states, noise, k), lot.times)
        began = time.process_time()
        found = romkit.hidden_context(data, group="environment")
        row = {"name": lot.name, "truth": len(lot.varied), "seconds": time.process_time() - began}
        rows.append(row | summary(found))
    right = sum(row["truth"] == row["hidden"] for row in rows)
    return {"right": right, "of": len(rows), "rows": rows}


def intervals(noise: float, repeats: int) -> dict[str, object]:
    """Return shares of true parameters and of measurements that intervals of level 0.9 hold, in
    Lotka-Volterra: new environments that are placed by half a run, and the other half.
    """
    family = FAMILIES["lotka-volterra"]
    times = family.times
    half = len(times) // 2
    ahead = {"duration": float(times[-1] - times[half - 1]), "dt": float(times[1])}
    contexts, forecasts, numbers = [], [], []
    for seed in range(repeats):
        train, values = family.solved("train", seed)
        runs, others = family.solved("new test", seed)
        data = dataset(noisy(train, noise, seed), times)
        labels = dict(zip(family.names, values.T, strict=True))
        found = romkit.hidden_context(data, group="environment")
        numbers.append(found.number)
        if found.number == 0:
            continue
        found = found.labelled(labels)
        measured = noisy(runs, noise, 1000 + seed)
        for k, parameters in enumerate(others):
            for run in range(8):
                early = dataset(measured[k : k + 1, run : run + 1, :half], times[:half])
                placed = found.place(early)
                table = placed.values.sel(parameter=list(family.names))
                contexts.append(_inside(table, parameters))
                forecast = placed.forecast(**ahead).isel(time=slice(1, None))
                forecasts.append(_inside(forecast, measured[k, run, half:]))
    return {
        "noise": noise,
        "numbers": numbers,
        "contexts": float(np.mean(contexts)),
        "forecasts": float(np.mean(forecasts)),
        "placed": len(contexts),
    }


def _inside(table: xr.Dataset, truth: Array) -> Array:
    """Tell whether intervals hold the truth."""
    return (table["lower"].values <= truth) & (truth <= table["upper"].values)


def lorenz96(modes: int, groups: int) -> dict[str, object]:
    """Waves of Lorenz96 without their forcing: order of hidden values, and errors of unseen waves that
    are placed by the first half of a run, relative to the deviation of the state.
    """
    forcing = np.linspace(3.0, 3.14, 2 * groups - 1)
    order = np.random.default_rng(96).permutation(groups)
    system = romkit.systems.Lorenz96(transient=1000.0)
    with contextlib.redirect_stdout(io.StringIO()):
        data = system.dataset(F=forcing.tolist(), duration=12.0)
    states = data["state"].values[:, ::10]
    times = data["time"].values[::10]
    train, test = states[::2][order], states[1::2]
    began = time.process_time()
    found = romkit.hidden_context(dataset(train[:, None], times), latent_dim=modes)
    result = summary(found) | {"seconds": time.process_time() - began}
    half = len(times) // 2
    ahead = {"duration": float(times[-1] - times[half - 1]), "dt": float(times[1])}
    placed = [found.place(dataset(run[None, None, :half], times[:half])) for run in test]
    forecasts = [run.forecast(**ahead)["state"].values[1:] for run in placed]
    differences = np.stack(forecasts) - test[:, half:]
    result["error"] = float(np.sqrt(np.square(differences).mean()) / states.std())
    if found.number:
        hidden = found.values["value"].values[:, 0]
        result["rank_correlation"] = float(abs(spearmanr(forcing[::2][order], hidden)[0]))
    return result
