"""Rollouts at contexts that a fit has left out."""

import numpy as np
import pytest
import torch

import romkit
from romkit.data import ContextParameter
from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.numerics import LOST
from romkit.systems import System
from romkit.training.rollouts import LeftOutRollouts

CONTEXTS = [0.5, 0.8, 1.0, 1.3, 1.6, 2.0]


TURN = 2 * np.pi / 8.0
"""Angular velocity: data are one round, so that the leading modes are those of the circle."""


class Slaved(System):
    """A circle of radius √μ that attracts, and two components that are polynomials on it."""

    name, state_names, state_units = "slaved", ("a", "b", "u", "v"), ("1",) * 4
    context = (ContextParameter("mu", "1", 0.3, 2.5, "growth rate"),)
    dt, duration, horizon = 0.05, 8.0, 8.0

    def rhs(self, t, x, c):
        a, b, u, v = x.unbind(-1)
        r = c[..., 0] - a**2 - b**2
        da, db = r * a - TURN * b, r * b + TURN * a
        du = a * da - b * db - 10 * (u - 0.5 * (a**2 - b**2))
        dv = 0.5 * (a * db + b * da) - 10 * (v - 0.5 * a * b)
        return torch.stack([da, db, du, dv], -1)

    def initial_state(self, contexts, rng):
        a = contexts[..., 0].sqrt()
        return torch.stack([a, 0 * a, 0.5 * a**2, 0 * a], -1)


@pytest.fixture(scope="module")
def data():
    return Slaved().dataset(mu=CONTEXTS)


def test_rollouts_on_a_manifold_that_holds_the_motion_have_no_error(data):
    model = romkit.fit("polynomial-manifold", data, latent_dim=2, degree=2).double()
    rollouts = LeftOutRollouts(data, Slaved())
    contexts = torch.tensor([[0.8], [1.3], [9.0]], dtype=torch.float64)
    runs = rollouts.runs_at(contexts)
    assert runs.tolist() == [1, 3, -1]
    errors = rollouts.errors(model.operator(contexts[:2]), runs[:2])
    truth = data.isel(trajectory=[1, 3])
    followed = []
    for dynamics in (Galerkin(), PetrovGalerkin()):
        run = romkit.follow(model, truth, dynamics=dynamics, system=Slaved(), rtol=1e-8)
        apart = np.square(run["state"].values - truth["state"].values).mean((1, 2))
        spread = np.square(truth["state"] - truth["state"].mean("time")).mean(("time", "component"))
        followed.append(np.sqrt(apart / spread.values))
    assert float(errors.max()) < 0.05
    assert np.allclose(errors, np.mean(followed, axis=0), rtol=0.05, atol=1e-4)


def test_a_rollout_that_is_lost_counts_as_one_that_has_nothing_in_common(data):
    class Explosive(Slaved):
        def rhs(self, t, x, c):
            return x**3 + 1.0

    model = romkit.fit("pod", data, latent_dim=2).double()
    c = torch.tensor([[0.8]], dtype=torch.float64)
    errors = LeftOutRollouts(data, Explosive()).errors(model.operator(c), torch.tensor([1]))
    assert errors.tolist() == [LOST]


def test_contexts_that_move_and_runs_that_begin_with_a_gap_have_no_rollouts(data):
    gap = data.copy(deep=True)
    gap.state.values[1, 0, 0] = np.nan
    contexts = torch.tensor([[0.8], [1.0]], dtype=torch.float64)
    assert LeftOutRollouts(gap, Slaved()).runs_at(contexts).tolist() == [-1, 2]
    moving = data.assign_coords(
        mu=(("trajectory", "time"), np.repeat(data.mu.values[:, None], data.sizes["time"], 1))
    )
    assert LeftOutRollouts(moving, Slaved()).runs_at(contexts).tolist() == [-1, -1]


def test_fit_with_a_system_reports_the_error_of_its_rollouts(data):
    model = romkit.fit("polynomial-manifold", data, system=Slaved())
    assert model.latent_dim == 2
    assert model.config["degree"] == 2
    assert model.report["left_out_rollout_error"] < 0.05
    few = data.isel(time=slice(None, None, 4))
    assert "left_out_rollout_error" not in romkit.fit("polynomial-manifold", few).report
