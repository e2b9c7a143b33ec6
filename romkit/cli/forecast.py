"""Command of `romkit` that runs a model alone: `forecast`."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Context, Option

import romkit
from romkit.cli import driven, facts, inputs, options, output, results
from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.patterns import is_pattern

if TYPE_CHECKING:
    import xarray as xr

    from romkit.integrators import LearnedField


def forecast(
    ctx: Context,
    model: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help="A file by `romkit fit`, or the folder of an ensemble or of `romkit learn`.",
        ),
    ],
    start: Annotated[
        list[str],
        Option(
            "--from",
            metavar="DATA",
            help="The dataset that has the first state, or a pattern; - reads a table from stdin.",
        ),
    ],
    duration: Annotated[float, Option(help="Length of the forecast.")],
    trajectory: Annotated[int, Option(help="Which trajectory of the dataset.")] = 0,
    at: Annotated[int, Option(help="Which of its samples is the first state; -1 is the last.")] = 0,
    dt: Annotated[
        float | None, Option(help="Output interval; that of the dataset by default.")
    ] = None,
    dynamics: Annotated[str | None, Option(help="A law, a file by `romkit law`.")] = None,
    control: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="File with a column of times and one for each input, or control (time, input).",
        ),
    ] = None,
    level: Annotated[
        float | None,
        Option(help="Probability that the interval of an ensemble claims; 0.9 by default."),
    ] = None,
    device: options.Device = None,
    out: Annotated[
        Path | None, Option(help="Folder for the results; runs/forecast-MODEL by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Forecast from a state, with no truth beside it. Context and inputs are those of the data,
    unless they are given.

    A file by `romkit fit` needs --dynamics; an ensemble is the folder that `romkit law --members`
    wrote, or that of `romkit learn`. The inputs of --control begin at the first state.

    \b
    Examples:
      romkit forecast my.safetensors --dynamics law.safetensors --from my.nc --duration 40
      romkit forecast runs/sindy-my --from my.nc --trajectory 3 --at -1 --duration 40 --Re 110
      romkit forecast my.safetensors --dynamics law.safetensors --from my.nc --at -1
          --duration 40 --control inputs.nc

    Writes forecast.nc, and forecast.png of an ensemble. Says where it leaves what the model was
    trained on.
    """  # noqa: D301
    file = results.target(out, f"forecast-{Path(model).stem}", "forecast.nc", force)
    inputs.check_device(device)
    # before the data, which may be the training set of a system
    forecaster = forecaster_of(model, dynamics, level, device)
    data = _with_first_state(start, forecaster.projection)
    data = _in_units(data, forecaster.projection)
    if dt is None:
        dt = interval_of(data, forecaster.interval)
    settings: dict[str, Any] = {"duration": duration, "dt": dt}
    settings |= _first_state(data, forecaster.law, trajectory, at)
    # what is typed replaces what the data have
    frame = forecaster.projection.frame
    typed = options.context_values(ctx, frame.context_names)
    of_data = _context_of_state(data, forecaster.projection, trajectory, at, typed)
    settings["context"] = of_data | typed
    if data.sizes["trajectory"] > 1:
        numbers = ", ".join(f"{name} = {value:g}" for name, value in of_data.items())
        # no numbers where all parameters are typed
        print(f"from trajectory {trajectory} of the file{': ' if numbers else ''}{numbers}")
    if forecaster.needs_inputs or control is not None:
        source = data.isel(time=slice(at, None))
        if control is not None:
            source = driven.read(control, forecaster.law.control_names, frame.units.time)
        settings["control"] = driven.inputs_of(source, forecaster.law, trajectory, duration)
    if forecaster.began is not None:
        settings["start"] = _time_since(forecaster.began, data["time"], at)
    run = forecaster.forecast(**settings)
    output.add(**facts.of_data(run), values=_numbers(run))
    results.write(romkit.data.save_dataset, run, file)
    if forecaster.is_drawn:
        figure = romkit.plotting.plot_forecast(run)
        results.write(romkit.plotting.save_figure, figure, file.with_suffix(".png"))


