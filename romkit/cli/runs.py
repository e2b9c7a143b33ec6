"""Commands of `romkit` that run models beside data or a full model: `rollout`, `branches`, `infer`
and `compare`.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Exit, Option

import romkit
from romkit.cli import facts, inputs, options, output, results
from romkit.core import checks
from romkit.core.errors import InputError

if TYPE_CHECKING:
    import xarray as xr


def rollout(
    ctx: Context,
    source: Annotated[list[str], Argument(metavar="SYSTEM")],
    model: Annotated[str | None, Option(metavar="MODEL")] = None,
    duration: float | None = None,
    dt: float | None = None,
    dynamics: str | None = None,
    device: options.Device = None,
    out: Path | None = None,
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
      romkit rollout runs/*.nc --model my.safetensors --dynamics law.safetensors
      romkit rollout my_system.py:Burgers --nu 0.01 --model my.safetensors

    Prints the normalised error over time (NRMSE) beside that of the projection alone: the full
    model, encoded and decoded. Of a dataset, all trajectories are followed at their contexts.
    Writes rollout.nc (all trajectories) and rollout.png.

    Args:
        source: A system, or files of runs.
        model: A file by `romkit fit`, or a pretrained model.
        duration: Length of the run, in the system's time units.
        dt: Output interval.
        dynamics: Name of dynamics, or a file by `romkit law`.
        out: Folder for the results; runs/rollout-SYSTEM by default.
    """
    systems = romkit.systems.SYSTEMS
    if len(source) == 1 and not inputs.is_path(source[0]):
        checks.one_of("source", source[0], systems)
    if model is None and source[0] not in systems:
        raise InputError(
            "--model", expected="a model for these data", got="none", fix="add --model MODEL"
        )
    if inputs.is_system(source):
        truth = inputs.system_named(source[0])
        context = options.complete_context(ctx, truth)
    else:
        truth = inputs.read_files(source)
        context = options.context_values(ctx, ())
    inputs.check_device(device)
    latent = inputs.dynamics(dynamics)
    file = results.target(out, f"rollout-{inputs.short_name(source)}", "rollout.nc", force)
    projection = inputs.load("projection", model or _shipped(source[0]))
    run = romkit.rollout(
        truth, projection, duration=duration, dt=dt, dynamics=latent, device=device, **context
    )
    output.show(facts.run_facts(run))
    results.write(romkit.data.save_dataset, run, file, label="\n")
    figure = romkit.plotting.plot_rollout(run)
    results.write(romkit.plotting.save_figure, figure, file.with_suffix(".png"))


def _shipped(system: str) -> str:
    """Return name of the model that ships for a system; of several, the last in the alphabet."""
    names = []
    for name in romkit.projections.pretrained():
        if name.partition("-")[2] == system:
            names.append(name)
    return max(names, default=f"ncae-{system}")


def branches(
    ctx: Context,
    source: Annotated[str, Argument(metavar="SYSTEM")],
    model: Annotated[str | None, Option(metavar="MODEL")] = None,
    period: float | None = None,
    start: Annotated[list[str] | None, Option("--from", metavar="DATA")] = None,
    leave: Annotated[int | None, Option(min=0)] = None,
    points: Annotated[int, Option(min=2)] = 200,
    dynamics: str | None = None,
    verify: Annotated[bool, Option("--verify")] = False,
    out: Path | None = None,
    force: options.Force = False,
) -> None:
    """Follow an equilibrium or a periodic orbit along a context parameter, and say where it
    bifurcates.

    One parameter of the context has two ends, --F 3.155,3.133; the others have a number. The first
    state is the one in which the system settles at the first end; or the last one of --from, and of
    its several runs, of the one nearest to the first end. With --model the latent field is followed.

    \b
    Examples:
      romkit branches lorenz96 --F 0.5,2 --points 40
      romkit branches lorenz96 --F 0.5,2 --leave 0 --out waves --from branches.nc
      romkit branches lorenz96 --F 3.155,3.133 --period 3.09 --model ncae-lorenz96 --verify

    Writes branches.nc and branches.png, and with --verify what the full model has, verified.nc.

    Args:
        source: Name of a system; `romkit info` lists them.
        model: A file by `romkit fit`, or a pretrained model.
        period: Follow a periodic orbit of about this period.
        start: Runs that end near it, or branches.nc.
        leave: Follow what leaves this special point of --from.
        points: Points on the branch, at most.
        dynamics: Name of dynamics, or a file by `romkit law`.
        verify: Solve the full model from some of the points.
        out: Folder for the results; runs/branches-SYSTEM by default.
    """
    system = inputs.system_named(source)
    context = options.complete_context(ctx, system)
    settings = {
        "kind": "equilibria" if period is None else "orbits",
        "period": period,
        "at": leave,
        "points": points,
    }
    latent = inputs.dynamics(dynamics)
    file = results.target(out, f"branches-{inputs.short_name(source)}", "branches.nc", force)
    subject = system
    if model:
        subject = inputs.load("projection", model)
        settings |= {"dynamics": latent, "system": system}
    begin = _branch_start(start, system, context)
    branch = romkit.continuation(subject, start=begin, **settings, **context)
    verified = romkit.verify(branch, system) if verify else None
    output.show(facts.branch_facts(branch, verified))
    results.write(romkit.data.save_dataset, branch, file, label="\n")
    pictured = [branch]
    if verified is not None:
        results.write(romkit.data.save_dataset, verified, file.with_name("verified.nc"))
        pictured.append(verified)
    figure = romkit.plotting.plot_branches(*pictured)
    results.write(romkit.plotting.save_figure, figure, file.with_suffix(".png"))


