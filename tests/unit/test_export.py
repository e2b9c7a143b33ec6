"""Exported models against the rollouts that they are exported from."""

import ctypes
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import romkit
from romkit.data import ContextParameter
from romkit.data.coordinates import COORDINATES, assign_coordinates
from romkit.errors import InputError
from romkit.integrators import LSPG, LearnedField
from romkit.laws import SINDy, Steady, encoded_samples
from romkit.solvers import RK4
from romkit.systems import Lorenz96, Pendulum, System
from romkit.verbs import fmu
from tests.refusals import refused
from tests.unit.integrators.test_lspg import Beads

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
STRICT = [
    "-std=c99",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-pedantic",
    "-Werror",
    "-shared",
    "-fPIC",
]


class Exported:
    """A model in C, compiled without a warning; at a context that can be changed."""

    def __init__(self, file, *context):
        self.name, library = file.stem, file.with_suffix(".so")
        subprocess.run([COMPILER, *STRICT, str(file), "-o", str(library), "-lm"], check=True)
        self.library, self.model = ctypes.CDLL(str(library)), np.zeros(10_000)
        self.set("context", context)

    def call(self, function, *arguments):
        arrays = [
            np.ascontiguousarray(x) if isinstance(x, np.ndarray) else ctypes.c_double(x)
            for x in arguments
        ]
        pointers = [
            x.ctypes.data_as(ctypes.c_void_p) if isinstance(x, np.ndarray) else x for x in arrays
        ]
        getattr(self.library, f"{self.name}_{function}")(
            self.model.ctypes.data_as(ctypes.c_void_p), *pointers
        )

    def set(self, what, values):
        self.call(f"set_{what}", np.array(values, dtype=np.float64))

    def mapped(self, function, x, size):
        out = np.zeros(size)
        self.call(function, np.array(x), out)
        return out

    def states(self, start, steps, h, between=lambda k: None):
        """Latent states (steps + 1, d)."""
        states = np.tile(start, (steps + 1, 1))
        for k in range(steps):
            states[k + 1] = states[k]
            between(k)
            self.call("step", k * h, h, states[k + 1])
        return states


def simulated(fmu, stop, h, **given):
    """A simulation by another's importer, with one communication step per output."""
    fmpy = pytest.importorskip("fmpy")
    return fmpy.simulate_fmu(str(fmu), stop_time=stop, step_size=h, output_interval=h, **given)


def assert_standard(fmu):
    pytest.importorskip("fmpy")
    from fmpy.model_description import read_build_description
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(fmu)) == []
    assert read_build_description(fmu)[0].sourceFileSets[0].sourceFiles == ["model.c", "fmi3.c"]


@pytest.fixture(scope="module")
def waves():
    """Data on an orbit of Lorenz96, on which linear models stay for long."""
    return Lorenz96(transient=20.0).dataset(F=[3.14, 3.15, 3.18], duration=10)


@pytest.fixture(scope="module")
def modes(waves):
    return romkit.fit("pod", waves, latent_dim=2)


@pytest.fixture(scope="module")
def ncae_in_c(tmp_path_factory):
    """model.c and model.h of the model that ships, in a folder of their own."""
    file = tmp_path_factory.mktemp("ncae") / "model.c"
    return romkit.export(romkit.load("ncae-lorenz96"), file, system=Lorenz96())


MODELS = ("flow", "sindy", "symmetry")


@pytest.fixture
def model(request, waves, modes):
    """A projection, and the dynamics of its latent state."""
    if request.param == "sindy":
        law = SINDy(degree=3, threshold=0.05).fit_samples(encoded_samples(modes, waves))
        return modes, {"dynamics": law}
    if request.param == "symmetry":
        sliced = romkit.fit("pod", waves, symmetry="shift", latent_dim=2)
        return sliced, {"dynamics": Steady().fit(sliced, waves)}
    return romkit.load("flow-lorenz96"), {"system": Lorenz96()}


@needs_compiler
@pytest.mark.parametrize("model", MODELS, indirect=True)
def test_c_follows_the_rollout(model, waves, tmp_path):
    """500 steps at two contexts that are given at run time; a context is set again in the middle
    of another's.
    """
    projection, dynamics = model
    made = Exported(romkit.export(projection, tmp_path / "model.c", **dynamics), 3.19)
    for F in (3.145, 3.175):
        made.set("context", [F])
        x = waves.state.values[0, -1].astype(np.float64)
        P = projection.double()(F=F)
        z = P.encode(torch.from_numpy(x)).detach().numpy()
        assert np.allclose(made.mapped("encode", x, len(z)), z, rtol=0, atol=1e-12)
        run = romkit.forecast(
            projection,
            initial_state=z,
            duration=5,
            dt=0.01,
            solver=RK4(0.01),
            engine="compiled",
            F=F,
            **dynamics,
        )
        assert int(run.status) == 0
        states = made.states(z, 500, 0.01)
        # a phase grows to 10 rad
        rounding = 500 * np.finfo(float).eps * abs(run.latent.values).max()
        assert abs(states - run.latent.values).max() < max(1e-10, rounding)
        assert abs(made.mapped("decode", states[-1], 36) - run.state.values[-1]).max() < max(
            1e-10, 5 * rounding
        )


