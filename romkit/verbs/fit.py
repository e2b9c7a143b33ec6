"""`romkit.fit`: from a method and a dataset to a trained projection."""

import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
import torch
import xarray as xr

from romkit.bases import Basis, check_size
from romkit.bases import basis as make_basis
from romkit.core import checks, runtime
from romkit.core.boundary import FilePath, Seed, Seeds, validated
from romkit.core.display import pairs
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.parallel import Pool, cut, mapped
from romkit.core.runtime import bars
from romkit.data import check_dataset, check_states, context_names, snapshots
from romkit.data.context import is_declared
from romkit.data.velocity import needing_velocity
from romkit.engine import Device, Engine
from romkit.projections import METHODS, Frame, Projection, Shifts, Sliced, stack, unstack
from romkit.projections.base import arguments
from romkit.projections.sliced import Wave
from romkit.systems import SYSTEMS, System, system_of
from romkit.training import Recipe
from romkit.training.loop import NAMES, Watch
from romkit.training.recipe import SETTINGS, Run
from romkit.verbs.presets import PRESETS, SIZES, sized


def method_of(argument: str, method: object) -> tuple[type[Projection], dict[str, object]]:
    kind, sizes = method, {}
    if isinstance(method, functools.partial):
        kind, sizes = method.func, dict(method.keywords)
    if isinstance(kind, str):
        kind = METHODS[checks.one_of(argument, kind, METHODS)]
    if isinstance(kind, type) and issubclass(kind, Projection):
        return kind, sizes
    expected = "a name, a class of projections, or one with its sizes"
    fix = f"give one of {', '.join(METHODS)}, say, or NcAE.with_sizes(layers=(2, 24, 36))"
    raise InputError(argument, expected=expected, got=checks.shown(method), fix=fix)


Method = Annotated[str | type[Projection] | functools.partial, method_of]
"""The argument becomes a class and its sizes."""

COPIES = 5
"""Memory that training takes, in sizes of states and velocities in float64."""

COMMUTES = 1e-9
"""Largest relative difference of f(g x) and g f(x) that counts as rounding."""

Preset = Annotated[str, checks.choice(PRESETS)] | Recipe


@validated
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
            the data name. Losses count velocities in units of the data's own motion, and in seconds
            or model time units for Lorenz96 and the pendulum, as the paper does.
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
        The projection, in float32 on the CPU, with `report` (recipe, losses, versions, device);
        with `seeds`, a stack.

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
    data = _in_memory(data) if basis is None else data
    watch = Watch(**{name: settings.pop(name) for name in NAMES if name in settings})
    full, held_out = watch.divided(warn_undeclared_context(_with_velocities(kind, data, basis)))
    numbers = [seed] if seeds is None else seeds
    device = (
        torch.device("cuda" if torch.cuda.is_available() else "cpu") if device is None else device
    )
    _check_names(kind, settings)
    system = system_of(full) if system is None else system
    wave = None if symmetry is None else _wave(symmetry, full, basis, system)
    basis = _basis(basis, full, system)
    data, held_out = _projected(full, basis or wave), _projected(held_out, basis or wave)
    frame, estimate = Frame.from_dataset(data), data["velocity"].attrs.get("method")
    plan = preset if isinstance(preset, Recipe) else PRESETS[preset](frame.system, kind.name)
    plan = plan.with_settings({name: value for name, value in settings.items() if name in SETTINGS})
    _check_optimizer(plan, engine, checkpoint)
    # the paper's losses count velocities in the unit of its systems
    in_full_space = getattr(system, "full", system)  # of one that is seen through a basis
    names = {frame.system} | ({in_full_space.name} if in_full_space is not None else set())
    unit = 1.0 if names & SIZES.keys() else _unit_of_time(data, frame)
    if wave is not None and plan.needs_system:
        fix = "take preset='quick', and fit a law to the result: it learns the speed of the phase"
        raise InputError(
            "symmetry",
            expected="a loss without the field of the system",
            got="one with it",
            fix=fix,
        )
    system = _system_for(plan, system, full, basis, frame)
    sizes = sized(kind, frame, sizes | {k: v for k, v in settings.items() if k not in SETTINGS})
    models = [kind(frame, torch.Generator().manual_seed(number), **sizes) for number in numbers]
    start = start if kind.trained else None
    models = models if start is None else _with_parameters_of(models, start)
    run = Run(
        plan, data, system, device, engine, checkpoint, watch, held_out, start is not None, unit
    )
    pieces = [(models[s], numbers[s]) for s in cut(len(numbers), executor)]
    with bars(watch.verbose):
        models = [
            model
            for part in mapped(run.train, pieces, executor, "pieces of the seeds")
            for model in part
        ]
    front = None if basis is None else Frame.from_dataset(full, basis, frame)
    report = {
        "preset": preset if isinstance(preset, str) else "own",
        **_provenance(full, estimate, plan, device),
    }
    for model in models:
        model.report |= report
    models = models if front is None else [model.in_frame(front) for model in models]
    models = models if wave is None else [Sliced.of(model, wave, full) for model in models]
    return stack(models) if seeds is not None else models[0]


