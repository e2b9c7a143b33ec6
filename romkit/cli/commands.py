"""Commands of `romkit` about data, models and runs; `explore` and `study` are in `main`, `report`
has its own file.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Exit, Option

import romkit
from romkit.cli import describe, options
from romkit.core import checks
from romkit.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr


def info(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="A file by romkit, or a name it knows.")
    ] = None,
) -> None:
    """Show what romkit offers, or what a file holds.

    NAME is a file (dataset, model, law or basis), a system, a method, dynamics, a law, or a
    pretrained model.

    \b
    Examples:
      romkit info                          systems, methods, models, versions
      romkit info lorenz96                 the equation and context of a system
      romkit info ncae                     a method with its settings
      romkit info sindy                    a law with its settings
      romkit info ncae-lorenz96            how a model was trained
      romkit info runs/lorenz96-train.nc   what a dataset holds
    """  # noqa: D301, typer keeps the lines after \b as they are
    systems, methods, pretrained = (
        romkit.systems.SYSTEMS,
        romkit.projections.METHODS,
        romkit.projections.pretrained(),
    )
    kinds = romkit.integrators.LAWS | romkit.integrators.DYNAMICS
    if name is None:
        print(describe.everything())
    elif name in systems or options.is_in_file(name):
        print(describe.system(options.system_named(name)))
    elif name in methods:
        print(describe.method(methods[name]))
    elif name in kinds:
        print(describe.settings(kinds[name]))
    elif name in pretrained or Path(name).suffix == ".safetensors":
        print(describe.model(romkit.load(name)))
    else:
        if not options.is_path(name):
            checks.one_of("name", name, [*systems, *methods, *kinds, *pretrained])
        print(describe.dataset(romkit.data.open_dataset(name)))


def check(
    file: Annotated[
        str, Argument(metavar="FILE", help="A netCDF file of any origin, or a .csv table.")
    ],
    context: Annotated[
        str | None, Option(help="Names of the context parameters, with commas.")
    ] = None,
    state: Annotated[str | None, Option(help="Names of the variables of the state.")] = None,
    control: Annotated[str | None, Option(help="Names of the inputs.")] = None,
    trajectory: Annotated[
        str | None, Option(help="The dimension, or column, of the trajectories.")
    ] = None,
    time: Annotated[str | None, Option(help="The dimension, or column, of time.")] = None,
    out: Annotated[Path | None, Option(help="Write the data in romkit's schema here.")] = None,
    force: options.Force = False,
) -> None:
    """Show what romkit takes data for: state, context, sampling, what is missing and what is
    ignored.

    \b
    Examples:
      romkit check my.nc
      romkit check my.nc --context Re,epsilon --state u,v --out my-data.nc
      romkit check my.csv --context Re --trajectory run --time t --out my-data.nc

    What --out writes is what `romkit fit` takes. Names are those of romkit.data.describe.
    """  # noqa: D301
    target = options.target(out, "check", "data.nc", force) if out else None
    given = {
        "context": options.names(context),
        "state": options.names(state),
        "control": options.names(control) or (),
    }
    data = romkit.data.describe(options.read_own(file), **given, trajectory=trajectory, time=time)
    if target:
        options.write(romkit.data.save_dataset, data, target, before="\n")


def dataset(
    ctx: Context,
    system: Annotated[
        str, Argument(metavar="SYSTEM", help="Name of a system; `romkit info` lists them.")
    ],
    split: Annotated[
        str | None, Option(help="train (random contexts, by default) or test.")
    ] = None,
    seed: Annotated[int, Option(help="Seed of the random contexts and initial states.")] = 0,
    duration: Annotated[
        float | None, Option(help="Length of each trajectory; the system's by default.")
    ] = None,
    out: Annotated[
        Path | None, Option(help="File, or folder for data.nc; runs/SYSTEM-SPLIT by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Simulate a dataset: states, velocities, contexts.

    \b
    Examples:
      romkit dataset lorenz96                            the training set of seed 0
      romkit dataset lorenz96 --split test
      romkit dataset lorenz96 --F 3.14,3.15 --out my.nc  at contexts of your own

    Writes a netCDF file that `romkit fit`, romkit.data.open_dataset and xarray read.
    """  # noqa: D301
    full_model = options.system_named(system)
    context = options.context_values(ctx, full_model.context_names)
    split = split or (None if context else "train")
    file = options.target(
        out, f"{options.short_name(system)}-{split or 'contexts'}", "data.nc", force
    )
    data = full_model.dataset(split, seed=seed, duration=duration, **context)
    print(describe.dataset(data))
    options.write(romkit.data.save_dataset, data, file, before="\n")


