"""Runs as one launch: the statements of the kernels for a GPU, by threads of a CPU, by NVRTC, and
on a GPU.
"""

import re
import shutil

import pytest
import torch

import romkit
from romkit.engine import RungeKutta, Unsupported, build, cuda
from romkit.engine.adaptive import FLOOR, Code, Explicit, Implicit, Limits, Progress
from romkit.engine.cuda import LOCAL_LIMIT, THREADS
from romkit.laws import SINDy
from romkit.models import ReducedModel
from romkit.solvers import RK4, Adaptive
from romkit.systems import Lorenz96

MODELS = ("ncae", "flow", "pod", "sindy")
TIMES = torch.linspace(0, 5, 11, dtype=torch.float64)
MEMBERS = THREADS + 8
"""A whole block, and a part of one."""

HOST = f"""
#define THREADS {THREADS}
#define __global__
#define __noinline__
static struct {{ unsigned x; }} blockIdx, threadIdx;
extern "C" void become(unsigned block, unsigned thread) {{ blockIdx.x = block, threadIdx.x = thread; }}
"""


class OnHost:
    """The kernels as functions of a CPU, which goes through the threads one by one."""

    def __init__(self, text, device):
        self.library = build.library(HOST + text)

    def __getattr__(self, name):
        def launch(*arguments):
            for thread in range(-(-arguments[-1].value // THREADS) * THREADS):
                self.library.become(*divmod(thread, THREADS))
                getattr(self.library, name)(*arguments)

        return launch


class LaunchedSteps(RungeKutta):
    """RK4 with a thread for each member."""

    _build = RungeKutta._build_gpu


class LaunchedPair(Explicit):
    """Controlled steps with a thread for each member."""

    _build = Explicit._build_gpu


class LaunchedStiff(Implicit):
    """Implicit steps with a thread for each member."""

    _build = Implicit._build_gpu


@pytest.fixture(scope="module")
def waves():
    return Lorenz96(transient=20.0).dataset(F=[3.14, 3.15, 3.18], duration=10)


@pytest.fixture(scope="module")
def models(waves):
    """Projections by name, and the dynamics of their latent states."""
    equations = {"system": Lorenz96()}
    two, four = (romkit.fit("pod", waves, latent_dim=latent_dim) for latent_dim in (2, 4))
    law = SINDy(degree=3, threshold=0.05, refine=False).fit(two, waves)
    return {
        "ncae": (romkit.load("ncae-lorenz96"), equations),
        "flow": (romkit.load("flow-lorenz96"), equations),
        "pod": (four, equations),
        "sindy": (two, {"dynamics": law}),
    }


@pytest.fixture
def model(request, models):
    return models[request.param]


@pytest.fixture
def field(model):
    """The latent field at as many contexts as there are members, and where it starts."""
    projection, given = model
    F = torch.linspace(3.14, 3.18, MEMBERS, dtype=torch.float64).unsqueeze(1)
    reduced = ReducedModel.build(
        projection, given.get("dynamics"), given.get("system")
    ).fix_context(F)
    start = torch.full((MEMBERS, projection.latent_dim), 0.1, dtype=torch.float64)
    return reduced.field, start


def followed(kernel, field, y):
    """States at the ends of ten intervals of 50 steps."""
    h, steps = torch.full((len(TIMES) - 1,), 0.01, dtype=y.dtype), torch.full((len(TIMES) - 1,), 50)
    state, states = y.clone(), y.new_empty(len(TIMES) - 1, *y.shape)
    kernel(field, TIMES.to(y), y).integrate(TIMES[:-1].to(y), h, steps, 1e3, state, states)
    return states


def controlled(kernel, field, y):
    """States at the outputs by steps of controlled error, and how many each member took."""
    times = TIMES.to(y)
    start = y.reshape(-1, y.shape[-1])
    h = torch.full(start.shape[:1], 1e-3, dtype=y.dtype)
    progress = Progress.begin(times[0], start, h, start.isfinite().all(-1))
    limits = Limits(times, times[4:5] + 0.05, 1e-6, 0.0, FLOOR, 1.0, 1e3)
    states = start.new_full((len(times), *start.shape), torch.nan)
    kernel(field, times, y).advance(progress, limits, states, 10_000)
    assert not (progress.code == Code.RUNNING).any()
    return states[1:], progress.taken


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
class TestThreadsOnACPU:
    @pytest.fixture(autouse=True)
    def _by_threads(self, monkeypatch):
        monkeypatch.setattr(cuda, "module", OnHost)

    @pytest.mark.parametrize("model", ["ncae"], indirect=True)
    @torch.no_grad()
    def test_they_follow_the_compiled_run(self, field):
        found, expected = followed(LaunchedSteps, *field), followed(RungeKutta, *field)
        assert (expected[-1] - expected[0]).abs().max() > 0.1
        assert torch.allclose(found, expected, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("model", ["sindy"], indirect=True)
    @pytest.mark.parametrize(
        ("launched", "kernel"), [(LaunchedPair, Explicit), (LaunchedStiff, Implicit)]
    )
    @torch.no_grad()
    def test_their_steps_are_those_of_the_compiled_run(self, field, launched, kernel):
        (found, taken), (expected, taken_there) = (
            controlled(each, *field) for each in (launched, kernel)
        )
        # sums are rounded in another order, which a Jacobian by differences magnifies
        steps, allowed = (2, 1e-4) if kernel is Implicit else (0, 1e-9)
        assert (taken - taken_there).abs().max() <= steps
        assert torch.allclose(found, expected, rtol=0, atol=allowed)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    def test_members_along_two_axes_that_diverge_or_not(self, dtype):
        y = torch.linspace(-5, 0.9, 3 * MEMBERS).to(dtype).reshape(3, MEMBERS, 1)
        found, expected = (
            followed(kernel, lambda t, y: y * (1 - y), y) for kernel in (LaunchedSteps, RungeKutta)
        )
        assert torch.equal(found.isfinite(), expected.isfinite())
        assert 0 < int((~expected.isfinite()).sum()) < expected.numel() // 2
        lost = (~expected.isfinite()).any(0)
        assert torch.allclose(
            found[:, ~lost], expected[:, ~lost], rtol=0, atol=1e3 * torch.finfo(dtype).eps
        )
        assert (found[-1, lost] == 0).all()  # from where they went on

    def test_what_a_thread_cannot_hold_is_refused(self):
        y = torch.ones(2, LOCAL_LIMIT // 8, dtype=torch.float64)
        with pytest.raises(Unsupported, match="too many for a thread"):
            LaunchedSteps(lambda t, y: -y, TIMES, y)


def assembled(monkeypatch, kernel, field, y):
    """Registers of the kernels for an H100, their bytes of local memory, and those that spill."""
    pytest.importorskip("cuda.bindings", reason="no bindings of CUDA")
    said = []

    def compile_only(text, device):
        source = f"#define THREADS {THREADS}\n{cuda.rolled(text)}"
        said.append(cuda.compiled(source, "sm_90")[1])
        raise Unsupported("compiled, and not run")

    monkeypatch.setattr(cuda, "module", compile_only)
    with pytest.raises(Unsupported, match="compiled, and not run"):
        kernel(field, TIMES.to(y), y)
    numbers = lambda pattern: list(map(int, re.findall(pattern, said[0])))  # noqa: E731
    spilled = numbers(r"(\d+) bytes spill (?:stores|loads)")
    return numbers(r"Used (\d+) registers"), numbers(r"(\d+) bytes cumulative stack"), spilled


@pytest.mark.parametrize("model", ["flow", "sindy"], indirect=True)  # the largest, and a law
@pytest.mark.parametrize("kernel", [LaunchedSteps, LaunchedPair, LaunchedStiff])
@torch.no_grad()
def test_nvrtc_compiles_them_without_spilling(field, monkeypatch, kernel):
    registers, local, spilled = assembled(monkeypatch, kernel, *field)
    print(
        f"a run, an evaluation: {registers} registers, {local} bytes of local memory"
    )  # shown by pytest -s
    assert len(registers) == 2
    assert max(registers) <= 128
    assert max(local) < LOCAL_LIMIT
    assert len(spilled) >= 4
    assert not any(spilled)


def test_nvrtc_knows_numbers_in_single_precision_that_are_none(monkeypatch):
    def field(t, y):
        return torch.where(
            y > 2, torch.inf, torch.where(y < -2, torch.nan, y.erf() * y.atan2(y + 1) - y.pow(1.5))
        )

    registers, _, spilled = assembled(monkeypatch, LaunchedSteps, field, torch.ones(3, 2))
    assert len(registers) == 2
    assert not any(spilled)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("solver", "allowed"),
    # a step of controlled length follows from rounded numbers, so runs agree to the tolerance
    [(RK4(0.01), 1e-10), (Adaptive(rtol=1e-8), 1e-6)],
)
@pytest.mark.parametrize("model", MODELS, indirect=True)
def test_a_run_on_a_gpu_is_that_on_a_cpu(model, solver, allowed):
    projection, given = model
    start = torch.full((MEMBERS, projection.latent_dim), 0.1).numpy()
    F = torch.linspace(3.14, 3.18, MEMBERS).numpy()
    there, here = (
        romkit.forecast(
            projection,
            initial_state=start,
            F=F,
            duration=20,
            dt=0.01,
            solver=solver,
            engine="compiled",
            device=device,
            **given,
        )
        for device in ("cuda", "cpu")
    )
    assert there.attrs["engine"] == "compiled"
    assert abs(there.latent - here.latent).max() < allowed


@pytest.mark.gpu
def test_a_compiled_run_on_a_gpu_is_one_launch():
    def field(t, y):
        return y * (1 - y) + torch.sin(t)

    y = torch.linspace(-5, 0.9, 100, dtype=torch.float64, device="cuda").unsqueeze(1)
    found, expected = (RK4(1e-3)(field, y0, TIMES.to(y0), engine="compiled") for y0 in (y, y.cpu()))
    assert found.cost["engine"] == "compiled"
    assert torch.equal(found.status.cpu(), expected.status)
    assert torch.allclose(
        found.states.cpu(), expected.states, rtol=1e-9, atol=1e-10, equal_nan=True
    )


@pytest.mark.gpu
def test_a_stiff_run_on_a_gpu_is_that_on_a_cpu():
    def field(t, y):
        slow, fast = y.unbind(-1)
        return torch.stack([-slow, 1e4 * (slow**2 - fast)], dim=-1)

    y = torch.linspace(0.1, 1, 200, dtype=torch.float64).reshape(100, 2)
    there, here = (Adaptive()(field, y0, TIMES.to(y0), engine="compiled") for y0 in (y.cuda(), y))
    assert there.cost["engine"] == "compiled"
    assert torch.allclose(there.states.cpu(), here.states, rtol=1e-7, atol=1e-9)


@pytest.mark.gpu
def test_members_that_are_mixed_are_captured():
    y = torch.rand(50, 3, dtype=torch.float64, device="cuda")
    found, expected = (
        RK4(0.01)(lambda t, y: y.mean(0) - y, y, TIMES.cuda(), engine=engine)
        for engine in ("compiled", "torch")
    )
    assert found.cost["engine"].startswith("captured (it mixes the members")
    assert torch.allclose(found.states, expected.states, rtol=0, atol=1e-12)
