"""Ten further data sets, to judge the special candidates of `romkit.learn`: interpolated runs, their
clocks, regressions over individuals, coordinates of parameters, rules of inputs, and rhythms.

Equations, ranges, units, noise and seeds were committed before romkit was run on any of them. They
were looked at with SciPy alone, to see that their states are finite and move. Among them are one of
two parameters, one of individuals, one with inputs, two that a clock drives, and a map.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

Array = np.ndarray
Variables = dict[str, Array]


class Bench(NamedTuple):
    """Runs of a system, for training and for a test.

    Attributes:
        parameters: names, of which each run has values.
        train, test: contexts (C, p) and (K, p).
        times: (T,) of the samples, as they are recorded.
        run: makes variables (T, ...) of a run of its context (p,) and a generator of random numbers,
            by which individuals and inputs differ.
        inputs: names of variables that drive the system.
        noise: of training runs and first states, relative to the deviation of each variable.
    """

    parameters: tuple[str, ...]
    train: Array
    test: Array
    times: Array
    run: Callable[[Array, np.random.Generator], Variables]
    inputs: tuple[str, ...] = ()
    noise: float = 0.0


def middles(low: float, high: float, *, parts: int = 12) -> Array:
    """Return the middles (parts, 1) of equal parts of a range."""
    edges = np.linspace(low, high, parts + 1)
    return (edges[:-1] + edges[1:])[:, None] / 2


def evenly(low: float, high: float, *, runs: int = 8) -> Array:
    """Return contexts (runs, 1) from one end of a range to the other."""
    return np.linspace(low, high, runs)[:, None]


def drawn(low: Sequence[float], high: Sequence[float], runs: int, seed: int) -> Array:
    """Return contexts (runs, p) drawn evenly from a box."""
    return np.random.default_rng(seed).uniform(low, high, (runs, len(low)))


def solved(rate: Callable[..., Array], start: Array, times: Array, *arguments: object) -> Array:
    """Return states (T, n) at times that begin at the first one."""
    span = (times[0], times[-1])
    options = {"method": "LSODA", "rtol": 1e-8, "atol": 1e-8}
    return solve_ivp(rate, span, start, t_eval=times, args=arguments, **options).y.T


def infected(context: Array, _: np.random.Generator) -> Variables:
    """Return an epidemic in a town of a million (Kermack and McKendrick)."""
    beta, gamma = context

    def rate(_: float, s: Array) -> Array:
        caught, healed = beta * s[0] * s[1], gamma * s[1]
        return np.array([-caught, caught - healed, healed])

    people = 1e6 * solved(rate, np.array([0.999, 0.001, 0.0]), np.arange(101.0))
    return dict(zip(("susceptible", "infected", "recovered"), people.T, strict=True))


def duffing(context: Array, _: np.random.Generator) -> Variables:
    """Return a beam between two magnets, which a shaker of a fixed period drives."""
    (damping,) = context

    def rate(t: float, s: Array) -> Array:
        x, v = s
        return np.array([v, x - x**3 - damping * v + 0.2 * np.cos(1.2 * t)])

    states = solved(rate, np.array([1.0, 0.0]), np.linspace(0, 60, 241))
    return {"x": 1e-3 * states[:, 0], "v": 1e-3 * states[:, 1]}


def stirred(context: Array, _: np.random.Generator) -> Variables:
    """Return a tracer (32 x 16) that a double gyre of period 10 stirs (Shadden, Lekien, Marsden)."""
    (strength,) = context
    cell = 2 / 32
    x, y = cell * np.arange(33), cell * np.arange(17)  # corners of the cells

    def rate(t: float, s: Array) -> Array:
        swing = 0.25 * np.sin(2 * np.pi * t / 10)
        bent = swing * x**2 + (1 - 2 * swing) * x
        stream = strength * np.outer(np.sin(np.pi * bent), np.sin(np.pi * y))
        # fluxes through faces are differences of the stream function, so that none is lost
        to_right, up = -np.diff(stream, axis=1)[1:-1], np.diff(stream, axis=0)[:, 1:-1]
        c = s.reshape(32, 16)
        right = to_right * (c[1:] + c[:-1]) / 2 - 0.01 * np.diff(c, axis=0)
        above = up * (c[:, 1:] + c[:, :-1]) / 2 - 0.01 * np.diff(c, axis=1)
        gained = -np.diff(np.pad(right, ((1, 1), (0, 0))), axis=0)
        gained -= np.diff(np.pad(above, ((0, 0), (1, 1))), axis=1)
        return gained.ravel() / cell**2

    start = np.repeat(1 / (1 + np.exp(8 * (x[:-1] + cell / 2 - 0.8))), 16)
    return {"tracer": solved(rate, start, np.linspace(0, 15, 101)).reshape(-1, 32, 16)}


def swift_hohenberg(context: Array, _: np.random.Generator) -> Variables:
    """Return rolls that grow on a ring of eight wavelengths, faster the farther above onset."""
    (r,) = context
    k = np.arange(33) / 8
    decay = (1 - k**2) ** 2

    def rate(_: float, u: Array) -> Array:
        linear = np.fft.irfft((r - decay) * np.fft.rfft(u), len(u))
        return linear + 0.5 * u**2 - u**3

    place = 16 * np.pi * np.arange(64) / 64
    start = 0.1 * np.cos(place) + 0.05 * np.cos(0.875 * place) + 0.02 * np.sin(1.25 * place)
    return {"u": solved(rate, start, np.linspace(0, 40, 121))}


def goldbeter(context: Array, _: np.random.Generator) -> Variables:
    """Return cyclin, kinase and protease of the minimal mitotic oscillator (Goldbeter, 1991)."""
    (supply,) = context

    def rate(_: float, s: Array) -> Array:
        c, m, x = s
        dc = supply - 0.25 * x * c / (0.02 + c) - 0.01 * c
        dm = 3 * c / (0.5 + c) * (1 - m) / (1.005 - m) - 1.5 * m / (0.005 + m)
        dx = m * (1 - x) / (1.005 - x) - 0.5 * x / (0.005 + x)
        return np.array([dc, dm, dx])

    start = solved(rate, np.array([0.01, 0.01, 0.01]), np.array([0.0, 100.0]))[-1]
    states = solved(rate, start, np.linspace(0, 80, 201))
    return dict(zip(("cyclin", "kinase", "protease"), states.T, strict=True))


def reactor(context: Array, _: np.random.Generator) -> Variables:
    """Return a batch A + B -> C -> D at a temperature, by laws of Arrhenius."""
    (temperature,) = context
    warmth = (1 / 300 - 1 / temperature) / 8.314
    forward, onward = 4e-7 * np.exp(60e3 * warmth), 2e-5 * np.exp(75e3 * warmth)

    def rate(_: float, s: Array) -> Array:
        made, lost = forward * s[0] * s[1], onward * s[2]
        return np.array([-made, -made, made - lost, lost])

    states = solved(rate, np.array([1000.0, 800.0, 0.0, 0.0]), np.linspace(0, 14400, 145))
    return dict(zip("ABCD", states.T, strict=True))


def welded(context: Array, _: np.random.Generator) -> Variables:
    """Return the temperature of a rod of 60 cells, along which a torch moves."""
    (speed,) = context
    place = np.linspace(0, 20, 60)

    def rate(t: float, u: Array) -> Array:
        edge = np.pad(u, 1, mode="edge")
        spread = (edge[:-2] - 2 * u + edge[2:]) / (place[1] - place[0]) ** 2
        return 0.5 * spread - 0.1 * u + 100 * np.exp(-2 * (place - 2 - speed * t) ** 2)

    return {"T": solved(rate, np.zeros(60), np.linspace(0, 10, 101))}


def hosts(context: Array, _: np.random.Generator) -> Variables:
    """Return hosts and parasitoids of four patches, counted each year (Beddington, Free, Lawton)."""
    (growth,) = context
    host, parasitoid = np.array([0.3, 0.5, 0.4, 0.6]), np.array([0.2, 0.1, 0.3, 0.2])
    years = []
    for _ in range(41):
        years.append([host, parasitoid])
        escaped = np.exp(-2.2 * parasitoid)
        host, parasitoid = (
            host * np.exp(growth * (1 - host)) * escaped,
            2.2 * host * (1 - escaped),
        )
        # a tenth of each patch moves to the others
        host, parasitoid = (0.9 * each + 0.1 * each.mean() for each in (host, parasitoid))
    counts = 1e4 * np.array(years)  # (T, 2, 4)
    return {"hosts": counts[:, 0], "parasitoids": counts[:, 1]}


def patient(context: Array, draw: np.random.Generator) -> Variables:
    """Return a drug that is swallowed, in two compartments of a patient of some weight, whose
    clearance and volume are their own.
    """
    (weight,) = context
    of_patient = draw.normal(size=2)
    clearance = 5 * (weight / 70) ** 0.75 * np.exp(0.2 * of_patient[0])
    volume = 35 * weight / 70 * np.exp(0.1 * of_patient[1])

    def rate(_: float, s: Array) -> Array:
        gut, blood, tissue = s
        exchange = 4 * (blood / volume - tissue / 40)
        return np.array([-gut, gut - clearance * blood / volume - exchange, exchange])

    gut, blood, tissue = solved(rate, np.array([500.0, 0.0, 0.0]), np.linspace(0, 24, 73)).T
    return {"dose": gut, "plasma": blood / volume, "tissue": tissue / 40}


def heated(context: Array, draw: np.random.Generator) -> Variables:
    """Return air, walls and floor of a house, whose heater is switched each hour."""
    (insulation,) = context
    quarters = 0.25 * np.arange(193)  # hours
    power = draw.uniform(0, 4, 48)  # kW

    def rate(_: float, s: Array, heat: float) -> Array:
        air, inner, outer, floor = s
        to_wall = 0.3 * np.sign(air - inner) * abs(air - inner) ** 1.25
        to_floor = 0.2 * (air - floor)
        through = insulation * (inner - outer)
        lost = 0.4 * outer
        return np.array(
            [
                (heat - to_wall - to_floor - 0.05 * air) / 0.4,
                (to_wall - through) / 3,
                (through - lost) / 2,
                to_floor / 4,
            ]
        )

    states = [np.array([12.0, 10.0, 4.0, 11.0])]  # above the air outside
    for hour, heat in enumerate(power):
        samples = quarters[4 * hour : 4 * hour + 5]
        states.extend(solved(rate, states[-1], samples, heat)[1:])
    names = ("air", "inner_wall", "outer_wall", "floor")
    inputs = np.repeat(power, 4)
    return dict(zip(names, np.array(states).T, strict=True)) | {
        "heater": np.append(inputs, inputs[-1])
    }


GRID = np.array(
    [[beta, gamma] for beta in (0.25, 0.35, 0.45, 0.55) for gamma in (0.08, 0.11, 0.14)]
)

TEN = {
    "epidemic, two parameters": Bench(
        ("beta", "gamma"), GRID, drawn((0.25, 0.08), (0.55, 0.14), 12, 1), np.arange(101.0), infected
    ),
    "Duffing with a shaker": Bench(
        ("damping",), evenly(0.25, 0.55), middles(0.25, 0.55), 1e-2 * np.linspace(0, 60, 241), duffing
    ),
    "double gyre": Bench(
        ("strength",), evenly(0.05, 0.15), middles(0.05, 0.15), np.linspace(0, 15, 101), stirred
    ),
    "Swift-Hohenberg rolls": Bench(
        ("r",), evenly(0.1, 0.5), middles(0.1, 0.5), np.linspace(0, 40, 121), swift_hohenberg
    ),
    "cell cycle": Bench(
        ("supply",), evenly(0.02, 0.035), middles(0.02, 0.035), np.linspace(0, 80, 201), goldbeter
    ),
    "reactor at temperatures": Bench(
        ("temperature",), evenly(300, 360), middles(300, 360), np.linspace(0, 14400, 145), reactor
    ),
    "moving torch": Bench(
        ("speed",), evenly(0.5, 1.5), middles(0.5, 1.5), np.linspace(0, 10, 101), welded
    ),
    "hosts by the year": Bench(
        ("growth",), evenly(1.0, 1.4), middles(1.0, 1.4), np.arange(41.0), hosts, noise=0.02
    ),
    "patients": Bench(
        ("weight",), drawn((50.0,), (100.0,), 16, 2), drawn((52.0,), (98.0,), 12, 3),
        np.linspace(0, 24, 73), patient, noise=0.02,
    ),
    "heated house": Bench(
        ("insulation",), evenly(0.1, 0.6), middles(0.1, 0.6, parts=6), 0.25 * np.arange(193), heated,
        inputs=("heater",),
    ),
}  # fmt: skip
"""Sets by name."""


def measured(bench: Bench, *, seed: int = 0) -> tuple[xr.Dataset, xr.Dataset, xr.Dataset]:
    """Return runs (run, t, ...) for the training and for the test as their owner has them, and those
    of the test without noise.
    """
    draw = np.random.default_rng(seed)
    train, exact = (_runs(bench, contexts, draw) for contexts in (bench.train, bench.test))
    return _with_noise(bench, train, draw), _with_noise(bench, exact, draw), exact


def _runs(bench: Bench, contexts: Array, draw: np.random.Generator) -> xr.Dataset:
    """Return runs at contexts, without noise."""
    parts = [bench.run(context, draw) for context in contexts]
    variables = {}
    for name in parts[0]:
        values = np.stack([part[name] for part in parts])
        places = [f"{name}_{k}" for k in range(values.ndim - 2)]
        variables[name] = (("run", "t", *places), values)
    coords = {
        name: ("run", values) for name, values in zip(bench.parameters, contexts.T, strict=True)
    }
    return xr.Dataset(variables, {"t": bench.times} | coords)


def _with_noise(bench: Bench, runs: xr.Dataset, draw: np.random.Generator) -> xr.Dataset:
    """Return runs with noise of the size of a share of each variable's deviation; inputs are known."""
    noisy = runs.copy()
    for name in runs.data_vars:
        if bench.noise and name not in bench.inputs:
            size = bench.noise * float(runs[name].std())
            noisy[name] = runs[name] + size * draw.normal(size=runs[name].shape)
    return noisy
