# ruff: noqa: E501, the tables read better in long lines
"""What names and annotations do not tell: arguments of single callables, and an instance of every class with methods."""

import copy
import functools

import numpy as np
import torch
import xarray as xr

import romkit
from romkit import bases, data, integrators, plotting, projections, solvers, systems, training
from romkit import integrators as sindy
from romkit.solvers import Solution
from romkit.systems import Motion, problem
from tests.robustness.examples import CONTEXTS, FOLDER, T64, evaluated, files, world
from tests.robustness.surface import Target

LENGTHS = {name: 0.5 for name in ("l1", "l2", "l3", "l4")}
PART = (torch.full((2, 4), 0.5),)

CALLS = {
    "Ensemble": lambda: {"projection": world()["stack"], "law": laws()},
    "Ensemble.forecast": lambda: {"initial_state": [3.0] * 4, "duration": 0.05, "dt": 0.01, "F": 3.15},
    "Ensemble.load": lambda: {"folder": ensemble().save(FOLDER / "ensemble-to-load")},
    "Ensemble.save": lambda: {"folder": FOLDER / "ensemble"},
    "bases.Basis": lambda: {
        "modes": torch.eye(4, 2),
        "mean": torch.zeros(4),
        "energy": torch.tensor([1.0, 1.0]),
        "singular_values": torch.ones(2),
    },
    "bases.Basis.decode": lambda: {"y": torch.ones(5, 2)},
    "bases.Basis.encode": lambda: {"x": torch.ones(5, 4)},
    "bases.Basis.with_dual": lambda: {
        "modes": torch.eye(4, 2),
        "dual": torch.eye(4, 2),
        "mean": torch.zeros(4),
        "energy": torch.tensor([1.0, 1.0]),
        "singular_values": torch.ones(2),
    },
    "bases.Decomposition": lambda: {"modes": torch.eye(4, 2), "energy": torch.tensor(1.0)},
    "bases.check_size": lambda: {"basis": world()["subspace"]},
    "bases.decompose": lambda: {"x": torch.rand(5, 4, dtype=T64), "rank": 2},
    "bases.merge": lambda: {"parts": [world()["subspace"]] * 2, "counts": [5, 7], "rank": 1},
    "bases.weigher": lambda: {"weight": torch.ones(4), "n": 4},
    "basis": lambda: {"rank": 2},
    "bootstrap": lambda: {"law": sindy.SINDy(degree=1, threshold=0.0), "members": 2},
    "certify": lambda: {"F": 3.15},
    "compare": lambda: {
        "methods": ["pod"],
        "laws": ["dmd"],
        "folder": FOLDER / "compare",
        "latent_dim": 2,
        "test": 0.34,
    },
    "data.ContextParameter": lambda: {"low": 0.0, "high": 1.0, "units": "1"},
    "data.Contexts": lambda: {"initial": CONTEXTS, "over_time": CONTEXTS, "path": None},
    "data.Contexts.of": lambda: {"names": ("F",)},
    "data.Layout": lambda: {"variables": data.layout_of(world()["data"]).variables},
    "data.Layout.from_json": lambda: {"text": data.layout_of(world()["data"]).to_json()},
    "data.Layout.gather": lambda: {"lead": ("trajectory", "time")},
    "data.Layout.of": lambda: {"names": ("state",), "lead": ("trajectory", "time")},
    "data.Layout.scatter": lambda: {"values": np.ones((3, 20, 4)), "lead": ("trajectory", "time")},
    "data.Snapshots": lambda: {"state": torch.ones(5, 4), "velocity": torch.ones(5, 4), "context": torch.ones(5, 1)},
    "data.complete": lambda: {"names": ("state",)},
    "data.context_array": lambda: {"names": ("F",)},
    "data.from_arrays": lambda: {"states": np.ones((2, 5, 4)), "velocity": None, "control": None},
    "data.given_control": lambda: {"control": np.ones((5, 1)), "names": ("u",), "number": 1},
    "data.make_dataset": lambda: made(),
    "data.open_dataset": lambda: {"path": files()[1]},
    "data.pieces": lambda: {"observed": np.array([True, False, True])},
    "data.save_dataset": lambda: {"path": FOLDER / "saved.nc"},
    "data.smoothest": lambda: {"x": np.ones((2, 9, 4)), "whole": np.ones((2, 9), dtype=bool)},
    "data.trajectories": lambda: {"name": "state"},
    "data.with_velocity": lambda: {"method": "auto"},
    "fit": lambda: {"epochs": 1, "layers": (2, 4)},
    "forecast": lambda: {"F": 3.15, "system": world()["system"]},
    "integrators.Equation.__getitem__": lambda: {"index": 0},
    "integrators.Equation.predict": lambda: {"context": torch.full((5, 1), 3.15)},
    "integrators.Galerkin.start": lambda: {"parts": PART},
    "integrators.LSPG.start": lambda: {"parts": PART},
    "integrators.LatentDynamics.start": lambda: {"parts": PART},
    "integrators.Reencoded.start": lambda: {"parts": PART},
    "integrators.Equation": lambda: dict(vars(world()["law"])),
    "integrators.Estimator.fit_samples": lambda: {"samples": world()["samples"], "zdot": None, "context": None},
    "integrators.Hamiltonian.field": lambda: {"problem": mechanical()},
    "integrators.Hamiltonian.lift": lambda: {"problem": mechanical(), "y": torch.ones(5, 4)},
    "integrators.Hamiltonian.momentum": lambda: {"problem": mechanical(), "w": torch.ones(5, 4)},
    "integrators.Hamiltonian.solve": lambda: {"problem": mechanical(), "start": torch.ones(2, 4)},
    "integrators.Hamiltonian.start": lambda: {"problem": mechanical(), "parts": (torch.ones(2, 4),) * 2},
    "integrators.Hamiltonian.velocity": lambda: {"problem": mechanical(), "y": torch.ones(5, 4)},
    "integrators.LSPG.solve": lambda: {"solver": None, "start": torch.ones(2, 2)},
    "integrators.LatentSamples": lambda: dict(vars(world()["samples"])),
    "integrators.LatentSamples.__add__": lambda: {"other": world()["samples"]},
    "integrators.LatentSamples.first_order": lambda: {"context": None},
    "integrators.LatentSamples.second_order": lambda: {"context": None},
    "integrators.LinearModel": lambda: dict(vars(linear())),
    "integrators.NeuralODEModel": lambda: dict(vars(neural_ode())),
    "integrators.NeuralODEModel.detached": lambda: {"single": False},
    "integrators.OperatorModel": lambda: dict(vars(linear())),
    "integrators.SINDy": lambda: {"degree": 2},
    "integrators.SINDyModel": lambda: dict(vars(world()["law"])),
    "integrators.Scaling.__getitem__": lambda: {"problem": 0},
    "integrators.Scaling.equals": lambda: {"other": world()["samples"].variables},
    "integrators.Scaling.none": lambda: {"names": ("a",)},
    "integrators.Scaling.standard": lambda: {"names": ("a", "b"), "rates": 0},
    "integrators.galerkin_samples": lambda: {"problem": world()["system"].problem},
    "integrators.sindy.Library.__add__": lambda: {"other": sindy.Polynomial(1)},
    "integrators.sindy.Library.__mul__": lambda: {"other": sindy.Polynomial(1)},
    "integrators.sindy.Polynomial": lambda: {"degree": 2},
    "load": lambda: {"path": files()[0]},
    "metrics.hellinger_distance": lambda: {"truth": world()["x"]},
    "metrics.nrmse": lambda: {"truth": world()["x"]},
    "systems.problem.FirstOrder.decoded": lambda: {"w": torch.ones(5, 2)},
    "systems.problem.FirstOrder.encode": lambda: {"parts": PART},
    "systems.problem.SecondOrder.decode": lambda: {"w": torch.ones(5, 4)},
    "systems.problem.SecondOrder.decoded": lambda: {"w": torch.ones(5, 4)},
    "systems.problem.SecondOrder.encode": lambda: {"parts": PART * 2},
    "systems.problem.SecondOrder.linearised": lambda: {"w": torch.ones(5, 4)},
    "systems.problem.SecondOrder.motion": lambda: {"w": torch.ones(5, 4)},
    "plotting.animate": lambda: {"data": plane()},
    "plotting.plot_calibration": lambda: {"reliability": ensemble().reliability(world()["data"])},
    "plotting.plot_forecast": lambda: {"band": band()},
    "plotting.plot_frames": lambda: {"data": plane()},
    "plotting.plot_latent": lambda: {"latent": world()["projection"](world()["data"]).encode(world()["data"])},
    "plotting.plot_phase": lambda: {"x": "x0", "y": "x1"},
    "plotting.save_animation": lambda: {"animation": plotting.animate(plane()), "path": FOLDER / "a.gif"},
    "plotting.save_figure": lambda: {"path": FOLDER / "figure.png"},
    "projections.BasisNormalization": lambda: {"basis": world()["subspace"], "inner": behind().inner},
    "projections.BasisNormalization.denormalise": lambda: {"y": torch.ones(5, 2)},
    "projections.BasisNormalization.denormalise_tangent": lambda: {"w": torch.ones(5, 2)},
    "projections.BasisNormalization.from_dataset": lambda: {"basis": world()["subspace"], "inner": behind().inner},
    "projections.ContextCAE.penalty": lambda: {"maps": model_of(projections.ContextCAE).at(torch.zeros(1))},
    "projections.Flow": lambda: {"units": (3,)},
    "projections.MovingPath": lambda: dict(vars(moving())),
    "projections.MovingPath.relative": lambda: {"rate": torch.ones(5, 4)},
    "projections.Normalization.denormalise_tangent": lambda: {"w": torch.ones(5, 4)},
    "projections.Projection.behind": lambda: {"normalization": behind(rank=4)},
    "projections.Projection.forward": lambda: {"F": 3.15},
    "projections.Signature": lambda: {
        "system": "a",
        "context_units": ("1",),
        "context_names": ("F",),
        "state_names": ("a",),
        "state_units": ("1",),
    },
    "projections.architecture": lambda: {"method": projections.NcAE, "layers": None},
    "projections.method_named": lambda: {"name": "ncae"},
    "projections.stack": lambda: {"models": [world()["projection"]] * 2},
    "reduced_mesh": lambda: sampled(),
    "rollout": lambda: {"F": 3.15},
    "save": lambda: {"path": FOLDER / "saved.safetensors"},
    "simulate": lambda: {"F": 3.15},
    "solvers.Adaptive": lambda: {"method": "dopri5"},
    "solvers.PerMember": lambda: {"method": "dopri5"},
    "solvers.RK4": lambda: {"dt": 0.1},
    "solvers.SciPy": lambda: {"method": "BDF"},
    "solvers.Solution": lambda: dict(
        zip(Solution._fields, solvers.RK4(0.1)(lambda t, y: -y, torch.ones(3, 2), [0.0, 1.0]), strict=True)
    ),
    "systems.CylinderWake": lambda: {"mesh": "coarse"},
    "systems.CylinderWake.annotate": lambda: {"data": wake()},
    "systems.CylinderWake.steady": lambda: {"reynolds": 30.0},
    "systems.KuramotoSivashinsky": lambda: {"n": 16},
    "systems.MechanicalSystem.field": lambda: LENGTHS | {"context": None},
    "systems.MechanicalSystem.problem": lambda: {"context": torch.full((4,), 0.5)},
    "systems.ModelParameter": lambda: parameter(),
    "systems.ModelParameter.apply": lambda: {"spec": systems.MuJoCo(**mujoco_model()).file.spec.copy(), "value": 1.0},
    "systems.Motion": lambda: dict(zip(Motion._fields, world()["motion"], strict=True)),
    "systems.MuJoCo": lambda: mujoco_model(),
    "systems.MuJoCo.field": lambda: {"m": 1.0, "context": None},
    "systems.Pendulum.energy": lambda: LENGTHS | {"context": None},
    "systems.System.dataset": lambda: {"F": 3.15, "split": None},
    "systems.System.field": lambda: {"F": 3.15, "context": None},
    "systems.System.through": lambda: {"basis": world()["subspace"], "data": None},
    "systems.system_of": lambda: {"data": world()["data"]},
    "testing.check_solver": lambda: {"solver": solvers.RK4(1e-2), "order": None},
    "testing.check_system": lambda: {"system": world()["system"]},
    "training.Epoch": lambda: {"losses": torch.ones(1), "validation": None},
    "training.Evaluated": lambda: dict(zip(training.Evaluated._fields, evaluated(world()), strict=True)),
    "training.PhaseFit": lambda: {"dynamics": "galerkin"},
    "training.RolloutTraining": lambda: {"dynamics": "galerkin", "batch": 1},
    "training.RolloutTraining.window": lambda: {"samples": 100, "progress": 0.5},
    "training.Term.attach": lambda: {"rows": rows(), "weights": torch.ones(4)},
    "training.Watch.ends": lambda: {"epoch": training.Epoch(0, 2, torch.ones(1), None), "best": best()},
}
"""Arguments of single callables that their names do not tell."""

