"""Burgers' equations of the LaSDI family: a bump of height a and width w that steepens.

Source: inviscid, one dimension, as in gLaSDI (He et al. 2023, arXiv:2204.12005) and GPLaSDI
(Bonneville et al. 2024): [-3, 3], 1001 points, upwind differences, backward Euler to t = 1. In two
dimensions gLaSDI has 60 x 60 points, Reynolds number 10 000 and 1500 steps to t = 2; here 40 x 40
points, upwind differences, a step of 0.02 s and every step a sample.
"""

import time
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.linalg import solve_banded

from benchmarks.outside import ours

HEIGHTS, WIDTHS = np.linspace(0.7, 0.9, 5), np.linspace(0.9, 1.1, 5)


def one_dimension(a: float, w: float, points: int = 1001, steps: int = 1000) -> np.ndarray:
    """Return samples (101, points) of a run; the left end wraps round, where nothing arrives."""
    x = np.linspace(-3, 3, points)
    ratio = (1.0 / steps) / (x[1] - x[0])
    u = a * np.exp(-(x**2) / (2 * w**2))
    samples = [u]
    for k in range(1, steps + 1):
        v = u.copy()
        for _ in range(8):
            left = np.roll(v, 1)
            residual = v - u + ratio * v * (v - left)
            band = np.array([1 + ratio * (2 * v - left), np.append(-ratio * v[1:], 0.0)])
            change = solve_banded((1, 0), band, residual)
            v = v - change
            if np.abs(change).max() < 1e-10:
                break
        u = v
        if k % 10 == 0:
            samples.append(u)
    return np.array(samples)


def two_dimensions(a: float, w: float, points: int = 40, steps: int = 2000) -> np.ndarray:
    """Return samples (101, 2 points²) of velocities u = v to t = 2 on [-3, 3]²; explicit steps,
    upwind differences, viscosity 1 / 10 000, zero at the boundary.
    """
    x = np.linspace(-3, 3, points)
    dx, dt = x[1] - x[0], 2.0 / steps
    u = a * np.exp(-(x[:, None] ** 2 + x**2) / (2 * w**2))
    u[[0, -1]], u[:, [0, -1]] = 0.0, 0.0
    samples = [u]

    def rate(u: np.ndarray) -> np.ndarray:
        du = np.zeros_like(u)
        inner = u[1:-1, 1:-1]
        slopes = 2 * inner - u[:-2, 1:-1] - u[1:-1, :-2]  # velocities are positive
        bend = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner
        du[1:-1, 1:-1] = -inner * slopes / dx + 1e-4 * bend / dx**2
        return du

    for k in range(1, steps + 1):
        middle = u + 0.5 * dt * rate(u)
        u = u + dt * rate(middle)
        if k % (steps // 100) == 0:
            samples.append(u)
    return np.array([np.concatenate([u.ravel(), u.ravel()]) for u in samples])


SOLVERS = {"Burgers 1D": (one_dimension, 0.01), "Burgers 2D": (two_dimensions, 0.02)}
"""Solver, and interval of the samples."""


@cache
def runs(name: str, between: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return states (C, T, n) and parameters (C, 2): 25 runs on a grid, or the 16 between them."""
    solve, _ = SOLVERS[name]
    heights, widths = HEIGHTS, WIDTHS
    if between:
        heights, widths = (0.5 * (values[1:] + values[:-1]) for values in (heights, widths))
    parameters = np.array([(a, w) for a in heights for w in widths])
    return np.array([solve(a, w) for a, w in parameters]), parameters


def errors(name: str) -> dict[str, float]:
    """Return largest and median relative error [%] of the tests: of each the largest over time."""
    states, parameters = runs(name, between=False)
    _, interval = SOLVERS[name]
    data = ours.dataset(states, interval, dict(zip(("a", "w"), parameters.T, strict=True)))
    began = time.process_time()
    forecast, law = ours.of_runs(data, complete=False)
    seconds = time.process_time() - began
    truth, parameters = runs(name, between=True)
    run = forecast(
        initial_state=truth[:, 0],
        duration=interval * (truth.shape[1] - 1),
        dt=interval,
        a=parameters[:, 0],
        w=parameters[:, 1],
    )
    path = ours.states_of(run).reshape(truth.shape)
    error = np.linalg.norm(path - truth, axis=-1) / np.linalg.norm(truth, axis=-1)
    each = 100 * np.nan_to_num(error, nan=np.inf).max(1)
    return {
        "largest": float(each.max()),
        "median": float(np.median(each)),
        "seconds": seconds,
    } | ours.terms_of(law)


def tasks(name: str) -> dict[str, dict[str, Callable[[], dict[str, float]]]]:
    return {"unseen parameters": {f"{ours.NAME}, learn": lambda: errors(name)}}
