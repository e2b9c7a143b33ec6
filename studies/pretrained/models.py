"""Recipes of the models that ship: methods, data and sizes, and the errors by which they are chosen
and measured.
"""

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.bases import Basis
from romkit.integrators import Galerkin
from romkit.metrics import nrmse
from romkit.projections import Projection
from romkit.systems import Burgers2D, CylinderWake, KuramotoSivashinsky, Lorenz96, Pendulum, System
from studies.wake import data as wake
from studies.wake.reduced import LAST, LENGTH, DragLift, Reduced, behind, cycle, follow, linear

Parts = Callable[[System], Iterator[xr.Dataset]]
"""Datasets of which one is in memory at a time."""
EVERY = 2
"""Distance of the samples that the study of the wake takes of a run."""
LONGEST, SHORTEST = 22.0, 10.0
"""Lengths of rings: on shorter ones reduced models are stiff, so that RK4 with the system's
interval diverges.
"""
HELD_OUT = ((4.5, 0.026), (5.2, 0.018))
"""Contexts of Burgers' equation by which a seed is chosen, neither of training nor of test."""
HELD_OUT_RE, UNSEEN_RE = (
    wake.UNSEEN[1::3],
    tuple(re for re in wake.UNSEEN if re not in wake.UNSEEN[1::3]),
)
"""Reynolds numbers at which the study of the wake does not train: those by which a seed is chosen,
and the others.
"""


def projection_nrmse(projection: Projection, data: xr.Dataset) -> Tensor:
    """(trajectories,) NRMSE of P(x) over each trajectory."""
    double = copy.deepcopy(projection).double()
    x = torch.from_numpy(data["state"].values)
    with torch.no_grad():
        return nrmse(x, double(data)(x), double.frame.state_std).square().mean(-1).sqrt()


def snapshots_error(projection: Projection, data: xr.Dataset) -> float:
    """NRMSE of P(x) over all trajectories."""
    return projection_nrmse(projection, data).square().mean().sqrt().item()


def shedding_error(projection: Projection, data: xr.Dataset) -> float:
    """Return mean of the relative errors of Strouhal number and largest lift; infinite where a run
    does not shed.
    """
    errors = _errors(_network(projection), projection.basis, data)
    return float(np.nan_to_num(errors, nan=np.inf).mean())


def shedding(projection: Projection, truths: Iterator[xr.Dataset]) -> dict[str, object]:
    """Return both errors at each Reynolds number, of a model and of its modes alone."""
    data = on_orbits(truths)
    found: dict[str, object] = {"Re": data["Re"].values.tolist()}
    for name, reduced in (
        ("model", _network(projection)),
        ("modes", linear(_through(projection.basis)[0])),
    ):
        strouhal, lift = _errors(reduced, projection.basis, data).T.tolist()
        found[name] = {"Strouhal": strouhal, "lift": lift}
    return {"shedding": found}


@functools.lru_cache(maxsize=1)
def _through(basis: Basis) -> tuple[System, DragLift]:
    return CylinderWake().through(basis), DragLift.of(basis)


def _network(projection: Projection) -> Reduced:
    inner = copy.deepcopy(projection.of_coordinates()).double()
    return behind(_through(projection.basis)[0], inner, Galerkin())


def _errors(reduced: Reduced, basis: Basis, data: xr.Dataset) -> np.ndarray:
    """(C, 2) relative errors of Strouhal number and largest lift, from the first of `LAST` samples
    on the orbit.
    """
    forces, c = _through(basis)[1], torch.from_numpy(data["Re"].values).unsqueeze(-1)
    with torch.no_grad():
        bound = reduced(c)
        orbit = follow(bound, basis.encode(torch.from_numpy(data["state"].values[:, 0])), LENGTH)
        lift = forces(bound.decode(orbit.states[:, -LAST:]), c.unsqueeze(1))[..., 1].numpy()
    found, true = (
        np.array([cycle(each) for each in lifts]) for lifts in (lift, data["lift"].values)
    )
    return np.abs(found / true - 1)


def front_runs(system: System, contexts: Sequence[Sequence[float]], every: int = 2) -> xr.Dataset:
    """Every `every`-th state of runs."""
    runs = (system.dataset(mu1=[a], mu2=[b]) for a, b in contexts)
    return xr.concat([thin(run, every).astype(np.float32) for run in runs], "trajectory")


def fronts(system: System) -> xr.Dataset:
    """Return runs at the published training contexts."""
    runs = front_runs(system, system.train_contexts(np.random.default_rng(0)))
    return runs.assign_attrs(split="train, each second state")


