"""Snapshots with missing components: the basis of such, and their coordinates in it."""

import warnings

import numpy as np
import pytest
import torch

import romkit
from romkit.bases import Basis
from romkit.core.errors import DataWarning

PLACE = np.linspace(0, 2 * np.pi, 40, endpoint=False)
TIMES = np.linspace(0, 6, 60)
SPEEDS = np.array([1.0, 1.3, 1.7, 2.0, 2.5, 3.0])


def waves(speeds):
    """u(t, x; c) (C, T, 40): a wave and its harmonic, along four modes."""
    phase = PLACE - TIMES[:, None]
    fields = [c * np.cos(phase) + 0.3 * c**2 * np.cos(2 * phase) + np.sin(PLACE) for c in speeds]
    return np.stack(fields)


def as_data(states, speeds=SPEEDS):
    return romkit.data.from_arrays(states, TIMES, context={"c": speeds})


def with_holes(states, lacking=12, share=0.6):
    """Copies of which this share of the snapshots lacks so many components."""
    rng = np.random.default_rng(0)
    holes = states.copy()
    for run in holes:
        for k in rng.permutation(len(run))[: round(share * len(run))]:
            run[k, rng.permutation(run.shape[1])[:lacking]] = np.nan
    return holes


@pytest.mark.parametrize("weight", [None, np.linspace(1.0, 2.0, 40)])
def test_coordinates_are_those_of_the_complete_states(weight):
    states = waves(SPEEDS)
    data, holes = as_data(states), as_data(with_holes(states))
    basis = romkit.basis(data, 4, weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coordinates = basis.project(holes).state.values
    assert np.allclose(coordinates, basis.project(data).state.values, atol=1e-9)


def test_coordinates_are_those_of_weighted_least_squares():
    rng = np.random.default_rng(1)
    states = waves(SPEEDS) + 1e-3 * rng.normal(size=(6, 60, 40))
    weight = np.linspace(0.5, 3.0, 40)
    basis = romkit.basis(as_data(states), 4, weight)
    holes = with_holes(states)
    coordinates = basis.project(as_data(holes)).state.values
    root = np.sqrt(weight)
    for run, y in zip(holes, coordinates, strict=True):
        for x, found in zip(run, y, strict=True):
            there = np.isfinite(x)
            rows = root[there, None] * basis.modes.numpy()[there]
            target = root[there] * (x - basis.mean.numpy())[there]
            expected = np.linalg.lstsq(rows, target, rcond=None)[0]
            # the spread of complete snapshots moves them by a millionth of it
            assert np.allclose(found, expected, atol=1e-4)


def test_what_too_few_components_leave_open_is_left_out_with_one_warning():
    states = waves(SPEEDS)
    basis = romkit.basis(as_data(states), 4)
    holes = states.copy()
    holes[0, 5, 2:] = holes[3, 7, 1:] = np.nan
    holes[2, 9] = np.nan  # a missing sample is no gap
    data = as_data(holes)
    with pytest.warns(DataWarning, match="got 2 that lack") as caught:
        coordinates = basis.project(data).state.values
    assert len(caught) == 1
    lost = np.argwhere(np.isnan(coordinates).any(-1)).tolist()
    assert lost == [[0, 5], [2, 9], [3, 7]]


def test_velocities_with_gaps_have_coordinates_too():
    states = waves(SPEEDS)
    data = as_data(states)
    data = data.assign(velocity=data.state.copy(data=np.gradient(states, TIMES, axis=1)))
    basis = romkit.basis(data, 4)
    holes = data.assign(velocity=data.velocity.copy(data=with_holes(data.velocity.values)))
    found, expected = basis.project(holes), basis.project(data)
    assert np.allclose(found.velocity, expected.velocity, atol=1e-6)
    assert np.array_equal(found.state, expected.state)


def test_a_basis_of_snapshots_with_gaps_is_that_of_complete_ones():
    states = waves(SPEEDS)
    expected = romkit.basis(as_data(states), 4).modes
    found = romkit.basis(as_data(with_holes(states)), 4).modes
    assert float((expected - found @ (found.mT @ expected)).norm()) < 0.01
    few = as_data(with_holes(states, share=0.95))
    found = romkit.basis(few, 4).modes
    assert float((expected - found @ (found.mT @ expected)).norm()) < 0.05


def test_a_manifold_behind_a_basis_uses_snapshots_with_gaps():
    states = waves(SPEEDS)
    holes = as_data(with_holes(states, share=0.9))
    unseen = torch.from_numpy(waves([2.2])[0])
    errors = {}
    for name, data in (("whole", as_data(states)), ("holes", holes)):
        model = romkit.fit("polynomial-manifold", data, basis=4, latent_dim=2).double()
        P = model(c=2.2)
        errors[name] = float((P(unseen) - unseen).abs().max())
    assert errors["whole"] < 1e-2
    assert errors["holes"] < 5e-2


def test_modes_computed_elsewhere_need_no_singular_values():
    states = waves(SPEEDS)
    made = romkit.basis(as_data(states), 4)
    basis = Basis(made.modes, made.mean)
    holes = as_data(with_holes(states))
    expected = basis.project(as_data(states)).state.values
    assert np.allclose(basis.project(holes).state.values, expected, atol=1e-9)
