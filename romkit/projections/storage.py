"""Projections as safetensors files: parameters as tensors, all else as JSON in the header. Nothing is unpickled."""

import difflib
import hashlib
import importlib.metadata
import importlib.resources
import json
import os
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from romkit.errors import FileError, InputError
from romkit.files import atomic, existing, reason
from romkit.projections.base import Projection
from romkit.projections.methods import METHODS
from romkit.projections.normalization import Normalization, Signature
from romkit.projections.stacking import stack

FORMAT = 2
"""Version of the header; a reader refuses every other."""

PRETRAINED = Path(str(importlib.resources.files("romkit"))) / "pretrained"


def pretrained() -> tuple[str, ...]:
    """Names of the projections that ship with romkit."""
    return tuple(sorted(file.stem for file in PRETRAINED.glob("*.safetensors")))


def save(projection: Projection, path: str | os.PathLike) -> Path:
    """Write a projection, or a stack of them, to one safetensors file: all of it, or nothing at all.

    Args:
        projection: of a method in `romkit.projections.METHODS`; its `report` is saved too.
        path: the file; an earlier one is replaced once the new one is complete.

    Returns:
        The path. `load` gives back the same projection: outputs are equal bit by bit.

    Raises:
        InputError: the method is not in METHODS, `config` does not rebuild it, or `config` or `report` is not JSON.
        FileError: the file cannot be written.
    """
    _check_method(projection)
    tensors = {name: tensor.detach().cpu() for name, tensor in projection.state_dict().items()}
    header = _header(projection, tensors)
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    try:
        _rebuild(header, contiguous)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        got = f"an error: {reason(error)}"
        fix = f"give {type(projection).__name__} every argument of its __init__ in config"
        raise InputError("projection.config", expected="arguments that rebuild it", got=got, fix=fix) from error
    header["sha256"] = _sha256(header, contiguous)
    content = safetensors.torch.save(contiguous, {"romkit": json.dumps(header)})
    with atomic(path) as temporary:
        temporary.write_bytes(content)
    return Path(path).expanduser()


def load(path: str | os.PathLike) -> Projection:
    """Read a projection from a file by `save`, or one that ships with romkit, by its name: `load("ncae-lorenz96")`.

    Returns:
        The projection on the CPU, in the precision that it was saved in, with its `report`, and with its seed axis
        if it was a stack.

    Raises:
        FileError: neither a file nor a name in `pretrained()`; not a projection, truncated or altered; or of a method
            that is not in `romkit.projections.METHODS`.
    """
    file = _find(path)
    header, tensors = _read(file)
    if header["method"] not in METHODS:
        fix = "import what adds it to romkit.projections.METHODS first"
        raise FileError(path, problem=f"holds a projection of the unknown method {header['method']!r}", fix=fix)
    try:
        return _rebuild(header, tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        problem = f"does not fit {METHODS[header['method']].__name__} as it is here ({reason(error)})"
        fix = f"load it with romkit {header['romkit']}, which saved it"
        raise FileError(path, problem=problem, fix=fix) from error


def _check_method(projection: Projection) -> None:
    if not isinstance(projection, Projection):
        got = type(projection).__name__
        raise InputError("projection", expected="a Projection", got=got, fix="call save(projection, path)")
    cls, name = type(projection), projection.name
    if METHODS.get(name) is not cls:
        fix = f"run romkit.projections.METHODS[{name!r}] = {cls.__name__}, before loading too"
        got = f"{cls.__name__}, which is not" + (" (its name belongs to another)" if name in METHODS else "")
        raise InputError("projection", expected="a method in romkit.projections.METHODS", got=got, fix=fix)


def _header(projection: Projection, tensors: dict[str, Tensor]) -> dict[str, object]:
    header = {
        "format": FORMAT,
        "romkit": importlib.metadata.version("romkit"),
        "method": projection.name,
        "config": projection.config,
        "signature": projection.normalization.signature.to_json(),
        "seeds": projection.seeds,
        "report": projection.report,
        # The layout in memory decides the order in which BLAS sums, hence the last bit of every output.
        "column_major": [name for name, tensor in tensors.items() if _is_column_major(tensor)],
    }
    for key in ("config", "report"):
        try:
            json.dumps(header[key])
        except (TypeError, ValueError) as error:
            fix = "convert tensors and arrays by .tolist()"
            raise InputError(f"projection.{key}", expected="plain values", got=reason(error), fix=fix) from error
    return json.loads(json.dumps(header))


def _is_column_major(tensor: Tensor) -> bool:
    return tensor.ndim >= 2 and not tensor.is_contiguous() and tensor.mT.is_contiguous()


def _rebuild(header: dict[str, object], tensors: dict[str, Tensor]) -> Projection:
    normalization = Normalization(Signature.from_json(header["signature"]))
    with torch.random.fork_rng(devices=[]):  # a method that draws from the global generator must not advance it here
        projection = METHODS[header["method"]](normalization, torch.Generator(), **header["config"])
    if header["seeds"] is not None:
        projection = stack([projection] * header["seeds"])
    columns = {name: tensors[name].mT.contiguous().mT for name in header["column_major"]}
    projection.load_state_dict(tensors | columns, assign=True)  # assigned, not copied: keeps dtype and layout
    projection.report = header["report"]
    return projection


def _find(path: str | os.PathLike) -> Path:
    names, plain = pretrained(), len(Path(path).parts) == 1 and not Path(path).suffix
    if not plain or Path(path).is_file():
        return existing(path)
    if str(path) in names:
        return PRETRAINED / f"{path}.safetensors"
    near = difflib.get_close_matches(str(path), names, n=1)
    ship = f"romkit ships {', '.join(names) or 'none'}"
    fix = f"did you mean {near[0]!r}? {ship}" if near else f"check the path; {ship}"
    raise FileError(path, problem="neither a file nor a pretrained projection", fix=fix)


def _read(file: Path) -> tuple[dict[str, object], dict[str, Tensor]]:
    """Header and tensors, verified."""
    try:
        with safetensors.safe_open(file, framework="pt") as stored:
            metadata = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118, not a dict
    except Exception as error:  # safetensors and torch raise many kinds on a damaged header
        problem = f"is not a complete safetensors file ({reason(error)})"
        raise FileError(file, problem=problem, fix="restore it from a copy, or save the projection again") from error
    try:
        header = json.loads(metadata["romkit"])
        digest = header.pop("sha256")
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        fix = "give a file by romkit.save, restored from a copy if this is one"
        raise FileError(file, problem="has no romkit header, or a damaged one", fix=fix) from error
    if header.get("format") != FORMAT:
        problem = f"is of format {header.get('format')!r}, this romkit reads {FORMAT}"
        raise FileError(file, problem=problem, fix="update romkit, or restore the file from a copy")
    if digest != _sha256(header, tensors):
        problem, fix = "has changed since romkit wrote it (checksum)", "restore it from a copy, or save it again"
        raise FileError(file, problem=problem, fix=fix)
    return header, tensors


def _sha256(header: dict[str, object], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(header).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
