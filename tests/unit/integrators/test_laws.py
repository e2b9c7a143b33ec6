"""Learned dynamics as a user meets them: fitted to data of any kind, rolled out without equations,
saved and loaded.
"""

import copy
import functools
import math
import warnings

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.core import files as sealed
from romkit.core.errors import FileError, FitWarning
from romkit.integrators import LSPG
from romkit.laws import (
    DMD,
    LAWS,
    CellLaw,
    Hamiltonian,
    LimitCycle,
    NeuralODE,
    NeuralODEModel,
    OperatorInference,
    PolynomialLaw,
    Rational,
    SINDy,
    Steady,
    WeakSINDy,
    encoded_samples,
)
from romkit.laws.libraries import Fourier, Functions, Polynomial, Subset
from tests.refusals import refused
from tests.robustness.test_damage import forge

QUICK = NeuralODE(hidden=(8,), segment=4, regression_steps=200, shooting_steps=5)
CUBIC = SINDy(degree=3, threshold=0.01, refine=False)


@pytest.fixture(scope="module")
def own():
    """Measurements of a spiral in three coordinates, at three speeds, far from zero: no system, no
    velocities.
    """
    time, speed = np.linspace(0, 6, 301), np.array([0.9, 1.0, 1.1])
    angle, radius = 2 * speed[:, None] * time, np.exp(-0.05 * time)
    flat = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    state = 20 + 3 * np.concatenate([flat, flat @ [[1.0], [0.5]]], axis=-1)
    coords = {"time": ("time", time), "speed": ("trajectory", speed)}
    return xr.Dataset({"state": (("trajectory", "time", "component"), state)}, coords)


@pytest.fixture(scope="module")
def pod(own):
    return romkit.fit("pod", own.assign(velocity=own.state.differentiate("time")), latent_dim=2)


EACH = {
    "polynomial": PolynomialLaw(degree=3, context_degree=1),
    "sindy": CUBIC,
    "weak-sindy": WeakSINDy(degree=3, threshold=0.01, refine=False),
    "operator-inference": OperatorInference(degree=3, regularization=(1e-3, 1e-2)),
    "dmd": DMD(),
    "neural-ode": QUICK,
}


def test_every_law_is_here():
    # of shapes at rest, of closed orbits, with an energy, with saturation, and of fields
    elsewhere = {"steady": Steady, "limit-cycle": LimitCycle}
    elsewhere |= {"hamiltonian": Hamiltonian, "rational": Rational, "cells": CellLaw}
    assert {name: type(settings) for name, settings in EACH.items()} | elsewhere == LAWS


@pytest.fixture(scope="module", params=EACH.values(), ids=EACH)
def settings(request):
    return request.param


@pytest.fixture(scope="module")
def law(settings, pod, own):
    return settings.fit(pod, own, seed=3)


def test_data_without_velocities_and_system_have_laws_that_are_followed(law, pod, own):
    assert "shooting" in law.source or "rates by differentiation" in law.source
    assert law.samples == own.state.sizes["trajectory"] * own.state.sizes["time"]
    assert (law.order, law.latent_dim, law.context_names) == (1, 2, ("speed",))
    run = romkit.rollout(own, pod, dynamics=law)
    assert (run.status.values == 0).all()
    assert run.sizes["trajectory"] == 3
    assert float(run.nrmse.isel(time=20).max()) < 0.3
    assert run.attrs["dynamics"] == type(law).__name__


def test_latents_are_scaled_by_default_and_a_poor_fit_warns(pod, own):
    law = CUBIC.fit(pod, own)
    assert law.basis.variables.symbols == ("δz0", "δz1")
    assert float(law.residual.max()) < 0.01  # as small as the threshold of the terms
    scaled = encoded_samples(pod, own.assign(velocity=own.state.differentiate("time"))).scaled()
    assert torch.allclose(law.basis.variables.scale, scaled.variables.scale)
    with pytest.warns(FitWarning, match="explains 0% of the variance of a rate"):
        SINDy(degree=0, threshold=0.01, refine=False).fit(pod, own)
    z = torch.linspace(1, 2, 99, dtype=torch.float64)[:, None]
    with pytest.warns(FitWarning):  # a constant explains it to 0.6 %, but not its variance
        SINDy(degree=0).fit_samples(z, 100 + z.square().sin())


