"""The explorer in numbers: what it shows is what rollouts say."""

import functools
import html
import http.client
import re
import socket
import sys
import time

import numpy as np
import pytest
import torch
import xarray as xr

import romkit

pytest.importorskip("panel")

from romkit.explorer import Exploration, explore
from romkit.explorer.exploration import _grid, _lag
from romkit.explorer.own import OwnData, _encode, example
from romkit.explorer.page import Page, _check_host, _check_origin, _free_port
from romkit.projections import stack
from tests.refusals import refused


@pytest.fixture(scope="module")
def exploration():
    system = romkit.systems.Lorenz96(transient=2.0)
    return Exploration(romkit.load("ncae-lorenz96"), system, duration=4.0)


@pytest.fixture
def few_contexts(monkeypatch):
    """A rough diagram, where the number of its contexts is not the question."""
    monkeypatch.setattr("romkit.explorer.exploration.BRANCH", 9)


def test_a_view_is_a_rollout(exploration):
    view = exploration.view({"F": 3.15})
    run = romkit.rollout(
        exploration.system,
        exploration.projection,
        F=3.15,
        duration=4.0,
        dt=0.02,
    )
    # both are within the tolerance of the default solver
    assert np.allclose(view.error, run.nrmse, atol=1e-5)
    assert np.allclose(view.projected, run.nrmse_projected, atol=1e-5)
    assert view.valid_time == float(run.valid_time)
    assert view.idempotency < 1e-10
    assert view.portrait.shape == (201, 2)
    assert (
        exploration.projection.frame.state_std.dtype == torch.float32
    )  # that of the user stays as it is


def test_a_shifted_copy_lags_by_its_shift():
    time = np.linspace(0, 6, 2001)
    wave = np.stack([np.sin(time), np.cos(time)], axis=1)
    late = np.stack([np.sin(time - 0.01), np.cos(time - 0.01)], axis=1)
    assert np.allclose(_lag(wave, late, time), 0.01, atol=1e-4)


@pytest.mark.usefixtures("few_contexts")
def test_the_branch_covers_the_range_of_a_parameter(exploration):
    values, extremes = exploration.branch("F", exploration.view(exploration.middle))
    parameter = exploration.system.context[0]
    assert values.min() == parameter.low
    assert values.max() == parameter.high
    assert np.isfinite(extremes).all()
    view = exploration.view({"F": 3.15})
    lost = view._replace(orbit=view.orbit._replace(states=view.orbit.states * np.nan))
    assert np.array_equal(
        exploration.branch("F", lost), exploration.branch("F", view)
    )  # of the full model


def test_what_cannot_be_explored_is_refused():
    model, pendulum = romkit.load("ncae-lorenz96"), romkit.systems.Pendulum()
    refused("projection", Exploration, stack([model, model]))
    refused("projection", Exploration, model, pendulum)
    refused("duration", Exploration, model, duration=-1.0)


def test_one_component_has_an_orbit_and_no_context_none():
    class Decay(romkit.systems.System):
        name, state_names, state_units, dt, duration, horizon = (
            "decay",
            ("x",),
            ("1",),
            0.1,
            1.0,
            1.0,
        )
        context = (romkit.data.ContextParameter("k", "1", 0.5, 2.0, "rate"),)

        def rhs(self, t, x, c):
            return -c[..., :1] * x

        def initial_state(self, contexts, rng):
            return contexts.new_ones(len(contexts), 1)

    class PlainDecay(Decay):
        context = ()

        def rhs(self, t, x, c):
            return -x

    decay = Decay()
    exploration = Exploration(romkit.fit("pod", decay.dataset(k=[0.5, 1.0]), latent_dim=1), decay)
    assert exploration.view({"k": 1.0}).portrait.shape == (201, 2)
    plain = PlainDecay()
    pod = romkit.fit("pod", plain.dataset("train"), latent_dim=1)
    refused("system", Exploration, pod, plain)
    system = romkit.systems.Lorenz96(n=4, transient=0.0, horizon=0.5)
    pod = romkit.fit("pod", system.dataset(F=[3.14, 3.18], duration=0.5), latent_dim=2)
    assert Exploration(pod).system == system  # with the parameters that the data had


def test_an_orbit_is_that_of_a_forecast_from_where_the_full_model_started(exploration):
    view = exploration.view({"F": 3.15})
    orbit = exploration.orbit({"F": 3.17}, view)
    start = view.run.isel(time=0, trajectory=0).state.values
    given = {
        "system": exploration.system,
        "duration": 4.0,
        "dt": 0.02,
        "rtol": 1e-9,
    }
    expected = romkit.forecast(exploration.projection, initial_state=start, F=3.17, **given)
    # of the default solver, whose tolerance is 1e-6
    deviation = np.sqrt((expected.state_std**2).mean())
    assert np.allclose(orbit.states, expected.state / deviation, atol=2e-5)
    assert np.allclose(orbit.latent, expected.latent, atol=2e-5)


