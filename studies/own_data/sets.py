"""Data as users have them, made by SciPy alone: names, dimensions and holes of their own, nothing of romkit's schema.

Each function gives what a user would load from a file; `size` scales grids and numbers of runs, 1 is the full size.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.ndimage import gaussian_filter1d


def pulses(size: float = 1.0, runs: int = 25, seed: int = 0, duration: float = 80.0) -> xr.Dataset:
    """A pulse that travels on a FitzHugh-Nagumo ring: v and w over x (together n = 200), recovery rate as context.

    v̇ = v - v³/3 - w + v'',  ẇ = ε (v + 0.7 - 0.8 w), on a ring of length 60, after 150 time units.
    """
    rng, points = np.random.default_rng(seed), round(100 * size)
    rate = np.linspace(0.06, 0.1, runs).round(5)
    x = np.linspace(0, 60, points, endpoint=False)

    def field(t: float, y: np.ndarray) -> np.ndarray:
        v, w = y.reshape(2, runs, points)
        bend = (np.roll(v, 1, -1) - 2 * v + np.roll(v, -1, -1)) / x[1] ** 2
        return np.concatenate([v - v**3 / 3 - w + bend, rate[:, None] * (v + 0.7 - 0.8 * w)]).ravel()

    v = np.full((runs, points), -1.1994)
    w = np.full((runs, points), -0.6243)
    v[:, (x > 20) & (x < 28)] = 1.5
    w[:, x < 20] = 0.6  # refractory: the pulse can leave to one side only
    begin = 150 + rng.uniform(0, 30)
    times = np.arange(0, duration + 1e-9, 0.4)
    motion = solve_ivp(field, (0, begin + duration), np.concatenate([v, w]).ravel(), t_eval=begin + times, rtol=1e-6)
    v, w = np.moveaxis(motion.y.reshape(2, runs, points, -1), -1, 2)
    coords = {"t": ("t", times, {"units": "ms"}), "x": ("x", x, {"units": "mm"}), "rate": ("run", rate)}
    return xr.Dataset({"v": (("run", "t", "x"), v), "w": (("run", "t", "x"), w)}, coords)


def noisy_pulses(size: float = 1.0, runs: int = 25, seed: int = 0, duration: float = 80.0) -> xr.Dataset:
    """`pulses` with noise of 5 % of the deviation of each variable; nobody recorded velocities."""
    data, rng = pulses(size, runs, seed, duration), np.random.default_rng(seed + 1)
    return data.map(lambda u: u + 0.05 * float(u.std()) * rng.normal(size=u.shape), keep_attrs=True)


def forced_array(size: float = 1.0, runs: int = 24, seed: int = 0, duration: float = 30.0) -> xr.Dataset:
    """A chain of Duffing oscillators, shaken at both ends by what was recorded; sensors fail for a while.

    q̈ₖ = -0.3 q̇ₖ - qₖ - β qₖ³ + 200 (qₖ₋₁ - 2 qₖ + qₖ₊₁), free ends, and ½ N u(t) at each end of N; 15 % of the time
    something is missing.
    """
    rng, links, dt = np.random.default_rng(seed), max(4, round(12 * size)), 0.05
    times = np.arange(0, duration + 1e-9, dt)
    beta = rng.uniform(0.2, 1.0, runs).round(3)
    shake = gaussian_filter1d(rng.normal(size=(runs, len(times))), 12, axis=1)
    shake *= 0.8 / shake.std()
    stiffness = 200.0 * (2 * np.eye(links) - np.eye(links, k=1) - np.eye(links, k=-1))
    stiffness[0, 0] = stiffness[-1, -1] = 200
    push = np.zeros(links)
    push[[0, -1]] = links / 2

    def field(t: float, y: np.ndarray) -> np.ndarray:
        q, v = y.reshape(2, runs, links)
        u = np.array([np.interp(t, times, row) for row in shake])[:, None]
        return np.concatenate([v, -0.3 * v - q - beta[:, None] * q**3 - q @ stiffness + u * push]).ravel()

    start = np.zeros((2, runs, links))
    start[0] = rng.normal(size=(runs, 1)) * 0.5
    motion = solve_ivp(field, (0, times[-1]), start.ravel(), t_eval=times, rtol=1e-7, max_step=dt)
    q, v = np.moveaxis(motion.y.reshape(2, runs, links, -1), -1, 2)
    for k in range(runs):  # a stretch that nobody recorded, and one sensor that fails
        first, second = rng.integers(20, len(times) - 60, 2)
        q[k, first : first + 45] = v[k, first : first + 45] = np.nan
        q[k, second : second + 45, rng.integers(links)] = np.nan
    return xr.Dataset(
        {"q": (("test", "time", "mass"), q), "v": (("test", "time", "mass"), v), "shaker": (("test", "time"), shake)},
        {"time": times, "beta": ("test", beta), "technician": ("test", np.array(["ab"[k % 2] for k in range(runs)]))},
    )


def plumes(size: float = 1.0, runs: int = 16, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, dict[str, list]]:
    """Plumes that drift and spread until they reach the wall: arrays (times, points) of unequal length, times, speeds.

    c' = -U c_x + 0.02 c_xx from a Gaussian at 0.15, up to where its centre is at 0.85.
    """
    rng, points = np.random.default_rng(seed), round(80 * size)
    speed, x = np.sort(rng.uniform(0.2, 0.5, runs)).round(3), np.linspace(0, 1, points)
    times, arrays = np.arange(0, 0.7 / speed[0] + 1e-9, 0.02), []
    gap, upwind = x[1], 0.004
    for U in speed:

        def field(t: float, c: np.ndarray, U: float = U) -> np.ndarray:
            left, right = np.concatenate([[c[0]], c[:-1]]), np.concatenate([c[1:], [c[-1]]])
            return -U * (right - left) / (2 * gap) + upwind * (right - 2 * c + left) / gap**2

        own = times[times <= 0.7 / U]
        start = np.exp(-(((x - 0.15) / 0.06) ** 2))
        arrays.append(solve_ivp(field, (0, own[-1] + 1e-9), start, t_eval=own, rtol=1e-7, method="LSODA").y.T)
    return arrays, times[: max(map(len, arrays))], {"speed": speed.tolist()}


def spirals(size: float = 1.0, runs: int = 10, seed: int = 0) -> xr.Dataset:
    """A spiral wave of a λ-ω system: u and v over (y, x), whole doses 1, 2, ... as context.

    u̇ = (1 - r²) u + ω r² v + 0.1 ∇²u, v̇ = (1 - r²) v - ω r² u + 0.1 ∇²v, ω = 0.5 + 0.1 dose, no flux through walls.
    """
    points = max(6, round(24 * size))
    doses, axis = np.arange(1, runs + 1), np.linspace(-10, 10, points)
    omega = (0.5 + 0.1 * doses)[:, None, None]
    y, x = np.meshgrid(axis, axis, indexing="ij")

    def laplacian(u: np.ndarray) -> np.ndarray:
        wide = np.pad(u, ((0, 0), (1, 1), (1, 1)), mode="edge")
        around = wide[:, 2:, 1:-1] + wide[:, :-2, 1:-1] + wide[:, 1:-1, 2:] + wide[:, 1:-1, :-2]
        return 0.1 * (around - 4 * u) / (axis[1] - axis[0]) ** 2

    def field(t: float, state: np.ndarray) -> np.ndarray:
        u, v = state.reshape(2, runs, points, points)
        r = u**2 + v**2
        return np.concatenate(
            [(1 - r) * u + omega * r * v + laplacian(u), (1 - r) * v - omega * r * u + laplacian(v)]
        ).ravel()

    r, angle = np.hypot(x, y), np.arctan2(y, x)
    start = np.stack([np.tanh(r) * np.cos(angle - r / 2), np.tanh(r) * np.sin(angle - r / 2)])
    start = np.repeat(start[:, None], runs, axis=1)
    times = np.arange(0, 20 + 1e-9, 0.1)
    motion = solve_ivp(field, (0, 60 + times[-1]), start.ravel(), t_eval=60 + times, rtol=1e-6)
    u, v = np.moveaxis(motion.y.reshape(2, runs, points, points, -1), -1, 2)
    coords = {"time": times, "y": axis, "x": axis, "dose": ("dish", doses)}
    return xr.Dataset({name: (("dish", "time", "y", "x"), part) for name, part in (("u", u), ("v", v))}, coords)


SETS: dict[str, Callable[..., object]] = {
    "pulses": pulses,
    "forced-array": forced_array,
    "plumes": plumes,
    "spirals": spirals,
    "noisy-pulses": noisy_pulses,
}
"""Sets by name."""
