"""Tables as their owners name the columns: a time of another name, units, first states as people give them."""

import numpy as np
import pandas as pd
import pytest

import romkit

DAYS = 0.2 * np.arange(31)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Oscillators of several frequencies, times in `day`."""
    runs = []
    for w in (0.8, 1.0, 1.2, 1.4, 1.6):
        x, v = np.cos(w * DAYS), -w * np.sin(w * DAYS)
        runs.append(pd.DataFrame({"w [1/d]": w, "day": DAYS, "x [mm]": x, "velocity [mm/d]": v}))
    return pd.concat(runs, ignore_index=True)


def test_a_model_of_such_a_table_takes_first_states_by_name(table, capsys):
    pytest.importorskip("pint")
    is_known = table["w [1/d]"] != 1.2
    model = romkit.learn(table[is_known], "w", time="day", kinds=["sindy"], seconds=2.0)
    assert list(model.train["component"].values) == ["x", "velocity"]
    starts = [
        table[~is_known].iloc[0],
        {"x": 1.0, "velocity": 0.0},
        {"x [mm]": 1.0, "velocity [mm/d]": 0.0},
    ]
    for start in starts:
        forecast = model.forecast(start, duration=6, dt=0.2, w=1.2)
        np.testing.assert_allclose(forecast.x, np.cos(1.2 * DAYS), atol=0.02)
        assert forecast.x.dims == ("day",)
    with pytest.warns(romkit.errors.DataWarning, match="from m to mm"):
        metres = model.forecast({"x [m]": 1e-3, "velocity": 0.0}, duration=6, dt=0.2, w=1.2)
    np.testing.assert_allclose(metres.x, forecast.x, atol=1e-6)
