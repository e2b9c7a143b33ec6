"""What a sealed file holds of a projection: parameters as tensors, all else in the header."""

import difflib
import importlib.resources
import os
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from romkit.bases import storage as bases
from romkit.errors import FileError, InputError
from romkit.files import existing, reason
from romkit.projections.base import Projection
from romkit.projections.methods import METHODS, method_named
from romkit.projections.normalization import BasisNormalization, Normalization, Signature
from romkit.projections.stacking import stack
from romkit.sealed import Header, Tensors, plain

FAULTS = (AttributeError, IndexError, KeyError, MemoryError, OverflowError, RuntimeError, TypeError, ValueError)
"""What classes raise on arguments that are not theirs."""

BASIS = "basis."
"""In front of the names of the tensors of a basis."""

POSITIVE = ("state_scale", "state_std", "context_scale")
"""Tensors of a normalization that divide."""


PRETRAINED = Path(str(importlib.resources.files("romkit"))) / "pretrained"


def pretrained() -> tuple[str, ...]:
    """Names of the projections that ship with romkit.

    Example:
        >>> import romkit
        >>> "ncae-lorenz96" in romkit.projections.pretrained()
        True
    """
    return tuple(sorted(file.stem for file in PRETRAINED.glob("*.safetensors")))


def find(path: str | os.PathLike) -> Path:
    """The file at a path, or that of a projection that ships with romkit."""
    names, plain = pretrained(), len(Path(path).parts) == 1 and not Path(path).suffix
    if not plain or Path(path).is_file():
        return existing(path)
    if str(path) in names:
        return PRETRAINED / f"{path}.safetensors"
    near = difflib.get_close_matches(str(path), names, n=1)
    ship = f"romkit ships {', '.join(names) or 'none'}"
    fix = f"did you mean {near[0]!r}? {ship}" if near else f"check the path; {ship}"
    raise FileError(path, problem="neither a file nor a pretrained projection", fix=fix)


def packed(projection: Projection) -> tuple[Header, Tensors]:
    """Header and tensors of a projection, or of a stack of them, for a sealed file.

    Raises:
        InputError: `config` does not rebuild it, `config` or `report` is not JSON, or numbers in half precision.
    """
    cls, found = type(projection), method_named(projection.name)
    if found is None or found.__qualname__ != cls.__qualname__:
        got, fix = f"{projection.name!r}, which is another's", f"set {cls.__name__}.name"
        raise InputError("projection", expected=f"{cls.__name__} with a name of its own", got=got, fix=fix)
    tensors = {name: tensor.detach().cpu() for name, tensor in projection.state_dict().items()}
    if fault := _precision(cls, tensors):
        raise InputError("projection", expected="one in float32 or float64", got=fault, fix="save projection.float()")
    if projection.basis is not None:
        tensors |= {f"{BASIS}{name}": tensor for name, tensor in bases.packed(projection.basis)[1].items()}
    header = {
        "method": projection.name,
        "config": projection.config,
        "signature": projection.normalization.signature.to_json(),
        "basis_rank": None if projection.basis is None else projection.basis.rank,
        "seeds": projection.seeds,
        "report": projection.report,
        # The layout in memory decides the order in which BLAS sums, hence the last bit of every output.
        "column_major": [name for name, tensor in tensors.items() if _is_column_major(tensor)],
    }
    header = plain("projection", header)
    try:
        _rebuild(cls, header, tensors)
    except FAULTS as error:
        got = f"an error: {reason(error)}"
        fix = f"give {cls.__name__} every argument of its __init__ in config"
        raise InputError("projection.config", expected="arguments that rebuild it", got=got, fix=fix) from error
    return header, tensors


def unpacked(path: str | os.PathLike, header: Header, tensors: Tensors) -> Projection:
    """The projection of a sealed file, on the CPU and in the precision that it was saved in.

    Raises:
        FileError: a method that no class has, or content that does not fit it.
    """
    method = method_named(str(header.get("method")))
    if method is None:
        problem = f"holds a projection of the unknown method {header.get('method')!r:.40}"
        raise FileError(path, problem=problem, fix="import the module that defines it first")
    try:
        _check_sizes(method, header, tensors)
        return _rebuild(method, header, tensors)
    except FAULTS as error:
        problem = f"does not fit {method.__name__} as it is here ({reason(error)})"
        fix = f"load it with romkit {header.get('romkit')!s:.20}, which saved it"
        raise FileError(path, problem=problem, fix=fix) from error


