"""Ten further data sets, to judge a method that was made while looking at the other twenty.

Equations, ranges, units and noise were committed before romkit was run on any of them. They were
looked at with SciPy alone, to see that their states are finite and move.
"""

import numpy as np

from studies.first_afternoon.sets import Source, named, pair, ring, wave


def oregonator(t: float, s: np.ndarray, f: float) -> np.ndarray:
    """Relaxation oscillations of eight stirred cells in a chain (Tyson's two variables)."""
    x, z = pair(s)
    left = np.pad(x, 1, mode="edge")
    exchange = left[:-2] - 2 * x + left[2:]
    dx = (x * (1 - x) - f * z * (x - 0.002) / (x + 0.002)) / 0.08
    return np.concatenate([dx + 0.5 * exchange, x - z])


def goodwin(t: float, s: np.ndarray, k: float) -> np.ndarray:
    """Return a gene that its third product represses, in five coupled cells."""
    x, y, z = s.reshape(3, -1)
    dx = k / (1 + z**10) - 0.4 * x
    return np.concatenate([dx + 0.1 * ring(x), 0.5 * x - 0.4 * y, 0.5 * y - 0.4 * z])


def wilson_cowan(t: float, s: np.ndarray, drive: float) -> np.ndarray:
    """Excited and inhibited populations on a ring, with a drive that differs from place to place."""
    e, i = pair(s)
    place = wave(len(e), 0.1)
    to_e = 16 * e - 12 * i + drive + place + ring(e)
    to_i = 15 * e - 3 * i
    gain_e = 1 / (1 + np.exp(-1.3 * (to_e - 4))) - 1 / (1 + np.exp(5.2))
    gain_i = 1 / (1 + np.exp(-2.0 * (to_i - 3.7))) - 1 / (1 + np.exp(7.4))
    return np.concatenate([-e + (1 - e) * gain_e, -i + (1 - i) * gain_i])


def heated_plate(t: float, s: np.ndarray, omega: float) -> np.ndarray:
    """Return a plate of 8 x 10 cells with cold edges, and a flame that goes round it."""
    u, (c, d) = s[:-2].reshape(8, 10), s[-2:]
    cold = np.pad(u, 1)
    spread = cold[:-2, 1:-1] + cold[2:, 1:-1] + cold[1:-1, :-2] + cold[1:-1, 2:] - 4 * u
    y, x = np.meshgrid(np.linspace(-1, 1, 8), np.linspace(-1, 1, 10), indexing="ij")
    flame = np.exp(-4 * ((x - 0.5 * c) ** 2 + (y - 0.5 * d) ** 2))
    radiation = 0.05 * u**2
    rate = 1.5 * spread + flame - radiation
    return np.concatenate([rate.ravel(), [-omega * d, omega * c]])


def nagumo(t: float, u: np.ndarray, a: float) -> np.ndarray:
    """Return a front that moves through a bistable medium, slower the larger a is."""
    edge = np.pad(u, 1, mode="edge")
    return 4 * (edge[:-2] - 2 * u + edge[2:]) + u * (1 - u) * (u - a)


def beam(t: float, s: np.ndarray, stiffness: float) -> np.ndarray:
    """Return a clamped beam that rings down: bending, a cubic foundation, and friction."""
    w, v = pair(s)
    # the ends do not move and are level, so the cell beyond an end moves as the cell before it
    clamped = np.concatenate([[w[0], 0.0], w, [0.0, w[-1]]])
    bend = clamped[:-4] - 4 * clamped[1:-3] + 6 * w - 4 * clamped[3:-1] + clamped[4:]
    return np.concatenate([v, -stiffness * bend - 0.3 * w**3 - 0.06 * v])


def epidemic(t: float, s: np.ndarray, beta: float) -> np.ndarray:
    """Susceptible and infected people of ten towns in a row; it begins in the first one."""
    healthy, ill = pair(s)
    near = np.pad(ill, 1, mode="edge")
    pressure = ill + 0.15 * (near[:-2] - 2 * ill + near[2:])
    caught = beta * healthy * pressure
    return np.concatenate([0.02 * (1 - healthy) - caught, caught - 0.32 * ill])