def _numbers(run: "xr.Dataset", *, printed: int = 100_000) -> dict[str, object]:
    """Return times, states and intervals of a forecast, of variables that are not large.

    `printed`: numbers of a variable up to which JSON has its values; of more, the file has them.
    """
    shown: dict[str, object] = {"time": run["time"].values}
    for name, variable in run.data_vars.items():
        if "time" in variable.dims and variable.size <= printed:
            shown[str(name)] = variable.values
    return shown


def _with_first_state(
    sources: list[str], projection: "romkit.projections.Projection"
) -> "xr.Dataset":
    """Return data in romkit's schema; those in the form of the runs are described by the names of
    the model.

    A file with the first state alone does not say what is a parameter.
    """
    import xarray as xr

    from romkit.readers import first_states

    first = sources[0]
    is_file = any((inputs.is_path(first), is_pattern(first), first == inputs.STDIN))
    if inputs.is_system(sources) or not is_file:
        return romkit.data.check_states(inputs.read_data(sources))
    data, parameters = inputs.read_with_parameters(sources)
    if isinstance(data, xr.Dataset) and "component" in data.dims:
        return romkit.data.check_states(data)
    frame = projection.frame
    known = {*data, *getattr(data, "coords", ()), *data.attrs, *(parameters or ())}
    context = [name for name in frame.context_names if name in known]
    states = [variable.name for variable in frame.fields.variables]
    if not isinstance(data, xr.Dataset):
        data = first_states.with_time(first_states.with_places(data, frame.fields))
    return romkit.data.describe(data, context=context, state=states)


def _time_since(runs: "xr.DataArray", times: "xr.DataArray", at: int) -> float:
    """Time of a sample since the first of the runs, both of which may be counted from a date."""
    import numpy as np  # help is spared

    since = float(times.values[at]) - float(runs.values[0])
    dates = [clock.attrs.get("since") for clock in (times, runs)]
    if not all(dates):
        return since
    start, first = np.array(dates, dtype="datetime64[ns]")
    return since + float((start - first) / np.timedelta64(1, "s"))


def _first_state(
    data: "xr.Dataset", law: "romkit.integrators.LearnedField", trajectory: int, at: int
) -> "dict[str, xr.DataArray]":
    """State, and velocity of a law of second order, of one sample."""
    sample = _select(data, trajectory=trajectory, time=at)
    state = {"initial_state": sample["state"]}
    if law.order == 2 and "velocity" in data:
        state["initial_velocity"] = sample["velocity"]
    return state


def _in_units(data: "xr.Dataset", projection: "romkit.projections.Projection") -> "xr.Dataset":
    """Return data in the units of a model, which may lack parameters of it."""
    from romkit.data.conversions import in_units_of

    frame = projection.frame
    # data of another size are refused as a state
    if data.sizes["component"] != len(frame.state_names):
        return data
    units = dict(zip(frame.context_names, frame.context_units, strict=True))
    present = [name for name in romkit.data.context_names(data) if name in units]
    of_present = frame.units._replace(context=[units[name] for name in present])
    return in_units_of("--from", data, of_present, present)


def _context_of_state(
    data: "xr.Dataset",
    projection: "romkit.projections.Projection",
    trajectory: int,
    at: int,
    typed: dict[str, object],
) -> dict[str, float]:
    """Return parameters of the projection that the data have at a sample, but for typed ones.

    Raises:
        InputError: one that moves, so that the data do not tell it ahead of the sample.
    """
    run = _select(data, trajectory=trajectory)
    context = {}
    for name in romkit.data.context_names(data):
        if name not in projection.frame.context_names or name in typed:
            continue
        if "time" in run[name].dims and float(run[name].max() - run[name].min()) > 0:
            raise InputError(
                f"--{name}",
                expected="a value for the forecast",
                got=f"{name} that moves in the data",
                fix=f"add --{name} {float(run[name][at]):g}, its value at the first state, say",
            )
        context[name] = float(_select(run, time=at)[name])
    return context