def _is_column_major(tensor: Tensor) -> bool:
    return tensor.ndim >= 2 and not tensor.is_contiguous() and tensor.mT.is_contiguous()


def _check_sizes(method: type[Projection], header: Header, tensors: Tensors) -> None:
    """Raise unless the tensors have the shapes that the header asks for, before memory is spent on these."""
    seeds = header["seeds"]
    if seeds is not None and (type(seeds) is not int or seeds < 1):
        raise ValueError(f"seeds is {seeds!r:.20}")
    if issubclass(method, tuple(METHODS.values())):  # one of the user's own need not know tensors without numbers
        normalization = _normalization(header, tensors)
        with torch.device("meta"):
            empty = method(normalization, torch.Generator(), **header["config"])
        lead = () if seeds is None else (seeds,)
        wanted = {name: buffer.shape for name, buffer in empty.named_buffers()}
        wanted |= {name: (*lead, *parameter.shape) for name, parameter in empty.named_parameters()}
        for name, shape in wanted.items():
            if tensors[name].shape != shape:
                raise ValueError(f"size mismatch for {name}: {tuple(tensors[name].shape)}, not {tuple(shape)}")
    elif seeds is not None and seeds > max(map(len, tensors.values())):
        raise ValueError(f"{seeds} seeds, and no tensor with as many")
    _check_report(header["report"], seeds)
    if fault := _precision(method, {name: t for name, t in tensors.items() if not name.startswith(BASIS)}):
        raise ValueError(fault)
    for name, tensor in tensors.items():
        if name.startswith("normalization.") and name.endswith(POSITIVE) and not bool((tensor > 0).all()):
            raise ValueError(f"{name} is not positive")


def _precision(method: type[Projection], tensors: Tensors) -> str:
    """What is wrong with the precision of the tensors of a method of romkit, in words; nothing where all is well."""
    kinds = {tensor.dtype for tensor in tensors.values()}
    fits = len(kinds) == 1 and kinds <= {torch.float32, torch.float64}
    return "" if fits or not issubclass(method, tuple(METHODS.values())) else f"numbers in {', '.join(map(str, kinds))}"


def _normalization(header: Header, tensors: Tensors) -> Normalization:
    """That of a header, of no numbers yet but those of the basis."""
    signature, rank = Signature.from_json(header["signature"]), header.get("basis_rank")
    if rank is None:
        return Normalization(signature)
    basis = bases.rebuilt({name.removeprefix(BASIS): t for name, t in tensors.items() if name.startswith(BASIS)})
    if (basis.size, basis.rank) != (len(signature.state_names), rank):
        raise ValueError(f"a basis of {basis.rank} modes of {basis.size} components")
    names, units = tuple(f"y{k}" for k in range(rank)), ("",) * rank
    return BasisNormalization(signature, basis, Normalization(replace(signature, state_names=names, state_units=units)))


def _check_report(report: object, seeds: int | None) -> None:
    """Raise unless this is what training records: a dict, and for a stack one for each seed."""
    each = [report] if seeds is None else report["seeds"] if isinstance(report, dict) and "seeds" in report else []
    fits = all(isinstance(one, dict) for one in [report, *each]) and len(each) in (0, seeds or 1)
    if not fits or (seeds is None and "seeds" in report):
        raise ValueError("a report that training did not write")


def _rebuild(method: type[Projection], header: Header, tensors: Tensors) -> Projection:
    normalization = _normalization(header, tensors)
    with torch.random.fork_rng(devices=[]):  # a method that draws from the global generator must not advance it here
        projection = method(normalization, torch.Generator(), **header["config"])
    if header["seeds"] is not None:
        projection = stack([projection] * header["seeds"])
    rows = {name: tensor.contiguous() for name, tensor in tensors.items() if not name.startswith(BASIS)}
    columns = {name: tensors[name].mT.contiguous().mT for name in header["column_major"]}
    projection.load_state_dict(rows | columns, assign=True)  # assigned, not copied: keeps dtype and layout
    projection.report = header["report"]
    return projection
