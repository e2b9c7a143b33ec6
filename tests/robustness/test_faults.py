# ruff: noqa: E501, a row per case
"""Deliberate faults, by area: what was once accepted in silence, or ended in another library's
exception.

Each is refused by one line that names the argument: numbers that nobody can mean, and arguments
that do not go with each other.
"""

import math
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit import integrators, laws, metrics, plotting, projections, solvers, systems
from romkit.core.errors import (
    DataWarning,
    DivergenceWarning,
    ExtrapolationWarning,
    FitWarning,
    RomkitError,
)
from romkit.laws import SINDy

NAN, INF = math.nan, math.inf
NUMBERS = (0, -1, NAN, "x")
FOLDER = Path(tempfile.mkdtemp(prefix="romkit-robustness-"))


def lorenz(**given):
    return systems.Lorenz96(**{"n": 4, "transient": 0.0, "duration": 0.2, "horizon": 0.1} | given)


@cache
def data():
    return lorenz().dataset(F=[3.1, 3.2, 3.3])


@cache
def model():
    return romkit.fit("ncae", data(), layers=(2, 4), epochs=1)


def datasets() -> dict[str, xr.Dataset]:
    """Datasets whose states cannot be used."""
    found, state = data(), data()["state"]
    return {
        "no state": found.drop_vars("state"),
        "no trajectories": found.isel(trajectory=slice(0)),
        "no times": found.isel(time=slice(0)),
        "no components": found.isel(component=slice(0)),
        "complex": found.assign(state=state * 1j),
        "text": found.assign(state=state.astype(str)),
        "objects": found.assign(state=state.astype(object)),
        "dates": found.assign(state=state.astype("datetime64[s]")),
        "NaN": found.assign(state=state * NAN),
        "infinite": found.assign(velocity=found["velocity"] * INF),
        "huge": found.assign(state=state * 1e300),
        "NaN context": found.assign_coords(F=found["F"] * np.nan),
        "a context called state_std": found.rename(F="state_std"),
    }


def of(make, name, *values):
    """A fault for each value of one argument: name and value, what is called, and what the refusal
    names.
    """
    return [
        (f"{name}={value!r:.20}", lambda value=value: make(**{name: value}), name)
        for value in values
    ]


def rollout(**given):
    return romkit.rollout(
        **{"source": lorenz(), "projection": model(), "F": 3.15, "duration": 0.05} | given
    )


def fit(method="cae", found=None, **given):
    return romkit.fit(
        method, data() if found is None else found, **{"epochs": 1, "layers": (2, 4)} | given
    )


def solve(solver=None, field=lambda t, y: -y, y0=None, times=(0.0, 1.0)):
    return (solver or solvers.RK4(0.1))(field, torch.ones(3, 2) if y0 is None else y0, times)


def lspg(**given):
    return rollout(dynamics=integrators.LSPG(**given))


X, Z = torch.full((5, 4), 0.5), torch.full((5, 2), 0.5)

