"""Five foreign data sets, small, each through the whole path."""

import numpy as np
import pytest

import romkit
from romkit.data import fields
from romkit.integrators import NeuralODE
from studies.own_data.paths import forecast
from studies.own_data.sets import SETS

SMALL = {
    "pulses": {"size": 0.4, "runs": 6, "duration": 20.0},
    "forced-array": {"size": 0.4, "runs": 5, "duration": 10.0},
    "plumes": {"size": 0.4, "runs": 6},
    "spirals": {"size": 0.3, "runs": 10},
    "noisy-pulses": {"size": 0.4, "runs": 10, "duration": 20.0},
}
QUICK = NeuralODE(hidden=(12,), regression_steps=150, shooting_steps=30, segment=4, batch_size=64)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_a_data_set_goes_the_whole_path(name, tmp_path, capsys):
    raw = SETS[name](**SMALL[name])
    projection, law, held_out, rollout = forecast(name, raw, QUICK, epochs=6)
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