@needs_compiler
def test_a_mechanical_model(tmp_path):
    """(z, ż) and (q, q̇) where the dynamics are of order two, against the engine of torch; the C of
    an FMU.
    """
    system, context = Beads(), {"k": 1.2}
    data = system.dataset(k=[0.5, 2.0], duration=1.0)
    projection = romkit.fit("ncae", data, layers=(2, 4), epochs=2)
    outputs = [f"der({projection.frame.state_names[1]})"]
    fmu = romkit.export(projection, tmp_path / "beads.fmu", system=system, outputs=outputs)
    zipfile.ZipFile(fmu).extractall(tmp_path)
    made = Exported(tmp_path / "sources" / "model.c", *context.values())
    z, dz = np.full(2, 0.1), np.array([1.0, -1.0])
    given = {
        "initial_state": z,
        "initial_velocity": dz,
        "duration": 0.02,
        "dt": 0.001,
        "solver": RK4(0.001),
        "system": system,
    }
    run = romkit.forecast(projection, engine="torch", **given, **context)
    states = made.states(np.concatenate([z, dz]), 20, 0.001)
    assert abs(states[:, :2] - run.latent.values).max() < 1e-12
    full = made.mapped("decode", states[-1], 8)
    truth = np.concatenate([run.state.values[-1], run.velocity.values[-1]])
    assert abs(full - truth).max() < 1e-11 * abs(truth).max()
    assert abs(made.mapped("encode", full, 4) - states[-1]).max() < 1e-11 * abs(states[-1]).max()
    assert_standard(fmu)


@needs_compiler
@pytest.mark.parametrize("coordinate", ["1/c", "log c"])
def test_c_takes_a_parameter_in_its_unit_where_the_law_has_a_coordinate_of_it(coordinate, tmp_path):
    """ẋ = -x f(c), with f the coordinate."""
    c, times = torch.linspace(2.0, 20.0, 6, dtype=torch.float64), np.linspace(0, 2, 41)
    rate_at = COORDINATES[coordinate].forward
    states = np.exp(-rate_at(c).numpy()[:, None, None] * times[:, None])
    data = romkit.data.from_arrays(states, times, context={"c": c.numpy()})
    data = assign_coordinates(data, {"c": coordinate})
    identity = romkit.fit("identity", data)
    law = SINDy(degree=1, threshold=0.0).fit(identity, data)
    made = Exported(romkit.export(identity, tmp_path / "model.c", dynamics=law), 7.0)
    reached = made.states(np.ones(1), 100, 0.01)[-1, 0]
    assert abs(reached - np.exp(-float(rate_at(torch.tensor(7.0))))) < 1e-6


class Driven(LearnedField):
    """ż = -k z + u, of which the solution at a constant input is known."""

    order, latent_dim, context_names, control_names = 1, 2, ("F",), ("push",)

    def right_hand_side(self, c):
        return lambda z: -c[..., :1] * z + c[..., 1:]


@needs_compiler
def test_inputs_in_c_are_held_between_steps(modes, tmp_path):
    made = Exported(romkit.export(modes, tmp_path / "model.c", dynamics=Driven()), 0.5)
    made.set("control", [1.0])
    states = made.states(
        np.zeros(2), 400, 0.01, lambda k: made.set("control", [1.0 if k < 200 else -1.0])
    )
    t = 0.01 * np.arange(401)
    there = 2 * (1 - np.exp(-1.0))
    exact = np.where(t <= 2, 2 * (1 - np.exp(-t / 2)), -2 + (there + 2) * np.exp(-(t - 2) / 2))
    assert abs(states - exact[:, None]).max() < 0.5 * (0.5 * 0.01) ** 4


@needs_compiler
def test_the_context_is_computed_when_it_is_set_alone(ncae_in_c):
    """A model at a context is its struct: a copy of the numbers is the model, and no step changes
    them.
    """
    made = Exported(ncae_in_c, 3.15)
    before, start = made.model.copy(), np.array([0.5, 0.2])
    first = made.states(start, 10, 0.01)
    assert np.array_equal(made.model, before)
    made.set("context", [3.18])
    assert not np.array_equal(made.states(start, 10, 0.01), first)
    made.model = before
    assert np.array_equal(made.states(start, 10, 0.01), first)


