"""Storage of a basis: header and tensors of its file."""

import os

import torch
from torch import Tensor

from romkit.bases.base import Basis, Weight, weigher
from romkit.core.errors import FileError, InputError
from romkit.core.files import Header, Tensors, reason

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
    tensors |= {name: value for name in OPTIONAL if (value := getattr(basis, name)) is not None}
    return {"basis": basis.rank}, tensors


def compact(basis: Basis, weight: Weight, precision: torch.dtype) -> Tensors:
    """Tensors of nearly the same basis, with numbers of fewer bits; what is `rebuilt` is
    orthonormal in float64.

    Modes V are rounded and then made orthonormal by a small matrix R in float64, so Vᵀ W V = I
    holds for V R to the rounding of float64; W V is rounded too, and its matrix chosen so that
    encoding after decoding is the identity.

    Args:
        basis: with W V, if its weight is not the identity.
        weight: W.
        precision: of the file, torch.float32 or torch.float16.
    """
    rough, weigh = basis.modes.to(precision), weigher(weight, basis.size)
    gram = rough.double().mT @ weigh(rough.double())
    turn = torch.linalg.inv(torch.linalg.cholesky(gram)).mT
    tensors = packed(basis)[1] | {"mean": basis.mean.float(), "modes": rough, f"modes{TURN}": turn}
    if "dual" in tensors:
        modes = rough.double() @ turn
        dual = weigh(modes).to(precision)
        tensors |= {"dual": dual, f"dual{TURN}": torch.linalg.inv(modes.mT @ dual.double())}
    return tensors


def rebuilt(tensors: Tensors) -> Basis:
    """The basis of these tensors; KeyError, InputError or RuntimeError where they are not of one."""
    more = {name: tensors[name] for name in OPTIONAL if name in tensors}
    dual = _turned(tensors, "dual") if "dual" in tensors else None
    return Basis.with_dual(_turned(tensors, "modes"), dual, tensors["mean"], **more)


def _turned(tensors: Tensors, name: str) -> Tensor:
    """Modes or dual as stored, times the matrix that makes rounded ones orthonormal."""
    turn = tensors.get(f"{name}{TURN}")
    return tensors[name] if turn is None else tensors[name].double() @ turn


def unpacked(path: str | os.PathLike, tensors: Tensors) -> Basis:
    """The basis of a sealed file.

    Raises:
        FileError: content that does not fit.
    """
    try:
        return rebuilt(tensors)
    except (KeyError, InputError, RuntimeError) as error:
        problem = f"does not hold a basis ({reason(error)})"
        raise FileError(path, problem=problem, fix="restore it from a copy") from error