FAULTS = {
    "numbers that nobody can mean": [
        *of(lspg, "iterations", 0, -1, NAN, "a"),
        *of(lspg, "tolerance", NAN, -1, 0, "a"),
        *of(lspg, "dt", 0, -1, NAN, "a"),
        *(fault for name in ("dt", "duration", "horizon") for fault in of(lorenz, name, *NUMBERS)),
        *of(lorenz, "dt", INF), *of(lorenz, "transient", -1, NAN, INF), *of(lorenz, "n", 3, 4.5, "a"),
        *(fault for name in ("dt", "duration", "horizon") for fault in of(systems.Pendulum, name, *NUMBERS)),
        *(fault for kind in (systems.KuramotoSivashinsky, systems.Burgers2D, systems.CylinderWake) for fault in of(kind, "dt", *NUMBERS)),
        *of(systems.KuramotoSivashinsky, "n", 17, 8),
        *of(lambda **given: solvers.RK4(0.1, **given), "divergence_threshold", NAN, -1, 0),
        *of(lambda **given: solvers.ImplicitMidpoint(0.1, **given), "divergence_threshold", NAN, -1, 0),
        *of(solvers.Adaptive, "rtol", NAN, -1, 0), *of(solvers.Adaptive, "atol", NAN, -1, 0),
        *of(lambda seed: fit(seed=seed), "seed", -1, "a", 1.5, 2**70),
        *of(lambda seeds: fit(seeds=seeds), "seeds", 3, "ab", [], [-1]),
        *of(lambda threshold: metrics.valid_time(torch.arange(5.0), torch.rand(5), threshold), "threshold", NAN, -1),
    ],
    "contexts": [
        *of(lambda F: model()(F=F), "F", NAN, INF, 3j, True, "3", [], [[]], None),
        ("a tensor, and a value", lambda: model()(torch.tensor([3.15]), F=99), "context"),
        ("a tensor, and an unknown name", lambda: model()(torch.tensor([3.15]), bogus=1), "context"),
        ("an unknown name", lambda: model()(F=3.15, bogus=1), "bogus"),
        *of(lambda F: rollout(F=F), "F", [], [[3.1, 3.2]], NAN, True, lambda t: [3.1] * (1 + int(t > 0)), lambda t: NAN),
        *of(lambda F: lorenz().dataset(F=F), "F", [], [[3.1]], NAN, 3j),
        *of(lambda F: romkit.simulate(lorenz(), F=F, duration=0.1), "F", [], [[3.1]], NAN, "a"),
        *of(lambda context: lorenz().field(context), "context", "a", [NAN], torch.zeros(2, 3), 3j),
    ],
    "states": [
        *of(lambda initial_state: rollout(initial_state=initial_state), "initial_state", "abc", 1, [1.0] * 3, [NAN] * 4, [1j] * 4, [True] * 4),
        *of(lambda initial_state: romkit.simulate(lorenz(), F=3.1, duration=0.1, initial_state=initial_state), "initial_state", [1j] * 4, np.ones((3, 4, 4))),
        *((f"{name} states in data", lambda found=found: fit(found=found), "data") for name, found in datasets().items()),
        ("bytes for data", lambda: fit(found=b"abc"), "data"),
        ("attributes that are no JSON", lambda: systems.system_of(data().assign_attrs(parameters="{")), "parameters"),
        *of(lambda x: model()(F=3.15).encode(x), "x", None, X.to(torch.complex64), X > 0, X.double(), X.to_sparse(), X.to("meta"), X[:, :3]),
        *of(lambda z: model()(F=3.15).decode(z), "z", None, Z.to(torch.complex64), Z > 0, Z.double(), Z[:, :1]),
        ("states that do not match the contexts", lambda: lorenz().simulate((torch.ones(3, 4),), torch.full((2, 1), 3.1), [0.0, 0.1]), "parts"),
        ("a stack on unstacked states", lambda: projections.stack([model(), model()])(F=3.15).encode(torch.ones(5, 4)), "x"),
        ("batches that do not match", lambda: model()(F=[3.1, 3.2]).encode(torch.ones(3, 4)), "x"),
    ],
    "rollouts": [
        *of(lambda source: rollout(source=source), "source", "lorenz96", None, systems.Lorenz96),
        *of(lambda projection: rollout(projection=projection), "projection", "ncae", None, projections.NcAE),
        *of(lambda dynamics: rollout(dynamics=dynamics), "dynamics", "magic", "galerkin", integrators.Galerkin, 3, laws.NeuralODE()),
        *of(lambda solver: rollout(solver=solver), "solver", "RK4", 0.1, solvers.RK4),
        *of(lambda duration: rollout(duration=duration), "duration", 1e15, 1e300, 0, -1, NAN),
        ("dt=1e-300", lambda: rollout(duration=1.0, dt=1e-300), "duration"),
        *of(lambda duration: lorenz().dataset(F=3.1, duration=duration), "duration", 1e18, -1),
        *of(lambda seed: lorenz().dataset("train", seed=seed), "seed", -1, "a", 1.5),
    ],
    "trainings": [
        *of(lambda method: fit(method), "method", ["ncae"], None, 3, "magic", torch.nn.Linear),
        *of(lambda device: fit(device=device), "device", "gpu", "meta", 3),
        *of(lambda system: fit(system=system), "system", "lorenz96", systems.Lorenz96, 3),
        *of(lambda checkpoint: fit(checkpoint=checkpoint), "checkpoint", 3, "", "a\0b"),
        ("encoder and decoder that do not match", lambda: fit("ae", layers=None, encoder=(4, 2), decoder=(3, 4)), "decoder"),
        ("layers and another latent_dim", lambda: fit(layers=(2, 4), latent_dim=3), "latent_dim"),
        ("layers of another system", lambda: fit(layers=(2, 60)), "layers"),
        ("an unknown setting", lambda: fit(bogus=3), "bogus"),
        ("a setting that is nearly one", lambda: fit(epoch=3), "epoch"),
    ],
    "laws": [
        *of(SINDy, "library", "poly", laws.Polynomial, 3),
        *of(SINDy, "threshold", NAN, -1, "a", 3j), *of(SINDy, "degree", -1, 1.5, "a"),
        ("degree 60 of six variables", lambda: SINDy(degree=60).fit_samples(torch.rand(50, 6), torch.rand(50, 6)), "degree"),
        ("samples that are text", lambda: SINDy().fit_samples("abc", "abc"), "z"),
        ("complex samples", lambda: SINDy().fit_samples(torch.ones(5, 2) * 1j, torch.ones(5, 2)), "z"),
        ("names twice", lambda: laws.LatentSamples.first_order(Z, Z, names=("a", "a")), "names"),
        ("a latent called like the context", lambda: laws.LatentSamples.first_order(Z, Z, torch.ones(5, 1), names=("F", "b"), parameters=("F",)), "names"),
        ("a term that cannot be evaluated", lambda: SINDy(library=laws.Functions({"a": lambda z: z[..., 7]})).fit_samples(Z, Z), "term"),
        *of(laws.NeuralODE, "hidden", 3, (), "a"),
        ("a law of a stack that there is not", lambda: SINDy(degree=1, threshold=0.0).fit(projections.stack([model(), model()]), data())[5], "index"),
    ],
    "solvers": [
        *of(lambda times: solve(times=times), "times", [0.0, NAN], [0.0, INF], [1.0, 0.0], [[0.0, 1.0]], "a", []),
        *of(lambda y0: solve(y0=y0), "y0", "a", 1, torch.tensor(1.0), torch.ones(2) * 1j),
        *of(lambda field: solve(field=field), "field", None, 3, lambda t, y: None, lambda t, y: y[..., :1], lambda t, y: y.unsqueeze(0), lambda t, y: y.tolist()),
        ("a step of 1e-300", lambda: solve(solvers.RK4(1e-300)), "dt"),
        ("tolerances of 1e-300", lambda: solve(solvers.Adaptive(rtol=1e-300, atol=1e-300)), "rtol"),
    ],
    "metrics and figures": [
        ("other times", lambda: metrics.valid_time(torch.arange(4.0), torch.rand(5)), "errors"),
        ("no times", lambda: metrics.valid_time(torch.zeros(0), torch.rand(0)), "times"),
        ("states of other sizes", lambda: metrics.nrmse(torch.rand(5, 4), torch.rand(5, 3), torch.ones(4)), "rom"),
        *of(lambda figure: plotting.save_figure(figure, FOLDER / "a.png"), "figure", None, "a"),
    ],
    "files": [
        *of(lambda path: romkit.save(model(), path), "path", None, 3, b"a", ""),
        *of(romkit.load, "path", None, 3, b"a", ""),
    ],
}  # fmt: skip


