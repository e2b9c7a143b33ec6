"""Laws that are the same at every cell of a grid: terms and coefficients are those of the equations
that made the data.
"""

import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.core.errors import InputError
from romkit.laws import CellLaw


def told(capsys, variables, coords, context=None):
    data = romkit.data.describe(xr.Dataset(variables, coords), context=context)
    capsys.readouterr()
    return data


def fitted(data, **settings):
    return CellLaw(**settings).fit(romkit.fit("identity", data, verbose=False), data)


def coefficients(law):
    """Return coefficients that are not zero by the names of their terms, of the first field."""
    names = law.cells.names
    rows = law.coefficients[:, 0, 0].tolist()
    return {name: value for name, value in zip(names, rows, strict=True) if value}


@pytest.fixture
def heat(capsys):
    """Waves on a ring that travel and fade, u_t = u_x + 0.1 u_xx, in closed form."""
    x, t = np.linspace(0, 2 * np.pi, 32, endpoint=False), np.linspace(0, 2, 41)
    u = sum(np.exp(-0.1 * k**2 * t[:, None]) * np.sin(k * (x + t[:, None])) for k in (1, 2, 3))
    return told(capsys, {"u": (("time", "x"), u)}, {"time": t, "x": x})


def test_advection_and_diffusion(heat):
    law = fitted(heat)
    assert coefficients(law) == pytest.approx({"u_x": 1.0, "u_xx": 0.1}, rel=1e-6)
    assert law.cells.edges == "periodic"
    assert law.cells.modes
    assert law.formulas(digits=3) == ["u_t = 1.00 u_x + 0.100 u_xx"]
    run = romkit.forecast(
        romkit.fit("identity", heat, verbose=False),
        dynamics=law,
        initial_state=heat.isel(trajectory=0, time=0),
        duration=2.0,
        dt=0.5,
    )
    truth = heat["state"].values[0, ::10]
    assert np.abs(run["u"].values.reshape(truth.shape) - truth).max() < 1e-6


@pytest.mark.parametrize("edges", ["mirrored", "fixed"])
def test_edges_by_the_data(capsys, edges):
    """The heat equation by second differences: cosines between insulated ends, sines between ends
    that stay at zero.
    """
    n, k, t = 24, np.array([1, 2, 4]), np.linspace(0, 3, 31)
    if edges == "mirrored":
        phase = np.pi * np.outer(np.arange(n) + 0.5, k) / n
        shapes, rate = np.cos(phase), 2 - 2 * np.cos(np.pi * k / n)
    else:
        shapes = np.sin(np.pi * np.outer(np.arange(n), k) / (n - 1))
        rate = 2 - 2 * np.cos(np.pi * k / (n - 1))
    u = np.exp(-0.7 * np.outer(t, rate)) @ (shapes * [1.0, -0.5, 0.7]).T
    law = fitted(told(capsys, {"u": (("time", "x"), u)}, {"time": t}))
    assert law.cells.edges == edges
    assert coefficients(law) == pytest.approx({"u_xx": 0.7}, rel=1e-3)


def kuramoto_sivashinsky(samples, mu=1.0):
    """Return x, t and u of u_t = -u u_x - u_xx - μ u_xxxx on a ring, by SciPy on its Fourier series."""
    from scipy.integrate import solve_ivp

    n, length = 48, 22.0
    x, t = np.arange(n) * length / n, np.arange(samples) * 0.25
    k = 2 * np.pi / length * np.arange(n // 2 + 1)
    kept = np.arange(n // 2 + 1) <= n // 3

    def rate(time, u):
        v = np.where(kept, np.fft.rfft(u), 0)
        square = np.where(kept, np.fft.rfft(np.fft.irfft(v, n) ** 2), 0)
        return np.fft.irfft((k**2 - mu * k**4) * v - 0.5j * k * square, n)

    first = np.cos(2 * np.pi * x / length) + 0.5 * np.sin(4 * np.pi * x / length + 1)
    warm = solve_ivp(rate, (0, 60), first, method="LSODA", rtol=1e-8, atol=1e-8).y[:, -1]
    run = solve_ivp(rate, (0, t[-1]), warm, t_eval=t, method="LSODA", rtol=1e-9, atol=1e-9)
    return x, t, run.y.T


def test_kuramoto_sivashinsky_and_its_noise(capsys):
    x, t, u = kuramoto_sivashinsky(160)
    truth = {"u_xx": -1.0, "u_xxxx": -1.0, "u u_x": -1.0}
    clean = told(capsys, {"u": (("time", "x"), u)}, {"time": t, "x": x})
    law = fitted(clean)
    assert coefficients(law) == pytest.approx(truth, rel=1e-3)
    assert law.last is None


def test_reaction_and_diffusion_of_distant_samples(capsys):
    """Fisher's equation with its growth as the context, from samples in which fronts move by
    several cells, in two dimensions.
    """
    from scipy.integrate import solve_ivp

    n, t, growth = 12, np.arange(6) * 1.5, np.array([0.5, 0.75, 1.0])
    runs = []
    for number, r in enumerate(growth):
        first = np.random.default_rng(number).uniform(0, 0.3, (n, n))

        def rate(time, u, r=r):
            u = u.reshape(n, n)
            near = sum(np.roll(u, step, axis) for step in (-1, 1) for axis in (0, 1))
            return (0.2 * (near - 4 * u) + r * u * (1 - u)).ravel()

        run = solve_ivp(rate, (0, t[-1]), first.ravel(), t_eval=t, rtol=1e-10, atol=1e-12)
        runs.append(run.y.T.reshape(-1, n, n))
    variables = {"u": (("trajectory", "time", "y", "x"), np.array(runs))}
    data = told(capsys, variables, {"time": t, "r": ("trajectory", growth)}, ["r"])
    law = fitted(data)
    assert law.formulas(digits=3) == ["u_t = 1.00 r u + 0.200 u_yy + 0.200 u_xx - 1.00 r u^2"]
    assert law.cells.edges == "periodic"
    assert not law.cells.modes


def test_storage(heat, tmp_path):
    law = fitted(heat)
    again = romkit.load(romkit.save(law, tmp_path / "law"))
    assert again.formulas() == law.formulas()


def test_refusals(heat, capsys):
    with pytest.raises(InputError, match="identity"):
        CellLaw().fit(romkit.fit("pod", heat, latent_dim=2, verbose=False), heat)
    flat = romkit.data.from_arrays(heat["state"].values, heat["time"].values)
    with pytest.raises(InputError, match="grid"):
        fitted(flat)
    noise = np.random.default_rng(0).normal(size=(40, 16))
    with pytest.raises(InputError, match="every cell"):
        fitted(told(capsys, {"u": (("time", "x"), noise)}, {"time": np.arange(40.0)}))
