"""Numbers that the package gave, by the names that users type: a few of every system, method, dynamics, law and solver.

    pytest tests/golden                           # compare with numbers.json
    python -m tests.golden.make_golden --files    # write files/, which the code of later must read
    python -m tests.golden.make_golden            # write numbers.json

Each entry is a function that returns arrays. `summary` keeps up to eight numbers of them, the root mean square among
these, so that no component can change unseen. Numbers are compared within the tolerance of the entry's class.
"""

import contextlib
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from pathlib import Path

import geoopt
import numpy as np
import torch
import xarray as xr

import romkit
from romkit.integrators import (
    DMD,
    DYNAMICS,
    LSPG,
    Galerkin,
    NeuralODE,
    OperatorInference,
    PetrovGalerkin,
    Reencoded,
    SINDy,
    WeakSINDy,
)
from romkit.solvers import RK4, Adaptive, ImplicitMidpoint, PerMember, Restarted, SciPy
from romkit.systems import Burgers2D, CylinderWake, KuramotoSivashinsky, Lorenz96, ModelParameter, MuJoCo, Pendulum
from romkit.training import LipschitzBound, Penalty, PhaseFit, Reconstruction, RolloutTraining

HERE = Path(__file__).parent
NUMBERS = HERE / "numbers.json"

TOLERANCES = {
    "algebra": 1e-9,
    "iterated": 1e-6,
    "float32": 1e-4,
    "training": 1e-3,
    "long": 1e-2,
}
"""Largest difference, relative to the largest number beside it, by class. Processors differ in vector width, hence in
the order of sums: "algebra" in float64, of a condition number up to 1e5; "iterated" in float64 until a tolerance is
met, or of a larger condition number; "float32" without training; "training" in float32 for some steps, of optimizers
that divide by small gradients; "long" for what amplifies these differences further."""

ENTRIES: dict[str, tuple[str, Callable[[], object]]] = {}
"""Class of tolerance and function of each entry, by name."""


def entries(room: str, kind: str, table: dict[str, Callable[[], object]]) -> None:
    """Add functions by name, of one class of tolerance."""
    ENTRIES.update({f"{room}: {name}": (kind, function) for name, function in table.items()})


def summary(found: object) -> list[list[float]]:
    """Up to eight numbers of one array or several: some entries of each, and its root mean square."""
    arrays = found if isinstance(found, tuple) else (found,)
    arrays = [np.asarray(array.detach() if torch.is_tensor(array) else array, dtype=np.float64) for array in arrays]
    assert all(array.size for array in arrays)
    room = 8 // len(arrays)
    return [[float(value) for value in _some(array.reshape(-1), room)] for array in arrays]


def _some(values: np.ndarray, room: int) -> np.ndarray:
    if len(values) <= room:
        return values
    places = np.linspace(0, len(values) - 1, room - 1).round().astype(int) if room > 1 else []
    return np.append(values[places], np.sqrt(np.square(values).mean()))


def distance(found: Sequence[Sequence[float]], stored: Sequence[Sequence[float]]) -> float:
    """Largest difference of two summaries, relative to the largest number of each array."""
    assert [len(part) for part in found] == [len(part) for part in stored]
    parts = [(np.array(a), np.array(b)) for a, b in zip(found, stored, strict=True)]
    assert all(np.array_equal(np.isfinite(a), np.isfinite(b)) for a, b in parts)
    parts = [(np.nan_to_num(a), np.nan_to_num(b)) for a, b in parts]
    return max(np.abs(a - b).max() / max(np.abs(b).max(), 1e-12) for a, b in parts)


# -- what several entries share ------------------------------------------------------------------------------------

F64 = torch.float64
quiet = {"verbose": False, "engine": "torch"}


def wave(n: int, phase: float = 0.0, dtype: torch.dtype = F64) -> torch.Tensor:
    """(n,) a fixed state of order one, none of whose components equal each other."""
    k = torch.arange(n, dtype=dtype)
    return torch.sin(1.7 * k + phase) + 0.3 * torch.cos(0.9 * k)


@cache
def small() -> xr.Dataset:
    """Lorenz96 of eight variables at three contexts, to train on."""
    return Lorenz96(n=8, transient=2.0).dataset(F=[3.14, 3.16, 3.18], duration=0.5)


SMALL = romkit.systems.Lorenz96(n=8, transient=2.0)


def descent(parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-3)


@cache
def fitted(method: str, basis: int | None = None, **settings: object) -> romkit.projections.Projection:
    """A projection of `small()`, in float64; a single one by gradient descent.

    Latent coordinates may turn without a change of P, so that the gradient in such directions is rounding. Adam makes
    steps of full length of it: of what it trained, P alone is the same on all processors.
    """
    sizes = {"latent_dim": 2, "epochs": 3, "batch_size": 32} | quiet | settings
    if "seeds" not in settings:
        sizes["optimizer"] = descent
    return romkit.fit(method, small(), basis=basis, **sizes).double()


def maps(model: romkit.projections.Projection, context: object = 3.15, lead: tuple[int, ...] = ()) -> tuple:
    """ρ, φ and Dφ of a fixed state of eight components."""
    P = model(torch.as_tensor([context], dtype=F64).expand(*lead, -1))
    x = 3.0 + wave(8).expand(*lead, -1)
    z = P.encode(x)
    return z, P.decode(z), P.decode_jvp(z, wave(2, 1.0).expand_as(z)).tangent


