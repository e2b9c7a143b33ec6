"""`romkit.fit`: from a method and a dataset to a trained projection."""

import functools
import inspect
import itertools
from collections.abc import Sequence
from typing import Annotated, Literal

import torch
import xarray as xr

from romkit.bases import Basis
from romkit.core import checks, runtime
from romkit.core.boundary import FilePath, Seed, Seeds, validated
from romkit.core.display import pairs
from romkit.core.errors import InputError
from romkit.core.parallel import Pool, cut, mapped
from romkit.core.runtime import bars
from romkit.core.types import Entries, Settings
from romkit.data.layout import reordered
from romkit.engine import Device, Engine
from romkit.projections import METHODS, Projection, Shifts, Sliced, stack, unstack
from romkit.projections.sizes import arguments
from romkit.systems import SYSTEMS, System
from romkit.training import Recipe
from romkit.training.recipe import SETTINGS
from romkit.training.run import Run
from romkit.training.watch import NAMES, Watch
from romkit.verbs.presets import PRESETS, sized
from romkit.verbs.training_set import TrainingSet, checked_data, raise_precision


def find_method(argument: str, method: object) -> tuple[type[Projection], Entries]:
    kind, sizes = method, {}
    if isinstance(method, functools.partial):
        kind = method.func
        sizes = dict(method.keywords)
    if isinstance(kind, str):
        kind = METHODS[checks.one_of(argument, kind, METHODS)]
    if isinstance(kind, type) and issubclass(kind, Projection):
        return kind, sizes
    raise InputError(
        argument,
        expected="a name, a class of projections, or one with its sizes",
        got=checks.shown(method),
        fix=f"give one of {', '.join(METHODS)}, say, or NcAE.with_sizes(layers=(2, 24, 36))",
    )


Method = Annotated[str | type[Projection] | functools.partial, find_method]
"""The argument becomes a class and its sizes."""

Preset = Annotated[str, checks.choice(PRESETS)] | Recipe


@validated
@torch.inference_mode(mode=False)  # training needs gradients, and inference mode makes none
def fit(
    method: Method,
    data: xr.Dataset,
    *,
    basis: int | Basis | None = None,
    symmetry: Literal["shift"] | Shifts | None = None,
    seed: Seed = 0,
    seeds: Seeds | None = None,
    preset: Preset = "quick",
    start: Projection | None = None,
    system: System | None = None,
    device: Device | None = None,
    engine: Engine = "auto",
    checkpoint: FilePath | None = None,
    executor: Pool | None = None,
    **settings: object,
) -> Projection:
    """Train a projection on a dataset.

    Args:
        method: a name from `romkit.projections.METHODS`, for example "ncae"; a class of
            projections, of the user's own, say; or one with its sizes, `NcAE.with_sizes(layers=(2,
            24, 36))`.
        data: a dataset in romkit's schema (see `romkit.data.schema`), from a system or the user's
            own. In chunks of dask it is read chunk by chunk with a basis, and into memory without.
        basis: in front of the method, which sees coordinates in it: of `romkit.basis`, or a number
            of modes.
        symmetry: "shift" factors out the shifts that the system declares, or of data without a
            system those of the ring of their variables, u(run, t, x): the method sees aligned
            waves, and the last latent coordinate is their phase. `Shifts(...)` says which.
        seed: determines the initial parameters and the order of the data.
        seeds: trains one model per seed, all at once, as a stack; replaces `seed`.
        preset: a name from `romkit.presets.PRESETS`, or a `romkit.training.Recipe`.
        start: a projection of this method and these sizes, whose parameters training begins with,
            of fewer data say; a stack for `seeds`. Of a method that is not trained it has no
            influence.
        system: gives the field of the full model, where a loss needs it; by default the system that
            the data name. A polynomial manifold, given a system, chooses its settings by rollouts
            over left-out contexts as well. Losses count velocities in units of the data's own
            motion, and in seconds or model time units for Lorenz96 and the pendulum, as the paper
            does.
        device: "cpu" or "cuda"; a GPU is used where there is one.
        engine: "torch" runs step by step; "compiled" compiles the training step, and captures it as
            a CUDA graph on a GPU; "auto" decides by the length of the run. Where compiling fails,
            training warns and goes on without.
        checkpoint: folder from which an interrupted run resumes, bit for bit on a CPU; rollouts
            start again.
        executor: trains pieces of the seeds in other processes; `concurrent.futures`, submitit and
            dask have some.
        **settings: values that override the preset (`epochs=2`, `velocity_weight=0`,
            `rollouts=RolloutTraining(...)`, `loss=[...]`, see `romkit.training.Recipe`) or size the
            method (`latent_dim=3`, `layers=(3, 12, 36)`, see `romkit.projections.architecture`).
            Parts of a recipe also take dotted names, `**{"rollouts.steps": 300}`. Those of
            `romkit.training.Watch`: held-out data (`validation=0.2, patience=50`), `callback`,
            `verbose`.

    Returns:
        The projection on the CPU, with `report` (recipe, losses, versions, device); with `seeds`, a
        stack. Networks are in float32; what is not trained, in float64.

    Raises:
        InputError: unknown method, preset or setting, or data that cannot be used, or are larger
            than memory.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.15, 3.18])
        >>> ncae = romkit.fit("ncae", data, latent_dim=3, epochs=2, verbose=False)
        >>> ncae.name, ncae.latent_dim, len(ncae.report["losses"])
        ('ncae', 3, 2)
    """
    kind, sizes = method
    # watching of a training, by the settings that say so, which are taken out
    watching = {name: settings.pop(name) for name in NAMES if name in settings}
    watch = Watch(**watching)
    check_settings(kind, settings)
    data = checked_data(kind, data, basis)
    training = TrainingSet.build(data, watch, basis, symmetry, system)
    recipe = _recipe(preset, settings, training.frame.system, kind)
    _check_recipe(recipe, engine, checkpoint, training)
    system = _system_used(kind, recipe, training, given=system is not None)

    seed_numbers = [seed] if seeds is None else seeds
    models = _initial(kind, sizes | _architecture(settings), training, seed_numbers)
    started = start is not None and kind.trained
    if started:
        models = _copy_parameters(models, start)

    run = Run(
        recipe,
        training.data,
        system,
        _device(device),
        engine,
        checkpoint,
        watch,
        training.held_out,
        started,
        training.time_unit,
        behind_basis=training.basis is not None,
    )
    models = _trained(run, models, seed_numbers, executor)
    facts = {"preset": preset if isinstance(preset, str) else "own"} | _provenance(run, training)
    for model in models:
        model.report |= facts
    models = training.lift_models(models)
    return models[0] if seeds is None else stack(models)