OWNERS = {
    bases.Basis: lambda: world()["subspace"],
    romkit.Ensemble: lambda: ensemble(),
    data.Layout: lambda: data.layout_of(world()["data"]),
    data.Contexts: lambda: data.Contexts(CONTEXTS[:1], CONTEXTS[:1]),
    training.Watch: training.Watch,
    training.Evaluated: lambda: evaluated(world()),
    training.Term: training.Reconstruction,
    training.Recipe: training.Recipe,
    training.Snapshots: training.Snapshots,
    training.RolloutTraining: training.RolloutTraining,
    integrators.LatentDynamics: integrators.Galerkin,
    integrators.LatentField: integrators.Galerkin,
    integrators.Reencoded: lambda: integrators.Reencoded(integrators.Galerkin(), 2),
    integrators.Equation: lambda: world()["law"],
    integrators.SINDyModel: lambda: world()["law"],
    integrators.LinearModel: lambda: linear(),
    integrators.LearnedField: lambda: world()["law"],
    integrators.Estimator: lambda: sindy.SINDy(degree=1, threshold=0.0),
    integrators.LatentSamples: lambda: world()["samples"],
    integrators.Scaling: lambda: world()["samples"].variables,
    integrators.NeuralODEModel: lambda: neural_ode(),
    sindy.SINDyEnsemble: lambda: world()["ensemble"],
    sindy.Terms: lambda: sindy.Terms({"a": lambda z: z[..., 0]}),
    sindy.Fourier: lambda: sindy.Fourier(1),
    sindy.Library: lambda: sindy.Polynomial(2),
    problem.Problem: lambda: world()["problem"],
    problem.SecondOrder: lambda: mechanical(),
    problem.ConstantPath: lambda: world()["path"],
    projections.Operator: lambda: world()["operator"],
    projections.Projection: lambda: world()["projection"],
    projections.Normalization: lambda: world()["projection"].normalization,
    projections.BasisNormalization: lambda: behind(),
    projections.Signature: lambda: world()["projection"].normalization.signature,
    projections.EncoderDecoder: lambda: world()["maps"],
    projections.MovingPath: lambda: moving(),
    solvers.Solver: lambda: solvers.RK4(0.01),
    solvers.Restarted: lambda: solvers.Restarted(solvers.RK4(0.01), 2, lambda t, y: y),
    solvers.SciPy: lambda: solvers.SciPy("BDF"),
    systems.System: lambda: world()["system"],
    systems.MechanicalSystem: systems.Pendulum,
    systems.Pendulum: systems.Pendulum,
    systems.Burgers2D: lambda: systems.Burgers2D(cells=2),
    systems.KuramotoSivashinsky: lambda: systems.KuramotoSivashinsky(n=16),
    systems.CylinderWake: lambda: systems.CylinderWake(mesh="coarse"),
    systems.MuJoCo: lambda: systems.MuJoCo(**mujoco_model()),
    systems.ModelParameter: lambda: systems.ModelParameter(**parameter()),
}
"""An instance for the methods of a class."""