@cache
def shipped(name: str) -> romkit.projections.Projection:
    return romkit.load(name).double()


FORCINGS = [3.134, 3.142, 3.150, 3.158]


@cache
def truth() -> xr.Dataset:
    """Lorenz96 from states on the manifolds of "ncae-lorenz96"."""
    start = shipped("ncae-lorenz96")(F=FORCINGS).decode(torch.tensor([-0.9, 2.8], dtype=F64).expand(4, 2))
    return romkit.simulate(Lorenz96(), initial_state=start, F=FORCINGS, duration=3.0, dt=0.02)


LENGTHS = {"l1": [0.40, 0.45], "l2": [0.50, 0.52], "l3": [0.50, 0.47], "l4": [0.60, 0.55]}


@cache
def swing() -> xr.Dataset:
    return romkit.simulate(Pendulum(), duration=0.1, **LENGTHS)


@cache
def ripples() -> xr.Dataset:
    system = KuramotoSivashinsky(transient=5.0)
    return romkit.simulate(system, duration=0.5, L=[8.0, 12.0])


@cache
def fronts() -> tuple[Burgers2D, xr.Dataset, romkit.projections.Projection]:
    """A system that gives its rows, data of it, and a projection behind a basis of six modes."""
    system = Burgers2D(cells=8, duration=2.0)
    data = system.dataset(mu1=[4.3, 4.8, 5.4], mu2=[0.02, 0.025, 0.03])
    return system, data, romkit.fit("pod", data, basis=6, latent_dim=3).double()


@cache
def mesh() -> object:
    system, data, model = fronts()
    return romkit.reduced_mesh(system, model, data, tolerance=0.1)


ARM = """<mujoco model="arm"><option timestep="0.002"/><worldbody><body>
<joint name="shoulder" axis="0 1 0" damping="0.1"/>
<geom name="upper" type="capsule" size="0.05" fromto="0 0 0 0 0 -0.5"/><body pos="0 0 -0.5">
<joint name="elbow" axis="0 1 0"/><geom name="lower" type="capsule" size="0.04" fromto="0 0 0 0 0 -0.4"/></body></body>
</worldbody><actuator><motor joint="elbow"/></actuator></mujoco>"""


@cache
def arm(**settings: object) -> MuJoCo:
    mass = ModelParameter(0.5, 2.0, {"geom/lower.mass": 1.0}, units="kg")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arm.xml"
        path.write_text(ARM)
        return MuJoCo(path, context={"mass": mass}, start=[0.3, -0.2], control=[0.2], **settings)


def last(run: xr.Dataset, *names: str) -> tuple[np.ndarray, ...]:
    return tuple(run[name].isel(time=-1).values for name in names)


silence = partial(warnings.catch_warnings, action="ignore")


# -- systems -------------------------------------------------------------------------------------------------------


def simulated(system, **settings):
    run = romkit.simulate(system, **settings)
    return last(run, "state", "velocity", *(["acceleration"] if "acceleration" in run else []))


@cache
def wake() -> CylinderWake:
    return CylinderWake(mesh="coarse", transient=0.0, step=0.002)


def wake_field():
    x, c = 0.1 * wave(2460), torch.tensor([80.0], dtype=F64)
    return wake().field(c)(torch.zeros(()), x), wake().weigh(x, x.unsqueeze(-1), c), wake().forces(x, c)


def arm_field():
    q, c = torch.tensor([0.3, -0.4], dtype=F64), torch.tensor([0.9], dtype=F64)
    return arm().acceleration(torch.zeros(()), q, 2 * q, c), arm().weigh(q, torch.eye(2, dtype=F64), c)


def pendulum_energy():
    q, v = (torch.from_numpy(swing()[name].values[:, -1]) for name in ("state", "velocity"))
    c = torch.from_numpy(romkit.data.context_matrix(swing()))
    return Pendulum().energy(c)(q, v), Pendulum().weigh(q, v.unsqueeze(-1), c)


def splits():
    train = Lorenz96(n=6, transient=0.5, duration=0.1).dataset("train", seed=1)
    test = Burgers2D(cells=3, duration=0.1).dataset("test")
    return train.F.values, train.state.values, test.mu1.values, test.state.values


def polynomials():
    system, c, t = KuramotoSivashinsky(n=16), torch.tensor([[7.0], [9.0]], dtype=F64), torch.zeros(())
    states = [wave(16, k) * (1 + 0.1 * k**2) * (1 + 0.1 * k * torch.arange(16)) for k in range(5)]
    through = system.through(romkit.basis(torch.stack(states), rank=3))
    return through.field(c)(t, wave(3).expand(2, 3)), system.field(c)(t, wave(16).expand(2, 16))


