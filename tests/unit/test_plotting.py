"""Figures show what the run holds, whatever its dimensions. How they look was judged by eye."""

import itertools

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.collections import QuadMesh, TriMesh
from PIL import Image

import romkit
from romkit import plotting
from romkit.core.errors import DataWarning, InputError
from romkit.data import describe
from romkit.data.grids import stack_components
from romkit.plotting import plot_calibration, plot_forecast, plot_rollout, save_figure
from romkit.plotting.places import place, quantity, telling_components
from romkit.plotting.rollout import median_seed
from romkit.projections import stack
from tests.refusals import refused
from tests.unit.data.own import plane, waves


@pytest.fixture(scope="module")
def run(lorenz, projection):
    return romkit.rollout(lorenz, projection, F=3.15, duration=2)


def panels(figure):
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def titles(figure):
    return " ".join([figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)])


def draw(run):
    figure = plot_rollout(run)
    figure.draw_without_rendering()
    return figure


def long_run(duration=100.0, components=36, period=2.5):
    """A travelling wave that the reduced model follows with a growing phase error."""
    time, k = np.arange(0, duration, 0.05), np.arange(components)
    angle = 2 * np.pi * (8 * k / 36 - time[:, None] / period)
    truth, rom = np.sin(angle), np.sin(angle + 0.01 * time[:, None])
    nrmse = np.sqrt(np.square(truth - rom).mean(-1) / 0.5)
    states = {"truth": truth, "rom": rom}
    run = xr.Dataset(
        {name: (("time", "component"), values, {"units": "m"}) for name, values in states.items()},
        coords={"time": ("time", time, {"units": "s"}), "component": k},
    )
    curves = {"nrmse": nrmse, "nrmse_projected": np.full(len(time), 1e-3)}
    run = run.assign({name: ("time", values) for name, values in curves.items()})
    latent = ("time", "latent_component"), np.zeros((len(time), 2))
    return run.assign(latent=latent, valid_time=time[nrmse <= 0.5][-1], status=0)


def test_a_field_has_three_maps_and_the_error_and_leaves_the_run_as_it_was(run):
    before = run.copy(deep=True)
    figure = draw(run)
    xr.testing.assert_identical(run, before)
    assert [len(axes.collections) for axes in panels(figure)] == [1, 1, 1, 0]
    truth, rom, error = (axes.collections[0].get_clim() for axes in panels(figure)[:3])
    assert truth == rom
    assert error[0] == -error[1]
    assert panels(figure)[-1].get_yscale() == "log"
    assert "F = 3.15" in titles(figure)


def test_a_field_of_uneven_times_stands_at_its_times():
    run = long_run(duration=2.0)
    run = run.assign_coords(time=("time", run.time.values**2, run.time.attrs))
    mesh = panels(plot_rollout(run))[0].collections[0]
    edges = mesh.get_coordinates()[0, 1:-1, 0]
    assert np.allclose(edges, (run.time.values[1:] + run.time.values[:-1]) / 2)
    assert np.array_equal(mesh.get_array(), run.truth.values.T)


def test_each_variable_of_data_has_panels_and_a_scale_of_its_own():
    own = xr.concat([plane()[["u", "v", "k"]].isel(y=0, drop=True)] * 8, "x")
    own = own.assign_coords(x=("x", np.linspace(0.0, 2.0, own.sizes["x"]) ** 2, {"units": "m"}))
    own["v"] = 10 * own.v.assign_attrs(long_name="height")
    data = describe(own, context=["k"])
    pod = romkit.fit("pod", data, latent_dim=2)
    figure = plot_rollout(
        romkit.rollout(data, pod, dynamics=romkit.laws.DMD().fit(pod, data)).isel(trajectory=[0])
    )
    maps = [axes for axes in panels(figure) if axes.collections]
    assert [axes.get_ylabel() for axes in maps][::3] == ["data\nx (m)"] * 2
    assert maps[-1].collections[0].get_array().shape[0] == own.sizes["x"]
    assert maps[0].get_ylim()[1] > 4.0
    assert {"u (m/s)", "v (K)"} <= {axes.get_ylabel() for axes in figure.axes}
    assert "height (K)" in [axes.get_ylabel() for axes in plotting.plot_space_time(data).axes]


