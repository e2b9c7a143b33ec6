"""Commands of `romkit` about data: `info`, `check` and `dataset`."""

import os
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context

import romkit
from romkit.cli import facts, inputs, options, output, results
from romkit.core import checks
from romkit.core.errors import FileError
from romkit.core.patterns import is_pattern


def info(
    names: Annotated[list[str] | None, Argument(metavar="NAME")] = None,
) -> None:
    """Show what romkit offers, or what a file holds.

    NAME is a file (dataset, model, law or basis), files of runs, a system, a method, dynamics, a
    law, or a pretrained model.

    \b
    Examples:
      romkit info                          systems, methods, models, versions
      romkit info lorenz96                 the equation and context of a system
      romkit info ncae                     a method with its settings
      romkit info sindy                    a law with its settings
      romkit info ncae-lorenz96            how a model was trained
      romkit info runs/lorenz96-train.nc   what a dataset holds

    Args:
        names: A file by romkit, files of runs, or a name it knows.
    """
    if not names:
        output.show(facts.everything())
    elif len(names) > 1 or is_pattern(names[0]):
        output.show(facts.data_facts(inputs.read_files(names)))
    else:
        output.show(_facts(names[0]))


def _facts(name: str) -> facts.Facts:
    """Return facts of what a name or a file stands for."""
    is_file = Path(name).suffix and not inputs.is_recorded(name)
    # first, as a list of the names takes seconds; no word of romkit has an ending
    if is_file and not os.path.exists(os.path.expanduser(name)):
        raise FileError(name, problem="no such file", fix="check the path")
    systems, methods = romkit.systems.SYSTEMS, romkit.projections.METHODS
    pretrained = romkit.projections.pretrained()
    kinds = romkit.laws.LAWS | romkit.integrators.DYNAMICS
    if name in systems or inputs.is_recorded(name):
        return facts.system_facts(inputs.system_named(name))
    if name in methods:
        return facts.method_facts(methods[name])
    if name in kinds:
        return facts.law_facts(kinds[name])
    if name in pretrained or Path(name).suffix == ".safetensors":
        return facts.model_facts(romkit.load(name))
    if not inputs.is_path(name):
        checks.one_of("name", name, [*systems, *methods, *kinds, *pretrained])
    return facts.data_facts(inputs.read_files([name]))


def check(
    sources: Annotated[list[str], Argument(metavar="FILE")],
    context: str | None = None,
    state: str | None = None,
    control: str | None = None,
    trajectory: str | None = None,
    time: str | None = None,
    out: Path | None = None,
    force: options.Force = False,
) -> None:
    """Show what romkit takes data for: state, context, sampling, what is missing and what is
    ignored.

    \b
    Examples:
      romkit check my.nc
      romkit check my.nc --context Re,epsilon --state u,v --out my-data.nc
      romkit check runs/*.nc --context Re
      romkit check "runs/Re_{Re}.nc"       Re is in the names of the files
      romkit check my.csv --context Re --trajectory run --time t --out my-data.nc

    What --out writes is what `romkit fit` takes. Names are those of romkit.data.describe.

    Args:
        sources: netCDF files of any origin, or .csv tables of runs.
        context: Names of the context parameters, with commas.
        state: Names of the variables of the state.
        control: Names of the inputs.
        trajectory: The dimension, or column, of the trajectories.
        time: The dimension, or column, of time.
        out: Write the data in romkit's schema here.
    """
    target = None
    if out is not None:
        target = results.target(out, "check", "data.nc", force)
    data, parameters = inputs.read_parameters(sources)
    roles: dict[str, Any] = {
        "context": options.names(context) or parameters,
        "state": options.names(state),
        # no names of inputs are none, while no names of states are all that there are
        "control": options.names(control) or (),
        "trajectory": trajectory,
        "time": time,
    }
    data = romkit.data.describe(data, **roles)
    # describe has printed the summary
    output.add(**facts.data_facts(data))
    if target:
        results.write(romkit.data.save_dataset, data, target, label="\n")


def dataset(
    ctx: Context,
    system: Annotated[str, Argument(metavar="SYSTEM")],
    split: str | None = None,
    seed: int = 0,
    duration: float | None = None,
    out: Path | None = None,
    force: options.Force = False,
) -> None:
    """Simulate a dataset: states, velocities, contexts.

    \b
    Examples:
      romkit dataset lorenz96                            the training set of seed 0
      romkit dataset lorenz96 --split test
      romkit dataset lorenz96 --F 3.14,3.15 --out my.nc  at contexts of your own

    Writes a netCDF file that `romkit fit`, romkit.data.open_dataset and xarray read.

    Args:
        system: Name of a system; `romkit info` lists them.
        split: train (random contexts, by default) or test.
        seed: Seed of the random contexts and initial states.
        duration: Length of each trajectory; the system's by default.
        out: File, or folder for data.nc; runs/SYSTEM-SPLIT by default.
    """
    full_model = inputs.system_named(system)
    context: dict[str, Any] = options.context_values(ctx, full_model.context_names)
    if context:
        context = options.complete_context(ctx, full_model)
    elif split is None:
        split = "train"
    run = f"{inputs.short_name(system)}-{split or 'contexts'}"
    file = results.target(out, run, "data.nc", force)
    data = full_model.dataset(split, seed=seed, duration=duration, **context)
    output.show(facts.data_facts(data))
    results.write(romkit.data.save_dataset, data, file, label="\n")