half = {"F": [3.14, 3.18], "duration": 0.5}
entries("system", "algebra", {
    "lorenz96": partial(simulated, Lorenz96(transient=1.0), **half),
    "lorenz96, moving context": partial(simulated, SMALL, F=lambda t: 3.14 + 0.1 * t, duration=0.5),
    "lorenz96, compiled": partial(simulated, SMALL, **half, engine="compiled"),
    "pendulum": partial(simulated, Pendulum(), duration=0.1, **LENGTHS),
    "cylinder-wake, field and metric": wake_field,
    "mujoco": lambda: simulated(arm(), mass=[0.7, 1.5], duration=0.1),
    "mujoco, contacts": lambda: simulated(arm(contacts=True), mass=[0.7, 1.5], duration=0.1),
    "mujoco, field and metric": arm_field,
    "pendulum, energy and metric": pendulum_energy,
    "datasets of two splits": splits,
    "terms of polynomials": polynomials,
})  # fmt: skip
entries("system", "iterated", {
    "lorenz96, BDF": partial(simulated, SMALL, F=3.15, duration=0.5, solver=SciPy("BDF")),
    "kuramoto-sivashinsky": partial(simulated, KuramotoSivashinsky(transient=5.0), duration=0.5, L=[8.0, 12.0]),
    "burgers2d": partial(simulated, Burgers2D(cells=8), duration=0.5, mu1=[4.3, 5.0], mu2=0.02),
    "cylinder-wake": lambda: simulated(wake(), Re=100.0, duration=0.016),
})  # fmt: skip

# -- projections ---------------------------------------------------------------------------------------------------


def stacked(name, basis=None):
    model = fitted(name, basis, seeds=(0, 1))
    return maps(model, lead=(1, 1))[1], maps(romkit.projections.unstack(model)[1])[1]


def pretrained(name):
    model = shipped(name)
    middle = {"F": 3.15, "L": 9.0, "Re": 90.0, "mu1": 5.0, "mu2": 0.02}
    P = model(**{key: middle.get(key, 0.5) for key in model.frame.context_names})
    z = 0.5 * wave(model.latent_dim)
    x = P.decode(z) + 0.01 * wave(len(model.frame.state_names))
    return P.encode(x), P(x), P.jvp(x, wave(len(x), 2.0)).tangent, P.decode_jacobian(z).tangent


def sized():
    method = romkit.projections.NcAE.with_sizes(layers=(2, 4, 6, 8), embedding=(1, 3))
    return maps(romkit.fit(method, small(), epochs=2, batch_size=50, optimizer=descent, **quiet).double())


def curvature():
    P = fitted("ncae")(F=[3.14, 3.15, 3.18])
    x = 3.0 + wave(24).reshape(3, 8)
    z = P.encode(x)
    return P.encode_jvp(x, wave(8).expand(3, 8)).tangent, P.decode_curvature(z, wave(2).expand(3, 2)), P(x), P.context


def labelled():
    P = fitted("flow")(small())
    z = P.encode(small())
    return z.values, P.decode(z).state.values, P(small().state).values


def own_variables():
    settings = {"latent_dim": 2, "epochs": 2, "units": (6,), "batch_size": 32, "optimizer": descent}
    P = romkit.fit("flow", measured(), **settings, **quiet)(measured())
    back = P.decode(P.encode(measured()))
    return back.u.values, back.v.values


METHODS = romkit.projections.METHODS
entries("method", "float32", {name: lambda name=name: maps(fitted(name)) for name in METHODS})
entries("method", "float32", {f"{name}, behind a basis": lambda name=name: maps(fitted(name, 5)) for name in METHODS})
entries("stack", "training", {
    "ncae": partial(stacked, "ncae"),
    "film-ae, behind a basis": partial(stacked, "film-ae", 5),
})  # fmt: skip
entries("stack", "long", {"flow": partial(stacked, "flow")})
entries("stack", "float32", {
    "of single models": lambda: maps(romkit.projections.stack([fitted("cae"), fitted("cae", seed=3)]), lead=(1, 1))[:2]
})  # fmt: skip
entries("pretrained", "algebra", {name: partial(pretrained, name) for name in romkit.projections.pretrained()})
entries("projection", "float32", {
    "layer sizes and a class": sized,
    "curvature, tangents and several contexts": curvature,
    "labelled data": labelled,
    "own variables": own_variables,
})  # fmt: skip

# -- training ------------------------------------------------------------------------------------------------------


def trained(**settings):
    model = romkit.fit("ncae", small(), **{"latent_dim": 2, "epochs": 3, "batch_size": 32} | quiet | settings)
    return np.array(model.report["losses"], dtype=float), maps(model.double())[1]


def compiled():
    settings = {"latent_dim": 2, "epochs": 3, "batch_size": 32, "verbose": False, "engine": "compiled"}
    return maps(romkit.fit("cae", small(), **settings).double())[1]


often = {"steps": 2, "length": 8, "every": 3}
entries("training", "training", {
    "soap": partial(trained, optimizer="soap"),
    "riemannian-adam": partial(trained, optimizer="riemannian-adam", weight_decay=1e-4, clip=1.0),
    "AdamW of torch": partial(trained, optimizer=torch.optim.AdamW, engine="auto"),
    "geoopt": partial(trained, optimizer=lambda p: geoopt.optim.RiemannianAdam(p, lr=5e-2)),
    "plateau": partial(trained, schedule="plateau"),
    "fast-plateau, noise": partial(trained, schedule="fast-plateau", state_noise=0.01, context_noise=0.02),
    "weights of terms": partial(trained, velocity_weight=0.5, penalty_weight=0.1, latent_weight=0.2),
    "Lipschitz bound": partial(trained, loss=(Reconstruction(), Penalty(), LipschitzBound(target=3.0))),
    "components weighted": partial(trained, component_weighting=1.0, every=2),
    "held-out data": partial(trained, validation=0.3, patience=2),
    "rollouts": partial(trained, rollouts=RolloutTraining(**often), system=SMALL),
    "rollouts of the decoder's field": partial(
        trained, rollouts=RolloutTraining(**often, dynamics="galerkin"), system=SMALL
    ),
    "phase": partial(trained, phase=PhaseFit(steps=2, every=3), system=SMALL),
    "compiled": compiled,
})  # fmt: skip