def _select(data: "xr.Dataset", **wanted: int) -> "xr.Dataset":
    """Entries of a dataset at these indices of `trajectory` and `time`."""
    for dim, index in wanted.items():
        checks.index("--at" if dim == "time" else "--trajectory", index, data.sizes[dim])
    return data.isel(wanted)


# -- what forecasts: a projection with a law, an ensemble, or a learned model -----------------------


class Forecaster(NamedTuple):
    """A model of a file or folder.

    Attributes:
        projection, law: of the model.
        forecast: from a state, with the options of the command line.
        needs_inputs: whether inputs have to be given.
        began: times of the runs, where forecasts depend on the time since the first of them.
        interval: of the runs, None where it is not known.
        is_drawn: whether forecasts get a picture.
    """

    projection: "romkit.projections.Projection"
    law: "LearnedField"
    forecast: "Callable[..., xr.Dataset]"
    needs_inputs: bool
    began: "xr.DataArray | None" = None
    interval: float | None = None
    is_drawn: bool = True


LEVEL = 0.9
"""Probability that intervals claim by default."""


def forecaster_of(
    model: str, dynamics: str | None, level: float | None, device: str | None
) -> Forecaster:
    """Forecaster of a file with a law, or of a folder."""
    if os.path.isdir(model):
        return _of_folder(Path(model), level, device)
    _check_no_level(level)
    if dynamics is None:
        raise InputError(
            "--dynamics", expected="a law", got="none", fix="add --dynamics law.safetensors"
        )
    projection = inputs.load("projection", model)
    law = inputs.load("law", dynamics)
    forecast = partial(romkit.forecast, projection, dynamics=law, device=device)
    return Forecaster(projection, law, forecast, bool(law.control_names), is_drawn=False)


def _check_no_level(level: float | None) -> None:
    """Raise where a level is asked for, and there is no interval."""
    if level is None:
        return
    raise InputError(
        "--level",
        expected="a model with bars",
        got="one without",
        fix="leave it out, or give the folder of an ensemble",
    )


def _of_folder(folder: Path, level: float | None, device: str | None) -> Forecaster:
    """Forecaster in a folder: that of a learned model, or of an ensemble."""
    from romkit.core.files import LEARNED  # with torch, which help is spared

    if (folder / LEARNED).is_file():
        return _of_learned(romkit.Learned.load(folder), level, device)
    ensemble = romkit.Ensemble.load(folder)
    if level is None:
        level = LEVEL
    forecast = partial(ensemble.forecast, level=level, device=device)
    law = ensemble.law
    return Forecaster(ensemble.projection, law, forecast, bool(law.control_names))


def _of_learned(learned: "romkit.Learned", level: float | None, device: str | None) -> Forecaster:
    """Forecaster of a learned model, which knows its rhythm."""
    is_interpolated = learned.interpolated is not None
    knows_inputs = is_interpolated or learned.period is not None
    settings: dict[str, Any] = {}
    if not is_interpolated:
        settings["device"] = device
    if not is_interpolated and learned.intervals is None:
        _check_no_level(level)
    elif level is not None:
        settings["level"] = level
    needs_inputs = bool(learned.law.control_names) and not knows_inputs
    times = learned.train["time"]
    forecast = partial(learned.forecast, **settings)
    return Forecaster(
        learned.projection,
        learned.law,
        forecast,
        needs_inputs,
        began=times if knows_inputs else None,
        interval=interval_of(learned.train),
    )


def interval_of(data: "xr.Dataset", of_runs: float | None = None) -> float:
    """Return mean interval between the times of a dataset; of one with a single time, that of the
    runs of a model, where it is known.
    """
    if data.sizes["time"] < 2 and of_runs is not None:
        return of_runs
    if data.sizes["time"] < 2:
        raise InputError(
            "--dt",
            expected="an interval for data of a single time",
            got="none",
            fix="add --dt 0.1, say",
        )
    return float(data["time"].diff("time").mean())
