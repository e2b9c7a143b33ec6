"""Burgers' equation on a square: the published equations, solved without iteration, and seen
through a basis.
"""

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.sparse.linalg import spsolve

import romkit
from romkit.systems import Burgers2D

T0 = torch.zeros((), dtype=torch.float64)
C = torch.tensor([[4.56, 0.019], [5.4, 0.028]], dtype=torch.float64)


def published(cells, mu, dt, steps):
    """Newton's method with a general sparse solver on the equations of Barnett, Farhat and Maday
    (2023).
    """
    h, n = 100 / cells, cells**2
    back = sparse.diags_array([np.ones(cells), -np.ones(cells - 1)], offsets=[0, -1]) / h
    unit = sparse.eye_array(cells)
    Dx, Dy = sparse.kron(unit, back).tocsr(), sparse.kron(back, unit).tocsr()
    middle = np.tile((np.arange(cells) + 0.5) * h, cells)
    source = 0.02 * np.exp(mu[1] * middle) + np.where(middle < h, mu[0] ** 2 / 2 / h, 0.0)

    def field(w):
        u, v = w[:n], w[n:]
        return np.concatenate(
            [source - Dx @ u**2 / 2 - Dy @ (u * v) / 2, -Dx @ (u * v) / 2 - Dy @ v**2 / 2]
        )

    def slopes(w):
        U, V = sparse.diags_array(w[:n]), sparse.diags_array(w[n:])
        blocks = [[Dx @ U + Dy @ V / 2, Dy @ U / 2], [Dx @ V / 2, Dx @ U / 2 + Dy @ V]]
        return -sparse.block_array(blocks)

    w = np.ones(2 * n)
    for _ in range(steps):
        known, new = w + dt / 2 * field(w), w
        for _ in range(10):
            residual = new - dt / 2 * field(new) - known
            new = new - spsolve((sparse.eye_array(2 * n) - dt / 2 * slopes(new)).tocsc(), residual)
        w = new
    return w


@pytest.mark.parametrize("engine", ["compiled", "torch"])
def test_one_sweep_is_the_published_implicit_model(engine):
    system, times = Burgers2D(cells=9, dt=0.5), torch.arange(5, dtype=torch.float64) * 0.5
    motion = system.simulate(system.start(C), C, times, engine=engine)
    assert motion.cost["engine"] == engine
    for state, mu in zip(motion.state, C.tolist(), strict=True):
        assert np.allclose(state[-1], published(9, mu, 0.5, 4), rtol=0, atol=1e-11)


def test_order_two_and_the_field_of_the_full_model():
    c, times = C[:1], torch.tensor([0.0, 4.0], dtype=torch.float64)
    ends = [
        Burgers2D(cells=10, dt=dt).simulate(Burgers2D(cells=10).start(c), c, times).state[0, -1]
        for dt in (1, 0.5)
    ]
    exact = romkit.solvers.RK4(0.02)(
        Burgers2D(cells=10).field(c), torch.ones(1, 200).double(), times
    ).states[0, -1]
    errors = [(end - exact).abs().max().item() for end in ends]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.3)


def test_the_tensors_are_exact_in_and_around_the_range_and_near_far_from_it():
    """Far away, without growth say, tensors of NaN were trajectories that are lost from the start."""
    system = Burgers2D(cells=10)
    data = system.dataset(mu1=[4.25, 5.5], mu2=[0.015, 0.03], duration=5.0)
    through = system.through(romkit.basis(data, rank=10))
    around, far = (
        [[4.25, 0.015], [4.9, 0.0213], [6.0, 0.035], [4.0, 0.01]],
        [[4.5, 0.0], [4.5, 0.05]],
    )
    y = torch.randn(6, 3, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    c = torch.tensor(around + far, dtype=torch.float64)
    full = through.basis.encode_tangent(system.field(c)(T0, through.basis.decode(y)))
    assert torch.allclose(through.field(c)(T0, y)[:4], full[:4], rtol=0, atol=1e-10)
    torch.testing.assert_close(through.field(c)(T0, y)[4:], full[4:], rtol=1e-5, atol=1e-6)


def test_published_contexts():
    system = Burgers2D()
    assert system.state_size == 20_000 == len(system.state_names)
    assert len(system.train_contexts(np.random.default_rng(0))) == 9 == len(system.test_contexts())
    assert tuple(system.test_contexts()[0]) == (4.56, 0.019)
    trained = {tuple(c) for c in system.train_contexts(np.random.default_rng(0))}
    assert not trained & {tuple(c) for c in system.test_contexts()}
