"""Command of `romkit` that runs a model alone: `forecast`."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Context, Option

import romkit
from romkit.cli import facts, inputs, options, output, results
from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.patterns import is_pattern

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from romkit.integrators import LearnedField


def forecast(
    ctx: Context,
    model: Annotated[str, Argument(metavar="MODEL")],
    start: Annotated[list[str], Option("--from", metavar="DATA")],
    duration: Annotated[float, Option()],
    trajectory: int = 0,
    at: int = 0,
    dt: float | None = None,
    dynamics: str | None = None,
    control: Annotated[str | None, Option(metavar="FILE")] = None,
    level: float | None = None,
    device: options.Device = None,
    out: Path | None = None,
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

    Args:
        model: A file by `romkit fit`, or the folder of an ensemble or of `romkit learn`.
        start: The dataset that has the first state, or a pattern; - reads a table from
            stdin.
        duration: Length of the forecast.
        trajectory: Which trajectory of the dataset.
        at: Which of its samples is the first state; -1 is the last.
        dt: Output interval; that of the dataset by default.
        dynamics: A law, a file by `romkit law`.
        control: File with a column of times and one for each input, or control (time,
            input).
        level: Probability that the interval of an ensemble claims; 0.9 by default.
        out: Folder for the results; runs/forecast-MODEL by default.
    """
    file = results.target(out, f"forecast-{Path(model).stem}", "forecast.nc", force)
    inputs.check_device(device)
    # before the data, which may be the training set of a system
    forecaster = read_forecaster(model, dynamics, level, device)
    data = _describe_start(start, forecaster.projection)
    data = _convert_units(data, forecaster.projection)
    if dt is None:
        runs = None if forecaster.learned is None else forecaster.learned.train
        dt = _interval(data, runs)
    settings: dict[str, Any] = {"duration": duration, "dt": dt}
    settings |= _first_state(data, forecaster.law, trajectory, at)
    # what is typed replaces what the data have
    frame = forecaster.projection.frame
    typed = options.context_values(ctx, frame.context_names)
    of_data = _state_context(data, forecaster.projection, trajectory, at, typed)
    settings["context"] = of_data | typed
    if data.sizes["trajectory"] > 1:
        print(f"from trajectory {trajectory} of the file{_listed(of_data)}")
    law = forecaster.law
    # a learned model knows inputs that follow the time
    if (law.control_names and forecaster.began is None) or control is not None:
        source = data.isel(time=slice(at, None))
        if control is not None:
            source = _read_inputs(control, law.control_names, frame.units.time)
        settings["control"] = _future_inputs(source, law, trajectory, duration)
    if forecaster.began is not None:
        settings["start"] = _elapsed_time(forecaster.began, data["time"], at)
    run = forecaster.forecast(**settings)
    output.add(**facts.data_facts(run), values=_numbers(run))
    results.write(romkit.data.save_dataset, run, file)
    if forecaster.is_drawn:
        figure = romkit.plotting.plot_forecast(run)
        results.write(romkit.plotting.save_figure, figure, file.with_suffix(".png"))


def _listed(parameters: Mapping[str, float]) -> str:
    """List parameters with their values behind a colon; nothing where all of them are typed."""
    numbers = ", ".join(f"{name} = {value:g}" for name, value in parameters.items())
    return f": {numbers}" if numbers else ""


def _numbers(run: "xr.Dataset", *, printed: int = 100_000) -> dict[str, object]:
    """Return times, states and intervals of a forecast, of variables that are not large.

    `printed`: numbers of a variable up to which JSON has its values; of more, the file has them.
    """
    shown: dict[str, object] = {"time": run["time"].values}
    for name, variable in run.data_vars.items():
        if "time" in variable.dims and variable.size <= printed:
            shown[str(name)] = variable.values
    return shown


