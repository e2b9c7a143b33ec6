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
from romkit import bases, data, integrators, problem, projections, solvers, systems, training
from romkit.data import save_dataset
from romkit.integrators import sindy
from romkit.types import Dual
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
        "motion": system.simulate(start, CONTEXTS, times),
    }
    return common | _plain(common, times, x, start)


def _plain(common: dict[str, object], times: torch.Tensor, x: torch.Tensor, start: tuple) -> dict[str, object]:
    z = x[:, :2]
    return {
        **dict.fromkeys(("x", "v", "rom", "states", "truth_", "squares"), x),
        **dict.fromkeys(("z", "w", "dz", "ddz", "zdot", "rate"), z),
        **{"times": times, "t": times[0], "std": torch.ones(4), "errors": torch.rand(5), "energy": torch.rand(3, 5)},
        **{"scale": torch.ones(3), "field": lambda t, y: -y, "jump": lambda t, y: y, "y0": torch.ones(3, 2, dtype=T64)},
        **{"start": z.double(), "parts": start, "contexts": CONTEXTS, "c": torch.full((1,), 3.15), "y": x},
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
        **{"stacked": common["stack"], "P": common["operator"], "members": common["ensemble"].members},
        **{"settings": {"epochs": 2}, "fields": common["projection"].normalization.signature.to_json(), "spreads": (1.0,)},
    }  # fmt: skip


PREFER = {
    "context": None, "checkpoint": None, "initial_velocity": None, "kwargs": None, "contexts": None, "seeds": None,
    "system": None, "label": "a",
}  # fmt: skip
"""Names of optional arguments that are left at their default."""

