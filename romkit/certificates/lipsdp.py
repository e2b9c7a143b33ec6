"""The semidefinite bound of the norm of a derivative."""

import numpy as np
import torch
from torch import Tensor

from romkit.certificates.trace import Block, Links

MARGIN = 1e-6
"""By this share a bound is enlarged: many times the rounding errors of computing it from the multipliers."""

GAP = 1e-4
"""To this share of its square the bound is the best of its kind."""

LARGEST = 100
"""Programs with more unknowns take minutes, since their cost grows with the fourth power."""

NEWTON, TOLERANCE = 100, 0.3
"""No more steps than this for each weight of the barrier, and none after one that was so short, in Newton's measure."""


def lipsdp(links: Links, scale: float) -> float:
    """A bound of the norm of a derivative whose units have gains within their ranges.

    A unit is u = g v + h q with v and q linear in what is before it, and with gains g = ḡ ± δg and h = h̄ ± δh. So
    (u - ḡ v - h̄ q)² ≤ w² (δg v)² + w'² (δh q)² with 1/w² + 1/w'² = 1, and the bound is the smallest √γ with

        γ ‖u₀‖² - ‖C u‖² - Σᵢ Tᵢ [w² (δg v)² + w'² (δh q)² - (uᵢ - ḡ v - h̄ q)²] ≥ 0   for all u, Tᵢ ≥ 0.

    Without q the bracket is (u - a v)(b v - u) of a slope in [a, b]. `_multipliers` finds T; γ is then computed from T,
    so that its tolerance does not enter. Infinite where that fails, or with more than `LARGEST` unknowns.

    Args:
        links: from the input to the output.
        scale: a guess of the bound, by which numbers are scaled.

    Source: Fazlyab et al. (2019), Efficient and accurate estimation of Lipschitz constants for deep neural networks,
    with an interval for each unit.
    """
    turn = _directions(links)
    first = turn.shape[1]
    sizes = [len(block.sizes[0]) for block in links.blocks]
    total = first + sum(sizes)
    if total > LARGEST:
        return float("inf")
    starts = first + np.cumsum([0, *sizes])
    forms = np.concatenate([_forms(b, turn, at, total) for b, at in zip(links.blocks, starts, strict=False)])
    # In units of their own sizes, all unknowns are about one.
    own = torch.cat([torch.ones(first), *(_own(block) for block in links.blocks)]).numpy()
    forms = forms * own * own[:, None] / own[first:, None, None] ** 2
    out = _turned(links.last.numpy(), turn, total) * own / scale
    depth = np.repeat(np.arange(len(sizes), 0, -1.0), sizes)
    return (1 + MARGIN) * scale * _best(first, out.T @ out, forms, depth) ** 0.5


def _own(block: Block) -> Tensor:
    """How large the units get where the input is one."""
    return sum(gain.largest * size for gain, size in zip(block.gains, block.sizes, strict=True))


def _directions(links: Links) -> np.ndarray:
    """Orthonormal directions (size, r) of the input that anything depends on; the others change nothing."""
    rows = [matrix[:, : links.size] for block in links.blocks for matrix in block.matrices]
    _, values, directions = torch.linalg.svd(torch.cat([*rows, links.last[:, : links.size]]), full_matrices=False)
    return directions[values > 1e-14 * values[0]].mT.numpy()


def _turned(rows: np.ndarray, turn: np.ndarray, total: int) -> np.ndarray:
    """Rows over the directions of the input and the units before, with zeros for those that follow."""
    rows = np.concatenate([rows[:, : len(turn)] @ turn, rows[:, len(turn) :]], axis=1)
    return np.pad(rows, ((0, 0), (0, total - rows.shape[1])))


def _forms(block: Block, turn: np.ndarray, at: int, total: int) -> np.ndarray:
    """(units, N, N) matrices of the brackets of a block whose units begin at this column."""
    spreads = [gain.radius * size for gain, size in zip(block.gains, block.sizes, strict=True)]
    off, forms = np.eye(total)[at : at + len(spreads[0])], 0.0
    for matrix, gain, spread in zip(block.matrices, block.gains, spreads, strict=True):
        rows = _turned(matrix.numpy(), turn, total)
        off = off - gain.middle.numpy()[:, None] * rows
        weight = torch.where(spread > 0, sum(spreads) / spread, 1.0).sqrt()
        far = (weight * gain.radius).numpy()[:, None] * rows
        forms = forms + far[:, :, None] * far[:, None, :]
    return forms - off[:, :, None] * off[:, None, :]


def _best(n: int, out: np.ndarray, forms: np.ndarray, depth: np.ndarray) -> float:
    """The smallest γ for which γ I₀ - out - Σ Tᵢ formsᵢ is positive semidefinite, with I₀ for the first n unknowns.

    Newton's method with a logarithmic barrier (Boyd & Vandenberghe 2004, chapter 11), from multipliers that grow with
    the number of blocks that follow, by a factor large enough to make all of the matrix but its first n rows definite.
    """
    T, factor = np.ones(len(forms)), 1.0
    while not np.isfinite(best := _smallest(-out - np.tensordot(T, forms, 1), n)):
        factor *= 1.5
        T = factor**depth
        if not np.isfinite(T).all():
            return best
    first = np.diag((np.arange(len(out)) < n).astype(float))
    matrices, y = np.concatenate([first[None], -forms]), np.array([2 * best + GAP, *T])
    number = len(out) + len(T)
    weight = number / y[0]
    while number / weight > GAP * best:
        weight *= 10
        y = _center(y, weight, out, matrices)
        best = min(best, _smallest(-out - np.tensordot(y[1:], forms, 1), n))
    return best


def _center(y: np.ndarray, weight: float, out: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Damped Newton steps to the least of weight · y₀ - log det(Σ yₖ matricesₖ - out) - Σ log yₖ (k > 0)."""
    for _ in range(NEWTON):
        inverse = np.linalg.inv(np.tensordot(y, matrices, 1) - out)
        turned = inverse @ matrices
        gradient = -np.einsum("kii->k", turned)
        hessian = turned.reshape(len(y), -1) @ turned.swapaxes(1, 2).reshape(len(y), -1).T
        gradient[0] += weight
        gradient[1:] -= 1 / y[1:]
        hessian[1:, 1:] += np.diag(1 / y[1:] ** 2)
        step = np.linalg.solve(hessian, -gradient)
        size = max(-gradient @ step, 0.0) ** 0.5
        y = y + step / (1 + size)  # so damped, a step stays where the logarithms are
        if size < TOLERANCE:
            break
    return y


def _smallest(rest: np.ndarray, n: int) -> float:
    """The smallest γ with which γ on the first n diagonal entries makes `rest` positive semidefinite."""
    form = torch.from_numpy(rest)
    inner, failed = torch.linalg.cholesky_ex(form[n:, n:])
    if int(failed) != 0:
        return float("inf")
    solved = torch.cholesky_solve(form[n:, :n], inner)
    schur = form[:n, n:] @ solved - form[:n, :n]
    return float(torch.linalg.eigvalsh((schur + schur.mT) / 2)[-1].clamp(min=0))
