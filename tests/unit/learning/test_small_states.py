"""Small states: laws of all components in their own units, whose equations can be read."""

import functools
import re

import numpy as np
import pytest
import scipy.integrate
import xarray as xr

import romkit
from romkit.core.errors import InputError
from romkit.laws import SINDy

NAMES = ["q1", "q2", "v1", "v2"]
CUBIC = SINDy(degree=3, threshold=0.01)


@functools.cache
def beams(level_name="level"):
    """Two coupled oscillators with cubic springs of stiffness k, released at several levels."""
    time = np.linspace(0, 15, 151)

    def rates(t, s, k):
        q, v = s[:2], s[2:]
        return [*v, *(-1.25 * q + 0.25 * q[::-1] - k * q**3 - 0.03 * v)]

    stiffness, level = np.meshgrid([0.2, 0.4, 0.5, 0.7, 0.9], [0.6, 1.2])
    runs = []
    for k, height in zip(stiffness.ravel(), level.ravel(), strict=True):
        start = [height, 0, 0, 0]
        solution = scipy.integrate.solve_ivp(
            rates, (0, 15), start, args=(k,), t_eval=time, rtol=1e-9, atol=1e-9
        )
        runs.append(solution.y.T)
    states = np.stack(runs)
    variables = {name: (("run", "t"), states[..., column]) for column, name in enumerate(NAMES)}
    coords = {"t": time, "k": ("run", stiffness.ravel()), level_name: ("run", level.ravel())}
    return xr.Dataset(variables, coords)


@pytest.fixture(scope="module")
def learned():
    return romkit.learn(beams().drop_vars("level"), "k", seconds=6.0)


def test_the_equations_are_found(learned):
    """v1' = -1.25 q1 + 0.25 q2 - k q1³ - 0.03 v1, as it was simulated."""
    assert learned.projection.name == "identity"
    assert learned.error < 1e-3
    assert re.findall("(\\w+)' = ", str(learned)) == NAMES
    expressions = [equation.rhs for equation in learned.law.to_sympy()]
    values = {"q1": 0.7, "q2": -0.3, "v1": 0.2, "v2": 0.5, "k": 0.6}
    exact = -1.25 * 0.7 + 0.25 * -0.3 - 0.6 * 0.7**3 - 0.03 * 0.2
    assert float(expressions[2].subs(values)) == pytest.approx(exact, rel=1e-3)


def test_a_model_of_all_components_is_kept(learned, tmp_path):
    kept = romkit.Learned.load(learned.save(tmp_path / "model"))
    assert str(kept) == str(learned)
    assert kept.train.sizes["trajectory"] == beams().sizes["run"]
    start = beams().isel(run=3, t=0)[NAMES]
    forecast = kept.forecast(initial_state=start, duration=15, dt=0.1, k=0.7)
    assert float(abs(forecast.q1 - beams().q1.values[3]).max()) < 1e-2


def test_runs_that_start_apart_are_not_called_individuals(learned):
    assert "ndividuals" not in learned.advice


@pytest.mark.parametrize("name", ["level", "dt"])
def test_a_parameter_called_like_an_argument_goes_into_context(name):
    runs = beams(name)
    model = romkit.learn(runs, ["k", name], kinds=[CUBIC], latent_dim=4, seconds=2.0)
    start = runs.isel(run=3, t=0)[NAMES]
    times = {"duration": 1, "dt": 0.1}
    if name != "dt":
        with pytest.raises(InputError) as refused:
            model.forecast(initial_state=start, **times, **{"k": 0.7, name: 0.6})
        assert refused.value.argument == name
    forecast = model.forecast(initial_state=start, **times, k=0.7, context={name: 0.6})
    assert float(abs(forecast.q1 - runs.q1.values[3, :11]).max()) < 1e-2
