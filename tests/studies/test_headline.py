"""The gate of the headline results: it resumes by the sources' digest, and compares."""

import json

import numpy as np

from romkit.core.sources import digest, provenance
from studies import headline


def test_the_digest_is_that_of_names_and_contents_of_sources(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    before = digest(tmp_path)
    (tmp_path / "notes.txt").write_text("no source")
    assert digest(tmp_path) == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert digest(tmp_path) != before
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert digest(tmp_path) != before


def test_results_of_the_same_sources_are_computed_once_and_failures_do_not_stop(
    tmp_path, monkeypatch
):
    calls = []

    def computed():
        calls.append(1)
        return {"error": 0.5, "seconds": 1.0, "true": 0.5, "claimed": 0.2}

    def failed():
        raise ValueError("no runs")

    monkeypatch.setattr(headline, "planned", lambda: {"bad": failed, "torus": computed})
    file = tmp_path / "found.json"
    headline.run(file)
    found = headline.run(file)
    assert len(calls) == 1
    assert found["bad"]["failed"] == "ValueError: no runs"
    assert json.loads(file.read_text())["torus"]["sources"] == provenance()
    assert "ValueError: no runs" in headline.page(found, {})


def test_the_summary_counts_what_is_lost_and_what_is_claimed_honestly():
    honest = {"error": 1e-2, "seconds": 1.0, "true": 1e-2, "claimed": 0.6e-2, "inside": 0.9}
    bold = {"error": 1e-4, "seconds": 3.0, "true": 1e-4, "claimed": 0.4e-4, "inside": 0.5}
    lost = {"error": np.nan, "seconds": 2.0, "true": np.nan, "claimed": 0.1, "inside": None}
    found = headline.summary({"torus": honest, "Brusselator": bold, "food chain": lost})
    assert found["lost or failed"] == "1"
    assert found["geometric mean of errors"] == "0.001"
    assert found["true within a factor of two of claimed"] == "1 of 3"
    assert found["bars hold 80 to 97 %"] == "1 of 2"
    assert headline.ratio(1e-9, 1e-8) == 1.0
