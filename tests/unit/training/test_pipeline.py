"""Snapshots on their way into training."""

import numpy as np

import romkit
from romkit.projections import Frame
from romkit.training.batches import Batch


def test_small_deviations_from_a_large_mean_are_kept():
    """Pressure of an atmosphere in Pa, that changes by a hundredth: less than the rounding of float32 there."""
    time, phase = np.linspace(0, 1, 50), np.linspace(0, 6, 4)
    wave = np.sin(6 * time[None, :, None] + phase + np.array([0.0, 1.0])[:, None, None])
    data = romkit.data.from_arrays(101325 + 0.01 * wave, time, context={"a": [0.0, 1.0]})
    data = romkit.data.with_velocity(data)
    rows = Batch.from_dataset(data, Frame.from_dataset(data), 1)
    y = rows.y.double().numpy()
    flat = wave.reshape(-1, 4)
    exact = (flat - flat.mean(0)) / flat.std()
    assert np.abs(y - y.mean(0) - exact * y.std()).max() < 0.01
