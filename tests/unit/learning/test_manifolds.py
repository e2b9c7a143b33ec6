"""Choice of latents where forecasts of whole runs lose the phase."""

import importlib

import numpy as np
from scipy.integrate import solve_ivp

import romkit
from romkit.laws import PolynomialLaw

DURATION = 40.0


def growing_waves(sharpness, count=8):
    """Forty periods of waves that grow to their limit cycles, beside a mean that follows late: three
    latents. Frequencies change with the context as no polynomial of a law does.
    """
    time = np.linspace(0, DURATION, 281)
    values = np.linspace(1, 3, count)
    mixture = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 5)))[0]
    runs = []
    for value in values:
        frequency = 6 + sharpness * np.tanh(3 * (value - 2))
        growth = 0.25 * (1 - 0.6 / value)

        def rate(t, state, frequency=frequency, growth=growth):
            x, y, mean = state
            net = growth - 0.5 * mean
            turn = frequency - 0.5 * mean
            return net * x - turn * y, turn * x + net * y, x**2 + y**2 - mean

        start = (0.05, 0.0, 0.6)
        solved = solve_ivp(rate, (0, DURATION), start, t_eval=time, rtol=1e-6, atol=1e-8)
        x, y, mean = solved.y
        modes = np.stack([x, y, mean, 0.3 * (x**2 - y**2), 0.6 * x * y], axis=-1)
        runs.append(modes @ mixture.T)
    return romkit.data.from_arrays(np.stack(runs), time, context={"value": values})


def test_latents_that_follow_the_motion_are_taken_where_all_lose_the_phase(monkeypatch):
    module = importlib.import_module("romkit.learning.manifolds")
    monkeypatch.setattr(module, "LATENT", (2, 3))
    kinds = [PolynomialLaw(degree=3, context_degree=1, poles=(), ridge=0.0)]
    model = romkit.learn(growing_waves(sharpness=0.08), "value", kinds=kinds, members=0)
    assert model.projection.latent_dim == 3
    two, three = model.trials
    # whole runs do not tell the manifolds apart, pieces do
    assert three.law_error > 0.5 * two.law_error
    assert three.in_pieces < 0.7 * two.in_pieces
    in_phase, late = model._phase()
    assert in_phase < 0.1
    assert abs(late) < 0.5 * 2 * np.pi / 6
