"""Ten more data sets of the same kinds, made after romkit's choice of laws was finished.

Equations, ranges, units and noise were fixed before romkit was run on any of them.
"""

import numpy as np

from studies.first_afternoon.sets import Source, named, pair, ring, wave


def morris_lecar(t: float, s: np.ndarray, current: float) -> np.ndarray:
    """Spikes of six cells in a chain, in mV and ms; conductances as printed for the Hopf case."""
    v, w = pair(s)
    left = np.pad(v, 1, mode="edge")
    gates = 0.5 * (1 + np.tanh((v + 1.2) / 18)), 0.5 * (1 + np.tanh((v - 2) / 30))
    flow = 4.4 * gates[0] * (v - 120) + 8 * w * (v + 84) + 2 * (v + 60)
    dv = (current - flow) / 20 + 0.3 * (left[:-2] - 2 * v + left[2:])
    return np.concatenate([dv, 0.04 * np.cosh((v - 2) / 60) * (gates[1] - w)])


def barkley(t: float, s: np.ndarray, a: float) -> np.ndarray:
    u, v = pair(s)
    return np.concatenate([u * (1 - u) * (u - (v + 0.05) / a) / 0.04 + 6 * ring(u), u - v])


def excited(a: float) -> np.ndarray:
    place = np.arange(80)
    return np.concatenate([(place < 10) * 1.0, ((place > 60) | (place < 2)) * 0.4])


def rayleigh(t: float, s: np.ndarray, mu: float) -> np.ndarray:
    x, v = pair(s)
    left = np.pad(x, 1, mode="edge")
    return np.concatenate(
        [v, mu * (1 - v**2) * v - np.linspace(1, 1.1, len(x)) * x + left[:-2] - 2 * x + left[2:]]
    )


def ginzburg_landau(t: float, s: np.ndarray, beta: float) -> np.ndarray:
    """Return a plane wave with two periods on a ring."""
    u, v = pair(s)
    a = u + 1j * v
    rate = a - (1 - 1j * beta) * abs(a) ** 2 * a + (1 + 0.5j) * 4 * ring(a)
    return np.concatenate([rate.real, rate.imag])


def turned(beta: float) -> np.ndarray:
    a = 0.8 * np.exp(4j * np.pi * np.arange(40) / 40)
    return np.concatenate([a.real, a.imag])


def repressilator(t: float, s: np.ndarray, alpha: float) -> np.ndarray:
    m, p = pair(s)
    return np.concatenate([alpha / (1 + np.roll(p, 1) ** 2.5) + 0.1 - m, 0.8 * (m - p)])


def cascade(t: float, s: np.ndarray, signal: float) -> np.ndarray:
    """Eight enzymes, each activated by the one before and deactivated at a rate of its own."""
    before = np.append(signal, s[:-1])
    return 1.2 * before * (1 - s) / (0.5 + 1 - s) - np.linspace(0.2, 0.35, len(s)) * s / (0.3 + s)


def langford(t: float, s: np.ndarray, d: float) -> np.ndarray:
    x, y, z = s
    r = x**2 + y**2
    return np.array(
        [(z - 0.7) * x - d * y, d * x + (z - 0.7) * y, 0.6 + z - z**3 / 3 - r * (1 + 0.25 * z)]
    )


def around(s: np.ndarray) -> dict[str, np.ndarray]:
    """Return a field (T, height, angle) of a rotating mode and of the mean."""
    x, y, z = s.T[..., None, None]
    h, angle = np.meshgrid(np.linspace(-1, 1, 5), 2 * np.pi * np.arange(12) / 12, indexing="ij")
    turning = x * np.cos(angle) + y * np.sin(angle)
    return {"T": z * (1 - 0.5 * h**2) + turning * (1 + 0.3 * h) + 0.2 * turning**2 * h}


def ladder(t: float, s: np.ndarray, strength: float) -> np.ndarray:
    """Ten coils and capacitors that stiffen with their voltage, driven at one end and matched at
    the other.
    """
    v, i, (c, d) = s[:10], s[10:20], s[20:]
    sources = np.append(strength * c, v[:-1])
    return np.concatenate(
        [
            (i - np.append(i[1:], v[-1])) / (1 + 0.2 * v**2),
            sources - v - 0.1 * i,
            [-0.7 * d, 0.7 * c],
        ]
    )


def rossler(t: float, s: np.ndarray, c: float) -> np.ndarray:
    x, y, z = s.reshape(3, -1)
    rate = np.concatenate([-y - z, x + 0.2 * y, 0.2 + z * (x - c)]).reshape(3, -1)
    return (rate + 0.3 * ring(s.reshape(3, -1))).ravel()


def glycolysis(t: float, s: np.ndarray, b: float) -> np.ndarray:
    """Sel'kov's oscillator in twelve cells with supplies of their own."""
    x, y = pair(s)
    made = 0.08 * y + x**2 * y
    return np.concatenate(
        [made - x + 0.3 * ring(x), b * (1 + wave(12, 0.05)) - made + 0.3 * ring(y)]
    )


UNSEEN = {
    "Morris-Lecar chain": Source(
        "current", 100.0, 180.0, morris_lecar, lambda c: np.r_[np.linspace(-40, 10, 6), np.zeros(6)], named("V", "w"),
        250.0, 1000.0, 1e-3, 1e-3,
    ),
    "Barkley pulse": Source("a", 0.72, 0.88, barkley, excited, named("u", "v"), 12.0, 30.0, 1e3, 1e-6),
    "Rayleigh chain": Source(
        "mu", 0.3, 1.2, rayleigh, lambda c: np.r_[1.0, 0.8, 0.5, 0.2, 0.0, np.zeros(5)], named("x", "v"),
        30.0, 150.0, 1e-6, 1e6,
    ),
    "Ginzburg-Landau wave": Source("beta", 0.8, 1.6, ginzburg_landau, turned, named("re", "im"), 20.0, 20.0, 1e6),
    "repressilator": Source(
        "alpha", 12.0, 30.0, repressilator, lambda c: np.array([1.0, 2.0, 4.0, 3.0, 1.0, 2.0]),
        named("mrna", "protein"), 40.0, 100.0, 120.0, 1e3,
    ),
    "enzyme cascade": Source(
        "signal", 0.3, 1.0, cascade, lambda c: np.full(8, 0.05), lambda x: {"active": x}, 60.0, 0.0, 60.0, 1e-6
    ),
    "Langford torus": Source("d", 3.0, 4.0, langford, lambda c: np.array([0.1, 0.0, 0.0]), around, 25.0, 60.0, 1e4),
    "driven ladder": Source(
        "strength", 0.5, 1.5, ladder, lambda c: np.r_[np.zeros(20), 1.0, 0.0],
        lambda s: {"V": s[:, :10], "I": s[:, 10:20], "source": s[:, 20:]}, 40.0, 100.0, 1e-6,
    ),
    "Rossler ring": Source(
        "c", 1.8, 2.6, rossler, lambda c: np.r_[wave(6, 0.5, 1.0), np.zeros(6), np.zeros(6)], named("x", "y", "z"),
        35.0, 300.0, 3600.0,
    ),
    "noisy glycolysis": Source(
        "b", 0.45, 0.7, glycolysis, lambda c: np.r_[wave(12, 0.1, 0.6), np.full(12, 1.2)], named("adp", "f6p"),
        40.0, 200.0, 1e-2, 1.0, 0.05,
    ),
}  # fmt: skip
