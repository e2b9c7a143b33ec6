"""`romkit fit`: train a projection and write it to a file."""

from pathlib import Path
from typing import Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import Data, Force, Settings, read_data, refuse_options, settings, short_name, target, written
from romkit.core import checks


@app.command()
def fit(
    method: Annotated[
        str, typer.Argument(metavar="METHOD", help="Name of a method; `romkit info` lists them.", show_default=False)
    ],
    data: Data,
    seed: Annotated[int, typer.Option(help="Seed of the initial parameters and the order of the data.")] = 0,
    preset: Annotated[str, typer.Option(help="Settings to start from; `romkit info` lists them.")] = "quick",
    set_: Settings = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; a GPU is used where there is one.")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder to save progress in; the same command then resumes.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File, or folder for projection.safetensors; runs/METHOD-DATA by default.", show_default=False
        ),
    ] = None,
    force: Force = False,
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
    """  # noqa: D301, typer keeps the lines after \b as they are
    overrides = settings(set_ or [])
    refuse_options(overrides, ("method", "data", "seed", "preset", "system", "device", "checkpoint"))

    import romkit
    from romkit.cli.describe import describe_model
    from romkit.plotting import plot_training, save_figure
    from romkit.projections import METHODS

    checks.one_of("method", method, METHODS)
    checks.one_of("preset", preset, romkit.presets.PRESETS)
    file = target(out, f"{method}-{short_name(data)}", "projection.safetensors", force)
    projection = romkit.fit(
        method, read_data(data), seed=seed, preset=preset, device=device, checkpoint=checkpoint, **overrides
    )
    print(describe_model(projection))
    print(f"\nwrote {written(lambda path: romkit.save(projection, path), file)}")
    if all(report.get("losses") for report in projection.report.get("seeds", [projection.report])):
        print(f"wrote {save_figure(plot_training(projection), file.with_suffix('.png'))}")
