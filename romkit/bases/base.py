"""A basis: mean and modes, the coordinates that they give, and the inner product in which the modes
are orthonormal.
"""

import copy
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy
import torch
import xarray as xr
from torch import Tensor

from romkit.bases.gaps import complete_coordinates
from romkit.core import checks, tensors
from romkit.core.boundary import Count, validated
from romkit.core.broadcast import Constants
from romkit.core.display import Display
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array, Chunked, Facts, Kwargs, Pair, Shape, TensorMap
from romkit.data import DIMS
from romkit.data.layout import component_names
from romkit.data.schema import replace_states, variable_of
from romkit.data.units import Units, check_same, state_units


@runtime_checkable
class SparseMatrix(Protocol):
    """Sparse matrix of SciPy, whose module takes a quarter of a second to import.

    Example:
        >>> from scipy import sparse
        >>> from romkit.bases.base import SparseMatrix
        >>> isinstance(sparse.eye_array(3), SparseMatrix), isinstance([1.0], SparseMatrix)
        (True, False)
    """

    @property
    def shape(self) -> Shape:
        """(n, n)."""
        ...

    def tocsr(self) -> Any:
        """Return the matrix by rows."""
        ...

    def tocsc(self) -> Any:
        """Return the matrix by columns."""
        ...


Weight: TypeAlias = Array | Tensor | SparseMatrix | None
"""None for the identity, (n,) weights of a quadrature, or a sparse symmetric positive definite (n,
n) mass matrix.
"""


@validated
def weigher(weight: Weight, n: Count) -> TensorMap:
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
    if isinstance(weight, SparseMatrix):
        matrix = scipy.sparse.csr_array(weight).astype(np.float64)
        # refuse a matrix of another size, not positive on its diagonal, or not symmetric
        if matrix.shape != (n, n):
            raise _unlike_weight(f"a sparse matrix ({n}, {n})", matrix.shape)
        _check_positive(torch.from_numpy(matrix.diagonal()), "a positive definite matrix")
        asymmetry = abs(matrix - matrix.T).max()
        if asymmetry > 1e-12 * abs(matrix).max():
            raise InputError(
                "weight", expected="a symmetric matrix", got="another", fix="give (W + W.T) / 2"
            )
        # SciPy multiplies on the CPU: columns of a GPU go there and back
        return lambda u: torch.from_numpy(matrix @ u.numpy(force=True)).to(u)
    values = np.asarray(weight, dtype=np.float64)
    if values.shape != (n,):
        raise _unlike_weight(f"({n},) numbers", values.shape)
    diagonal = torch.from_numpy(values)
    _check_positive(diagonal, "positive numbers")
    return lambda u: diagonal.to(u).unsqueeze(-1) * u


def _unlike_weight(expected: str, shape: Shape) -> InputError:
    """Return error for a weight of another shape."""
    return InputError(
        "weight",
        expected=expected,
        got=f"shape {shape}",
        fix="give one number per component, or a sparse mass matrix of them",
    )


def _check_positive(diagonal: Tensor, expected: str) -> None:
    """Raise InputError for a diagonal (n,) with numbers that are not positive."""
    if bool((diagonal > 0).all() & diagonal.isfinite().all()):
        return
    smallest = diagonal.nan_to_num(nan=-torch.inf).min().item()
    raise InputError(
        "weight",
        expected=expected,
        got=f"a smallest of {smallest:g}",
        fix="drop components of no weight",
    )


