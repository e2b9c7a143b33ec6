"""Stacks of seeds, and projections as tensors with a header."""

import copy
import importlib.resources
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from romkit.bases import Basis
from romkit.bases import storage as bases
from romkit.core import checks
from romkit.core.boundary import validated
from romkit.core.errors import FileError, InputError
from romkit.core.files import LEARNED, Header, existing, expanded, plain, reason
from romkit.core.types import Entries, Names, PathLike, Tensors
from romkit.projections.base import Projection
from romkit.projections.frame import Frame
from romkit.projections.methods import METHODS, method_named


@validated
def stack(models: Sequence[Projection]) -> Projection:
    """One projection that holds `models`, which share method, architecture and frame, on a leading
    seed axis.

    Buffers (scaling, fixed slopes) are shared and taken from the first. `unstack` is the inverse.

    Raises:
        InputError: stacks, or models that do not share these.

    Example:
        >>> import torch
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> both = romkit.projections.stack([ncae, ncae])
        >>> both(F=3.15).encode(torch.ones(1, 10, 36)).shape  # seeds, samples, latent coordinates
        torch.Size([2, 10, 2])
    """
    _check_alike(models)
    stacked = copy.deepcopy(models[0])
    for name, parameter in dict(stacked.named_parameters()).items():
        values = [model.get_parameter(name).detach() for model in models]
        _replace(stacked, name, torch.stack(values), parameter.requires_grad)
    stacked.seeds = len(models)
    stacked.report = {"seeds": [model.report for model in models]}
    return stacked


def _check_alike(models: Sequence[Projection]) -> None:
    """Raise unless there are single models that share method, architecture and frame."""
    stacks = [model for model in models if model.seeds is not None]
    if stacks or not models:
        raise InputError(
            "models",
            expected="single models",
            got="none, or a stack among them",
            fix="give what romkit.projections.unstack gives, one after the other",
        )
    like = models[0]
    for model in models:
        if (model.name, str(model.config)) != (like.name, str(like.config)):
            raise InputError(
                "models",
                expected="one method and architecture",
                got="several",
                fix="stack them separately",
            )
        buffers = zip(like.frame.buffers(), model.frame.buffers(), strict=False)
        same = all(x.dtype == y.dtype and torch.equal(x, y) for x, y in buffers)
        if like.frame.to_json() != model.frame.to_json() or not same:
            raise InputError(
                "models",
                expected="one frame and precision",
                got="several",
                fix="train them on the same data, or stack them separately",
            )


def check_single(projection: Projection) -> None:
    """Refuse a stack of seeds."""
    if projection.seeds is not None:
        raise InputError(
            "projection",
            expected="a single one",
            got=f"a stack of {projection.seeds} seeds",
            fix="take one of them, romkit.projections.unstack(projection)[0]",
        )


@validated
def unstack(stacked: Projection) -> list[Projection]:
    """Return the models of a stack, one by one.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> stack = romkit.fit("ncae", data, latent_dim=2, seeds=range(3), epochs=1, verbose=False)
        >>> models = romkit.projections.unstack(stack)
        >>> len(models), models[2].report["seed"]
        (3, 2)
    """
    if stacked.seeds is None:
        return [stacked]
    reports = stacked.report.get("seeds", [{}] * stacked.seeds)
    models = []
    for seed, report in enumerate(reports):
        model = copy.deepcopy(stacked)
        for name, parameter in dict(stacked.named_parameters()).items():
            _replace(model, name, parameter.detach()[seed].clone(), parameter.requires_grad)
        model.seeds = None
        model.report = dict(report)
        models.append(model)
    return models


def _replace(module: nn.Module, name: str, value: torch.Tensor, requires_grad: bool) -> None:
    """Put a parameter of this value in place of a named one."""
    owner, _, leaf = name.rpartition(".")
    replacement = nn.Parameter(value, requires_grad=requires_grad)
    setattr(module.get_submodule(owner), leaf, replacement)


BASIS = "basis."
"""Prefix of the names of the tensors of a basis."""

EXACT = "frame.exact."
"""Part of the names of the scales of a frame in float64, behind the name of the module that has the
frame.
"""

POSITIVE = ("state_scale", "coordinate_std", "context_scale")
"""Tensors of a frame that divide."""


