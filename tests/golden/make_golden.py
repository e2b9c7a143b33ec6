"""Numbers that the package gave, by the names that users type: a few of every system, method, dynamics, law and solver.

    pytest tests/golden                           # compare with numbers.json
    python -m tests.golden.make_golden            # write numbers.json, after a change that is meant to change numbers

Each room is a generator of names and arrays, of which `summary` leaves few numbers. The class of tolerance stands in
numbers.json beside the numbers; that of a new name is "iterated" until somebody writes another one there.
"""

import contextlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import geoopt
import numpy as np
import torch
import xarray as xr

import romkit
from romkit import integrators, projections
from romkit.integrators import DYNAMICS, LAWS, LSPG, Galerkin, PetrovGalerkin, Reencoded, SINDy
from romkit.projections import METHODS, Projection
from romkit.solvers import RK4, Adaptive, ImplicitMidpoint, PerMember, Restarted, SciPy, odeint
from romkit.systems import Burgers2D, CylinderWake, KuramotoSivashinsky, Lorenz96, ModelParameter, MuJoCo, Pendulum
from romkit.training import LipschitzBound, Penalty, PhaseFit, Reconstruction, RolloutTraining

HERE = Path(__file__).parent
NUMBERS, FILES = HERE / "numbers.json", HERE / "files"

TOLERANCES = {"algebra": 1e-9, "iterated": 1e-6, "float32": 1e-4, "training": 1e-3, "long": 1e-2}
"""Largest difference, relative to the largest number beside it, by class. Processors differ in vector width, hence in
the order of sums: "algebra" in float64, of a condition number up to 1e5; "iterated" in float64 until a tolerance is
met, or of a larger condition number; "float32" without training; "training" in float32 for some steps, of optimizers
that divide by small gradients; "long" for what amplifies these differences further."""

Entries = Iterator[tuple[str, object]]
"""Names, and arrays or tuples of arrays."""


@cache
def computed(room: Callable[[], Entries]) -> dict[str, list[list[float]]]:
    """Summaries of a room by name; every entry begins from the same generator of random numbers."""
    found, entries = {}, room()
    with warnings.catch_warnings(action="ignore"):
        torch.manual_seed(0)
        for name, arrays in entries:
            found[name] = summary(arrays)
            torch.manual_seed(0)
    return found


