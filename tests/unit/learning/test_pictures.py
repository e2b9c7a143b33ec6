"""Pictures of data and forecasts say what they show: units, contexts, and what they leave out."""

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import romkit
from romkit.cli.main import app
from romkit.plotting import plot_forecast
from romkit.plotting.forecasts import plot_courses


def waves(runs=5):
    time, x = np.linspace(0, 1, 21), np.linspace(0, 1, 6)
    speed = np.linspace(1, 2, runs)
    height = np.sin(4 * x - speed[:, None, None] * time[:, None])
    return xr.Dataset(
        {"height": (("run", "t", "x"), height, {"units": "m"})},
        {"t": ("t", time, {"units": "s"}), "x": x, "speed": ("run", speed, {"units": "m/s"})},
    )


def band(width):
    data = romkit.data.describe(waves(), context=["speed"]).isel(trajectory=[0])
    state = data["state"]
    ends = {"lower": state - width / 2, "upper": state + width / 2}
    return data.assign(ends)[["lower", "state", "upper"]].assign_attrs(data.attrs)


def test_a_forecast_has_its_unit_and_its_context():
    figure = plot_forecast(band(0.1))
    assert "(m)" in figure.axes[0].get_ylabel()
    assert "m/s" in figure.axes[0].get_title("left")


@pytest.mark.parametrize(("width", "is_hidden"), [(0.5, False), (0.15, False), (0.01, True)])
def test_intervals_that_lines_hide_have_a_panel_of_their_widths(width, is_hidden):
    drawn = band(width)
    figure = plot_forecast(drawn)
    assert len(figure.axes) == 4 + is_hidden
    if is_hidden:
        largest, _ = figure.axes[-1].lines
        spread = np.ptp(drawn.state.values, axis=1).min()
        assert np.allclose(largest.get_ydata(), width / 2 / spread)


def test_the_component_with_the_widest_interval_is_drawn():
    drawn = band(0.01)
    for component in range(drawn.sizes["component"]):
        width = np.where(np.arange(drawn.sizes["component"]) == component, 0.4, 0.01)
        wide = drawn.assign(lower=drawn.state - width / 2, upper=drawn.state + width / 2)
        figure = plot_forecast(wide)
        bands = [panel.collections[0] for panel in figure.axes if panel.collections]
        shaded = [area.get_paths()[0].get_extents().height for area in bands]
        assert max(shaded) > 0.4


def test_runs_with_times_of_their_own_are_curves():
    times = np.sort(np.random.default_rng(0).random(12))
    states = np.full((2, 12, 1), np.nan)
    states[0, ::2, 0] = np.sin(times[::2])
    states[1, 1::2, 0] = np.cos(times[1::2])
    data = romkit.data.from_arrays(states, times, context={"load": [1.0, 2.0]})
    first, second = plot_courses(data).axes
    assert np.allclose(first.lines[0].get_ydata(), np.sin(times[::2]))
    assert np.allclose(second.lines[0].get_xdata(), times[1::2])


@pytest.mark.parametrize("kind", ["netcdf", "csv"])
def test_files_that_romkit_did_not_write_are_drawn(tmp_path, kind):
    source = tmp_path / ("waves.nc" if kind == "netcdf" else "waves.csv")
    if kind == "netcdf":
        waves().to_netcdf(source, engine="h5netcdf")
    else:
        table = waves().isel(x=0, drop=True).to_dataframe().reset_index()
        table.to_csv(source, index=False)
    picture = tmp_path / "picture.png"
    result = CliRunner().invoke(app, ["plot", str(source), "--out", str(picture)])
    assert result.exit_code == 0, result.output
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(("components", "drawn"), [(3, 3), (4, 4), (6, 4), (9, 4)])
def test_a_forecast_tells_how_many_components_it_draws(components, drawn):
    wave = np.sin(np.linspace(0, 6, 50)[:, None] + np.arange(components))
    names = [f"x{number}" for number in range(components)]
    states = {"state": (("time", "component"), wave)}
    figure = plot_forecast(xr.Dataset(states, {"time": np.linspace(0, 6, 50), "component": names}))
    assert len(figure.axes) == drawn
    told = figure.get_suptitle()
    assert (f"{drawn} of {components}" in told) == (components > drawn)


def test_components_that_are_asked_for_are_counted_too():
    data = band(0.1)
    figure = plot_forecast(data, components=[str(data.component.values[2])])
    assert "1 of 6" in figure.get_suptitle()
