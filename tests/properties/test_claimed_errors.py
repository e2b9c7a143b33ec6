"""Errors that a learned model claims are those of the forecasts that its user gets."""

import warnings

import numpy as np
import pytest
from scipy.special import lambertw

import romkit
from romkit.laws import (
    DMD,
    Hamiltonian,
    NeuralODE,
    OperatorInference,
    PolynomialLaw,
    Rational,
    SINDy,
    WeakSINDy,
)

SAME = 1e-6

POLYNOMIAL = PolynomialLaw(degree=3, context_degree=1)
LINEAR = PolynomialLaw(degree=1, context_degree=2)

GAINS = np.linspace(1, 2, 7)
TIME = np.linspace(0, 6, 61)


def waves():
    """Waves along four points, of which two latents know all."""
    phase = GAINS[:, None, None] * TIME[:, None] - np.arange(4)
    return romkit.data.from_arrays(np.sin(phase), TIME, context={"gain": GAINS})


def fields():
    """Waves over more points than a manifold takes without a basis."""
    place = np.linspace(0, 2 * np.pi, 1100)
    phase = place - GAINS[:, None, None] * TIME[::2, None]
    states = np.sin(phase) + 0.2 * np.sin(2 * phase)
    return romkit.data.from_arrays(states, TIME[::2], context={"gain": GAINS})


def limit_cycles():
    """Spirals onto circles, whose size and speed the context tells."""
    radius = 1 / np.sqrt(1 + 3 * np.exp(-2 * TIME))  # (T,)
    angle = 4 * GAINS[:, None] * TIME
    points = np.stack([np.cos(angle), np.sin(angle)], axis=-1) * radius[:, None]
    return romkit.data.from_arrays(points, TIME, context={"gain": GAINS})


def rates_by_the_inverse():
    """Decay whose rate is the inverse of the parameter, over a decade."""
    delay = np.geomspace(0.5, 5, 8)
    states = np.exp(-TIME / delay[:, None])[..., None] * [1.0, -0.5]
    return romkit.data.from_arrays(states, TIME, context={"delay": delay})


def pulses():
    """Pulses that pass by, which no law of few latents follows."""
    place = np.linspace(0, 10, 60)
    travelled = GAINS[:, None, None] * TIME[::2, None]
    states = np.exp(-np.square((place - 1 - travelled) / 0.8))
    return romkit.data.from_arrays(states, TIME[::2], context={"gain": GAINS})


def lag(gain, of_step, inputs):
    """x' = gain u - x, of inputs (T,) whose effect within a step is known."""
    decay = np.exp(-np.diff(TIME)[0])
    states = np.zeros(len(TIME))
    for k in range(len(TIME) - 1):
        states[k + 1] = decay * states[k] + gain * of_step(inputs[k], inputs[k + 1])
    return states


def lags(of_step, inputs):
    states = np.stack([lag(gain, of_step, u) for gain, u in zip(GAINS, inputs, strict=True)])
    both = np.stack([states, -2 * states], axis=-1)
    return romkit.data.from_arrays(both, TIME, context={"gain": GAINS}, control=inputs[..., None])


def held():
    """A lag behind steps."""
    steps = np.random.default_rng(0).normal(size=(len(GAINS), 7)).repeat(9, axis=1)[:, : len(TIME)]
    decay = np.exp(-np.diff(TIME)[0])
    return lags(lambda u, after: (1 - decay) * u, steps)


def lines():
    """A lag behind inputs that move all the time."""
    frequency = np.random.default_rng(0).uniform(1, 3, len(GAINS))
    step = np.diff(TIME)[0]
    decay = np.exp(-step)

    def of_step(before, after):
        slope = (after - before) / step
        return (1 - decay) * before + slope * (step - (1 - decay))

    return lags(of_step, np.sin(frequency[:, None] * TIME))


def day(samples_of_a_day=8, lag_of_second=0.2):
    """Coarse samples of two lags behind one daily wave, the same for all runs."""
    frequency = 2 * np.pi / samples_of_a_day
    times = np.arange(0, 25.0)
    response = GAINS / (1 + 3j * GAINS * frequency)
    swing = response[:, None] * np.exp(1j * frequency * times)
    second = swing / (1j * frequency * lag_of_second + 1)
    states = np.stack([swing.real, second.real], axis=-1)
    return romkit.data.from_arrays(states, times, context={"gain": GAINS})


def individuals():
    """Runs that differ by more than their context tells."""
    rng = np.random.default_rng(1)
    people = np.repeat(np.linspace(1, 2, 6), 4)
    level = people * np.exp(0.5 * rng.normal(size=len(people)))
    states = level[:, None, None] * np.exp(-TIME / 2)[:, None] * [1.0, 0.3]
    return romkit.data.from_arrays(states, TIME, context={"dose": people})


def springs():
    """Undamped springs, whose stiffness the context is."""
    speed = np.sqrt(GAINS)[:, None]
    states = np.stack([np.cos(speed * TIME), -speed * np.sin(speed * TIME)], axis=-1)
    return romkit.data.from_arrays(states, TIME, context={"gain": GAINS})


def uptakes():
    """x' = -gain x / (1 + x), and another that follows it."""
    amount = lambertw(2 * np.exp(2 - GAINS[:, None] * TIME)).real
    states = np.stack([amount, 2 - amount], axis=-1)
    return romkit.data.from_arrays(states, TIME, context={"gain": GAINS})


def hidden_rates():
    """Two decays, whose rate nobody recorded."""
    decay = np.exp(-GAINS[:, None, None] * TIME[:, None])
    return romkit.data.from_arrays(decay * [1.0, -0.5], TIME)


