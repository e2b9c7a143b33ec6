"""Make the models that ship with romkit, and measure them.

Each model is the member of a stack of seeds that is best on a validation set; the test set has no
part in the choice. The file goes to romkit/pretrained. With the preset "smoke" two models are
hardly trained, and go to runs/pretrained.
"""

import copy
from pathlib import Path

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.bases import storage as bases
from romkit.core import files
from romkit.core.files import Tensors
from romkit.metrics import reconstruction_rmse
from romkit.projections import POD, Projection, storage, unstack
from romkit.projections.storage import PRETRAINED
from studies.pretrained.models import MODELS, SMOKE, Model, projection_nrmse
from studies.runner import Numbers

PRESETS = {"full": (MODELS, PRETRAINED), "smoke": (SMOKE, Path("runs/pretrained"))}
"""Models, and folder of their files."""


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset, one for each model."""
    return [Numbers.of(name, make, preset=preset, name=name) for name in PRESETS[preset][0]]


def make(preset: str, name: str) -> dict[str, object]:
    """Train a model, write its file, and measure it as it is read from there."""
    models, shipped = PRESETS[preset]
    shipped.mkdir(parents=True, exist_ok=True)
    best, errors, front = train(models[name])
    path = ship(best, shipped.absolute() / f"{name}.safetensors", front)
    return {"validation": errors, **measure(models[name], romkit.load(path))}


def train(model: Model) -> tuple[Projection, list[float], Tensors]:
    """Candidate with the lowest error on the validation set, the errors of all, and the modes as
    stored.
    """
    data = model.data(model.system)
    front = {}
    if model.modes is not None:
        made, precision = model.modes
        front = bases.compact(made(data), model.system.weight, precision)
    basis = bases.rebuilt(front) if front else None
    candidates = unstack(
        romkit.fit(model.method, data, basis=basis, seeds=model.seeds, **model.settings)
    )
    validation = model.validation(model.system)
    errors = [model.judged_by(candidate, validation) for candidate in candidates]
    best = candidates[int(np.nanargmin(errors))]
    best.report["losses"] = best.report["losses"][
        -1:
    ]  # the whole curve would be half of the shipped file
    return best, errors, front


def ship(projection: Projection, path: Path, front: Tensors) -> Path:
    """Write a model as `romkit.save` does, but with the modes in few bits, since these are nearly
    all of the file.
    """
    header, tensors = storage.packed(projection)
    tensors |= {f"{storage.BASIS}{key}": tensor for key, tensor in front.items()}
    return files.write(path, "projection", header, tensors)


def measure(model: Model, projection: Projection) -> dict[str, object]:
    """Reconstruction on the test set, and rollouts at its contexts; of the modes alone too, where
    there are some.
    """
    found = snapshots(model, projection) | {"rollout": rollouts(model, projection)}
    if projection.basis is not None:
        found["rollout_of_modes"] = rollouts(model, modes_alone(projection))
    if model.more is not None:
        found |= model.more(projection, model.truths(model.system))
    return found | {
        "report": {key: value for key, value in projection.report.items() if key != "losses"}
    }


def modes_alone(projection: Projection) -> Projection:
    """Linear projection onto the basis of another one; with Galerkin's field, POD-Galerkin."""
    rank = projection.basis.rank
    inner = POD(projection.frame, torch.Generator(), latent_dim=rank)
    inner.modes.data = torch.eye(rank)
    return inner


def snapshots(model: Model, projection: Projection) -> dict[str, object]:
    """Return errors of single states of the test set."""
    squares, errors = [], []
    double = copy.deepcopy(projection).double()
    for test in model.snapshots(model.system):
        x, v = (torch.from_numpy(test[name].values) for name in ("state", "velocity"))
        with torch.no_grad():
            found = reconstruction_rmse(double(test), x, v)
        squares.append(
            (found.position.square().mean().item(), found.velocity.square().mean().item())
        )
        errors.append(projection_nrmse(projection, test).numpy())
    position, velocity = np.sqrt(np.mean(squares, axis=0))
    return {
        "position_rmse": position,
        "velocity_rmse": velocity,
        "nrmse_of_projection": _spread(np.concatenate(errors)),
    }


def rollouts(model: Model, projection: Projection) -> dict[str, object]:
    """Return errors over the test contexts; seconds are of all of them."""
    basis = projection.basis
    seen = (
        model.system if basis is None else model.system.through(basis)
    )  # once, and not for each run
    parts, seconds = [], {"full": 0.0, "reduced": 0.0}
    for truth in model.truths(model.system):
        reduced = romkit.follow(projection, truth, system=seen)
        parts.append(
            romkit.score(truth, reduced)[["nrmse", "valid_time"]].assign(status=reduced["status"])
        )
        seconds["full"] += truth.attrs.get("seconds_computing", np.nan)
        seconds["reduced"] += reduced.attrs["seconds_computing"]
    runs = xr.concat([part.reset_coords(drop=True) for part in parts], "trajectory")
    return {
        "dynamics": reduced.attrs["dynamics"],
        "diverged": int((runs.status != 0).sum()),
        "valid_time": _spread(runs.valid_time.values),
        "nrmse": {f"t = {t:g}": _errors_at(runs, t) for t in model.horizons},
    } | {f"seconds_{which}_model": spent for which, spent in seconds.items() if np.isfinite(spent)}


def _errors_at(run: xr.Dataset, time: float) -> dict[str, float]:
    errors = run.nrmse.sel(time=time, method="nearest").values
    return {**_spread(errors), "share_below_0.1": float((errors < 0.1).mean())}


def _spread(values: np.ndarray) -> dict[str, float]:
    low, median, high = np.nanquantile(values, [0.1, 0.5, 0.9])
    return {
        "10 %": low,
        "median": median,
        "90 %": high,
        "smallest": float(np.nanmin(values)),
        "largest": float(np.nanmax(values)),
    }
