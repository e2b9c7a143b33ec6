"""Words of a learned model about its law."""

from types import SimpleNamespace

import numpy as np

import romkit
from romkit.learning import words


def test_equations_of_many_coefficients_are_told_where_they_are(monkeypatch):
    time = np.linspace(0, 4, 41)
    states = np.exp(-time)[:, None] * np.array([1.0, 2.0, 3.0])[:, None, None]
    data = romkit.data.from_arrays(states, time, context={"size": np.array([1.0, 2.0, 3.0])})
    projection = romkit.fit("identity", data)
    law = romkit.laws.PolynomialLaw(degree=1).fit(projection, data)
    learned = SimpleNamespace(law=law)
    assert words.equations(learned)[0].count("=") == 1
    monkeypatch.setattr(words, "WRITTEN", 1)
    (line,) = words.equations(learned)
    assert str(law.coefficient_count) in line
    assert "model.law.formulas()" in line