def test_a_forecast_from_full_and_latent_states(law, pod, own):
    x = own.state.values[1, 0]
    start = pod.double()(speed=1.0).encode(torch.from_numpy(x)).detach().numpy()
    runs = [
        romkit.forecast(pod, dynamics=law, initial_state=state, duration=1, dt=0.02, speed=1.0)
        for state in (x, start)
    ]
    assert runs[0].state.shape == (51, 3)
    assert np.allclose(runs[0].state, runs[1].state, atol=1e-5)
    assert np.abs(runs[0].state.values[:20] - own.state.values[1, :20]).max() < 1.0


def test_arrays_and_data_give_one_law(pod, own):
    z = pod.double()(own).encode(torch.from_numpy(own.state.values)).detach()
    zdot = torch.from_numpy(np.gradient(z.numpy(), own.time.values, axis=1))
    c = own.speed.values[:, None]
    for estimator in (CUBIC, QUICK):
        law = estimator.fit_samples(z, zdot, c, times=own.time.values, parameters=["speed"])
        assert (law.samples, law.context_names) == (903, ("speed",))
    refused("samples", QUICK.fit_samples, z[0], zdot[0])
    refused(
        "times",
        QUICK.fit_samples,
        z[0],
        zdot[0],
        times=own.time.values,
    )
    moving = c[:, None] + 0.1 * own.time.values[:, None]
    for estimator in (CUBIC, QUICK):
        assert estimator.fit_samples(z, zdot, moving, times=own.time.values).samples == 903
        refused("dynamics", romkit.rollout, own, pod, dynamics=estimator)