def _architecture(settings: Settings) -> Entries:
    """Return settings that are not of the recipe, but of the method."""
    return {name: value for name, value in settings.items() if name not in SETTINGS}


def _initial(
    kind: type[Projection],
    sizes: Entries,
    training: TrainingSet,
    seeds: Sequence[int],
) -> list[Projection]:
    """Return a model for each seed before training."""
    behind_basis = training.basis is not None
    config = sized(kind, training.frame, sizes, behind_basis=behind_basis)
    models = []
    for number in seeds:
        generator = torch.Generator().manual_seed(number)
        model = kind(training.frame, generator, **config)
        models.append(raise_precision(model))
    return models


def _recipe(
    preset: str | Recipe, settings: Settings, system: str, kind: type[Projection]
) -> Recipe:
    """Return the recipe of a preset, with the settings that are of a recipe."""
    recipe = preset
    if isinstance(preset, str):
        recipe = PRESETS[preset](system, kind.name)
    of_recipe = {name: value for name, value in settings.items() if name in SETTINGS}
    return recipe.replace_settings(of_recipe)


def _device(device: torch.device | None) -> torch.device:
    if device is not None:
        return device
    name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _trained(
    run: Run, models: Sequence[Projection], seeds: Sequence[int], executor: object
) -> list[Projection]:
    """Return the models after training, in pieces of the seeds where other processes take some."""
    pieces = [(models[piece], seeds[piece]) for piece in cut(len(seeds), executor)]
    with bars(run.watch.verbose):
        trained = mapped(run.train, pieces, executor, "pieces of the seeds")
        return list(itertools.chain.from_iterable(trained))


def _copy_parameters(models: Sequence[Projection], start: Projection) -> list[Projection]:
    """Return the models with the parameters of others, one each, in their own frames.

    Raises:
        InputError: another method, other sizes, or another number of models.
    """
    if isinstance(start, Sliced):
        start = start.shapes
    sources = unstack(start)
    like = models[0]
    if (type(start), start.config, len(sources)) != (type(like), like.config, len(models)):
        raise InputError(
            "start",
            expected=_describe(models),
            got=_describe(sources),
            fix="give what fit returned for these settings",
        )
    for model, source in zip(models, sources, strict=True):
        parameters = {}
        for name, value in source.state_dict().items():
            # scales are those of the new data
            if not name.startswith("frame."):
                parameters[name] = value
        model.load_state_dict(parameters, strict=False)
    return models