def root_of(weight: Weight, n: int) -> TensorMap:
    """u (n, k) -> S u with S Sᵀ = W, in float64: random vectors become ones whose covariance is W.

    Raises:
        InputError: as `weigher`.
    """
    if weight is None:
        return weigher(None, n)
    if not isinstance(weight, SparseMatrix):
        return weigher(np.sqrt(np.asarray(weight, dtype=np.float64)), n)
    weigher(weight, n)  # refuses what is no mass matrix
    # Without pivoting, and with rows and columns in one order, the factors are L D Lᵀ.
    factors = scipy.sparse.linalg.splu(
        scipy.sparse.csc_array(weight).astype(np.float64),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    pivots = torch.from_numpy(factors.U.diagonal()).sqrt().unsqueeze(-1)  # (n, 1)

    def root(u: Tensor) -> Tensor:
        scaled = (pivots.to(u) * u).numpy()
        return torch.from_numpy((factors.L @ scaled)[factors.perm_r]).to(u)

    return root


@validated
class Basis(Display):
    """An affine subspace of states, x = x̄ + V y with Vᵀ W V = I, and the coordinates y = Vᵀ W (x -
    x̄) in it.

    A basis is never changed, so copies of projections share it. It computes in the precision and on
    the device of what it is given.

    Args:
        modes: V (n, r), of `romkit.basis` or computed elsewhere.
        mean: x̄ (n,), zero by default.
        weight: W, the identity by default; (n,) weights of a quadrature, or a sparse mass matrix
            (n, n).
        dual: W V, in place of a weight that is not at hand.
        singular_values: (r,), where they are known: of the snapshots minus their mean.
        energy: (r,) share of the energy ‖x - x̄‖² of the snapshots that the first k modes hold.
        units: of the n components, where they are known.

    Attributes:
        dual: W V (n, r), kept in place of W, which nothing else needs.

    Raises:
        InputError: shapes that do not fit, a weight that is not positive, modes that are not
            orthonormal.

    Example:
        >>> import torch
        >>> from romkit.bases import Basis
        >>> basis = Basis(torch.eye(4, 2), mean=torch.ones(4))
        >>> basis
        Basis(2 modes of 4 components)
        >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> basis.encode(x), basis.decode(basis.encode(x))
        (tensor([0., 1.]), tensor([1., 2., 1., 1.]))
    """

    def __init__(
        self,
        modes: Array | Tensor,
        mean: Array | Tensor | None = None,
        weight: Weight = None,
        *,
        dual: Array | Tensor | None = None,
        singular_values: Array | Tensor | None = None,
        energy: Array | Tensor | None = None,
        units: Sequence[str] = (),
    ):
        modes = _float64("modes", modes)
        if modes.ndim != 2 or not modes.shape[0] >= modes.shape[1] >= 1:
            raise InputError(
                "modes",
                expected="(n, r) with n >= r >= 1",
                got=f"shape {tuple(modes.shape)}",
                fix="put modes into columns",
            )
        n, r = modes.shape
        if dual is None:
            dual = weigher(weight, n)(modes)
        else:
            dual = _float64("dual", dual, (n, r))
        if mean is None:
            mean = torch.zeros(n)
        self.mean = _float64("mean", mean, (n,))
        self.modes, self.dual = _orthonormal(modes, dual)
        self.singular_values = self.energy = None
        if singular_values is not None:
            self.singular_values = _float64("singular_values", singular_values, (r,))
        if energy is not None:
            self.energy = _float64("energy", energy, (r,))
        self.units = tuple(units)
        if len(self.units) not in (0, n):
            raise InputError(
                "units", expected=f"{n} units", got=len(self.units), fix="name one for each"
            )
        self._constants = Constants(mean=self.mean, modes=self.modes, dual=self.dual)

    @property
    def size(self) -> int:
        """n, the number of state components."""
        return self.modes.shape[0]

    @property
    def rank(self) -> int:
        """r, the number of modes."""
        return self.modes.shape[1]

    @validated
    def encode(self, x: Tensor) -> Tensor:
        """y = Vᵀ W (x - x̄): (..., n) -> (..., r)."""
        checks.last_axis(
            "x", x.shape, self.size, "the components of the states that the basis is of"
        )
        constants = self._constants.like(x)
        return (x - constants["mean"]) @ constants["dual"]

    @validated
    def decode(self, y: Tensor) -> Tensor:
        """x = x̄ + V y: (..., r) -> (..., n)."""
        checks.last_axis("y", y.shape, self.rank, "coordinates in the basis")
        constants = self._constants.like(y)
        return constants["mean"] + y @ constants["modes"].mT

    @validated
    def encode_tangent(self, v: Tensor) -> Tensor:
        """Vᵀ W v of velocities v (..., n): (..., r)."""
        checks.last_axis(
            "v", v.shape, self.size, "the components of the states that the basis is of"
        )
        return v @ self._constants.like(v)["dual"]

    @validated
    def decode_tangent(self, w: Tensor) -> Tensor:
        """V w: (..., r) -> (..., n)."""
        checks.last_axis("w", w.shape, self.rank, "coordinates in the basis")
        return w @ self._constants.like(w)["modes"].mT

    @validated
    def project(self, data: xr.Dataset) -> xr.Dataset:
        """Return a dataset of the coordinates: `state`, and the time derivatives that there are,
        with r components.

        A snapshot of which components are NaN gets the coordinates that fit the others best, given
        the spread of the complete snapshots. Variables in chunks of dask stay so, and nothing is
        read until they are computed.

        Raises:
            InputError: data on another grid.
        """
        check_size(self, data)
        coordinates = {}
        for name in ("state", "velocity", "acceleration"):
            if name in data:
                offset = self.mean.numpy() if name == "state" else 0.0
                coordinates[name] = self._projected(data[name].transpose(*DIMS), offset)
        units = [str(data["state"].attrs.get("units", "1"))] * self.rank
        names = [f"y{k}" for k in range(self.rank)]
        return replace_states(data, coordinates, names, units)

    def _projected(self, variable: xr.DataArray, offset: Array | float) -> Chunked | Array:
        """Vᵀ W (x - offset) of a variable (trajectory, time, component)."""
        if variable.chunks:
            return self.project_chunks(variable.data, offset)

        def deviations(k: int) -> Array:  # (T, n)
            # One trajectory at a time: the file may be larger than memory.
            return variable.isel(trajectory=k).values - offset

        dual = self.dual.numpy()
        runs = range(variable.sizes["trajectory"])
        coordinates = np.stack([deviations(k) @ dual for k in runs])
        unknown = 0
        if np.isnan(coordinates).any():
            unknown = complete_coordinates(self.modes, self.dual, coordinates, deviations)
        if unknown:
            text = "data: expected snapshots whose coordinates in the basis are determined, got"
            left_out = f"that lack too many components of {variable.name}; they are left out"
            fix = "give more components, or fewer modes"
            warn(f"{text} {unknown} {left_out}; {fix}", DataWarning)
        return coordinates

    def project_chunks(self, x: Chunked, offset: Array | float) -> Chunked:
        """Vᵀ W (x - offset) of states (..., n) in chunks of dask, along the components as well:
        (..., r) in float64.
        """
        import dask.array as da  # slow to import, and seldom needed

        dual = da.from_array(self.dual.numpy(), chunks=(x.chunks[-1], -1))
        return (x.astype(np.float64) - offset) @ dual

    @validated
    def truncated(self, rank: Count) -> "Basis":
        """Return the first `rank` modes."""
        if rank > self.rank:
            raise InputError(
                "rank",
                expected=f"at most the {self.rank} of the basis",
                got=str(rank),
                fix="compute a larger basis",
            )
        dual = None
        if self.dual is not self.modes:
            dual = self.dual[:, :rank]
        spectrum = {}
        for name in ("singular_values", "energy"):
            value = getattr(self, name)
            if value is not None:
                spectrum[name] = value[:rank]
        return Basis(self.modes[:, :rank], self.mean, dual=dual, units=self.units, **spectrum)

    def with_units(self, units: Sequence[str]) -> "Basis":
        """Copy the basis, with units of its components."""
        basis = copy.copy(self)
        basis.units = tuple(units)
        return basis

    def facts(self) -> Facts:
        """Return sizes, and what is left out of the energy of the snapshots."""
        left_out = "unknown"
        if self.energy is not None:
            left_out = f"{1 - self.energy[-1].item():.2e}"
        metric = "the identity" if self.dual is self.modes else "a weight"
        return {
            "modes": str(self.rank),
            "components": str(self.size),
            "metric": metric,
            "energy left out": left_out,
        }

    def curves(self) -> tuple[str, Sequence[Sequence[float]]]:
        """Return the singular values."""
        values = []
        if self.singular_values is not None:
            values = [self.singular_values.tolist()]
        return "singular values, logarithmic", values

    def __deepcopy__(self, memo: Kwargs) -> "Basis":
        return self

    def __repr__(self) -> str:
        left_out = ""
        if self.energy is not None:
            left_out = f", {1 - self.energy[-1].item():.1e} of the energy left"
        return f"Basis({self.rank} modes of {self.size} components{left_out})"


@validated
def check_size(basis: Basis, data: xr.Dataset) -> None:
    """Raise InputError unless the states of a dataset have as many components as the basis, in its
    units.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> romkit.bases.check_size(romkit.basis(data, rank=2), data)
        >>> romkit.bases.check_size(romkit.bases.Basis(torch.eye(4, 2)), data)
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: data: expected the 4 components of the basis, got 36; use data on the grid of the
        basis, or a basis of these data
    """
    # Whoever computes with the values checks them.
    variable_of(data, "state", fix="see the guide, 'Your own data'")
    if data.sizes["component"] != basis.size:
        raise InputError(
            "data",
            expected=f"the {basis.size} components of the basis",
            got=f"{data.sizes['component']}",
            fix="use data on the grid of the basis, or a basis of these data",
        )
    if basis.units:
        check_same(
            "data",
            Units(state_units(data), []),
            Units(basis.units, []),
            components=component_names(data),
            context=[],
            fix="convert the data to the units of the basis, or make a basis of them",
        )


def _orthonormal(
    modes: Tensor, dual: Tensor, *, orthonormal: float = 1e-8, rounding: float = 1e-14
) -> Pair:
    """Modes and dual with Vᵀ W V = I to rounding, from ones that nearly are.

    `orthonormal`: largest error of Vᵀ W V = I that modes computed elsewhere may have; they are
    then made orthonormal to rounding.

    `rounding`: error of Vᵀ W V = I up to which modes are left as they are.
    """
    gram = dual.mT @ modes  # (r, r)
    unit = torch.eye(modes.shape[1], dtype=modes.dtype)
    error = (gram - unit).abs().max().item()
    if not error <= orthonormal:
        raise InputError(
            "modes",
            expected="Vᵀ W V = I",
            got=f"an error of {error:.1e}",
            fix="give the weight that they are orthonormal in, or take the Q of their QR decomposition",
        )
    if error <= rounding:
        return modes, dual
    # One step of Newton and Schulz towards the inverse root squares the error.
    turn = 1.5 * unit - 0.5 * ((gram + gram.mT) / 2)
    turned = modes @ turn
    if dual is modes:
        return turned, turned
    return turned, dual @ turn


def _float64(name: str, values: Array | Tensor, shape: Shape | None = None) -> Tensor:
    """Finite numbers in float64 on the CPU, of this shape if one is given."""
    numbers = tensors.finite(name, values).detach().to("cpu", torch.float64)
    if shape is not None and numbers.shape != shape:
        raise InputError(
            name,
            expected=f"shape {shape}",
            got=f"shape {tuple(numbers.shape)}",
            fix="check the order of the axes",
        )
    return numbers
