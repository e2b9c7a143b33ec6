"""Make the models that ship with romkit, and measure them: `python -m studies.pretrained.run [ncae-lorenz96 ...]`.

Each model is the member of a stack of seeds that is best on a validation set; the test set has no part in the choice.
The file goes to romkit/pretrained, its numbers to results.json beside this script.
"""

import copy
import json
import sys
from pathlib import Path

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.bases import storage as bases
from romkit.core import files
from romkit.core.files import Tensors, atomic
from romkit.metrics import reconstruction_rmse
from romkit.projections import POD, Projection, storage, unstack
from studies.pretrained.judging import projection_nrmse
from studies.pretrained.models import MODELS, Model

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SHIPPED = Path(romkit.__file__).parent / "pretrained"


def main(names: list[str]) -> None:
    for name in names or list(MODELS):
        model = MODELS[name]
        best, errors, front = train(model)
        path = ship(best, name, front)
        record(name, {"validation": errors, **measure(model, romkit.load(path))})
        print(f"{path.name}: {json.dumps(json.loads(RESULTS.read_text())[name], indent=1)}")


def train(model: Model) -> tuple[Projection, list[float], Tensors]:
    """The candidate with the lowest error on the validation set, the errors of all, and the modes as stored."""
    data = model.data(model.system)
    front = {} if model.modes is None else _modes(model, data)
    basis = bases.rebuilt(front) if front else None
    candidates = unstack(romkit.fit(model.method, data, basis=basis, seeds=model.seeds, **model.settings))
    validation = model.validation(model.system)
    errors = [model.judged_by(candidate, validation) for candidate in candidates]
    best = candidates[int(np.nanargmin(errors))]
    best.report["losses"] = best.report["losses"][-1:]  # the whole curve would be half of the shipped file
    return best, errors, front


def _modes(model: Model, data: xr.Dataset) -> Tensors:
    made, precision = model.modes
    return bases.compact(made(data), model.system.weight, precision)


def ship(projection: Projection, name: str, front: Tensors) -> Path:
    """Write what `romkit.save` does, with the modes in few bits, since these are nearly all of the file."""
    header, tensors = storage.packed(projection)
    tensors |= {f"{storage.BASIS}{key}": tensor for key, tensor in front.items()}
    return files.write(SHIPPED / f"{name}.safetensors", "projection", header, tensors)


def measure(model: Model, projection: Projection) -> dict[str, object]:
    """Reconstruction on the test set, and rollouts at its contexts; of the modes alone too, where there are some."""
    found = snapshots(model, projection) | {"rollout": rollouts(model, projection)}
    if projection.basis is not None:
        found["rollout_of_modes"] = rollouts(model, modes_alone(projection))
    if model.more is not None:
        found |= model.more(projection, model.truths(model.system))
    return found | {"report": {key: value for key, value in projection.report.items() if key != "losses"}}


def modes_alone(projection: Projection) -> Projection:
    """The linear projection onto the basis of another one; with Galerkin's field, POD-Galerkin."""
    rank = projection.basis.rank
    inner = POD(projection.normalization, torch.Generator(), latent_dim=rank)
    inner.modes.data = torch.eye(rank)
    return inner


def snapshots(model: Model, projection: Projection) -> dict[str, object]:
    """Errors of single states of the test set."""
    squares, errors = [], []
    double = copy.deepcopy(projection).double()
    for test in model.snapshots(model.system):
        x, v = (torch.from_numpy(test[name].values) for name in ("state", "velocity"))
        with torch.no_grad():
            found = reconstruction_rmse(double(test), x, v)
        squares.append((found.position.square().mean().item(), found.velocity.square().mean().item()))
        errors.append(projection_nrmse(projection, test).numpy())
    position, velocity = np.sqrt(np.mean(squares, axis=0))
    return {
        "position_rmse": position,
        "velocity_rmse": velocity,
        "nrmse_of_projection": _spread(np.concatenate(errors)),
    }


def rollouts(model: Model, projection: Projection) -> dict[str, object]:
    """Errors over the test contexts; seconds are of all of them."""
    basis = projection.basis
    seen = model.system if basis is None else model.system.through(basis)  # once, and not for each run
    parts, seconds = [], {"full": 0.0, "reduced": 0.0}
    for truth in model.truths(model.system):
        reduced = romkit.follow(projection, truth, system=seen)
        parts.append(romkit.score(truth, reduced)[["nrmse", "valid_time"]].assign(status=reduced["status"]))
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


def record(name: str, result: dict[str, object]) -> None:
    """Put the result of one model into results.json, leaving the others."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with atomic(RESULTS) as temporary:
        temporary.write_text(json.dumps(results | {name: result}, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
