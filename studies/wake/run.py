"""Reduced models of the wake at unseen Reynolds numbers: python -m studies.wake.run, after studies.wake.data.

Each contestant writes its numbers into results.json when it is done, and is skipped from then on. `--preset smoke` does
a small part of each in a few minutes, into runs/wake/smoke.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.bases import Basis
from romkit.integrators import Galerkin, SINDy
from romkit.projections import Projection, unstack
from romkit.systems import CylinderWake, System
from studies.pieces import Numbers, Pieces, command
from studies.wake import report
from studies.wake.data import BASIS, COORDINATES, FOLDER, HERE, TRAIN, UNSEEN
from studies.wake.reduced import DragLift, Reduced, at_hundred, behind, cycle, linear, measured
from studies.wake.stability import REYNOLDS, critical, full_growth, reduced_growth

LATENT = 3
SIZES: dict[str, Callable[[int], dict[str, object]]] = {
    "flow": lambda rank: {"latent_dim": LATENT, "units": (24, 24, 24)},
    "ncae": lambda rank: {"layers": (LATENT, 12, 24, rank), "embedding": (1, 8, 8, 8)},
    "film-ae": lambda rank: {"encoder": (rank, 24, 12, LATENT), "decoder": (LATENT, 12, 24, rank)},
}
"""Sizes by method, behind so many modes."""


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    Attributes:
        ranks: numbers of modes.
        seeds: of the networks.
        epochs: of their training; otherwise the preset "quick", for all methods.
        unseen: Reynolds numbers at which models are measured.
        reynolds: grid on which the critical Reynolds number is sought.
        periods: of the long rollouts.
        meshes: for the comparison at Re = 100.
    """

    ranks: tuple[int, int] = (32, 64)
    seeds: tuple[int, ...] = tuple(range(10))
    epochs: int = 600
    unseen: tuple[float, ...] = UNSEEN
    reynolds: tuple[float, ...] = tuple(REYNOLDS.tolist())
    periods: float = 1000
    meshes: tuple[str, ...] = ("coarse", "standard", "fine")

    @property
    def training(self) -> dict[str, object]:
        """Settings of `romkit.fit`."""
        return {"epochs": self.epochs, "batch_size": 256, "engine": "torch"}


SCALES = {
    "full": Scale(),
    "smoke": Scale(
        (24, 32), (0, 1), epochs=5, unseen=UNSEEN[:2], reynolds=(44.0, 52.0, 60.0), periods=10, meshes=("coarse",)
    ),
}


@functools.cache
def basis(rank: int) -> Basis:
    """Leading modes."""
    return romkit.load(BASIS).truncated(rank)


@functools.cache
def through(rank: int) -> System:
    """Flow seen through the modes, by exact tensors."""
    return CylinderWake().through(basis(rank))


def runs(reynolds: Sequence[float], rank: int) -> xr.Dataset:
    """Coordinates at these Reynolds numbers."""
    data = romkit.data.open_dataset(COORDINATES)
    where = [int(abs(data["Re"].values - re).argmin()) for re in reynolds]
    return data.isel(trajectory=where, component=slice(rank))


def steady(reynolds: Sequence[float], rank: int) -> Tensor:
    """Coordinates (C, r) of the steady flows."""
    flows = [torch.from_numpy(CylinderWake().steady(float(re))) for re in reynolds]
    return basis(rank).encode(torch.stack(flows))


def full(scale: Scale) -> Numbers:
    """Truth at the unseen Reynolds numbers, and the critical one."""
    data = runs(scale.unseen, 1)
    cycles = [cycle(lift) for lift in data["lift"].values]
    growth = [full_growth(re) for re in scale.unseen]
    found = {"Re": scale.unseen, "Strouhal": [each[0] for each in cycles], "lift": [each[1] for each in cycles]}
    found |= {"growth": [g.real for g in growth], "frequency": [abs(g.imag) for g in growth]}
    found["seconds, 12 s of flow"] = data["seconds"].values.tolist()
    return found | {"critical": critical(full_growth, np.array(scale.reynolds))}


def judged(scale: Scale, rank: int, model: Reduced) -> Numbers:
    """Measured quantities of a model at the unseen Reynolds numbers, and its critical one."""
    forces, flows = DragLift.of(basis(rank)), steady(scale.unseen, rank)
    found = measured(model, runs(scale.unseen, rank), flows, forces, scale.periods)

    def growth(reynolds: float) -> complex:
        with torch.no_grad():
            bound = model(torch.tensor([[reynolds]], dtype=torch.float64))
            start = bound.start(steady([reynolds], rank))[0]
            return reduced_growth(lambda z: bound.field(torch.zeros(()), z.unsqueeze(0))[0], start)

    return found | {"critical": critical(growth, np.array(scale.reynolds))}


def pod(scale: Scale, rank: int) -> Numbers:
    """POD-Galerkin."""
    return judged(scale, rank, linear(through(rank))) | {"modes": rank}


@functools.cache
def trained(scale: Scale, method: str, rank: int) -> list[Projection]:
    """One model per seed, kept in runs/."""
    file = FOLDER / f"{method}-{rank}-{scale.epochs}.safetensors"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        sizes = scale.training | SIZES[method](rank)
        romkit.save(romkit.fit(method, runs(TRAIN, rank), seeds=scale.seeds, **sizes), file)
    return [model.double() for model in unstack(romkit.load(file))]


def network(scale: Scale, method: str, rank: int) -> Numbers:
    """Galerkin projection onto a nonlinear manifold behind the modes."""
    models = trained(scale, method, rank)
    found = _by_seed([judged(scale, rank, behind(through(rank), model, Galerkin())) for model in models])
    return found | {"parameters": sum(p.numel() for p in models[0].parameters()), "modes": rank}


def discovered(scale: Scale, method: str, rank: int, degree: int = 3) -> Numbers:
    """SINDy in the latent space of a method, with the Reynolds number in its library."""
    models = trained(scale, method, rank)
    laws = [SINDy(degree=degree).fit(model, runs(TRAIN, rank)) for model in models]
    pairs = zip(models, laws, strict=True)
    found = _by_seed([judged(scale, rank, behind(through(rank), model, law)) for model, law in pairs])
    return found | {"degree": degree, "modes": rank}


def _by_seed(found: list[Numbers]) -> Numbers:
    return {name: [each[name] for each in found] for name in found[0]}


def pieces(scale: Scale) -> Pieces:
    """Work of the study, by name."""
    few, many = scale.ranks
    return {
        **{f"Re = 100, {mesh} mesh": partial(at_hundred, mesh) for mesh in scale.meshes},
        "full": partial(full, scale),
        **{f"POD-Galerkin, {rank} modes": partial(pod, scale, rank) for rank in scale.ranks},
        **{method: partial(network, scale, method, few) for method in ("ncae", "flow", "film-ae")},
        f"ncae, {many} modes": partial(network, scale, "ncae", many),
        "SINDy in ncae": partial(discovered, scale, "ncae", few),
    }


if __name__ == "__main__":
    presets = {name: pieces(scale) for name, scale in SCALES.items()}
    settings = {"train": TRAIN, "training": SCALES["full"].training, "seeds": SCALES["full"].seeds}
    command(HERE, presets, report.page, more=settings, packages=("scikit-fem",))
