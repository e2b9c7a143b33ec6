"""The semidefinite bound of the norm of a derivative; the only file that imports cvxpy."""

import contextlib
import math
import warnings

import numpy as np
import torch
from torch import Tensor

from romkit.certificates.links import Block, Links
from romkit.core import checks
from romkit.core.tensors import divisor
from romkit.core.types import Array, ArrayPair

TOLERANCE = {"eps_abs": 2e-4, "eps_rel": 2e-4, "max_iters": 2500}
"""Settings of the splitting solver, which is coarse, and needs little memory and time with many
unknowns.
"""


def lipsdp(
    links: Links, scale: float, *, poor: float = 0.7, largest: int = 250, margin: float = 1e-6
) -> float:
    """Semidefinite bound of the norm of a derivative whose units have gains within their ranges.

    A unit is u = ḡ v + h̄ q + e with v and q linear in what is before it, and gains g = ḡ ± δg and
    h = h̄ ± δh. So e² ≤ w² (δg v)² + w'² (δh q)² with 1/w² + 1/w'² = 1, and the bound is the
    smallest √γ with

        γ ‖u₀‖² - ‖C u‖² - Σᵢ Tᵢ [w² (δg v)² + w'² (δh q)² - eᵢ²] ≥ 0   for all u₀ and e, Tᵢ ≥ 0.

    Without q the bracket is (u - a v)(b v - u) of a slope in [a, b]. The unknowns are u₀ and e, in
    which no large parts of v cancel. A solver finds T; γ is then computed from T, so that its
    tolerance does not enter. Infinite where that fails, or with more unknowns than `largest`.

    Args:
        links: from the input to the output.
        scale: a guess of the bound; numbers are divided by it.
        poor: share of the guess below which the least eigenvalue of the solver's matrix enlarges a
            bound by more than a percent; the bound is a better guess then.
        largest: largest number of unknowns; they take about a minute.
        margin: share that is added to a bound: many times the rounding errors of computing it from
            the multipliers.

    Raises:
        InputError: cvxpy is not installed.

    Source: Fazlyab et al. (2019), Efficient and accurate estimation of Lipschitz constants for deep
    neural networks, with an interval for each unit.
    """
    turn = _directions(links)  # (size, n)
    n = turn.shape[1]
    units = sum(len(block.sizes[0]) for block in links.blocks)
    if n + units > largest:
        return math.inf
    # input and units (size + units, N) over the N unknowns, and the brackets (units, N, N)
    rows = np.pad(turn, ((0, 0), (0, units)))
    forms = []
    for block in links.blocks:
        of_block, form = _units(block, rows, n + len(rows) - len(turn))
        rows = np.concatenate([rows, of_block])
        forms.append(form)
    brackets = np.concatenate(forms)
    out = links.last.numpy() @ rows / scale  # (r, n + units)
    square = out.T @ out
    slack = np.tensordot(_multipliers(n, square, brackets), brackets, 1)
    gamma = _smallest(-square - slack, n)
    bound = (1 + margin) * scale * gamma**0.5
    if bound < poor * scale:
        return min(bound, lipsdp(links, bound, poor=poor, largest=largest))
    return bound


def _directions(links: Links, *, rounding: float = 1e-14) -> Array:
    """Orthonormal directions (size, r) of the input that anything depends on; the others change
    nothing.

    `rounding`: singular values, relative to the largest, that are zero.
    """
    matrices: list[Tensor] = []
    for block in links.blocks:
        matrices.extend(block.matrices)
    matrices.append(links.last)
    of_input = slice(links.size)
    rows = torch.cat([matrix[:, of_input] for matrix in matrices])
    _, values, directions = torch.linalg.svd(rows, full_matrices=False)
    return directions[values > (rounding * values[0])].mT.numpy()


def _units(block: Block, rows: Array, unknown: int) -> ArrayPair:
    """Return units (k, N) of a block and the matrices (k, N, N) of their brackets, whose e are the
    unknowns from this number on.

    Each e is counted in the most that it can be where the input is one, so that unknowns are about
    one.
    """
    spreads = []
    for gain, size in zip(block.gains, block.sizes, strict=True):
        spreads.append((gain.radius * size).numpy())
    most = divisor(np.sum(spreads, axis=0))
    identity = np.eye(rows.shape[1])
    e = identity[unknown : unknown + len(most)]  # (k, N)
    units = most[:, None] * e
    forms = -_squares(e)
    for matrix, gain, spread in zip(block.matrices, block.gains, spreads, strict=True):
        v = matrix.numpy() @ rows  # (k, N)
        units = units + gain.middle.numpy()[:, None] * v
        # 1/w² is the share of this spread in the most
        square = np.divide(most, spread, out=np.ones_like(most), where=spread > 0)
        reach = (square**0.5) * gain.radius.numpy() / most
        forms = forms + _squares(reach[:, None] * v)
    return units, forms


def _squares(rows: Array) -> Array:
    """Return matrices (k, N, N) of the squares of linear functions (k, N)."""
    return rows[:, :, None] * rows[:, None, :]


def _multipliers(n: int, out: Array, forms: Array, *, inside: float = 1e-3) -> Array:
    """T (units,) with the smallest γ for which γ I₀ - out - Σ Tᵢ formsᵢ is definite, with I₀ for
    the first n unknowns.

    Zeros where the solver fails.

    `inside`: smallest eigenvalue that the solver's matrix must have, as a share of the guessed
    square of the bound. It is larger than the solver's error, so that its multipliers are
    valid.
    """
    cvxpy = checks.extra("certify", "cvxpy", "certify")
    of_input = np.arange(len(out)) < n
    gamma = cvxpy.Variable()
    T = cvxpy.Variable(len(forms), nonneg=True)
    columns = forms.reshape(len(forms), -1).T
    weighed = cvxpy.reshape(columns @ T, out.shape, order="C")
    identity = np.diag(of_input * 1.0)
    of_units = np.diag(~of_input * 1.0)
    form = gamma * identity - out - inside * of_units - weighed
    definite = ((form + form.T) / 2) >> 0
    problem = cvxpy.Problem(cvxpy.Minimize(gamma), [definite])
    with warnings.catch_warnings(), contextlib.suppress(cvxpy.SolverError):
        # a bound from inaccurate multipliers is a bound
        warnings.simplefilter("ignore")
        problem.solve(solver=cvxpy.SCS, **TOLERANCE)
    if T.value is None:
        return np.zeros(len(forms))
    return np.maximum(T.value, 0.0)


def _smallest(matrix: Array, n: int) -> float:
    """Return the smallest γ with which γ on the first n diagonal entries makes a form positive
    semidefinite.
    """
    form = torch.from_numpy(matrix)
    inner = form[n:, n:]
    factor, failed = torch.linalg.cholesky_ex(inner)
    if int(failed) != 0:
        return math.inf
    solved = torch.cholesky_solve(form[n:, :n], factor)
    above = form[:n, n:]
    schur = above @ solved - form[:n, :n]  # (n, n)
    eigenvalues = torch.linalg.eigvalsh((schur + schur.mT) / 2)
    return float(eigenvalues[-1].clamp(min=0))
