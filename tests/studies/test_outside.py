"""Boards of others: their scores, systems and committed page."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.outside import burgers, ctf, page, rivals
from benchmarks.outside.families import FAMILIES, laplacian

FOLDER = Path(page.__file__).parent


def test_page_is_that_of_its_results():
    found = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    assert page.page(found) == (FOLDER / "RESULTS.md").read_text(encoding="utf-8")


def test_scores_of_the_truth_of_zeros_and_of_what_is_lost():
    truth = ctf.lorenz(None, 600, 28.0, np.random.default_rng(0))
    assert ctf.short(truth, truth) == ctf.histograms(truth, truth) == 100
    assert ctf.short(truth, 0 * truth) == ctf.denoised(truth, 0 * truth) == 0
    assert ctf.histograms(truth, truth + 1000) == -100
    assert ctf.short(truth, np.full_like(truth, np.nan)) == 0
    assert ctf.short(truth, -1e9 * truth) == -100


def test_a_spectrum_counts_power_and_no_phase():
    field = ctf.kuramoto_sivashinsky(None, 25, 1.0, np.random.default_rng(0))
    assert ctf.spectrum(field, np.roll(field, 100, 1)) == pytest.approx(100)
    assert ctf.spectrum(field, 2**0.5 * field) == pytest.approx(0)


def test_kuramoto_sivashinsky_is_solved():
    u = ctf.kuramoto_sivashinsky(None, 5, 1.1, np.random.default_rng(1))
    k = np.arange(513) / 16
    rate = (u[0] - 8 * u[1] + 8 * u[3] - u[4]) / (12 * 0.025)
    linear = np.fft.irfft((k**2 - 1.1 * k**4) * np.fft.rfft(u[2]))
    advection = np.fft.irfft(0.5j * k * np.fft.rfft(u[2] ** 2))
    assert rate == pytest.approx(linear - advection, abs=1e-3 * np.abs(rate).max())


def test_laplacian_of_a_plane_wave():
    x = 2 * np.pi * np.arange(64) / 64
    wave = np.cos(x)[:, None] * np.ones(64)
    # u'' by differences, from the sides and twice from the corners
    assert laplacian(wave) == pytest.approx(2 * (np.cos(x[1]) - 1) * wave)


def test_conserved_quantity_of_lotka_and_volterra():
    runs = FAMILIES["Lotka-Volterra"].solved("new", 1)
    x, y = np.moveaxis(runs.states, -1, 0)
    beta, delta = (values[:, None, None] for values in runs.parameters.T)
    energy = delta * x - 0.5 * np.log(x) + beta * y - 0.5 * np.log(y)
    assert np.ptp(energy, axis=-1).max() < 1e-7


def test_burgers_keeps_the_integral_until_the_end_of_the_line():
    run = burgers.one_dimension(0.8, 1.0, points=301, steps=100)
    # u u_x by u times an upwind difference is not conservative; steepening is slow at first
    assert run[1].sum() == pytest.approx(run[0].sum(), rel=5e-3)
    assert run.min() >= 0
    assert run.max() <= 0.8


@pytest.mark.parametrize("method", rivals.METHODS.values(), ids=rivals.METHODS)
def test_other_methods_forecast_a_linear_oscillation(method):
    t = 0.1 * np.arange(400)
    truth = np.stack([np.cos(t), -np.sin(t)], 1)
    path = method(truth[:300], 0.1)(truth[:300], 20)
    assert path == pytest.approx(truth[300:320], abs=0.05)