def instance(target: Target) -> object | None:
    """What a method is called on."""
    if target.owner is None:
        return None
    if target.name.endswith("Equation.__getitem__"):
        return laws()
    if target.owner in OWNERS:
        return OWNERS[target.owner]()
    if issubclass(target.owner, projections.Projection):
        return model_of(target.owner)
    base = next((cls for cls in target.owner.__mro__ if cls in OWNERS), None)
    found = OWNERS[base]() if base else None
    return found if isinstance(found, target.owner) else construct(Target(target.name.rpartition(".")[0], target.owner))


def construct(target: Target) -> object:
    from tests.robustness.examples import arguments

    return target.function(**arguments(target))


@functools.cache
def model_of(method: type) -> projections.Projection:
    closed = method in (projections.POD, projections.QuadraticManifold)
    sizes = {"latent_dim": 2} if closed else {"layers": (2, 4)}
    sizes = {"encoder": (4, 2), "decoder": (2, 4)} if issubclass(method, projections.AE) else sizes
    sizes = {"latent_dim": 2, "units": (3,), "embedding": (1, 2, 2)} if method is projections.Flow else sizes
    return romkit.fit(method, world()["data"], epochs=1, **sizes)


@functools.cache
def neural_ode() -> integrators.NeuralODEModel:
    settings = {"hidden": (4,), "segment": 2, "regression_steps": 1, "shooting_steps": 1, "batch_size": 4}
    return integrators.NeuralODE(**settings).fit(world()["projection"], world()["data"])


