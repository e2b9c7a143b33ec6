"""Reduced models of the wake at unseen Reynolds numbers: python -m studies.wake.run, after studies.wake.data.

Each contestant writes its numbers into results.json when it is done, and is skipped from then on.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.bases import Basis
from romkit.integrators import Galerkin, SINDy
from romkit.projections import Projection, unstack
from romkit.systems import CylinderWake, System
from studies.pieces import Numbers, complete
from studies.wake.benchmark import at_hundred
from studies.wake.data import BASIS, COORDINATES, FOLDER, TRAIN, UNSEEN
from studies.wake.drag_lift import DragLift
from studies.wake.reduced import Reduced, behind, cycle, linear, measured
from studies.wake.stability import critical, full_growth, reduced_growth

RESULTS = Path(__file__).with_name("results.json")
RANK, LATENT, SEEDS = 32, 3, tuple(range(10))
SIZES: dict[str, Callable[[int], dict[str, object]]] = {
    "flow": lambda rank: {"latent_dim": LATENT, "units": (24, 24, 24)},
    "ncae": lambda rank: {"layers": (LATENT, 12, 24, rank), "embedding": (1, 8, 8, 8)},
    "film-ae": lambda rank: {"encoder": (rank, 24, 12, LATENT), "decoder": (LATENT, 12, 24, rank)},
}
"""Sizes by method, behind so many modes."""

TRAINING = {"epochs": 600, "batch_size": 256, "engine": "torch"}
"""Otherwise the preset "quick", for all methods."""


@functools.cache
def basis(rank: int = RANK) -> Basis:
    """The modes."""
    return romkit.load(BASIS).truncated(rank)


@functools.cache
def through(rank: int = RANK) -> System:
    """The flow by its tensors."""
    return CylinderWake().through(basis(rank))


def runs(reynolds: Sequence[float], rank: int = RANK) -> xr.Dataset:
    """Coordinates at these Reynolds numbers."""
    data = romkit.data.open_dataset(COORDINATES)
    where = [int(abs(data["Re"].values - re).argmin()) for re in reynolds]
    return data.isel(trajectory=where, component=slice(rank))


def steady(reynolds: Sequence[float], rank: int = RANK) -> Tensor:
    """Coordinates (C, r) of the steady flows."""
    flows = [torch.from_numpy(CylinderWake().steady(float(re))) for re in reynolds]
    return basis(rank).encode(torch.stack(flows))


def full() -> Numbers:
    """The truth at the unseen Reynolds numbers, and the critical one."""
    data = runs(UNSEEN)
    lifts = data["lift"].values
    cycles, growth = [cycle(lift) for lift in lifts], [full_growth(re) for re in UNSEEN]
    found = {"Re": UNSEEN, "Strouhal": [each[0] for each in cycles], "lift": [each[1] for each in cycles]}
    found |= {"growth": [g.real for g in growth], "frequency": [abs(g.imag) for g in growth]}
    found["seconds, 12 s of flow"] = data["seconds"].values.tolist()
    return found | {"critical": critical(full_growth)}


def judged(model: Reduced, rank: int = RANK) -> Numbers:
    """What is measured of a model at the unseen Reynolds numbers, and its critical one."""
    found = measured(model, runs(UNSEEN, rank), steady(UNSEEN, rank), DragLift.of(basis(rank)))

    def growth(reynolds: float) -> complex:
        with torch.no_grad():
            bound = model(torch.tensor([[reynolds]], dtype=torch.float64))
            start = bound.start(steady([reynolds], rank))[0]
            return reduced_growth(lambda z: bound.field(torch.zeros(()), z.unsqueeze(0))[0], start)

    return found | {"critical": critical(growth)}


def pod(rank: int) -> Numbers:
    """POD-Galerkin."""
    return judged(linear(through(rank)), rank) | {"modes": rank}


@functools.cache
def trained(method: str, rank: int = RANK) -> list[Projection]:
    """One model per seed, kept in runs/."""
    file = FOLDER / f"{method}-{rank}.safetensors"
    if not file.exists():
        stack = romkit.fit(method, runs(TRAIN, rank), seeds=SEEDS, **TRAINING, **SIZES[method](rank))
        romkit.save(stack, file)
    return [model.double() for model in unstack(romkit.load(file))]


def network(method: str, rank: int = RANK) -> Numbers:
    """Galerkin projection onto a nonlinear manifold behind the modes."""
    models = trained(method, rank)
    found = [judged(behind(through(rank), model, Galerkin()), rank) for model in models]
    return _by_seed(found) | {"parameters": _parameters(models[0]), "modes": rank}


def discovered(method: str, degree: int = 3) -> Numbers:
    """SINDy in the latent space of a method, with the Reynolds number in its library."""
    models = trained(method)
    laws = [SINDy(degree=degree).fit(model, runs(TRAIN)) for model in models]
    found = [judged(behind(through(), model, law)) for model, law in zip(models, laws, strict=True)]
    return _by_seed(found) | {"degree": degree, "modes": RANK}


def _by_seed(found: list[Numbers]) -> Numbers:
    """Lists over seeds."""
    return {name: [each[name] for each in found] for name in found[0]}


def _parameters(model: Projection) -> int:
    return sum(p.numel() for p in model.parameters())


PIECES: dict[str, Callable[[], Numbers]] = {
    "Re = 100, coarse mesh": lambda: at_hundred("coarse"),
    "Re = 100, standard mesh": lambda: at_hundred("standard"),
    "Re = 100, fine mesh": lambda: at_hundred("fine"),
    "full": full,
    "POD-Galerkin, 32 modes": lambda: pod(32),
    "POD-Galerkin, 64 modes": lambda: pod(64),
    "ncae": lambda: network("ncae"),
    "flow": lambda: network("flow"),
    "film-ae": lambda: network("film-ae"),
    "ncae, 64 modes": lambda: network("ncae", 64),
    "SINDy in ncae": lambda: discovered("ncae"),
}


def main(only: str = "") -> None:
    """Computes what is missing."""
    settings = {"train": TRAIN, "training": TRAINING, "seeds": SEEDS}
    complete(PIECES, RESULTS, only, settings, "scikit-fem")


if __name__ == "__main__":
    main(*sys.argv[1:])
