"""Figures of data, latents, trainings and spectra show what is in them. How they look was judged by eye."""

import itertools

import numpy as np
import pytest
from PIL import Image

import romkit
from romkit import plotting
from romkit.core.errors import InputError
from romkit.data import describe
from tests.unit.data.own import plane, waves


@pytest.fixture(scope="module")
def model():
    return romkit.fit("ncae", waves(), latent_dim=2, epochs=3, validation=0.3)


@pytest.fixture(scope="module")
def run(model):
    return romkit.rollout(waves(), model, dynamics=romkit.integrators.SINDy(degree=1).fit(model, waves()))


@pytest.fixture(scope="module")
def grid():
    return describe(plane(), context=["k"], state=["u", "v"])


def panels(figure):
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def test_a_training_is_a_curve_for_each_seed_and_set(model):
    (axes,) = plotting.plot_training(model).axes
    training, held_out, kept = axes.lines
    assert np.allclose(training.get_ydata(), model.report["losses"])
    assert np.allclose(held_out.get_ydata(), model.report["validation_losses"])
    assert kept.get_xdata()[0] == model.report["best_epoch"]
    with pytest.raises(InputError, match="model: expected a trained projection"):
        plotting.plot_training(romkit.fit("pod", waves(), latent_dim=2))


def test_a_latent_portrait_has_a_plane_for_each_pair(model, run, tmp_path):
    for latent, colour in itertools.product((run, model(waves()).encode(waves())), ("time", "speed")):
        (axes,) = panels(plotting.plot_latent(latent, colour=colour))
        assert len(axes.collections) == 4
    pod = romkit.fit("pod", waves(), latent_dim=3)
    assert len(panels(plotting.plot_latent(pod(waves()).encode(waves())))) == 3
    one = romkit.fit("pod", waves(), latent_dim=1)
    (axes,) = panels(plotting.plot_latent(one(waves()).encode(waves())))
    assert axes.get_xlabel() == "time"
    plotting.save_figure(plotting.plot_latent(run), tmp_path / "latent.png")
    with pytest.raises(InputError, match="colour: expected one of"):
        plotting.plot_latent(run, colour="sped")


def test_a_phase_plane_shows_two_components(run):
    data = waves().assign_coords(component=[f"x{k}" for k in range(16)])
    (axes,) = panels(plotting.plot_phase(data, "x0", "x3"))
    first = axes.collections[0].get_segments()[5][0]
    assert np.allclose(first, data.state[0, 5, [0, 3]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x0", "x3")
    with pytest.raises(InputError, match="x: expected one of"):
        plotting.plot_phase(data, "q", "x3")
    assert len(panels(plotting.plot_phase(run, "x0", "x1", variable="rom"))) == 1


def test_fields_stand_on_their_own_coordinates(grid, tmp_path):
    line = describe(plane().isel(y=0)[["u", "v", "k"]], context=["k"])
    figure = plotting.plot_space_time(line)
    assert len(panels(figure)) == 8
    first = panels(figure)[0]
    assert first.get_title() == "k = 1"
    assert first.get_ylim()[1] == pytest.approx(1.125)  # cells around x = 0 ... 1
    assert panels(figure)[-1].get_xlabel() == "time (s)"
    frames = panels(plotting.plot_frames(grid, frames=3))
    assert len(frames) == 6
    assert np.allclose(np.asarray(frames[0].collections[0].get_array()), plane().u[0, 0])
    assert len(panels(plotting.plot_frames(grid, variable="v", trajectory=2, frames=2))) == 2
    plotting.save_figure(plotting.plot_frames(grid), tmp_path / "frames.pdf")
    for call, message in (
        (lambda: plotting.plot_space_time(grid), "data: expected a variable over time and 1 dimensions of space"),
        (lambda: plotting.plot_frames(line), "data: expected a variable over time and 2 dimensions of space"),
        (lambda: plotting.plot_frames(grid, trajectory=9), "trajectory: expected a number below 4"),
        (lambda: plotting.plot_frames(grid, variable="w"), "variable: expected one of"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_an_animation_has_its_frames(grid, tmp_path):
    path = plotting.save_animation(plotting.animate(grid, frames=3, per_second=5), tmp_path / "grid.GIF")
    with Image.open(path) as image:
        assert image.n_frames == 3
    assert [file.name for file in tmp_path.iterdir()] == ["grid.GIF"]
    with pytest.raises(InputError, match=r"path: expected a name that ends in \.gif, \.mp4"):
        plotting.save_animation(plotting.animate(grid, frames=2), tmp_path / "grid.avi")


def test_a_spectrum_peaks_at_the_frequency_of_the_motion(run):
    time = np.arange(200) * 0.1
    data = describe(waves().isel(time=[0] * 200).assign_coords(time=time), context=["speed"])
    data["state"] = data.state * 0 + np.sin(2 * np.pi * 1.5 * time)[:, None]
    line = panels(plotting.plot_spectrum(data))[0].lines[0]
    assert line.get_xdata()[np.argmax(line.get_ydata())] == pytest.approx(1.5)
    assert "distance" in panels(plotting.plot_spectrum(run))[0].get_title()
    holes = data.copy(deep=True)
    holes["state"][0, 3] = np.nan
    with pytest.raises(InputError, match="run: expected whole trajectories for a spectrum"):
        plotting.plot_spectrum(holes)
    with pytest.raises(InputError, match="run: expected evenly spaced times"):
        plotting.plot_spectrum(data.isel(time=np.flatnonzero(np.arange(200) % 7)))
