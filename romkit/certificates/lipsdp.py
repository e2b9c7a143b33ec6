"""The semidefinite bound of a Lipschitz constant; the only file that imports cvxpy."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch

from romkit.certificates.bounds import Slopes
from romkit.certificates.chain import Chain
from romkit.errors import InputError

MARGIN = 1e-6
"""By this share a bound is enlarged: many times the rounding errors of computing it from the multipliers."""


def lipsdp(chain: Chain, ranges: Sequence[Slopes], scale: float) -> float:
    """A bound of the Lipschitz constant of a chain whose units have slopes within these ranges.

    With u₀ = δx and uₖ = Sₖ Aₖ uₖ₋₁ for slopes Sₖ in [aₖ, bₖ], it is the smallest √γ with

        γ ‖u₀‖² - ‖C u_K‖² - Σₖ (uₖ - aₖ Aₖ uₖ₋₁)ᵀ Tₖ (bₖ Aₖ uₖ₋₁ - uₖ) ≥ 0   for all u, diagonal Tₖ ≥ 0.

    The solver finds T; γ is then computed from T, so that its tolerance does not enter. Infinite where that fails.

    Args:
        chain: the map.
        ranges: slope intervals of each layer.
        scale: a guess of the constant, by which numbers are scaled.

    Source: Fazlyab et al. (2019), Efficient and accurate estimation of Lipschitz constants for deep neural networks,
    with an interval for each unit.
    """
    matrices = [layer.matrix.numpy() for layer in chain.layers]
    if matrices[0].shape[1] > matrices[0].shape[0]:  # directions that the first layer does not see change nothing
        matrices[0] = np.linalg.qr(matrices[0].T)[1].T
    sizes = [matrices[0].shape[1], *(len(matrix) for matrix in matrices)]
    blocks = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1])
    quadratic = [
        _sector(matrix @ before, unit, low.numpy(), high.numpy())
        for matrix, before, unit, (low, high) in zip(matrices, blocks[:-1], blocks[1:], ranges, strict=True)
    ]
    out = chain.last.matrix.numpy() @ blocks[-1] / scale
    multipliers = _solve(blocks[0].T @ blocks[0], out.T @ out, np.concatenate(quadratic))
    rest = -out.T @ out - np.einsum("k,kij->ij", multipliers, np.concatenate(quadratic))
    return (1 + MARGIN) * scale * _smallest(rest, sizes[0])


def _sector(v: np.ndarray, u: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(units, N, N) matrices of (uᵢ - aᵢ vᵢ)(bᵢ vᵢ - uᵢ) for the rows of v and u (units, N)."""
    left, right = u - low[:, None] * v, high[:, None] * v - u
    form = left[:, :, None] * right[:, None, :]
    return (form + form.swapaxes(1, 2)) / 2


def _solve(first: np.ndarray, out: np.ndarray, sectors: np.ndarray) -> np.ndarray:
    """The multipliers of the sectors."""
    try:
        import cvxpy
    except ImportError as error:
        fix = 'pip install "romkit[certify]"'
        raise InputError("certify", expected="cvxpy, which solves its problem", got="none", fix=fix) from error
    gamma, T = cvxpy.Variable(), cvxpy.Variable(len(sectors), nonneg=True)
    weighed = cvxpy.reshape(sectors.reshape(len(sectors), -1).T @ T, first.shape, order="C")
    form = gamma * first - out - weighed
    with warnings.catch_warnings():  # a bound from inaccurate multipliers is a bound
        warnings.simplefilter("ignore")
        cvxpy.Problem(cvxpy.Minimize(gamma), [(form + form.T) / 2 >> 0]).solve(solver=cvxpy.CLARABEL)
    return np.zeros(len(sectors)) if T.value is None else np.maximum(T.value, 0.0)


def _smallest(rest: np.ndarray, n: int) -> float:
    """√γ of the smallest γ for which γ on the first n diagonal entries makes `rest` positive semidefinite."""
    form = torch.from_numpy(rest)
    inner, failed = torch.linalg.cholesky_ex(form[n:, n:])
    if int(failed) != 0:
        return float("inf")
    solved = torch.cholesky_solve(form[n:, :n], inner)
    schur = form[:n, n:] @ solved - form[:n, :n]
    return float(torch.linalg.eigvalsh((schur + schur.mT) / 2)[-1].clamp(min=0).sqrt())
