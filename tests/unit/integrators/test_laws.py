"""Learned dynamics as a user meets them: fitted to data, rolled out on data without equations, saved and loaded."""

import json

import numpy as np
import pytest
import safetensors.torch
import torch
import xarray as xr

import romkit
from romkit.core import files
from romkit.core.errors import FileError, FitWarning, InputError
from romkit.integrators import (
    DMD,
    LAWS,
    NeuralODE,
    NeuralODEModel,
    OperatorInference,
    SINDy,
    WeakSINDy,
    encoded_samples,
)
from romkit.integrators.laws.equations import Fourier, Functions, Polynomial, Subset

QUICK = NeuralODE(hidden=(8,), segment=4, regression_steps=200, shooting_steps=5)
CUBIC = SINDy(degree=3, threshold=0.01)


@pytest.fixture(scope="module")
def own():
    """Measurements of a spiral in three coordinates, at three speeds, far from zero: no system, no velocities."""
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
    "sindy": CUBIC,
    "weak-sindy": WeakSINDy(degree=3, threshold=0.01),
    "operator-inference": OperatorInference(degree=3, regularization=(1e-3, 1e-2)),
    "dmd": DMD(),
    "neural-ode": QUICK,
}


def test_every_law_is_here():
    assert {name: type(settings) for name, settings in EACH.items()} == LAWS


@pytest.fixture(scope="module", params=EACH.values(), ids=EACH)
def law(request, pod, own):
    return request.param.fit(pod, own, seed=3)


def test_data_without_velocities_are_differentiated_and_the_law_says_so(law, own):
    assert "rates by differentiation" in law.source
    assert law.samples == own.state.sizes["trajectory"] * own.state.sizes["time"]
    assert (law.order, law.latent_dim, law.context_names) == (1, 2, ("speed",))


def test_latents_are_scaled_by_default(pod, own):
    law = CUBIC.fit(pod, own)
    assert law.basis.variables.symbols == ("δz0", "δz1")
    assert float(law.residual.max()) < 0.01  # as small as the threshold of the terms
    scaled = encoded_samples(pod, own.assign(velocity=own.state.differentiate("time"))).scaled()
    assert torch.allclose(law.basis.variables.scale, scaled.variables.scale)


def test_a_poor_fit_warns(pod, own):
    with pytest.warns(FitWarning, match=r"2 of 2 equations explain less than 90% .* raise the degree"):
        SINDy(degree=0).fit(pod, own)
    z = torch.linspace(1, 2, 99, dtype=torch.float64)[:, None]
    with pytest.warns(FitWarning, match="1 of 1 equations"):  # which a constant explains to 0.6 %, but not its variance
        SINDy(degree=0).fit_samples(z, 100 + z.square().sin())


def test_a_rollout_on_data_without_a_system(law, pod, own):
    run = romkit.rollout(own, pod, dynamics=law)
    assert (run.status.values == 0).all()
    assert run.sizes["trajectory"] == 3
    assert float(run.nrmse.isel(time=20).max()) < 0.3
    assert run.attrs["dynamics"] == type(law).__name__


