"""The study of README's recipe on data of others: its rivals on a linear system, and a small set
through all of it.
"""

import numpy as np

from studies.first_afternoon.report import page
from studies.first_afternoon.rivals import side_by_side
from studies.first_afternoon.tasks import learned, rivals


def test_rivals_forecast_a_linear_system_whose_frequency_is_linear_in_the_parameter():
    times, c = np.linspace(0.0, 6.0, 301), np.linspace(1.0, 1.2, 5)
    mixing = np.random.default_rng(0).normal(size=(2, 6))
    runs = np.stack([np.stack([np.cos(w * times), np.sin(w * times)], -1) @ mixing for w in c])
    held = np.array([1.025])
    truth = np.stack([np.cos(1.025 * times), np.sin(1.025 * times)], -1)[None] @ mixing
    found = side_by_side(runs, c, truth, held, times, scaled=False)
    for package, tolerance in (
        ("pydmd", 1e-3),
        ("opinf", 1e-3),
        ("pysindy", 0.1),
    ):  # finite differences of order two
        assert np.abs(found[package][0] - truth).max() < tolerance * np.abs(truth).max()


def test_a_small_set_goes_from_data_to_the_page():
    quick = {"seconds": 0.2, "latent_dim": 2, "kinds": ["polynomial"]}
    found = learned("Stuart-Landau field", runs=5, **quick)
    assert np.isfinite(found["romkit"]).all()
    text = page(
        {
            "Stuart-Landau field": found,
            "Stuart-Landau field, rivals": rivals("Stuart-Landau field", 5),
        }
    )
    assert "| Stuart-Landau field | mu from 0.3 to 1 | 1 | 1e+06 | - | 200 |" in text
