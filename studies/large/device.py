"""Gain of a device for a state of a million components, and for a thousand contexts at once.

python -m studies.large.device            # on a GPU if there is one, else on a core
python -m studies.large.device cpu
python -m studies.large.device cpu --preset smoke    # small, into runs/large/smoke

Writes device.json, an entry for each device; seconds are by the clock on the wall, the best of three where it says run.
"""

import argparse
import json
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor

import romkit
from romkit import projections
from romkit.bases import Basis
from romkit.core import runtime
from romkit.integrators import Galerkin
from romkit.solvers import RK4
from romkit.systems import Burgers2D
from romkit.systems.through import SystemThroughBasis
from romkit.verbs.reduced import precontracted
from studies.large.measuring import HERE, solved
from studies.pieces import stored
from studies.report import write_text

PRESETS = {"full": (707, 1000), "smoke": (20, 8)}
"""Cells in a row, and contexts."""
MODES, LATENT, STEPS = (32, 64), 10, 500
CORNERS = ((4.25, 0.015), (4.25, 0.03), (5.5, 0.015), (5.5, 0.03))
TIMES = 126
"""Snapshots of each run, every fourth step of the full model."""

Seconds = dict[str, float]


def main(device: str, preset: str) -> None:
    """Measure one device, and add it to the file."""
    if device == "cpu":
        torch.set_num_threads(1)
    results = (HERE if preset == "full" else Path("runs", "large", preset)) / "device.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        found = measure(torch.device(device), *PRESETS[preset])
    found |= {"device": runtime.device_name(device), "versions": runtime.versions()}
    write_text(results, json.dumps(stored(results) | {device: found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def measure(device: torch.device, cells: int, contexts: int) -> dict[str, object]:
    """Seconds of a basis, of tensors, of rollouts of all contexts, and of decoding them; and of the full model."""
    system = Burgers2D(cells=cells)
    basis, found = _basis(cells, device)
    found |= {"n": system.state_size, "contexts": contexts, "steps": STEPS, "modes": max(MODES)}
    found |= {f"rollouts, {rank} modes": _rollouts(system, basis.truncated(rank), device, contexts) for rank in MODES}
    return found | {"full model, explicit": _explicit(system, device)}


def _basis(cells: int, device: torch.device) -> tuple[Basis, Seconds]:
    """Basis of snapshots of runs at the corners of the training range, which begin on the CPU, and seconds."""
    with get_context("spawn").Pool(2) as pool:
        runs = pool.starmap(_run, [(cells, corner) for corner in CORNERS])
    snapshots, full = torch.cat([states for states, _ in runs]), min(seconds for _, seconds in runs)
    x, moving = _timed(device, lambda: snapshots.to(device))
    basis, decomposing = _timed(device, lambda: romkit.basis(x, rank=max(MODES)))
    found = {"snapshots": len(x), "full model, compiled, a core": full}
    return basis, found | {"moving snapshots": moving, "basis": decomposing}


def _run(cells: int, corner: tuple[float, float]) -> tuple[Tensor, float]:
    torch.set_num_threads(1)
    system, c = Burgers2D(cells=cells), torch.tensor([corner], dtype=torch.float64)
    times = torch.linspace(0, system.duration, TIMES, dtype=torch.float64)
    began = time.process_time()
    states = solved(system, c, times)
    return states, time.process_time() - began


def _rollouts(system: Burgers2D, basis: Basis, device: torch.device, contexts: int) -> Seconds:
    through, tensors = _timed(device, lambda: system.through(basis, device=device))
    low, high = (torch.tensor(side, dtype=torch.float64) for side in (CORNERS[0], CORNERS[-1]))
    c = torch.lerp(low, high, torch.rand(contexts, 2, generator=torch.Generator().manual_seed(0)).double())
    y0 = basis.encode(system.start(c[:1])[0]).expand(contexts, -1)
    linear = _run_of(through.field(c.to(device)), y0.to(device), system)
    again = _timed(torch.device("cpu"), lambda: _run_of(through.field(c[:2]), y0[:2], system)(y0[:2]))[0]
    y = linear(y0.to(device))[-1]
    field, z0 = _network(through, c.to(device), y0.to(device))
    reduced = _run_of(field, z0, system)
    return {
        "tensors": tensors,
        "POD-Galerkin, run": _best(device, lambda: linear(y0.to(device))),
        "difference from a core": ((y[:2].cpu() - again[-1]).abs().max() / again.abs().max()).item(),
        f"NcAE, {LATENT} latents, run": _best(device, lambda: reduced(z0)),
        "decoding all contexts at one time": _best(device, lambda: basis.decode(y)),
    }


def _run_of(field: Callable[[Tensor, Tensor], Tensor], start: Tensor, system: Burgers2D) -> Callable[[Tensor], Tensor]:
    """start -> states at 11 times; what compiles or captures has been done."""
    times = torch.linspace(0, STEPS * system.dt, 11, dtype=start.dtype, device=start.device)
    run, _ = RK4(system.dt).prepare(field, start, times, "compiled", "reduced")
    return lambda y: run(y, times)


def _network(through: SystemThroughBasis, c: Tensor, y0: Tensor) -> tuple[Callable, Tensor]:
    """Field and start of a network that is hardly trained, which does not change its speed."""
    mu1, mu2 = c[:4].cpu().T.tolist()
    some = through.dataset(mu1=mu1, mu2=mu2, duration=0.5)
    model = romkit.fit("ncae", some, latent_dim=LATENT, epochs=1, device="cpu", verbose=False)
    P = model.double().to(c.device)(c)
    problem = through.problem(projections.Path.constant(P), c)
    return Galerkin().field(precontracted(problem, through.quadratic(c))), P.encode(y0)


def _explicit(system: Burgers2D, device: torch.device) -> Seconds:
    """A run of RK4 at its largest stable step, from the time of ten steps."""
    c, dt = torch.tensor([[4.56, 0.019]], dtype=torch.float64, device=device), 10 / system.cells
    x0, times = system.start(c.cpu())[0].to(device), torch.tensor([0.0, 10 * dt], dtype=torch.float64, device=device)
    run, _ = RK4(dt).prepare(system.field(c), x0, times, "torch", "full")
    steps = STEPS * system.dt / dt
    return {"run": _best(device, lambda: run(x0, times)) / 10 * steps, "steps": steps}


def _timed(device: torch.device, work: Callable[[], object]) -> tuple[object, float]:
    """Result of the work, and seconds until the device has finished."""
    _finish(device)
    began = time.perf_counter()
    result = work()
    _finish(device)
    return result, time.perf_counter() - began


def _best(device: torch.device, work: Callable[[], object]) -> float:
    return min(_timed(device, work)[1] for _ in range(3))


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("device", nargs="?", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--preset", default="full", choices=PRESETS)
    main(**vars(parser.parse_args()))
