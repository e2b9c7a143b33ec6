"""Systems of other packages."""

from importlib.metadata import EntryPoint

import pytest

from romkit import systems
from romkit.errors import DataWarning
from romkit.systems import Lorenz96


class Ring(Lorenz96):
    name = "ring"


def test_systems_of_other_packages_are_found_by_their_names(monkeypatch):
    values = {"ring": f"{__name__}:Ring", "no": f"{__name__}:pytest", "missing": "no.such:System"}
    points = [EntryPoint(name, value, systems.GROUP) for name, value in values.items()]
    monkeypatch.setattr(systems, "entry_points", lambda group: points)
    with pytest.warns(DataWarning) as caught:
        found = systems._systems()
    assert found["ring"] is Ring
    assert set(found) - {"ring"} == set(systems.SYSTEMS)
    assert len(caught) == 2
