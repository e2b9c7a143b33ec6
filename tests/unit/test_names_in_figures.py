"""Names of data in figures, as they are."""

import io

import numpy as np
import pytest
import xarray as xr
from matplotlib.text import Text

import romkit
from romkit.plotting import plot_forecast, plot_latent, plot_phase, plot_space_time, plot_spectrum

NAMES = ("$\\frac{$", "a_$1$", "100 %", "\\undefined{", "$x$ [$]")


def fields(name):
    """A field and two columns called like this."""
    time, place = np.linspace(0, 2, 21), np.linspace(0, 1, 6)
    speed = np.array([1.0, 1.5, 2.0])
    phase = place - speed[:, None, None] * time[:, None]
    dims = ("run", "time", "place")
    data = xr.Dataset(
        {name: (dims, np.sin(6 * phase), {"units": name})},
        {"time": time, "place": place, f"c{name}": ("run", speed)},
    )
    return romkit.data.describe(data, context=[f"c{name}"])


def drawn(figure):
    """All that is written in a figure."""
    figure.savefig(io.BytesIO(), format="svg")
    return " ".join(text.get_text() for text in figure.findobj(Text))


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_no_formula_are_drawn(name):
    assert name in drawn(plot_space_time(fields(name)))


@pytest.mark.parametrize("name", NAMES)
def test_names_of_columns_are_drawn(name):
    states = np.stack([np.sin(np.linspace(0, 3, 31)), np.cos(np.linspace(0, 3, 31))], -1)[None]
    data = romkit.data.from_arrays(states, np.linspace(0, 3, 31), names=[name, "other"])
    assert name in drawn(plot_phase(data, name, "other"))
    pod = romkit.fit("pod", romkit.data.with_velocity(data), latent_dim=2)
    law = romkit.laws.SINDy(degree=1).fit(pod, data)
    ahead = romkit.forecast(pod, dynamics=law, initial_state=states[0, 0], duration=1, dt=0.1)
    assert name in drawn(plot_forecast(ahead))
    drawn(plot_latent(ahead))


def test_powers_on_axes_stay_powers():
    time = np.arange(200.0)
    run = romkit.data.from_arrays(np.sin(0.3 * time)[None, :, None], time, names=["$"])
    run = run.assign(rom=run.state, truth=run.state, projected=run.state)
    figure = plot_spectrum(run)
    figure.savefig(io.BytesIO(), format="svg")
    labels = [label for label in figure.axes[0].get_yticklabels() if label.get_text()]
    assert any("mathdefault" in label.get_text() for label in labels)
    assert all(label.get_parse_math() for label in labels)
