"""`romkit.fit`: from a method's name and a dataset to a trained projection."""

import dataclasses
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
import xarray as xr
from torch import Tensor

from romkit import checks, provenance
from romkit.data import check_dataset, snapshots
from romkit.engine.threads import one_thread
from romkit.engine.training_step import compiled_or_eager
from romkit.errors import InputError
from romkit.projections import METHODS, Normalization, Projection, architecture, stack, unstack
from romkit.systems import SYSTEMS, System, system_of
from romkit.training.checkpoint import Checkpoint, digest
from romkit.training.gradients import future_gradients
from romkit.training.loop import train
from romkit.training.loss import Objective, component_weights
from romkit.training.phase_fit import phase_fit
from romkit.training.pipeline import AnyBatch, Batch, GradientBatch
from romkit.training.recipes import SETTINGS, Recipe, recipe
from romkit.training.rollouts import refine

CACHE_ROWS = 10_000
"""Batch (seeds x batch size) of a step that still fit the cache of a CPU core."""

LONG_RUN = 10_000_000
"""Rows (steps x seeds x batch size) from which compiling the step pays for the 20 to 30 s that it takes with Adam.

By the times in benchmarks/training a row takes an NcAE 2.5 us less on Lorenz-96 and 4 us less on the pendulum, so 20 s
are back after 8 million rows and 28 s after 7 million; roughly, for starts and steps come from two machines. The number
decides alone, never a clock: compiled and eager training differ by rounding, and a seed must mean the same everywhere.
"""


def fit(
    method: str,
    data: xr.Dataset,
    *,
    seed: int = 0,
    seeds: Iterable[int] | None = None,
    preset: str = "quick",
    system: System | None = None,
    device: torch.device | str | None = None,
    compile: bool | None = None,
    checkpoint: str | os.PathLike | None = None,
    **settings: object,
) -> Projection:
    """Train a projection on a dataset.

    Args:
        method: a name from `romkit.projections.METHODS`, for example "ncae".
        data: a dataset in romkit's schema (see `romkit.data.schema`), from a system or the user's own.
        seed: determines the initial parameters and the order of the data.
        seeds: trains one model per seed, all at once, and returns them as a stack; replaces `seed`.
        preset: a name from `romkit.training.PRESETS`.
        system: gives the field of the full model, where a loss needs it; by default the system that the data name.
        device: "cpu" or "cuda"; a GPU is used where there is one.
        compile: whether to compile the training step, and to capture it as a CUDA graph on a GPU; None decides by
            the length of the run. Where that fails, training goes on without, with a warning. The report says what
            was done.
        checkpoint: folder where the run is saved as it goes; a run that was interrupted resumes from there, bit for
            bit when eager on a CPU. A refinement by rollouts starts again.
        **settings: values that override the preset (`epochs=2`, `batch_size=512`, ... see `Recipe`) or the
            architecture (`latent_dim=3`, `layers=(3, 12, 36)`, ... see `romkit.projections.architecture`).

    Returns:
        The projection, in float32 on the CPU, with `report` (recipe, losses, versions, device). With `seeds`, a
        stack with a leading seed axis: see `romkit.projections.unstack`.

    Raises:
        InputError: unknown method, preset or setting, or data that cannot be used.
    """
    checks.one_of("method", method, METHODS)
    check_dataset(data)
    normalization = Normalization.from_dataset(data)
    overrides = {name: value for name, value in settings.items() if name in SETTINGS}
    sizes = {name: value for name, value in settings.items() if name not in SETTINGS}
    plan = recipe(preset, normalization.signature.system, method, overrides)
    numbers = [seed] if seeds is None else list(seeds)
    system = _system_for(plan, system, data, normalization)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    rows = _rows(data, normalization, plan, system, device)
    arguments = architecture(METHODS[method], normalization.signature, **sizes)
    common = {"preset": preset, **_provenance(data, plan, device)}
    models = []
    for chunk in _chunks(numbers, plan, device):
        stacked = _initial_stack(METHODS[method], normalization, chunk, arguments, rows.y).to(device)
        objective = plan.make_objective(stacked, system).to(device)
        outcomes = _train(objective, rows, plan, chunk, compile, checkpoint)
        refined = _refine(objective, rows, data, system, plan, chunk, compile)
        reports = [{"seed": s, **a, **b, **common} for s, a, b in zip(chunk, outcomes, refined, strict=True)]
        stacked.report = {"seeds": reports}
        models += unstack(stacked.cpu())
    return stack(models) if seeds is not None else models[0]