@functools.cache
def moving() -> projections.MovingPath:
    double = copy.deepcopy(world()["projection"]).double()
    return projections.MovingPath(double, lambda t: CONTEXTS[0] + 0 * t, torch.linspace(0, 1, 5))


@functools.cache
def laws() -> sindy.SINDyModel:
    """A stack of two."""
    samples = integrators.encoded_samples(world()["stack"], world()["data"])
    return sindy.SINDy(degree=1, threshold=0.0).fit_samples(samples)


@functools.cache
def linear() -> integrators.LinearModel:
    return integrators.DMD().fit_samples(world()["samples"])


@functools.cache
def behind(rank: int = 2) -> projections.BasisNormalization:
    return romkit.fit("cae", world()["data"], basis=rank, layers=(1, rank), epochs=1).normalization


@functools.cache
def ensemble() -> romkit.Ensemble:
    return romkit.bootstrap(world()["projection"], sindy.SINDy(degree=1, threshold=0.0), world()["data"], members=2)


@functools.cache
def band() -> xr.Dataset:
    return ensemble().forecast(initial_state=[3.0] * 4, duration=0.05, dt=0.01, F=3.15)


@functools.cache
def mechanical() -> problem.Problem:
    """Of second order, in the four components that the operator has."""
    return problem.SecondOrder(problem.ConstantPath(world()["operator"]), lambda t, q, v: -q)


