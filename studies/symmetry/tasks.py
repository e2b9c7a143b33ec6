"""Drift of the phase of waves in reduced models, with shifts factored out and without."""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.laws import NeuralODE, Steady
from romkit.projections import Projection
from romkit.solvers import RK4
from romkit.systems import KuramotoSivashinsky, Lorenz96, System
from studies.rollout_drift.scores import phase_drift
from studies.runner import Numbers, Study, frozen

STEP = 0.1
"""Interval of the output, and step of the reduced models."""


class Waves(NamedTuple):
    """Waves of one number in a system, at contexts to train on, and at others to follow."""

    system: System
    train: np.ndarray
    test: np.ndarray


LORENZ = 3.1335 + 0.001 * np.arange(60)
"""Forcings of studies/rollout_drift; those near the change of wave number whose waves are not pure
are left out.
"""

KINDS = {
    "8 waves": Waves(Lorenz96(), LORENZ[:27], np.linspace(3.133, 3.153, 4)),
    "7 waves": Waves(Lorenz96(), LORENZ[33:], np.linspace(3.193, 3.1663333, 5)),
    "travelling": Waves(
        KuramotoSivashinsky(transient=1000.0),
        np.linspace(11.8, 12.8, 21),
        np.linspace(11.9, 12.7, 5),
    ),
    "steady": Waves(
        KuramotoSivashinsky(transient=1000.0), np.linspace(8.0, 11.0, 21), np.linspace(8.2, 10.8, 5)
    ),
}


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset."""
    rows = Study("symmetry").presets[preset].items()
    return [Numbers(title, "studies.symmetry.tasks:drift", frozen(row)) for title, row in rows]


def simulated(system: System, contexts: np.ndarray, duration: float) -> xr.Dataset:
    """Return trajectories at contexts, sampled at each `STEP`."""
    data = system.dataset(**{system.context_names[0]: contexts}, duration=duration)
    return data.isel(time=slice(None, None, round(STEP / system.dt)))


def drift(
    waves: str,
    symmetry: bool,
    seeds: int = 3,
    epochs: int = 100,
    duration: float = 1000.0,
    every: int = 1,
) -> dict[str, object]:
    """Drift of the phase (seed, context) in rad per time unit by each dynamics, and errors of the
    projection.

    Two latent coordinates with either: two of an NcAE, or one of its shape and the phase.

    Args:
        waves: name in `KINDS`.
        symmetry: whether shifts are factored out.
        seeds: number of NcAEs.
        epochs: of their training.
        duration: of rollouts.
        every: each how many-th training context is taken.
    """
    system, train, test = KINDS[waves]
    data, truth = simulated(system, train[::every], 60.0), simulated(system, test, duration)
    options = {"symmetry": "shift", "latent_dim": 1} if symmetry else {"latent_dim": 2}
    settings = {"epochs": epochs, "batch_size": 256, "seeds": range(seeds), "verbose": False}
    stack = romkit.fit("ncae", data, **options, **settings)
    laws = {"law": Steady() if symmetry else NeuralODE()}
    dynamics = {"Galerkin": Galerkin(), "Petrov-Galerkin": PetrovGalerkin()}
    dynamics |= {name: law.fit(stack, data) for name, law in laws.items()}
    times, x = torch.from_numpy(truth["time"].values), torch.from_numpy(truth["state"].values)
    found = {"contexts": test.tolist(), **exactness(stack, truth)}
    for name, each in dynamics.items():
        run = romkit.follow(stack, truth, dynamics=each, system=system, solver=RK4(STEP))
        rates = [phase_drift(times, x, torch.from_numpy(one)) for one in run["state"].values]
        found[name] = {
            "drift": torch.stack(rates).tolist(),
            "diverged": int((run["status"] == 1).sum()),
        }
    return found


def exactness(stack: Projection, truth: xr.Dataset) -> dict[str, float]:
    """Return largest errors of P(P(x)) = P(x) and of P(g x) = g P(x), g a shift by a point, and the
    error of P.
    """
    P, x = stack.double()(truth), torch.from_numpy(truth["state"].values[:, ::10]).unsqueeze(0)
    with torch.no_grad():
        image = P(x)
        again, turned = P(image), P(x.roll(1, -1))
    return {
        "idempotency": float((again - image).abs().max()),
        "equivariance": float((turned - image.roll(1, -1)).abs().max()),
        "error": float((image - x).square().mean().sqrt()),
    }
