"""Training steps that torch compiles, in a CUDA graph where there is a GPU, and what happens where
compiling fails. All is in this file, since importing the compiler takes two seconds.
"""

import pytest
import torch

import romkit
from romkit.engine import inductor
from romkit.engine.inductor import Traced, compile_anew
from romkit.integrators import PetrovGalerkin
from romkit.projections import stack
from romkit.training.latent import Advance

CPU = torch.device("cpu")


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("optimizer", "engine"),
    [("adam", "compiled"), ("riemannian-adam", "compiled"), ("soap", "compiled"), ("adam", "auto")],
)
def test_training_in_a_cuda_graph_follows_eager_training(lorenz_data, optimizer, engine):
    settings = {
        "seeds": [0, 1],
        "epochs": 3,
        "batch_size": 100,
        "optimizer": optimizer,
        "device": "cuda",
    }
    eager = romkit.fit("ncae", lorenz_data, **settings, engine="torch").report["seeds"]
    captured = romkit.fit("ncae", lorenz_data, **settings, engine=engine).report["seeds"]
    for one, other in zip(eager, captured, strict=True):
        assert (one["captured"], other["captured"]) == (False, True)
        assert engine == "compiled" or not other["compiled"]
        assert other["losses"] == pytest.approx(one["losses"], rel=1e-3)


def test_compiled_training_follows_eager_training(lorenz_data):
    settings = {"layers": (2, 36), "epochs": 3}
    eager = romkit.fit("cae", lorenz_data, **settings, engine="torch")
    compiled = romkit.fit("cae", lorenz_data, **settings, engine="compiled")
    assert compiled.report["losses"] == pytest.approx(eager.report["losses"], rel=1e-3)


def test_every_model_of_a_process_is_compiled(monkeypatch):
    torch_compile = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda f, **_: torch_compile(f, dynamic=False, backend="eager")
    )

    def make(offset):
        return lambda x: x + offset if torch.compiler.is_compiling() else x * torch.nan

    one = torch.ones(2)
    for offset in range(12):  # torch by itself stops at the ninth
        assert torch.equal(compile_anew(make(offset), CPU)(one), one + offset)


def test_a_compiled_step_of_a_rollout_is_one_graph(lorenz, projection):
    step = Advance(stack([projection]), lorenz, PetrovGalerkin(), 0.1, speed=1.0)
    w, c = torch.full((1, 3, 2), 0.1), torch.full((1, 3, 1), 3.15)
    compiled = torch.compile(
        step, backend="eager", fullgraph=True
    )  # raises where a check looks at values
    torch.testing.assert_close(compiled(w, c), step(w, c))


def test_what_a_user_has_compiled_stays_compiled(monkeypatch):
    compilations, torch_compile = [], torch.compile

    def backend(graph, inputs):
        compilations.append(graph)
        return graph.forward

    one = torch.ones(2)
    users = torch.compile(lambda x: x + 1, backend=backend)
    users(one)
    monkeypatch.setattr(
        torch, "compile", lambda f, **_: torch_compile(f, dynamic=False, backend="eager")
    )
    assert torch.equal(compile_anew(lambda x: 2 * x, CPU)(one), 2 * one)
    assert torch.equal(users(one), one + 1)
    assert len(compilations) == 1


def test_where_the_compiler_fails_training_goes_on_without(lorenz_data, monkeypatch):
    def broken(graph, inputs, **options):
        raise OSError("no compiler")

    settings = {"seeds": [0, 1], "epochs": 2, "layers": (2, 36)}
    settings |= {"rollouts.steps": 1, "rollouts.every": 1}
    eager = romkit.fit("cae", lorenz_data, **settings, engine="torch")
    torch_compile = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda step, **more: torch_compile(step, **more, backend=broken)
    )
    monkeypatch.setattr("torch._inductor.compile", broken)
    with pytest.warns(RuntimeWarning, match="without compiling.*no compiler"):
        fallen = romkit.fit("cae", lorenz_data, **settings, engine="compiled")
    assert not fallen.report["seeds"][0]["compiled"]
    for one, other in zip(eager.parameters(), fallen.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("compiles", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_operations_that_write_are_compiled_in_order(monkeypatch, compiles):
    """Also in the graph that the compiler is given, which is made in no time."""
    if compiles:
        # Python calls the one kernel: the library that calls many takes longer to compile
        quick = inductor.QUICK_START | {"cpp_wrapper": False}
        monkeypatch.setattr(inductor, "QUICK_START", quick)
    else:
        monkeypatch.setattr(inductor, "compile_graph", lambda graph, *_: graph)
    constant = torch.arange(3.0)

    def step(x, pair):
        y = x * constant
        first = y.sin()
        y[..., 0] = 2.0
        y[..., 1:].add_(first[..., :2])
        # the same operation as before, of other numbers
        return (y, first + y.sin()), pair[1]

    compiled = Traced(step)
    for seed in range(2):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
        (y, first), passed = compiled(x, (x, x + 1))
        expected = step(x, (x, x + 1))
        assert torch.allclose(y, expected[0][0])
        assert torch.allclose(first, expected[0][1])
        assert torch.equal(passed, x + 1)