def directions():
    """Waves whose phase is an angle of all directions."""
    angle = np.arange(12) * 30.0
    phase = TIME[::2, None] + np.deg2rad(angle)[:, None, None] - np.arange(4)
    data = romkit.data.from_arrays(np.sin(phase), TIME[::2], context={"direction": angle})
    return data.assign_coords(direction=data.direction.assign_attrs(units="degree"))


def measured_cycles():
    """Limit cycles with noise, whose states are estimated together with a law."""
    data = limit_cycles()
    noise = 0.01 * np.random.default_rng(0).normal(size=data.state.shape)
    return data.assign(state=data.state + noise)


MODELS = {
    "polynomial": (waves, {"kinds": [POLYNOMIAL], "latent_dim": 2}),
    "behind a basis": (fields, {"kinds": [POLYNOMIAL], "latent_dim": 2}),
    "equations": (limit_cycles, {"kinds": [SINDy(degree=3)]}),
    "closed orbits": (limit_cycles, {"kinds": ["limit-cycle"]}),
    "coordinates": (rates_by_the_inverse, {"kinds": [LINEAR]}),
    "interpolation": (waves, {"kinds": [LINEAR, "interpolation"], "latent_dim": 2}),
    "interpolation at equal phases": (pulses, {"latent_dim": 2}),
    "held inputs": (held, {"kinds": [LINEAR]}),
    "inputs in straight lines": (lines, {"kinds": [LINEAR]}),
    "period": (lambda: day(7.3), {"kinds": [LINEAR], "period": 7.3}),
    "Hamiltonian laws": (springs, {"kinds": [Hamiltonian(degree=2)]}),
    "rational laws": (uptakes, {"kinds": [Rational(degree=1)]}),
    "linear laws": (waves, {"kinds": [DMD()], "latent_dim": 2}),
    "operator inference": (waves, {"kinds": [OperatorInference(degree=2)], "latent_dim": 2}),
    "weak equations": (limit_cycles, {"kinds": [WeakSINDy(degree=3)]}),
    "networks": (
        waves,
        {"kinds": [NeuralODE(regression_steps=20, shooting_steps=5)], "seconds": 4},
    ),
    "bounded laws": (limit_cycles, {"kinds": [POLYNOMIAL], "bounded": True}),
    "noise": (measured_cycles, {"kinds": [SINDy(degree=3)]}),
    "hidden parameters": (hidden_rates, {"kinds": [LINEAR], "context": "hidden"}),
    "a parameter round a circle": (directions, {"kinds": [LINEAR], "latent_dim": 2}),
    "individuals": (individuals, {"kinds": [LINEAR, "interpolation"]}),
}


@pytest.fixture(scope="module")
def learned():
    """Models by name, each made once."""
    made = {}

    def model(name):
        if name not in made:
            data, settings = MODELS[name]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made[name] = romkit.learn(data(), **{"held_out": 0.25, "seconds": 1, **settings})
        return made[name]

    return model


def forecast_of(model, run):
    """Forecast along a held-out run, as a user makes it."""
    times = run.time.values
    context = {name: float(run[name]) for name in model.projection.frame.context_names}
    options = {"duration": times[-1] - times[0], "dt": times[1] - times[0]}
    if "control" in run and model.period is None:
        options["control"] = run.control.values
    return model.forecast(initial_state=run.state[0], **options, **context)


def scale_of(data):
    """Deviation of the training data, one for all components of a state without units."""
    return np.sqrt(np.mean(np.square(np.nanstd(data.state.values, axis=(0, 1)))))


@pytest.mark.parametrize("name", MODELS)
def test_forecasts_of_held_out_runs_err_as_is_claimed(learned, name):
    model = learned(name)
    errors = []
    for number in range(model.test.sizes["trajectory"]):
        run = model.test.isel(trajectory=number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            difference = forecast_of(model, run).state.values - run.state.values
        errors.append(np.sqrt(np.square(difference).mean(-1)).mean() / scale_of(model.train))
    assert np.asarray(errors) == pytest.approx(model.errors["forecast"], abs=SAME)


@pytest.mark.parametrize("name", ["polynomial", "interpolation", "period"])
def test_a_copy_on_disk_forecasts_and_claims_the_same(learned, name, tmp_path):
    model = learned(name)
    again = romkit.learning.Learned.load(model.save(tmp_path / "model"))
    run = model.test.isel(trajectory=0)
    assert np.array_equal(forecast_of(again, run).state, forecast_of(model, run).state)
    assert np.array_equal(again.errors["forecast"], model.errors["forecast"])


def test_forecasts_of_a_rhythm_depend_neither_on_their_output_nor_on_where_they_begin(learned):
    model = learned("period")
    run = model.test.isel(trajectory=0)
    whole = {"initial_state": run.state[0], "gain": float(run.gain)}
    every = model.forecast(**whole, duration=30.0, dt=1.0)
    halves = model.forecast(**whole, duration=30.0, dt=0.5)
    assert np.allclose(every.state, halves.state[::2], atol=1e-5)
    half = {"initial_state": halves.state[25], "gain": whole["gain"]}  # between two samples
    later = model.forecast(**half, start=12.5, duration=5.0, dt=0.5)
    assert np.allclose(later.state, halves.state[25:36], atol=1e-5)
    with pytest.raises(romkit.errors.InputError, match="start"):
        model.forecast(**whole, duration=5.0, dt=0.5, start=1e300)
