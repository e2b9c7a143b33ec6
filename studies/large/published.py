"""The full model as it was published: Newton's method with a general sparse solver on the trapezoidal rule."""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

CUTOFF = 1e-12
"""Of the residual, relative to the first, at which Newton's method ends."""


def newton_step(cells: int, mu: tuple[float, float], dt: float, steps: int) -> np.ndarray:
    """The state (2 cells²,) after some steps from rest, u = v = 1.

    Source: Barnett, Farhat, Maday (2023), section 5, and the code that they published with it.
    """
    h, n = 100 / cells, cells**2
    back = sparse.diags_array([np.ones(cells), -np.ones(cells - 1)], offsets=[0, -1]) / h
    unit, whole = sparse.eye_array(cells), sparse.eye_array(2 * n)
    Dx, Dy = sparse.kron(unit, back).tocsr(), sparse.kron(back, unit).tocsr()
    middle = np.tile((np.arange(cells) + 0.5) * h, cells)
    source = 0.02 * np.exp(mu[1] * middle) + np.where(middle < h, mu[0] ** 2 / 2 / h, 0.0)

    def field(w: np.ndarray) -> np.ndarray:
        u, v = w[:n], w[n:]
        return np.concatenate([source - Dx @ u**2 / 2 - Dy @ (u * v) / 2, -Dx @ (u * v) / 2 - Dy @ v**2 / 2])

    def slopes(w: np.ndarray) -> sparse.csc_array:
        U, V = sparse.diags_array(w[:n]), sparse.diags_array(w[n:])
        blocks = [[Dx @ U + Dy @ V / 2, Dy @ U / 2], [Dx @ V / 2, Dx @ U / 2 + Dy @ V]]
        return (whole + dt / 2 * sparse.block_array(blocks)).tocsc()

    w = np.ones(2 * n)
    for _ in range(steps):
        known, new, first = w + dt / 2 * field(w), w, None
        while True:
            residual = new - dt / 2 * field(new) - known
            size = np.linalg.norm(residual)
            first = size if first is None else first
            if size <= CUTOFF * first:
                break
            new = new - spsolve(slopes(new), residual)
        w = new
    return w