def right_hand_sides(law, lead=()):
    w = torch.randn(*lead, 3, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return law.right_hand_side(
        torch.linspace(0.8, 1.2, 3, dtype=torch.float64)[:, None].expand(*lead, 3, 1)
    )(w)


def test_a_law_and_a_stack_come_back_bit_by_bit(settings, law, pod, own, tmp_path):
    both = romkit.projections.stack([pod, pod])
    for found, lead in ((law, ()), (settings.fit(both, own), (2,))):
        file = romkit.save(found, tmp_path / "law")
        back = romkit.load(file)
        assert (type(back), repr(back)) == (type(found), repr(found))
        assert torch.equal(right_hand_sides(back, lead), right_hand_sides(found, lead))
        assert romkit.save(back, tmp_path / "again").read_bytes() == file.read_bytes()
    assert romkit.rollout(own, both, dynamics=back).sizes["seed"] == 2


LIBRARY = Polynomial(1) * Fourier(1) + Polynomial(2)


@pytest.mark.parametrize(
    "library", [LIBRARY, Subset(Polynomial(3), (0, 1, 2, 5)), Polynomial(2) + Polynomial(1)]
)
def test_libraries_of_romkit_can_be_stored(library, pod, own, tmp_path):
    law = SINDy(
        library=library, context_library=Polynomial(1) + Fourier(1), threshold=1e-3, refine=False
    ).fit(pod, own)
    back = romkit.load(romkit.save(law, tmp_path / "a"))
    assert back.terms == law.terms
    assert torch.equal(right_hand_sides(back), right_hand_sides(law))


def test_what_cannot_be_stored(pod, own, tmp_path):
    law = SINDy(
        library=Polynomial(1) + Functions({"|z0|": lambda z: z[..., 0].abs()}),
        threshold=0.01,
        refine=False,
    ).fit(pod, own)
    refused(
        "law",
        romkit.save,
        law,
        tmp_path / "a",
    )
    refused("model", romkit.save, CUBIC, tmp_path / "a")
    assert not (tmp_path / "a").exists()


DOUBLE = {"dtype": torch.float64}
COMMON = [
    *({"class": kind} for kind in ("Oracle", ["Equation"], "a\x1b[31m", "Scaling", None)),
    *({"order": order} for order in (2, 3, True)),
    *({"samples": "many"}, {"source": "a\x07"}),
    {"tensors": {"domain.points": torch.zeros(5, 3, **DOUBLE)}},
    {"tensors": {"domain.scale": torch.zeros(2, **DOUBLE)}},
]
LIBRARIES = [
    *({"class": "Polynomial", "degree": degree} for degree in (10**6, -1, 2)),
    {"class": "Fourier", "frequencies": 10**9},
    {"class": "Terms", "degree": 3},
    {"class": "Subset", "library": {"class": "Polynomial", "degree": 1}, "keep": list(range(10))},
    {"class": "Product", "first": {"class": "Polynomial", "degree": 3}},
    *("Polynomial", {}),
]
OF_EQUATIONS = [
    *({"basis.library": library} for library in LIBRARIES),
    {"basis.context_library": {"class": "Fourier", "frequencies": 10**9}},
    *({"residual": "none"}, {"basis.variables.names": ["a"]}),
    {"tensors": {"coefficients": torch.ones(20, 3, **DOUBLE)}},
    {"tensors": {"coefficients": torch.full((20, 2), torch.nan, **DOUBLE)}},
]
OF_NETWORKS = [
    *({"layers": layers} for layers in ([], 1, None, [{"tensor": "layers.7"}])),
    {"tensors": {"layers.0.1": torch.ones(9, **DOUBLE)}},
    {"tensors": {"shift": torch.ones(3, **DOUBLE)}},
    {"tensors": {"scale": torch.zeros(2, **DOUBLE)}},
]


def of_context(place):
    """Changes of the scaling of the context, which stands at a place in the law."""
    names = [{f"{place}.names": names} for names in (["speed", "F"], [1])]
    return [*names, {"tensors": {f"{place}.scale": torch.zeros(1, **DOUBLE)}}]


def changed(header, changes):
    """Header of a law with other values at the paths of its fields."""
    for path, value in changes.items():
        *above, name = path.split(".")
        functools.reduce(dict.__getitem__, above, header)[name] = value
    return header


def test_forged_laws_are_refused(law, tmp_path):
    file = romkit.save(law, tmp_path / "law")
    content, (header, _) = file.read_bytes(), sealed.read(file)
    own = OF_EQUATIONS + of_context("basis.context")
    if isinstance(law, NeuralODEModel):
        own = OF_NETWORKS + of_context("context")
    for changes in COMMON + own:
        file.write_bytes(content)
        tensors = changes.get("tensors", {})
        entries = {path: value for path, value in changes.items() if path != "tensors"}
        forge(file, {"law": changed(copy.deepcopy(header["law"]), entries)}, tensors)
        with pytest.raises(FileError) as caught:
            romkit.load(file)
        assert str(caught.value).isprintable(), changes


def fit_warnings(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if issubclass(w.category, FitWarning)]


OF_NO_USE = [
    DMD(),
    OperatorInference(degree=1, regularization=1e-3),
    SINDy(degree=1, threshold=0.01, refine=False),
    SINDy(degree=3, share=0.01, refine=False),
    WeakSINDy(degree=2, refine=False),
    NeuralODE(hidden=(4,), regression_steps=100, shooting_steps=5),
]


@pytest.mark.parametrize("settings", OF_NO_USE, ids=lambda each: repr(each)[:24])
@pytest.mark.parametrize("what", ["noise", "one sensor", "too few coordinates"])
def test_a_law_of_no_use_says_so_once(settings, what):
    """White noise has no law, and neither have waves seen by one sensor or in too few modes."""
    t = 0.1 * np.arange(300)
    if what == "noise":
        states, m = np.random.default_rng(0).normal(size=(4, 120, 2)), 2
    elif what == "one sensor":
        states, m = np.stack([np.sin(2 * t + k) for k in range(3)])[..., None], 1
    else:
        frequencies = np.array([1.0, 1.7, 2.9])
        waves = np.cos(frequencies * t[:, None]) @ np.diag([10.0, 4.0, 5.0])
        states, m = (waves @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0])[None], 2
    data = romkit.data.from_arrays(states, 0.1)
    pod = romkit.fit("pod", data, latent_dim=m, verbose=False)
    if isinstance(settings, DMD) and what == "noise":
        refused("data", settings.fit, pod, data)
        return
    assert len(fit_warnings(lambda: settings.fit(pod, data))) == 1


