"""What a reduced model says of contexts that it was not trained at."""

import warnings

import numpy as np
import pytest

import romkit
from romkit.core.errors import ExtrapolationWarning
from romkit.integrators import SINDy

TIMES = np.linspace(0, 1, 21)


def waves(speed, drag=1.0):
    """Two trajectories at contexts (speed, drag), of which the second may have one value."""
    state = np.stack([np.stack([np.sin(TIMES + k), np.cos(TIMES + k)], axis=-1) for k in (0, 1)])
    context = {"speed": np.asarray(speed, dtype=float), "drag": np.full(2, drag)}
    return romkit.data.from_arrays(state, TIMES, context=context)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e5])
def test_a_context_of_one_value_has_no_range_whatever_its_unit(unit):
    data = waves([1.0, 2.0], unit)
    pod = romkit.fit("pod", data, latent_dim=2)
    law = SINDy(degree=1, threshold=0.0, context_degree=0).fit(pod, data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExtrapolationWarning)
        romkit.follow(pod, waves([1.2, 1.7], unit), dynamics=law)
    with pytest.warns(ExtrapolationWarning, match=f"drag, which was {unit:g} alone"):
        run = romkit.follow(pod, waves([1.2, 1.7], 1.1 * unit), dynamics=law)
    assert np.allclose(run.context_distance, 0.1, atol=1e-4)
    assert f"drag {unit:.4g}\n" in f"{pod.facts()['context']}\n"


def test_projections_remember_which_contexts_had_one_value(tmp_path):
    pod = romkit.fit("pod", waves([1.0, 2.0]), latent_dim=2)
    romkit.save(pod, tmp_path / "pod.safetensors")
    assert romkit.load(tmp_path / "pod.safetensors").frame.fixed == ("drag",)