def _chunks(seeds: Sequence[int], plan: Recipe, device: torch.device) -> Iterator[Sequence[int]]:
    """Stacks that fit the cache of a CPU; one stack of all seeds on a GPU."""
    size = len(seeds) if device.type == "cuda" else max(1, CACHE_ROWS // plan.batch_size)
    for start in range(0, len(seeds), size):
        yield seeds[start : start + size]


def _initial_stack(
    method: type[Projection],
    normalization: Normalization,
    seeds: Sequence[int],
    arguments: dict[str, object],
    y: Tensor,
) -> Projection:
    models = [method(normalization, torch.Generator().manual_seed(seed), **arguments) for seed in seeds]
    for model in models:
        model.initialise(y.cpu())
    return stack(models)


def _rows(
    data: xr.Dataset, normalization: Normalization, plan: Recipe, system: System | None, device: torch.device
) -> AnyBatch:
    """All snapshots, with gradients if the loss has a term with them: drawn once, the same for every model."""
    state, velocity, context = (tensor.to(normalization.state_scale) for tensor in snapshots(data, every=plan.every))
    rows = Batch(
        normalization.normalise(state), velocity / normalization.state_scale, normalization.normalise_context(context)
    )
    if plan.gradient_weight:
        with one_thread():
            weights = component_weights(normalization, plan.component_weighting)
            g = future_gradients(rows, normalization, system, plan.gradient_horizon, weights, seed=0)
        rows = GradientBatch(*rows, g)
    return rows._make(tensor.to(device) for tensor in rows)


def _train(
    objective: Objective,
    rows: AnyBatch,
    plan: Recipe,
    seeds: Sequence[int],
    compile: bool | None,
    folder: str | os.PathLike | None,
) -> list[dict[str, object]]:
    """Trains the stack and says how it went, seed by seed; POD and its like have nothing to train."""
    stacked = objective.projection
    if not _trainable(stacked):
        return [{"diverged": False}] * len(seeds)
    compiled = _worth_compiling(plan, len(rows.y), len(seeds)) if compile is None else compile
    saved = None if folder is None else _checkpoint(Path(folder), stacked, rows, plan, seeds)
    with one_thread():
        run = lambda fast: train(objective, rows, plan, seeds, compiled=fast, checkpoint=saved)  # noqa: E731
        history, compiled = compiled_or_eager(run, compiled)
    return [
        {
            "diverged": not bool(history.alive[k]),
            "losses": history.losses[:, k].tolist(),
            "seconds": history.seconds,
            "seeds_in_stack": len(seeds),
            "compiled": compiled,
            "captured": compiled and rows.y.is_cuda,
        }
        for k in range(len(seeds))
    ]


def _refine(
    objective: Objective,
    rows: AnyBatch,
    data: xr.Dataset,
    system: System | None,
    plan: Recipe,
    seeds: Sequence[int],
    compile: bool | None,
) -> list[dict[str, object]]:
    """What the refinements of the recipe, if any, say of each seed."""
    compiled = shutil.which("c++") is not None if compile is None else compile
    settings, reports = plan.make_refinement(), [{}] * len(seeds)
    common = (objective, rows, data, system, settings)
    if not _trainable(objective.projection):
        return reports
    with one_thread():
        if plan.rollout_steps:
            reports, _ = compiled_or_eager(
                lambda fast: refine(*common, seeds, plan.batch_size, compiled=fast), compiled
            )
        if plan.clock_steps:
            timing, _ = compiled_or_eager(
                lambda fast: phase_fit(*common, plan.make_phase_fit(), seeds, compiled=fast), compiled
            )
            reports = [one | more for one, more in zip(reports, timing, strict=True)]
    return reports


def _system_for(plan: Recipe, system: System | None, data: xr.Dataset, normalization: Normalization) -> System | None:
    """The system whose field the losses need: that of the user, or the one that the data name; None if none is."""
    if not plan.needs_system:
        return None
    system = system_of(data) if system is None else system
    if system is None:
        fix = "pass system=..., an instance of romkit.systems.System, or use a preset that needs no field"
        got = repr(data.attrs.get("system"))
        raise InputError("system", expected=f"data of {', '.join(SYSTEMS)}", got=got, fix=fix)
    _check_system(system, plan, normalization)
    return system


def _check_system(system: System, plan: Recipe, normalization: Normalization) -> None:
    if (
        system.state_size != len(normalization.signature.state_names)
        or system.context_names != normalization.signature.context_names
    ):
        raise InputError(
            "system",
            expected=f"{len(normalization.signature.state_names)} components and the context of the data",
            got=f"{system.name} with {system.state_size} and {system.context_names}",
            fix="pass the system that the data come from",
        )
    if system.order != 1:
        for name in ("latent_weight", "invariance_weight", "gradient_weight"):
            if weight := getattr(plan, name):
                fix = f"give {name}=0; fibre_weight and the refinement by rollouts take mechanical systems as well"
                raise InputError(name, expected="0 for a mechanical system", got=repr(weight), fix=fix)


def _trainable(stacked: Projection) -> bool:
    return any(parameter.requires_grad for parameter in stacked.parameters())


def _worth_compiling(plan: Recipe, n: int, seeds: int) -> bool:
    return plan.epochs * n * seeds >= LONG_RUN and shutil.which("c++") is not None


def _checkpoint(folder: Path, stacked: Projection, rows: AnyBatch, plan: Recipe, seeds: Sequence[int]) -> Checkpoint:
    identity = {
        "method": stacked.name,
        "config": stacked.config,
        "recipe": dataclasses.asdict(plan),
        "seeds": list(seeds),
        "data": digest(rows),
    }
    return Checkpoint(folder / f"{stacked.name}-seeds-{seeds[0]}-{seeds[-1]}.safetensors", identity)


def _provenance(data: xr.Dataset, plan: Recipe, device: torch.device) -> dict[str, object]:
    source = {key: data.attrs[key] for key in ("system", "parameters", "split", "seed") if key in data.attrs}
    return {
        "recipe": dataclasses.asdict(plan),
        "data": {key: value if isinstance(value, str) else int(value) for key, value in source.items()},
        "device": provenance.device_name(device),
        "versions": provenance.versions(),
    }