PRETRAINED = Path(str(importlib.resources.files("romkit"))) / "pretrained"


def pretrained() -> Names:
    """Return names of the projections that ship with romkit.

    Example:
        >>> import romkit
        >>> "ncae-lorenz96" in romkit.projections.pretrained()
        True
    """
    return tuple(sorted(file.stem for file in PRETRAINED.glob("*.safetensors")))


def find(path: PathLike) -> Path:
    """Return the file at a path, or that of a projection that ships with romkit."""
    names = pretrained()
    # false, without an error, for names that no file can have
    if os.path.isfile(expanded(path) / LEARNED):
        fix = f"romkit.Learned.load({str(path)!r})"
        raise FileError(path, problem="is the folder of a learned model", fix=fix)
    is_name = len(Path(path).parts) == 1 and not Path(path).suffix
    if not is_name or os.path.isfile(path):
        return existing(path)
    if str(path) in names:
        return PRETRAINED / f"{path}.safetensors"
    advice = checks.nearest(str(path), names)
    if not advice:
        advice = "check the path;"
    raise FileError(
        path,
        problem="neither a file nor a pretrained projection",
        fix=f"{advice} romkit ships {', '.join(names)}",
    )


def packed(projection: Projection) -> tuple[Header, Tensors]:
    """Header and tensors of a projection, or of a stack of them, for a file.

    Raises:
        InputError: `config` does not rebuild it, `config` or `report` is not JSON, or numbers in
            half precision.
    """
    cls = type(projection)
    registered = method_named(projection.name)
    if registered is None or registered.__qualname__ != cls.__qualname__:
        raise InputError(
            "projection",
            expected=f"{cls.__name__} with a name of its own",
            got=f"{projection.name!r}, which is another's",
            fix=f"set {cls.__name__}.name",
        )
    tensors = _tensors(projection)
    _check_numbers(cls, tensors)
    basis_rank = None
    if projection.basis is not None:
        basis_rank = projection.basis.rank
    content = {
        "method": projection.name,
        "config": projection.config,
        "frame": projection.frame.to_json(),
        "basis_rank": basis_rank,
        "seeds": projection.seeds,
        "report": projection.report,
        "column_major": [
            name
            for name, tensor in tensors.items()
            if tensor.ndim > 1 and not tensor.is_contiguous() and tensor.mT.is_contiguous()
        ],
    }
    header = plain("projection", content)
    # now, and not when the file is opened some day
    try:
        _rebuild(cls, header, tensors)
    except Exception as error:  # of any kind: the class may be the user's
        raise InputError(
            "projection.config",
            expected="arguments that rebuild it",
            got=f"an error: {reason(error)}",
            fix=f"give {cls.__name__} every argument of its __init__ in config",
        ) from error
    return header, tensors


def _tensors(projection: Projection) -> Tensors:
    """Return tensors of a projection on the CPU, of the scales of its frames in float64, and of its
    basis.

    Raises:
        InputError: numbers in half precision, or a method that is not known by its name.
    """
    tensors = {}
    for name, tensor in projection.state_dict().items():
        tensors[name] = tensor.detach().cpu()
    for owner, module in projection.named_modules():
        if isinstance(module, Frame):
            for name, value in module.exact.items():
                tensors[f"{owner}.exact.{name}"] = value
    if projection.basis is not None:
        for name, tensor in bases.packed(projection.basis)[1].items():
            tensors[f"{BASIS}{name}"] = tensor
    return tensors


def unpacked(path: PathLike, header: Header, tensors: Tensors) -> Projection:
    """Return the projection of a file, on the CPU and in the precision that it was saved in.

    Raises:
        FileError: a method that no class has, or content that does not fit it.
    """
    method = method_named(str(header.get("method")))
    if method is None:
        raise FileError(
            path,
            problem=f"holds a projection of the unknown method {header.get('method')!r:.40}",
            fix="import the module that defines it first, romkit --import FILE.py in a shell",
        )
    try:
        _check_numbers(method, tensors)
        return _rebuild(method, header, tensors)
    except Exception as error:  # of any kind: the file may hold anything
        raise FileError(
            path,
            problem=f"does not fit {method.__name__} as it is here ({reason(error)})",
            fix=f"load it with romkit {header.get('romkit')!s:.20}, which saved it",
        ) from error


