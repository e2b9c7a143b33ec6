"""Reduced models of the wake at unseen Reynolds numbers, from the basis and coordinates of
studies.wake.data.
"""

import functools
import time
from collections.abc import Sequence

import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.bases import Basis
from romkit.integrators import Galerkin, LatentField, PetrovGalerkin
from romkit.projections import Projection, unstack
from romkit.systems import CylinderWake, System
from studies.runner import Numbers, Study
from studies.wake.data import BASIS, COORDINATES, FEW, FOLDER, TRAIN, UNSEEN
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

RANK = 64
"""Modes in front of every manifold."""

NETWORK = {"latent_dim": 3, "layers": (3, 24, 48, RANK), "embedding": (1, 8, 8, 8)}
SIZES: dict[str, dict[str, object]] = {
    "polynomial-manifold": {"latent_dim": 3},
    "ncae": NETWORK,
    "ncae-weights": NETWORK,
}
"""Sizes by method."""

LATENTS = range(3, 7)
"""Numbers of latents that are compared where the training runs choose one."""

RUNS = {"ten runs": TRAIN, "five runs": FEW}
"""Reynolds numbers of the training runs."""


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset: the full model, then its contestants."""
    table = Study("wake").presets[preset]
    measuring, training = table["measured"], table["trained"]
    contestants = [
        Numbers.of(
            f"{method}, {dynamics}, {runs}",
            manifold,
            method=method,
            dynamics=dynamics,
            runs=runs,
            training={} if method == "polynomial-manifold" else training,
            **measuring,
        )
        for method, dynamics, runs in table["contestants"]
    ]
    contestants += [
        Numbers.of(
            f"polynomial-manifold, latents chosen, law, {runs}", chosen, runs=runs, **measuring
        )
        for runs in table["latents_chosen"]
    ]
    return [
        *(Numbers.of(f"Re = 100, {mesh} mesh", at_hundred, mesh=mesh) for mesh in table["meshes"]),
        Numbers.of("full", full, unseen=measuring["unseen"], apart=measuring["apart"]),
        *(
            Numbers.of(f"POD-Galerkin, {rank} modes", pod, rank=rank, **measuring)
            for rank in table["ranks"]
        ),
        *contestants,
    ]


@functools.cache
def basis(rank: int) -> Basis:
    """Leading modes."""
    return romkit.load(BASIS).truncated(rank)


@functools.cache
def through(rank: int) -> System:
    """Flow seen through the modes, by exact tensors."""
    return CylinderWake().through(basis(rank))


def coordinates(reynolds: Sequence[float], rank: int = RANK) -> xr.Dataset:
    """Return coordinates of the runs at these Reynolds numbers."""
    data = romkit.data.open_dataset(COORDINATES)
    where = [int(abs(data["Re"].values - re).argmin()) for re in reynolds]
    return data.isel(trajectory=where, component=slice(rank))


@functools.cache
def steady_flow(reynolds: float) -> Tensor:
    """Steady flow (n,)."""
    return torch.from_numpy(CylinderWake().steady(reynolds))


def steady(reynolds: Sequence[float], rank: int) -> Tensor:
    """Return coordinates (C, r) of the steady flows."""
    flows = [steady_flow(float(re)) for re in reynolds]
    return basis(rank).encode(torch.stack(flows))


def full(unseen: int, apart: int) -> Found:
    """Truth at the unseen Reynolds numbers, and the critical one."""
    reynolds = UNSEEN[:unseen]
    data = coordinates(reynolds, 1)
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


def judged(
    model: Reduced, rank: int, unseen: int, apart: int, periods: float, rtol: float
) -> Found:
    """Measured quantities of a model at the unseen Reynolds numbers, and its critical one."""
    forces, flows = DragLift.of(basis(rank)), steady(UNSEEN[:unseen], rank)
    found = measured(model, coordinates(UNSEEN[:unseen], rank), flows, forces, periods, rtol)

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
def trained(method: str, runs_of: str, **training: int) -> tuple[list[Projection], float]:
    """One model per seed, kept in runs/, and the CPU seconds of all."""
    data = coordinates(RUNS[runs_of], RANK)
    began = time.process_time()
    if not training:
        return [romkit.fit(method, data, **SIZES[method]).double()], time.process_time() - began
    settings = {"epochs": training["epochs"], "batch_size": 256, "engine": "torch"} | SIZES[method]
    file = FOLDER / f"{method}, {runs_of}, {training}.safetensors"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        romkit.save(romkit.fit(method, data, seeds=range(training["seeds"]), **settings), file)
    models = unstack(romkit.load(file))
    seconds = sum(model.report["seconds"] for model in models)
    return [model.double() for model in models], seconds


def moved(dynamics: str, model: Projection, data: xr.Dataset) -> LatentField:
    """Latent dynamics by name; a law is fitted to the data alone."""
    if dynamics == "law":
        return romkit.law(model, data)
    return {"Galerkin": Galerkin, "Petrov-Galerkin": PetrovGalerkin}[dynamics]()


def manifold(
    method: str, dynamics: str, runs: str, training: dict[str, int], **measuring: float
) -> Found:
    """Latent dynamics on a manifold behind the modes, for each seed."""
    models, seconds = trained(method, runs, **dict(training))
    results, seconds_of_laws = [], []
    for model in models:
        began = time.process_time()
        law = moved(dynamics, model, coordinates(RUNS[runs], RANK))
        seconds_of_laws.append(time.process_time() - began)
        results.append(judged(behind(through(RANK), model, law), RANK, **measuring))
    return of_seeds(results, models[0], seconds / len(models), seconds_of_laws)


def chosen(runs: str, **measuring: float) -> Found:
    """Return a polynomial manifold and its law, with as many latents as let the law err least on
    training runs that are left out.
    """
    data = coordinates(RUNS[runs])
    candidates, seconds, seconds_of_laws = [], 0.0, 0.0
    for latents in LATENTS:
        began = time.process_time()
        model = romkit.fit("polynomial-manifold", data, latent_dim=latents).double()
        fitted = time.process_time()
        law = romkit.law(model, data)
        seconds += fitted - began
        seconds_of_laws += time.process_time() - fitted
        (error,) = (row["error"] for row in law.report if row["chosen"])
        candidates.append((error, latents, model, law))
    _, _, model, law = min(candidates, key=lambda candidate: candidate[:2])
    result = judged(behind(through(RANK), model, law), RANK, **measuring)
    return of_seeds([result], model, seconds, [seconds_of_laws]) | {
        "errors on left-out runs": {str(m): error for error, m, *_ in candidates}
    }


def of_seeds(
    results: list[Found], model: Projection, seconds: float, seconds_of_laws: list[float]
) -> Found:
    """Measured quantities as lists over seeds, with size, settings and cost of a model."""
    return {name: [result[name] for result in results] for name in results[0]} | {
        "parameters": sum(p.numel() for p in model.parameters()),
        "settings": {name: str(value) for name, value in model.config.items()},
        "seconds, manifold": seconds,
        "seconds, law": seconds_of_laws,
    }
