"""Reduced models of Lorenz96 by the engine, and as exported C by the compilers of the machine,
timed in turns.
"""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

import romkit
from benchmarks.harness import Parts, Result, close, in_turns, summary
from romkit.data import Contexts
from romkit.engine.build import FLAGS
from romkit.laws import SINDy
from romkit.models import AtContexts, ReducedModel
from romkit.solvers import RK4
from romkit.systems import Lorenz96

F, DT = 3.15, 0.01
ENGINE = "engine"
OPTIONS = {
    "-O2": ["-O2"],
    "the engine's options": [flag for flag in FLAGS if not flag.startswith("-std")],
}
LOOP = """
#include "model.h"
void run(double F, long long steps, double *latent) {
  struct model model;
  model_set_context(&model, &F);
  for (long long k = 0; k < steps; k++) model_step(&model, %r * (double)k, %r, latent);
}
"""

Run = Callable[[], Tensor]
"""A run that returns its last latent state (d,)."""


def measure(config: SimpleNamespace, device: str, found: Result) -> Parts:
    """Nanoseconds per step of each model, after all contestants have come to the same state."""
    found["compilers"] = [
        subprocess.run(
            [name, "--version"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
        for name in filter(shutil.which, config.compilers)
    ]
    cases = found.setdefault("cases", [])
    models = list(make_models().items())
    for number in config.models[len(cases) :]:
        name, model = models[number]
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            contestants = make_contestants(model, config, Path(folder))
            states = {each: run() for each, run in contestants.items()}
            difference = max(close(each, z, states[ENGINE], 1e-10) for each, z in states.items())
            times = in_turns(contestants, config.repeats)
        scaled = {each: summary(rounds, 1e9 / config.steps, "ns") for each, rounds in times.items()}
        cases.append({"model": name, "difference": difference, "contestants": scaled})
        yield


def make_models() -> dict[str, AtContexts]:
    """Return the NcAE, the flow, POD-Galerkin and a law of SINDy on modes."""
    system = Lorenz96(transient=20.0)
    orbit = system.dataset(F=[3.14, 3.15, 3.18], duration=10)
    plane = romkit.fit("pod", orbit, latent_dim=2)
    given = {
        "NcAE, Galerkin": (romkit.load("ncae-lorenz96"), None, system),
        "flow, Galerkin": (romkit.load("flow-lorenz96"), None, system),
        "POD with 4 modes, Galerkin": (romkit.fit("pod", orbit, latent_dim=4), None, system),
        "POD with 2 modes, SINDy": (plane, SINDy(degree=3, threshold=0.05).fit(plane, orbit), None),
    }
    context = torch.full((1, 1), F, dtype=torch.float64)
    contexts = Contexts(context, context)
    return {
        name: ReducedModel.build(P, dynamics, system).at(contexts)
        for name, (P, dynamics, system) in given.items()
    }


def make_contestants(model: AtContexts, config: SimpleNamespace, folder: Path) -> dict[str, Run]:
    """One run of the engine, and one by each compiler with each set of options, from the same
    start.
    """
    start = torch.full((1, model.model.projection.latent_dim), 0.1, dtype=torch.float64)
    times = torch.tensor([0.0, config.steps * DT], dtype=torch.float64)
    solve, _ = RK4(DT).prepare(model.field, start, times, "compiled", "timing")
    found = {ENGINE: lambda: solve(start, times)[-1, 0]}
    whole = model.model
    romkit.export(
        whole.projection, folder / "model.c", dynamics=whole.dynamics, system=whole.system
    )
    (folder / "run.c").write_text(LOOP % (DT, DT), encoding="utf-8")
    for compiler in filter(shutil.which, config.compilers):
        for name, options in OPTIONS.items():
            library = folder / f"{compiler}{len(found)}.so"
            command = [
                compiler,
                "-std=c99",
                *options,
                "-shared",
                "-fPIC",
                "model.c",
                "run.c",
                "-lm",
                "-o",
                library.name,
            ]
            subprocess.run(command, cwd=folder, check=True)
            found[f"C, {compiler}, {name}"] = partial(
                _run, ctypes.CDLL(str(library)), start, config.steps
            )
    return found


def _run(library: ctypes.CDLL, start: Tensor, steps: int) -> Tensor:
    latent = start[0].clone()
    library.run(ctypes.c_double(F), ctypes.c_longlong(steps), ctypes.c_void_p(latent.data_ptr()))
    return latent
