"""The five foreign data sets, small, each through the whole path in at most 12 lines; packages beside them."""

import inspect
import json

import numpy as np
import pytest

import romkit
from romkit.data import fields
from romkit.integrators import NeuralODE
from studies.own_data import paths, rivals, run, sets

SMALL = {
    "pulses": {"size": 0.4, "runs": 6, "duration": 20.0},
    "noisy-pulses": {"size": 0.4, "runs": 6, "duration": 20.0},
    "forced-array": {"size": 0.4, "runs": 5, "duration": 10.0},
    "plumes": {"size": 0.4, "runs": 6},
    "spirals": {"size": 0.3, "runs": 5},
}
QUICK = NeuralODE(hidden=(12,), regression_steps=150, shooting_steps=30, segment=4, batch_size=64)


@pytest.mark.parametrize("name", sets.SETS)
def test_a_data_set_goes_the_whole_path(name, tmp_path, capsys):
    path, raw = paths.PATHS[name], sets.SETS[name](**SMALL[name])
    assert len(inspect.getsource(path).splitlines()) - 1 <= 12
    projection, law, held_out, rollout = path(raw, law=QUICK, epochs=6)
    said = capsys.readouterr().out
    assert "trajectories" in said
    assert "estimated where it is needed" in said
    assert np.isfinite(rollout.rom.values[..., 0, :]).all()
    assert 0 < float(rollout.nrmse_projected.median()) < 10  # six epochs
    stored = romkit.load(romkit.save(law, tmp_path / "law.safetensors"))
    again = romkit.rollout(
        held_out, romkit.load(romkit.save(projection, tmp_path / "model.safetensors")), dynamics=stored
    )
    assert np.array_equal(again.rom, rollout.rom, equal_nan=True)
    if name == "forced-array":
        assert law.control_names == ("shaker",)
        assert "missing" in said
        assert "technician" in said.splitlines()[-1]
        assert np.isnan(rollout.nrmse).any()
    if name == "plumes":
        assert "missing" in said
    if name == "spirals":
        assert "(whole numbers)" in said
        assert fields(rollout).rom_u.dims[-3:] == ("time", "y", "x")
        assert np.array_equal(fields(rollout).x, raw.x)


def test_packages_are_fitted_and_chosen_with_care(monkeypatch, capsys):
    data = romkit.data.describe(sets.pulses(**SMALL["pulses"]), context=["rate"])
    train, held_out = romkit.data.split(data, 0.3)
    pod = romkit.fit("pod", romkit.data.with_velocity(train), latent_dim=2)
    grids = {
        "opinf": {"degree": ("cA", "cAH"), "regularization": (0.1,), "rates": tuple(rivals.DIFFERENTIATIONS)[:1]},
        "pysindy": {"degree": (1, 2), "threshold": (0.01,), "rates": tuple(rivals.DIFFERENTIATIONS)[:1]},
    }
    for package, (fit, grid) in rivals.CANDIDATES.items():
        monkeypatch.setitem(rivals.CANDIDATES, package, (fit, grids.get(package, grid)))
        reduced, chosen = rivals.side_by_side(package, pod, train, held_out)
        errors = romkit.score(held_out, reduced).nrmse
        projected = pod(held_out)(held_out).assign_coords(reduced.state_std.coords)
        assert np.allclose(reduced.state[:, 0], projected.state[:, 0], atol=1e-5)
        assert float(errors.isel(time=0).max()) < float(errors.max()) < 20
        assert set(chosen) == {*rivals.CANDIDATES[package][1], "candidates"}


def test_rivals_find_a_law_that_they_can_express():
    """A linear motion whose rate depends on the context: what DMDc cannot say, the others find."""
    times, c = np.linspace(0, 6, 121), np.array([[-1.0], [-0.3], [0.4], [1.0]])
    angle = (1 + 0.3 * c) * times
    z = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    rates = next(iter(rivals.DIFFERENTIATIONS))
    for forecast in (
        rivals.operator_inference(z, c, times, "A", 1e-6, rates),
        rivals.sindy(z, c, times, 2, 0.01, rates),
    ):
        assert np.abs(forecast(z[1, 0], c[1]) - z[1]).max() < 1e-2
    alike = rivals.dmd(z[[1, 1]], c[[1, 1]], times, -1)
    assert np.abs(alike(z[1, 0], c[1]) - z[1]).max() < 1e-6


def test_committed_results_hold_what_they_should():
    found = json.loads(run.RESULTS.read_text())
    for name in sets.SETS:
        assert found[name]["lines"] <= 12
        assert found[name]["cpu_seconds"] < 300
        assert found[name]["provenance"]["versions"]["romkit"]
    pulses, noisy = (found[name]["errors_to_40"] for name in ("pulses", "noisy-pulses"))
    assert (pulses["projection_median"] <= 0.04, pulses["forecast_median"] <= 0.06) == (True, True)
    assert (noisy["projection_median"] <= 0.08, noisy["forecast_median"] <= 0.12) == (True, True)
    assert max(found["large"]["cpu_seconds_per_epoch"]) < 10
    assert found["large"]["peak_memory_GiB"] < 4