def _with_parameters_of(models: Sequence[Projection], start: Projection) -> list[Projection]:
    """The models with the parameters of others, one each, in their own frames.

    Raises:
        InputError: another method, other sizes, or another number of models.
    """
    start = start.shapes if isinstance(start, Sliced) else start
    given, like = [start] if start.seeds is None else unstack(start), models[0]
    if (type(start), start.config, len(given)) != (type(like), like.config, len(models)):
        expected, got = (
            f"{len(m)} of {m[0].name} with {pairs(m[0].config)}" for m in (models, given)
        )
        raise InputError(
            "start", expected=expected, got=got, fix="give what fit returned for these settings"
        )
    for model, own in zip(models, given, strict=True):
        parameters = own.state_dict()
        model.load_state_dict(
            {key: value for key, value in parameters.items() if not key.startswith("frame.")}, False
        )
    return models


def _projected(data: xr.Dataset | None, front: Basis | Wave | None) -> xr.Dataset | None:
    """Coordinates of the data in the basis, or of aligned waves, with velocities; the data as they
    are without.
    """
    if data is None or front is None:
        return data
    found = runtime.computed("coordinates", front.project(data))[0]
    return found if "velocity" in found else check_dataset(needing_velocity(found))


def _wave(symmetry: str | Shifts, data: xr.Dataset, basis: object, system: System | None) -> Wave:
    """Coordinates of the waves in the data.

    Raises:
        InputError: a system without the symmetry, or data without waves of one number.
    """
    if basis is not None:
        fix = "leave the basis out: the coordinates of a wave are its harmonics"
        raise InputError("basis", expected="none beside symmetry", got=checks.shown(basis), fix=fix)
    if system is None:
        frame = Frame.from_dataset(data)
        if symmetry == "shift" and frame.fields.is_plain:
            got, fix = (
                "a state of unknown fields",
                "pass system=..., or symmetry=Shifts(variables=2) for two fields",
            )
            raise InputError(
                "symmetry", expected="a system, or variables over the ring", got=got, fix=fix
            )
        return (Shifts() if symmetry == "shift" else symmetry).wave(data, frame)
    shifts = system.symmetry if symmetry == "shift" else symmetry
    fix = "leave symmetry out, or declare it: symmetry = Shifts() of the system"
    if shifts is None or system.order != 1:
        got = f"{system.name}, {'which declares none' if shifts is None else 'which is of second order'}"
        raise InputError(
            "symmetry", expected="a system whose field commutes with shifts", got=got, fix=fix
        )
    some = snapshots(data, every=max(1, data.sizes["time"] // 4))
    noise = torch.randn(
        some.state.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    beside = (
        some.state + 0.1 * some.state.std() * noise
    )  # waves that stand still have no rate to compare with
    if (error := system.commutator(shifts, beside, some.context)) > COMMUTES:
        got = f"{system.name}, whose field differs by {error:.1e}"
        raise InputError(
            "symmetry", expected="a system whose field commutes with shifts", got=got, fix=fix
        )
    return shifts.wave(data, Frame.from_dataset(data))


def _in_memory(data: xr.Dataset) -> xr.Dataset:
    """The data, which are read if they are in chunks of dask.

    Raises:
        InputError: they are too large.
    """
    size, memory = (
        sum(8 * each.size for each in data.data_vars.values() if each.chunks),
        runtime.memory(),
    )
    if COPIES * size > memory:
        expected = f"at most {memory / COPIES / 1e9:.3g} GB without a basis, of which training makes {COPIES}"
        fix = "add basis=64, say, which reads chunk by chunk, or select some: data.isel(time=slice(None, None, 10))"
        raise InputError(
            "data", expected=expected, got=f"{size / 1e9:.3g} GB in chunks, in float64", fix=fix
        )
    return runtime.computed("data", data)[0]


def _with_velocities(
    kind: type[Projection], data: xr.Dataset, basis: int | Basis | None
) -> xr.Dataset:
    """The data, checked, with velocities, unless a basis gives coordinates to differentiate;
    untrained, with zeros.
    """
    if kind.trained and basis is not None and "velocity" not in data:
        return check_states(data)
    if kind.trained:
        return check_dataset(needing_velocity(data))
    return data.assign(velocity=xr.zeros_like(check_states(data)["state"]))


def warn_undeclared_context(data: xr.Dataset) -> xr.Dataset:
    """`data`, after a warning if they do not declare their context."""
    if not is_declared(data) and (names := context_names(data)):
        text = f"the context is taken to be {', '.join(names)}, every coordinate of numbers along the trajectories"
        warn(f"{text}; declare it: romkit.data.describe(data, context=[...])", DataWarning)
    return data


def _basis(given: int | Basis | None, data: xr.Dataset, system: System | None) -> Basis | None:
    """The basis in front: as it is given, or of the data in the metric of their system."""
    if given is None:
        return None
    if isinstance(given, Basis):
        check_size(given, data)
        return given
    return make_basis(
        data, checks.at_least("basis", given, 1), None if system is None else system.weight
    )


def _unit_of_time(data: xr.Dataset, frame: Frame) -> float:
    """Time in which the state moves by its deviation (root mean squares), so that velocities in it
    are of its size.
    """
    speed = (
        data["velocity"].transpose(..., "component").astype(np.float64)
        / frame.exact["state_scale"].numpy()
    )
    square = float((speed**2).mean())
    return square**-0.5 if square > 0 else 1.0


def _check_names(kind: type[Projection], settings: Mapping[str, object]) -> None:
    """Every setting must be one of the recipe or of the method."""
    sizes = {*arguments(kind), "latent_dim", "layers"}
    for name in settings:
        if name not in sizes and name not in SETTINGS:
            plain = ", ".join(setting for setting in SETTINGS if "." not in setting)
            own = f"{kind.name} takes {', '.join(sorted(sizes))}, fit {plain}"
            fix = checks.nearest(name, [*sizes, *SETTINGS, *NAMES]) or own
            expected = f"a setting of the training or of {kind.name}"
            raise InputError(name, expected=expected, got="an unknown name", fix=fix)


def _check_optimizer(plan: Recipe, engine: str, checkpoint: object) -> None:
    """Raise where an optimizer of torch or geoopt is asked for compilation or checkpoints."""
    if callable(plan.snapshots.optimizer):
        fix = "leave it out, or give the name of an optimizer"
        if engine == "compiled":
            raise InputError(
                "engine", expected="'torch' or 'auto' with an optimizer", got=repr(engine), fix=fix
            )
        if checkpoint is not None:
            raise InputError(
                "checkpoint", expected="none with an optimizer", got=repr(checkpoint), fix=fix
            )


def _system_for(
    plan: Recipe, system: System | None, data: xr.Dataset, basis: Basis | None, frame: Frame
) -> System | None:
    """The system, for losses that need its field; None for others."""
    if not plan.needs_system:
        return None
    if system is None:
        fix = "pass system=..., an instance of romkit.systems.System, or use a preset that needs no field"
        got = repr(data.attrs.get("system"))
        raise InputError("system", expected=f"data of {', '.join(SYSTEMS)}", got=got, fix=fix)
    if basis is not None and system.state_size == basis.size:
        system = system.through(basis)
    if system.state_size != len(frame.state_names) or system.context_names != frame.context_names:
        expected = f"one with {len(frame.state_names)} components and the context of the data"
        got, fix = (
            f"{system.name} with {system.state_size} and {system.context_names}",
            "pass the one of the data",
        )
        raise InputError("system", expected=expected, got=got, fix=fix)
    own, given = tuple(system.state_names), frame.state_names
    if own != given and sorted(own) == sorted(given):
        expected, fix = (
            f"components in the order {own[0]} ... {own[-1]}, as {system.name}",
            "data.sel(component=[...])",
        )
        raise InputError("data", expected=expected, got=f"{given[0]} ... {given[-1]}", fix=fix)
    for term in plan.loss:
        if term.needs_field and system.order != 1:
            fix = "leave it out, in a preset latent_weight=0; rollouts take mechanical systems as well"
            raise InputError(
                "loss", expected="terms for a mechanical system", got=repr(term), fix=fix
            )
    return system


def _provenance(
    data: xr.Dataset, estimate: str | None, plan: Recipe, device: torch.device
) -> dict[str, object]:
    source = {key: data.attrs.get(key) for key in ("system", "parameters", "split", "seed")} | {
        "velocity": estimate
    }
    return {
        "recipe": plan.to_json(),
        "data": {key: value for key, value in source.items() if isinstance(value, str | int)},
        "device": runtime.device_name(device),
        "versions": runtime.versions(),
    }