def unseen_fronts(system: System) -> Iterator[xr.Dataset]:
    """Return runs at the published unseen contexts."""
    return (romkit.simulate(system, mu1=a, mu2=b) for a, b in system.test_contexts())


def wakes(system: System) -> xr.Dataset:
    """Return states and rates of the training runs of studies/wake, from their 64 coordinates."""
    basis, coordinates = romkit.load(wake.BASIS), romkit.data.open_dataset(wake.COORDINATES)
    runs = coordinates.isel(trajectory=np.isin(coordinates["Re"].values, wake.TRAIN))
    state = basis.decode(torch.from_numpy(runs["state"].values).double()).numpy()
    velocity = basis.decode_tangent(torch.from_numpy(runs["velocity"].values).double()).numpy()
    data = romkit.data.make_dataset(
        {"state": state, "velocity": velocity},
        times=runs["time"].values,
        time_units=system.time_units,
        state_names=system.state_names,
        state_units=system.state_units,
        contexts=runs["Re"].values[:, None],
        context=system.context,
        attrs=system.provenance() | {"split": "training runs of studies/wake"},
    )
    data["Re"].attrs["training_range"] = [min(wake.TRAIN), max(wake.TRAIN)]
    return data


def held_out_wakes(system: System) -> xr.Dataset:
    """Return runs at the Reynolds numbers by which a seed is chosen, on their orbits."""
    return on_orbits(wake_run(re) for re in HELD_OUT_RE)


def on_orbits(runs: Iterable[xr.Dataset]) -> xr.Dataset:
    """Return last samples of runs of the wake."""
    return xr.concat([thin(run, EVERY).isel(time=slice(-LAST, None)) for run in runs], "trajectory")


def unseen_wakes(system: System) -> Iterator[xr.Dataset]:
    """Return runs at the rest of them."""
    return (wake_run(re) for re in UNSEEN_RE)


def wake_run(reynolds: float) -> xr.Dataset:
    """Return states of a run, made and kept in runs/wake by the study of the wake."""
    if not wake.stored(reynolds).exists():
        wake.FOLDER.mkdir(parents=True, exist_ok=True)
        wake.compute(reynolds)
    return wake.opened(reynolds).load().astype(np.float64)


@dataclass(frozen=True)
class Model:
    """Recipe of one shipped model.

    Attributes:
        method: by name.
        system: full model.
        data: training set.
        validation: set by which one of the seeds is chosen.
        seeds: candidates.
        settings: of `romkit.fit`, on top of the quick preset.
        horizons: times at which the error of the rollout is reported.
        snapshots: the test set, for errors of single states.
        truths: runs of the full model, for errors of rollouts.
        modes: basis in front, from the training set, and precision of its numbers in the file; none
            by default.
        judged_by: error on the validation set.
        more: further measurements.
    """

    method: str
    system: System
    data: Callable[[System], xr.Dataset]
    validation: Callable[[System], xr.Dataset]
    seeds: range
    settings: dict[str, object]
    horizons: tuple[float, ...]
    snapshots: Parts
    truths: Parts
    modes: tuple[Callable[[xr.Dataset], Basis], torch.dtype] | None = None
    judged_by: Callable[[Projection, xr.Dataset], float] = snapshots_error
    more: Callable[[Projection, Iterator[xr.Dataset]], dict[str, object]] | None = None


def thin(data: xr.Dataset, every: int) -> xr.Dataset:
    """Every `every`-th time."""
    return data.isel(time=slice(None, None, every))


def _test(system: System) -> Iterator[xr.Dataset]:
    yield thin(system.dataset("test"), 10)


def _runs(duration: float, dt: float) -> Parts:
    """Return runs from where datasets begin, at the test contexts."""

    def truths(system: System) -> Iterator[xr.Dataset]:
        contexts = dict(zip(system.context_names, system.test_contexts().T, strict=True))
        yield romkit.simulate(system, duration=duration, dt=dt, **contexts)

    return truths


def _rings(system: System, seeds: range) -> xr.Dataset:
    """Return runs from random waves, which end in any phase: the manifold is to hold all of them."""
    runs = xr.concat([thin(system.dataset("train", seed=seed), 10) for seed in seeds], "trajectory")
    runs = runs.isel(trajectory=runs["L"].values >= SHORTEST)
    runs["L"].attrs["training_range"] = [SHORTEST, LONGEST]
    return runs.assign_attrs(
        split=f"train, seeds {seeds[0]} to {seeds[-1]}, L from {SHORTEST:g}", seed=None
    )