def test_contexts_stand_side_by_side_up_to_four(run):
    runs = xr.concat(
        [run.assign_coords(F=F) for F in (3.14, 3.15, 3.16, 3.17, 3.18)], dim="trajectory"
    )
    figure = plot_rollout(runs.isel(time=slice(50)))
    assert len(panels(figure)) == 4 * 4
    assert "the first 4 of 5 contexts" in titles(figure)
    assert "F = 3.17" in titles(figure)
    assert "F = 3.18" not in titles(figure)


def test_all_seeds_are_in_the_error_panel_and_the_median_one_is_shown(lorenz, projection):
    run = romkit.rollout(lorenz, stack([projection] * 3), F=3.15, duration=0.5)
    figure = plot_rollout(run)
    curves = [line for line in panels(figure)[-1].lines if len(line.get_xdata()) > 2]
    assert len(curves) == 2 * 3
    assert "of 3 seeds" in titles(figure)
    run = long_run(duration=5.0).expand_dims({"trajectory": 1, "seed": 3}).copy()
    run["valid_time"] = (("trajectory", "seed"), [[3.0, 1.0, 2.0]])
    assert median_seed(run) == 2


def test_long_runs_show_their_beginning_and_end_with_units_on_the_axes():
    figure = plot_rollout(long_run())
    extents = [axes.get_xlim() for axes in panels(figure)[:2]]
    assert extents[0][0] == 0.0
    assert extents[1][1] == pytest.approx(99.95)
    assert 4 * 2.5 <= extents[0][1] <= 10 * 2.5
    assert panels(figure)[-1].get_xlim() == pytest.approx((0.0, 99.95))
    assert "first 15 s" in titles(figure) or "first 20 s" in titles(figure)
    labels = {axes.get_ylabel() for axes in figure.axes} | {
        axes.get_xlabel() for axes in figure.axes
    }
    assert {"state (m)", "error (m)", "time (s)", "NRMSE"} <= labels


def test_divergence_is_named(run):
    broken = run.copy(deep=True)
    for name in ("rom", "nrmse"):
        broken[name] = broken[name].where(broken.time <= 1.0)
    broken["status"] = broken.status + 1
    figure = draw(broken)
    assert "diverges" in panels(figure)[-1].get_title(loc="right")
    assert any(text.get_text() == "diverged" for axes in figure.axes for text in axes.texts)
    for name in ("rom", "nrmse", "nrmse_projected"):  # at once
        broken[name] = broken[name] * np.nan
    draw(broken)


def test_small_states_are_curves_that_share_a_range_which_holds_them_all():
    full = long_run(components=6)
    full["rom"] = full.truth + 0.01 * full.component
    figure = draw(full)
    assert not any(axes.collections for axes in figure.axes)
    assert len(panels(figure)) == 2 * 4 + 1
    assert "4 components with the largest relative error" in titles(figure)
    both = xr.concat([long_run(components=2), 3 * long_run(components=2)], dim="trajectory")
    both["status"] = ("trajectory", [0, 0])
    left, right = panels(plot_rollout(both.assign_coords(F=("trajectory", [1.0, 2.0]))))[:2]
    assert left.get_ylim() == right.get_ylim()
    assert left.get_ylim()[1] >= 2.5


@pytest.fixture
def band():
    """A forecast of two trajectories with an interval of 80%."""
    times = np.linspace(0, 1, 11)
    state = np.stack([np.outer(times, [1.0, 5.0, 0.1]), np.outer(times, [2.0, 3.0, 0.2])])
    dims, coords = (
        ("trajectory", "time", "component"),
        {"time": times, "component": ["a", "b", "c"]},
    )
    parts = {"state": state, "lower": state - 1, "upper": state + 2}
    return xr.Dataset({name: (dims, x, {"level": 0.8}) for name, x in parts.items()}, coords)