def _check_numbers(method: type[Projection], tensors: Tensors) -> None:
    """Raise unless the tensors of a method of romkit are of one precision, and divisors positive."""
    kinds = {tensor.dtype for tensor in _own(tensors).values()}
    fits = len(kinds) == 1 and kinds <= {torch.float32, torch.float64}
    if not fits and issubclass(method, tuple(METHODS.values())):
        raise InputError(
            "projection",
            expected="one in float32 or float64",
            got=f"numbers in {', '.join(map(str, kinds))}",
            fix="save projection.float()",
        )
    for name, tensor in tensors.items():
        divides = name.startswith("frame.") and name.endswith(POSITIVE)
        if divides and not bool((tensor > 0).all()):
            raise ValueError(f"one of {', '.join(POSITIVE)} is not positive")


def _check_reports(report: object, seeds: int | None, tensors: Tensors) -> None:
    """Raise unless there is a report, and where it has one for each seed, as many as these."""
    wrong = f"a report that training did not write, {report!r:.20}"
    if not isinstance(report, dict):
        raise ValueError(wrong)
    if "seeds" in report:
        reports = report["seeds"]
        if len(reports) != seeds or not all(isinstance(of_seed, dict) for of_seed in reports):
            raise ValueError(wrong)
        return
    # copies of one projection, as bootstraps have, have its report
    longest = max((len(tensor) for tensor in tensors.values() if tensor.ndim), default=0)
    if seeds is not None and not 1 <= seeds <= longest:
        raise ValueError(f"seeds is {seeds!r:.20}")


def _own(tensors: Tensors) -> Tensors:
    """Return tensors of the module itself, beside those of its basis and the scales in float64."""
    return {
        name: tensor
        for name, tensor in tensors.items()
        if not name.startswith(BASIS) and EXACT not in name
    }


def _rebuild(method: type[Projection], header: Header, tensors: Tensors) -> Projection:
    """Return the projection of a header and tensors.

    Raises:
        Exception: of any kind, where these do not fit.
    """
    seeds = header["seeds"]
    _check_reports(header["report"], seeds, tensors)
    frame = Frame(**header["frame"], basis=_rebuilt_basis(header, tensors))
    projection = _empty_projection(method, frame, header["config"])
    if seeds is not None:
        projection = stack([projection] * seeds)
    rows = {name: tensor.contiguous() for name, tensor in _own(tensors).items()}
    columns = {name: tensors[name].mT.contiguous().mT for name in header["column_major"]}
    # assigned, not copied: keeps dtype and layout
    projection.load_state_dict(rows | columns, assign=True)
    _put_exact_scales(projection, tensors)
    projection.report = header["report"]
    return projection


def _rebuilt_basis(header: Header, tensors: Tensors) -> Basis | None:
    """Return the basis in front, None without one."""
    rank = header.get("basis_rank")
    if rank is None:
        return None
    of_basis = {
        name.removeprefix(BASIS): tensor
        for name, tensor in tensors.items()
        if name.startswith(BASIS)
    }
    basis = bases.rebuilt(of_basis, header["frame"]["state_units"])
    if basis.rank != rank:
        raise ValueError(f"a basis of {basis.rank} modes")
    return basis


def _empty_projection(method: type[Projection], frame: Frame, config: Entries) -> Projection:
    """Return a projection of these sizes whose parameters are still to come."""
    # without memory for a method of romkit; one of the user's own may keep tensors beside its state
    device = "cpu"
    if issubclass(method, tuple(METHODS.values())):
        device = "meta"
    # loading must not advance the global generator
    with torch.random.fork_rng(devices=[]), torch.device(device):
        return method(frame, torch.Generator("cpu"), **config)


def _put_exact_scales(projection: Projection, tensors: Tensors) -> None:
    """Put scales in float64 into the frames of a projection, of which the rounded ones are there."""
    for key, value in tensors.items():
        owner, exact, name = key.partition(".exact.")
        if not exact:
            continue
        frame = projection.get_submodule(owner)
        rounded = getattr(frame, name, value)
        fits = value.dtype == torch.float64 and value.shape == rounded.shape
        if name == "contexts":
            fits = fits and value.shape[1:] == frame.context_shift.shape
        if not fits or not torch.allclose(value.to(rounded), rounded):
            raise ValueError(f"{key} does not fit")
        frame.exact[name] = value
