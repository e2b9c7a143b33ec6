"""Pictures of README and of the start page: `python -m docs.figures.wake`, two minutes on a core.

A manifold and a law are learned from the ten training runs of studies/wake alone, and followed at a
Reynolds number that is none of theirs. The simulation is drawn by its coordinates in 64 modes. The
committed pictures are of 26 November 2026 (c6beb5da).
"""

from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.patches import Circle
from matplotlib.tri import Triangulation
from scipy.sparse.linalg import splu

import romkit
from romkit.integrators import LearnedField
from romkit.plotting import save_figure
from romkit.plotting.style import colours
from romkit.projections import Projection
from romkit.systems.cylinder_wake.elements import CENTRE, HEIGHT, RADIUS, discretisation
from studies.wake.data import BASIS, COORDINATES, TRAIN

UNSEEN = 105.0
"""Reynolds number of the maps."""

SETTLED = 5.0
"""Time at which the forecast begins [s], on the orbit."""

LENGTH = 2.2
"""Length of the channel [m]."""

MAGNIFIED = 10
"""Factor of the difference."""

LARGEST = 25.0
"""Vorticity at the ends of the colours [1/s]; it is larger at the cylinder alone."""

ORBITS = np.arange(55.0, 151.0, 5.0)
"""Reynolds numbers of the orbits."""


class Map:
    """Vorticity of coordinates in the basis, at the nodes of the mesh."""

    def __init__(self) -> None:
        flow, basis = discretisation("standard"), romkit.load(BASIS)
        nodes = flow.along == 0  # each node has two velocities
        x, y = flow.places[nodes].T
        self.triangulation = Triangulation(x, y)
        corners = self.triangulation.triangles  # (triangles, 3)
        distance = np.hypot(x[corners].mean(1) - CENTRE[0], y[corners].mean(1) - CENTRE[1])
        self.triangulation.set_mask(distance < RADIUS)
        fields = np.column_stack([basis.mean.numpy(), basis.modes.numpy()])  # (n, 1 + r)
        _, _, _, u_y, v_x, _ = (flow.sampled @ fields).reshape(6, -1, fields.shape[1])
        vorticity = v_x - u_y  # (points, 1 + r), with jumps between triangles
        # the nearest continuous field, as the first component of a velocity
        tested = flow.tested @ np.concatenate([vorticity, np.zeros_like(vorticity)])
        self.modes = splu(flow.mass.tocsc()).solve(tested)[nodes]

    def __call__(self, coordinates: np.ndarray) -> np.ndarray:
        return self.modes @ np.append(1.0, coordinates)

    def draw(self, panel: Axes, values: np.ndarray) -> object:
        """Draw values (nodes,)."""
        look = {"cmap": "RdBu_r", "vmin": -LARGEST, "vmax": LARGEST, "shading": "gouraud"}
        mesh = panel.tripcolor(self.triangulation, values, rasterized=True, **look)
        panel.add_patch(Circle(CENTRE, RADIUS, color="0.35", zorder=3))
        panel.set(xlim=(0, LENGTH), ylim=(0, HEIGHT), xticks=[], yticks=[], aspect="equal")
        return mesh


def learned(runs: xr.Dataset) -> tuple[Projection, LearnedField]:
    """Manifold of three latents and a law, from the training runs alone."""
    train = runs.isel(trajectory=np.isin(runs["Re"].values, TRAIN))
    model = romkit.fit("polynomial-manifold", train, latent_dim=3)
    return model, romkit.law(model, train)


def orbits(runs: xr.Dataset, model: Projection, law: LearnedField) -> list[np.ndarray]:
    """Latent states (T, 3) of some periods at each Reynolds number of `ORBITS`."""
    paths = []
    for reynolds in ORBITS:
        nearest = int(abs(runs["Re"].values - reynolds).argmin())
        start = runs["state"].values[nearest, -1]
        options = {"initial_state": start, "duration": 12.0, "dt": 0.01, "Re": reynolds}
        run = romkit.forecast(model, dynamics=law, **options)
        paths.append(run["latent"].values[-70:])  # two periods, after the transient
    return paths


Pictures = list[tuple[str, np.ndarray]]
"""Title and vorticity (nodes,) of each map."""