def test_a_forecast_has_its_interval_its_mean_and_the_truth(band, tmp_path):
    figure = plot_forecast(band, band, components=["b", "a"])
    assert len(figure.axes) == 4  # two components of two trajectories
    panel = figure.axes[0]
    assert panel.get_ylabel() == "b"
    for line in panel.get_lines():
        assert np.allclose(line.get_ydata(), band.state[0, :, 1])
    edges = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == (-1, 7)
    assert "80% interval" in [text.get_text() for text in figure.legends[0].get_texts()]
    bare = plot_forecast(band[["state"]])
    assert not bare.axes[0].collections
    assert np.allclose(bare.axes[0].get_lines()[0].get_ydata(), band.state[0, :, 0])
    alone = plot_forecast(band.isel(trajectory=0))
    assert [panel.get_ylabel() for panel in alone.axes] == ["a", "b", "c"]
    assert save_figure(alone, tmp_path / "band.pdf").read_bytes().startswith(b"%PDF")
    open_ended = band.assign(lower=band.lower - np.inf, upper=band.upper + np.inf)
    panel = plot_forecast(open_ended).axes[0]
    box = panel.collections[-1].get_window_extent()
    assert np.allclose([box.y0, box.y1], [panel.bbox.y0, panel.bbox.y1])


def test_the_truth_may_be_a_table(band):
    alone = band.isel(trajectory=0)
    table = alone.state.to_series().unstack("component").reset_index()
    drawn = [
        [
            line.get_ydata()
            for panel in plot_forecast(alone, truth).axes
            for line in panel.get_lines()
        ]
        for truth in (table, alone)
    ]
    assert np.allclose(*drawn)
    refused("no state", plot_forecast, alone, table.drop(columns="b"))


def test_a_reliability_diagram_has_the_diagonal_and_every_trajectory():
    level, own = [0.5, 0.9], np.array([[0.4, 0.6, 0.5], [0.8, 1.0, 0.9]])
    coverage = {"coverage": ("level", own.mean(1)), "coverage_of": (("level", "trajectory"), own)}
    lines = plot_calibration(xr.Dataset(coverage, {"level": level})).axes[0].get_lines()
    assert len(lines) == 1 + 3 + 1
    assert np.allclose(lines[0].get_ydata(), [0, 1])
    assert np.allclose(lines[-1].get_ydata(), [0.5, 0.9])


@pytest.fixture(scope="module")
def trained():
    return romkit.fit("ncae", waves(), latent_dim=2, epochs=3, validation=0.3)


@pytest.fixture(scope="module")
def learned(trained):
    return romkit.rollout(
        waves(),
        trained,
        dynamics=romkit.laws.SINDy(degree=1, refine=False).fit(trained, waves()),
    )


def grid():
    return describe(plane(), context=["k"], state=["u", "v"])


def line():
    return describe(plane().isel(y=0)[["u", "v", "k"]], context=["k"])


def test_a_training_is_a_curve_for_each_seed_and_set(trained):
    (axes,) = plotting.plot_training(trained).axes
    training, held_out, kept = axes.lines
    assert np.allclose(training.get_ydata(), trained.report["losses"])
    assert np.allclose(held_out.get_ydata(), trained.report["validation_losses"])
    assert kept.get_xdata()[0] == trained.report["best_epoch"]


def test_a_latent_portrait_has_a_plane_for_each_pair(trained, learned):
    for latent, colour in itertools.product(
        (learned, trained(waves()).encode(waves())), ("time", "speed")
    ):
        (axes,) = panels(plotting.plot_latent(latent, colour=colour))
        assert len(axes.collections) == 4
    pod = romkit.fit("pod", waves(), latent_dim=3)
    assert len(panels(plotting.plot_latent(pod(waves()).encode(waves())))) == 3
    one = romkit.fit("pod", waves(), latent_dim=1)
    (axes,) = panels(plotting.plot_latent(one(waves()).encode(waves())))
    assert axes.get_xlabel() == "time"