def _describe(models: Sequence[Projection]) -> str:
    model = models[0]
    return f"{len(models)} of {model.name} with {pairs(model.config)}"


def check_settings(kind: type[Projection], settings: Settings) -> None:
    """Raise InputError unless every setting is one of `fit`, of the training or of the method."""
    sizes = {*arguments(kind), "latent_dim", "layers"}
    names = {*sizes, *SETTINGS, *NAMES}
    for parameter in inspect.signature(fit).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            names.add(parameter.name)
    for name in settings:
        if name not in names:
            fix = checks.nearest(name, [*sizes, *SETTINGS, *NAMES])
            if not fix:
                plain = [setting for setting in SETTINGS if "." not in setting]
                of_kind = ", ".join(sorted(sizes))
                of_fit = ", ".join(plain)
                fix = f"{kind.name} takes {of_kind}, fit {of_fit}"
            raise InputError(
                name,
                expected=f"a setting of the training or of {kind.name}",
                got="an unknown name",
                fix=fix,
            )


def _check_recipe(recipe: Recipe, engine: str, checkpoint: object, training: TrainingSet) -> None:
    """Raise where an optimizer of torch or geoopt is asked for compilation or checkpoints, or a
    loss for the field of aligned waves.
    """
    if callable(recipe.snapshots.optimizer):
        fix = "leave it out, or give the name of an optimizer"
        if engine == "compiled":
            raise InputError(
                "engine", expected="'torch' or 'auto' with an optimizer", got=repr(engine), fix=fix
            )
        checks.absent("beside an optimizer", fix, checkpoint=checkpoint)
    if training.wave is not None and recipe.needs_system:
        raise InputError(
            "symmetry",
            expected="a loss without the field of the system",
            got="one with it",
            fix="take preset='quick', and fit a law to the result: it learns the speed of the phase",
        )


def _system_used(
    kind: type[Projection], recipe: Recipe, training: TrainingSet, *, given: bool
) -> System | None:
    """Return the system, where losses need its field, or a choice of settings that the user gave it
    for.
    """
    if recipe.needs_system:
        return _find_system(recipe, training)
    # equations that the user gives choose the settings of a manifold, too
    if given and kind.chosen_by_rollouts and training.wave is None:
        return _find_system(recipe, training)
    return None


def _find_system(recipe: Recipe, training: TrainingSet) -> System:
    """Return the system, for losses and choices that need its field."""
    system = training.system
    basis = training.basis
    frame = training.frame
    if system is None:
        raise InputError(
            "system",
            expected=f"data of {', '.join(SYSTEMS)}",
            got=repr(training.full.attrs.get("system")),
            fix="pass system=..., an instance of romkit.systems.System, or use a preset that needs "
            "no field",
        )
    if basis is not None and system.state_size == basis.size:
        system = system.through(basis)
    # refuse unless a system has the components and the context of a frame, in its order
    size = system.state_size
    names = system.context_names
    if size != len(frame.state_names) or names != frame.context_names:
        raise InputError(
            "system",
            expected=f"one with {len(frame.state_names)} components and the context of the data",
            got=f"{system.name} with {size} and {names}",
            fix="pass the one of the data",
        )
    components = tuple(system.state_names)
    if reordered(components, frame.state_names):
        order = f"{components[0]} ... {components[-1]}"
        raise InputError(
            "data",
            expected=f"components in the order {order}, as {system.name}",
            got=f"{frame.state_names[0]} ... {frame.state_names[-1]}",
            fix="data.sel(component=[...])",
        )
    for term in recipe.loss:
        if term.needs_field and system.order != 1:
            raise InputError(
                "loss",
                expected="terms for a mechanical system",
                got=repr(term),
                fix="leave it out, in a preset latent_weight=0; rollouts take mechanical systems as "
                "well",
            )
    return system


def _provenance(run: Run, training: TrainingSet) -> Entries:
    """Recipe, data, device and versions, for the report."""
    attrs = training.full.attrs
    facts = {key: attrs.get(key) for key in ("system", "parameters", "split", "seed")}
    facts["velocity"] = training.data["velocity"].attrs.get("method")
    plain = {key: value for key, value in facts.items() if isinstance(value, str | int)}
    return {
        "recipe": run.plan.to_json(),
        "data": plain,
        "device": runtime.device_name(run.device),
        "versions": runtime.versions(),
    }
