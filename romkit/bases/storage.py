"""What a sealed file holds of a basis."""

import os

from romkit.bases.base import Basis
from romkit.errors import FileError, InputError
from romkit.files import reason
from romkit.sealed import Header, Tensors

OPTIONAL = ("singular_values", "energy")


def packed(basis: Basis) -> tuple[Header, Tensors]:
    """Header and tensors of a basis, for a sealed file; the weight itself is not kept, only W V."""
    tensors = {"mean": basis.mean, "modes": basis.modes}
    if basis.dual is not basis.modes:
        tensors["dual"] = basis.dual
    tensors |= {name: value for name in OPTIONAL if (value := getattr(basis, name)) is not None}
    return {"basis": basis.rank}, tensors


def rebuilt(tensors: Tensors) -> Basis:
    """The basis of these tensors; KeyError or InputError where they are not of one."""
    more = {name: tensors[name] for name in OPTIONAL if name in tensors}
    return Basis.with_dual(tensors["modes"], tensors.get("dual"), tensors["mean"], **more)


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
