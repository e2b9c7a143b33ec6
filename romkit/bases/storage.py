"""Storage of a basis: header and tensors of its file."""

from collections.abc import Sequence

import torch
from torch import Tensor

from romkit.bases.base import Basis, Weight, weigher
from romkit.core.errors import FileError, InputError
from romkit.core.files import Header, reason
from romkit.core.types import Entries, PathLike, Tensors

OPTIONAL = ("singular_values", "energy")

TURN = "_turn"
"""Suffix of the name of the float64 matrix (r, r) that multiplies modes (n, r) stored in half
precision.
"""


def packed(basis: Basis) -> tuple[Header, Tensors]:
    """Header and tensors of a basis, for a sealed file; the weight itself is not kept, only W V."""
    tensors = {"mean": basis.mean, "modes": basis.modes}
    if basis.dual is not basis.modes:
        tensors["dual"] = basis.dual
    for name in OPTIONAL:
        value = getattr(basis, name)
        if value is not None:
            tensors[name] = value
    header: Entries = {"basis": basis.rank}
    if basis.units:
        header["units"] = list(basis.units)
        if len({*basis.units}) == 1:
            header["units"] = basis.units[0]  # one for all of a million components
    return header, tensors


def compact(basis: Basis, weight: Weight, precision: torch.dtype) -> Tensors:
    """Return tensors of nearly the same basis, with numbers of fewer bits; what is `rebuilt` is
    orthonormal in float64.

    Modes V are rounded and then made orthonormal by a small matrix R in float64, so Vᵀ W V = I
    holds for V R to the rounding of float64; W V is rounded too, and its matrix chosen so that
    encoding after decoding is the identity.

    Args:
        basis: with W V, if its weight is not the identity.
        weight: W.
        precision: of the file, torch.float32 or torch.float16.
    """
    rounded = basis.modes.to(precision)
    weigh = weigher(weight, basis.size)
    gram = rounded.double().mT @ weigh(rounded.double())  # (r, r)
    # With the Gram matrix L Lᵀ, the columns of V L⁻ᵀ are orthonormal.
    turn = torch.linalg.inv(torch.linalg.cholesky(gram)).mT
    _, tensors = packed(basis)
    tensors |= {"mean": basis.mean.float(), "modes": rounded, f"modes{TURN}": turn}
    if "dual" in tensors:
        modes = rounded.double() @ turn
        dual = weigh(modes).to(precision)
        tensors["dual"] = dual
        tensors[f"dual{TURN}"] = torch.linalg.inv(modes.mT @ dual.double())
    return tensors


def rebuilt(tensors: Tensors, units: str | Sequence[str] = ()) -> Basis:
    """Return the basis of these tensors and units, one for all or for each; KeyError, InputError or
    RuntimeError where they are not of one.
    """
    if isinstance(units, str):
        units = [units] * len(tensors["mean"])
    spectrum = {name: tensors[name] for name in OPTIONAL if name in tensors}
    modes = _turned(tensors, "modes")
    dual = None
    if "dual" in tensors:
        dual = _turned(tensors, "dual")
    return Basis(modes, tensors["mean"], dual=dual, units=units, **spectrum)


def _turned(tensors: Tensors, name: str) -> Tensor:
    """Modes or dual as stored, times the matrix that makes rounded ones orthonormal."""
    turn = tensors.get(f"{name}{TURN}")
    if turn is None:
        return tensors[name]
    return tensors[name].double() @ turn


def unpacked(path: PathLike, header: Header, tensors: Tensors) -> Basis:
    """Return the basis of a sealed file.

    Raises:
        FileError: content that does not fit.
    """
    try:
        units = header.get("units", ())
        if not isinstance(units, str | list | tuple):
            raise TypeError("units are no names")
        return rebuilt(tensors, units)
    except (KeyError, InputError, RuntimeError, TypeError) as error:
        raise FileError(
            path, problem=f"does not hold a basis ({reason(error)})", fix="restore it from a copy"
        ) from error
