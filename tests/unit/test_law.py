"""`romkit.law`: kinds of laws beside each other, the time that they may take, and what is refused."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.core.errors import FitWarning
from romkit.laws import DMD, NeuralODE, OperatorInference, PolynomialLaw, SINDy, choice
from romkit.laws.choice import Space
from romkit.laws.folds import folds_of
from romkit.laws.judge import Judge
from romkit.select import Policy, preferred, search
from tests.refusals import refused

TIMES, AMPLITUDES = np.linspace(0.0, 2.0, 81), np.linspace(1.0, 2.0, 6)
SHORT = NeuralODE(hidden=(8,), regression_steps=100, shooting_steps=20)


@pytest.fixture(scope="module")
def data():
    """Waves of six amplitudes on eight sensors, in a unit of time in which they are slow."""
    wave = np.sin(2 * np.pi * (TIMES[:, None] - np.linspace(0.0, 1.0, 8)))
    given = AMPLITUDES[:, None, None] * wave, 1e6 * TIMES
    return romkit.data.from_arrays(*given, context={"amplitude": AMPLITUDES})


@pytest.fixture(scope="module")
def pod(data):
    return romkit.fit("pod", data, latent_dim=2)


def test_the_best_of_some_kinds_and_the_table_of_all(data, pod, tmp_path):
    law = romkit.law(pod, data, kinds=[SHORT, SINDy(degree=1)])
    assert {row["law"] for row in law.report} == {"sindy", "neural-ode"}
    chosen = law.report[0]
    assert [row["chosen"] for row in law.report].count(True) == chosen["chosen"] == 1
    assert (
        chosen["error"] < 0.01
    )  # the wave is linear, so the equations are exact but for the differentiation
    assert f"tried {chosen['law']}" in law.facts()
    run = romkit.rollout(data, pod, dynamics=law)
    assert float(run.nrmse.max()) < 0.02
    again = romkit.load(romkit.save(law, tmp_path / "law.safetensors"))
    assert json.dumps(again.report) == json.dumps(law.report)


def test_an_equation_is_never_empty_in_a_slow_unit_of_time(data, pod):
    for share in (None, 10.0):
        law = SINDy(degree=3, share=share).fit(pod, data)
        assert bool(law.support.any(0).all())
    assert not bool(
        SINDy(degree=3, threshold=0.1).fit(pod, data).support.any()
    )  # asked for, per unit of time


def test_a_rollout_that_grows_does_not_stay(data, pod):
    samples = SINDy.samples(pod, data).scaled()
    judge, every = Judge.compare_latents(samples), torch.arange(len(AMPLITUDES))
    exact = SINDy(degree=1, threshold=0.0).fit_samples(samples)
    assert judge.stays(exact, every)
    turned = exact.coefficients.clone()
    turned[[2, 4], [0, 1]] += 3e-6  # terms δz0 and δz1 of their own rates, beside a context term
    assert not judge.stays(replace(exact, coefficients=turned), every)
    assert judge.stays(replace(exact, coefficients=exact.coefficients * 0), every)


def test_of_laws_that_are_lost_beside_the_data_the_best_by_held_out_runs_is_taken():
    # infections below zero grow without bound: nothing leads back to what has died out
    t, rates = np.linspace(0, 15, 61), np.linspace(0.8, 1.6, 8)

    def runs(beta):
        rate = lambda _, y: [-beta * y[0] * y[1], beta * y[0] * y[1] - 0.3 * y[1]]  # noqa: E731
        return solve_ivp(rate, (0, 15), [0.99, 0.01], t_eval=t, rtol=1e-9, atol=1e-12).y.T

    data = romkit.data.from_arrays(
        np.stack([runs(beta) for beta in rates]), t, context={"b": rates}
    )
    projection = romkit.fit("identity", data)
    samples = PolynomialLaw.samples(projection, data)
    judge, every = Judge.compare_latents(samples), torch.arange(len(rates))
    several = [PolynomialLaw(degree=2, context_degree=1), PolynomialLaw(degree=1, context_degree=1)]
    folds, policy = folds_of(samples), Policy()
    space = Space(samples, judge)
    candidates = [choice.LawCandidate(each, lambda _: space, folds) for each in several]
    order = preferred(search([candidates], len(folds), policy), policy)
    law, trial = choice.fitted(order, policy)
    assert not judge.stays(law, every)
    assert judge.stays(law, every, displaced=False)
    assert trial.candidate.estimator == several[0]


def test_the_error_of_a_projection_is_not_held_against_the_law():
    # all of these short runs are further from the manifold than two standard deviations
    ncae = romkit.load("ncae-lorenz96")
    runs = romkit.systems.Lorenz96(transient=0.0, duration=0.3).dataset(F=[3.14, 3.16, 3.18])
    with pytest.warns(FitWarning):
        law = OperatorInference(degree=1).fit(ncae, runs)
    assert law.latent_dim == ncae.latent_dim


def test_without_time_the_first_candidate_is_fitted(data, pod):
    law = romkit.law(pod, data, kinds=[SINDy(degree=1), SHORT], seconds=1e-3)
    assert [row["law"] for row in law.report] == ["sindy"]
    assert law.report[0]["error"] < 0.01


BAD = [
    ({"kinds": ["sindi"]}, "kinds"),
    ({"kinds": []}, "kinds"),
    ({"kinds": [DMD]}, "kinds[0]"),
    ({"seconds": 0.0}, "seconds"),
    ({"seconds": 1e308}, "seconds"),
    ({"projection": "flow"}, "projection"),
    (
        {
            "data": romkit.data.from_arrays(
                np.ones((2, 9, 3)), np.arange(9.0), context={"a": [1.0, 2.0]}
            )
        },
        "data",
    ),
]


@pytest.mark.parametrize(("given", "argument"), BAD)
def test_bad_input_is_refused_by_name(data, pod, given, argument):
    refused(argument, romkit.law, **{"projection": pod, "data": data} | given)


def test_a_share_and_a_threshold_are_refused_together():
    refused("share", SINDy, threshold=0.1, share=0.1)


def test_iterates_of_maps_are_refused_once():
    """The logistic map, the Hénon map and a map of period two."""
    logistic, henon, two = [0.2], [np.array([0.1, 0.1])], [0.3]
    for _ in range(100):
        logistic.append(3.9 * logistic[-1] * (1 - logistic[-1]))
        x, y = henon[-1]
        henon.append(np.array([1 - 1.4 * x**2 + y, 0.3 * x]))
        two.append(3.2 * two[-1] * (1 - two[-1]))
    for states in (np.array(logistic)[:, None], np.array(henon), np.array(two)[:, None]):
        data = romkit.data.from_arrays(states, 1.0)
        pod = romkit.fit("pod", data, latent_dim=states.shape[1], verbose=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error", FitWarning)
            refused("data", romkit.law, pod, data, kinds=[SINDy(degree=2), "dmd"])
