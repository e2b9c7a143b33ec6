"""Distances from the contexts of the training, and contexts in single precision."""

import warnings

import numpy as np
import pytest
import torch

import romkit
from romkit.errors import ExtrapolationWarning
from romkit.laws import SINDy

TIME = np.linspace(0, 1, 21)


def runs(**context):
    """Runs that turn, at so many contexts."""
    number = len(next(iter(context.values())))
    phase = TIME + np.arange(number)[:, None]
    states = np.stack([np.sin(phase), np.cos(phase)], axis=-1)
    values = {name: np.asarray(column, dtype=float) for name, column in context.items()}
    return romkit.data.from_arrays(states, TIME, context=values)


def model_of(data):
    """POD of everything and its linear law, which look at no context."""
    pod = romkit.fit("pod", data, latent_dim=2)
    settings = {"degree": 1, "threshold": 0.0, "context_degree": 0, "refine": False}
    return pod, SINDy(**settings).fit(pod, data)


def followed(data, **context):
    """Forecasts at contexts, and what was said."""
    pod, law = model_of(data)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = romkit.forecast(
            pod, dynamics=law, initial_state=np.array([0.0, 1.0]), duration=0.5, dt=0.1, **context
        )
    words = [str(each.message) for each in told if each.category is ExtrapolationWarning]
    return run, " ".join(words)


def triangle(unit=1.0, **more):
    """Contexts of a 3 x 3 grid whose corner a + b > 2 was left out."""
    grid = [(a, b) for a in (0.0, 1.0, 2.0) for b in (0.0, 1.0, 2.0) if a + b <= 2]
    a, b = np.array(grid).T
    others = {name: np.full(len(a), value) for name, value in more.items()}
    return runs(a=unit * a, b=b, **others)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
def test_a_corner_without_runs_is_beyond_them(unit):
    run, words = followed(triangle(unit, drag=3.0), a=2 * unit, b=2.0, drag=3.0)
    # half widths are one, and the diagonal is nearest at (1, 1)
    assert float(run.context_distance) == pytest.approx(np.sqrt(2), rel=1e-5)
    assert "a and b together" in words
    assert "drag" not in words


@pytest.mark.parametrize("point", [(0.0, 0.0), (2.0, 0.0), (1.0, 1.0), (0.5, 0.3), (0.2, 1.8)])
def test_what_lies_between_runs_is_within(point):
    run, words = followed(triangle(), a=point[0], b=point[1])
    assert float(run.context_distance) == 0
    assert not words


def test_parameters_that_were_not_varied_apart_are_named():
    together = np.linspace(1, 3, 5)
    data = runs(mass=together, load=2 * together, angle=[0.0, 1.0, 2.0, 1.0, 0.0])
    run, words = followed(data, mass=1.5, load=5.0, angle=0.4)
    assert "mass and load together" in words
    # the hull is a triangle in the plane load = 2 mass; of half widths 1, 2 and 1
    assert float(run.context_distance) >= np.sqrt(0.5) - 1e-6
    run, words = followed(data, mass=1.5, load=3.0, angle=0.4)
    assert float(run.context_distance) == 0


def test_a_parameter_beyond_its_range_is_named_alone():
    run, words = followed(triangle(), a=3.0, b=0.0)
    assert float(run.context_distance) == pytest.approx(1, rel=1e-5)
    assert "a by up to 1 half widths" in words
    assert "together" not in words


def test_a_course_leaves_the_runs_where_it_does():
    times = np.linspace(0, 0.5, 6)
    run, words = followed(triangle(), a=lambda t: 4 * t, b=lambda t: 4 * t)
    beyond = np.sqrt(2) * np.clip(4 * times - 1, 0, None)
    assert np.allclose(run.context_distance, beyond, atol=1e-3)
    assert "a and b together" in words


def test_many_contexts_are_as_good_as_those_on_their_hull():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(size=(2, 3000))
    keep = a + b <= 1
    data = runs(a=a[keep], b=b[keep])
    pod = romkit.fit("pod", data, latent_dim=2)
    assert len(pod.frame.exact["contexts"]) < 60
    run, _ = followed(data, a=0.9, b=0.9)
    assert float(run.context_distance) == pytest.approx(0.8 / np.sqrt(2) / 0.5, rel=0.05)


def test_a_declared_range_is_believed():
    data = triangle()
    for name in ("a", "b"):
        data[name].attrs["training_range"] = [0.0, 2.0]
    run, words = followed(data, a=2.0, b=2.0)
    assert float(run.context_distance) == 0
    assert not words


def test_a_file_keeps_the_contexts(tmp_path):
    pod, _ = model_of(triangle())
    again = romkit.load(romkit.save(pod, tmp_path / "pod.safetensors"))
    assert torch.equal(again.frame.exact["contexts"], pod.frame.exact["contexts"])


@pytest.mark.parametrize("base", [1.7e9, 2460000.5, 1e15])
def test_single_precision_tells_contexts_apart_that_are_large_beside_their_range(base):
    """Of POSIX seconds, Julian days, and frequencies."""
    position = np.linspace(0, 60, 5)
    images = []
    for origin in (0.0, base):
        ncae = romkit.fit("ncae", runs(q=origin + position), latent_dim=1, epochs=3, verbose=False)
        decoded = [ncae(q=origin + q).decode(torch.tensor([0.3])).detach() for q in position]
        images.append(torch.stack(decoded))
    assert images[0].std(0).min() > 1e-4
    assert torch.allclose(images[0], images[1], atol=1e-5)