def _describe_start(
    sources: list[str], projection: "romkit.projections.Projection"
) -> "xr.Dataset":
    """Return data in romkit's schema; those in the form of the runs are described by the names of
    the model.

    A file with the first state alone does not say what is a parameter.
    """
    import xarray as xr

    from romkit.readers import first_states

    source = sources[0]
    is_file = any((inputs.is_path(source), is_pattern(source), source == inputs.STDIN))
    if inputs.is_system(sources) or not is_file:
        return romkit.data.check_states(inputs.read_data(sources))
    data, parameters = inputs.read_parameters(sources)
    if isinstance(data, xr.Dataset) and "component" in data.dims:
        return romkit.data.check_states(data)
    frame = projection.frame
    names = {*data, *getattr(data, "coords", ()), *data.attrs, *(parameters or ())}
    context = [name for name in frame.context_names if name in names]
    states = [variable.name for variable in frame.fields.variables]
    if not isinstance(data, xr.Dataset):
        data = first_states.add_time(first_states.index_places(data, frame.fields))
    return romkit.data.describe(data, context=context, state=states)


def _elapsed_time(runs: "xr.DataArray", times: "xr.DataArray", at: int) -> float:
    """Time of a sample since the first of the runs, both of which may be counted from a date."""
    import numpy as np  # help is spared

    since = float(times.values[at]) - float(runs.values[0])
    dates = [clock.attrs.get("since") for clock in (times, runs)]
    if not all(dates):
        return since
    start, origin = np.array(dates, dtype="datetime64[ns]")
    return since + float((start - origin) / np.timedelta64(1, "s"))


def _first_state(
    data: "xr.Dataset", law: "romkit.integrators.LearnedField", trajectory: int, at: int
) -> "dict[str, xr.DataArray]":
    """Return state, and velocity of a law of second order, of one sample."""
    sample = _select(data, trajectory=trajectory, time=at)
    state = {"initial_state": sample["state"]}
    if law.order == 2 and "velocity" in data:
        state["initial_velocity"] = sample["velocity"]
    return state


def _convert_units(data: "xr.Dataset", projection: "romkit.projections.Projection") -> "xr.Dataset":
    """Return data in the units of a model, which may lack parameters of it."""
    from romkit.data.conversions import convert_data

    frame = projection.frame
    # data of another size are refused as a state
    if data.sizes["component"] != len(frame.state_names):
        return data
    units = dict(zip(frame.context_names, frame.context_units, strict=True))
    present = [name for name in romkit.data.context_names(data) if name in units]
    of_present = frame.units._replace(context=[units[name] for name in present])
    return convert_data("--from", data, of_present, present)


