"""`romkit rollout`: the full and the reduced model from one initial state, as numbers, a file and a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import (
    ContextCommand,
    Force,
    context_values,
    is_in_file,
    load_a,
    read_data,
    short_name,
    system_named,
    target,
    written,
)
from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.files import there

if TYPE_CHECKING:
    import xarray as xr

    from romkit.integrators import LatentDynamics
    from romkit.systems import System


@app.command(cls=ContextCommand)
def rollout(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SYSTEM",
            help="A system (`romkit info` lists them; `my_system.py:Burgers` is one in a file), or a dataset file.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(help="A .safetensors file by `romkit fit`, or the name of a pretrained model.", metavar="MODEL"),
    ] = None,
    duration: Annotated[float | None, typer.Option(help="Length of the run, in the system's time units.")] = None,
    dt: Annotated[float | None, typer.Option(help="Output interval, and step of the reduced model.")] = None,
    dynamics: Annotated[
        str | None,
        typer.Option(
            help="galerkin, petrov-galerkin, lspg, or a .safetensors file by `romkit law`; as in training by default."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; runs/rollout-SYSTEM by default.", show_default=False)
    ] = None,
    force: Force = False,
) -> None:
    """Compare a full model with its reduced model.

    Both start from the same state. The context is given by the names of its parameters, with commas for several
    runs at once. The model is the one that ships for the system (of several NcAE), unless --model names another.

    \b
    Examples:
      romkit rollout lorenz96 --F 3.15
      romkit rollout lorenz96 --F 3.14,3.15,3.18 --duration 50
      romkit rollout lorenz96 --F 3.15 --dynamics petrov-galerkin
      romkit rollout lorenz96 --F 3.15 --model runs/pod-lorenz96.safetensors
      romkit rollout my.nc --model my.safetensors --dynamics law.safetensors
      romkit rollout my_system.py:Burgers --nu 0.01 --model my.safetensors

    Prints the normalised error over time (NRMSE) beside that of the projection alone: the full model, encoded and
    decoded. Of a dataset, all trajectories are followed at their contexts.
    Writes rollout.nc (all trajectories) and rollout.png.
    """  # noqa: D301, typer keeps the lines after \b as they are
    truth = _truth(source, model)
    context = context_values(ctx, getattr(truth, "context_names", ()))

    import romkit
    from romkit.cli.summary import summarise
    from romkit.data import save_dataset
    from romkit.plotting import plot_rollout, save_figure

    latent = _dynamics(dynamics) if dynamics else None
    file = target(out, f"rollout-{short_name(source)}", "rollout.nc", force)
    projection = load_a("projection", model or _shipped(source))
    run = romkit.rollout(truth, projection, duration=duration, dt=dt, dynamics=latent, **context)
    print(summarise(run))
    print(f"\nwrote {written(lambda path: save_dataset(run, path), file)}")
    print(f"wrote {save_figure(plot_rollout(run), file.with_suffix('.png'))}")


def _truth(source: str, model: str | None) -> "System | xr.Dataset":
    """The system of that name, or the dataset in that file."""
    from romkit.systems import SYSTEMS

    if source in SYSTEMS or not (Path(source).suffix or there(source)):
        return system_named(source)
    if is_in_file(source) and model is not None:
        return system_named(source)
    if model is None:
        raise InputError("--model", expected="a model for these data", got="none", fix="add --model MODEL")
    return read_data(source)


def _shipped(system: str) -> str:
    """The name of the model that ships for a system, the last of several."""
    from romkit.projections import pretrained

    return max((name for name in pretrained() if name.partition("-")[2] == system), default=f"ncae-{system}")


def _dynamics(name: str) -> "LatentDynamics":
    from romkit.integrators import DYNAMICS

    if Path(name).suffix == ".safetensors":
        return load_a("law", name)
    return DYNAMICS[checks.one_of("dynamics", name, DYNAMICS)]()
