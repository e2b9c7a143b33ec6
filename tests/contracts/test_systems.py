"""What every system must do, and the facts about each that its class promises."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from romkit.core.errors import DivergenceWarning
from romkit.data import DIMS, check_dataset, context_matrix
from romkit.systems import SYSTEMS, Burgers2D, CylinderWake, Lorenz96, MechanicalSystem, Pendulum
from romkit.testing import check_system
from tests.refusals import refused

SMALL = {Burgers2D: {"cells": 8}}
"""Sizes of systems that are large by default."""


def quick(kind, **more):
    """An instance whose transient is cut short, where it has any."""
    more = SMALL.get(kind, {}) | more
    return kind(
        **more,
        **{"transient": 1.0} if "transient" in {f.name for f in dataclasses.fields(kind)} else {},
    )


ALONE = {CylinderWake}
"""Tested in files of their own, since they simulate too slowly for all that is asked here."""

INSTANCES = (
    *(quick(kind) for kind in SYSTEMS.values() if kind not in ALONE),
    quick(Lorenz96, n=12),
)


@pytest.fixture(
    params=INSTANCES, ids=lambda system: f"{system.name}-{system.state_size}", scope="module"
)
def system(request):
    return request.param


@pytest.fixture(scope="module")
def data(system):
    middle = {p.name: [0.6 * p.low + 0.4 * p.high, p.high] for p in system.context}
    return system.dataset(**middle, duration=0.3)


def test_contract(system):
    check_system(system)


def test_datasets_follow_the_schema(system, data):
    assert check_dataset(data) is data
    assert data.state.dims == data.velocity.dims == DIMS
    assert data.sizes == {
        "trajectory": 2,
        "time": round(0.3 / system.dt),
        "component": system.state_size,
    }
    assert ("acceleration" in data) == isinstance(system, MechanicalSystem)
    assert list(data.component.values) == list(system.state_names)
    for name in (*data.data_vars, *system.context_names, "time"):
        assert {"units", "long_name"} <= set(data[name].attrs), name
    assert data.attrs["system"] == system.name
    assert torch.__version__.startswith(json.loads(data.attrs["versions"])["torch"])


def test_states_and_contexts_may_have_axes_and_a_precision_of_their_own(system, data):
    """As many states as contexts (matched from the right, contexts would be those of the other
    axis), or one state.
    """
    c = torch.from_numpy(context_matrix(data))
    names, times = (
        ("state", "velocity")[: system.order],
        torch.tensor([0.0, system.dt], dtype=torch.float64),
    )
    parts = tuple(torch.from_numpy(data[name].values[:, :2]) for name in names)
    together = system.simulate(parts, c, times).state
    for i, j in ((0, 1), (1, 0)):
        alone = system.simulate(tuple(part[i, j] for part in parts), c[i], times).state
        assert torch.allclose(alone, together[i, j], atol=1e-12)
    single = tuple(part[0, 0].float() for part in parts)  # computed in float64
    several = system.simulate(tuple(part.double().expand(2, -1) for part in single), c, times).state
    assert torch.equal(system.simulate(single, c, times).state, several.float())


def test_what_was_simulated_has_gradients(system, data):
    """Constants that a field keeps, and states, are those of autograd too."""
    c = torch.from_numpy(context_matrix(data)[:1])
    names = ("state", "velocity")[: system.order]
    parts = tuple(torch.from_numpy(data[name].values[:1, 0]) for name in names)
    state = system.simulate(parts, c, torch.tensor([0.0, system.dt], dtype=torch.float64)).state[
        :, -1
    ]
    x = state.clone().requires_grad_()
    rate = system.field(c)(torch.zeros(()), x, *parts[1:])
    (rate * state).sum().backward()
    assert x.grad.isfinite().all()


def test_bad_requests_are_named_in_one_line(system):
    name = system.context_names[0]
    refused(
        "split",
        system.dataset,
        "trian",
    )
    refused("split", system.dataset, "train", **{name: 0.5})
    refused(f"{name}: expected a value for this context parameter, got none", system.dataset)
    refused("nothing", system.dataset, nothing=1.0)


def test_lorenz_splits_are_those_of_the_paper():
    system = Lorenz96(transient=0.1)
    train, test = (
        system.dataset("train", seed=3, duration=0.02),
        system.dataset("test", duration=0.02),
    )
    assert train.sizes["trajectory"] == 18
    assert 3.133 <= train.F.min() <= train.F.max() <= 3.193
    assert np.allclose(test.F, np.linspace(3.133, 3.193, 10))
    again = system.dataset("train", seed=3, duration=0.02)
    assert train.identical(again)
    assert not np.allclose(train.F, system.dataset("train", seed=4, duration=0.02).F)


def test_lorenz_changes_its_wave_number_where_it_should():
    """Must hold: wave number 8 up to F = 3.163 and 7 from 3.167 on, after the default transient."""
    data = Lorenz96().dataset(F=[3.133, 3.15, 3.16, 3.163, 3.167, 3.175, 3.193], duration=1.0)
    assert data.wave_number.values.tolist() == [8, 8, 8, 8, 7, 7, 7]
    with pytest.warns(DivergenceWarning):
        data = Lorenz96(transient=0.0).dataset(F=[3.15, 1e9], duration=0.1)
    assert np.isnan(data.wave_number.values).tolist() == [False, True]


def test_lorenz_attractor_statistics():
    data = Lorenz96(transient=50.0).dataset(F=[3.14, 3.19], duration=10.0)
    assert data.state.std().item() == pytest.approx(1.5, abs=0.1)
    assert data.velocity.std().item() == pytest.approx(3.9, abs=0.4)


class Broken(Lorenz96):
    """A ring with a mistake that `how` chooses."""

    def __init__(self, how):
        super().__init__(n=5, transient=0.0, dt=0.2 if how == "samples rarely" else 0.01)
        object.__setattr__(self, "how", how)
        object.__setattr__(self, "step", 0.01)

    def rhs(self, t, x, c):
        if self.how == "mixes members":
            return super().rhs(t, x, c) + 1e-3 * x.mean()
        if self.how == "changes the precision":
            return super().rhs(t, x, c).double()
        return super().rhs(t, x, c)

    def weigh(self, x, u, c):
        weights = torch.linspace(1, 2, 5, dtype=x.dtype).unsqueeze(-1)
        wrong = {
            "is not linear": u.square(),
            "is not symmetric": u.cumsum(-2),
            "is negative": -weights * u,
        }
        return wrong.get(self.how, weights * u)

    def initial_state(self, contexts, rng):
        noise = (
            torch.rand(len(contexts), 5)
            if rng is not None and self.how == "forgets the seed"
            else 0.0
        )
        return super().initial_state(contexts, rng) + noise

    @property
    def state_units(self):
        return ["m"] * (4 if self.how == "lacks a unit" else 5)


class Shifted(Pendulum):
    """The simulation and the field disagree."""

    def acceleration(self, t, q, v, c):
        return 1.001 * super().acceleration(t, q, v, c)


def test_the_contract_can_fail():
    check_system(Broken("not at all"))
    check_system(
        Broken("samples rarely")
    )  # its step resolves the motion, and the interval of the samples does not
    for system, law in (
        (Broken("lacks a unit"), "units, one per component: expected 5, got 4"),
        (Broken("mixes members"), "loop: relative error"),
        (Broken("changes the precision"), "precision of the field at float32 states"),
        (Broken("is not linear"), "W(2 u - v) = 2 W u - W v"),
        (Broken("is not symmetric"), "uᵀ W v = vᵀ W u"),
        (Broken("is negative"), "uᵀ W u >= 0"),
        (Broken("forgets the seed"), "two datasets of one seed are identical"),
        (Shifted(), "pendulum: velocities = integral of their rates: relative error"),
    ):
        refused(law, check_system, system, error=AssertionError)