@pytest.mark.parametrize("area", FAULTS)
def test_faults_are_refused_by_a_line_that_names_the_argument(area):
    wrong = []
    for name, call, argument in FAULTS[area]:
        try:
            found = f"accepted: {call()!r:.60}"
        except RomkitError as error:
            named = (
                argument in getattr(error, "argument", "")
                or argument in str(error).partition(":")[0]
            )
            found = "" if named and str(error).isprintable() else str(error)
        except Exception as error:
            found = f"{type(error).__name__}: {error!s:.150}"
        if found:
            wrong.append(f"{name}: {found}")
    assert not wrong, "\n".join(wrong)


def untrained(found):
    found = found.drop_attrs()
    return found.assign_coords({name: coord.drop_attrs() for name, coord in found.coords.items()})


WARNINGS = {
    "extrapolation": (ExtrapolationWarning, lambda: rollout(F=9.0)),
    "a context that nobody declared": (DataWarning, lambda: fit(found=untrained(data()))),
    "velocities that are estimated": (DataWarning, lambda: fit(found=data().drop_vars("velocity"))),
    "a law that explains little": (FitWarning, lambda: SINDy(degree=1).fit_samples(torch.rand(50, 2), torch.rand(50, 2))),
    "trajectories that are lost": (DivergenceWarning, lambda: lorenz(dt=0.5, duration=50.0).dataset(F=100.0)),
    "training seeds that are lost": (DivergenceWarning, lambda: fit(optimizer="adam", learning_rate=1e30, epochs=3)),
}  # fmt: skip


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_points_to_the_line_that_called_romkit(name):
    category, call = WARNINGS[name]
    with pytest.warns(category) as caught:
        call()
    assert {
        Path(warning.filename).name for warning in caught if issubclass(warning.category, category)
    } == {"test_faults.py"}