def summary(found: object) -> list[list[float]]:
    """Up to eight numbers of one array or several: some entries of each, and its root mean square.

    The root mean square is among them so that no component can change unseen.
    """
    arrays = found if isinstance(found, tuple) else (found,)
    arrays = [np.asarray(array.detach() if torch.is_tensor(array) else array, dtype=np.float64) for array in arrays]
    assert all(array.size for array in arrays)
    return [_some(array.reshape(-1), 8 // len(arrays)).tolist() for array in arrays]


def _some(values: np.ndarray, room: int) -> np.ndarray:
    if len(values) <= room:
        return values
    places = np.linspace(0, len(values) - 1, room - 1).round().astype(int) if room > 1 else []
    return np.append(values[places], np.sqrt(np.square(values).mean()))


def distance(found: Sequence[Sequence[float]], stored: Sequence[Sequence[float]]) -> float:
    """Largest difference of two summaries, relative to the largest number of each array."""
    parts = [(np.array(a), np.array(b)) for a, b in zip(found, stored, strict=True)]
    assert all(np.array_equal(np.isfinite(a), np.isfinite(b)) for a, b in parts)
    parts = [(np.nan_to_num(a), np.nan_to_num(b)) for a, b in parts]
    return max(np.abs(a - b).max() / max(np.abs(b).max(), 1e-12) for a, b in parts)


# -- what several rooms share --------------------------------------------------------------------------------------

F64, ORIGIN = torch.float64, torch.zeros(())
QUIET = {"verbose": False, "engine": "torch"}
BRIEF = {"latent_dim": 2, "epochs": 3, "batch_size": 32} | QUIET
LENGTHS = {"l1": [0.40, 0.45], "l2": [0.50, 0.52], "l3": [0.50, 0.47], "l4": [0.60, 0.55]}
WEIGHTS = torch.linspace(0.5, 2.0, 8, dtype=F64)
SMALL = Lorenz96(n=8, transient=2.0)
LINEAR = SINDy(degree=1, threshold=0.0)


def wave(n: int, phase: float = 0.0) -> torch.Tensor:
    """(n,) a fixed state of order one, none of whose components equal each other."""
    k = torch.arange(n, dtype=F64)
    return torch.sin(1.7 * k + phase) + 0.3 * torch.cos(0.9 * k)


def slowly(t: float) -> float:
    return 3.14 + 0.02 * t


def begun(data: xr.Dataset, samples: int = 11) -> xr.Dataset:
    return data.isel(time=slice(samples))


def last(run: xr.Dataset, *names: str) -> tuple[np.ndarray, ...]:
    """Variables of a run at its last time."""
    return tuple(run[name].isel(time=-1).values for name in names)


@cache
def small() -> xr.Dataset:
    """Lorenz96 of eight variables at three contexts, to train on."""
    return SMALL.dataset(F=[3.14, 3.16, 3.18], duration=0.5)


def descent(parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-3)


@cache
def fitted(method: str, basis: int | None = None, **settings: object) -> Projection:
    """A projection of `small()`, in float64; a single one by gradient descent.

    Latent coordinates may turn without a change of P, so that the gradient in such directions is rounding. Adam makes
    steps of full length of it: of what it trained, P alone is the same on all processors.
    """
    optimizer = {} if "seeds" in settings else {"optimizer": descent}
    return romkit.fit(method, small(), basis=basis, **BRIEF | settings | optimizer).double()


def maps(model: Projection, lead: tuple[int, ...] = ()) -> tuple[torch.Tensor, ...]:
    """ρ, φ and Dφ of a fixed state of eight components."""
    P = model(torch.tensor([3.15], dtype=F64).expand(*lead, -1))
    z = P.encode(3.0 + wave(8).expand(*lead, -1))
    return z, P.decode(z), P.decode_jvp(z, wave(2, 1.0).expand_as(z)).tangent


@cache
def shipped(name: str = "ncae-lorenz96") -> Projection:
    return romkit.load(name).double()


@cache
def truth() -> xr.Dataset:
    """Lorenz96 from states on the manifolds of "ncae-lorenz96"."""
    F = [3.134, 3.142, 3.150, 3.158]
    start = shipped()(F=F).decode(torch.tensor([-0.9, 2.8], dtype=F64).expand(4, 2))
    return romkit.simulate(Lorenz96(), initial_state=start, F=F, duration=3.0, dt=0.02)


@cache
def swing() -> xr.Dataset:
    return romkit.simulate(Pendulum(), duration=0.1, **LENGTHS)


@cache
def wake() -> CylinderWake:
    return CylinderWake(mesh="coarse", transient=0.0, step=0.002)


@cache
def measured() -> xr.Dataset:
    """Two variables over a line, in four runs."""
    time, points = np.linspace(0, 1, 21), np.linspace(0, 2 * np.pi, 4, endpoint=False)
    speed = np.array([0.8, 0.9, 1.0, 1.2])
    phase = points - speed[:, None, None] * time[:, None]
    own = xr.Dataset(
        {"u": (("run", "t", "x"), np.sin(phase) ** 3, {"units": "m"}), "v": (("run", "t", "x"), np.cos(phase))},
        coords={"t": ("t", time, {"units": "s"}), "x": ("x", points), "speed": ("run", speed, {"units": "m/s"})},
    )
    with contextlib.redirect_stdout(None):
        return romkit.data.with_velocity(romkit.data.describe(own, context=["speed"]))


# -- rooms ---------------------------------------------------------------------------------------------------------


def of_systems() -> Entries:
    mass = ModelParameter(0.5, 2.0, {"geom/lower.mass": 1.0}, units="kg")
    model = {"path": HERE / "arm.xml", "context": {"mass": mass}, "start": [0.3, -0.2], "control": [0.2]}
    arm, arms = MuJoCo(**model), {"mass": [0.7, 1.5], "duration": 0.1}
    half = {"F": [3.14, 3.18], "duration": 0.5}
    for name, system, settings in (
        ("lorenz96", Lorenz96(transient=1.0), half),
        ("lorenz96, moving context", SMALL, {"F": lambda t: 3.14 + 0.1 * t, "duration": 0.5}),
        ("lorenz96, compiled", SMALL, half | {"engine": "compiled"}),
        ("lorenz96, BDF", SMALL, {"F": 3.15, "duration": 0.5, "solver": SciPy("BDF")}),
        ("pendulum", Pendulum(), LENGTHS | {"duration": 0.1}),
        ("kuramoto-sivashinsky", KuramotoSivashinsky(transient=5.0), {"L": [8.0, 12.0], "duration": 0.5}),
        ("burgers2d", Burgers2D(cells=8), {"mu1": [4.3, 5.0], "mu2": 0.02, "duration": 0.5}),
        ("cylinder-wake", wake(), {"Re": 100.0, "duration": 0.016}),
        ("mujoco", arm, arms),
        ("mujoco, contacts", MuJoCo(**model, contacts=True), arms),
    ):
        run = romkit.simulate(system, **settings)
        yield f"system: {name}", last(run, *(v for v in ("state", "velocity", "acceleration") if v in run))
    x, c = 0.1 * wave(2460), torch.tensor([80.0], dtype=F64)
    field, metric = wake().field(c)(ORIGIN, x), wake().weigh(x, x.unsqueeze(-1), c)
    yield "system: cylinder-wake, field and metric", (field, metric, wake().forces(x, c))
    q, c = torch.tensor([0.3, -0.4], dtype=F64), torch.tensor([0.9], dtype=F64)
    metric = arm.weigh(q, torch.eye(2, dtype=F64), c)
    yield "system: mujoco, field and metric", (arm.acceleration(ORIGIN, q, 2 * q, c), metric)
    q, v = (torch.from_numpy(swing()[name].values[:, -1]) for name in ("state", "velocity"))
    c = torch.from_numpy(romkit.data.context_matrix(swing()))
    yield "system: pendulum, energy and metric", (Pendulum().energy(c)(q, v), Pendulum().weigh(q, v.unsqueeze(-1), c))
    train = Lorenz96(n=6, transient=0.5, duration=0.1).dataset("train", seed=1)
    test = Burgers2D(cells=3, duration=0.1).dataset("test")
    yield "system: datasets of two splits", (train.F, train.state, test.mu1, test.state)
    system, c = KuramotoSivashinsky(n=16), torch.tensor([[7.0], [9.0]], dtype=F64)
    states = [wave(16, k) * (1 + 0.1 * k**2) * (1 + 0.1 * k * torch.arange(16)) for k in range(5)]
    through = system.through(romkit.basis(torch.stack(states), rank=3)).field(c)(ORIGIN, wave(3).expand(2, 3))
    yield "system: terms of polynomials", (through, system.field(c)(ORIGIN, wave(16).expand(2, 16)))


def of_projections() -> Entries:
    for name in METHODS:
        yield f"method: {name}", maps(fitted(name))
        yield f"method: {name}, behind a basis", maps(fitted(name, 5))
    for name, given in (("ncae", ("ncae",)), ("flow", ("flow",)), ("film-ae, behind a basis", ("film-ae", 5))):
        model = fitted(*given, seeds=(0, 1))
        yield f"stack: {name}", (maps(model, lead=(1, 1))[1], maps(projections.unstack(model)[1])[1])
    model = projections.stack([fitted("cae"), fitted("cae", seed=3)])
    yield "stack: of single models", maps(model, lead=(1, 1))[:2]
    middle = {"F": 3.15, "L": 9.0, "Re": 90.0, "mu1": 5.0, "mu2": 0.02}
    for name in projections.pretrained():
        model = shipped(name)
        P = model(**{key: middle.get(key, 0.5) for key in model.frame.context_names})
        z = 0.5 * wave(model.latent_dim)
        x = P.decode(z) + 0.01 * wave(len(model.frame.state_names))
        tangents = P.jvp(x, wave(len(x), 2.0)).tangent, P.decode_jacobian(z).tangent
        yield f"pretrained: {name}", (P.encode(x), P(x), *tangents)
    method = projections.NcAE.with_sizes(layers=(2, 4, 6, 8), embedding=(1, 3))
    model = romkit.fit(method, small(), epochs=2, batch_size=50, optimizer=descent, **QUIET).double()
    yield "projection: layer sizes and a class", maps(model)
    P, x = fitted("ncae")(F=[3.14, 3.15, 3.18]), 3.0 + wave(24).reshape(3, 8)
    bent = P.decode_curvature(P.encode(x), wave(2).expand(3, 2))
    tangent = P.encode_jvp(x, wave(8).expand(3, 8)).tangent
    yield "projection: curvature, tangents and several contexts", (tangent, bent, P(x), P.context)
    P = fitted("flow")(small())
    z = P.encode(small())
    yield "projection: labelled data", (z.values, P.decode(z).state, P(small().state))
    settings = BRIEF | {"epochs": 2, "units": (6,), "optimizer": descent}
    P = romkit.fit("flow", measured(), **settings)(measured())
    back = P.decode(P.encode(measured()))
    yield "projection: own variables", (back.u, back.v)


def of_training() -> Entries:
    often = {"steps": 2, "length": 8, "every": 3}
    for name, settings in {
        "soap": {"optimizer": "soap"},
        "riemannian-adam": {"optimizer": "riemannian-adam", "weight_decay": 1e-4, "clip": 1.0},
        "AdamW of torch": {"optimizer": torch.optim.AdamW, "engine": "auto"},
        "geoopt": {"optimizer": partial(geoopt.optim.RiemannianAdam, lr=5e-2)},
        "plateau": {"schedule": "plateau"},
        "fast-plateau, noise": {"schedule": "fast-plateau", "state_noise": 0.01, "context_noise": 0.02},
        "weights of terms": {"velocity_weight": 0.5, "penalty_weight": 0.1, "latent_weight": 0.2},
        "Lipschitz bound": {"loss": (Reconstruction(), Penalty(), LipschitzBound(target=3.0))},
        "components weighted": {"component_weighting": 1.0, "every": 2},
        "held-out data": {"validation": 0.3, "patience": 2},
        "rollouts": {"rollouts": RolloutTraining(**often), "system": SMALL},
        "rollouts of the decoder's field": {"rollouts": RolloutTraining(**often, dynamics="galerkin"), "system": SMALL},
        "phase": {"phase": PhaseFit(steps=2, every=3), "system": SMALL},
    }.items():
        model = romkit.fit("ncae", small(), **BRIEF | settings)
        yield f"training: {name}", (model.report["losses"], maps(model.double())[1])
    yield "training: compiled", maps(romkit.fit("cae", small(), **BRIEF | {"engine": "compiled"}).double())[1]


def of_dynamics() -> Entries:
    lorenz, model, stack = Lorenz96(), shipped(), fitted("ncae", seeds=(0, 1))
    ripples = romkit.simulate(KuramotoSivashinsky(transient=5.0), duration=0.5, L=[8.0, 12.0])
    for name, data, system in (
        ("ncae-lorenz96", truth(), lorenz),
        ("flow-lorenz96", truth(), lorenz),
        ("ncae-pendulum", swing(), Pendulum()),
        ("flow-pendulum", swing(), Pendulum()),
        ("flow-kuramoto-sivashinsky", ripples, KuramotoSivashinsky()),
    ):
        for dynamics, kind in DYNAMICS.items():
            stiff = "kuramoto" in name and dynamics != "lspg"
            given = {"system": system, "dynamics": kind()} | ({"solver": RK4(2e-3)} if stiff else {})
            if dynamics != "hamiltonian" or "pendulum" in name:
                run = romkit.follow(shipped(name), begun(data), **given)
                yield f"dynamics: {dynamics} on {name}", last(run, "state", "latent")
    for name, settings in (
        ("galerkin, torch", {"engine": "torch"}),
        ("galerkin, compiled", {"engine": "compiled"}),
        ("lspg, torch", {"dynamics": LSPG(dt=0.01), "engine": "torch"}),
        ("lspg, compiled", {"dynamics": LSPG(dt=0.01), "engine": "compiled"}),
        ("petrov-galerkin, adaptive", {"dynamics": PetrovGalerkin(), "solver": Adaptive()}),
        ("petrov-galerkin, per member", {"dynamics": PetrovGalerkin(), "solver": PerMember()}),
        ("petrov-galerkin, implicit", {"dynamics": PetrovGalerkin(), "solver": ImplicitMidpoint(0.02)}),
        ("reencoded", {"dynamics": Reencoded(PetrovGalerkin(), 3)}),
    ):
        run = romkit.follow(model, begun(truth()), **{"system": lorenz, "dynamics": Galerkin()} | settings)
        yield f"dynamics: {name}", last(run, "state", "latent")
    moving = {"F": slowly, "duration": 0.12, "dt": 0.03}
    for name in ("galerkin", "petrov-galerkin", "lspg"):
        start = model(F=3.14).decode(np.array([-0.9, 2.8]))
        run = romkit.rollout(lorenz, model, initial_state=start, dynamics=DYNAMICS[name](), **moving)
        yield f"dynamics: {name}, moving context", (*last(run, "rom", "latent"), run.F)
        run = romkit.rollout(SMALL, fitted("ncae", 5), F=[3.14, 3.18], duration=0.2, dt=0.02, dynamics=DYNAMICS[name]())
        behind = "behind a basis" if name == "galerkin" else f"{name} behind a basis"
        yield f"dynamics: {behind}", last(run, "rom", "latent", "nrmse", "nrmse_projected")
    data = romkit.simulate(lorenz, initial_state=3 + wave(36), **moving)
    run = romkit.follow(shipped("flow-lorenz96"), data, system=lorenz)
    yield "dynamics: moving context of a dataset", last(run, "state", "latent")
    for name, dynamics in (("of a stack", Galerkin()), ("lspg of a stack", LSPG())):
        run = romkit.follow(stack, begun(small()), system=SMALL, dynamics=dynamics)
        yield f"dynamics: {name}", last(run, "state")


def of_hyperreduction() -> Entries:
    system = Burgers2D(cells=8, duration=2.0)
    data = system.dataset(mu1=[4.3, 4.8, 5.4], mu2=[0.02, 0.025, 0.03])
    model = romkit.fit("pod", data, basis=6, latent_dim=3).double()
    mesh, sampled = romkit.reduced_mesh(system, model, data, tolerance=0.1), system.through(model.basis, data)
    order = mesh.rows.argsort()
    yield "dynamics: rows and weights of a reduced mesh", (mesh.rows[order], mesh.weights[order])
    for name, settings in (
        ("lspg on all rows", {"system": system, "dynamics": LSPG(dt=0.1)}),
        ("lspg on a reduced mesh", {"dynamics": LSPG(dt=0.1, mesh=mesh)}),
        ("galerkin on sampled rows", {"system": sampled, "dynamics": Galerkin()}),
    ):
        run = romkit.follow(model, begun(data), **settings)
        distance = run.get("state_distance", run.status)
        yield f"dynamics: {name}", (*last(run, "state", "latent"), distance)
    through = SMALL.through(romkit.basis(small(), rank=4))
    exact = romkit.simulate(through, F=3.15, duration=0.2)
    run = romkit.simulate(system.through(romkit.basis(data, rank=6), data), mu1=5.0, mu2=0.02, duration=0.5)
    yield "dynamics: through a basis", (exact.state, run.state, through.unresolved(exact))


def of_laws() -> Entries:
    model, quick = shipped(), {"hidden": (8,), "regression_steps": 30, "shooting_steps": 4, "batch_size": 32}
    fourier = {"library": integrators.Fourier(1), "context_library": integrators.Polynomial(1)}
    laws, z = {}, torch.tensor([[-0.5, 1.5], [0.7, 2.0]], dtype=F64)
    for name, settings in {
        "sindy": {"degree": 3, "threshold": 0.2},
        "sindy, fourier": fourier,
        "weak-sindy": {"degree": 2, "windows": 20},
        "operator-inference": {"degree": 2, "regularization": 1e-4},
        "dmd": {},
        "neural-ode": quick,
    }.items():
        law = laws[name] = LAWS[name.partition(",")[0]](**settings).fit(model, truth())
        run = romkit.rollout(begun(truth(), 21), model, dynamics=law)
        rates = torch.stack([law_rate(law, z, F) for F in (3.14, 3.15)])
        yield f"law: {name}", (rates, *last(run, "latent", "nrmse"))
    flow, plain = shipped("flow-pendulum"), {"degree": 1, "threshold": 0.0}
    second = {"sindy": plain, "operator-inference": {"degree": 1, "regularization": 1e-3}, "neural-ode": quick}
    for name, settings in second.items():
        run = romkit.follow(flow, begun(swing(), 21), dynamics=LAWS[name](**settings).fit(flow, swing()))
        yield f"law: {name} of second order", last(run, "latent", "velocity")
    data = driven()
    pod = romkit.fit("pod", data, latent_dim=2).double()
    with_control = {"sindy": plain, "dmd": {}, "operator-inference": {"degree": 1}, "neural-ode": quick}
    for name, settings in with_control.items():
        law = LAWS[name](**settings).fit(pod, data)
        start = {"dynamics": law, "initial_state": [1.0, 0.0], "duration": 1.0, "dt": 0.05, "k": 1.2}
        ahead = romkit.forecast(pod, control=lambda t: [np.sin(float(t))], **start)
        sampled = romkit.forecast(pod, control=np.linspace(0, 1, 21)[:, None], **start)
        run = romkit.rollout(data, pod, dynamics=law)
        yield f"law: {name} with a control", (*last(ahead, "state"), *last(sampled, "state"), run.nrmse)
    stack = fitted("ncae", seeds=(0, 1))
    run = romkit.follow(stack, begun(small()), dynamics=LINEAR.fit(stack, small()))
    yield "law: of a stack of projections", last(run, "state")
    grid = {"degree": (1, 2), "threshold": (0.0, 0.1)}
    law = SINDy().fit(model, truth(), select=grid, validation=0.3)
    yield "law: settings by held-out rollouts", (law.coefficients, law.residual)
    start = {"initial_state": [-0.9, 2.8], "F": slowly, "duration": 0.12, "dt": 0.03}
    yield "law: on a moving context", last(romkit.forecast(model, dynamics=laws["sindy"], **start), "state", "latent")
    samples = integrators.encoded_samples(model, truth())
    bagged = SINDy(degree=2, threshold=0.05).fit_ensemble(samples, models=6, blocks=10)
    yield "law: bagged equations", (bagged.inclusion, bagged.spread)
    by_time = integrators.differentiated_samples(model, truth().drop_vars("velocity"))
    of_field = integrators.galerkin_samples(model, begun(truth(), 5), Lorenz96().problem, copies=2)
    yield "law: samples by differentiation and by the field", (by_time.targets, of_field.targets)
    law, z = laws["sindy"], np.array([[0.3, -0.4], [0.5, 1.5]])
    symbols = sorted(map(str, law.to_sympy()[0].rhs.free_symbols))
    given = {name: 0.1 * (k + 1) for k, name in enumerate(symbols)}
    rates = np.array([float(equation.rhs.subs(given)) for equation in law.to_sympy()])
    by_pysindy = law.to_pysindy().predict(z, u=np.full((2, 1), 3.15))
    by_law = law.predict(torch.from_numpy(z), torch.full((2, 1), 3.15, dtype=F64))
    yield "law: as sympy and pysindy", (rates, by_pysindy, by_law)


def law_rate(law: integrators.LearnedField, z: torch.Tensor, *parameters: float) -> torch.Tensor:
    """Rate of a law at latent states and parameters, in its own precision."""
    kind = law.coefficients.dtype if hasattr(law, "coefficients") else torch.float32
    return law.right_hand_side(torch.tensor(parameters, dtype=kind))(z.to(kind)).detach()


def driven() -> xr.Dataset:
    """Three oscillators with an input."""
    t = 0.05 * np.arange(60)
    stiffness, force = np.array([1.0, 1.5, 2.0]), np.sin(np.outer([1.0, 1.3, 0.7], t))
    states = np.zeros((3, 60, 2))
    states[:, 0] = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    for k in range(59):
        x, v = states[:, k].T
        states[:, k + 1] = np.stack([x + 0.05 * v, v + 0.05 * (force[:, k] - stiffness * x - 0.1 * v)], axis=-1)
    return romkit.data.from_arrays(states, t, context={"k": stiffness}, control=force[..., None])


def of_solvers() -> Entries:
    def van_der_pol(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.stack([y[..., 1], 2.0 * (1 - y[..., 0] ** 2) * y[..., 1] - y[..., 0]], dim=-1)

    def forced(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([y[..., 1:], torch.sin(t) - 0.5 * y[..., :1]], dim=-1)

    starts = torch.tensor([[2.0, 0.0], [0.5, 0.5], [-1.0, 1.0]], dtype=F64)
    times = torch.tensor([0.0, 0.3, 0.5, 1.2], dtype=F64)
    for name, solver in {
        "RK4": RK4(0.05),
        "RK4, compiled": RK4(0.05),
        "Restarted": Restarted(RK4(0.05), 2, lambda t, y: 0.9 * y),
        "ImplicitMidpoint": ImplicitMidpoint(0.05),
        "ImplicitMidpoint, compiled": ImplicitMidpoint(0.05),
        "Adaptive": Adaptive(),
        **{f"Adaptive, {name}": Adaptive(name, rtol=1e-3, atol=1e-5) for name in Adaptive.PAIRS[1:]},
        "PerMember": PerMember(),
        **{f"SciPy, {name}": SciPy(name, rtol=1e-5) for name in ("BDF", "Radau", "LSODA")},
    }.items():
        engine = {"engine": "compiled"} if "compiled" in name else {}
        fields = (van_der_pol,) if name == "PerMember" else (van_der_pol, forced)
        solutions = [solver(field, starts, times, **engine).states[:, 1:] for field in fields]
        yield f"solver: {name}", tuple(solutions)
    yield "solver: odeint", odeint(van_der_pol, starts, torch.tensor([0.0, 0.5, 1.0], dtype=F64))
    lost = RK4(0.01)(lambda t, y: y**2, torch.tensor([[-1.0], [5.0]], dtype=F64), torch.linspace(0, 1, 5, dtype=F64))
    yield "solver: a member that diverges", (lost.states, lost.status)


def of_verbs() -> Entries:
    lorenz, model = Lorenz96(), shipped()
    settings = {"system": lorenz, "duration": 0.2, "dt": 0.02}
    x = romkit.forecast(model, initial_state=3 + wave(36), F=3.15, **settings)
    z = romkit.forecast(model, initial_state=[0.1, 0.2], context={"F": [3.14, 3.15]}, **settings)
    yield "forecast: from a full and a latent state", (*last(x, "state"), *last(z, "state", "latent"))
    start = {f"initial_{name}": swing()[name].values[0, -1] for name in ("state", "velocity")}
    lengths = {name: values[0] for name, values in LENGTHS.items()}
    run = romkit.forecast(shipped("ncae-pendulum"), system=Pendulum(), duration=0.05, dt=0.005, **start, **lengths)
    yield "forecast: of second order", last(run, "state", "velocity")
    run = romkit.rollout(Lorenz96(transient=20.0), model, F=[3.14, 3.15], duration=6.0, dt=0.03)
    yield "rollout: errors and projected states", (run.valid_time, *last(run, "nrmse", "nrmse_projected", "latent"))
    data = begun(truth()).copy(deep=True)
    data.state[0, 3:5] = np.nan
    data.state[1, 6, :7] = np.nan
    errors = romkit.score(data, romkit.follow(model, begun(truth()), system=lorenz))
    yield "score: with missing values", (errors.nrmse.fillna(-1.0), errors.valid_time)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"test": 0.3, "latent_dim": 2, "verbose": False}
        table = romkit.compare(measured(), ["pod", "quadratic-manifold"], ["dmd"], folder=folder, **settings)
    yield "compare: of two methods and laws", (table.nrmse, table.valid_time)
    pod, start = fitted("pod"), small().state.values[0, 0]
    two = romkit.bootstrap(pod, LINEAR, small(), members=2, seed=1)
    ahead = two.forecast(initial_state=start, duration=0.1, dt=0.01, F=3.15)
    again = two.calibrated(small())
    run, shares = again.follow(begun(small())), again.reliability(small()).coverage
    yield "ensemble: bootstrap of two", (*last(ahead, "state", "spread"), *last(run, "lower"), shares)
    run = romkit.bootstrap(pod, LINEAR, small(), members=12).follow(begun(small()), level=0.8)
    yield "ensemble: bootstrap of twelve, calibrated", last(run, "state", "spread", "lower", "upper")


def of_metrics() -> Entries:
    x, m = torch.from_numpy(truth().state.values), romkit.metrics
    errors = m.nrmse(x, x + 0.1 * torch.sin(torch.arange(36)), x.std((0, 1)))
    valid = m.valid_time(torch.arange(151) * 0.02, 0.01 * torch.arange(151, dtype=F64))
    yield "metrics: of states", (errors, valid, m.power_density(x[0]), m.hellinger_distance(x[0], x[1]))
    x, v = (torch.from_numpy(truth()[name].values[2, ::30]) for name in ("state", "velocity"))
    P = shipped()(F=3.15)
    errors, z = m.reconstruction_rmse(P, x, v), P.encode_jvp(x, v)
    latent = m.latent_condition_number(z.value), m.latent_speed_variation(z.tangent)
    distance = m.manifold_distance(P, x, shipped().frame.state_std)
    yield "metrics: of a projection", (torch.stack([errors.position, errors.velocity]), distance, *latent)
    energy, scale = torch.tensor([[2.0, 1.5, 2.0], [2.0, 2.5, 3.5]], dtype=F64), torch.tensor([2.0, 3.0], dtype=F64)
    lost = m.diverged(torch.tensor([[1.0], [torch.nan], [2.0]]))
    yield "metrics: of energies", (m.energy_drift(energy, scale), m.peak_energy_drift(energy, scale), lost)
    data = Lorenz96(n=4, transient=1.0).dataset(F=[3.1, 3.2], duration=0.2)
    for name, method, settings in (
        ("a ball of states and contexts", "ncae", {"radius": 0.5, "context_radius": 1e-3}),
        ("all states", "cae", {}),
        ("an autoencoder", "ae", {"radius": 0.5}),
    ):
        model = romkit.fit(method, data, **BRIEF | {"epochs": 2, "batch_size": 10, "optimizer": descent})
        bounds = romkit.certify(model, F=3.15, **settings)
        yield f"certify: {name}", (bounds["upper"], bounds["product"], bounds["lower"])


def seen(basis: romkit.bases.Basis) -> tuple:
    """Singular values, energies, and a state behind the basis, which does not see the signs of modes."""
    return basis.singular_values, basis.energy, basis.decode(basis.encode(3.0 + wave(basis.size)))


def of_bases() -> Entries:
    yield "basis: pod", seen(romkit.basis(small(), rank=4))
    yield "basis: weighted", seen(romkit.basis(small(), rank=4, weight=WEIGHTS))
    yield "basis: by a tolerance", seen(romkit.basis(small(), tolerance=1e-3))
    with tempfile.TemporaryDirectory() as folder:
        path = romkit.data.save_dataset(small(), Path(folder) / "a.nc")
        with xr.open_dataset(path, engine="h5netcdf") as lazy:
            yield "basis: streamed from a file", seen(romkit.basis(lazy, rank=4, chunk=20))
            yield "basis: streamed, weighted", seen(romkit.basis(lazy, rank=4, chunk=20, weight=WEIGHTS))
    parts = [romkit.basis(small().isel(trajectory=[k]), rank=8) for k in range(3)]
    yield "basis: merged", seen(romkit.bases.merge(parts, counts=[50] * 3, rank=4))
    many = [wave(40, 0.01 * k) * (1 + 0.2 * np.cos(0.1 * k)) for k in range(1600)]
    yield "basis: randomised", seen(romkit.basis(torch.stack(many), rank=3))
    x = torch.stack([wave(2460, float(k)) * torch.linspace(0.1, 1, 2460, dtype=F64) ** k for k in range(5)])
    yield "basis: of the mass matrix of a wake", seen(romkit.basis(x, rank=3, weight=wake().weight))
    x = torch.stack([wave(8, float(k)) for k in range(6)])
    found = romkit.bases.decompose(x - x.mean(0), rank=2)
    own = romkit.bases.Basis(found.modes, mean=x.mean(0))
    again, modal = own.decode(own.encode(3 + wave(8))), np.abs(own.project(small()).state.values)
    yield "basis: decomposition, and one's own modes", (found.singular_values, again, modal)


def of_data() -> Entries:
    for method in ("auto", "gradient", "savitzky-golay"):
        yield f"data: velocity, {method}", romkit.data.with_velocity(small()[["state"]], method=method).velocity
    runs = [np.array(small().state.values[k, : 50 - 10 * k]) for k in range(3)]
    data = romkit.data.from_arrays(runs, 0.01 * np.arange(50), context={"F": [3.14, 3.16, 3.18]})
    found = romkit.data.snapshots(romkit.data.with_velocity(data), every=2)
    train, held_out = romkit.data.split(measured(), 0.3, seed=2)
    parts = found.state, found.velocity, train.speed, romkit.data.fields(held_out).u
    yield "data: of unequal length, split, and taken apart", parts
    yield "data: describe", (measured().state, measured().velocity, romkit.data.context_matrix(measured()))


def of_files() -> Entries:
    for path in sorted(FILES.iterdir()):
        with tempfile.TemporaryDirectory() as folder:  # loaders may write beside
            copy = Path(folder) / path.name
            (shutil.copytree if path.is_dir() else shutil.copy)(path, copy)
            yield f"file: {path.name}", contents(read(copy))


def read(path: Path) -> object:
    """What the package's own loaders make of a file or folder."""
    if path.suffix == ".nc":
        return romkit.data.open_dataset(path)
    return {"ensemble": romkit.Ensemble.load, "checkpoint": resumed}.get(path.name, romkit.load)(path)


def resumed(folder: Path) -> Projection:
    """The projection of a run of two epochs that is in this checkpoint folder.

    Its data are ones and minus ones, whose scaling is the same to the last bit on every processor.
    """
    signs = np.array([[(-1.0) ** (i * (i + k) // 2) for k in range(4)] for i in range(16)]).reshape(4, 4, 4)
    data = romkit.data.from_arrays(signs, 1.0 * np.arange(4), context={"a": [1.0, 2.0, 3.0, 4.0]})
    settings = {"latent_dim": 2, "epochs": 2, "batch_size": 4} | QUIET
    return romkit.fit("cae", data.assign(velocity=data.state), checkpoint=folder, **settings)


def contents(found: object) -> object:
    """Arrays of what was read from a file."""
    if isinstance(found, xr.Dataset):
        return found["state" if "state" in found else "latent"]
    if isinstance(found, romkit.Ensemble):
        return last(found.follow(begun(small(), 5)), "state", "lower")
    if isinstance(found, romkit.bases.Basis):
        return seen(found)
    if isinstance(found, Projection):
        found, n = found.double(), len(found.frame.state_names)
        lead = () if found.seeds is None else (1, 1)
        P = found(torch.full((*lead, len(found.frame.context_names)), 3.15, dtype=F64))
        z = P.encode((3.0 if n == 8 else 0.0) + wave(n).expand(*lead, -1))
        return z, P.decode(z)
    stacked = hasattr(found, "coefficients") and found.coefficients.ndim > 2
    parameters = [3.15] * len((*found.context_names, *found.control_names))
    return law_rate(found, torch.full((2, 1, 2) if stacked else (2,), 0.5), *parameters)


ROOMS = (
    of_systems, of_projections, of_training, of_dynamics, of_hyperreduction, of_laws, of_solvers, of_verbs, of_metrics,
    of_bases, of_data, of_files,
)  # fmt: skip

if __name__ == "__main__":
    stored = json.loads(NUMBERS.read_text())
    found = {name: numbers for room in ROOMS for name, numbers in computed(room).items()}
    kinds = {name: stored.get(name, {}).get("tolerance", "iterated") for name in found}
    rows = [f"{json.dumps(n)}: {json.dumps({'tolerance': kinds[n], 'numbers': found[n]})}" for n in found]
    NUMBERS.write_text("{\n" + ",\n".join(rows) + "\n}\n")
