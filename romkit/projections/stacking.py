"""A stack of independent models in one: every parameter gets a leading seed axis."""

import copy
from collections.abc import Sequence

import torch
from torch import nn

from romkit.boundary import checked
from romkit.errors import InputError
from romkit.projections.base import Projection
from romkit.projections.normalization import Normalization


@checked
def stack(models: Sequence[Projection]) -> Projection:
    """One projection that holds `models`, which share method, architecture and normalization, on a leading seed axis.

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
    if not models or any(model.seeds is not None for model in models):
        fix = "give what romkit.projections.unstack gives, one after the other"
        raise InputError("models", expected="single models", got="none, or a stack among them", fix=fix)
    if len({(model.name, str(model.config)) for model in models}) != 1:
        raise InputError("models", expected="one method and architecture", got="several", fix="stack them separately")
    if not all(_same_scaling(models[0].normalization, model.normalization) for model in models):
        fix = "train them on the same data, or stack them separately"
        raise InputError("models", expected="one normalization and precision", got="several", fix=fix)
    stacked = copy.deepcopy(models[0])
    others = [dict(model.named_parameters()) for model in models]
    for name, parameter in dict(stacked.named_parameters()).items():
        _replace(stacked, name, torch.stack([other[name].detach() for other in others]), parameter.requires_grad)
    stacked.seeds = len(models)
    stacked.report = {"seeds": [model.report for model in models]}
    return stacked


@checked
def unstack(stacked: Projection) -> list[Projection]:
    """The models of a stack, one by one.

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
    models = []
    for seed in range(stacked.seeds):
        model = copy.deepcopy(stacked)
        for name, parameter in dict(stacked.named_parameters()).items():
            _replace(model, name, parameter.detach()[seed].clone(), parameter.requires_grad)
        model.seeds = None
        model.report = dict(stacked.report.get("seeds", [{}] * stacked.seeds)[seed])
        models.append(model)
    return models


def _same_scaling(a: Normalization, b: Normalization) -> bool:
    tensors = zip(a.buffers(), b.buffers(), strict=True)
    return a.signature == b.signature and all(x.dtype == y.dtype and torch.equal(x, y) for x, y in tensors)


def _replace(module: nn.Module, name: str, value: torch.Tensor, requires_grad: bool) -> None:
    owner, _, leaf = name.rpartition(".")
    setattr(module.get_submodule(owner), leaf, nn.Parameter(value, requires_grad=requires_grad))