# -- latent dynamics -----------------------------------------------------------------------------------------------


def begun(data: xr.Dataset, samples: int) -> xr.Dataset:
    return data.isel(time=slice(samples))


def followed(name, data, system, dynamics, **settings):
    if "kuramoto" in name and not isinstance(dynamics, LSPG):
        settings = {"solver": RK4(2e-3)}  # stiff
    run = romkit.follow(shipped(name), begun(data(), 11), system=system, dynamics=dynamics, **settings)
    return last(run, "state", "latent")


wheel = partial(followed, "ncae-lorenz96", truth, Lorenz96())


def moving(dynamics):
    model = shipped("ncae-lorenz96")
    start = model(F=3.14).decode(np.array([-0.9, 2.8]))
    settings = {"initial_state": start, "duration": 0.12, "dt": 0.03, "dynamics": dynamics}
    run = romkit.rollout(Lorenz96(), model, F=lambda t: 3.14 + 0.02 * t, **settings)
    return *last(run, "rom", "latent"), run.F.values


def moving_data():
    system, model = Lorenz96(), shipped("flow-lorenz96")
    data = romkit.simulate(system, F=lambda t: 3.14 + 0.02 * t, initial_state=3 + wave(36), duration=0.12, dt=0.03)
    return last(romkit.follow(model, data, system=system), "state", "latent")


def stack_followed(dynamics):
    return last(
        romkit.follow(fitted("ncae", seeds=(0, 1)), begun(small(), 11), system=SMALL, dynamics=dynamics), "state"
    )


def behind(name):
    run = romkit.rollout(SMALL, fitted("ncae", 5), F=[3.14, 3.18], duration=0.2, dt=0.02, dynamics=DYNAMICS[name]())
    return last(run, "rom", "latent", "nrmse", "nrmse_projected")


def through_basis():
    system, data, _ = fronts()
    through = SMALL.through(romkit.basis(small(), rank=4))
    exact = romkit.simulate(through, F=3.15, duration=0.2)
    sampled = romkit.simulate(system.through(romkit.basis(data, rank=6), data), mu1=5.0, mu2=0.02, duration=0.5)
    return exact.state.values, sampled.state.values, through.unresolved(exact).values


def on_rows(dynamics, few):
    system, data, model = fronts()
    if few and isinstance(dynamics, LSPG):
        run = romkit.follow(model, begun(data, 11), dynamics=LSPG(dt=0.1, mesh=mesh()))
    else:
        seen = system.through(model.basis, data) if few else system
        run = romkit.follow(model, begun(data, 11), dynamics=dynamics, system=seen)
    return *last(run, "state", "latent"), run.get("state_distance", run.status).values


def mesh_rows():
    order = mesh().rows.argsort()
    return mesh().rows[order], mesh().weights[order]


MODELS = {
    "ncae-lorenz96": (truth, Lorenz96()),
    "flow-lorenz96": (truth, Lorenz96()),
    "ncae-pendulum": (swing, Pendulum()),
    "flow-pendulum": (swing, Pendulum()),
    "flow-kuramoto-sivashinsky": (ripples, KuramotoSivashinsky()),
}
entries("dynamics", "iterated", {
    f"{law} on {name}": partial(followed, name, *of, kind())
    for name, of in MODELS.items() for law, kind in DYNAMICS.items() if law != "hamiltonian" or "pendulum" in name
})  # fmt: skip
entries("dynamics", "iterated", {
    **{f"galerkin, {engine}": partial(wheel, Galerkin(), engine=engine) for engine in ("torch", "compiled")},
    **{f"lspg, {engine}": partial(wheel, LSPG(dt=0.01), engine=engine) for engine in ("torch", "compiled")},
    "petrov-galerkin, adaptive": partial(wheel, PetrovGalerkin(), solver=Adaptive()),
    "petrov-galerkin, per member": partial(wheel, PetrovGalerkin(), solver=PerMember()),
    "petrov-galerkin, implicit": partial(wheel, PetrovGalerkin(), solver=ImplicitMidpoint(0.02)),
    "reencoded": partial(wheel, Reencoded(PetrovGalerkin(), 3)),
    **{f"{law}, moving context": partial(moving, DYNAMICS[law]()) for law in ("galerkin", "petrov-galerkin", "lspg")},
    "moving context of a dataset": moving_data,
    "through a basis": through_basis,
})  # fmt: skip
entries("dynamics", "training", {
    "of a stack": partial(stack_followed, Galerkin()), "lspg of a stack": partial(stack_followed, LSPG())
})  # fmt: skip
entries("dynamics", "float32", {
    "behind a basis": partial(behind, "galerkin"),
    "petrov-galerkin behind a basis": partial(behind, "petrov-galerkin"),
    "lspg behind a basis": partial(behind, "lspg"),
    "lspg on all rows": partial(on_rows, LSPG(dt=0.1), False),
    "lspg on a reduced mesh": partial(on_rows, LSPG(dt=0.1), True),
    "galerkin on sampled rows": partial(on_rows, Galerkin(), True),
    "rows and weights of a reduced mesh": mesh_rows,
})  # fmt: skip

