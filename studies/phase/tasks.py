"""Phase drift of Galerkin rollouts, with and without a speed s(c) by `romkit.timed`."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

import romkit
from romkit.bases import Basis
from romkit.projections import Projection
from romkit.systems import CylinderWake, KuramotoSivashinsky, Lorenz96, System
from studies.runner import Numbers, Study
from studies.wake.data import TRAIN, UNSEEN
from studies.wake.tasks import RANK, basis, coordinates

TURN = 2 * np.pi

AVERAGED = 20
"""Share of a run, as one part of so many, over which its first and its last phase are averaged."""

SETTLED = 2.0
"""Seconds after which the recorded wakes are on their orbit."""

ONSET = 50.0
"""Reynolds number above which all recorded wakes shed vortices."""

SYSTEMS = {"ncae-lorenz96": Lorenz96, "flow-lorenz96": Lorenz96}
SYSTEMS |= {"flow-kuramoto-sivashinsky": KuramotoSivashinsky}

Ranges = Sequence[tuple[float, float, int]]


def tasks(preset: str) -> list[Numbers]:
    """Return a task for each model."""
    table = Study("phase").presets[preset]
    return [Numbers.of(title, drifts, **settings) for title, settings in table.items()]


def drifts(
    model: str, training: Ranges, unseen: Ranges, recorded: float, duration: float
) -> dict[str, object]:
    """Return turns by which the phase of rollouts is off at the end, without and with a speed.

    Args:
        model: name of a shipped one.
        training: values of the parameter of the training runs.
        unseen: those of the rollouts that are judged.
        recorded: length of the training runs.
        duration: of the rollouts.
    """
    if model in SYSTEMS:
        system = SYSTEMS[model]()
        (name,) = system.context_names
        runs = system.dataset(duration=recorded, **{name: _values(training)})
        truth = system.dataset(duration=duration, **{name: _values(unseen)})
        projection = romkit.load(model)
    else:
        system, runs, truth, projection = _wake(model)
        (name,) = system.context_names
    timed = romkit.timed(projection, system, runs)
    results: dict[str, object] = {name: truth[name].values.tolist()}
    for label, candidate in {"Galerkin": projection, "timed": timed}.items():
        run = romkit.follow(candidate, truth, system=system)
        results[label] = [
            drift(exact, reduced)
            for exact, reduced in zip(truth["state"].values, run["state"].values, strict=True)
        ]
    results["turns"] = [turns(states) for states in truth["state"].values]
    results["duration"] = float(truth["time"][-1] - truth["time"][0])
    return results | {"jumps": timed.report["speed"]["jumps"]}


def _wake(model: str) -> tuple[System, xr.Dataset, xr.Dataset, Projection]:
    """Flow in the modes of a shipped model, recorded runs on their orbits, and the model in these
    modes.
    """
    projection = romkit.load(model)
    shedding = [reynolds for reynolds in TRAIN if reynolds > ONSET]
    runs, truth = (
        _in_modes(coordinates(reynolds), projection.basis).sel(time=slice(SETTLED, None))
        for reynolds in (shedding, UNSEEN)
    )
    system = CylinderWake().through(projection.basis)
    return system, runs, truth, projection.of_coordinates()


def _in_modes(data: xr.Dataset, modes: Basis) -> xr.Dataset:
    """Return recorded coordinates as those in a basis of as many modes, whose numbers have fewer
    bits.
    """
    stored = basis(RANK)
    turn = (modes.dual.mT @ stored.modes).numpy()  # (r, r)
    shift = modes.encode(stored.mean).numpy()
    state = data["state"].values.astype(float) @ turn.T + shift
    return data[["state"]].assign(state=(data["state"].dims, state, data["state"].attrs))


def _values(ranges: Ranges) -> list[float]:
    return np.concatenate([np.linspace(*ends) for ends in ranges]).tolist()


def drift(exact: np.ndarray, reduced: np.ndarray) -> float:
    """Return turns that a reduced motion (T, n) gains on the exact one from beginning to end."""
    gained = (_phase(reduced, exact) - _phase(exact, exact)) / TURN
    width = len(gained) // AVERAGED
    # the mean over some turns leaves out how the two differ within one
    return float(gained[-width:].mean() - gained[:width].mean())


def turns(states: np.ndarray) -> float:
    """Return turns of a motion (T, n)."""
    phase = _phase(states, states)
    return float(abs(phase[-1] - phase[0]) / TURN)


def _phase(states: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Angle (T,) in the plane of the two leading modes of a reference motion."""
    middle = reference.mean(axis=0)
    modes = np.linalg.svd(reference[::10] - middle, full_matrices=False)[2]
    coordinates_in_plane = (states - middle) @ modes[:2].T  # (T, 2)
    return np.unwrap(np.arctan2(coordinates_in_plane[:, 1], coordinates_in_plane[:, 0]))