@pytest.mark.parametrize("settings", OF_NO_USE[:5], ids=lambda each: repr(each)[:24])
def test_a_law_that_is_of_use_says_nothing(settings):
    t = 0.05 * np.arange(200)
    circles = [(1 + 0.2 * k) * np.stack([np.cos(t + k), np.sin(t + k)], -1) for k in range(4)]
    data = romkit.data.from_arrays(np.stack(circles), 0.05)
    pod = romkit.fit("pod", data, latent_dim=2, verbose=False)
    assert fit_warnings(lambda: settings.fit(pod, data)) == []


def test_two_contexts_do_not_choose_a_degree_in_the_context_in_silence():
    t = torch.linspace(0, 3, 61, dtype=torch.float64)
    decays = torch.tensor([0.1, 0.2], dtype=torch.float64)[:, None, None]
    turn = torch.tensor([[0.0, 0.5], [-0.5, 0.0]], dtype=torch.float64)  # z' = z turn - c z
    angle = 0.5 * t
    z = torch.exp(-decays * t[:, None]) * torch.stack([angle.cos(), angle.sin()], -1)
    rate, c = z @ turn - decays * z, decays.expand(2, 61, 1)

    def fitted(**settings):
        return PolynomialLaw(degree=1, **settings).fit_samples(z, rate, c, times=t)

    assert len(fit_warnings(fitted)) == 1
    assert fit_warnings(lambda: fitted(context_degree=1)) == []
    between = torch.tensor([1.0, 2.0]).double()
    value = fitted(context_degree=1).predict(between, torch.tensor([0.15]).double())
    torch.testing.assert_close(value, between @ turn - 0.15 * between, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("degree", [1, 2])
def test_polynomials_name_terms_that_one_circle_does_not_tell_apart(degree):
    t = torch.linspace(0, 6, 61, dtype=torch.float64)
    z = torch.stack([t.cos(), t.sin()], dim=-1)[None]
    rate = torch.stack([-t.sin(), t.cos()], dim=-1)[None]
    settings = PolynomialLaw(degree=degree)
    assert len(fit_warnings(lambda: settings.fit_samples(z, rate, times=t))) == (degree == 2)


@pytest.mark.parametrize("kind", [SINDy, WeakSINDy])
@pytest.mark.parametrize("degree", [1, 3])
def test_terms_that_one_circle_does_not_tell_apart_are_named(kind, degree):
    """On it z0^2 + z1^2 is 1, and a turn z1' = z0 is z0 (z0^2 + z1^2) as well."""
    t = torch.linspace(0, 4, 201, dtype=torch.float64)
    angle = 2 * math.pi * t
    z = torch.stack([angle.cos(), angle.sin()], dim=-1)[None]
    rate = 2 * math.pi * torch.stack([-angle.sin(), angle.cos()], dim=-1)[None]
    settings = kind(degree=degree, threshold=0.1)
    found = fit_warnings(lambda: settings.fit_samples(z, rate, times=t))
    # coefficients that are arbitrary may be of little use besides, as rounding has it
    of_terms = [text for text in found if "tell apart" in text]
    assert len(of_terms) == (degree == 3)
    # a second circle tells them apart
    both = torch.cat([z, 2 * z]), torch.cat([rate, 2 * rate])
    assert fit_warnings(lambda: settings.fit_samples(*both, times=t)) == []


def test_an_ensemble_of_no_use_says_so_once():
    data = romkit.data.from_arrays(np.random.default_rng(0).normal(size=(5, 60, 2)), 0.1)
    pod = romkit.fit("pod", data, latent_dim=2, verbose=False)
    for law in (OperatorInference(degree=1, regularization=1e-3), SINDy(degree=1, share=0.01)):
        assert len(fit_warnings(lambda law=law: romkit.bootstrap(pod, law, data, members=3))) == 1


QUICKEST = NeuralODE(hidden=(4,), regression_steps=2, shooting_steps=2)


@pytest.fixture(scope="module")
def turning():
    """Trajectories on a plane in six dimensions, at four speeds."""
    t, plane = np.linspace(0, 6, 61), np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0]
    angle = np.array([0.9, 1.0, 1.1, 1.2])[:, None] * t
    states = np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ plane.T
    return romkit.data.with_velocity(
        romkit.data.from_arrays(states, t, context={"speed": angle[:, 10]})
    )