def _of_second_order():
    system = romkit.systems.Pendulum()
    data = system.dataset("train", duration=0.3).isel(trajectory=slice(0, 4))
    # of few layers, since there are four kernels to compile
    model = romkit.fit("ncae", data, layers=(2, 16), epochs=20)
    return Exploration(model, system, duration=0.1)


def _behind_a_basis():
    system = romkit.systems.Burgers2D(cells=10)
    data = system.dataset(mu1=[4.4, 5.4], mu2=[0.02, 0.02], duration=2.0)
    return Exploration(
        romkit.fit("polynomial-manifold", data, basis=6, latent_dim=3), system, duration=1.0
    )


def test_the_lines_are_on_the_manifold_and_about_the_orbit(exploration):
    view = exploration.view({"F": 3.15})
    z = _grid(view.orbit.latent)
    P = exploration.double(exploration.at({"F": 3.15})[0])
    states = P.decode(torch.from_numpy(z)).detach()
    assert torch.allclose(P(states), states, atol=1e-9)
    scale = exploration.double.frame.state_std.square().mean().sqrt().item()
    lines = (states.numpy() / scale) @ view.directions
    assert np.allclose(view.orbit.manifold, np.concatenate([lines, lines.swapaxes(0, 1)]))
    assert (z.min(axis=(0, 1)) < view.orbit.latent.min(axis=0)).all()
    assert (z.max(axis=(0, 1)) > view.orbit.latent.max(axis=0)).all()


@pytest.mark.parametrize("make", [_of_second_order, _behind_a_basis])
def test_what_is_compiled_for_every_context_is_the_reduced_model_of_each(make):
    exploration = make()
    run = exploration.run(exploration.middle)
    flow, exploration._flow = exploration._flow, None
    assert exploration.engine == "compiled"
    for share in (0.1, 0.9):
        context = {p.name: p.low + share * (p.high - p.low) for p in exploration.system.context}
        expected = exploration._reduced(context, run)
        found = exploration._flowed(flow, run, exploration.at(context))
        # both within the tolerance of a step, 1e-6, whose steps are not the same ones
        assert found.state.values == pytest.approx(expected.state.values, rel=1e-5, abs=1e-5)
        assert found.latent.values == pytest.approx(expected.latent.values, rel=1e-5, abs=1e-5)


@pytest.mark.usefixtures("few_contexts")
@pytest.mark.parametrize("seconds", [0.0, 1.0, 10.0])
def test_the_page_follows_its_sliders_as_fast_as_the_models_are(exploration, monkeypatch, seconds):
    monkeypatch.setattr(exploration, "seconds", seconds)
    monkeypatch.setattr("romkit.explorer.page.PROMPT", 0.9)  # this machine may be slow
    page = Page(exploration)
    assert len(page.layout().objects[1].objects) == 7
    before = page.reduced.data["x"]
    page.sliders["F"].value = 3.14
    assert not np.array_equal(page.reduced.data["x"], before)
    alone = seconds > 0.9
    assert ("valid for" in page.facts.object) != alone
    assert (len(page.compared.data["error"]) == 0) == alone
    assert page.compare.visible == (seconds > 5)
    page.compare.clicks += 1
    assert "valid for" in page.facts.object
    truth = exploration.view({"F": 3.14}).truth
    assert np.array_equal(page.fields["full model"].data["image"][0], truth.T.astype(np.float32))
    assert page.branch.data["value"].min() == exploration.system.context[0].low
    found = xr.Dataset(
        {
            name: ("k", [value])
            for name, value in {"map": "encoder", "lower": 1.0, "upper": 2.5}.items()
        }
    )
    monkeypatch.setattr(
        "romkit.explorer.page.certify", lambda projection, context, *, radius: found
    )
    page.button.clicks += 1
    assert "| encoder | 1 | 2.5 |" in page.certificate.object


def test_a_start_is_away_from_the_largest_jump(exploration):
    grid = exploration._diagram("F")
    smooth = np.sin(10 * grid)
    assert exploration.calm("F", (grid, smooth)) == grid[20]
    for jump in (10, 30):
        branch = np.repeat(grid, 2), np.repeat(smooth + (np.arange(41) > jump), 2)
        start = int(np.flatnonzero(grid == exploration.calm("F", branch)).item())
        assert abs(start - jump) >= 10
        assert (start > jump) == (jump == 10)
    lost = np.where(grid > 3.16, np.nan, smooth)
    assert exploration.calm("F", (grid, lost)) == grid[20]