def hindmarsh_rose(t: float, s: np.ndarray, current: float) -> np.ndarray:
    """Spiking of six coupled neurons, without the slow variable."""
    v, w = pair(s)
    left = np.pad(v, 1, mode="edge")
    dv = w - v**3 + 3 * v**2 + current - 1.2 + 0.4 * (left[:-2] - 2 * v + left[2:])
    return np.concatenate([dv, 1 - 5 * v**2 - w])


def kuramoto(t: float, theta: np.ndarray, coupling: float) -> np.ndarray:
    """Ten phase oscillators that fall into step."""
    tuned = np.linspace(0.9, 1.1, len(theta))
    pull = np.sin(theta[None, :] - theta[:, None]).mean(1)
    return tuned + coupling * pull


def pendulums(s: np.ndarray) -> dict[str, np.ndarray]:
    return {"height": -np.cos(s), "side": np.sin(s)}


def food_chain(t: float, s: np.ndarray, k: float) -> np.ndarray:
    """Plants, grazers and hunters in five meadows; the last take grazers alone."""
    r, n, p = s.reshape(3, -1)
    grazed = 1.6 * r * n / (0.6 + r)
    hunted = 0.25 * n * p / (0.7 + n)
    dr = r * (1 - r / k) - grazed + 0.1 * ring(r)
    dn = 0.6 * grazed - hunted - 0.35 * n + 0.1 * ring(n)
    return np.concatenate([dr, dn, 0.5 * hunted - 0.02 * p + 0.1 * ring(p)])


LATER = {
    "Oregonator chain": Source(
        "f", 0.8, 1.4, oregonator, lambda c: np.r_[np.linspace(0.1, 0.6, 8), np.full(8, 0.2)],
        named("bromous", "catalyst"), 20.0, 60.0, 30.0, 1e-3,
    ),
    "noisy Goodwin cells": Source(
        "k", 1.0, 2.5, goodwin, lambda c: np.r_[wave(5, 0.3, 0.8), np.full(10, 0.6)], named("x", "y", "z"),
        60.0, 300.0, 3600.0, 1.0, 0.05,
    ),
    "Wilson-Cowan ring": Source(
        "drive", 1.1, 1.6, wilson_cowan, lambda c: np.r_[wave(16, 0.05, 0.2), np.full(16, 0.1)], named("E", "I"),
        30.0, 60.0, 1e-2,
    ),
    "heated plate": Source(
        "omega", 0.3, 0.9, heated_plate, lambda c: np.r_[np.zeros(80), 1.0, 0.0],
        lambda s: {"T": s[:, :-2].reshape(-1, 8, 10), "flame": s[:, -2:]}, 30.0, 30.0, 1e2, 1e2,
    ),
    "Nagumo front": Source(
        "a", 0.1, 0.3, nagumo, lambda c: (np.arange(60) < 12) * 1.0, lambda u: {"u": u}, 25.0, 5.0, 1e-3
    ),
    "ringing beam": Source(
        "stiffness", 0.6, 1.6, beam, lambda c: np.r_[np.sin(np.pi * np.arange(1, 17) / 17) ** 2, np.zeros(16)],
        named("w", "v"), 60.0, 10.0, 1e-3, 1e-3,
    ),
    "epidemic of ten towns": Source(
        "beta", 0.8, 1.6, epidemic, lambda c: np.r_[np.ones(10), 1e-3, np.zeros(9)], named("healthy", "ill"),
        40.0, 0.0, 86400.0, 1e4,
    ),
    "Hindmarsh-Rose chain": Source(
        "current", 1.6, 2.6, hindmarsh_rose, lambda c: np.r_[np.linspace(-1, 1, 6), np.zeros(6)], named("v", "w"),
        25.0, 60.0, 1e-3, 1e-3,
    ),
    "Kuramoto pendulums": Source(
        "coupling", 0.15, 0.45, kuramoto, lambda c: np.linspace(-1.5, 1.5, 10), pendulums, 30.0, 0.0, 1.0, 0.5
    ),
    "food chain": Source(
        "K", 1.15, 1.5, food_chain, lambda c: np.r_[wave(5, 0.1, 0.7), np.full(5, 0.3), np.full(5, 1.0)],
        named("plants", "grazers", "hunters"), 120.0, 1500.0, 604800.0, 1e2,
    ),
}  # fmt: skip