def _ring_runs(duration: float) -> Parts:
    """Return runs on rings of ten lengths, from waves that are no part of the training."""
    return lambda system: iter(
        [romkit.simulate(system, duration=duration, L=np.linspace(10.5, 21.6, 10).round(2))]
    )


_NCAE_LORENZ = Model(
    "ncae",
    Lorenz96(),
    # The paper's 18 random F leave gaps around the change of wave number, and its 5 time units show
    # a third of the period of about 15 after which the wave meets the grid as before; a model to
    # build on should see it all.
    lambda system: thin(system.dataset(F=np.linspace(3.133, 3.193, 61), duration=15), 3),
    lambda system: thin(system.dataset(F=np.linspace(3.1335, 3.1925, 60)[::3], duration=15), 10),
    range(6),
    {"epochs": 600, "batch_size": 256},
    (1.0, 10.0, 100.0, 200.0),
    _test,
    _runs(200.0, 0.01),
)
_NCAE_PENDULUM = Model(
    "ncae",
    Pendulum(),
    # 100 random lengths leave most of a four-dimensional range unseen; 500 do not.
    lambda system: xr.concat(
        [thin(system.dataset("train", seed=k), 100) for k in range(5)], "trajectory"
    ),
    lambda system: thin(system.dataset("train", seed=1000), 100),
    range(6),
    {"component_weighting": 1.0, "every": 1, "epochs": 2000},
    (1.0, 2.0, 3.0),
    _test,
    _runs(3.0, 0.005),
)
_FLOW_LORENZ = replace(
    _NCAE_LORENZ,
    method="flow",
    seeds=range(3),
    settings={"preset": "dynamics", "batch_size": 256, "clip": 0.1},
)
_FLOW_PENDULUM = replace(
    _NCAE_PENDULUM,
    method="flow",
    seeds=range(3),
    settings={
        "epochs": 650,
        "every": 1,
        "schedule": "cosine",
        "learning_rate": 1e-2,
        "optimizer": "soap",
    },
    truths=_runs(3.0, 0.0025),
)
_FLOW_RINGS = Model(
    "flow",
    KuramotoSivashinsky(),
    lambda system: _rings(system, range(15)),
    lambda system: _rings(system, range(1000, 1002)),
    range(3),
    {
        "latent_dim": 8,
        "units": (48, 48, 48),
        "embedding": (1, 16, 8),
        "epochs": 200,
        "batch_size": 256,
    },
    (1.0, 10.0, 50.0, 100.0),
    lambda system: (thin(run, 10) for run in _ring_runs(100.0)(system)),
    _ring_runs(100.0),
)
_FLOW_BURGERS = Model(
    "flow",
    Burgers2D(),
    fronts,
    lambda system: front_runs(system, HELD_OUT),
    range(3),
    {"latent_dim": 10, "units": (64, 64, 64), "epochs": 500, "learning_rate": 0.003},
    (5.0, 10.0, 25.0),
    unseen_fronts,
    unseen_fronts,
    (lambda data: romkit.basis(data, rank=64), torch.float16),
)
_NCAE_WAKE = Model(
    "ncae",
    CylinderWake(),
    wakes,
    held_out_wakes,
    range(6),
    {"layers": (3, 12, 24, 64), "embedding": (1, 8, 8, 8), "epochs": 600, "batch_size": 256},
    (1.0, 2.0, 5.0, 10.0),
    unseen_wakes,
    unseen_wakes,
    (
        lambda data: romkit.load(wake.BASIS),
        torch.float16,
    ),  # with modes that no run has much of, see studies/wake
    shedding_error,
    shedding,
)
_ALL = (
    _NCAE_LORENZ,
    _NCAE_PENDULUM,
    _FLOW_LORENZ,
    _FLOW_PENDULUM,
    _FLOW_RINGS,
    _FLOW_BURGERS,
    _NCAE_WAKE,
)
MODELS = {f"{model.method}-{model.system.name}": model for model in _ALL}

_SHORT = replace(
    _NCAE_LORENZ,
    system=Lorenz96(transient=5.0),
    data=lambda system: system.dataset(F=[3.14, 3.15, 3.16], duration=2.0),
    validation=lambda system: system.dataset(F=[3.145], duration=2.0),
    seeds=range(2),
    settings={"epochs": 2},
    horizons=(1.0,),
    truths=_runs(1.0, 0.01),
)
SMOKE = {f"{method}-lorenz96": replace(_SHORT, method=method) for method in ("ncae", "flow")}
"""Recipes of the preset "smoke"."""
