"""Figure of the start page, made by the code that stands beside it."""

from pathlib import Path

from sphinx.application import Sphinx

import romkit


def write(app: Sphinx, config: object) -> None:
    """Draw `measured/start.png` with the shipped model of Lorenz96."""
    run = romkit.rollout(romkit.systems.Lorenz96(), romkit.load("ncae-lorenz96"), F=3.15)
    romkit.plotting.plot_rollout(run).savefig(Path(app.srcdir) / "measured" / "start.png", dpi=120)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", write, priority=900)  # after `measured`, which clears the folder
    return {"parallel_read_safe": True}
