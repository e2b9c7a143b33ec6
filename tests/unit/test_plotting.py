"""Figures show what the run holds, whatever its dimensions. How they look was judged by eye."""

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.core.errors import InputError
from romkit.plotting import plot_rollout, rollout, save_figure, style
from romkit.projections import stack


@pytest.fixture(scope="module")
def models(lorenz_data):
    return [romkit.fit("ncae", lorenz_data, epochs=2, seed=seed) for seed in range(3)]


@pytest.fixture(scope="module")
def run(lorenz, models):
    return romkit.rollout(lorenz, models[0], F=3.15, duration=2)


def panels(figure):
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def titles(figure):
    return " ".join([figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)])


def draw(run):
    figure = plot_rollout(run)
    figure.draw_without_rendering()
    return figure


def long_run(duration=100.0, period=2.5):
    """A travelling wave that the reduced model follows with a growing phase error."""
    time, k = np.arange(0, duration, 0.05), np.arange(36)
    angle = 2 * np.pi * (8 * k / 36 - time[:, None] / period)
    truth, rom = np.sin(angle), np.sin(angle + 0.01 * time[:, None])
    nrmse = np.sqrt(np.square(truth - rom).mean(-1) / 0.5)
    return xr.Dataset(
        {
            "truth": (("time", "component"), truth, {"units": "m"}),
            "rom": (("time", "component"), rom, {"units": "m"}),
            "latent": (("time", "latent_component"), np.zeros((len(time), 2))),
            "nrmse": ("time", nrmse),
            "nrmse_projected": ("time", np.full(len(time), 1e-3)),
            "valid_time": ((), time[nrmse <= 0.5][-1]),
            "status": ((), 0),
        },
        coords={"time": ("time", time, {"units": "s"}), "component": k},
    )


def test_a_field_has_three_maps_and_the_error(run):
    figure = draw(run)
    assert [len(axes.images) for axes in panels(figure)] == [1, 1, 1, 0]
    truth, rom, error = (axes.images[0].get_clim() for axes in panels(figure)[:3])
    assert truth == rom
    assert error[0] == -error[1]
    assert panels(figure)[-1].get_yscale() == "log"
    assert "F = 3.15" in titles(figure)


def test_a_field_of_uneven_times_stands_at_its_times():
    run = long_run(duration=2.0)
    run = run.assign_coords(time=("time", run.time.values**2, run.time.attrs))
    image = panels(draw(run))[0].images[0].get_array()
    for place in (0.25, 0.5, 0.75):
        column = round(place * (image.shape[1] - 1))
        there = run.truth.sel(time=run.time[-1] * column / (image.shape[1] - 1), method="nearest")
        assert np.array_equal(image[:, column], there)


def test_the_run_is_left_as_it_was(run):
    before = run.copy(deep=True)
    draw(run)
    xr.testing.assert_identical(run, before)


def test_contexts_stand_side_by_side_up_to_four(lorenz, models):
    run = romkit.rollout(lorenz, models[0], F=[3.14, 3.15, 3.16, 3.17, 3.18], duration=0.5)
    figure = draw(run)
    assert len(panels(figure)) == 4 * 4
    assert "the first 4 of 5 contexts" in titles(figure)
    assert "F = 3.17" in titles(figure)
    assert "F = 3.18" not in titles(figure)


def test_all_seeds_are_in_the_error_panel(lorenz, models):
    run = romkit.rollout(lorenz, stack(models), F=3.15, duration=0.5)
    figure = draw(run)
    curves = [line for line in panels(figure)[-1].lines if len(line.get_xdata()) > 2]
    assert len(curves) == 2 * len(models)
    assert "of 3 seeds" in titles(figure)


def test_long_runs_show_their_beginning_and_end():
    figure = draw(long_run())
    extents = [axes.images[0].get_extent()[:2] for axes in panels(figure)[:2]]
    assert extents[0][0] == 0.0
    assert extents[1][1] == pytest.approx(99.95)
    assert 4 * 2.5 <= extents[0][1] <= 10 * 2.5
    assert panels(figure)[-1].get_xlim() == pytest.approx((0.0, 99.95))
    assert "first 15 s" in titles(figure) or "first 20 s" in titles(figure)


def test_units_are_on_the_axes():
    figure = draw(long_run())
    labels = {axes.get_ylabel() for axes in figure.axes} | {axes.get_xlabel() for axes in figure.axes}
    assert {"state (m)", "error (m)", "time (s)", "NRMSE"} <= labels


def test_divergence_is_named(run):
    broken = run.copy(deep=True)
    late = broken.time > 1.0
    for name in ("rom", "nrmse"):
        broken[name] = broken[name].where(~late)
    broken["status"] = broken.status + 1
    figure = draw(broken)
    assert "diverges" in panels(figure)[-1].get_title(loc="right")
    assert any(text.get_text() == "diverged" for axes in figure.axes for text in axes.texts)


def test_a_run_that_diverges_at_once_can_be_drawn(run):
    broken = run.copy(deep=True)
    for name in ("rom", "nrmse", "nrmse_projected"):
        broken[name] = broken[name] * np.nan
    draw(broken)


def test_small_states_are_curves():
    full = long_run()
    full["rom"] = full.truth + 0.01 * full.component
    figure = draw(full.isel(component=slice(6)))
    assert not any(axes.images for axes in figure.axes)
    assert len(panels(figure)) == 2 * style.MAX_CURVES + 1
    assert "4 components with the largest relative error" in titles(figure)


def test_curves_of_one_component_share_a_range_that_holds_them_all():
    both = xr.concat([long_run(), 3 * long_run()], dim="trajectory").isel(component=slice(2))
    both["status"] = ("trajectory", [0, 0])
    figure = draw(both.assign_coords(F=("trajectory", [1.0, 2.0])))
    left, right = panels(figure)[:2]
    assert left.get_ylim() == right.get_ylim()
    assert left.get_ylim()[1] >= 2.5


def test_figures_are_saved_by_their_ending(run, tmp_path):
    assert save_figure(plot_rollout(run), tmp_path / "run.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"did you mean \.png"):
        save_figure(plot_rollout(run), tmp_path / "run.pnk")


def test_the_median_seed_is_shown():
    run = long_run(duration=5.0).expand_dims({"trajectory": 1, "seed": 3}).copy()
    run["valid_time"] = (("trajectory", "seed"), torch.tensor([[3.0, 1.0, 2.0]]).numpy())
    assert rollout.median_seed(run) == 2
