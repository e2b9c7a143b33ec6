"""Bases of parts, merged: exact where parts keep all, and within what they leave out elsewhere."""

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

import romkit
from romkit.bases import Basis, merge
from tests.refusals import refused

RNG = np.random.default_rng(0)
LEFT, RIGHT = (np.linalg.qr(RNG.standard_normal((size, 50)))[0] for size in (150, 60))
SNAPSHOTS = LEFT * 0.8 ** np.arange(50) @ RIGHT.T + np.linspace(0, 3, 60)
PARTS = np.split(SNAPSHOTS, [40, 90])
COUNTS = [len(part) for part in PARTS]
WEIGHT = RNG.uniform(0.5, 2.0, 60)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_parts_that_keep_all_give_the_basis_of_the_whole(weight):
    parts = [romkit.basis(part, 60, weight, tolerance=1e-14) for part in PARTS]
    merged, whole = merge(parts, COUNTS, 10, weight), romkit.basis(SNAPSHOTS, 10, weight)
    for name in ("mean", "singular_values", "energy"):
        assert torch.allclose(getattr(merged, name), getattr(whole, name), rtol=1e-7), name
    assert subspace_angles(merged.dual.numpy(), whole.dual.numpy()).max() < 1e-6


def test_truncated_parts_leave_out_what_they_say():
    parts = [romkit.basis(part, 20) for part in PARTS]
    halves = [merge(parts[:2], COUNTS[:2], 20), parts[2]]
    merged, whole = merge(halves, [sum(COUNTS[:2]), COUNTS[2]], 10), romkit.basis(SNAPSHOTS, 10)
    deviation = torch.from_numpy(SNAPSHOTS) - merged.mean
    error = (deviation - merged.decode_tangent(merged.encode_tangent(deviation))).square().sum()
    energy = deviation.square().sum()
    assert torch.allclose(merged.energy, whole.energy, rtol=1e-3)
    assert torch.allclose(1 - merged.energy[-1], error / energy, rtol=0.1)
    assert error < 1.1 * (1 - whole.energy[-1]) * energy


def test_bad_input():
    parts, of_fewer = [romkit.basis(part, 5) for part in PARTS], romkit.basis(PARTS[1][:, :30], 5)
    for given, message in (
        ((parts, [40, 50]), "counts: expected one for each part, got 2 for 3 parts"),
        (([parts[0], of_fewer], [40, 50]), "parts[1]: expected a basis like"),
        (([Basis(torch.eye(60, 2))], [40]), "parts[0]: expected a basis with singular values"),
        ((parts, COUNTS, 5, WEIGHT), "weight: expected that of parts[0], got another"),
        ((parts, COUNTS, 40), "rank: expected at most 17, the directions of the parts, got 40"),
        (([], []), "counts: expected 1 or more of them"),
    ):
        refused(message, merge, *given)