def pictures(runs: xr.Dataset, model: Projection, law: LearnedField, vorticity: Map) -> Pictures:
    """Return simulation, forecast and difference at the end of a run."""
    truth = runs.isel(trajectory=int(abs(runs["Re"].values - UNSEEN).argmin()))
    truth = truth.sel(time=slice(SETTLED, None))
    seconds = float(truth["time"][-1] - truth["time"][0])
    options = {"duration": seconds, "dt": 0.016, "Re": UNSEEN}
    start = truth["state"].values[0]
    forecast = romkit.forecast(model, dynamics=law, initial_state=start, **options)
    full = vorticity(truth["state"].values[-1])
    reduced = vorticity(forecast["state"].values[-1])
    return [
        (f"Simulation: 7142 velocities, Re = {UNSEEN:g}", full),
        (f"Model: three numbers, {seconds:.0f} s after its start", reduced),
        (f"Difference, {MAGNIFIED} times magnified", MAGNIFIED * (reduced - full)),
    ]


def draw_maps(figure: Figure, places: GridSpec, vorticity: Map, maps: Pictures) -> object:
    """Draw the maps one below the other; the last one is returned."""
    for place, (title, values) in zip(places, maps, strict=True):
        panel = figure.add_subplot(place)
        mesh = vorticity.draw(panel, values)
        panel.set_title(title, fontsize=10, loc="left", pad=3)
    return mesh


def draw(maps: Pictures, vorticity: Map, paths: list[np.ndarray]) -> Figure:
    """Return maps beside the orbits."""
    figure = Figure(figsize=(8.6, 3.6), dpi=200)
    grid = figure.add_gridspec(3, 1, left=0.01, right=0.57, top=0.93, bottom=0.01, hspace=0.28)
    mesh = draw_maps(figure, grid, vorticity, maps)
    bar = figure.add_axes((0.585, 0.06, 0.012, 0.78))
    figure.colorbar(mesh, cax=bar, ticks=[-20, 0, 20])
    bar.set_title("vorticity\n1/s", fontsize=8, loc="left")
    space = figure.add_axes((0.635, 0.14, 0.34, 0.8), projection="3d")
    space.patch.set_visible(False)  # or it hides numbers of the colour bar beside it
    draw_orbits(figure, space, paths)
    return figure


def draw_narrow(maps: Pictures, vorticity: Map) -> Figure:
    """Return simulation and model alone, for screens of phones."""
    figure = Figure(figsize=(4.3, 2.05), dpi=200)
    grid = figure.add_gridspec(2, 1, left=0.01, right=0.99, top=0.9, bottom=0.01, hspace=0.25)
    draw_maps(figure, grid, vorticity, maps[:2])
    return figure


def draw_orbits(figure: Figure, space: Axes, paths: list[np.ndarray]) -> None:
    """Draw a curve for each Reynolds number, in its colour."""
    scale = colours(ORBITS)
    scale.set_cmap("plasma")
    for reynolds, path in zip(ORBITS, paths, strict=True):
        space.plot(*path.T, color=scale.to_rgba(reynolds), lw=1.2)
    space.set_title("Orbits of the three numbers", fontsize=10, y=1.0)
    for number, axis in enumerate((space.xaxis, space.yaxis, space.zaxis)):
        axis.set_ticklabels([])
        axis.set_label_text(f"z{number}", fontsize=9)
        axis.labelpad = -12
    bar = figure.add_axes((0.7, 0.12, 0.25, 0.025))
    figure.colorbar(scale, cax=bar, orientation="horizontal", ticks=[60, 90, 120, 150])
    bar.set_xlabel("Reynolds number", fontsize=9)


def explained(runs: xr.Dataset, model: Projection, law: LearnedField) -> str:
    """Return what the lines of code on the start page print."""
    run = romkit.rollout(runs.isel(trajectory=slice(10, 20)), model, dynamics=law)
    return f"off by {float(run.nrmse.mean()):.1%}"


def write(runs: xr.Dataset, model: Projection, law: LearnedField, folder: Path) -> None:
    """Write both pictures, and what the code beside them prints."""
    vorticity = Map()
    maps = pictures(runs, model, law, vorticity)
    save_figure(draw(maps, vorticity, orbits(runs, model, law)), folder / "wake.png")
    save_figure(draw_narrow(maps, vorticity), folder / "wake-narrow.png")
    printed = f"{explained(runs, model, law)}\n"
    (folder / "wake.txt").write_text(printed, encoding="utf-8")


def main() -> None:
    """Learn the model and write what the start page shows."""
    runs = romkit.open(COORDINATES)
    write(runs, *learned(runs), Path(__file__).parent)


if __name__ == "__main__":
    main()