@needs_compiler
def test_the_program_of_the_page_runs(ncae_in_c):
    page = (Path(__file__).parents[2] / "docs" / "howto" / "export.md").read_text(encoding="utf-8")
    folder = ncae_in_c.parent
    (folder / "main.c").write_text(re.search(r"```c\n(.*?)```", page, re.DOTALL)[1])
    projection, system = romkit.load("ncae-lorenz96"), Lorenz96()
    subprocess.run(
        [COMPILER, "-std=c99", "-O2", "main.c", "model.c", "-o", "main", "-lm"],
        cwd=folder,
        check=True,
    )
    said = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    start = {"initial_state": [0.5, 0.0], "F": 3.15, "solver": RK4(0.01)}
    run = romkit.forecast(
        projection, duration=100, dt=0.01, system=system, engine="compiled", **start
    )
    expected = [run.latent.values[-1, 0], run.state.values[-1, 0]]
    assert np.allclose([float(x) for x in said.split()], expected, rtol=0, atol=1e-10)


@needs_compiler
def test_an_fmu_follows_the_rollout(tmp_path):
    """Communication steps of two steps; in the middle the context changes, and the state is encoded
    anew.
    """
    projection, system = romkit.load("ncae-lorenz96"), Lorenz96()
    fmu = romkit.export(projection, tmp_path / "waves.fmu", system=system, outputs=["x7", "x0"])
    assert_standard(fmu)
    F = np.array(
        [(0.0, 3.14), (4.98, 3.14), (5.0, 3.18), (10.0, 3.18)],
        dtype=[("time", float), ("F", float)],
    )
    names = ["latent[0]", "latent[1]", "x0", "x7"]
    found = simulated(
        fmu, 10.0, 0.02, input=F, start_values={"latent[0]": 0.5, "latent[1]": 0.1}, output=names
    )
    given = {"duration": 5.0, "dt": 0.01, "solver": RK4(0.01), "system": system}
    given["engine"] = "compiled"
    first = romkit.forecast(projection, initial_state=[0.5, 0.1], F=3.14, **given)
    z = (
        projection.double()(F=3.18)
        .encode(torch.from_numpy(first.state.values[-1]))
        .detach()
        .numpy()
    )
    second = romkit.forecast(projection, initial_state=z, F=3.18, **given)
    runs = [
        run.isel(time=times)
        for run, times in ((first, slice(0, None, 2)), (second, slice(2, None, 2)))
    ]
    for k, name in enumerate(names):
        parts = [
            run.latent.values[:, k] if k < 2 else run.state.values[:, (0, 7)[k - 2]] for run in runs
        ]
        assert abs(found[name] - np.concatenate(parts)).max() < 1e-10


@needs_compiler
def test_an_fmu_of_a_law_has_its_inputs(modes, tmp_path):
    fmu = romkit.export(modes, tmp_path / "law.fmu", dynamics=Driven(), dt=0.01)
    assert_standard(fmu)
    start = {"F": 0.5, "push": 1.0, "latent[0]": 0.0, "latent[1]": 1.0}
    found = simulated(fmu, 2.0, 0.05, start_values=start, output=list(start)[2:])
    for k in (0, 1):
        exact = 2 + (k - 2) * np.exp(-found["time"] / 2)
        assert abs(found[f"latent[{k}]"] - exact).max() < 2 * (0.5 * 0.01) ** 4


RUN_ALONE = """
import sys, torch
step, encode, decode = (torch.export.load(f"model{part}.pt2").module() for part in ("", "-encode", "-decode"))
given = torch.load("given.pt")
z = encode(given["x"], given["F"])
for k in range(5):
    z = step(0.01 * torch.tensor(k, dtype=torch.float64), torch.tensor(0.01, dtype=torch.float64), z, given["F"])
torch.save((z, decode(z, given["F"])), "found.pt")
assert "romkit" not in sys.modules
"""


@pytest.mark.slow
def test_programs_run_without_romkit(waves, tmp_path):
    """At five contexts, where the examples of the export had another number."""
    projection, system = romkit.load("ncae-lorenz96"), Lorenz96()
    romkit.export(projection, tmp_path / "model.pt2", system=system)
    x, F = (
        torch.from_numpy(waves.state.values[0, :5]).double(),
        torch.linspace(3.14, 3.18, 5).double().unsqueeze(1),
    )
    torch.save({"x": x, "F": F}, tmp_path / "given.pt")
    subprocess.run([sys.executable, "-c", RUN_ALONE], cwd=tmp_path, check=True)
    z, state = torch.load(tmp_path / "found.pt")
    start = projection.double()(F=F[:, 0]).encode(x).detach().numpy()
    run = romkit.forecast(
        projection,
        initial_state=start,
        duration=0.05,
        dt=0.01,
        solver=RK4(0.01),
        system=system,
        F=F[:, 0].numpy(),
        engine="torch",
    )
    assert abs(z.numpy() - run.latent.values[:, -1]).max() < 1e-12
    assert abs(state.numpy() - run.state.values[:, -1]).max() < 1e-12