def fit(
    method: Annotated[
        str, Argument(metavar="METHOD", help="Name of a method; `romkit info` lists them.")
    ],
    data: options.Data,
    seed: Annotated[
        int, Option(help="Seed of the initial parameters and the order of the data.")
    ] = 0,
    preset: Annotated[
        str, Option(help="Settings to start from; `romkit info` lists them.")
    ] = "quick",
    set_: options.Settings = None,
    device: options.Device = None,
    checkpoint: Annotated[
        Path | None, Option(help="Folder of the progress; the same command resumes.")
    ] = None,
    out: Annotated[
        Path | None, Option(help="File, or folder for it; runs/METHOD-DATA by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Train a projection: an encoder and a decoder.

    The dataset is a file by `romkit dataset` or your own: dimensions trajectory, time, component;
    variables state and velocity; context parameters as coordinates along trajectory.

    \b
    Examples:
      romkit fit ncae lorenz96
      romkit fit ncae-bias lorenz96 --seed 1 --set epochs=100 --set batch_size=512
      romkit fit ncae lorenz96 --preset dynamics --set rollouts.steps=300 --set phase=none
      romkit fit pod my.nc --set latent_dim=4 --out pod.safetensors

    Writes a file that `romkit rollout --model` and romkit.load read, and the curve of the training
    beside it.
    """  # noqa: D301
    given = {"seed": seed, "preset": preset, "device": device, "checkpoint": checkpoint}
    given |= options.settings(set_, refused=("method", "data", "system", *given))
    checks.one_of("method", method, romkit.projections.METHODS)
    checks.one_of("preset", preset, romkit.presets.PRESETS)
    file = options.target(
        out, f"{method}-{options.short_name(data)}", "projection.safetensors", force
    )
    projection = romkit.fit(method, options.read_data(data), **given)
    print(describe.model(projection))
    options.write(romkit.save, projection, file, before="\n")
    if projection.curves()[1]:
        options.write(
            romkit.plotting.save_figure,
            romkit.plotting.plot_training(projection),
            file.with_suffix(".png"),
        )


def law(
    kind: Annotated[
        str, Argument(metavar="KIND", help="auto, or the name of a law; `romkit info` lists them.")
    ],
    model: options.Model,
    data: options.Data,
    seed: Annotated[int, Option(help="Seed of whatever is random in the fit.")] = 0,
    seconds: Annotated[float, Option(help="About how long auto may take.")] = 120.0,
    set_: options.Settings = None,
    select: Annotated[
        list[str] | None, Option(help="Choose by held-out rollouts.", metavar="NAME=V,V,...")
    ] = None,
    members: Annotated[
        int | None, Option(max=10_000, help="Bootstraps of an ensemble; --out is its folder.")
    ] = None,
    out: Annotated[
        Path | None, Option(help="File, or folder for law.safetensors; runs/KIND-DATA by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Fit latent dynamics to data: an equation that prints (sindy, ...), or a small network
    (neural-ode).

    auto tries sindy, operator-inference and neural-ode, and keeps what follows held-out
    trajectories best. Without velocities in the data, rates come from differentiation in time; with
    accelerations, the law is of second order. Settings are those of romkit.integrators.SINDy,
    NeuralODE, ...: `romkit info sindy` has them. Those that are left out, the threshold of sindy
    say, are chosen by held-out trajectories.

    \b
    Examples:
      romkit law auto my.safetensors my.nc --seconds 60
      romkit law sindy ncae-lorenz96 lorenz96 --set degree=5 --set threshold=0.05
      romkit law sindy my.safetensors my.nc --select degree=1,2,3 --select threshold=0.01,0.1
      romkit law neural-ode my.safetensors my.nc --set hidden=16,16 --out law.safetensors
      romkit law weak-sindy my.safetensors my.nc --members 20

    Writes a file that `romkit rollout --dynamics`, `romkit info` and romkit.load read.
    """  # noqa: D301
    values, choices = options.settings(set_), options.settings(select, "--select")
    if kind == "auto":
        _refuse_beside_auto({"--set": values, "--select": choices, "--members": members})
        file = options.target(out, f"law-{options.short_name(data)}", "law.safetensors", force)
        projection, training = options.load("projection", model), options.read_data(data)
        found = romkit.law(projection, training, seconds=seconds, seed=seed)
        print(describe.model(found))
        options.write(romkit.save, found, file, before="\n")
        return
    estimator = _estimator(kind, values, choices)
    # --out is a folder for an ensemble
    target = out if out is None or members is None else out / "law.safetensors"
    file = options.target(target, f"{kind}-{options.short_name(data)}", "law.safetensors", force)
    projection, training = options.load("projection", model), options.read_data(data)
    if members is not None:
        ensemble = romkit.bootstrap(projection, estimator, training, members=members, seed=seed)
        print(describe.model(_shown_law(ensemble)))
        print(f"\nwrote an ensemble of {members} to {ensemble.save(file.parent)}")
        return
    found = estimator.fit(projection, training, seed=seed, select=_grid(choices) or None)
    print(describe.model(found))
    options.write(romkit.save, found, file, before="\n")


def _refuse_beside_auto(values: dict[str, object]) -> None:
    for option, value in values.items():
        if value:
            fix = "name a law, sindy say, or leave it out"
            raise InputError(option, expected="nothing beside auto", got="a value", fix=fix)


def _estimator(
    kind: str, values: dict[str, object], choices: dict[str, object]
) -> "romkit.integrators.Estimator":
    """The estimator of a law with its settings."""
    estimator = romkit.integrators.LAWS[checks.one_of("kind", kind, romkit.integrators.LAWS)]
    names = [field.name for field in dataclasses.fields(estimator)]
    for option, settings in (("--set", values), ("--select", choices)):
        for name in settings:
            checks.one_of(option, name, names)
    return estimator(**values)


def _grid(choices: dict[str, object]) -> dict[str, tuple]:
    """Values of each setting to choose from."""
    return {
        name: values if isinstance(values, tuple) else (values,) for name, values in choices.items()
    }


def _shown_law(ensemble: "romkit.Ensemble") -> "romkit.integrators.LearnedField":
    """The law of one member, where laws of a stack can be taken apart."""
    law = ensemble.law
    return law[0] if hasattr(law, "__getitem__") else law


def rollout(
    ctx: Context,
    source: Annotated[str, Argument(metavar="SYSTEM", help="A system, or a dataset file.")],
    model: Annotated[
        str | None, Option(metavar="MODEL", help="A file by `romkit fit`, or a pretrained model.")
    ] = None,
    duration: Annotated[
        float | None, Option(help="Length of the run, in the system's time units.")
    ] = None,
    dt: Annotated[
        float | None, Option(help="Output interval, and step of the reduced model.")
    ] = None,
    dynamics: Annotated[
        str | None, Option(help="Name of dynamics, or a file by `romkit law`.")
    ] = None,
    device: options.Device = None,
    out: Annotated[
        Path | None, Option(help="Folder for the results; runs/rollout-SYSTEM by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Compare a full model with its reduced model.

    Both start from the same state. The context is given by the names of its parameters, with commas
    for several runs at once. The model is the one that ships for the system (of several NcAE),
    unless --model names another. `romkit info` lists systems and dynamics (galerkin,
    petrov-galerkin, lspg, as in training by default);
    my_system.py:Burgers is a system in a file.

    \b
    Examples:
      romkit rollout lorenz96 --F 3.15
      romkit rollout lorenz96 --F 3.14,3.15,3.18 --duration 50
      romkit rollout lorenz96 --F 3.15 --dynamics petrov-galerkin
      romkit rollout lorenz96 --F 3.15 --model runs/pod-lorenz96.safetensors
      romkit rollout my.nc --model my.safetensors --dynamics law.safetensors
      romkit rollout my_system.py:Burgers --nu 0.01 --model my.safetensors

    Prints the normalised error over time (NRMSE) beside that of the projection alone: the full
    model, encoded and decoded. Of a dataset, all trajectories are followed at their contexts.
    Writes rollout.nc (all trajectories) and rollout.png.
    """  # noqa: D301
    own_data = source not in romkit.systems.SYSTEMS and options.is_path(source)
    if own_data and model is None:
        raise InputError(
            "--model", expected="a model for these data", got="none", fix="add --model MODEL"
        )
    is_system = not own_data or options.is_in_file(source)
    truth = options.system_named(source) if is_system else options.read_data(source)
    context = options.context_values(ctx, getattr(truth, "context_names", ()))
    latent = _dynamics(dynamics) if dynamics else None
    file = options.target(out, f"rollout-{options.short_name(source)}", "rollout.nc", force)
    shipped = [name for name in romkit.projections.pretrained() if name.partition("-")[2] == source]
    projection = options.load("projection", model or max(shipped, default=f"ncae-{source}"))
    given = {"duration": duration, "dt": dt, "dynamics": latent, "device": device}
    run = romkit.rollout(truth, projection, **given, **context)
    print(describe.run(run))
    options.write(romkit.data.save_dataset, run, file, before="\n")
    options.write(
        romkit.plotting.save_figure, romkit.plotting.plot_rollout(run), file.with_suffix(".png")
    )


def branches(
    ctx: Context,
    source: Annotated[
        str, Argument(metavar="SYSTEM", help="Name of a system; `romkit info` lists them.")
    ],
    model: Annotated[
        str | None, Option(metavar="MODEL", help="A file by `romkit fit`, or a pretrained model.")
    ] = None,
    period: Annotated[
        float | None, Option(help="Follow a periodic orbit of about this period.")
    ] = None,
    start: Annotated[
        str | None, Option("--from", metavar="FILE", help="Data that end near it, or branches.nc.")
    ] = None,
    leave: Annotated[
        int | None, Option(min=0, help="Follow what leaves this special point of --from.")
    ] = None,
    points: Annotated[int, Option(min=2, help="Points on the branch, at most.")] = 200,
    dynamics: Annotated[
        str | None, Option(help="Name of dynamics, or a file by `romkit law`.")
    ] = None,
    verify: Annotated[
        bool, Option("--verify", help="Solve the full model from some of the points.")
    ] = False,
    out: Annotated[
        Path | None, Option(help="Folder for the results; runs/branches-SYSTEM by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Follow an equilibrium or a periodic orbit along a context parameter, and say where it
    bifurcates.

    One parameter of the context has two ends, --F 3.155,3.133; the others have a number. The first
    state is the one in which the system settles at the first end, or the last one of --from. With
    --model the latent field is followed.

    \b
    Examples:
      romkit branches lorenz96 --F 0.5,2 --points 40
      romkit branches lorenz96 --F 0.5,2 --leave 0 --out waves --from branches.nc
      romkit branches lorenz96 --F 3.155,3.133 --period 3.09 --model ncae-lorenz96 --verify

    Writes branches.nc and branches.png, and with --verify what the full model has, verified.nc.
    """  # noqa: D301
    system = options.system_named(source)
    context = options.context_values(ctx, system.context_names)
    settings = {
        "kind": "equilibria" if period is None else "orbits",
        "period": period,
        "at": leave,
        "points": points,
    }
    latent = _dynamics(dynamics) if dynamics else None
    file = options.target(out, f"branches-{options.short_name(source)}", "branches.nc", force)
    followed = system
    if model:
        followed = options.load("projection", model)
        settings |= {"dynamics": latent, "system": system}
    begin = _branch_start(start, system, context)
    branch = romkit.continuation(followed, start=begin, **settings, **context)
    found = romkit.verify(branch, system) if verify else None
    print(describe.branch(branch, found))
    options.write(romkit.data.save_dataset, branch, file, before="\n")
    pictured = [branch]
    if found is not None:
        options.write(romkit.data.save_dataset, found, file.with_name("verified.nc"))
        pictured.append(found)
    figure = romkit.plotting.plot_branches(*pictured)
    options.write(romkit.plotting.save_figure, figure, file.with_suffix(".png"))


def _branch_start(
    start: str | None, system: "romkit.systems.System", context: dict[str, object]
) -> "xr.Dataset | list[float]":
    """An earlier branch; or the last state of a file, or where the system settles at the first
    context.
    """
    if start is None:
        ends = {
            name: value[0] if isinstance(value, list) else value for name, value in context.items()
        }
        data = system.dataset(duration=system.dt, **ends)
    else:
        data = romkit.data.open_dataset(start)
    if "special_kind" in data:
        return data
    names = ("state", "velocity")[: system.order]
    return [x for name in names for x in data[name].values[0, -1]]


def _dynamics(name: str) -> "romkit.integrators.LatentDynamics":
    if Path(name).suffix == ".safetensors":
        return options.load("law", name)
    known = romkit.integrators.DYNAMICS
    if name not in known and Path(name).suffix == ".py":
        fix = "import the file, romkit --import FILE.py ..., and give the name that it enters into DYNAMICS"
        raise InputError("dynamics", expected="a name or a file by romkit law", got=name, fix=fix)
    return known[checks.one_of("dynamics", name, known)]()


def forecast(
    ctx: Context,
    model: Annotated[
        str, Argument(metavar="MODEL", help="A file by `romkit fit`, or the folder of an ensemble.")
    ],
    start: Annotated[
        str, Option("--from", metavar="DATA", help="The dataset that has the first state.")
    ],
    duration: Annotated[float, Option(help="Length of the forecast.")],
    trajectory: Annotated[int, Option(help="Which trajectory of the dataset.")] = 0,
    at: Annotated[int, Option(help="Which of its samples is the first state; -1 is the last.")] = 0,
    dt: Annotated[
        float | None, Option(help="Output interval; that of the dataset by default.")
    ] = None,
    dynamics: Annotated[str | None, Option(help="A law, a file by `romkit law`.")] = None,
    control: Annotated[
        str | None, Option(metavar="FILE", help="netCDF file with control (time, input).")
    ] = None,
    level: Annotated[
        float, Option(help="Probability that the interval of an ensemble claims.")
    ] = 0.9,
    device: options.Device = None,
    out: Annotated[
        Path | None, Option(help="Folder for the results; runs/forecast-MODEL by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Forecast from a state, with no truth beside it. Context and inputs are those of the data,
    unless they are given.

    A file by `romkit fit` needs --dynamics; an ensemble is the folder that `romkit law --members`
    wrote. The inputs of --control begin at the first state.

    \b
    Examples:
      romkit forecast my.safetensors --dynamics law.safetensors --from my.nc --duration 40
      romkit forecast runs/sindy-my --from my.nc --trajectory 3 --at -1 --duration 40 --Re 110
      romkit forecast my.safetensors --dynamics law.safetensors --from my.nc --at -1
          --duration 40 --control inputs.nc

    Writes forecast.nc, and forecast.png of an ensemble. Says where it leaves what the model was
    trained on.
    """  # noqa: D301
    file = options.target(out, f"forecast-{Path(model).stem}", "forecast.nc", force)
    data = romkit.data.check_states(options.read_data(start))
    sample = _select(data, trajectory=trajectory, time=at)
    ensemble = romkit.Ensemble.load(model) if os.path.isdir(model) else None
    if ensemble is None and dynamics is None:
        fix = "add --dynamics law.safetensors"
        raise InputError("--dynamics", expected="a law", got="none", fix=fix)
    projection = ensemble.projection if ensemble else options.load("projection", model)
    law = ensemble.law if ensemble else options.load("law", dynamics)
    names = projection.frame.context_names
    context = {
        name: float(sample[name]) for name in romkit.data.context_names(data) if name in names
    }
    settings = {
        "initial_state": sample["state"],
        "duration": duration,
        "dt": _interval(data) if dt is None else dt,
        "context": context | options.context_values(ctx, names),
        "device": device,
    }
    if law.order == 2 and "velocity" in data:
        settings["initial_velocity"] = sample["velocity"]
    if law.control_names or control is not None:
        later = data.isel(time=slice(at, None))
        source = later if control is None else romkit.data.open_dataset(control)
        settings["control"] = _inputs(source, law.control_names, trajectory, duration)
    if ensemble is None:
        run = romkit.forecast(projection, dynamics=law, **settings)
        options.write(romkit.data.save_dataset, run, file)
        return
    run = ensemble.forecast(level=level, **settings)
    options.write(romkit.data.save_dataset, run, file)
    figure = romkit.plotting.plot_forecast(run)
    options.write(romkit.plotting.save_figure, figure, file.with_suffix(".png"))


def _interval(data: "xr.Dataset") -> float:
    """Mean interval between the times of a dataset."""
    if data.sizes["time"] < 2:
        expected, fix = "an interval for data of a single time", "add --dt 0.1, say"
        raise InputError("--dt", expected=expected, got="none", fix=fix)
    return float(data["time"].diff("time").mean())


def _select(data: "xr.Dataset", **wanted: int) -> "xr.Dataset":
    """Entries of a dataset at these indices of `trajectory` and `time`."""
    for dim, index in wanted.items():
        checks.index("--at" if dim == "time" else "--trajectory", index, data.sizes[dim])
    return data.isel(wanted)


def _inputs(
    source: "xr.Dataset", names: tuple[str, ...], trajectory: int, duration: float
) -> "Callable[[float], np.ndarray]":
    """Inputs of these names as a function of the time since the first sample of a dataset."""
    import torch

    from romkit.data.controls import by_name

    fix, dims = (
        "give a file with them by --control",
        source["control"].dims if "control" in source else (),
    )
    if {*dims} - {"trajectory"} != {"time", "input"}:
        expected, got = (
            f"control (time, input) of {', '.join(names)}",
            f"dims {dims}" if dims else "data without it",
        )
        raise InputError("--control", expected=expected, got=got, fix=fix)
    source = by_name(source[["control"]], names)
    source = _select(source, trajectory=trajectory) if "trajectory" in dims else source
    times = romkit.data.times_of(source)
    since = times - times[0]
    if since[-1] < duration * (1 - 1e-9):
        expected, got = f"inputs up to {duration:g} after the first state", f"up to {since[-1]:g}"
        raise InputError("--control", expected=expected, got=got, fix=fix)
    control = romkit.data.controls.control_of(
        source.assign_coords(time=since).expand_dims("trajectory")
    )
    return lambda t: control(torch.tensor(t, dtype=torch.float64)).numpy()


def infer(
    model: options.Model,
    observations: Annotated[
        str, Argument(metavar="OBSERVATIONS", help="netCDF file with `state`; NaN is missing.")
    ],
    training: Annotated[str, Option(metavar="DATA", help="Data with known contexts, or a system.")],
    noise: Annotated[
        float | None, Option(help="Standard deviation of the noise; estimated by default.")
    ] = None,
    dynamics: Annotated[
        str | None, Option(help="Name of dynamics, or a file by `romkit law`.")
    ] = None,
    sensors: Annotated[
        str | None, Option(help="Names of the observed components, with commas.")
    ] = None,
    level: Annotated[float, Option(help="Probability that the intervals claim.")] = 0.9,
    out: Annotated[
        Path | None, Option(help="Folder for the results; runs/infer-OBSERVATIONS by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Estimate which context observations come from, with an interval that knows the reduced
    model's own error.

    Without --dynamics each snapshot has a latent state of its own; with them a trajectory is a
    window in time.

    \b
    Examples:
      romkit infer my.safetensors seen.nc --training my.nc --noise 0.05
      romkit infer flow-lorenz96 seen.nc --training lorenz96 --sensors x0,x12,x24

    Prints a line for each trajectory, and says where no context explains the observations. Writes
    infer.nc.
    """  # noqa: D301
    file = options.target(out, f"infer-{options.short_name(observations)}", "infer.nc", force)
    seen, projection = romkit.data.open_dataset(observations), options.load("projection", model)
    given = {
        "training": options.read_data(training),
        "noise": noise,
        "sensors": options.names(sensors),
        "level": level,
    }
    latent = _dynamics(dynamics) if dynamics else None
    found = romkit.infer(projection, seen, dynamics=latent, **given)
    print(describe.inference(found))
    options.write(romkit.data.save_dataset, found, file, before="\n")


def compare(
    data: options.Data,
    methods: Annotated[str, Option(help="Names of methods, with commas.")] = "pod,ncae",
    laws: Annotated[
        str, Option(help="Names of laws, with commas.")
    ] = "dmd,operator-inference,sindy",
    test: Annotated[float, Option(help="Share of the contexts that is held out.")] = 0.25,
    seed: Annotated[int, Option(help="Seed of the split and of the fits.")] = 0,
    workers: Annotated[
        int | None, Option(help="Processes; one after the other here by default.")
    ] = None,
    set_: options.Settings = None,
    out: Annotated[
        Path | None, Option(help="Folder for the results; runs/compare-DATA by default.")
    ] = None,
) -> None:
    """Fit projections with laws, and score them on trajectories that were held out.

    \b
    Examples:
      romkit compare my.nc --set latent_dim=2
      romkit compare my.nc --methods pod,ncae --laws sindy,neural-ode --set latent_dim=3 --workers 2

    What is complete in the folder, for the same data and settings, is not computed again: the same
    command goes on after an interruption. Writes a file for each combination and comparison.nc. A
    combination that fails leaves its traceback in a .log file, the others go on, and the exit code
    is 1.
    """  # noqa: D301
    folder = out or Path("runs") / f"compare-{Path(data).stem}"
    file = options.writable(folder / "comparison.nc")
    given = {"test": test, "seed": seed, "workers": workers, "folder": folder}
    given |= options.settings(set_, refused=("data", "methods", "laws", *given))
    found = romkit.compare(
        options.read_data(data), options.names(methods), options.names(laws), **given
    )
    print(describe.comparison(found))
    options.write(romkit.data.save_dataset, found, file, before="\n")
    failed = json.loads(found.attrs["failed"])
    for name, log in failed.items():
        print(f"romkit: {name} failed, the traceback is in {log}", file=sys.stderr)
    if failed:
        raise Exit(1)