ALSO = {
    "fit": lambda: {"epochs": 1, "layers": (2, 4)},
    "simulate": lambda: {"F": 3.15},
    "rollout": lambda: {"F": 3.15},
    "forecast": lambda: {"F": 3.15, "system": world()["system"]},
    "systems.System.dataset": lambda: {"F": 3.15, "split": None},
    "systems.System.field": lambda: {"F": 3.15},
    "systems.MechanicalSystem.field": lambda: {name: 0.5 for name in ("l1", "l2", "l3", "l4")},
    "systems.Pendulum.energy": lambda: {name: 0.5 for name in ("l1", "l2", "l3", "l4")},
    "projections.Projection.forward": lambda: {"F": 3.15},
    "metrics.nrmse": lambda: {"truth": world()["x"]},
    "metrics.hellinger_distance": lambda: {"truth": world()["x"]},
    "projections.architecture": lambda: {"method": projections.NcAE, "layers": None},
    "projections.method_named": lambda: {"name": "ncae"},
    "projections.stack": lambda: {"models": [world()["projection"]] * 2},
    "integrators.galerkin_samples": lambda: {"problem": world()["system"].problem},
    "integrators.LatentSamples.__add__": lambda: {"other": world()["samples"]},
    "integrators.Scaling.equals": lambda: {"other": world()["samples"].variables},
    "integrators.sindy.Library.__add__": lambda: {"other": sindy.Polynomial(1)},
    "integrators.sindy.Library.__mul__": lambda: {"other": sindy.Polynomial(1)},
    "integrators.SINDy": lambda: {"degree": 2},
    "integrators.sindy.Polynomial": lambda: {"degree": 2},
    "integrators.SINDyModel.predict": lambda: {"context": torch.full((5, 1), 3.15)},
    "integrators.Estimator.fit_samples": lambda: {"samples": world()["samples"], "zdot": None, "context": None},
    "integrators.LatentSamples.first_order": lambda: {"context": None},
    "integrators.LatentSamples.second_order": lambda: {"context": None},
    "integrators.Scaling.none": lambda: {"names": ("a",)},
    "integrators.Scaling.standard": lambda: {"names": ("a", "b"), "rates": 0},
    "solvers.RK4": lambda: {"dt": 0.1},
    "solvers.Adaptive": lambda: {"method": "dopri5"},
    "solvers.PerMember": lambda: {"method": "dopri5"},
    "testing.check_solver": lambda: {"solver": solvers.RK4(1e-2), "order": None},
    "testing.check_system": lambda: {"system": world()["system"]},
    "systems.System.simulate": lambda: {"context": CONTEXTS},
    "systems.System.metric": lambda: {"context": CONTEXTS},
    "systems.system_of": lambda: {"data": world()["data"]},
    "training.PhaseFit": lambda: {"dynamics": "galerkin"},
    "training.RolloutTraining": lambda: {"dynamics": "galerkin"},
    "training.RolloutTraining.window": lambda: {"samples": 100, "progress": 0.5},
    "data.trajectories": lambda: {"name": "state"},
    "data.Contexts.of": lambda: {"names": ("F",)},
    "data.context_array": lambda: {"names": ("F",)},
    "Ensemble.forecast": lambda: {"initial_state": [3.0] * 4, "duration": 0.05, "dt": 0.01, "F": 3.15},
    "Ensemble.save": lambda: {"folder": FOLDER / "ensemble"},
    "data.smoothest": lambda: {"x": np.ones((2, 9, 4)), "whole": np.ones((2, 9), dtype=bool)},
    "systems.CylinderWake.forces": lambda: {"x": torch.ones(2, 4)},
    "bootstrap": lambda: {"law": sindy.SINDy(degree=1, threshold=0.0), "members": 2},
    "Ensemble": lambda: {"members": 2},
    "bases.Basis": lambda: {"modes": torch.eye(4, 2), "mean": torch.zeros(4)},
    "bases.Basis.encode": lambda: {"x": torch.ones(5, 4)},
    "bases.Basis.decode": lambda: {"y": torch.ones(5, 2)},
    "bases.check_size": lambda: {"basis": world()["subspace"]},
    "bases.decompose": lambda: {"x": torch.rand(5, 4, dtype=T64), "rank": 2},
    "bases.weigher": lambda: {"weight": torch.ones(4), "n": 4},
    "basis": lambda: {"rank": 2},
    "systems.MuJoCo": lambda: mujoco_model(),
    "systems.ModelParameter": lambda: {"low": 0.5, "high": 1.5, "sets": {"geom/g.size": 1.0}},
    "systems.MuJoCo.field": lambda: {"m": 1.0},
    "systems.System.through": lambda: {"basis": world()["subspace"]},
    "projections.BasisNormalization": lambda: {"basis": world()["subspace"], "inner": behind().inner},
    "projections.BasisNormalization.from_dataset": lambda: {"basis": world()["subspace"], "inner": behind().inner},
    "projections.Projection.behind": lambda: {"normalization": behind()},
    "solvers.SciPy": lambda: {"method": "BDF"},
    "data.complete": lambda: {"names": ("state",)},
    "data.given_control": lambda: {"control": np.ones((5, 1)), "names": ("u",), "number": 1},
    "data.pieces": lambda: {"observed": [True, False, True]},
    "data.from_arrays": lambda: {"states": np.ones((2, 5, 4)), "velocity": None, "control": None},
    "data.Layout.from_json": lambda: {"text": data.layout_of(world()["data"]).to_json()},
    "data.make_dataset": lambda: made(),
    "data.save_dataset": lambda: {"path": FOLDER / "saved.nc"},
    "data.open_dataset": lambda: {"path": files()[1]},
    "save": lambda: {"path": FOLDER / "saved.safetensors"},
    "load": lambda: {"path": files()[0]},
    "plotting.save_figure": lambda: {"path": FOLDER / "figure.png"},
    "projections.Signature": lambda: {"system": "a"},
    "integrators.LatentSamples": lambda: dict(vars(world()["samples"])),
    "integrators.sindy.SINDyModel": lambda: dict(vars(world()["law"])),
    "integrators.SINDyModel": lambda: dict(vars(world()["law"])),
    "integrators.SINDyModel.__getitem__": lambda: {"index": 0},
    "integrators.Scaling.__getitem__": lambda: {"problem": 0},
    "data.ContextParameter": lambda: {"low": 0.0, "high": 1.0},
}
"""Arguments of single callables that their names do not tell."""

