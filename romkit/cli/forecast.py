"""`romkit forecast`: a reduced model or an ensemble alone, from a state of a dataset."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import ContextCommand, Force, context_values, load_a, read_data, target
from romkit.errors import InputError

if TYPE_CHECKING:
    import xarray as xr


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
    """Forecast from a state, with no truth beside it. The context is that of the trajectory, unless it is given.

    \b
    Examples:
      romkit forecast my.safetensors --dynamics law.safetensors --from my.nc --duration 40
      romkit forecast runs/law-sindy-my --from my.nc --trajectory 3 --at -1 --duration 40 --Re 110

    Writes forecast.nc and forecast.png. Says where it leaves what the model was trained on.
    """  # noqa: D301, typer keeps the lines after \b as they are
    file = target(out, f"forecast-{Path(model).stem}", "forecast.nc", force)

    import romkit
    from romkit.data import save_dataset
    from romkit.plotting import plot_forecast, save_figure

    first, given = _first(read_data(start), trajectory, at, dt)
    folder = os.path.isdir(model)
    source = romkit.Ensemble.load(model) if folder else load_a("projection", model)
    signature = (source.projection if folder else source).normalization.signature
    context = {name: value for name, value in first.items() if name in signature.context_names}
    context |= context_values(ctx, signature.context_names)
    given |= {"duration": duration, "context": context}
    if folder:
        run = source.forecast(level=level, **given)
        print(f"wrote {save_figure(plot_forecast(run), file.with_suffix('.png'))}")
    else:
        if dynamics is None:
            raise InputError("--dynamics", expected="a law", got="none", fix="add --dynamics law.safetensors")
        run = romkit.forecast(source, dynamics=load_a("law", dynamics), **given)
    print(f"wrote {save_dataset(run, file)}")


def _first(
    data: "xr.Dataset", trajectory: int, at: int, dt: float | None
) -> tuple[dict[str, float], dict[str, object]]:
    """The context at a sample, and the arguments of a forecast from it."""
    from romkit.data import context_names

    for option, index, dim in (("--trajectory", trajectory, "trajectory"), ("--at", at, "time")):
        if not -data.sizes[dim] <= index < data.sizes[dim]:
            fix = f"give one below {data.sizes[dim]}"
            raise InputError(option, expected=f"one of {data.sizes[dim]}", got=str(index), fix=fix)
    sample = data.isel(trajectory=trajectory, time=at)
    given = {"initial_state": sample["state"].values, "dt": dt or float(data["time"].diff("time").mean())}
    if "velocity" in data:
        given["initial_velocity"] = sample["velocity"].values
    return {name: float(sample[name]) for name in context_names(data)}, given
