"""Problems for SINDy, and pysindy's answer to them."""

import functools

import numpy as np
import pysindy
import torch

import romkit
from romkit.integrators import Equation, LatentSamples, SINDy, encoded_samples
from romkit.solvers import RK4


def lorenz63(x):
    x, y, z = x.unbind(-1)
    return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], dim=-1)


def van_der_pol(x, mu):
    x, y = x.unbind(-1)
    return torch.stack([y, mu * (1 - x**2) * y - x], dim=-1)


def trajectory(field, start, steps, dt):
    """(..., steps, m) from start (..., m)."""
    times = torch.arange(steps, dtype=torch.float64) * dt
    return RK4(dt)(lambda t, x: field(x), torch.tensor(start, dtype=torch.float64), times).states


def van_der_pol_samples():
    """Five trajectories, each with a μ of its own."""
    mu = torch.linspace(0.5, 2.5, 5, dtype=torch.float64)
    x = trajectory(lambda x: van_der_pol(x, mu), [[1.5 + 0.1 * k, 0.5] for k in range(5)], 600, 0.02)
    c = mu[:, None].expand(5, 600)
    rate = van_der_pol(x, c)
    return LatentSamples.first_order(x.flatten(0, 1), rate.flatten(0, 1), c.reshape(-1, 1))


def pendulum_samples():
    """Second order, four latents, sixteen variables and parameters."""
    rng = np.random.default_rng(0)
    lengths = {f"l{k}": rng.uniform(0.35, 0.65, 8).round(3) for k in range(1, 5)}
    data = romkit.systems.Pendulum().dataset(**lengths, duration=0.5)
    return encoded_samples(romkit.load("ncae-pendulum"), data.isel(time=slice(None, None, 2)))


def lorenz96_samples():
    data = romkit.systems.Lorenz96(transient=5.0).dataset(F=[3.14, 3.15, 3.16, 3.18], duration=3.0)
    return encoded_samples(romkit.load("ncae-lorenz96"), data)


def autonomous(field, start, steps, dt):
    x = trajectory(field, start, steps, dt)
    return LatentSamples.first_order(x, field(x))


@functools.cache
def problem(name):
    """(samples, settings of the fit)."""
    return {
        "lorenz63": lambda: (autonomous(lorenz63, [-8.0, 8.0, 27.0], 3000, 0.005), {"degree": 3}),
        "van der pol": lambda: (van_der_pol_samples(), {"degree": 3}),
        "lorenz96 latent": lambda: (lorenz96_samples(), {"degree": 3, "threshold": 0.2}),
        "pendulum latent": lambda: (pendulum_samples(), {"degree": 1, "threshold": 0.5}),
    }[name]()


@functools.cache
def law(name):
    samples, settings = problem(name)
    return SINDy(**settings).fit_samples(samples)


PROBLEMS = ("lorenz63", "van der pol", "lorenz96 latent", "pendulum latent")


def pysindy_coefficients(samples: LatentSamples, model: Equation, *, degree=3, threshold=0.1, alpha=0.05):
    """(K, m) by `pysindy.SINDy` with STLSQ and its own libraries, in the order of the model's terms."""
    d, p = samples.inputs.shape[-1], samples.context.shape[-1]
    library = polynomial = pysindy.PolynomialLibrary(degree=degree)
    if p:
        linear = pysindy.PolynomialLibrary(degree=1)
        library = pysindy.ParameterizedLibrary(linear, polynomial, num_parameters=p, num_features=d)
    oracle = pysindy.SINDy(optimizer=pysindy.STLSQ(threshold=threshold, alpha=alpha), feature_library=library)
    m = samples.targets.shape[-1]
    rate = torch.cat([samples.inputs[:, m:], samples.targets], dim=-1).numpy()  # (ż, z̈) for second order
    shift, scale = model.basis.context.shift.numpy(), model.basis.context.scale.numpy()
    c = (samples.context.numpy() - shift) / scale
    oracle.fit(samples.inputs.numpy(), t=1.0, x_dot=rate, u=c if p else None)
    return oracle.coefficients()[-m:][:, _order(oracle, model, d, p)].T


def _order(oracle, model, d, p):
    """Which column of pysindy's library is each of the model's terms, by their values at random points."""
    z, c = np.random.default_rng(1).normal(size=(2, 40, max(d, p)))
    z, scaled = z[:, :d], c[:, :p]
    theirs = np.asarray(oracle.feature_library.transform(np.hstack([z, scaled])))
    scaling = model.basis.context
    physical = torch.from_numpy(scaled * scaling.scale.numpy() + scaling.shift.numpy())
    ours = torch.stack([t.expand(40) for t in model.basis.terms(torch.from_numpy(z), physical)], dim=-1).numpy()
    distance = np.abs(ours[:, :, None] - theirs[:, None, :]).max(0)
    assert distance.min(1).max() < 1e-9
    assert ours.shape == theirs.shape
    return distance.argmin(1)
