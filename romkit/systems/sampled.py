"""Right-hand sides in a basis, from a few of their rows: for systems that are no polynomial."""

import math

import torch
from scipy import linalg
from torch import Tensor

from romkit.arrays import Constants
from romkit.bases import Basis
from romkit.boundary import behind
from romkit.errors import InputError
from romkit.systems.base import System

OVERSAMPLING = 2
"""Rows for each mode of the right-hand sides: with one, the error of sampling is twice as large; more gain little."""


REACH, ROUNDING = 10.0, 1e-12
"""Residual that counts as far away, in the largest of the training data; and the least of these, relative to f̄."""


class Sampled:
    """Vᵀ W f(x̄ + V y; c) of a system that gives rows of f, with f taken to lie in a basis of right-hand sides.

    f = f̄ + U a, with a from s rows by least squares. Nothing in `rate` depends on n: the state is decoded in the
    stencil of these rows alone, and what leads from them to ẏ is a matrix (s, r).

    Args:
        system: that gives its rows.
        basis: x̄, V and W.
        rates: f̄ and U.
        number: s, of rows.

    Attributes:
        rows: (s,), in the order in which they were chosen.
        reach: residual from which on a state is far from the training data, infinite until `calibrate` has seen these.

    Source: Chaturantabut, Sorensen (2010), Nonlinear model reduction via discrete empirical interpolation; Everson,
    Sirovich (1995) for least squares.
    """

    def __init__(self, system: System, basis: Basis, rates: Basis, number: int):
        self.rows = chosen_rows(rates.modes, number)
        stencil = _checked(system.stencil(self.rows), number, basis.size)
        self.shape, points = stencil.shape, stencil.flatten()
        mean, modes = basis.mean[points], basis.modes[points].mT.contiguous()
        fit, seen = torch.linalg.pinv(rates.modes[self.rows]), rates.modes[self.rows]
        weights = (basis.dual.mT @ rates.modes @ fit).mT.contiguous()
        constant = basis.encode_tangent(rates.mean) - rates.mean[self.rows] @ weights
        self.mean_at_rows, unseen = rates.mean[self.rows], torch.eye(number, dtype=fit.dtype) - seen @ fit
        parts = {"rows": self.rows, "mean": mean, "modes": modes, "constant": constant, "weights": weights}
        there = {"mean_at_rows": self.mean_at_rows, "modes_at_rows": basis.modes[self.rows].mT.contiguous()}
        self._constants = Constants(**parts, **there, unseen=unseen)
        self.rhs_rows, self.reach = behind(system.rhs_rows), math.inf

    def rate(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """ẏ (..., r) at coordinates y (..., r), with c (..., p) broadcastable against their leading axes."""
        own = self._constants.like(y)
        return own["constant"] + self._rows(t, y, c) @ own["weights"]

    def residual(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """(...) norm of what the modes of right-hand sides leave of the rows: how far f is from those of training."""
        own = self._constants.like(y)
        return ((self._rows(t, y, c) - own["mean_at_rows"]) @ own["unseen"]).norm(dim=-1)

    def unresolved(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """(...) share of the rows of f that V ẏ leaves."""
        own = self._constants.like(y)
        found = self._rows(t, y, c)
        left = found - (own["constant"] + found @ own["weights"]) @ own["modes_at_rows"]
        return left.norm(dim=-1) / found.norm(dim=-1)

    def distance(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """(...) the residual, 1 at `REACH` times the largest of the training data."""
        return self.residual(t, y, c) / self.reach

    def calibrate(self, times: Tensor, y: Tensor, c: Tensor) -> "Sampled":
        """Itself, after a look at the residuals of training data: times (N,), coordinates (N, r), contexts (N, p)."""
        largest = max(self.residual(*each).item() for each in zip(times, y, c, strict=True))
        self.reach = REACH * max(largest, ROUNDING * self.mean_at_rows.norm().item())
        return self

    def _rows(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        own = self._constants.like(y)
        return self.rhs_rows(t, own["rows"], (own["mean"] + y @ own["modes"]).unflatten(-1, self.shape), c)


def gives_rows(system: System) -> bool:
    """Whether a system gives rows of its right-hand side."""
    return type(system).rhs_rows is not System.rhs_rows


def chosen_rows(modes: Tensor, number: int) -> Tensor:
    """Rows (number,) of modes (n, m), number >= m, from which coordinates in the modes are read off with small errors.

    The first m are pivots of a QR decomposition; each further one raises the smallest singular value of the rows most,
    by a lower bound of what it becomes.

    Source: Drmač, Gugercin (2016), A new selection operator for the discrete empirical interpolation method;
    Peherstorfer, Drmač, Gugercin (2020), Stability of discrete empirical interpolation and gappy POD, algorithm 1.
    """
    count = modes.shape[1]
    _, pivots = linalg.qr(modes.mT.numpy(), mode="r", pivoting=True)
    rows = torch.from_numpy(pivots[:count].astype("int64"))
    lengths = modes.square().sum(-1)
    for _ in range(number - count):
        _, sigma, right = torch.linalg.svd(modes[rows], full_matrices=False)
        gap = sigma[-2] ** 2 - sigma[-1] ** 2 if count > 1 else torch.ones(())
        total = gap + lengths
        gain = total - (total**2 - 4 * gap * (modes @ right[-1]) ** 2).clamp(min=0).sqrt()
        gain[rows] = -1.0
        rows = torch.cat([rows, gain.argmax().unsqueeze(0)])
    return rows


def _checked(stencil: Tensor, number: int, size: int) -> Tensor:
    """What a system gave as the stencil of its rows, if it is one."""
    whole = isinstance(stencil, Tensor) and not stencil.is_floating_point() and stencil.shape[:-1] == (number,)
    if whole and stencil.numel() and int(stencil.min()) >= 0 and int(stencil.max()) < size:
        return stencil.long()
    got = f"{stencil.dtype} {tuple(stencil.shape)}" if isinstance(stencil, Tensor) else type(stencil).__name__
    expected, fix = f"a stencil of whole numbers ({number}, k) from 0 to {size - 1}", "see System.stencil"
    raise InputError("system", expected=expected, got=got, fix=fix)