OWNERS = {
    bases.Basis: lambda: world()["subspace"],
    romkit.Ensemble: lambda: ensemble(),
    data.Layout: lambda: data.layout_of(world()["data"]),
    training.Watch: lambda: training.Watch(),
    projections.BasisNormalization: lambda: behind(),
    systems.MuJoCo: lambda: systems.MuJoCo(**mujoco_model()),
    integrators.LatentDynamics: lambda: integrators.Galerkin(),
    integrators.SINDyModel: lambda: world()["law"],
    integrators.LinearModel: lambda: integrators.DMD().fit_samples(world()["samples"]),
    integrators.LearnedField: lambda: world()["law"],
    integrators.Estimator: lambda: sindy.SINDy(degree=1, threshold=0.0),
    integrators.LatentSamples: lambda: world()["samples"],
    integrators.Scaling: lambda: world()["samples"].variables,
    integrators.NeuralODEModel: lambda: neural_ode(),
    sindy.Basis: lambda: world()["law"].basis,
    sindy.SINDyEnsemble: lambda: world()["ensemble"],
    sindy.Terms: lambda: sindy.Terms({"a": lambda z: z[..., 0]}),
    sindy.Fourier: lambda: sindy.Fourier(1),
    sindy.Library: lambda: sindy.Polynomial(2),
    data.Contexts: lambda: data.Contexts(CONTEXTS[:1], CONTEXTS[:1]),
    projections.Operator: lambda: world()["operator"],
    projections.Projection: lambda: world()["projection"],
    projections.Normalization: lambda: world()["projection"].normalization,
    projections.Signature: lambda: world()["projection"].normalization.signature,
    projections.EncoderDecoder: lambda: world()["maps"],
    projections.MovingPath: lambda: projections.MovingPath(world()["projection"], lambda t: CONTEXTS[0] + 0 * t),
    solvers.Solver: lambda: solvers.RK4(0.01),
    systems.System: lambda: world()["system"],
    systems.MechanicalSystem: lambda: systems.Pendulum(),
    training.Evaluated: lambda: evaluated(),
    training.Term: lambda: training.Reconstruction(),
    training.Recipe: lambda: training.Recipe(),
    training.Snapshots: lambda: training.Snapshots(),
    training.RolloutTraining: lambda: training.RolloutTraining(),
}
"""An instance for the methods of a class."""


@functools.cache
def neural_ode() -> integrators.NeuralODEModel:
    settings = {"hidden": (4,), "segment": 2, "regression_steps": 1, "shooting_steps": 1, "batch_size": 4}
    return integrators.NeuralODE(**settings).fit(world()["projection"], world()["data"])


@functools.cache
def evaluated() -> training.Evaluated:
    ncae, y = world()["projection"], torch.zeros(5, 4)
    maps, pair = ncae.at(torch.zeros(1)), Dual(y, y)
    return training.Evaluated(
        ncae, maps, y, y, torch.zeros(5, 1), Dual(y[:, :2], y[:, :2]), pair, torch.ones(4), world()["system"], None
    )


def instance(target: Target) -> object | None:
    """What a method is called on."""
    if target.owner is None:
        return None
    for cls, make in OWNERS.items():
        made = issubclass(target.owner, cls) or issubclass(cls, target.owner)
        if made and isinstance(found := make(), target.owner):
            return found
    return construct(Target(target.owner.__name__, target.owner))


def construct(target: Target) -> object:
    return target.function(**arguments(target))


def arguments(target: Target) -> dict[str, object]:
    """A valid call, as far as names and annotations tell."""
    special = ALSO.get(target.name, dict)()
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
    return romkit.save(world()["projection"], FOLDER / "a.safetensors"), save_dataset(world()["data"], FOLDER / "a.nc")


@functools.cache
def behind() -> projections.BasisNormalization:
    inner = romkit.fit("cae", world()["data"], basis=world()["subspace"], layers=(1, 2), epochs=1).normalization
    return inner


@functools.cache
def ensemble() -> romkit.Ensemble:
    return romkit.bootstrap(world()["projection"], sindy.SINDy(degree=1, threshold=0.0), world()["data"], members=2)


def mujoco_model() -> dict[str, object]:
    """A pendulum of one link."""
    file = FOLDER / "model.xml"
    joint = '<joint name="q" axis="0 1 0"/><geom name="g" size="0.1" fromto="0 0 0 0 0 -1" type="capsule"/>'
    file.write_text(f"<mujoco><worldbody><body name='b'>{joint}</body></worldbody></mujoco>")
    return {"path": file, "context": {"m": systems.ModelParameter(0.5, 1.5, {"geom/g.size[0]": 1.0})}, "dt": 0.01}


def made() -> dict[str, object]:
    """A dataset in parts."""
    system, states = world()["system"], np.ones((2, 5, 4))
    return {
        "variables": {"state": states, "velocity": states},
        "times": np.arange(5.0),
        "time_units": "s",
        "state_names": system.state_names,
        "state_units": system.state_units,
        "contexts": np.ones((2, 1)),
        "context": system.context,
        "attrs": {"a": 1},
    }
