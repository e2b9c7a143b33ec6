"""Reduced models of the wake at unseen Reynolds numbers, from the basis and coordinates of
studies.wake.data.
"""

import functools
from collections.abc import Callable, Sequence

import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.bases import Basis
from romkit.integrators import Galerkin, SINDy
from romkit.projections import Projection, unstack
from romkit.systems import CylinderWake, System
from studies.runner import Numbers, Study
from studies.wake.data import BASIS, COORDINATES, FOLDER, TRAIN, UNSEEN
from studies.wake.reduced import (
    DragLift,
    Found,
    Reduced,
    at_hundred,
    behind,
    cycle,
    linear,
    measured,
)
from studies.wake.stability import REYNOLDS, critical, full_growth, reduced_growth

LATENT = 3
SIZES: dict[str, Callable[[int], dict[str, object]]] = {
    "flow": lambda rank: {"latent_dim": LATENT, "units": (24, 24, 24)},
    "ncae": lambda rank: {"layers": (LATENT, 12, 24, rank), "embedding": (1, 8, 8, 8)},
    "film-ae": lambda rank: {"encoder": (rank, 24, 12, LATENT), "decoder": (LATENT, 12, 24, rank)},
}
"""Sizes by method, behind so many modes."""


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset: the full model, then its contestants."""
    table = Study("wake").presets[preset]
    (few, many), measuring = table["ranks"], table["measured"]
    whole = measuring | table["trained"]
    return [
        *(Numbers.of(f"Re = 100, {mesh} mesh", at_hundred, mesh=mesh) for mesh in table["meshes"]),
        Numbers.of("full", full, unseen=measuring["unseen"], apart=measuring["apart"]),
        *(
            Numbers.of(f"POD-Galerkin, {rank} modes", pod, rank=rank, **measuring)
            for rank in (few, many)
        ),
        *(
            Numbers.of(method, network, method=method, rank=few, **whole)
            for method in ("ncae", "flow", "film-ae")
        ),
        Numbers.of(f"ncae, {many} modes", network, method="ncae", rank=many, **whole),
        Numbers.of("SINDy in ncae", discovered, method="ncae", rank=few, **whole),
    ]


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


def full(unseen: int, apart: int) -> Found:
    """Truth at the unseen Reynolds numbers, and the critical one."""
    reynolds = UNSEEN[:unseen]
    data = runs(reynolds, 1)
    cycles = [cycle(lift) for lift in data["lift"].values]
    growth = [full_growth(re) for re in reynolds]
    found = {
        "Re": reynolds,
        "Strouhal": [each[0] for each in cycles],
        "lift": [each[1] for each in cycles],
    }
    found |= {"growth": [g.real for g in growth], "frequency": [abs(g.imag) for g in growth]}
    found["seconds, 12 s of flow"] = data["seconds"].values.tolist()
    return found | {"critical": critical(full_growth, REYNOLDS[::apart])}


def judged(model: Reduced, rank: int, unseen: int, apart: int, periods: float) -> Found:
    """Measured quantities of a model at the unseen Reynolds numbers, and its critical one."""
    forces, flows = DragLift.of(basis(rank)), steady(UNSEEN[:unseen], rank)
    found = measured(model, runs(UNSEEN[:unseen], rank), flows, forces, periods)

    def growth(reynolds: float) -> complex:
        with torch.no_grad():
            bound = model(torch.tensor([[reynolds]], dtype=torch.float64))
            start = bound.start(steady([reynolds], rank))[0]
            return reduced_growth(lambda z: bound.field(torch.zeros(()), z.unsqueeze(0))[0], start)

    return found | {"critical": critical(growth, REYNOLDS[::apart])}


def pod(rank: int, **measuring: float) -> Found:
    """POD-Galerkin."""
    return judged(linear(through(rank)), rank, **measuring)


@functools.cache
def trained(method: str, rank: int, seeds: int, epochs: int) -> list[Projection]:
    """One model per seed, kept in runs/."""
    file = FOLDER / f"{method}-{rank}-{epochs}.safetensors"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        settings = {"epochs": epochs, "batch_size": 256, "engine": "torch"} | SIZES[method](rank)
        romkit.save(romkit.fit(method, runs(TRAIN, rank), seeds=range(seeds), **settings), file)
    return [model.double() for model in unstack(romkit.load(file))]


def network(method: str, rank: int, seeds: int, epochs: int, **measuring: float) -> Found:
    """Galerkin projection onto a nonlinear manifold behind the modes."""
    models = trained(method, rank, seeds, epochs)
    found = [
        judged(behind(through(rank), model, Galerkin()), rank, **measuring) for model in models
    ]
    parameters = sum(p.numel() for p in models[0].parameters())
    return _by_seed(found) | {
        "parameters": parameters,
        "seeds": list(range(seeds)),
        "training": {"epochs": epochs},
    }


def discovered(method: str, rank: int, seeds: int, epochs: int, **measuring: float) -> Found:
    """SINDy in the latent space of a method, with the Reynolds number in its library."""
    models = trained(method, rank, seeds, epochs)
    laws = [SINDy(degree=3).fit(model, runs(TRAIN, rank)) for model in models]
    pairs = zip(models, laws, strict=True)
    return _by_seed(
        [judged(behind(through(rank), model, law), rank, **measuring) for model, law in pairs]
    )


def _by_seed(found: list[Found]) -> Found:
    return {name: [each[name] for each in found] for name in found[0]}
