"""The study of limit cycles, on a small scale."""

import numpy as np
import pytest
import torch

from romkit.systems import Lorenz96
from studies.limit_cycle import run


def test_a_path_on_the_orbit_is_not_off_it_and_turns_as_it_does():
    times = np.linspace(0, 40, 4001)
    circle = torch.stack([torch.cos(torch.from_numpy(times)), torch.sin(torch.from_numpy(times))], dim=-1)[None]
    assert run.off_orbit(circle, circle).item() < 0.02
    assert run.off_orbit(1.5 * circle, circle).item() == pytest.approx(0.5, abs=0.01)
    assert run.turning(circle, times) == pytest.approx(1.0, abs=1e-2)


def test_it_runs_and_reports(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "WAVES", {8: (np.array([3.14, 3.15]), (3.143, 3.145))})
    for name, few in (("SPREADS", (0.1,)), ("DEGREES", (5,)), ("THRESHOLDS", (0.4,))):
        monkeypatch.setattr(run, name, few)
    monkeypatch.setattr(run, "Lorenz96", lambda: Lorenz96(transient=20.0))
    run.main(tmp_path / "results.json", duration=20.0, choice=10.0)
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "## Wave number 8" in page
    assert "of 1 candidates" in page.lower()
