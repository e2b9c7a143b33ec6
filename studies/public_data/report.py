"""RESULTS.md and its picture from the numbers of a preset."""

from pathlib import Path

from matplotlib.figure import Figure

from studies.report import filled, panels, save_png, table
from studies.runner import Study, numbers


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and explained.png into `folder`."""
    written = Study("public_data").write_page(folder, preset, page, "RESULTS.md")
    if written.suffix:
        save_png(drawn(numbers(folder / preset)["winters"]), folder / "explained.png")
    return written


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    winters = results["winters"]
    explained = [
        [name, *(f"{each:.1f}" for each in row)] for name, row in winters["explained"].items()
    ]
    return filled(
        Path(__file__).with_name("RESULTS.template"),
        explained=table(explained, ("latents", *winters["modes"])),
        fractions=", ".join(f"{each:.1f}" for each in winters["all winters"]),
        apart=winters["distance of scores"],
        device=winters["device"],
    )


def drawn(winters: dict[str, dict]) -> Figure:
    """Variance of held-out winters over the number of latents."""
    figure, ((axes,),) = panels(1, 1, (3.5, 2.4))
    for name, explained in winters["explained"].items():
        axes.plot(winters["modes"], explained, "o-" if name != "eofs" else "s--", label=name)
    axes.set(xlabel="latents", ylabel="variance explained, %", title="Held-out winters")
    axes.legend(frameon=False, fontsize=7, loc="center right", bbox_to_anchor=(1.0, 0.45))
    return figure
