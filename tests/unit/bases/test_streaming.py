"""Out of core: the same as in memory, whatever the blocks; stopped and resumed; and bases of parts,
merged.
"""

import itertools

import numpy as np
import pytest
import torch
import xarray as xr
from scipy.linalg import subspace_angles

import romkit
from romkit.bases import Basis, merge, streaming
from romkit.core.errors import FitWarning
from tests.refusals import refused

RNG = np.random.default_rng(0)


def dataset(trajectories=4, times=45, n=80, decay=0.85):
    """Singular values that fall slowly: a single pass is far from enough."""
    count = trajectories * times
    left, right = (np.linalg.qr(RNG.standard_normal((size, n)))[0] for size in (count, n))
    x = (left * decay ** np.arange(n)) @ right.T + np.linspace(0, 3, n)
    state = (("trajectory", "time", "component"), x.reshape(trajectories, times, n))
    return xr.Dataset({"state": state}, {"time": np.arange(times) * 0.1})


DATA = dataset()
WEIGHT = RNG.uniform(0.5, 2.0, 80)


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("chunk", [7, 45, 1])
def test_it_equals_the_decomposition_in_memory(chunk, weight):
    memory, streamed = romkit.basis(DATA, 10, weight), romkit.basis(DATA, 10, weight, chunk=chunk)
    assert np.allclose(streamed.mean, memory.mean, atol=1e-13)
    scale = memory.singular_values[0]
    assert (streamed.singular_values - memory.singular_values).abs().max() < 1e-8 * scale
    root = np.ones(80) if weight is None else np.sqrt(weight)
    assert (
        subspace_angles(
            root[:, None] * streamed.modes.numpy(), root[:, None] * memory.modes.numpy()
        ).max()
        < 1e-6
    )
    assert np.allclose(streamed.energy, memory.energy, atol=1e-8)


@pytest.mark.parametrize(
    ("shape", "directions", "rank"),
    [((4, 12, 9), 2, 2), ((4, 12, 60), 6, 6), ((3, 5, 60), 15, 14)],
)
@pytest.mark.parametrize("chunks", [{"time": 3}, {"trajectory": 1}, {"time": 4, "component": 5}])
def test_snapshots_of_few_directions_have_their_singular_values(shape, directions, rank, chunks):
    """Columns of the subspace that no snapshot has are rounding, and count for nothing."""
    rng = np.random.default_rng(0)
    amplitudes = rng.normal(size=(*shape[:2], directions)) * 0.7 ** np.arange(directions)
    x = 3.0 + amplitudes @ rng.normal(size=(directions, shape[2]))
    _, exact, modes = np.linalg.svd(x.reshape(-1, shape[2]) - x.mean((0, 1)), full_matrices=False)
    state = (("trajectory", "time", "component"), x)
    data = xr.Dataset({"state": state}, {"time": 0.1 * np.arange(shape[1])})
    basis = romkit.basis(data.chunk(chunks), rank)
    assert np.allclose(basis.singular_values, exact[:rank], rtol=1e-10)
    overlaps = np.abs((modes[:rank] @ basis.modes.numpy()).diagonal())
    assert np.allclose(overlaps, 1.0, atol=1e-10)


def test_small_singular_values_are_seen():
    """Down to 2e-6 of the first, with their modes to 1e-6, although squares of them are close to
    rounding.
    """
    steep = dataset(n=120, decay=0.5)
    x = steep.state.values.reshape(-1, 120)
    _, true, modes = np.linalg.svd(x - x.mean(0))
    streamed = romkit.basis(steep, 20, chunk=16)
    assert true[19] < 2e-6 * true[0]
    assert np.abs(streamed.singular_values.numpy() - true[:20]).max() < 1e-8 * true[0]
    assert subspace_angles(streamed.modes.numpy(), modes[:20].T).max() < 1e-6


def test_passes_are_two_where_singular_values_fall_fast_and_modes_that_do_not_settle_are_a_warning(
    monkeypatch,
):
    read, summed = [], streaming._summed
    monkeypatch.setattr(streaming, "_summed", lambda *given: read.append(1) or summed(*given))
    romkit.basis(dataset(decay=0.7), 10, chunk=45)
    assert len(read) == 2
    # noise has singular values of one size, none of which is ahead of the others
    noise = DATA.assign(state=DATA.state.copy(data=RNG.standard_normal(DATA.state.shape)))
    with pytest.warns(
        FitWarning, match=r"the 5 modes are known up to an angle of \d.* after 12 passes"
    ):
        romkit.basis(noise, 5, chunk=45)
    monkeypatch.setattr(streaming, "PASSES", 1)  # not enough, so that the tests above can fail
    memory, streamed = romkit.basis(DATA, 10), romkit.basis(DATA, 10, chunk=20)
    assert subspace_angles(streamed.modes.numpy(), memory.modes.numpy()).max() > 1e-4


class Killed(Exception):
    """End of a call in the middle of it."""