class Branching(System):
    """A field that decides in Python on a value of the state."""

    name, state_names, dt, duration, horizon = (
        "branching",
        [f"x{k}" for k in range(36)],
        0.01,
        1.0,
        1.0,
    )
    context = (ContextParameter("F", "1", 3.0, 4.0, "forcing"),)

    def rhs(self, t, x, c):
        return -x if float(x.sum()) > 0 else x

    def initial_state(self, contexts, rng):
        return contexts.new_zeros(len(contexts), 36)


def test_refusals(modes, tmp_path, monkeypatch):
    system, file, fmu = Lorenz96(), tmp_path / "model.c", tmp_path / "model.fmu"
    monkeypatch.setenv("CC", "/nowhere/cc")
    stack = romkit.projections.stack([modes, modes])
    for argument, projection, path, given in (
        (
            "path",
            modes,
            tmp_path / "model.txt",
            {"system": system},
        ),
        ("path", modes, tmp_path / "my-model.c", {"system": system}),
        *(
            ("path", modes, tmp_path / f"{name}.c", {"system": system})
            for name in ("int", "struct", "class", "math", "signal")
        ),
        (
            "projection",
            stack,
            file,
            {"system": system},
        ),
        ("dynamics", modes, file, {}),
        (
            "outputs",
            modes,
            file,
            {"system": system, "outputs": ["x0"]},
        ),
        ("dt", modes, file, {"system": system, "dt": 0.1}),
        ("outputs", modes, fmu, {"system": system, "outputs": ["y0"]}),
        ("dt", modes, fmu, {"dynamics": Driven()}),
        (
            "path",
            modes,
            fmu,
            {"system": system},
        ),
        (
            "dynamics",
            modes,
            file,
            {"dynamics": LSPG(dt=0.1)},
        ),
        ("projection", modes, file, {"system": Pendulum()}),
        ("dynamics", modes, file, {"dynamics": SINDy()}),
        ("system", modes, file, {"system": Branching()}),
        (
            "system",
            modes,
            tmp_path / "model.pt2",
            {"system": Branching()},
        ),
    ):
        refused(argument, romkit.export, projection, path, **given)
    assert not list(tmp_path.iterdir())
    refused(
        "its folder does not exist",
        romkit.export,
        modes,
        tmp_path / "none" / "model.c",
        system=system,
        error=romkit.errors.FileError,
    )


@pytest.fixture
def full_disk(monkeypatch):
    """No file of more than a kilobyte can be written."""
    resource = pytest.importorskip("resource")
    # Python would keep the first kilobyte of a module's bytecode, which no later process could read
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("ending", ["c", "fmu"])
def test_a_full_disk_is_one_line_and_leaves_nothing(
    modes, tmp_path, full_disk, monkeypatch, ending
):
    monkeypatch.setattr("romkit.verbs.fmu._library", lambda sources, target: bytes(2000))
    full_disk()
    with pytest.raises(romkit.errors.FileError, match="cannot be written"):
        romkit.export(modes, tmp_path / f"model.{ending}", system=Lorenz96())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["c", "pt2"])
def test_a_disk_that_is_full_at_the_second_file_leaves_none(modes, tmp_path, monkeypatch, ending):
    written, write = [], Path.write_bytes

    def fails(path, content):
        written.append(path)
        if len(written) > 1:
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", fails)
    monkeypatch.setattr("romkit.verbs.export._program", lambda *given: memoryview(b"program"))
    with pytest.raises(romkit.errors.FileError, match="cannot be written"):
        romkit.export(modes, tmp_path / f"model.{ending}", system=Lorenz96())
    assert len(written) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["time", "a", "latent[0]", "b\x01", "c\udc80", "line\nfeed", "tab\t", "der(q)", "q"]
)
def test_names_that_an_fmu_cannot_hold_are_refused(tmp_path, name):
    def variable(name):
        return fmu.Variable(name, "1", {})

    context, control = [("a", "1", 0.0)], ["der(q)"]
    others = fmu.variables(context, control, [0.0], [("q", "1"), ("r", "1")], "s")
    fmu._check_names(others)
    with pytest.raises(InputError) as caught:
        fmu._check_names([*others, variable(name)])
    assert caught.value.argument == "projection"


def test_a_unit_that_xml_cannot_hold_is_refused():
    refused("projection", fmu._check_names, [fmu.Variable("x", "m\x00", {})])
