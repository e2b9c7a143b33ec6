"""Commands about models: `romkit info`, `romkit fit`, `romkit law`."""

import dataclasses
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import romkit
from romkit.cli import describe, options
from romkit.core import checks


def info(
    name: Annotated[
        str | None,
        Argument(
            metavar="NAME",
            help="A dataset, a model, a law, a basis (files), a system, a method, other dynamics, a pretrained model.",
        ),
    ] = None,
) -> None:
    """Show what romkit offers, or what a file holds.

    \b
    Examples:
      romkit info                          systems, methods, models, versions
      romkit info lorenz96                 the equation and context of a system
      romkit info ncae                     a method with its settings
      romkit info sindy                    a law with its settings
      romkit info ncae-lorenz96            how a model was trained
      romkit info runs/lorenz96-train.nc   what a dataset holds
    """  # noqa: D301, typer keeps the lines after \b as they are
    systems, methods, pretrained = romkit.systems.SYSTEMS, romkit.projections.METHODS, romkit.projections.pretrained()
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


def fit(
    method: Annotated[str, Argument(metavar="METHOD", help="Name of a method; `romkit info` lists them.")],
    data: options.Data,
    seed: Annotated[int, Option(help="Seed of the initial parameters and the order of the data.")] = 0,
    preset: Annotated[str, Option(help="Settings to start from; `romkit info` lists them.")] = "quick",
    set_: options.Settings = None,
    device: Annotated[str | None, Option(help="cpu or cuda; a GPU is used where there is one.")] = None,
    checkpoint: Annotated[
        Path | None, Option(help="Folder to save progress in; the same command then resumes.")
    ] = None,
    out: Annotated[
        Path | None, Option(help="File, or folder for projection.safetensors; runs/METHOD-DATA by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Train a projection: an encoder and a decoder.

    The dataset is a file by `romkit dataset` or your own: dimensions trajectory, time, component; variables state and
    velocity; context parameters as coordinates along trajectory.

    \b
    Examples:
      romkit fit ncae lorenz96
      romkit fit ncae-bias lorenz96 --seed 1 --set epochs=100 --set batch_size=512
      romkit fit ncae lorenz96 --preset dynamics --set rollouts.steps=300 --set phase=none
      romkit fit pod my.nc --set latent_dim=4 --out pod.safetensors

    Writes a file that `romkit rollout --model` and romkit.load read, and the curve of the training beside it.
    """  # noqa: D301
    given = {"seed": seed, "preset": preset, "device": device, "checkpoint": checkpoint}
    given |= options.settings(set_, refused=("method", "data", "system", *given))
    checks.one_of("method", method, romkit.projections.METHODS)
    checks.one_of("preset", preset, romkit.presets.PRESETS)
    file = options.target(out, f"{method}-{options.short_name(data)}", "projection.safetensors", force)
    projection = romkit.fit(method, options.read_data(data), **given)
    print(describe.model(projection))
    options.write(romkit.save, projection, file, before="\n")
    if projection.curves()[1]:
        figure = romkit.plotting.plot_training(projection)
        print(f"wrote {romkit.plotting.save_figure(figure, file.with_suffix('.png'))}")


def law(
    kind: Annotated[str, Argument(metavar="KIND", help="Name of a law; `romkit info` lists them.")],
    model: options.Model,
    data: options.Data,
    seed: Annotated[int, Option(help="Seed of whatever is random in the fit.")] = 0,
    set_: options.Settings = None,
    select: Annotated[
        list[str] | None,
        Option(help="Choose a setting by rollouts of held-out trajectories.", metavar="NAME=VALUE,VALUE,..."),
    ] = None,
    members: Annotated[
        int | None, Option(max=10_000, help="Fit an ensemble of so many bootstraps; --out is its folder then.")
    ] = None,
    out: Annotated[Path | None, Option(help="File, or folder for law.safetensors; runs/KIND-DATA by default.")] = None,
    force: options.Force = False,
) -> None:
    """Fit latent dynamics to data: an equation that prints (sindy, ...), or a small network (neural-ode).

    Without velocities in the data, rates come from differentiation in time; with accelerations, the law is of second
    order. Settings are those of romkit.integrators.SINDy, NeuralODE, ...: `romkit info sindy` has them.

    \b
    Examples:
      romkit law sindy ncae-lorenz96 lorenz96 --set degree=5 --set threshold=0.05
      romkit law sindy my.safetensors my.nc --select degree=1,2,3 --select threshold=0.01,0.1
      romkit law neural-ode my.safetensors my.nc --set hidden=16,16 --out law.safetensors
      romkit law weak-sindy my.safetensors my.nc --members 20

    Writes a file that `romkit rollout --dynamics`, `romkit info` and romkit.load read.
    """  # noqa: D301
    estimator = romkit.integrators.LAWS[checks.one_of("kind", kind, romkit.integrators.LAWS)]
    given, choices = options.settings(set_), options.settings(select, "--select")
    known = [field.name for field in dataclasses.fields(estimator)]
    for option, chosen in (("--set", given), ("--select", choices)):
        for name in chosen:
            checks.one_of(option, name, known)
    prepared = estimator(**given)
    within = out if out is None or members is None else out / "law.safetensors"  # --out is a folder for an ensemble
    file = options.target(within, f"{kind}-{options.short_name(data)}", "law.safetensors", force)
    projection, measured = options.load("projection", model), options.read_data(data)
    if members is not None:
        ensemble = romkit.bootstrap(projection, prepared, measured, members=members, seed=seed)
        print(describe.model(ensemble.law[0] if hasattr(ensemble.law, "__getitem__") else ensemble.law))
        print(f"\nwrote an ensemble of {members} to {ensemble.save(file.parent)}")
        return
    grid = {name: values if isinstance(values, tuple) else (values,) for name, values in choices.items()}
    found = prepared.fit(projection, measured, seed=seed, select=grid or None)
    print(describe.model(found))
    options.write(romkit.save, found, file, before="\n")