def test_a_call_that_is_stopped_three_times_gives_the_same_to_the_bit(tmp_path, monkeypatch):
    whole, file, read = (
        romkit.basis(DATA, 10, chunk=20),
        tmp_path / "progress.safetensors",
        itertools.count(1),
    )
    deviations = streaming._deviations

    def fragile(*given):
        if next(read) in (3, 20, 35):  # a pass has twelve chunks
            raise Killed
        return deviations(*given)

    monkeypatch.setattr(streaming, "_deviations", fragile)
    for _ in range(3):
        with pytest.raises(Killed):
            romkit.basis(DATA, 10, chunk=20, checkpoint=file)
    for data, rank in ((2 * DATA, 10), (DATA, 9)):
        refused("checkpoint", romkit.basis, data, rank, chunk=20, checkpoint=file)
    resumed = romkit.basis(DATA, 10, chunk=20, checkpoint=file)
    for name in ("mean", "modes", "singular_values", "energy"):
        assert torch.equal(getattr(resumed, name), getattr(whole, name)), name
    assert not file.exists()


def test_files_are_read_block_by_block(tmp_path, monkeypatch):
    DATA.to_netcdf(tmp_path / "large.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "large.nc", engine="h5netcdf") as lazy:
        streamed = romkit.basis(lazy, 10, chunk=15)
        assert not lazy.state.variable._in_memory
    assert torch.allclose(
        streamed.singular_values, romkit.basis(DATA, 10).singular_values, rtol=0, atol=1e-9
    )


def test_bad_input():
    broken = DATA.copy(deep=True)
    broken.state[1, 3, 5] = np.nan
    for data, rank, chunk, fact in (
        (broken, 10, 20, "expected finite snapshots, got NaN or infinity in trajectory 1"),
        (DATA.state.values, 3, 20, "data"),
        (broken, 200, 20, "rank"),  # before the data are read
        (DATA * 0, 1, 20, "rank"),
        (DATA, 3, 0, "chunk"),
    ):
        refused(fact, romkit.basis, data, rank, chunk=chunk)


LEFT, RIGHT = (np.linalg.qr(RNG.standard_normal((size, 50)))[0] for size in (150, 60))
SNAPSHOTS = LEFT * 0.8 ** np.arange(50) @ RIGHT.T + np.linspace(0, 3, 60)
PARTS = np.split(SNAPSHOTS, [40, 90])
COUNTS = [len(part) for part in PARTS]
WEIGHTS = RNG.uniform(0.5, 2.0, 60)


@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_parts_that_keep_all_give_the_basis_of_the_whole(weight):
    parts = [romkit.basis(part, 60, weight, tolerance=1e-14) for part in PARTS]
    merged, whole = merge(parts, COUNTS, 10, weight), romkit.basis(SNAPSHOTS, 10, weight)
    for name in ("mean", "singular_values", "energy"):
        assert torch.allclose(getattr(merged, name), getattr(whole, name), rtol=1e-7), name
    assert subspace_angles(merged.dual.numpy(), whole.dual.numpy()).max() < 1e-6


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("copies", [2, 3])
def test_parts_that_are_equal_give_their_basis(rank, copies):
    """Their common matrix has fewer directions than columns."""
    snapshots = RNG.standard_normal((4, 3)) @ RNG.standard_normal((3, 8))
    part = romkit.basis(snapshots, 3)
    merged = merge([part] * copies, [4] * copies, rank)
    whole = romkit.basis(np.concatenate([snapshots] * copies), rank)
    for name in ("mean", "singular_values", "energy"):
        assert torch.allclose(getattr(merged, name), getattr(whole, name), rtol=1e-7), name
    assert subspace_angles(merged.modes.numpy(), whole.modes.numpy()).max() < 1e-6


def test_truncated_parts_leave_out_what_they_say():
    parts = [romkit.basis(part, 20) for part in PARTS]
    halves = [merge(parts[:2], COUNTS[:2], 20), parts[2]]
    merged, whole = merge(halves, [sum(COUNTS[:2]), COUNTS[2]], 10), romkit.basis(SNAPSHOTS, 10)
    deviation = torch.from_numpy(SNAPSHOTS) - merged.mean
    error = (deviation - merged.decode_tangent(merged.encode_tangent(deviation))).square().sum()
    energy = deviation.square().sum()
    assert torch.allclose(merged.energy, whole.energy, rtol=1e-3)
    assert torch.allclose(1 - merged.energy[-1], error / energy, rtol=0.1)
    assert error < 1.1 * (1 - whole.energy[-1]) * energy


def test_what_cannot_be_merged():
    parts, of_fewer = [romkit.basis(part, 5) for part in PARTS], romkit.basis(PARTS[1][:, :30], 5)
    for given, fact in (
        ((parts, [40, 50]), "counts"),
        (([parts[0], of_fewer], [40, 50]), "parts[1]"),
        (([Basis(torch.eye(60, 2))], [40]), "parts[0]"),
        ((parts, COUNTS, 5, WEIGHTS), "weight"),
        ((parts, COUNTS, 40), "rank"),
        (([], []), "counts"),
    ):
        refused(fact, merge, *given)
