"""`romkit.fit`: from a method's name and a dataset to a trained projection."""

import dataclasses
import shutil
from collections.abc import Iterable, Sequence

import torch
import xarray as xr
from torch import Tensor

from romkit import checks, provenance
from romkit.data import check_dataset, snapshots
from romkit.projections import METHODS, Frame, Projection, architecture, stack, unstack
from romkit.training.loop import Batchable, History, train
from romkit.training.recipes import SETTINGS, Recipe, recipe

LONG_RUN = 10_000_000
"""Rows (steps x seeds x batch size) from which compiling the step pays for the half minute that it takes."""


def fit(
    method: str,
    data: xr.Dataset,
    *,
    seed: int = 0,
    seeds: Iterable[int] | None = None,
    preset: str = "quick",
    device: torch.device | str | None = None,
    compile: bool | None = None,
    **settings: object,
) -> Projection:
    """Train a projection on a dataset.

    Args:
        method: a name from `romkit.projections.METHODS`, for example "ncae".
        data: a dataset in romkit's schema (see `romkit.data.schema`), from a system or the user's own.
        seed: determines the initial parameters and the order of the data.
        seeds: trains one model per seed, all at once, and returns them as a stack; replaces `seed`.
        preset: a name from `romkit.training.PRESETS`.
        device: "cpu" or "cuda"; a GPU is used where there is one.
        compile: whether to compile the training step; None decides by the length of the run.
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
    frame = Frame.from_dataset(data)
    overrides = {name: value for name, value in settings.items() if name in SETTINGS}
    sizes = {name: value for name, value in settings.items() if name not in SETTINGS}
    plan = recipe(preset, frame.signature.system, method, overrides)
    numbers = [seed] if seeds is None else list(seeds)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    batchable = _batchable(data, frame, plan, device)
    stacked = _initial_stack(METHODS[method], frame, numbers, sizes, batchable.y).to(device)
    if any(parameter.requires_grad for parameter in stacked.parameters()):
        compiled = _worth_compiling(plan, len(batchable.y), len(numbers)) if compile is None else compile
        history = train(stacked, batchable, plan, numbers, compiled=compiled)
        outcomes = _outcomes(history, len(numbers))
    else:
        outcomes = [{"diverged": False}] * len(numbers)
    common = _common_report(data, preset, plan, device)
    stacked.report = {"seeds": [{"seed": s, **outcome, **common} for s, outcome in zip(numbers, outcomes, strict=True)]}
    stacked.cpu()
    return stacked if seeds is not None else unstack(stacked)[0]


def _initial_stack(
    method: type[Projection], frame: Frame, seeds: Sequence[int], sizes: dict[str, object], y: Tensor
) -> Projection:
    arguments = architecture(method, frame.signature, **sizes)
    models = [method(frame, torch.Generator().manual_seed(seed), **arguments) for seed in seeds]
    for model in models:
        model.initialise(y.cpu())
    return stack(models)


def _batchable(data: xr.Dataset, frame: Frame, plan: Recipe, device: torch.device) -> Batchable:
    state, velocity, context = (tensor.to(frame.state_scale) for tensor in snapshots(data, every=plan.every))
    rows = (frame.to_network(state), velocity / frame.state_scale, frame.context_to_network(context))
    return Batchable(*(tensor.to(device) for tensor in rows))


def _worth_compiling(plan: Recipe, n: int, seeds: int) -> bool:
    return plan.epochs * n * seeds >= LONG_RUN and shutil.which("c++") is not None


def _outcomes(history: History, seeds: int) -> list[dict[str, object]]:
    return [
        {
            "diverged": not bool(history.alive[k]),
            "losses": history.losses[:, k].tolist(),
            "seconds": history.seconds,
            "seeds_in_stack": seeds,
        }
        for k in range(seeds)
    ]


def _common_report(data: xr.Dataset, preset: str, plan: Recipe, device: torch.device) -> dict[str, object]:
    source = {key: data.attrs[key] for key in ("system", "parameters", "split", "seed") if key in data.attrs}
    return {
        "preset": preset,
        "recipe": dataclasses.asdict(plan),
        "data": {key: value if isinstance(value, str) else int(value) for key, value in source.items()},
        "device": provenance.device_name(device),
        "versions": provenance.versions(),
    }