@functools.cache
def sampled() -> dict[str, object]:
    """A system that gives its rows, a projection behind a basis, and their data."""
    burgers = systems.Burgers2D(cells=3, dt=0.25, duration=1.0)
    runs = burgers.dataset("train")
    model = romkit.fit("pod", runs, basis=3, latent_dim=2)
    return {"system": burgers, "projection": model, "data": runs, "dt": 0.1, "tolerance": 0.3}


@functools.cache
def plane() -> xr.Dataset:
    """A field over two dimensions of space."""
    u = (("trajectory", "time", "y", "x"), np.random.default_rng(0).random((1, 3, 4, 5)))
    return data.describe(xr.Dataset({"u": u}, {"time": [0.0, 0.1, 0.2]}))


@functools.cache
def wake() -> xr.Dataset:
    system = systems.CylinderWake(mesh="coarse")
    states = np.zeros((1, 2, system.state_size))
    return data.from_arrays(states, times=[0.0, 1.0], context={"Re": [30.0]})


def rows() -> object:
    return training.batches.Batch(torch.zeros(5, 4), torch.zeros(5, 4), torch.zeros(5, 1))


def best() -> object:
    return training.watch.Best.start(torch.ones(1, 3), True)


def parameter() -> dict[str, object]:
    return {"low": 0.5, "high": 1.5, "sets": {"geom/g.size[0]": 1.0}}


def mujoco_model() -> dict[str, object]:
    """A pendulum of one link."""
    file = FOLDER / "model.xml"
    joint = '<joint name="q" axis="0 1 0"/><geom name="g" size="0.1" fromto="0 0 0 0 0 -1" type="capsule"/>'
    file.write_text(f"<mujoco><worldbody><body name='b'>{joint}</body></worldbody></mujoco>")
    return {"path": file, "context": {"m": systems.ModelParameter(**parameter())}, "dt": 0.01}


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
