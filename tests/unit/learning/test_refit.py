"""Coordinates of wide states, as many as the data need."""

import warnings

import numpy as np
import pytest

import romkit
from romkit.bases.make import adequate_basis
from romkit.errors import FitWarning
from romkit.learning import refit


def pulses(width, points=1200, samples=41, count=5):
    """Runs of a pulse that travels over ten units at speeds between 1 and 2."""
    x, t = np.linspace(0, 10, points), np.linspace(0, 4, samples)
    speed = np.linspace(1, 2, count)
    place = x - 2 - speed[:, None, None] * t[:, None]
    return romkit.data.from_arrays(np.exp(-np.square(place / width)), t, context={"speed": speed})


def share_left_out(data, rank):
    """Share of the energy beyond the first modes, by the SVD of NumPy."""
    x = data.state.values.reshape(-1, data.sizes["component"])
    squares = np.square(np.linalg.svd(x - x.mean(0), compute_uv=False))
    return squares[rank:].sum() / squares.sum()


@pytest.mark.parametrize("width", [0.3, 0.12])
def test_a_sharp_pulse_has_the_fewest_modes_that_hold_its_energy(width):
    data = pulses(width)
    rank = refit.basis_of(data).rank
    assert share_left_out(data, rank) <= refit.KEPT < share_left_out(data, rank - 1)
    # no fixed number of them
    assert (rank > 64) == (width < 0.2)


def test_modes_that_do_not_suffice_are_warned_of_once_and_used(monkeypatch):
    data = pulses(0.12)
    monkeypatch.setattr(refit, "WIDE", 66)
    with pytest.warns(FitWarning, match="66 modes") as told:
        basis = refit.basis_of(data)
    assert basis.rank == 66
    assert len(told) == 1
    left_out = float(1 - basis.energy[-1])
    assert left_out == pytest.approx(share_left_out(data, 66), rel=1e-6)


def test_modes_of_chunks_are_those_of_memory():
    data = pulses(0.12)
    lazy = data.chunk(trajectory=1, time=-1, component=-1)
    modes, of_chunks = (adequate_basis(runs, 1e-3, 200) for runs in (data, lazy))
    assert modes.rank == of_chunks.rank
    assert np.allclose(modes.energy, of_chunks.energy, atol=1e-9)


@pytest.mark.slow
def test_learn_takes_sharp_pulses():
    """No law of few latents follows them, and interpolated runs do."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        model = romkit.learn(pulses(0.12, samples=81, count=8), members=0, seconds=5)
    assert model.projection.frame.basis.rank > 64
    assert model.error < 0.05