def test_a_phase_plane_shows_two_components(learned):
    data = waves().assign_coords(component=[f"x{k}" for k in range(16)])
    (axes,) = panels(plotting.plot_phase(data, "x0", "x3"))
    first = axes.collections[0].get_segments()[5][0]
    assert np.allclose(first, data.state[0, 5, [0, 3]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x0", "x3")
    assert len(panels(plotting.plot_phase(learned, "x0", "x1", variable="rom"))) == 1


def test_fields_stand_on_their_own_coordinates():
    figure = plotting.plot_space_time(line())
    assert len(panels(figure)) == 8
    first = panels(figure)[0]
    assert first.get_title() == "k = 1"
    assert first.get_ylim()[1] == pytest.approx(1.125)  # cells around x = 0 ... 1
    assert panels(figure)[-1].get_xlabel() == "time (s)"
    frames = panels(plotting.plot_frames(grid(), frames=3))
    assert len(frames) == 6
    assert np.allclose(np.asarray(frames[0].collections[0].get_array()), plane().u[0, 0])
    assert len(panels(plotting.plot_frames(grid(), variable="v", trajectory=2, frames=2))) == 2


def colours_of(panel):
    """Colours (cells, 4) that a panel shows."""
    (mesh,) = [artist for artist in panel.collections if isinstance(artist, QuadMesh)]
    mesh.update_scalarmappable()
    return mesh.get_facecolors()


@pytest.mark.parametrize(
    ("draw", "value"),
    [
        (plotting.plot_frames, 3.0),
        (plotting.plot_frames, 0.0),
        (plotting.plot_space_time, -1e-9),
        (plot_rollout, 3.0),
    ],
)
def test_a_constant_field_has_one_colour_in_all_panels(draw, value):
    dims, space = ("run", "t", "y", "x"), {"y": [0.0, 1.0], "x": [0.0, 1.0, 2.0]}
    if draw is plotting.plot_space_time:
        dims, space = ("run", "t", "x"), {"x": [0.0, 1.0, 2.0]}
    shape = (3, 6, *map(len, space.values()))
    field = xr.DataArray(np.full(shape, value), {"t": np.arange(6.0), **space}, dims, name="u")
    data = describe(field)
    if draw is plot_rollout:
        other = describe(field + np.random.default_rng(0).normal(size=shape))
        model = romkit.fit("pod", other, latent_dim=2, verbose=False)
        law = romkit.laws.SINDy(degree=1, refine=False).fit(model, other)
        data = romkit.rollout(data, model, dynamics=law)
    figure = draw(data)
    figure.draw_without_rendering()
    maps = panels(figure)
    if draw is plot_rollout:
        maps = maps[:4]  # the truth
    shown = np.concatenate([colours_of(panel) for panel in maps])
    assert len(maps) > 1
    assert (shown == shown[0]).all()


@pytest.mark.parametrize("sizes", [(1, 1, 5), (1, 4, 5), (3, 1, 1)])
def test_a_single_cell_has_a_width(sizes):
    ny, nx, times = sizes
    u = np.random.default_rng(0).normal(size=(times, ny, nx))
    coords = {"t": np.arange(float(times)), "y": np.arange(ny), "x": np.arange(nx)}
    data = describe(xr.DataArray(u, coords, ("t", "y", "x"), name="u"))
    figures = [plotting.plot_frames(data, frames=2)]
    if ny == 1:
        row = xr.DataArray(u[:, 0], {"t": coords["t"], "x": coords["x"]}, ("t", "x"), name="u")
        figures.append(plotting.plot_space_time(describe(row)))
    for figure in figures:
        for panel in panels(figure):
            (mesh,) = [artist for artist in panel.collections if isinstance(artist, QuadMesh)]
            edges = mesh.get_coordinates()
            assert (np.diff(edges[0, :, 0]) > 0).all()
            assert (np.diff(edges[:, 0, 1]) > 0).all()


def test_an_animation_has_its_frames(tmp_path):
    path = plotting.save_animation(
        plotting.animate(grid(), frames=3, per_second=5), tmp_path / "grid.GIF"
    )
    with Image.open(path) as image:
        assert image.n_frames == 3
    assert [file.name for file in tmp_path.iterdir()] == ["grid.GIF"]


def test_a_spectrum_peaks_at_the_frequency_of_the_motion(learned):
    time = np.arange(200) * 0.1
    data = describe(waves().isel(time=[0] * 200).assign_coords(time=time), context=["speed"])
    data["state"] = data.state * 0 + np.sin(2 * np.pi * 1.5 * time)[:, None]
    line = panels(plotting.plot_spectrum(data))[0].lines[0]
    assert line.get_xdata()[np.argmax(line.get_ydata())] == pytest.approx(1.5)
    speed, distance = panels(plotting.plot_spectrum(learned))[0].get_title().splitlines()
    assert (speed[:8], distance[:9]) == ("speed = ", "distance ")
    uneven = np.flatnonzero(np.arange(200) % 7)
    refused("run: expected evenly", plotting.plot_spectrum, data.isel(time=uneven))
    data["state"][0, 3] = np.nan
    refused("run: expected whole", plotting.plot_spectrum, data)


@pytest.fixture(scope="module")
def planar():
    """A rollout of two variables over a plane."""
    data = grid()
    pod = romkit.fit("pod", data, latent_dim=3)
    law = romkit.laws.SINDy(degree=1, threshold=0.0, refine=False).fit(pod, data)
    return romkit.rollout(data, pod, dynamics=law)


def test_fields_over_a_plane_are_maps_of_truth_model_and_difference(planar):
    figure = plot_rollout(planar)
    *maps, error = panels(figure)
    assert len(maps) == 2 * 3 * 4  # variables, rows and times
    truth, rom, difference = maps[0], maps[4], maps[8]
    assert truth.collections[0].get_clim() == rom.collections[0].get_clim()
    u = romkit.data.fields(planar).truth_u.isel(run=0, t=0)
    shown = truth.collections[0].get_array()
    assert np.allclose(np.asarray(shown), u.values)
    low, high = difference.collections[0].get_clim()
    assert low == -high
    assert error.get_yscale() == "log"


def test_frames_of_a_rollout_say_whose_they_are(planar):
    figure = plotting.plot_frames(planar.isel(trajectory=0), frames=2)
    bars = [axes.get_ylabel() for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert {bar.split(":")[0] for bar in bars} == {"data", "reduced model", "projection"}


def test_places_of_a_forecast_are_apart_and_of_each_variable():
    data = grid()
    chosen = telling_components(data, 3)
    states = data.state.values.reshape(-1, data.sizes["component"])
    anomalies = states - states.mean(0)
    # three directions: no others span more than a hundredth beside them
    kept = np.linalg.svd(anomalies[:, chosen], compute_uv=False)
    assert kept[-1] > 0.05 * kept[0]
    assert {name.partition("[")[0] for name in data.component.values[chosen]} == {"u", "v"}
    assert place(data, int(chosen[0])).startswith("u at ")


def test_a_forecast_in_its_own_dimensions_is_drawn_as_that_over_components():
    data = grid()
    states = data.state
    attrs = {"level": 0.8}
    band = data[["state"]].assign(
        lower=(states - 0.1).assign_attrs(attrs), upper=(states + 0.3).assign_attrs(attrs)
    )
    own = romkit.data.fields(band)
    again = stack_components(own)
    for name in ("state", "lower", "upper"):
        # v came in single precision
        assert np.allclose(again[name], band[name], rtol=1e-6, atol=1e-6)
    maps = plot_forecast(own, data)
    labels = [panel.get_ylabel().splitlines()[0] for panel in maps.axes[::4]]
    assert [words for words in labels if words][:4] == [
        "truth",
        "forecast",
        "forecast − truth",
        "± at 80%",
    ]
    names = list(band.component.values[:4])
    drawn, reference = (plot_forecast(each, data, components=names) for each in (own, band))
    assert "80% interval" in [text.get_text() for text in drawn.legends[0].get_texts()]
    for first, second in zip(drawn.axes, reference.axes, strict=True):
        assert first.get_title("left") == second.get_title("left")
        for line, other in zip(first.get_lines(), second.get_lines(), strict=True):
            assert np.allclose(line.get_xydata(), other.get_xydata(), rtol=1e-6, atol=1e-6)
    maps = plotting.plot_frames(own, frames=2)
    labels = {panel.get_ylabel() for panel in maps.axes}
    assert {"± u", "± v"} <= {label.partition(" (")[0] for label in labels}
    assert np.allclose(panels(maps)[-1].collections[0].get_array(), 0.2)


def test_a_lost_member_does_not_decide_the_range(band):
    deviation = xr.DataArray([1.0, 1.0, 1.0], dims="component")
    wide = band.assign_coords(state_std=deviation).assign(lost=("trajectory", [0.25, 0.0]))
    wide["upper"] = wide["upper"].copy()
    wide["upper"][:, -1] = 15_000.0
    first = panels(plot_forecast(wide, components=["a"]))[0]
    assert first.get_ylim()[1] < 100
    assert "25%" in first.get_title("left")
    early = panels(plot_forecast(wide.where(wide.time < wide.time[-1]), components=["a"]))[0]
    assert "25%" in early.get_title("left")


REFUSALS = {
    "truth: .* components": lambda b: plot_forecast(b, b.isel(component=[2, 1, 0])),
    "truth: .* got 1": lambda b: plot_forecast(b, b.isel(trajectory=[0])),
    "band": lambda b: plot_forecast(b[["state", "lower"]]),
    "components: .* got 'z'": lambda b: plot_forecast(b, components=["z"]),
    "components: .* 1 or more": lambda b: plot_forecast(b, components=[]),
    "reliability": plot_calibration,
    "run: .* no truth, no rom.*plot_space_time": plot_rollout,
    "model": lambda b: plotting.plot_training(romkit.fit("pod", waves(), latent_dim=2)),
    "x": lambda b: plotting.plot_phase(waves(), "q", "x3"),
    "1 dimensions of space": lambda b: plotting.plot_space_time(grid()),
    "2 dimensions of space": lambda b: plotting.plot_frames(line()),
    "trajectory": lambda b: plotting.plot_frames(grid(), trajectory=9),
    "variable: .* got 'w'": lambda b: plotting.plot_frames(grid(), variable="w"),
    "did you mean 'png'": lambda b: save_figure(plot_forecast(b), "run.pnk"),
    r"a name that ends in \.gif, \.mp4": lambda b: plotting.save_animation(
        plotting.animate(grid()), "grid.avi"
    ),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_what_cannot_be_drawn_is_refused(band, message):
    refused(message, REFUSALS[message], band)


def test_drawn_components_move_and_are_spread():
    phase = np.linspace(0, 6, 50)[:, None] - np.linspace(0, 6, 40)
    wave = np.sin(phase)
    wave[:, :20] = 300.0 + 1e-12 * wave[:, :20]  # rounding alone
    data = describe(
        xr.Dataset({f"u{k}": ("time", wave[:, k]) for k in range(40)}, {"time": phase[:, 0]})
    )
    chosen = telling_components(data, 4)
    assert len(set(chosen.tolist())) == 4
    assert (chosen >= 20).all()
    assert np.ptp(chosen) >= 10


def test_places_on_a_map_have_their_direction():
    lat = xr.DataArray([-87.5, 2.5], dims="lat", attrs={"units": "degrees_north"})
    runs = xr.Dataset(
        {"T": (("run", "time", "lat"), np.ones((2, 3, 2)))}, {"lat": lat, "time": np.arange(3.0)}
    )
    data = romkit.data.describe(runs.assign_coords(k=("run", [1.0, 2.0])), context=["k"])
    assert [place(data, component) for component in range(2)] == [
        "T at lat = 87.5 °S",
        "T at lat = 2.5 °N",
    ]


def test_places_without_a_signal_are_not_shown():
    """Two directions, and places at which there is nothing but noise."""
    t, x = np.linspace(0, 5, 200)[:, None], np.linspace(0, 1, 40)
    bands = np.exp(-t) * np.exp(-np.square((x - 0.2) / 0.1)) + t * np.exp(
        -np.square((x - 0.5) / 0.1)
    )
    states = bands + 0.01 * np.random.default_rng(0).normal(size=bands.shape)
    data = romkit.data.from_arrays(states, t[:, 0])
    assert (x[telling_components(data, 4)] < 0.75).all()


@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")
def test_a_label_has_its_unit_once():
    table = pd.DataFrame({"time": [0.0, 1.0], "u (m)": [0.0, 1.0], "v": [1.0, 2.0]})
    data = describe(table)
    assert quantity(data, 0) == "u (m)"


def test_frames_say_which_run_they_are_of():
    u = np.random.default_rng(0).normal(size=(3, 5, 3, 4))
    runs = xr.Dataset({"u": (("k", "time", "y", "x"), u)}, {"k": [1.0, 2.0, 4.0]})
    data = describe(runs.assign_coords(time=np.arange(5.0)), context=["k"])
    figure = plotting.plot_frames(data, trajectory=2)
    assert figure.get_suptitle() == "k = 4, one of 3 runs"


def test_fields_on_a_mesh_are_maps_of_its_triangles():
    points = np.random.default_rng(0).uniform(size=(60, 2))
    time = np.linspace(0, 3, 31)
    states = np.sin(4 * points[:, 0] - time[:, None])  # (31, 60)
    places = {"time": time, "x": ("point", points[:, 0]), "y": ("point", points[:, 1])}
    truth = describe(xr.Dataset({"T": (("time", "point"), states)}, places))
    known = truth.state
    band = truth.assign(state=known + 0.1, lower=known - 0.1, upper=known + 0.3)
    forecast = romkit.data.fields(band).assign_attrs(projection="identity", dynamics="Equation")
    figure = plot_forecast(forecast, truth)
    assert isinstance(figure.axes[0].collections[0], TriMesh)
    assert "x" in {panel.get_xlabel() for panel in figure.axes}
    title = figure.get_suptitle()
    assert "a learned equation of the state itself" in title
    assert "100% of the truth inside the 90% intervals" in title
    error = 0.1 / np.sqrt(np.square(states.std(0)).mean())
    assert f"error {error:.2g} " in title


def test_a_truth_that_ends_early_is_compared_at_common_times_and_another_run_is_refused():
    time = np.linspace(0.0, 2.0, 41)
    wave = np.sin(np.linspace(0, 6, 30) - time[:, None])
    parts = {"lower": wave - 0.1, "state": wave, "upper": wave + 0.1}
    band = xr.Dataset(
        {name: (("time", "component"), part) for name, part in parts.items()},
        {"time": time, "component": [f"x{k}" for k in range(30)]},
    ).assign_coords(c=1.4)
    truth = band[["state"]].isel(time=slice(None, -1)) + 0.05  # one sample less
    with pytest.warns(DataWarning, match="got 40 of them"):
        figure = plotting.plot_forecast(band, truth.assign_coords(c=1.4))
    assert "100% of" in figure.get_suptitle()
    with pytest.raises(InputError, match=r"c = 1\.4"):
        plotting.plot_forecast(band, truth.assign_coords(c=1.5))
