"""`romkit forecast`: a reduced model or an ensemble alone, from a state of a dataset."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import ContextCommand, Force, context_values, load_a, read_data, target, written
from romkit.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

    from romkit.integrators import LearnedField


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
    level: Annotated[float, typer.Option(help="Of the interval of an ensemble.")] = 0.9,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; runs/forecast-MODEL by default.")] = None,
    force: Force = False,
) -> None:
    """Forecast from a state, with no truth beside it. The context is that of the sample, unless it is given.

    \b
    Examples:
      romkit forecast my.safetensors --dynamics law.safetensors --from my.nc --duration 40
      romkit forecast runs/law-sindy-my --from my.nc --trajectory 3 --at -1 --duration 40 --Re 110

    Writes forecast.nc, and forecast.png of an ensemble. Says where it leaves what the model was trained on.
    """  # noqa: D301, typer keeps the lines after \b as they are
    file = target(out, f"forecast-{Path(model).stem}", "forecast.nc", force)

    import romkit
    from romkit.data import context_names, save_dataset
    from romkit.plotting import plot_forecast, save_figure

    data = read_data(start)
    sample = _sample(data, trajectory, at)
    ensemble = romkit.Ensemble.load(model) if os.path.isdir(model) else None
    projection = load_a("projection", model) if ensemble is None else ensemble.projection
    names = projection.normalization.signature.context_names
    context = {name: float(sample[name]) for name in context_names(data) if name in names} | context_values(ctx, names)
    law = _law(dynamics) if ensemble is None else ensemble.law
    if law.control_names:
        fix = "forecast in Python: romkit.forecast(..., control=...)"
        raise InputError("MODEL", expected="a law without inputs", got=", ".join(law.control_names), fix=fix)
    if dt is None and data.sizes["time"] < 2:
        raise InputError("--dt", expected="an interval for data of a single time", got="none", fix="add --dt 0.1, say")
    dt = float(data["time"].diff("time").mean()) if dt is None else dt
    given = {"initial_state": sample["state"], "duration": duration, "dt": dt, "context": context}
    if law.order == 2 and "velocity" in data:
        given["initial_velocity"] = sample["velocity"]
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


def _sample(data: "xr.Dataset", trajectory: int, at: int) -> "xr.Dataset":
    for option, index, dim in (("--trajectory", trajectory, "trajectory"), ("--at", at, "time")):
        if not -data.sizes[dim] <= index < data.sizes[dim]:
            fix = f"give one below {data.sizes[dim]}"
            raise InputError(option, expected=f"one of {data.sizes[dim]}", got=str(index), fix=fix)
    return data.isel(trajectory=trajectory, time=at)
