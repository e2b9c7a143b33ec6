"""`romkit forecast`: a reduced model or an ensemble alone, from a state of a dataset."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import ContextCommand, Force, context_values, load_a, read_data, target, written
from romkit.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import xarray as xr

    from romkit.integrators import LearnedField

Inputs = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="netCDF file with control (time, input), from the first state on; by default the inputs in --from.",
    ),
]


@app.command(cls=ContextCommand)
def forecast(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A file by `romkit fit`, with --dynamics; or the folder of an ensemble by `romkit law --members`.",
            show_default=False,
        ),
    ],
    start: Annotated[
        str, typer.Option("--from", metavar="DATA", help="The dataset that has the first state.", show_default=False)
    ],
    duration: Annotated[float, typer.Option(help="Length of the forecast.", show_default=False)],
    trajectory: Annotated[int, typer.Option(help="Which trajectory of the dataset.")] = 0,
    at: Annotated[int, typer.Option(help="Which of its samples is the first state; -1 is the last.")] = 0,
    dt: Annotated[float | None, typer.Option(help="Output interval; that of the dataset by default.")] = None,
    dynamics: Annotated[str | None, typer.Option(help="A law, a file by `romkit law`.")] = None,
    control: Inputs = None,
    level: Annotated[float, typer.Option(help="Of the interval of an ensemble.")] = 0.9,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; runs/forecast-MODEL by default.")] = None,
    force: Force = False,
) -> None:
    """Forecast from a state, with no truth beside it. Context and inputs are those of the data, unless they are given.

    \b
    Examples:
      romkit forecast my.safetensors --dynamics law.safetensors --from my.nc --duration 40
      romkit forecast runs/law-sindy-my --from my.nc --trajectory 3 --at -1 --duration 40 --Re 110
      romkit forecast my.safetensors --dynamics law.safetensors --from my.nc --at -1 --duration 40 --control inputs.nc

    Writes forecast.nc, and forecast.png of an ensemble. Says where it leaves what the model was trained on.
    """  # noqa: D301, typer keeps the lines after \b as they are
    file = target(out, f"forecast-{Path(model).stem}", "forecast.nc", force)

    import romkit
    from romkit.data import context_names, open_dataset, save_dataset
    from romkit.plotting import plot_forecast, save_figure

    data = read_data(start)
    sample = _at(data, trajectory=trajectory, time=at)
    ensemble = romkit.Ensemble.load(model) if os.path.isdir(model) else None
    projection = load_a("projection", model) if ensemble is None else ensemble.projection
    names = projection.normalization.signature.context_names
    context = {name: float(sample[name]) for name in context_names(data) if name in names} | context_values(ctx, names)
    law = _law(dynamics) if ensemble is None else ensemble.law
    given = {"initial_state": sample["state"], "duration": duration, "dt": _interval(data, dt), "context": context}
    if law.order == 2 and "velocity" in data:
        given["initial_velocity"] = sample["velocity"]
    if law.control_names or control is not None:
        source = data.isel(time=slice(at, None)) if control is None else open_dataset(control)
        given["control"] = _inputs(source, law.control_names, trajectory, duration)
    if ensemble is None:
        run = romkit.forecast(projection, dynamics=law, **given)
    else:
        run = ensemble.forecast(level=level, **given)
    print(f"wrote {written(lambda path: save_dataset(run, path), file)}")
    if ensemble is not None:
        print(f"wrote {save_figure(plot_forecast(run), file.with_suffix('.png'))}")


def _law(dynamics: str | None) -> "LearnedField":
    if dynamics is None:
        raise InputError("--dynamics", expected="a law", got="none", fix="add --dynamics law.safetensors")
    return load_a("law", dynamics)


def _interval(data: "xr.Dataset", dt: float | None) -> float:
    if dt is None and data.sizes["time"] < 2:
        raise InputError("--dt", expected="an interval for data of a single time", got="none", fix="add --dt 0.1, say")
    return float(data["time"].diff("time").mean()) if dt is None else dt


def _at(data: "xr.Dataset", **wanted: int) -> "xr.Dataset":
    """What stands at these indices of `trajectory`, and of `time`."""
    for dim, index in wanted.items():
        if not -data.sizes[dim] <= index < data.sizes[dim]:
            option, fix = "--at" if dim == "time" else "--trajectory", f"give one below {data.sizes[dim]}"
            raise InputError(option, expected=f"one of {data.sizes[dim]}", got=str(index), fix=fix)
    return data.isel(wanted)


def _inputs(
    source: "xr.Dataset", names: tuple[str, ...], trajectory: int, duration: float
) -> "Callable[[float], np.ndarray]":
    """The inputs of these names as a function of the time since the first of a dataset."""
    import torch

    from romkit.data import control_of, times_of
    from romkit.data.control import by_name

    fix, dims = "give a file with them by --control", source["control"].dims if "control" in source else ()
    if {*dims} - {"trajectory"} != {"time", "input"}:
        expected, got = f"control (time, input) of {', '.join(names)}", f"dims {dims}" if dims else "data without it"
        raise InputError("--control", expected=expected, got=got, fix=fix)
    source = by_name(source[["control"]], names)
    source = _at(source, trajectory=trajectory) if "trajectory" in dims else source
    since = times_of(source) - times_of(source)[0]
    if since[-1] < duration * (1 - 1e-9):
        expected, got = f"inputs up to {duration:g} after the first state", f"up to {since[-1]:g}"
        raise InputError("--control", expected=expected, got=got, fix=fix)
    u = control_of(source.assign_coords(time=since).expand_dims("trajectory"))
    return lambda t: u(torch.tensor(t, dtype=torch.float64)).numpy()
