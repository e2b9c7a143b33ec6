"""`romkit report`: what is known about a run, a model, a law, a basis or a dataset, as one file for a colleague."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from romkit.cli.app import app
from romkit.cli.options import writable

if TYPE_CHECKING:
    import xarray as xr

    from romkit.bases import Basis
    from romkit.integrators import LearnedField
    from romkit.projections import Projection

RESULTS = ("comparison", "data", "forecast", "law", "projection", "rollout")
"""What commands call their results, in folders whose names say of what they are."""


@app.command()
def report(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="What `romkit rollout`, `fit`, `law` or `dataset` wrote, the REPORT.md of a study, or the name of a "
            "pretrained model.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; report-NAME.html by default, after the file or its folder.", show_default=False
        ),
    ] = None,
) -> None:
    """Write one HTML file with figures, tables and provenance; it needs nothing else to be read.

    \b
    Examples:
      romkit report runs/rollout-lorenz96/rollout.nc
      romkit report ncae-lorenz96 --out model.html
      romkit report studies/paper/results/REPORT.md
    """  # noqa: D301, typer keeps the lines after \b as they are
    file = Path(source)
    name = file.parent.name if file.stem in RESULTS and file.parent.name else file.stem
    target = writable(out or Path(f"report-{name}.html"))

    from romkit.cli.page import page
    from romkit.core.files import atomic
    from romkit.data import open_dataset
    from romkit.projections import pretrained
    from romkit.verbs.storage import load

    title = Path(source).stem
    if source in pretrained() or Path(source).suffix == ".safetensors":
        parts = _of_model(load(source))
    elif Path(source).suffix == ".md":
        from romkit.cli.markdown import rendered

        title, html = rendered(Path(source))
        parts = [html]
    else:
        data = open_dataset(source)
        parts = _of_run(data) if "truth" in data else _of_dataset(data)
    text = page(title, parts)
    with atomic(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(f"wrote {target}")


def _of_run(run: "xr.Dataset") -> Iterator[str]:
    from romkit.cli.page import picture, section, text
    from romkit.cli.summary import summarise
    from romkit.plotting import plot_latent, plot_rollout

    yield section("Errors", picture(plot_rollout(run), "full and reduced model, error over time"))
    yield section("In numbers", text(summarise(run)))
    yield section("Latent state", picture(plot_latent(run), "latent state"))
    yield _provenance(run)


def _of_dataset(data: "xr.Dataset") -> Iterator[str]:
    from romkit.cli.describe import describe_dataset
    from romkit.cli.page import section, text

    yield section("Contents", text(describe_dataset(data.assign_attrs(dict.fromkeys(data.attrs, "")))))
    yield _provenance(data)


def _of_model(model: "Projection | LearnedField | Basis") -> Iterator[str]:
    from romkit.bases import Basis
    from romkit.cli.describe import describe_saved
    from romkit.cli.page import picture, section, text
    from romkit.plotting import plot_training
    from romkit.projections import Projection

    if not isinstance(model, Projection):
        yield section("Basis" if isinstance(model, Basis) else "Law", text(describe_saved(model)))
        return
    if all(report.get("losses") for report in model.report.get("seeds", [model.report])):
        yield section("Training", picture(plot_training(model), "loss over epochs"))
    yield section("Model", text(describe_saved(model)))
    yield _table("Made by", model.report.get("versions", {}))


def _provenance(data: "xr.Dataset") -> str:
    return _table("Provenance", {name: value for name, value in data.attrs.items() if value != ""})


def _table(title: str, values: dict[str, object]) -> str:
    from romkit.cli.page import section, table

    return section(title, table((name, str(value)) for name, value in values.items()))
