"""What once stood in the way of a user from outside: each is gone, or answered by one clear line."""

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.core.errors import DataWarning, FitWarning, InputError
from romkit.integrators import Galerkin, NeuralODE, SINDy
from romkit.projections import Frame, Path, architecture
from romkit.systems.problem import FirstOrder
from tests.unit.data.own import waves


@pytest.fixture(scope="module")
def data():
    return waves()


@pytest.fixture(scope="module")
def pod(data):
    return romkit.fit("pod", data, latent_dim=2)


def refused(call):
    """The one line that a mistake is answered with."""
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def wide(n=3000, runs=3, times=20):
    """A wave over many points, with fewer snapshots than points."""
    x, t = np.linspace(0, 2 * np.pi, n, endpoint=False), np.linspace(0, 3, times)
    phase = x - np.linspace(0.5, 1.5, runs)[:, None, None] * t[:, None]
    values = {"state": np.exp(np.cos(phase)), "velocity": np.sin(phase)}
    return xr.Dataset({name: (("trajectory", "time", "component"), part) for name, part in values.items()}, {"time": t})


def test_modes_of_many_components_need_no_square_matrix(monkeypatch):
    own = wide()
    eigh = torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda a: eigh(a) if len(a) < 500 else pytest.fail("an n x n matrix"))
    pod = romkit.fit("pod", own, latent_dim=4)
    x = own.state.values.reshape(-1, own.sizes["component"])
    modes = np.linalg.svd(x - x.mean(0), full_matrices=False)[2][:4]
    overlap = np.linalg.svd(modes @ np.linalg.qr(pod.modes.detach().double().numpy())[0], compute_uv=False)
    assert overlap == pytest.approx(1, abs=1e-6)
    few = romkit.fit("pod", own.isel(time=slice(0, 2), trajectory=[0]), latent_dim=4)  # more modes than directions
    assert torch.linalg.matrix_rank(few.modes) == 4


def test_default_layers_do_not_grow_with_the_state():
    for n, middle in ((20_000, 128), (100, 51)):
        frame = Frame("", ("x",) * n, ("1",) * n, ("c",), ("1",))
        assert architecture(romkit.projections.NcAE, frame, latent_dim=2)["layers"] == (2, middle, n)


def test_a_start_of_galerkin_makes_no_square_matrix(monkeypatch):
    own = wide()
    P = romkit.fit("pod", own, latent_dim=2).double()()
    eye = torch.eye
    monkeypatch.setattr(torch, "eye", lambda n, *a, **k: eye(n, *a, **k) if n < 500 else pytest.fail("an n x n matrix"))
    x = torch.from_numpy(own.state.values[:, 0])
    with torch.no_grad():
        start = Galerkin().start(FirstOrder(Path.constant(P)), torch.zeros(()), (x,))
    assert torch.allclose(start, P.encode(x))


def test_numbers_of_any_kind_are_a_context_and_none_is_one_in_silence(data):
    whole = data.drop_vars("speed").assign_coords(k=("trajectory", [1, 2, 3, 4]))
    for own, name in ((whole, "k"), (data.drop_attrs(), "speed")):
        with pytest.warns(DataWarning, match=f"the context is taken to be {name}"):
            assert romkit.fit("pod", own, latent_dim=2).frame.context_names == (name,)


def test_a_law_that_explains_little_says_so(data, pod):
    with pytest.warns(FitWarning, match="explain less than 90%"):
        SINDy(degree=1, threshold=50.0).fit(pod, data)


def test_data_are_a_truth_and_laws_need_no_system(data, pod, tmp_path):
    law = SINDy(degree=1, threshold=0.01, context_degree=1).fit(pod, data)
    again = romkit.load(romkit.save(law, tmp_path / "law.safetensors"))
    assert np.array_equal(romkit.rollout(data, pod, dynamics=again).rom, romkit.rollout(data, pod, dynamics=law).rom)
    assert "dynamics: expected a law, since there are no equations" in refused(lambda: romkit.rollout(data, pod))
    assert "dynamics: expected latent dynamics, got 'magic'" in refused(
        lambda: romkit.rollout(data, pod, dynamics="magic")
    )
    assert "dynamics: expected a fitted law" in refused(lambda: romkit.rollout(data, pod, dynamics=NeuralODE()))