# -- laws ----------------------------------------------------------------------------------------------------------

QUICK = {"hidden": (8,), "regression_steps": 30, "shooting_steps": 4, "batch_size": 32}
LIBRARIES = {"library": romkit.integrators.Fourier(1), "context_library": romkit.integrators.Polynomial(1)}
LAWS = {
    "sindy": SINDy(degree=3, threshold=0.2),
    "sindy, fourier": SINDy(**LIBRARIES),
    "weak-sindy": WeakSINDy(degree=2, windows=20),
    "operator-inference": OperatorInference(degree=2, regularization=1e-4),
    "dmd": DMD(),
    "neural-ode": NeuralODE(**QUICK),
}


def quietly(function: Callable) -> Callable:
    """The function without its warnings."""

    @wraps(function)
    def call(*given, **more):
        with silence():
            return function(*given, **more)

    return call


@cache
@quietly
def law(name: str) -> romkit.integrators.LearnedField:
    return LAWS[name].fit(shipped("ncae-lorenz96"), truth())


def _precision(found: romkit.integrators.LearnedField) -> torch.dtype:
    return found.coefficients.dtype if hasattr(found, "coefficients") else torch.float32


def law_followed(name):
    found, z = law(name), torch.tensor([[-0.5, 1.5], [0.7, 2.0]], dtype=F64)
    kind = _precision(found)
    rates = [found.right_hand_side(torch.tensor([F], dtype=kind))(z.to(kind)) for F in (3.14, 3.15)]
    run = romkit.rollout(begun(truth(), 21), shipped("ncae-lorenz96"), dynamics=found)
    return torch.stack(rates).detach(), *last(run, "latent", "nrmse")


@quietly
def second_order(settings):
    model, data = shipped("flow-pendulum"), swing()
    return last(romkit.follow(model, begun(data, 21), dynamics=settings.fit(model, data)), "latent", "velocity")


@cache
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


@quietly
def controlled(settings):
    model = romkit.fit("pod", driven(), latent_dim=2).double()
    found = settings.fit(model, driven())
    common = {"dynamics": found, "initial_state": [1.0, 0.0], "duration": 1.0, "dt": 0.05, "k": 1.2}
    ahead = romkit.forecast(model, control=lambda t: [np.sin(float(t))], **common)
    sampled = romkit.forecast(model, control=np.linspace(0, 1, 21)[:, None], **common)
    run = romkit.rollout(driven(), model, dynamics=found)
    return ahead.state.values[-1], sampled.state.values[-1], run.nrmse.values


@quietly
def law_of_stack():
    model = fitted("ncae", seeds=(0, 1))
    found = SINDy(degree=1, threshold=0.0).fit(model, small())
    return last(romkit.follow(model, begun(small(), 11), dynamics=found), "state")


@quietly
def selected():
    grid = {"degree": (1, 2), "threshold": (0.0, 0.1)}
    found = SINDy().fit(shipped("ncae-lorenz96"), truth(), select=grid, validation=0.3)
    return found.coefficients, found.residual


@quietly
def law_moving():
    start = {"initial_state": [-0.9, 2.8], "duration": 0.12, "dt": 0.03}
    run = romkit.forecast(shipped("ncae-lorenz96"), dynamics=law("sindy"), F=lambda t: 3.14 + 0.02 * t, **start)
    return last(run, "state", "latent")


def bagged():
    samples = romkit.integrators.encoded_samples(shipped("ncae-lorenz96"), truth())
    found = SINDy(degree=2, threshold=0.05).fit_ensemble(samples, models=6, blocks=10)
    return found.inclusion, found.spread


def samples_of_both():
    model = shipped("ncae-lorenz96")
    by_time = romkit.integrators.differentiated_samples(model, truth().drop_vars("velocity"))
    of_field = romkit.integrators.galerkin_samples(model, begun(truth(), 5), Lorenz96().problem, copies=2)
    return by_time.targets, of_field.targets


def exported():
    found, z = law("sindy"), np.array([[0.3, -0.4], [0.5, 1.5]])
    names = [str(s) for s in sorted(found.to_sympy()[0].rhs.free_symbols, key=str)]
    given = {name: 0.1 * (k + 1) for k, name in enumerate(names)}
    return (
        np.array([float(equation.rhs.subs(given)) for equation in found.to_sympy()]),
        found.to_pysindy().predict(z, u=np.full((2, 1), 3.15)),
        found.predict(torch.from_numpy(z), torch.full((2, 1), 3.15, dtype=F64)),
    )


linear = SINDy(degree=1, threshold=0.0)
entries("law", "iterated", {name: partial(law_followed, name) for name in LAWS if name != "neural-ode"})
entries("law", "iterated", {
    "sindy of second order": partial(second_order, linear),
    "operator-inference of second order": partial(second_order, OperatorInference(degree=1, regularization=1e-3)),
    "settings by held-out rollouts": selected,
    "on a moving context": law_moving,
    "bagged equations": bagged,
    "samples by differentiation and by the field": samples_of_both,
    "as sympy and pysindy": exported,
})  # fmt: skip
entries("law", "float32", {
    "sindy with a control": partial(controlled, linear),
    "dmd with a control": partial(controlled, DMD()),
    "operator-inference with a control": partial(controlled, OperatorInference(degree=1)),
})  # fmt: skip
entries("law", "training", {
    "neural-ode": partial(law_followed, "neural-ode"),
    "neural-ode of second order": partial(second_order, NeuralODE(**QUICK)),
    "neural-ode with a control": partial(controlled, NeuralODE(**QUICK)),
})  # fmt: skip
entries("law", "long", {"of a stack of projections": law_of_stack})

