"""The CUDA graph of a training step, where there is a GPU, and what happens where compiling fails."""

import pytest
import torch

import romkit
from romkit.engine.inductor import Traced, compile_anew

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

    settings = {"seeds": [0, 1], "epochs": 2, "rollouts.steps": 1, "rollouts.every": 1}
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


def test_operations_that_write_are_compiled_in_order():
    constant = torch.arange(3.0)

    def step(x, pair):
        y = x * constant
        first = y.sin()
        y[..., 0] = 2.0
        y[..., 1:].add_(first[..., :2])
        return (y, first), pair[1]

    compiled = Traced(step)
    for seed in range(2):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
        (y, first), passed = compiled(x, (x, x + 1))
        expected = step(x, (x, x + 1))
        assert torch.allclose(y, expected[0][0])
        assert torch.allclose(first, expected[0][1])
        assert torch.equal(passed, x + 1)
