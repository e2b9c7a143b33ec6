"""`romkit rollout`: the full and the reduced model from one initial state, as numbers, a file and a picture."""

from pathlib import Path
from typing import Annotated

import typer

from romkit import checks
from romkit.cli.app import app
from romkit.cli.options import ContextCommand, context_values, system_named, writable


@app.command(cls=ContextCommand)
def rollout(
    ctx: typer.Context,
    system: Annotated[
        str, typer.Argument(metavar="SYSTEM", help="Name of a system; `romkit info` lists them.", show_default=False)
    ],
    model: Annotated[
        str | None,
        typer.Option(help="A .safetensors file by `romkit fit`, or the name of a pretrained model.", metavar="MODEL"),
    ] = None,
    duration: Annotated[float | None, typer.Option(help="Length of the run, in the system's time units.")] = None,
    dt: Annotated[float | None, typer.Option(help="Output interval, and step of the reduced model.")] = None,
    dynamics: Annotated[
        str | None,
        typer.Option(help="How the latent state moves: galerkin, petrov-galerkin or lspg; as in training by default."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs"),
) -> None:
    """Compare a full model with its reduced model.

    Both start from the same state. The context is given by the names of its parameters, with commas for several
    runs at once. The model is the pretrained "ncae-SYSTEM" unless --model names another.

    \b
    Examples:
      romkit rollout lorenz96 --F 3.15
      romkit rollout lorenz96 --F 3.14,3.15,3.18 --duration 50
      romkit rollout pendulum --l1 0.4 --l2 0.5 --l3 0.6 --l4 0.5 --duration 1
      romkit rollout lorenz96 --F 3.15 --dynamics petrov-galerkin
      romkit rollout lorenz96 --F 3.15 --model runs/pod-lorenz96.safetensors

    Prints the normalised error over time (NRMSE) beside that of the projection alone: the full model, encoded and
    decoded. Writes rollout-SYSTEM.nc (all trajectories) and rollout-SYSTEM.png to the --out folder.
    """  # noqa: D301, typer keeps the lines after \b as they are
    full_model = system_named(system)
    context = context_values(ctx, full_model)

    import romkit
    from romkit.cli.summary import summarise
    from romkit.data import save_dataset
    from romkit.integrators import DYNAMICS
    from romkit.plotting import plot_rollout, save_figure

    latent = DYNAMICS[checks.one_of("dynamics", dynamics, DYNAMICS)]() if dynamics else None
    target = writable(out / f"rollout-{system}.nc")
    projection = romkit.load(model or f"ncae-{system}")
    run = romkit.rollout(full_model, projection, duration=duration, dt=dt, dynamics=latent, **context)
    print(summarise(run))
    print(f"\nwrote {save_dataset(run, target)}")
    print(f"wrote {save_figure(plot_rollout(run), target.with_suffix('.png'))}")
