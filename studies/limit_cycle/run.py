"""Equations that stay on the limit cycles of Lorenz96: `python -m studies.limit_cycle.run`, see the README beside.

Writes results.json and RESULTS.md.
"""

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.core import runtime
from romkit.core.files import atomic
from romkit.integrators import SINDy, encoded_samples, galerkin_samples
from romkit.integrators.laws.equations import SINDyModel
from romkit.projections import Projection
from romkit.systems import Lorenz96
from studies.limit_cycle import report

RESULTS = Path(__file__).parent / "results.json"
WAVES = {
    8: (np.linspace(3.133, 3.161, 8), (3.135, 3.138, 3.143, 3.147, 3.151, 3.156, 3.160)),
    7: (np.linspace(3.171, 3.193, 7), (3.173, 3.1765, 3.180, 3.184, 3.1875, 3.191)),
}
"""By wave number: forcings of the data, and others that play no part in fit and choice."""

SPREADS, DEGREES, THRESHOLDS = (0.05, 0.07, 0.1), (5, 6), (0.5, 0.4, 0.3)
BOUND = 0.06
"""Distance from the orbit, in radii of it, that a candidate may have at the forcings of the data."""

DURATION, CHOICE = 1000.0, 60.0
"""Time units of the rollouts that are reported, and of those that candidates are chosen by."""


def main(results: Path = RESULTS, *, duration: float = DURATION, choice: float = CHOICE) -> None:
    """Discover both equations, follow them, and write what came of it."""
    ncae, system = romkit.load("ncae-lorenz96").double(), Lorenz96()
    found = {"cubic": cubic(ncae, system)}
    found |= {f"wave number {k}": measured(ncae, system, *each, duration, choice) for k, each in WAVES.items()}
    found |= {
        "duration": duration,
        "bound": BOUND,
        "device": runtime.device_name("cpu"),
        "versions": runtime.versions(),
    }
    with atomic(results) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    report.write(results)


def cubic(ncae: Projection, system: Lorenz96) -> dict[str, object]:
    """The equation that a first attempt gives, with samples on the orbit alone."""
    data = system.dataset(F=[3.134, 3.142, 3.150, 3.158], duration=5.0)
    law = SINDy(degree=3, threshold=0.2).fit(ncae, data)
    run = romkit.rollout(system, ncae, dynamics=law, F=[3.140, 3.156], duration=30.0)
    return {"equation": str(law), "F": [3.140, 3.156], "valid_time": run.valid_time.values.tolist()}


def measured(
    ncae: Projection,
    system: Lorenz96,
    seen: Sequence[float],
    unseen: Sequence[float],
    duration: float,
    choice: float,
) -> dict[str, object]:
    """The equation of one wave number, and where its rollouts at unseen forcings end."""
    began = time.process_time()
    tried = list(candidates(ncae, system, seen, choice))
    model, faster = chosen(tried)
    run = romkit.rollout(system, ncae, dynamics=model, F=unseen, duration=duration, dt=0.02)
    path, truth = latents(ncae, run)
    tail = slice(-5000, None)  # the last 100 time units
    size = (path[:, tail].amax(1) - path[:, tail].amin(1)) / (truth[:, tail].amax(1) - truth[:, tail].amin(1))
    return {
        "equation": str(model),
        "pace": float(faster),
        "candidates": [(distance, int(each.support.sum())) for each, distance, _ in tried],
        "F": list(map(float, unseen)),
        "diverged": int((run.status != 0).sum()),
        "distance": off_orbit(path, truth).tolist(),
        "size": size.tolist(),
        "turns": (duration * np.abs(turning(truth, run.time.values)) / (2 * np.pi)).tolist(),
        "valid_time": run.valid_time.values.tolist(),
        "cpu_seconds": time.process_time() - began,
    }


def candidates(
    ncae: Projection, system: Lorenz96, F: Sequence[float], duration: float
) -> Iterator[tuple[SINDyModel, float, float]]:
    """Equations, each with its distance from the orbit and its lack of pace in rollouts at the same contexts."""
    data = system.dataset(F=F, duration=15)
    on_orbit = encoded_samples(ncae, data)
    for spread in SPREADS:
        samples = on_orbit + galerkin_samples(ncae, data.isel(time=slice(500)), system.problem, spread=spread)
        for degree, threshold in itertools.product(DEGREES, THRESHOLDS):
            model = SINDy(degree=degree, threshold=threshold, alpha=1e-3).fit_samples(samples.scaled())
            start = {"F": F, "initial_state": data.state.values[:, 0]}
            run = romkit.rollout(system, ncae, dynamics=model, **start, duration=duration, dt=0.02)
            path, truth = latents(ncae, run)
            faster = turning(truth, run.time.values) / turning(path, run.time.values)
            yield model, off_orbit(path, truth).max().item(), faster.mean()


def chosen(tried: Sequence[tuple[SINDyModel, float, float]]) -> tuple[SINDyModel, float]:
    """The equation with the fewest terms that stays on the orbit, at the right pace, and what that took."""
    model, _, faster = min(tried, key=lambda found: (not found[1] < BOUND, int(found[0].support.sum())))
    return replace(model, coefficients=model.coefficients * faster), faster


def latents(ncae: Projection, run: xr.Dataset) -> tuple[Tensor, Tensor]:
    """(trajectories, T, 2) latent paths of the equation and of the full model."""
    truth = ncae(run).encode(torch.from_numpy(run.truth.values))
    return torch.from_numpy(run.latent.values), truth.detach()


def off_orbit(paths: Tensor, orbits: Tensor) -> Tensor:
    """(trajectories,) largest distance between a path and the true orbit, in root mean square radii of the orbit."""
    worst = []
    for path, orbit in zip(paths[:, ::10], orbits[:, -2000:], strict=True):
        distance = torch.cdist(path, orbit)
        radius = (orbit - orbit.mean(0)).square().sum(-1).mean().sqrt()
        worst.append(torch.maximum(distance.amin(0).max(), distance.amin(1).max()) / radius)
    return torch.stack(worst)


def turning(paths: Tensor, times: np.ndarray) -> np.ndarray:
    """(trajectories,) mean angular speed around the middle of each path."""
    y = (paths - paths.mean(1, keepdim=True)) / paths.std(1, keepdim=True)
    angle = np.unwrap(torch.atan2(y[..., 1], y[..., 0]).numpy())
    t = times - times.mean()
    return (angle * t).sum(-1) / (t * t).sum()


if __name__ == "__main__":
    main()
