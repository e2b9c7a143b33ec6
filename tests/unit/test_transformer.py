"""Projections in scikit-learn: its own checks, pipelines, tables, contexts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import romkit
from romkit import ProjectionTransformer, RunsRegressor
from tests.refusals import refused
from tests.unit.data.own import wave

ONE = {"latent_dim": 1}
QUICK = {"epochs": 2, "verbose": False, "engine": "torch"}


@parametrize_with_checks(
    [ProjectionTransformer(**ONE), ProjectionTransformer("cae", **ONE, settings=QUICK)]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def snapshots():
    return np.concatenate([wave(speed)[0] for speed in (1.0, 2.0)])


def test_pod_spans_what_pca_does(snapshots):
    pod, pca = (make.fit(snapshots) for make in (ProjectionTransformer(latent_dim=1), PCA(1)))
    images = [each.inverse_transform(each.transform(snapshots)) for each in (pod, pca)]
    assert np.allclose(*images, atol=1e-6)  # the modes are kept in single precision


def test_a_table_in_a_pipeline_comes_back(snapshots):
    table = pd.DataFrame(snapshots, columns=[f"u{k}" for k in range(16)])
    pipeline = make_pipeline(StandardScaler(), ProjectionTransformer()).set_output(
        transform="pandas"
    )
    z = pipeline.fit_transform(table)
    assert list(z.columns) == ["projectiontransformer0", "projectiontransformer1"]
    back = pipeline[0].inverse_transform(pipeline[1].inverse_transform(z))
    assert np.allclose(back, table, atol=1e-5)
    assert pipeline[1].projection_.frame.state_names == tuple(table.columns)


def test_columns_of_the_context_pass_through(snapshots):
    speed = np.repeat([1.0, 2.0], len(snapshots) // 2)[:, None]
    rows = np.hstack([snapshots, speed])
    ncae = ProjectionTransformer("ncae", contexts=1, settings=QUICK).fit(rows)
    z = ncae.transform(rows)
    assert np.array_equal(z[:, 2:], speed)
    P = ncae.projection_(x16=2.0)
    assert np.allclose(z[-1, :2], P.encode(snapshots[-1]))
    back = ncae.inverse_transform(z)
    assert np.allclose(back[-1, :16], P.decode(z[-1, :2]))
    assert np.array_equal(back[:, 16:], speed)
    again = clone(ncae).fit(rows)
    assert np.array_equal(again.transform(rows), z)


REFUSALS = [
    ({"method": "poddle"}, "method"),
    (
        {"latent_dim": 17},
        "latent_dim",
    ),
    ({"latent_dim": 0}, "latent_dim"),
    ({"contexts": 15}, "latent_dim"),
    ({"contexts": -1}, "contexts"),
    ({"latent_dim": [2]}, "latent_dim"),
    ({"latent_dim": 2.0}, "latent_dim"),
    ({"latent_dim": None}, "latent_dim"),
    ({"contexts": "1"}, "contexts"),
    ({"settings": 3}, "settings"),
    ({"settings": ["epochs"]}, "settings"),
    ({"seed": "a"}, "seed"),
    ({"settings": {"epoch": 3}}, "epoch"),
]


@pytest.mark.parametrize(("settings", "argument"), REFUSALS)
def test_bad_input_is_one_line(snapshots, settings, argument):
    refused(argument, ProjectionTransformer(**settings).fit, snapshots)
    refused(
        "X",
        ProjectionTransformer().fit(snapshots).inverse_transform,
        np.zeros((2, 3)),
    )
    assert "ProjectionTransformer" in romkit.__all__


def test_runs_are_learned_in_searches_of_sklearn():
    t, speed = np.linspace(0, 6, 61), np.linspace(1.0, 2.0, 6)
    runs = np.sin(speed[:, None, None] * t[:, None] - np.arange(4))
    rows = np.column_stack([speed, runs[:, 0]])
    model = clone(RunsRegressor(t, latent_dim=2))
    model.fit(rows, runs.reshape(6, -1))
    assert model.predict(rows).shape == (6, 61 * 4)
    assert -0.02 < model.score(rows, runs) < 0
    unseen = np.sin(1.33 * t[:, None] - np.arange(4))
    forecast = model.predict(np.array([[1.33, *unseen[0]]])).reshape(61, 4)
    assert np.abs(forecast - unseen).max() < 0.05
    refused("times", RunsRegressor(t**2).fit, rows, runs)
    refused("y", RunsRegressor(t).fit, rows, runs[:, :, :3])