# -- solvers -------------------------------------------------------------------------------------------------------


def spiral(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Van der Pol's oscillator."""
    return torch.stack([y[..., 1], 2.0 * (1 - y[..., 0] ** 2) * y[..., 1] - y[..., 0]], dim=-1)


def forced(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([y[..., 1:], torch.sin(t) - 0.5 * y[..., :1]], dim=-1)


STARTS = torch.tensor([[2.0, 0.0], [0.5, 0.5], [-1.0, 1.0]], dtype=F64)


def solved(solver, fields=(spiral, forced), **settings):
    times = torch.tensor([0.0, 0.3, 0.5, 1.2], dtype=F64)
    return tuple(solver(field, STARTS, times, **settings).states[:, 1:] for field in fields)


def diverged():
    found = RK4(0.01)(lambda t, y: y**2, torch.tensor([[-1.0], [5.0]], dtype=F64), torch.linspace(0, 1, 5, dtype=F64))
    return found.states, found.status


entries("solver", "algebra", {
    "RK4": partial(solved, RK4(0.05)),
    "Restarted": partial(solved, Restarted(RK4(0.05), 2, lambda t, y: 0.9 * y)),
    "a member that diverges": diverged,
})  # fmt: skip
entries("solver", "iterated", {
    "ImplicitMidpoint": partial(solved, ImplicitMidpoint(0.05)),
    "Adaptive": partial(solved, Adaptive()),
    **{f"Adaptive, {name}": partial(solved, Adaptive(name, rtol=1e-3, atol=1e-5)) for name in Adaptive.PAIRS[1:]},
    "PerMember": partial(solved, PerMember(), (spiral,)),
    **{f"SciPy, {name}": partial(solved, SciPy(name, rtol=1e-5)) for name in ("BDF", "Radau", "LSODA")},
    "RK4, compiled": partial(solved, RK4(0.05), engine="compiled"),
    "ImplicitMidpoint, compiled": partial(solved, ImplicitMidpoint(0.05), engine="compiled"),
    "odeint": lambda: romkit.solvers.odeint(spiral, STARTS, torch.tensor([0.0, 0.5, 1.0], dtype=F64)),
})  # fmt: skip

# -- verbs, metrics, certificates, ensembles -----------------------------------------------------------------------


def forecast():
    settings = {"system": Lorenz96(), "duration": 0.2, "dt": 0.02}
    x = romkit.forecast(shipped("ncae-lorenz96"), initial_state=3 + wave(36), F=3.15, **settings)
    z = romkit.forecast(shipped("ncae-lorenz96"), initial_state=[0.1, 0.2], context={"F": [3.14, 3.15]}, **settings)
    return *last(x, "state"), *last(z, "state", "latent")


def forecast_second():
    q, v = swing().state.values[0, -1], swing().velocity.values[0, -1]
    settings = {"duration": 0.05, "dt": 0.005} | {key: values[0] for key, values in LENGTHS.items()}
    model = shipped("ncae-pendulum")
    run = romkit.forecast(model, initial_state=q, initial_velocity=v, system=Pendulum(), **settings)
    return last(run, "state", "velocity")


def rolled_out():
    run = romkit.rollout(Lorenz96(transient=20.0), shipped("ncae-lorenz96"), F=[3.14, 3.15], duration=6.0, dt=0.03)
    return run.valid_time.values, *last(run, "nrmse", "nrmse_projected", "latent")


def scored():
    data = begun(truth(), 11).copy(deep=True)
    data.state[0, 3:5] = np.nan
    data.state[1, 6, :7] = np.nan
    errors = romkit.score(data, romkit.follow(shipped("ncae-lorenz96"), begun(truth(), 11), system=Lorenz96()))
    return errors.nrmse.fillna(-1.0).values, errors.valid_time.values


@quietly
def compared():
    methods, settings = ["pod", "quadratic-manifold"], {"test": 0.3, "latent_dim": 2, "verbose": False}
    with tempfile.TemporaryDirectory() as folder:
        table = romkit.compare(measured(), methods, ["dmd"], folder=folder, **settings)
        return table.nrmse.values, table.valid_time.values


def metrics_of_states():
    x, m = torch.from_numpy(truth().state.values), romkit.metrics
    y = x + 0.1 * torch.sin(torch.arange(36))
    valid = m.valid_time(torch.arange(151) * 0.02, 0.01 * torch.arange(151, dtype=F64))
    return m.nrmse(x, y, x.std((0, 1))), valid, m.power_density(x[0]), m.hellinger_distance(x[0], x[1])


def metrics_of_projection():
    x, v = (torch.from_numpy(truth()[name].values[2, ::30]) for name in ("state", "velocity"))
    model, m = shipped("ncae-lorenz96"), romkit.metrics
    P = model(F=3.15)
    errors, z = m.reconstruction_rmse(P, x, v), P.encode_jvp(x, v)
    return (
        torch.stack([errors.position, errors.velocity]),
        m.manifold_distance(P, x, model.frame.state_std),
        m.latent_condition_number(z.value),
        m.latent_speed_variation(z.tangent),
    )


def metrics_of_energies():
    energy = torch.tensor([[2.0, 1.5, 2.0], [2.0, 2.5, 3.5]], dtype=F64)
    scale = torch.tensor([2.0, 3.0], dtype=F64)
    gone = romkit.metrics.diverged(torch.tensor([[1.0], [torch.nan], [2.0]]))
    return romkit.metrics.energy_drift(energy, scale), romkit.metrics.peak_energy_drift(energy, scale), gone


def certified(name, **settings):
    data = Lorenz96(n=4, transient=1.0).dataset(F=[3.1, 3.2], duration=0.2)
    common = {"optimizer": descent, **quiet}
    bounds = romkit.certify(romkit.fit(name, data, latent_dim=2, epochs=2, batch_size=10, **common), F=3.15, **settings)
    return tuple(bounds[key].values for key in ("upper", "product", "lower"))


@cache
def two() -> romkit.Ensemble:
    return romkit.bootstrap(fitted("pod"), linear, small(), members=2, seed=1)


@quietly
def bootstrap():
    ahead = two().forecast(initial_state=small().state.values[0, 0], duration=0.1, dt=0.01, F=3.15)
    again = two().calibrated(small())
    run, shares = again.follow(begun(small(), 11)), again.reliability(small()).coverage
    return *last(ahead, "state", "spread"), *last(run, "lower"), shares.values


@quietly
def bootstrap_calibrated():
    ensemble = romkit.bootstrap(fitted("pod"), linear, small(), members=12)
    return last(ensemble.follow(begun(small(), 11), level=0.8), "state", "spread", "lower", "upper")


entries("forecast", "iterated", {"from a full and a latent state": forecast, "of second order": forecast_second})
entries("rollout", "long", {"errors and projected states": rolled_out})
entries("score", "iterated", {"with missing values": scored})
entries("compare", "float32", {"of two methods and laws": compared})
entries("metrics", "algebra", {"of states": metrics_of_states, "of energies": metrics_of_energies})
entries("metrics", "iterated", {"of a projection": metrics_of_projection})
entries("certify", "long", {"all states": partial(certified, "cae")})
entries("certify", "training", {
    "a ball of states and contexts": partial(certified, "ncae", radius=0.5, context_radius=1e-3),
    "an autoencoder": partial(certified, "ae", radius=0.5),
})  # fmt: skip
entries(
    "ensemble", "training", {"bootstrap of two": bootstrap, "bootstrap of twelve, calibrated": bootstrap_calibrated}
)

# -- bases ---------------------------------------------------------------------------------------------------------


def seen(basis: romkit.bases.Basis) -> tuple:
    """Singular values, energies, and a state behind the basis, which does not see the signs of modes."""
    return basis.singular_values, basis.energy, basis.decode(basis.encode(3.0 + wave(basis.size)))


WEIGHTS = torch.linspace(0.5, 2.0, 8, dtype=F64)


def streamed(weight):
    with tempfile.TemporaryDirectory() as folder:
        path = romkit.data.save_dataset(small(), Path(folder) / "a.nc")
        with xr.open_dataset(path, engine="h5netcdf") as lazy:
            return seen(romkit.basis(lazy, rank=4, chunk=20, weight=weight))


def merged():
    parts = [romkit.basis(small().isel(trajectory=[k]), rank=8) for k in range(3)]
    return seen(romkit.bases.merge(parts, counts=[50] * 3, rank=4))


def randomised():
    k = torch.arange(1600, dtype=F64)
    x = torch.stack([wave(40, 0.01 * float(i)) * (1 + 0.2 * torch.cos(0.1 * i)) for i in k])
    return seen(romkit.basis(x, rank=3))


def wake_basis():
    x = torch.stack([wave(2460, float(k)) * torch.linspace(0.1, 1, 2460, dtype=F64) ** k for k in range(5)])
    return seen(romkit.basis(x, rank=3, weight=wake().weight))


def decomposition():
    x = torch.stack([wave(8, float(k)) for k in range(6)])
    found = romkit.bases.decompose(x - x.mean(0), rank=2)
    own = romkit.bases.Basis(found.modes, mean=x.mean(0))
    return found.singular_values, own.decode(own.encode(3 + wave(8))), np.abs(own.project(small()).state.values)


entries("basis", "algebra", {
    "pod": lambda: seen(romkit.basis(small(), rank=4)),
    "weighted": lambda: seen(romkit.basis(small(), rank=4, weight=WEIGHTS)),
    "by a tolerance": lambda: seen(romkit.basis(small(), tolerance=1e-3)),
    "streamed from a file": partial(streamed, None),
    "streamed, weighted": partial(streamed, WEIGHTS),
    "merged": merged,
    "randomised": randomised,
    "decomposition, and one's own modes": decomposition,
})  # fmt: skip
entries("basis", "iterated", {"of the mass matrix of a wake": wake_basis})

# -- data ----------------------------------------------------------------------------------------------------------


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


def taken_apart():
    runs = [np.array(small().state.values[k, : 50 - 10 * k]) for k in range(3)]
    data = romkit.data.from_arrays(runs, 0.01 * np.arange(50), context={"F": [3.14, 3.16, 3.18]})
    found = romkit.data.snapshots(romkit.data.with_velocity(data), every=2)
    train, held_out = romkit.data.split(measured(), 0.3, seed=2)
    return found.state, found.velocity, train.speed.values, romkit.data.fields(held_out).u.values


entries("data", "algebra", {
    **{
        f"velocity, {name}": lambda name=name: (
            romkit.data.with_velocity(small().drop_vars("velocity"), method=name).velocity.values
        )
        for name in ("auto", "gradient", "savitzky-golay")
    },
    "of unequal length, split, and taken apart": taken_apart,
    "describe": lambda: (
        measured().state.values, measured().velocity.values, romkit.data.context_matrix(measured())
    ),
})  # fmt: skip

# -- files ---------------------------------------------------------------------------------------------------------

FILES = HERE / "files"


@cache
def plain() -> xr.Dataset:
    """Data of ones and minus ones, whose scaling is the same to the last bit on every processor."""
    signs = np.array([[(-1.0) ** (i * (i + k) // 2) for k in range(4)] for i in range(16)]).reshape(4, 4, 4)
    data = romkit.data.from_arrays(signs, 1.0 * np.arange(4), context={"a": [1.0, 2.0, 3.0, 4.0]})
    return data.assign(velocity=data.state)


def resumed(folder: Path) -> romkit.projections.Projection:
    """The projection of a run of two epochs that is in this checkpoint folder."""
    return romkit.fit("cae", plain(), latent_dim=2, epochs=2, batch_size=4, checkpoint=folder, **quiet)


def make_files() -> None:
    """Write a file of every kind, by the code of today."""
    FILES.mkdir(exist_ok=True)
    for name in romkit.projections.METHODS:
        romkit.save(fitted(name).float(), FILES / f"{name}.safetensors")
    romkit.save(fitted("flow", 5).float(), FILES / "flow-behind-a-basis.safetensors")
    romkit.save(fitted("ncae", 5), FILES / "ncae-behind-a-basis-in-double-precision.safetensors")
    romkit.save(fitted("ncae", seeds=(0, 1)).float(), FILES / "stack-of-ncae.safetensors")
    for name in LAWS:
        romkit.save(law(name), FILES / f"law-{name.replace(', ', '-')}.safetensors")
    with silence():
        stacked = SINDy(degree=1, threshold=0.0).fit(fitted("ncae", seeds=(0, 1)), small())
        romkit.save(stacked, FILES / "law-of-a-stack.safetensors")
        romkit.save(
            DMD().fit(romkit.fit("pod", driven(), latent_dim=2), driven()), FILES / "law-with-a-control.safetensors"
        )
        two().calibrated(small()).save(FILES / "ensemble")
    romkit.save(romkit.basis(small(), rank=3, weight=WEIGHTS), FILES / "basis.safetensors")
    romkit.data.save_dataset(begun(small(), 5), FILES / "dataset.nc")
    run = romkit.rollout(SMALL, fitted("ncae"), F=[3.14, 3.18], duration=0.05)
    romkit.data.save_dataset(run, FILES / "rollout.nc")
    resumed(FILES / "checkpoint")


def read(path: Path) -> object:
    """What the package's own loaders make of a file or folder."""
    if path.suffix == ".nc":
        return romkit.data.open_dataset(path)
    return {"ensemble": romkit.Ensemble.load, "checkpoint": resumed}.get(path.name, romkit.load)(path)


def numbers_of(found: object) -> tuple | torch.Tensor | np.ndarray:
    """Numbers of what was read from a file."""
    if isinstance(found, xr.Dataset):
        return found["state" if "state" in found else "latent"].values
    if isinstance(found, romkit.Ensemble):
        with silence():
            return last(found.follow(begun(small(), 5)), "state", "lower")
    if isinstance(found, romkit.bases.Basis):
        return seen(found)
    if isinstance(found, romkit.projections.Projection):
        found, n = found.double(), len(found.frame.state_names)
        lead = () if found.seeds is None else (1, 1)
        c = torch.full((*lead, len(found.frame.context_names)), 3.15, dtype=F64)
        P = found(c)
        z = P.encode((3.0 if n == 8 else 0.0) + wave(n).expand(*lead, -1))
        return z, P.decode(z)
    p = len(found.context_names) + len(found.control_names)
    stacked = hasattr(found, "coefficients") and found.coefficients.ndim > 2
    z = torch.full((2, 1, 2) if stacked else (2,), 0.5)
    return found.right_hand_side(torch.full((p,), 3.15, dtype=_precision(found)))(z.to(_precision(found)))


def of_file(path):
    with tempfile.TemporaryDirectory() as folder:  # loaders may write beside
        copy = Path(folder) / path.name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, copy)
        return numbers_of(read(copy))


for _path in sorted(FILES.iterdir()) if FILES.exists() else []:
    entries("file", "float32" if "neural" in _path.name else "iterated", {_path.name: partial(of_file, _path)})


def computed(name: str) -> list[list[float]]:
    """Summary of an entry; every entry begins from the same generators."""
    torch.manual_seed(0)
    return summary(ENTRIES[name][1]())


if __name__ == "__main__":
    if "--files" in sys.argv:
        make_files()
    else:
        found = {name: {"tolerance": kind, "numbers": computed(name)} for name, (kind, _) in ENTRIES.items()}
        rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
        NUMBERS.write_text("{\n" + rows + "\n}\n")
