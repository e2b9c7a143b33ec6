"""Figures of ensembles: what is in them."""

import numpy as np
import pytest
import xarray as xr

from romkit.core.errors import InputError
from romkit.plotting import plot_calibration, plot_forecast

TIMES = np.linspace(0, 1, 11)


@pytest.fixture
def band():
    state = np.stack([np.outer(TIMES, [1.0, 5.0, 0.1]), np.outer(TIMES, [2.0, 3.0, 0.2])])
    dims, coords = ("trajectory", "time", "component"), {"time": TIMES, "component": ["a", "b", "c"]}
    parts = {"state": state, "lower": state - 1, "upper": state + 2}
    return xr.Dataset({name: (dims, x, {"level": 0.8}) for name, x in parts.items()}, coords)


def test_a_forecast_has_its_interval_its_mean_and_the_truth(band):
    figure = plot_forecast(band, band, components=["b", "a"])
    assert len(figure.axes) == 4  # two components of two trajectories
    panel = figure.axes[0]
    assert panel.get_ylabel() == "b"
    mean, truth = panel.get_lines()
    assert np.allclose(mean.get_ydata(), band.state[0, :, 1])
    assert np.allclose(truth.get_ydata(), band.state[0, :, 1])
    edges = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == (-1, 7)
    assert "80% interval" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_an_interval_without_ends_fills_the_panel(band):
    band["lower"], band["upper"] = band["lower"] - np.inf, band["upper"] + np.inf
    panel = plot_forecast(band).axes[0]
    box = panel.collections[-1].get_window_extent()
    assert np.allclose([box.y0, box.y1], [panel.bbox.y0, panel.bbox.y1])


def test_a_single_trajectory_shows_what_varies_most(band):
    figure = plot_forecast(band.isel(trajectory=0))
    assert [panel.get_ylabel() for panel in figure.axes] == ["a", "b", "c"]


def test_a_reliability_diagram_has_the_diagonal_and_every_trajectory():
    level, own = [0.5, 0.9], np.array([[0.4, 0.6, 0.5], [0.8, 1.0, 0.9]])
    found = xr.Dataset(
        {"coverage": ("level", own.mean(1)), "coverage_of": (("level", "trajectory"), own)}, {"level": level}
    )
    lines = plot_calibration(found).axes[0].get_lines()
    assert len(lines) == 1 + 3 + 1
    assert np.allclose(lines[0].get_ydata(), [0, 1])
    assert np.allclose(lines[-1].get_ydata(), [0.5, 0.9])


def test_a_truth_in_another_order_is_not_drawn_as_this_one(band):
    with pytest.raises(InputError, match=r"truth: expected components in the order a \.\.\. c"):
        plot_forecast(band, band.isel(component=[2, 1, 0]))
    with pytest.raises(InputError, match="truth: expected 2 trajectories, as the band, got 1"):
        plot_forecast(band, band.isel(trajectory=[0]))


def test_what_has_no_interval_is_refused(band):
    with pytest.raises(InputError, match="band: expected a forecast with an interval"):
        plot_forecast(band[["state"]])
    with pytest.raises(InputError, match="components: expected names among"):
        plot_forecast(band, components=["z"])
    with pytest.raises(InputError, match=r"components: expected names among .*, got none"):
        plot_forecast(band, components=[])