def _state_context(
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
    """Return entries of a dataset at these indices of `trajectory` and `time`."""
    for dim, index in wanted.items():
        checks.index("--at" if dim == "time" else "--trajectory", index, data.sizes[dim])
    return data.isel(wanted)


# -- what forecasts ----------------------------------------------------------------------------------


class Forecaster(NamedTuple):
    """A projection with a law, an ensemble, or a learned model.

    Attributes:
        projection, law: of the model.
        forecast: from a state, with the options of the command line.
        learned: the learned model, None of others.
        is_drawn: whether forecasts get a picture.
    """

    projection: "romkit.projections.Projection"
    law: "LearnedField"
    forecast: "Callable[..., xr.Dataset]"
    learned: "romkit.Learned | None" = None
    is_drawn: bool = True

    @property
    def began(self) -> "xr.DataArray | None":
        """Times of the runs, where forecasts depend on the time since the first of them."""
        learned = self.learned
        if learned is None or (learned.interpolated is None and learned.period is None):
            return None
        return learned.train["time"]


def read_forecaster(
    model: str, dynamics: str | None, level: float | None, device: str | None
) -> Forecaster:
    """Return the forecaster of a file with a law, or of a folder."""
    from romkit.core.files import LEARNED  # with torch, which help is spared

    settings: dict[str, Any] = {"device": device}
    has_bars = os.path.isdir(model)
    if has_bars and (Path(model) / LEARNED).is_file():
        learned = romkit.Learned.load(model)
        forecaster = Forecaster(learned.projection, learned.law, learned.forecast, learned)
        if learned.interpolated is not None:
            # runs are interpolated on the CPU
            settings = {}
        else:
            has_bars = learned.intervals is not None
    elif has_bars:
        ensemble = romkit.Ensemble.load(model)
        forecaster = Forecaster(ensemble.projection, ensemble.law, ensemble.forecast)
    elif dynamics is None:
        raise InputError(
            "--dynamics", expected="a law", got="none", fix="add --dynamics law.safetensors"
        )
    else:
        projection, law = inputs.load("projection", model), inputs.load("law", dynamics)
        forecast = partial(romkit.forecast, projection, dynamics=law)
        forecaster = Forecaster(projection, law, forecast, is_drawn=False)
    if level is not None:
        if not has_bars:
            raise InputError(
                "--level",
                expected="a model with bars",
                got="one without",
                fix="leave it out, or give the folder of an ensemble",
            )
        settings["level"] = level
    return forecaster._replace(forecast=partial(forecaster.forecast, **settings))


def _interval(*sources: "xr.Dataset | None") -> float:
    """Return mean interval between the times of the first of some datasets that has several."""
    for data in sources:
        if data is not None and data.sizes["time"] > 1:
            return float(data["time"].diff("time").mean())
    raise InputError(
        "--dt",
        expected="an interval for data of a single time",
        got="none",
        fix="add --dt 0.1, say",
    )


# -- inputs: those of the data, or those of a file of any kind ----------------------------------------

FIX = "give a file with them by --control"


def _read_inputs(file: str, names: Sequence[str], unit: str) -> "xr.Dataset":
    """Return inputs of these names in a file, at times in a unit: `control` (time, input), or a
    column for each of them.

    Raises:
        InputError: columns that are not along the time alone.
    """
    from romkit.data.conversions import convert_times
    from romkit.data.spelling import full_name

    source = romkit.data.open_dataset(file) if file.endswith(".nc") else romkit.open(file)
    variables = [str(name) for name in source.data_vars]
    columns = [full_name(name, variables) for name in names]
    if "control" not in variables and names and set(columns) <= set(variables):
        source = _joined(source[columns], names)
    return convert_times("--control", source, unit)


def _joined(columns: "xr.Dataset", names: Sequence[str]) -> "xr.Dataset":
    """Return columns as one variable `control` (time, input), with inputs of these names."""
    import xarray as xr

    from romkit.data.controls import INPUT_UNITS
    from romkit.data.names import unit_of

    along = {column.dims for column in columns.data_vars.values()}
    if len(along) > 1 or len(columns.dims) != 1:
        got = f"dims {', '.join(map(str, columns.dims))}"
        raise InputError("--control", expected="inputs along the time alone", got=got, fix=FIX)
    (time,) = columns.dims
    units = [unit_of(column) for column in columns.data_vars.values()]
    values = columns.to_array("input").transpose(time, "input")
    labels = {"input": list(names), INPUT_UNITS: ("input", units)}
    control = xr.DataArray(values.variable, {time: columns[time], **labels}, name="control")
    return control.rename({time: "time"}).to_dataset()


def _future_inputs(
    source: "xr.Dataset", law: "LearnedField", trajectory: int, duration: float
) -> "Callable[[float], np.ndarray]":
    """Return inputs of a law as a function of the time since the first sample of a dataset."""
    import torch

    from romkit.data.controls import control_of, convert_inputs

    names = law.control_names
    dims = source["control"].dims if "control" in source else ()
    if {*dims} - {"trajectory"} != {"time", "input"}:
        raise InputError(
            "--control",
            expected=f"control (time, input) of {', '.join(names)}",
            got=f"dims {dims}" if dims else "data without it",
            fix=FIX,
        )
    control = convert_inputs("--control", source["control"], names, law.control_unit)
    source = control.to_dataset(name="control")
    if "trajectory" in dims:
        checks.index("--trajectory", trajectory, source.sizes["trajectory"])
        source = source.isel(trajectory=trajectory)
    times = romkit.data.times_of(source)
    since = times - times[0]
    # times in files are rounded
    if since[-1] < duration * (1 - 1e-9):
        raise InputError(
            "--control",
            expected=f"inputs up to {duration:g} after the first state",
            got=f"up to {since[-1]:g}",
            fix=FIX,
        )
    moved = source.assign_coords(time=since).expand_dims("trajectory")
    course = control_of(moved, law.held)
    assert course is not None  # there is an input
    return lambda t: course(torch.tensor(t, dtype=torch.float64)).numpy()