def test_a_forecast_from_full_and_latent_states(law, pod, own):
    x = own.state.values[1, 0]
    start = pod.double()(speed=1.0).encode(torch.from_numpy(x)).detach().numpy()
    runs = [
        romkit.forecast(pod, dynamics=law, initial_state=state, duration=1, dt=0.02, speed=1.0) for state in (x, start)
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
    with pytest.raises(InputError, match="samples: expected whole trajectories with their times"):
        QUICK.fit_samples(z[0], zdot[0])
    with pytest.raises(InputError, match="times: expected one per latent state"):
        QUICK.fit_samples(z[0], zdot[0], times=own.time.values)
    moving = c[:, None] + 0.1 * own.time.values[:, None]
    for estimator in (CUBIC, QUICK):
        assert estimator.fit_samples(z, zdot, moving, times=own.time.values).samples == 903


def test_settings_are_no_dynamics(pod, own):
    for estimator in (CUBIC, QUICK):
        with pytest.raises(
            InputError, match=r"dynamics: expected a fitted law, .* give the result of its fit"
        ) as caught:
            romkit.rollout(own, pod, dynamics=estimator)
        assert "\n" not in str(caught.value)


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(law, tmp_path):
    return romkit.save(law, tmp_path / "law.safetensors")


def right_hand_sides(law, lead=()):
    w = torch.randn(*lead, 3, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return law.right_hand_side(torch.linspace(0.8, 1.2, 3, dtype=torch.float64)[:, None].expand(*lead, 3, 1))(w)


def test_a_law_comes_back_bit_by_bit(law, file, tmp_path):
    back = romkit.load(file)
    assert type(back) is type(law)
    assert repr(back) == repr(law)
    assert torch.equal(right_hand_sides(back), right_hand_sides(law))
    assert romkit.save(back, tmp_path / "again").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("settings", EACH.values(), ids=EACH)
def test_a_stack_comes_back_bit_by_bit(settings, pod, own, tmp_path):
    both = romkit.projections.stack([pod, pod])
    law = settings.fit(both, own)
    back = romkit.load(romkit.save(law, tmp_path / "a"))
    assert repr(back) == repr(law)
    assert torch.equal(right_hand_sides(back, (2,)), right_hand_sides(law, (2,)))
    run = romkit.rollout(own, both, dynamics=back)
    assert run.sizes["seed"] == 2


LIBRARY = Polynomial(1) * Fourier(1) + Polynomial(2)


@pytest.mark.parametrize("library", [LIBRARY, Subset(Polynomial(3), (0, 1, 2, 5)), Polynomial(2) + Polynomial(1)])
def test_libraries_of_romkit_can_be_stored(library, pod, own, tmp_path):
    law = SINDy(library=library, context_library=Polynomial(1) + Fourier(1), threshold=1e-3).fit(pod, own)
    back = romkit.load(romkit.save(law, tmp_path / "a"))
    assert back.terms == law.terms
    assert torch.equal(right_hand_sides(back), right_hand_sides(law))


def test_what_cannot_be_stored(pod, own, tmp_path):
    law = SINDy(library=Polynomial(1) + Functions({"|z0|": lambda z: z[..., 0].abs()})).fit(pod, own)
    with pytest.raises(InputError, match=r"law: expected terms that a file can hold, got Functions\(\|z0\|\)"):
        romkit.save(law, tmp_path / "a")
    with pytest.raises(InputError, match="model: expected a Projection or a LearnedField or a Basis, got SINDy"):
        romkit.save(CUBIC, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def forged(file, tensors=(), **changes):
    header, content = files.read(file)
    header, content = header | changes, content | dict(tensors)
    digest = files._sha256(header, content)
    file.write_bytes(safetensors.torch.save(content, {"romkit": json.dumps(header | {"sha256": digest})}))
    return file


DOUBLE = {"dtype": torch.float64}
COMMON = [
    *({"law": kind} for kind in ("oracle", ["sindy"], "a\x1b[31m")),
    *({"order": order} for order in (2, 3, True)),
    *({"samples": "many"}, {"source": 3}, {"source": "a\x07"}, {"context": ["speed", "F"]}, {"context": [1]}),
    {"tensors": {"context.scale": torch.zeros(1, **DOUBLE)}},
    {"tensors": {"context.shift": torch.full((1,), torch.inf, **DOUBLE)}},
    {"tensors": {"domain.points": torch.zeros(5, 3, **DOUBLE)}},
    {"tensors": {"domain.scale": torch.zeros(2, **DOUBLE)}},
    {"tensors": {"domain.reach": torch.ones(2, **DOUBLE)}},
]
LIBRARIES = [["Polynomial", degree] for degree in (10**6, -1, 2)] + [["Fourier", 10**9], ["Terms", 3], "Polynomial", {}]
LIBRARIES += [["Subset", ["Polynomial", 1], list(range(10))], ["Product", ["Polynomial", 3]]]
OF_EQUATIONS = [
    *({"library": spec} for spec in LIBRARIES),
    {"context_library": ["Fourier", 10**9]},
    {"residual": "none"},
    {"variables": ["a"]},
    {"tensors": {"coefficients": torch.ones(20, 3, **DOUBLE)}},
    {"tensors": {"coefficients": torch.full((20, 2), torch.nan, **DOUBLE)}},
    {"tensors": {"coefficients": torch.ones(20, 2, dtype=torch.complex64)}},
]
OF_NETWORKS = [
    *({"layers": number} for number in (10**9, 1, 0, -1, None)),
    {"tensors": {"layers.1": torch.ones(9, **DOUBLE)}},
    {"tensors": {"layers.0": torch.full((3, 8), torch.nan, **DOUBLE)}},
    {"tensors": {"shift": torch.ones(3, **DOUBLE)}},
    {"tensors": {"scale": torch.zeros(2, **DOUBLE)}},
]


def test_forged_laws_are_refused(law, file):
    content = file.read_bytes()
    for changes in COMMON + (OF_NETWORKS if isinstance(law, NeuralODEModel) else OF_EQUATIONS):
        file.write_bytes(content)
        with pytest.raises(FileError) as caught:
            romkit.load(forged(file, **changes))
        assert str(caught.value).isprintable(), changes
