"""Ensembles: mean and interval, calibration on what was held out, files; and warnings beyond the
training data.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
import romkit.verbs.ensemble as home
from romkit.core.errors import DivergenceWarning, ExtrapolationWarning, FileError
from romkit.data import open_dataset, save_dataset
from romkit.laws import DMD, NeuralODE, OperatorInference, SINDy
from romkit.verbs.ensemble import Calibration, stacked
from tests.refusals import refused

TIMES = np.linspace(0, 8, 81)


def rings(contexts, seed):
    """Van der Pol cycles of several dampings, seen by six noisy sensors; each starts somewhere
    else.
    """
    from scipy.integrate import solve_ivp

    rng, mix = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(2, 6))
    mu = np.asarray(contexts, dtype=float)

    def field(t, flat):
        y, v = flat.reshape(len(mu), 2).T
        return np.stack([v, mu * (1 - y**2) * v - y], -1).ravel()

    # all at once: each step is some calls of NumPy, however many they are
    starts = rng.uniform(-2, 2, (len(mu), 2)).ravel()
    found = solve_ivp(field, (0, 8), starts, t_eval=TIMES, rtol=1e-8, atol=1e-8)
    paths = found.y.T.reshape(len(TIMES), len(mu), 2).swapaxes(0, 1)
    state = paths @ mix
    state += 0.02 * state.std() * rng.normal(size=state.shape)
    coords = {"time": TIMES, "mu": ("trajectory", mu)}
    data = xr.Dataset({"state": (("trajectory", "time", "component"), state)}, coords)
    return romkit.data.with_velocity(data)


@pytest.fixture(scope="module")
def data():
    return rings(np.linspace(0.4, 1.2, 16), seed=1)


@pytest.fixture(scope="module")
def held_out():
    return rings(np.linspace(0.43, 1.17, 12), seed=2)


@pytest.fixture(scope="module")
def pod(data):
    return romkit.fit("pod", data, latent_dim=2)


@pytest.fixture(scope="module")
def ensemble(pod, data):
    return romkit.bootstrap(pod, SINDy(degree=3, threshold=0.02), data, members=6)


def test_the_interval_holds_on_held_out_trajectories(ensemble, held_out):
    found = ensemble.reliability(held_out)
    assert found.coverage_of.dims == ("level", "trajectory")
    assert (np.diff(found.coverage.values) > 0).all()
    assert 0.80 <= float(found.coverage.sel(level=0.9)) <= 0.97
    bare = replace(ensemble, calibration=None).reliability(held_out)
    narrow, fair = (float(each.coverage.sel(level=0.9)) for each in (bare, found))
    assert narrow < fair - 0.1  # members agree where all of them are wrong


def test_the_band_has_mean_interval_and_spread_of_the_members(ensemble, held_out, monkeypatch):
    band = ensemble.follow(held_out)
    assert band.state.dims == ("trajectory", "time", "component")
    assert bool((band.lower <= band.state).all() & (band.state <= band.upper).all())
    assert band.lower.attrs["level"] == 0.9
    wide = ensemble.follow(held_out, level=0.95)
    assert bool(((wide.upper - wide.lower) >= (band.upper - band.lower)).all())
    assert float(romkit.score(held_out, band).nrmse.median()) < 0.2
    assert float(band.lost.max()) == 0.0
    members = [
        romkit.follow(one, held_out, dynamics=ensemble.law[k]).state.values
        for k, one in enumerate(romkit.projections.unstack(ensemble.projection))
    ]
    assert np.allclose(band.state, np.mean(members, 0), atol=1e-8)
    assert np.allclose(band.spread, np.std(members, 0, ddof=1), atol=1e-8)
    monkeypatch.setattr(
        "romkit.verbs.ensemble.NUMBERS", 6 * 81 * 6 * 5
    )  # a part of the trajectories at a time
    assert np.allclose(ensemble.follow(held_out).upper, band.upper, atol=1e-10)


def test_members_that_are_lost_make_no_interval_narrow(ensemble, held_out):
    """One that is left agrees with itself; where none is, the calibration says that it knows
    nothing.
    """
    wild = ensemble.law.coefficients.clone()
    wild[1:] = 1e3
    alone = replace(ensemble, law=replace(ensemble.law, coefficients=wild))
    with pytest.warns(DivergenceWarning, match="60 of 72 trajectories are lost"):
        bare = replace(alone, calibration=None).follow(held_out).isel(time=-1)
    with pytest.warns(DivergenceWarning, match="60 of 72 trajectories are lost"):
        band = alone.follow(held_out).isel(time=-1)
    assert float(band.lost.min()) == pytest.approx(5 / 6)
    assert np.isfinite(band.state).all()
    assert np.isnan(bare.upper).all()
    assert (band.upper > band.lower).all()
    none = replace(alone, law=replace(alone.law, coefficients=torch.full_like(wild, 1e3)))
    with pytest.warns(
        DivergenceWarning,
        match=r"12 of 12 forecasts are lost, \d+% of their values",
    ):
        none.calibrated(held_out)


def test_data_that_name_a_system_but_lack_its_context_have_laws():
    data = (
        romkit.systems.Lorenz96(n=8, transient=0.0, duration=0.5)
        .dataset(F=[3.14, 3.16, 3.18])
        .drop_vars("F")
    )
    pod = romkit.fit("pod", data, latent_dim=2)
    assert len(romkit.bootstrap(pod, DMD(), data, members=3)) == 3
    refused(
        "projection",
        romkit.follow,
        pod,
        data,
    )


def test_a_forecast_has_a_band(ensemble, held_out):
    x0 = held_out.state.values[3, 0]
    mu = float(held_out.mu[3])
    band = ensemble.forecast(initial_state=x0, duration=20, dt=0.1, mu=mu)
    assert band.state.shape == (201, 6)
    assert np.isfinite(band.upper).all()
    followed = ensemble.follow(held_out.isel(trajectory=[3]))
    assert np.allclose(band.state[:81], followed.state[0], atol=1e-6)
    assert np.allclose(band.upper[:81], followed.upper[0], atol=1e-6)


def test_a_stack_of_seeds_is_an_ensemble(data, held_out):
    both = romkit.fit("pod", data, latent_dim=2, seeds=range(2))
    law = SINDy(degree=3).fit(both, data)
    ensemble = romkit.Ensemble(both, law).calibrated(held_out.isel(trajectory=slice(None, None, 2)))
    assert len(ensemble) == 2
    assert (
        0.7
        < float(
            ensemble.reliability(held_out.isel(trajectory=slice(1, None, 2))).coverage.sel(
                level=0.9
            )
        )
        <= 1
    )


@pytest.mark.parametrize(
    "law",
    [
        DMD(),
        OperatorInference(degree=3, regularization=0.1),
        NeuralODE((8,), regression_steps=20, shooting_steps=2),
    ],
)
def test_all_laws_have_bootstraps_with_and_without_missing_samples(pod, data, law):
    short = data.isel(time=slice(30))  # fewer samples than a region keeps points
    for given in (
        data,
        data.where((data.mu < 1) | (data.time < 6)),
        short.where((data.mu < 1) | (data.time < 2)),
    ):
        ensemble = romkit.bootstrap(pod, law, given, members=3)
        assert len(ensemble) == 3
        rate = ensemble.law.right_hand_side(torch.ones(3, 1, 1).double())(
            torch.ones(3, 1, 2).double()
        )
        assert not torch.allclose(rate[0], rate[1])


def test_laws_one_by_one_are_those_of_a_stack(pod, data):
    samples = SINDy.samples(pod, data)
    z = torch.stack([samples.inputs, 1.1 * samples.inputs])
    c = samples.context.expand(2, -1, -1)
    together = SINDy(degree=3, threshold=0.1).fit_samples(
        replace(samples, inputs=z, targets=samples.targets.expand_as(z), context=c).scaled()
    )
    alone = [
        SINDy(degree=3, threshold=0.1).fit_samples(replace(samples, inputs=each).scaled())
        for each in z
    ]
    joined = stacked(alone)
    assert repr(joined) == repr(together)
    assert torch.allclose(joined.coefficients, together.coefficients)


def test_an_ensemble_is_stored_in_a_folder(ensemble, held_out, tmp_path):
    back = romkit.Ensemble.load(ensemble.save(tmp_path / "run"))
    assert np.array_equal(back.follow(held_out).upper, ensemble.follow(held_out).upper)
    assert "array(" not in repr(back)
    romkit.Ensemble(ensemble.projection, ensemble.law).save(tmp_path / "run")
    assert romkit.Ensemble.load(tmp_path / "run").calibration is None
    refused("nowhere", romkit.Ensemble.load, tmp_path / "nowhere", error=FileError)
    law = ensemble.law
    back = romkit.load(romkit.save(law, tmp_path / "law"))
    z = torch.randn(len(ensemble), 4, 2, dtype=torch.float64)
    assert torch.equal(back.domain.distance(z), law.domain.distance(z))
    assert torch.allclose(law.domain.distance(z)[3], law[3].domain.distance(z[3]))


@pytest.mark.parametrize("completed", [0, 1, 2])
def test_a_save_that_was_cut_leaves_the_earlier_ensemble(
    ensemble, tmp_path, monkeypatch, completed
):
    folder = ensemble.save(tmp_path)
    other = replace(
        ensemble,
        projection=romkit.projections.stack(
            [romkit.projections.unstack(ensemble.projection)[0]] * len(ensemble)
        ),
        law=replace(ensemble.law, coefficients=2 * ensemble.law.coefficients),
        calibration=replace(ensemble.calibration, profile=3 * ensemble.calibration.profile),
    )
    other.projection.report = {"another": 1}
    written = []

    def cut(whole):
        def save(model, path):
            if len(written) == completed:
                raise KeyboardInterrupt
            written.append(path)
            return whole(model, path)

        return save

    for name in ("save", "save_dataset"):
        monkeypatch.setattr(f"romkit.verbs.ensemble.{name}", cut(getattr(home, name)))
    with pytest.raises(KeyboardInterrupt):
        other.save(folder)
    back = romkit.Ensemble.load(folder)
    assert np.array_equal(back.law.coefficients, ensemble.law.coefficients)
    assert np.array_equal(back.calibration.profile, ensemble.calibration.profile)


@pytest.mark.parametrize("name", ["law.safetensors", "calibration.nc", "ensemble.json"])
def test_files_of_two_ensembles_are_no_ensemble(ensemble, tmp_path, name):
    """A law of other bootstraps fits in all sizes; a calibration that is missing is noticed."""
    mine = ensemble.save(tmp_path / "mine")
    law = replace(ensemble.law, coefficients=2 * ensemble.law.coefficients)
    theirs = replace(ensemble, law=law, calibration=None).save(tmp_path / "theirs")
    (mine / name).unlink()
    if (theirs / name).exists():
        (theirs / name).rename(mine / name)
    refused("do not belong together", romkit.Ensemble.load, mine, error=FileError)
    (mine / "ensemble.json").write_text("[")
    refused("no list of checksums", romkit.Ensemble.load, mine, error=FileError)


def test_members_tell_how_often_each_term_is_found(ensemble):
    law = ensemble.law
    assert law.inclusion.shape == law.spread.shape == law.coefficients.shape[1:]
    assert torch.equal(law.inclusion, (law.coefficients != 0).double().mean(0))
    median = law.median(inclusion=0.9)
    assert torch.equal(median.support, (law.inclusion >= 0.9) & (median.coefficients != 0))


def test_what_cannot_be_an_ensemble(pod, data, ensemble):
    refused("projection", romkit.Ensemble, pod, ensemble.law)
    refused("projection", romkit.bootstrap, ensemble.projection, SINDy(), data)
    refused(
        "law",
        romkit.bootstrap,
        pod,
        ensemble.law,
        data,
    )
    refused(
        "data",
        romkit.bootstrap,
        pod,
        SINDy(),
        data.isel(trajectory=[0, 1]),
    )
    few = data.isel(trajectory=[0])
    refused("validation", ensemble.calibrated, few)
    refused("level", ensemble.follow, data, level=90)
    stack = romkit.fit("pod", data, latent_dim=2, seeds=range(2))
    refused("law", romkit.Ensemble, stack, ensemble.law)
    refused("law", romkit.Ensemble, stack, DMD().fit(pod, data))


def test_calibration_recovers_what_errors_are_made_of():
    rng, times = np.random.default_rng(0), np.linspace(3, 5, 50)
    growth, profile = 0.1 + (times - 3), np.array([1.0, 2.0, 4.0])
    error = rng.normal(size=(60, 50, 3)) * growth[:, None] * profile
    found = Calibration.fit(times, error, np.zeros_like(error), np.ones(3))
    assert np.allclose(found.growth[:, None] * found.profile, growth[:, None] * profile, rtol=0.2)
    assert abs(found.factor(0.9) - 1.645) < 0.1
    assert np.array_equal(*found.scale(np.array([2.0, 99.0]), np.zeros((2, 3))))


def test_a_lost_forecast_is_an_infinite_error(tmp_path):
    """Eight forecasts that go on are 80 % of all: their 7/8 quantile is that of level 0.7, and none
    covers 90 %.
    """
    error, lost = np.random.default_rng(0).normal(size=(10, 20, 3)), np.array([2, 5])
    others = Calibration.fit(
        np.arange(20.0), np.delete(error, lost, axis=0), np.zeros((8, 20, 3)), np.ones(3)
    )
    error[lost] = np.inf
    found = Calibration.fit(np.arange(20.0), error, np.zeros_like(error), np.ones(3))
    assert found.factor(0.7) == pytest.approx(others.factor(0.875), rel=0.02)
    assert found.factor(0.9) == np.inf
    assert np.allclose(found.growth, others.growth)
    save_dataset(found.to_dataset(), tmp_path / "calibration.nc")
    assert Calibration.from_dataset(open_dataset(tmp_path / "calibration.nc")).factor(0.9) == np.inf


def test_what_is_beyond_the_training_data_warns_and_says_how_far(ensemble, pod, data, held_out):
    law, x0 = ensemble.law[0], held_out.state.values[0, 0]
    with pytest.warns(ExtrapolationWarning, match="mu by up to 1 half widths of its range"):
        run = romkit.forecast(
            pod, dynamics=law, initial_state=x0, duration=1, dt=0.1, mu=[0.8, 1.6]
        )
    assert np.allclose(run.context_distance, [0, 1], atol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExtrapolationWarning)
        inside = romkit.follow(pod, held_out, dynamics=law)
    assert float(inside.state_distance.max()) < 1
    with pytest.warns(
        ExtrapolationWarning, match=r"the state of 1 of 2 trajectories from t=0 on \(distance up to"
    ):
        away = romkit.forecast(
            pod, dynamics=law, initial_state=[[1.0, 1.0], [40.0, 0.0]], duration=1, dt=0.1, mu=0.8
        )
    assert (
        float(away.state_distance.isel(trajectory=0).max()) < 1 < float(away.state_distance[1, 0])
    )


def test_states_between_trajectories_at_rest_are_no_farther_than_trajectories_from_each_other():
    amplitude = torch.arange(8, dtype=torch.float64)
    z = amplitude[:, None, None] * torch.tensor([1.0, 0.5], dtype=torch.float64).expand(8, 30, 2)
    between, beyond = (
        (amplitude[:7, None] + 0.5) * z[1, 0],
        torch.tensor([[-3.0, -1.5], [2.0, 4.0]]).double(),
    )
    law = DMD().fit_samples(z, torch.zeros_like(z), times=torch.arange(30.0))
    assert float(law.domain.distance(between).max()) < 1 < float(law.domain.distance(beyond).min())
