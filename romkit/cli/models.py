"""Commands of `romkit` that make models: `fit`, `law` and `learn`."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import romkit
from romkit.cli import facts, inputs, options, output, results
from romkit.core import checks
from romkit.core.errors import InputError


def fit(
    method: Annotated[str, Argument(metavar="METHOD")],
    data: options.Data,
    seed: int = 0,
    preset: str = "quick",
    basis: Annotated[int | None, Option(min=1, max=1000000)] = None,
    start: Annotated[str | None, Option(metavar="MODEL")] = None,
    set_: options.Settings = None,
    device: options.Device = None,
    checkpoint: Path | None = None,
    out: Path | None = None,
    force: options.Force = False,
) -> None:
    """Train a projection: an encoder and a decoder.

    The dataset is a file by `romkit dataset` or your own, as `romkit check --out` writes it: dimensions
    trajectory, time, component; variables state and velocity; context parameters as coordinates
    along trajectory. Several files are joined along trajectory.

    \b
    Examples:
      romkit fit ncae lorenz96
      romkit fit ncae-bias lorenz96 --seed 1 --set epochs=100 --set batch_size=512
      romkit fit ncae lorenz96 --preset dynamics --set rollouts.steps=300 --set phase=none
      romkit fit pod runs/*.nc --set latent_dim=4 --out pod.safetensors
      romkit fit ncae lorenz96 --start runs/ncae-lorenz96/projection.safetensors --set epochs=50
          --out more.safetensors

    Writes a file that `romkit rollout --model` and romkit.load read, and the curve of the training
    beside it.

    Args:
        method: Name of a method; `romkit info` lists them.
        seed: Seed of the initial parameters and the order of the data.
        preset: Settings to start from; `romkit info` lists them.
        basis: Modes of a basis in front, of states that are large.
        start: A model of the same method and sizes, to train further.
        checkpoint: Folder of the progress; the same command resumes.
        out: File, or folder for it; runs/METHOD-DATA by default.
    """
    from romkit.verbs.fit import check_settings

    named = {
        "seed": seed,
        "preset": preset,
        "device": device,
        "checkpoint": checkpoint,
        "basis": basis,
    }
    settings = options.settings(set_, refused=("method", "data", "system", "start", *named))
    # names first: the training set of a system is simulated, which takes a while
    methods = romkit.projections.METHODS
    kind = methods[checks.one_of("method", method, methods)]
    checks.one_of("preset", preset, romkit.presets.PRESETS)
    check_settings(kind, settings)
    inputs.check_device(device)
    if start is not None:
        named["start"] = inputs.load("projection", start)
    run = f"{method}-{inputs.short_name(data)}"
    file = results.target(out, run, "projection.safetensors", force)
    if checkpoint is None:
        output.announce_interruption(
            "nothing is kept; with --checkpoint FOLDER the command resumes"
        )
    else:
        output.announce_interruption(f"progress is kept in {checkpoint}; the same command goes on")
    training = inputs.read_data(data)
    if basis is None and kind.trained:
        _suggest_basis(training.sizes.get("component", 0))
    projection = romkit.fit(method, training, **named, **settings)
    output.show(facts.model_facts(projection))
    results.write(romkit.save, projection, file, label="\n")
    # a projection by least squares has no curve of its training
    if projection.curves()[1]:
        figure = romkit.plotting.plot_training(projection)
        results.write(romkit.plotting.save_figure, figure, file.with_suffix(".png"))


def _suggest_basis(components: int, *, modes: int = 64, large: int = 500) -> None:
    """Say that large states train better behind a basis.

    `large`: components of a state from which on it is suggested.

    `modes`: number of its modes that is suggested; studies/large and studies/wake compare some.
    """
    if components > large:
        hint = f"--basis {modes} trains on coordinates in {modes} modes, in a fraction of the time"
        print(f"romkit: hint: states have {components} components; {hint}", file=sys.stderr)


def law(
    kind: Annotated[str, Argument(metavar="KIND")],
    model: options.Model,
    data: options.Data,
    seed: int = 0,
    seconds: float = 120.0,
    set_: options.Settings = None,
    select: Annotated[list[str] | None, Option(metavar="NAME=V,V,...")] = None,
    members: Annotated[int | None, Option(max=10000)] = None,
    out: Path | None = None,
    force: options.Force = False,
) -> None:
    """Fit latent dynamics to data: an equation that prints (polynomial, sindy, ...), closed orbits
    (limit-cycle), or a small network (neural-ode).

    auto tries polynomial, then limit-cycle and neural-ode where it is not good enough, and keeps
    what follows held-out trajectories best. Without velocities in the data, rates come from differentiation in time; with
    accelerations, the law is of second order. Settings are those of romkit.laws.SINDy,
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

    Args:
        kind: auto, or the name of a law; `romkit info` lists them.
        seed: Seed of whatever is random in the fit.
        seconds: About how long auto may take.
        select: Choose by held-out rollouts.
        members: Bootstraps of an ensemble; --out is its folder.
        out: File, or folder for law.safetensors; runs/KIND-DATA by default.
    """
    set_values = options.settings(set_)
    choices = options.settings(select, "--select")
    is_auto = kind == "auto"
    if is_auto:
        _refuse_auto_options({"--set": set_values, "--select": choices, "--members": members})
    else:
        estimator = _estimator(kind, set_values, choices)
    name = "law" if is_auto else kind
    if out is not None and members is not None:
        # --out is a folder for an ensemble
        out = out / "law.safetensors"
    file = results.target(out, f"{name}-{inputs.short_name(data)}", "law.safetensors", force)
    projection = inputs.load("projection", model)
    training = inputs.read_data(data)
    if members is not None:
        ensemble = romkit.bootstrap(projection, estimator, training, members=members, seed=seed)
        # equations print one by one; a stack of networks has no text of its own
        law = ensemble.law
        output.show(facts.model_facts(law[0] if hasattr(law, "__getitem__") else law))
        output.wrote(ensemble.save(file.parent), label="\n", what=f"an ensemble of {members} to ")
        return
    if is_auto:
        fitted = romkit.law(projection, training, seconds=seconds, seed=seed)
    else:
        fitted = estimator.fit(projection, training, seed=seed, select=_grid(choices) or None)
    output.show(facts.model_facts(fitted))
    results.write(romkit.save, fitted, file, label="\n")


def _refuse_auto_options(choices: dict[str, object]) -> None:
    for option, value in choices.items():
        if value:
            raise InputError(
                option,
                expected="nothing beside auto",
                got="a value",
                fix="name a law in place of auto, sindy for instance, or leave the option out",
            )


def _estimator(
    kind: str, set_values: dict[str, object], choices: dict[str, object]
) -> "romkit.laws.Estimator":
    """Return the estimator of a law with its settings."""
    estimator = romkit.laws.LAWS[checks.one_of("kind", kind, romkit.laws.LAWS)]
    names = [field.name for field in dataclasses.fields(estimator)]
    for option, settings in (("--set", set_values), ("--select", choices)):
        for name in settings:
            checks.one_of(option, name, names)
    return estimator(**set_values)


def _grid(choices: dict[str, object]) -> dict[str, tuple[Any, ...]]:
    """Return values of each setting to choose from."""
    grid = {}
    for name, setting in choices.items():
        grid[name] = setting if isinstance(setting, tuple) else (setting,)
    return grid


def learn(
    sources: Annotated[list[str], Argument(metavar="FILE")],
    context: str | None = None,
    time: str | None = None,
    latent_dim: Annotated[int | None, Option(min=1, max=10000)] = None,
    kinds: str | None = None,
    period: float | None = None,
    seconds: float = 60.0,
    seed: Annotated[int, Option(min=0)] = 0,
    held_out: float | None = None,
    out: Path | None = None,
    force: options.Force = False,
) -> None:
    """Learn a reduced model from runs at several parameters, and report how good it is.

    Races manifolds with laws on left-out runs, fits the best to all runs, and writes models,
    pictures and REPORT.md. Errors are those of models that were fitted without the runs.

    \b
    Examples:
      romkit learn runs/*.nc --context beta
      romkit learn runs/*.nc --context beta --kinds polynomial,sindy
      romkit learn mine.csv --context speed --held-out 0.25 --out mine
      romkit learn "runs/beta_{beta}.nc"     beta is in the names of the files
      romkit report runs/learned/REPORT.md

    Args:
        sources: Files of runs, one in each or all in one.
        context: Names of the parameters in which runs differ, with commas.
        time: The dimension, or column, of time; by default "time", "t", or dates.
        latent_dim: Number of latent coordinates; by default chosen.
        kinds: Names of laws to choose from, with commas; `romkit info` lists them.
            `interpolation` alone interpolates the runs.
        period: Of what drives all runs from outside; in seconds where times are dates.
        seconds: Of the processor, for the choice of a law.
        seed: Of all random numbers.
        held_out: Share of the contexts that nothing is fitted to or chosen by.
        out: Folder of the model and its report; runs/learned by default.
    """
    folder = results.target(out, "learned", "REPORT.md", force).parent
    settings: dict[str, Any] = {"time": time, "latent_dim": latent_dim, "period": period}
    if kinds is not None:
        settings["kinds"] = options.names(kinds)
    settings |= {"held_out": held_out, "seconds": seconds, "seed": seed}
    output.announce_interruption("nothing is kept; shorter with fewer --seconds")
    learned = romkit.learn(inputs.list_files(sources), options.names(context), **settings)
    learned.save(folder)
    if isinstance(learned, romkit.learning.SteadyModel):
        written = folder
        errors = {name: float(values.mean()) for name, values in learned.errors.items()}
        numbers: dict[str, Any] = {"candidates": learned.report}
    else:
        written = learned.report(folder)
        errors = learned.mean_errors
        numbers = {
            "errors_of_variables": _variable_errors(learned),
            "latent_dim": learned.projection.latent_dim,
            "candidates": learned.law.report,
        }
    output.add(facts=learned.facts(), error=learned.error, errors=errors, **numbers)
    print(learned)
    output.wrote(written)


def _variable_errors(learned: "romkit.Learned") -> dict[str, dict[str, object]]:
    """Return error of each variable at contexts that were not seen, in its unit and in its
    deviation.
    """
    of_variables = {}
    for name, errors in learned.errors_of_variables.items():
        of_variables[name] = {
            "unit": errors.units,
            "error": errors.in_unit,
            "share_of_deviation": errors.in_deviations,
        }
    return of_variables