@pytest.mark.usefixtures("few_contexts")
def test_the_page_plays_and_goes_back_to_its_start(exploration):
    page = Page(exploration)
    slider, home = page.sliders["F"], page.home["F"]
    page.step()
    assert slider.value == pytest.approx(home + 4 * slider.step)
    slider.value = slider.end - 6 * slider.step
    page.step()
    assert slider.value == pytest.approx(slider.end - 2 * slider.step)
    page.step()
    assert slider.value == slider.start
    page.reset.clicks += 1
    assert slider.value == home
    assert np.isfinite(page.compared.data["error"]).all()


def test_the_tab_for_own_data_learns_from_a_file_or_several(monkeypatch):
    quick = functools.partial(romkit.learn, latent_dim=2, kinds=["polynomial"])
    monkeypatch.setattr("romkit.explorer.own.learn", quick)
    tab = OwnData()
    tab.layout()
    tab.run()
    assert tab.said.object == "Choose a file first."
    tab.file.value = b"no netCDF"
    tab.run()
    assert tab.said.object.startswith("**")
    tab.seconds.value = 1
    tab.file.value = _encode(example())
    tab.run()
    assert "| forecast |" in tab.said.object
    assert tab.picture.object.get_suptitle()
    assert not tab.button.loading
    runs = example()
    parts = [runs.isel(trajectory=[k]).assign_attrs(speed=float(runs.speed[k])) for k in range(6)]
    files = [_encode(part.drop_vars("speed")) for part in parts]
    tab.file.value, tab.context.value = files, "speed"
    before = tab.said.object
    tab.run()
    assert "| forecast |" in tab.said.object
    assert tab.said.object != before


def test_the_example_has_a_model():
    tab = OwnData()
    tab.seconds.value = 1
    tab.example.clicks += 1
    assert "| nearest run |" in tab.said.object
    assert tab.download.callback().read(4) in (b"\x89HDF", b"CDF\x01")


NAMES = (
    '<img src=x onerror="document.title=777">',
    "![a](a.png)",
    "<script>alert(1)",
    "[here](javascript:alert(1))",
)


@pytest.mark.parametrize("name", NAMES)
def test_names_in_files_of_others_are_shown_as_text(name, tmp_path):
    data = xr.Dataset({"u": (("run", name, "c"), np.zeros((3, 9, 2)))}, {name: np.arange(9.0)})
    data.to_netcdf(tmp_path / "theirs.nc", engine="h5netcdf")
    tab = OwnData()
    tab.file.value = (tmp_path / "theirs.nc").read_bytes()
    tab.run()
    page = html.unescape(tab.said.get_root().text)
    assert not re.search(r"<(img|script|a)\b", page)
    assert re.sub(r"\W", "", name) in re.sub(r"\W", "", html.unescape(page))


@pytest.mark.parametrize("host", ["localhost:5006", "127.0.0.1:5006", "127.0.0.1"])
def test_pages_are_served_to_this_machine(host):
    _check_host(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:5006", "127.0.0.1.evil.example", ""]
)
def test_pages_are_not_served_to_sites_whose_name_leads_here(host):
    with pytest.raises(romkit.errors.InputError):
        _check_host(host)


def test_pages_are_not_given_to_pages_of_others():
    _check_origin("")
    _check_origin("http://127.0.0.1:5006")
    for origin in ("http://evil.example", "http://localhost.evil.example:80", "null"):
        with pytest.raises(romkit.errors.InputError):
            _check_origin(origin)


def _wait_for(port):
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("no server")


@pytest.mark.usefixtures("few_contexts")
def test_a_server_refuses_hosts_and_origins_of_others():
    port = _free_port()
    server = explore(romkit.load("ncae-lorenz96"), port=port, show=False, threaded=True)
    try:

        def status(path, **headers):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.putrequest("GET", path, skip_host=True)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")

        _wait_for(port)
        code, page = status("/", Host=f"127.0.0.1:{port}")
        assert code == 200
        assert "lorenz96" in page
        own = f"127.0.0.1:{port}"
        for foreign in (f"evil.example:{port}", "evil.example", f"localhost.evil.example:{port}"):
            for path in ("/", "/metadata", "/autoload.js", "/static/js/bokeh.min.js", "/a"):
                assert status(path, Host=foreign)[0] == 403
        # a picture of any page may be there, and panel would import this module
        assert status("/components/antigravity/A/b/c.js", Host=own)[0] == 403
        assert "antigravity" not in sys.modules
        assert "lorenz96" not in status("/", Host=own, Origin="http://evil.example")[1]
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13"}
        upgrade |= {"Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Host": f"127.0.0.1:{port}"}
        assert status("/ws", Origin="http://evil.example", **upgrade)[0] == 403
    finally:
        server.stop()
