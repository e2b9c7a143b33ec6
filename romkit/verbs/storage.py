"""`romkit.save` and `romkit.load`: projections, laws and bases as files, as they were written or refused."""

from pathlib import Path

from romkit.bases import Basis
from romkit.bases import storage as bases
from romkit.core import files
from romkit.core.boundary import FilePath, validated
from romkit.core.errors import InputError
from romkit.integrators import LearnedField
from romkit.integrators.laws import storage as laws
from romkit.projections import Projection
from romkit.projections import storage as projections


@validated
def save(model: Projection | LearnedField | Basis, path: FilePath) -> Path:
    """Write a projection or a fitted law, or a stack of them, or a basis to one file: all of it, or nothing at all.

    Args:
        model: a projection, with its `report`; what the fit of SINDy or NeuralODE returned; or a basis.
        path: the file, in the safetensors format; an earlier one is replaced once the new one is complete.

    Returns:
        The path. `load` gives back the same: outputs are equal bit by bit.

    Raises:
        InputError: `config` does not rebuild the projection, or a law with functions of your own (`Functions`).
        FileError: the file cannot be written.

    Example:
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> path = romkit.save(ncae, "mine.safetensors")
        >>> romkit.load(path).config == ncae.config
        True
    """
    if isinstance(model, Projection):
        return files.write(path, "projection", *projections.packed(model))
    if isinstance(model, LearnedField):
        return files.write(path, "law", *laws.packed(model))
    if isinstance(model, Basis):
        return files.write(path, "basis", *bases.packed(model))
    got, fix = type(model).__name__, "call save(model, path)"
    raise InputError("model", expected="a projection, a fitted law or a basis", got=got, fix=fix)


@validated
def load(path: FilePath) -> Projection | LearnedField | Basis:
    """Read what `save` wrote, or a projection that ships with romkit, by its name: `load("ncae-lorenz96")`.

    Returns:
        The projection, the law or the basis on the CPU, in the precision that it was saved in, with its seed axis if it
        was a stack.

    Raises:
        FileError: neither a file nor a name in `pretrained()`; damaged, altered, or with content that cannot be used;
            or a projection of a class that is not imported.

    Example:
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> ncae.name, ncae.latent_dim, ncae.idempotent
        ('ncae', 2, True)
    """
    header, tensors = files.read(projections.find(path))
    if "basis" in header:
        return bases.unpacked(path, tensors)
    return (laws if "law" in header else projections).unpacked(path, header, tensors)
