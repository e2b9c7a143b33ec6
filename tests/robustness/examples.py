# ruff: noqa: E501, the tables read better in long lines
"""A valid value for every kind of argument, which a bad one is then put in the place of."""

import collections.abc
import functools
import tempfile
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from matplotlib.figure import Figure

import romkit
from romkit import bases, data, integrators, projections, solvers, systems, training
from romkit import integrators as sindy
from romkit.core.types import Dual
from romkit.systems import problem
from tests.robustness.surface import Target, kind

T64 = torch.float64
FOLDER = Path(tempfile.mkdtemp(prefix="romkit-robustness-"))
CONTEXTS = torch.full((2, 1), 3.15, dtype=T64)


@functools.cache
def world() -> dict[str, object]:
    """Small objects, by the names that arguments have."""
    system = systems.Lorenz96(n=4, transient=0.0, duration=0.2, horizon=0.1)
    trajectories = system.dataset(F=[3.1, 3.2, 3.3])
    ncae = romkit.fit("ncae", trajectories, layers=(2, 4), epochs=1)
    times, x, P = torch.linspace(0, 0.1, 5, dtype=T64), torch.full((5, 4), 0.5), ncae(F=3.15)
    samples = integrators.encoded_samples(ncae, trajectories)
    law = sindy.SINDy(degree=1, threshold=0.0).fit_samples(samples)
    start = system.start(CONTEXTS)
    common = {
        "system": system,
        "data": trajectories,
        "projection": ncae,
        "samples": samples,
        "law": law,
        "operator": P,
        "maps": ncae.at(torch.zeros(1)),
        "stack": projections.stack([ncae, ncae]),
        "ensemble": sindy.SINDy(degree=1).fit_ensemble(samples, models=2, blocks=3),
        "run": romkit.rollout(system, ncae, F=3.15, duration=0.1, engine="torch"),
        "reduced": romkit.follow(ncae, trajectories, engine="torch"),
        "subspace": bases.basis(trajectories, rank=2),
        "problem": system.problem(problem.ConstantPath(P), torch.full((1,), 3.15, dtype=T64)),
        "path": problem.ConstantPath(P),
        "motion": system.simulate(start, CONTEXTS, times),
    }
    return common | _plain(common, times, x, start)


def _plain(common: dict[str, object], times: torch.Tensor, x: torch.Tensor, start: tuple) -> dict[str, object]:
    z = x[:, :2]
    return {
        **dict.fromkeys(("x", "v", "rom", "states", "truth_", "squares", "velocity"), x),
        **dict.fromkeys(("z", "w", "dz", "ddz", "zdot", "rate"), z),
        **{"times": times, "t": times[0], "std": torch.ones(4), "errors": torch.rand(5), "energy": torch.rand(3, 5)},
        **{"scale": torch.ones(3), "field": lambda t, y: -y, "jump": lambda t, y: y, "y0": torch.ones(3, 2, dtype=T64)},
        **{"start": z, "parts": start, "contexts": CONTEXTS, "c": torch.full((1,), 3.15), "y": x},
        **{"generator": torch.Generator(), "rng": np.random.default_rng(0), "figure": Figure(), "initial_state": [3.0] * 4},
        **{"layers": (2, 4), "encoder": (4, 2), "decoder": (2, 4), "embedding": (1, 2, 2), "units": (3,), "latent_dim": 2, "slope": 0.3},
        **{"window": 5, "degree": 4, "order": 1, "blocks": 3, "models": 2, "index": 0, "every": 1, "digits": 3, "n": 4},
        **{"duration": 0.05, "dt": 0.01, "rank": 2, "transient": 0.0, "horizon": 0.1, "split": "test", "engine": "torch"},
        **{"names": ("a", "b"), "values": {"F": 3.15}, "functions": {"a": lambda z: z[..., 0]}, "name": "state"},
        **{"method": "cae", "preset": "quick", "device": "cpu", "noise_unit": "scale", "schedule": "cosine"},
        **{"optimizer": "adam", "dynamics": integrators.Galerkin(), "solver": solvers.RK4(0.01), "fix": "", "hidden": (4,)},
        **{"library": sindy.Polynomial(1), "context_library": sindy.Polynomial(1), "seeds": [1], "label": "a", "number": 1},
        **{"rows": torch.ones(len(common["samples"]), dtype=torch.bool), "segment": 2, "inclusion": 0.5, "epochs": 1},
        **{"basis": None, "signature": common["projection"].normalization.signature, "source": common["system"], "attrs": {"a": 1}},
        **{"normalization": common["projection"].normalization, "truth": common["data"], "model": common["projection"]},
        **{"stacked": common["stack"], "P": common["operator"], "members": common["ensemble"].members, "lead": ("trajectory", "time")},
        **{"settings": {"epochs": 2}, "fields": common["projection"].normalization.signature.to_json(), "spreads": (1.0,)},
        **{"variables": ("a", "b"), "units": "m", "long_name": "a", "batch": evaluated(common), "make": lambda P: P},
    }  # fmt: skip


