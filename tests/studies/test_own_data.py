"""Five foreign data sets, small, each through the whole path in at most 12 lines."""

import inspect

import numpy as np
import pytest

import romkit
from romkit.data import fields
from studies.own_data import paths, run, sets
from studies.pieces import stored

SMALL = run.SCALES["smoke"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sets.SETS)
def test_a_data_set_goes_the_whole_path(name, tmp_path, capsys):
    path, raw = paths.PATHS[name], sets.SETS[name](**SMALL.sets[name])
    assert len(inspect.getsource(path).splitlines()) - 1 <= 12
    projection, law, held_out, rollout = path(raw, **SMALL.path)
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


def test_committed_results_hold_what_they_should():
    found = stored(run.HERE / "results.json")
    for name in sets.SETS:
        assert found[name]["lines"] <= 12
        assert found[name]["cpu_seconds"] < 300
        assert found[name]["provenance"]["versions"]["romkit"]
    pulses, noisy = (found[name]["errors_to_40"] for name in ("pulses", "noisy-pulses"))
    assert (pulses["projection_median"] <= 0.04, pulses["forecast_median"] <= 0.06) == (True, True)
    assert (noisy["projection_median"] <= 0.08, noisy["forecast_median"] <= 0.12) == (True, True)
    assert max(found["large"]["cpu_seconds_per_epoch"]) < 10
    assert found["large"]["peak_memory_GiB"] < 4
