"""Weights: the matrix W of an inner product, as it is given and as it is applied."""

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import linalg as splinalg
from torch import Tensor

from romkit.boundary import Count, checked
from romkit.errors import InputError

Weight = np.ndarray | Tensor | sparse.sparray | sparse.spmatrix | None
"""None for the identity, (n,) weights of a quadrature, or a sparse symmetric positive definite (n, n) mass matrix."""


@checked
def weigher(weight: Weight, n: Count) -> Callable[[Tensor], Tensor]:
    """u (n, k) -> W u, in float64.

    Raises:
        InputError: not of size n, not positive, not symmetric.

    Example:
        >>> import torch
        >>> from romkit.bases import weigher
        >>> weigh = weigher([1.0, 2.0, 4.0], 3)
        >>> weigh(torch.ones(3, 1)).flatten()
        tensor([1., 2., 4.])
    """
    if weight is None:
        return lambda u: u
    if sparse.issparse(weight):
        return _by_matrix(weight, n)
    values = torch.as_tensor(np.asarray(weight, dtype=np.float64))
    if values.shape != (n,):
        fix = "give one number per component, or a sparse matrix"
        raise InputError("weight", expected=f"({n},) numbers", got=f"shape {tuple(values.shape)}", fix=fix)
    if not bool((values > 0).all() & values.isfinite().all()):
        raise InputError("weight", expected="positive numbers", got=_worst(values), fix="drop components of no weight")
    return lambda u: values.to(u).unsqueeze(-1) * u


def root_of(weight: Weight, n: int) -> Callable[[Tensor], Tensor]:
    """u (n, k) -> S u with S Sᵀ = W, in float64: random vectors become ones whose covariance is W.

    Raises:
        InputError: as `weigher`.
    """
    if not sparse.issparse(weight):
        return weigher(None if weight is None else np.sqrt(np.asarray(weight, dtype=np.float64)), n)
    weigher(weight, n)  # looks at it
    symmetric = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    factors = splinalg.splu(weight.tocsc().astype(np.float64), **symmetric)  # L D Lᵀ, of rows and columns in one order
    pivots = torch.from_numpy(factors.U.diagonal()).sqrt().unsqueeze(-1)
    return lambda u: torch.from_numpy((factors.L @ (pivots.to(u) * u).numpy())[factors.perm_r]).to(u)


def _by_matrix(weight: sparse.sparray | sparse.spmatrix, n: int) -> Callable[[Tensor], Tensor]:
    matrix = weight.tocsr().astype(np.float64)
    if matrix.shape != (n, n):
        got, fix = f"shape {matrix.shape}", "give the mass matrix of these components"
        raise InputError("weight", expected=f"a sparse matrix ({n}, {n})", got=got, fix=fix)
    diagonal = torch.from_numpy(matrix.diagonal())
    if not bool((diagonal > 0).all() & diagonal.isfinite().all()):
        fix = "assemble the mass matrix again"
        raise InputError("weight", expected="a positive definite matrix", got=f"diagonal, {_worst(diagonal)}", fix=fix)
    if abs(matrix - matrix.T).max() > 1e-12 * abs(matrix).max():
        raise InputError("weight", expected="a symmetric matrix", got="another", fix="give (W + W.T) / 2")
    return lambda u: torch.from_numpy(matrix @ u.numpy(force=True)).to(u)  # also of a GPU, there and back


def _worst(values: Tensor) -> str:
    return f"a smallest of {values.nan_to_num(nan=-torch.inf).min().item():g}"
