"""Data of another package: romkit's modes are those of eofs."""

import numpy as np
import pytest

from studies.public_data import tasks
from studies.runner import Study


def test_modes_of_a_field_with_land_are_its_empirical_orthogonal_functions():
    pytest.importorskip("eofs")
    found = tasks.winters(**Study("public_data").presets["smoke"]["winters"])
    assert found["distance of scores"] < 1e-6
    assert np.allclose(found["explained"]["pod"], found["explained"]["eofs"], atol=1e-4)
