"""Samples of laws: snapshots with gaps, encoded by least squares."""

import numpy as np
import pytest
import torch

import romkit
from romkit.laws import OperatorInference, SINDy, WeakSINDy, differentiated_samples

STEP = 0.05


@pytest.fixture(scope="module")
def waves():
    """Four runs of a circle in ten sensors, and the same with 5 % of single values missing."""
    draw = np.random.default_rng(0)
    sensors = draw.normal(size=(2, 10))
    t, speeds = STEP * np.arange(150), [1.0, 1.2, 1.5, 2.0]
    runs = []
    for w in speeds:
        runs.append(np.stack([np.sin(w * t + w), np.cos(w * t + w)], axis=-1) @ sensors)
    states = np.stack(runs)
    gaps = np.where(draw.random(states.shape) < 0.05, np.nan, states)
    context = {"w": speeds}
    return [romkit.data.from_arrays(x, STEP, context=context) for x in (states, gaps)]


def test_latents_of_snapshots_with_gaps_are_those_of_whole_ones(waves):
    whole, gaps = waves
    assert float(np.isfinite(gaps.state.values).all(-1).mean()) < 0.7
    pod = romkit.fit("pod", whole, latent_dim=2)
    samples = [differentiated_samples(pod, data, window=7, degree=4) for data in (whole, gaps)]
    assert bool(samples[1].observed.all())
    assert torch.allclose(samples[0].inputs, samples[1].inputs, atol=1e-5)
    assert torch.allclose(samples[0].targets, samples[1].targets, atol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        WeakSINDy(degree=1, share=0.01),
        SINDy(degree=1, share=0.01),
        OperatorInference(degree=1, regularization=1e-3),
    ],
    ids=lambda settings: type(settings).__name__,
)
def test_laws_of_snapshots_with_gaps(settings, waves):
    whole, gaps = waves
    pod = romkit.fit("pod", gaps, latent_dim=2)
    run = romkit.rollout(whole, pod, dynamics=settings.fit(pod, gaps))
    assert float(run.nrmse.max()) < 0.1
