"""Errors of rollouts without their truth: a wave that is late, intervals, ensembles, and what is
refused.
"""

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.data import ContextParameter
from romkit.laws import DMD
from tests.refusals import refused

TRUE = 2.0
"""Frequency of the full model."""


class Wave(romkit.systems.System):
    """ẋ = ω J x + (1 - |x|²) x: the unit circle at frequency ω; the context is a name alone."""

    name, state_names, state_units = "wave", ("x", "y"), ("1", "1")
    context = (ContextParameter("a", "1", 0.0, 1.0, "nothing"),)
    dt, duration, horizon = 0.05, 40.0, 40.0

    def rhs(self, t, x, c):
        return (
            TRUE * torch.stack([-x[..., 1], x[..., 0]], -1)
            + (1 - x.square().sum(-1, keepdim=True)) * x
        )

    def initial_state(self, contexts, rng):
        return contexts.new_tensor([[1.0, 0.0]]).expand(len(contexts), 2)


def run(frequency, radius=1.0, duration=40.0):
    """Runs on circles at these frequencies, with their error in deviations of 1/√2 each."""
    frequency, radius = np.broadcast_arrays(np.atleast_1d(frequency), radius)
    t = np.linspace(0, duration, round(duration / 0.05) + 1)
    turned = lambda rate, r: r[..., None] * np.stack([np.cos(rate * t), np.sin(rate * t)], -1)  # noqa: E731
    x = turned(frequency[:, None], radius[:, None] + 0 * t)
    error = np.sqrt(((x - turned(TRUE, 1 + 0 * t)) ** 2).mean(-1) * 2)
    variables = {"state": (romkit.data.schema.DIMS, x), "nrmse": (("trajectory", "time"), error)}
    coords = {
        "time": t,
        "a": ("trajectory", 0 * frequency),
        "state_std": ("component", np.full(2, 0.5**0.5)),
    }
    return xr.Dataset(variables, coords)


def test_a_late_wave_has_the_error_of_its_phase():
    rates = TRUE / np.array([1.002, 1.0005, 0.999])
    late = run(rates)
    estimate = romkit.error_estimate(late, Wave())
    np.testing.assert_allclose(
        estimate.drift, TRUE / rates - 1, rtol=0.02
    )  # windows are straight to (Δω w)²
    np.testing.assert_allclose(estimate["shift"][:, 100:], late.nrmse[:, 100:], rtol=0.05)
    assert estimate.attrs["share"] <= 0.1


def test_windows_at_other_places_of_a_single_run():
    late = run(TRUE / 1.002).isel(trajectory=0)
    assert (
        late.merge(romkit.error_estimate(late, Wave())).error.dims == late.nrmse.dims
    )  # a column of the run
    drift = [float(romkit.error_estimate(late, Wave(), windows=k).drift) for k in (1, 3, 8)]
    np.testing.assert_allclose(drift, 0.002, rtol=0.02)


def test_amplitude_is_no_lag():
    estimate = romkit.error_estimate(run(TRUE, radius=1.05), Wave(), windows=1)
    assert abs(float(estimate.drift[0])) < 1e-4
    assert float(estimate.error.max()) < 0.1


def test_intervals_cover_what_they_state():
    rng = np.random.default_rng(0)
    known, unseen = (
        run(TRUE * (1 + 0.003 * rng.standard_normal(40)), 1 + 0.03 * rng.random(40))
        for _ in range(2)
    )
    estimate = romkit.error_estimate(unseen, Wave(), known=known)
    inside = (estimate.lower <= unseen.nrmse) & (unseen.nrmse <= estimate.upper)
    assert 0.8 < float(inside.mean()) < 0.99  # of 40 trajectories, whose times are not independent
    narrow = romkit.error_estimate(unseen, Wave(), known=known, coverage=0.5)
    assert bool((narrow.upper <= estimate.upper).all())


def test_a_lost_run_has_an_infinite_error():
    late = run([TRUE, TRUE])
    late["state"][1, 300:] = np.nan
    estimate = romkit.error_estimate(late, Wave())
    assert np.isfinite(estimate.error[0]).all()
    assert np.isinf(estimate.error[1, 300:]).all()


def test_disagreement_of_an_ensemble():
    system = romkit.systems.Lorenz96(transient=0.0, duration=0.5)
    data = system.dataset(F=[3.14, 3.15, 3.16, 3.18])
    stack = romkit.fit("ncae", data, epochs=3, seeds=range(3), verbose=False)
    band = romkit.Ensemble(stack, DMD().fit(stack, data)).follow(data)
    estimate = romkit.error_estimate(band, known=band.assign(nrmse=romkit.score(data, band).nrmse))
    spread = np.sqrt((band.spread**2).mean("component") / (band.state_std**2).mean())
    np.testing.assert_allclose(estimate.local, spread, rtol=1e-12)
    assert bool((estimate.lower < estimate.upper).all())


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("run", {"system": None}),
        ("run", {"run": run(TRUE, duration=0.2)}),
        (
            "run",
            {"run": run(TRUE).drop_vars("state_std")},
        ),
        ("run", {"run": run(TRUE).expand_dims(seed=2)}),
        (
            "run",
            {"run": run(TRUE).assign_coords(a=("time", np.zeros(801)))},
        ),
        (
            "run",
            {"system": romkit.systems.Pendulum()},
        ),
        ("known", {"known": run(TRUE)}),
        (
            "known",
            {"known": run([TRUE, TRUE]).drop_vars("nrmse")},
        ),
        ("windows", {"windows": 0}),
        ("coverage", {"coverage": 1.5}),
    ],
)
def test_refusals(argument, given):
    if isinstance(given.get("system"), romkit.systems.Pendulum):
        given["run"] = run(TRUE).assign_coords(
            {name: 0.5 for name in given["system"].context_names}
        )
    refused(argument, romkit.error_estimate, **({"run": run(TRUE), "system": Wave()} | given))