@pytest.mark.parametrize(
    "law", [SINDy(degree=1, threshold=0.01), WeakSINDy(degree=1, threshold=0.01), DMD()]
)
def test_latents_beyond_the_directions_of_the_data_do_not_matter(turning, law):
    """They are rounding; scaled to the size of the others, they made rollouts diverge at once."""
    errors = []
    for m in (2, 4):
        pod = romkit.fit("pod", turning, latent_dim=m)
        run = romkit.follow(pod, turning, dynamics=law.fit(pod, turning))
        errors.append(float(abs(run.state - turning.state).max()))
    assert errors[1] == pytest.approx(errors[0], rel=1e-3)


@pytest.mark.parametrize("law", [QUICKEST, DMD()])
def test_what_rests_has_a_law(turning, law):
    pod = romkit.fit("pod", turning, latent_dim=2)
    rest = turning.assign(state=0 * turning.state + 1, velocity=0 * turning.velocity)
    assert law.fit(pod, rest).latent_dim == 2


def test_dmd_of_fewer_singular_values_than_latents_is_a_motion(turning):
    """Directions that were left out stay; they were multiplied by zero, which no motion does."""
    pod = romkit.fit("pod", turning, latent_dim=2)
    law = DMD(rank=1).fit(pod, turning)
    assert np.abs(np.linalg.eigvals(law.step(0.1)[0])).min() > 0.1


@pytest.mark.parametrize("law", [QUICKEST, DMD()])
def test_uneven_times_are_uneven_in_any_unit(turning, law):
    uneven = turning.assign_coords(time=1e-10 * turning.time**2)
    refused("equally spaced", law.fit, romkit.fit("pod", turning, latent_dim=2), uneven)


def test_lspg_takes_a_single_time():
    system = romkit.systems.Lorenz96(n=8, transient=0.0)
    data = system.dataset(F=[3.14, 3.18], duration=0.1)
    run = romkit.follow(
        romkit.fit("pod", data, latent_dim=2), data.isel(time=[3]), dynamics=LSPG(), system=system
    )
    assert run.sizes["time"] == 1


def test_gaps_do_not_end_the_rollouts_by_which_settings_are_chosen(turning):
    """Neither at the start of all trajectories, nor where the context moves."""
    pod, law = romkit.fit("pod", turning, latent_dim=2), OperatorInference(degree=1)
    late = turning.where(turning.time > 0)
    moving = turning.speed + 0.1 * np.sin(turning.time).broadcast_like(turning.state[..., 0])
    moving = turning.assign_coords(speed=moving.transpose("trajectory", "time").drop_vars("speed"))
    for data in (late, moving.assign(state=moving.state.where(abs(moving.time - 3) > 0.01))):
        source = law.fit(pod, data).source
        assert float(source.split("(error ")[1].rstrip(")")) < 0.5