def _branch_start(
    start: list[str] | None, system: "romkit.systems.System", context: dict[str, object]
) -> "xr.Dataset | list[float]":
    """Return an earlier branch; or the last state of a run, or where the system settles at the
    first context.
    """
    first_end = {}
    for name, value in context.items():
        first_end[name] = value[0] if isinstance(value, list) else value
    if start:
        data = inputs.read_data(start)
    else:
        data = system.dataset(duration=system.dt, **first_end)
    # an earlier branch has more than its last state: where branches leave it
    if "special_kind" in data:
        return data
    run = data.isel(trajectory=_nearest(data, first_end), time=-1)
    state = []
    for name in ("state", "velocity")[: system.order]:
        state += run[name].values.tolist()
    return state


def _nearest(data: "xr.Dataset", context: dict[str, float]) -> int:
    """Return number of the run whose constant parameters are nearest to these, in the ranges of the
    runs.
    """
    import numpy as np

    distance = np.zeros(data.sizes["trajectory"])
    for name, value in context.items():
        if name not in data.coords or data[name].dims != ("trajectory",):
            continue
        values = data[name].values
        span = np.ptp(values)
        if span > 0:
            distance += np.square((values - value) / span)
    return int(distance.argmin())


def infer(
    model: options.Model,
    observations: Annotated[list[str], Argument(metavar="OBSERVATIONS")],
    training: Annotated[list[str], Option(metavar="DATA")],
    noise: float | None = None,
    dynamics: str | None = None,
    sensors: str | None = None,
    level: float = 0.9,
    out: Path | None = None,
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

    Args:
        observations: netCDF files with `state`; NaN is missing.
        training: Data with known contexts, a pattern, or a system.
        noise: Standard deviation of the noise; estimated by default.
        dynamics: Name of dynamics, or a file by `romkit law`.
        sensors: Names of the observed components, with commas.
        level: Probability that the intervals claim.
        out: Folder for the results; runs/infer-OBSERVATIONS by default.
    """
    from romkit.data.spelling import known_name  # with torch, which help is spared

    file = results.target(out, f"infer-{inputs.short_name(observations)}", "infer.nc", force)
    latent = inputs.dynamics(dynamics)
    seen = inputs.read_files(observations)
    projection = inputs.load("projection", model)
    observed = options.names(sensors)
    for name in observed or ():
        # before the training set of a system is simulated
        known_name("sensors", name, projection.frame.state_names)
    estimates = romkit.infer(
        projection,
        seen,
        training=inputs.read_data(training),
        noise=noise,
        sensors=observed,
        level=level,
        dynamics=latent,
    )
    output.show(facts.inference_facts(estimates))
    results.write(romkit.data.save_dataset, estimates, file, label="\n")


def compare(
    data: options.Data,
    methods: str = "pod,ncae",
    laws: str = "dmd,operator-inference,sindy",
    test: float = 0.25,
    seed: int = 0,
    workers: int | None = None,
    set_: options.Settings = None,
    out: Path | None = None,
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

    Args:
        methods: Names of methods, with commas.
        laws: Names of laws, with commas.
        test: Share of the contexts that is held out.
        seed: Seed of the split and of the fits.
        workers: Processes; one after the other here by default.
        out: Folder for the results; runs/compare-DATA by default.
    """
    from romkit.verbs.compare import check_names

    folder = out or Path("runs") / f"compare-{inputs.short_name(data)}"
    file = results.writable(folder / "comparison.nc")
    named = {"test": test, "seed": seed, "workers": workers, "folder": folder}
    settings = options.settings(set_, refused=("data", "methods", "laws", *named))
    methods_named, laws_named = options.names(methods), options.names(laws)
    # names first: the training set of a system is simulated, which takes a while
    check_names(methods_named, laws_named, settings)
    output.announce_interruption(f"{folder} has all that is complete; the same command goes on")
    comparison = romkit.compare(
        inputs.read_data(data), methods_named, laws_named, **named, **settings
    )
    output.show(facts.comparison_facts(comparison))
    results.write(romkit.data.save_dataset, comparison, file, label="\n")
    failed = json.loads(comparison.attrs["failed"])
    output.add(failed=failed)
    for name, log in failed.items():
        print(f"romkit: {name} failed, the traceback is in {log}", file=sys.stderr)
    if failed:
        raise Exit(1)