PREFER = {
    "context": None, "checkpoint": None, "initial_velocity": None, "kwargs": None, "contexts": None, "seeds": None,
    "system": None, "label": "a", "control": None, "units": None, "variables": None, "velocity": None, "start": None,
}  # fmt: skip
"""Names of optional arguments that are left at their default."""


def evaluated(common: dict[str, object]) -> training.Evaluated:
    """A batch of a training."""
    ncae, y = common["projection"], torch.zeros(5, 4)
    maps, pair = ncae.at(torch.zeros(1)), Dual(y, y)
    latent = Dual(y[:, :2], y[:, :2])
    return training.Evaluated(ncae, maps, y, y, torch.zeros(5, 1), latent, pair, torch.ones(4), common["system"], None)


def of_system(system: systems.System) -> dict[str, object]:
    """What the methods of a system take."""
    n, ranges = system.state_size, [(p.low + p.high) / 2 for p in system.context]
    c = torch.tensor(ranges, dtype=T64)
    ones = torch.full((5, n), 0.5, dtype=T64)
    state = {"x": torch.full((5, system.phase_size), 0.5, dtype=T64), "q": ones, "v": ones, "u": ones.unsqueeze(-1)}
    state["rows"] = torch.tensor([0, n - 1])
    return state | {"c": c, "context": c, "contexts": c.expand(2, -1), "parts": (ones[:2],) * system.order}


def arguments(target: Target, owner: object = None) -> dict[str, object]:
    """A valid call, as far as names and annotations tell."""
    from tests.robustness.calls import CALLS

    special = of_system(owner) if isinstance(owner, systems.System) else {}
    special = {k: special[k] for k, p in target.parameters.items() if k in special and p.kind is not p.VAR_KEYWORD}
    special |= CALLS.get(target.name, dict)()
    found = {}
    for name, parameter in target.parameters.items():
        if name in special or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.default is parameter.empty or (name in world() and name not in PREFER):
            found[name] = world()[name] if name in world() else by_annotation(target.hints.get(name))
    return found | special


def by_annotation(annotation: object) -> object:
    """A value for an argument whose name says nothing."""
    plain = kind(annotation)
    plain = next((part for part in get_args(plain) if part is not type(None)), plain) if _optional(plain) else plain
    simple = {float: 0.5, int: 2, str: "a", bool: True, torch.Tensor: torch.ones(3, 2), np.ndarray: np.ones((3, 2))}
    if plain in simple:
        return simple[plain]
    for value in world().values():
        if isinstance(plain, type) and isinstance(value, plain):
            return value
    origins = {collections.abc.Callable: lambda *_: torch.zeros(()), collections.abc.Mapping: {}, dict: {}}
    return origins.get(getattr(plain, "__origin__", None), (1, 2))


def _optional(annotation: object) -> bool:
    return type(None) in get_args(annotation)


@functools.cache
def files() -> tuple[Path, Path]:
    """A model and a dataset."""
    model, found = world()["projection"], world()["data"]
    return romkit.save(model, FOLDER / "a.safetensors"), data.save_dataset(found, FOLDER / "a.nc")
