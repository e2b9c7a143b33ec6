"""Polynomial laws of driven runs: inputs move, so that they need no further contexts."""

import numpy as np
import pytest

import romkit

TIMES = np.linspace(0, 6, 121)


def gains(rates):
    """Exact runs of x' = -x + c u from rest, with u = sin(w t) of another w in each."""
    w = np.linspace(0.8, 2.0, len(rates))[:, None]
    u = np.sin(w * TIMES)
    rest = w * np.exp(-TIMES)
    x = np.asarray(rates)[:, None] * (u - w * np.cos(w * TIMES) + rest) / (1 + w**2)
    data = romkit.data.from_arrays(
        x[..., None], TIMES, context={"c": np.asarray(rates)}, control=u[..., None]
    )
    data["control"].attrs["between"] = "linear"
    return data


@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")
def test_a_gain_that_is_a_parameter_is_found_from_six_runs():
    data = gains(np.linspace(1, 2, 6))
    plain = romkit.fit("pod", data, latent_dim=1)
    law = romkit.law(plain, data, kinds=["polynomial"])
    unseen = gains([1.23, 1.71])
    ahead = romkit.follow(plain, unseen, dynamics=law)
    assert abs(ahead["state"] - unseen["state"]).max() < 2e-3
    # the product of the parameter and the input
    assert law.basis.context_library.degree == 2
