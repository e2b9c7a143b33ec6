"""Recording a field: the ATen calls that one evaluation makes, with everything constant already computed.

The field runs once on meta tensors, which have a shape and no values. So what depends on the state is recorded, a field
that branches on values or leaves torch raises here and never runs with the wrong branch, and calls on constants alone
(the parameters of a projection at its context, for example) are done once and for all.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from romkit.core.types import Field
from romkit.engine.compiled.composites import COMPOSITES


class Unsupported(Exception):
    """The field cannot be compiled; the message says why."""


class Call(NamedTuple):
    """One recorded call: arguments as given, meta tensors standing for what depends on t or y."""

    op: Callable
    args: tuple
    kwargs: dict
    outputs: list[Tensor]


class Recording(NamedTuple):
    """The calls in order, the meta tensors of t and y, and the result (meta, or a constant)."""

    calls: list[Call]
    t: Tensor
    y: Tensor
    result: Tensor

    def replay(self, t: Tensor, y: Tensor) -> Tensor:
        """The field at t and y, with all constants in their precision."""
        values = {id(self.t): t, id(self.y): y}
        last = {id(leaf): k for k, call in enumerate(self.calls) for leaf in tree_leaves(call[1:3]) if is_symbol(leaf)}

        def given(leaf: object) -> object:
            if is_symbol(leaf):
                return values[id(leaf)]
            if isinstance(leaf, Tensor) and leaf.is_floating_point():
                return leaf.to(y.dtype)
            return y.dtype if leaf == self.y.dtype else _on_cpu(leaf)

        for k, call in enumerate(self.calls):
            op = torch.reshape if call.op.overloadpacket in _RESHAPES else call.op
            outputs = tree_flatten(op(*tree_map(given, call.args), **tree_map(given, call.kwargs)))[0]
            values |= zip(map(id, call.outputs), outputs, strict=True)
            for leaf in filter(is_symbol, tree_leaves(call[1:3])):
                if last[id(leaf)] == k and leaf is not self.result:
                    values.pop(id(leaf), None)
        return given(self.result).expand_as(y)


def record(field: Field, y: Tensor) -> Recording:
    """The calls of field(t, y) at the shape and dtype of y.

    Raises:
        Unsupported: y is not on the CPU, or the field needs values, random numbers or gradients, or works in place.
    """
    if y.device.type != "cpu" or y.dtype not in (torch.float64, torch.float32):
        raise Unsupported(f"the state is {y.dtype} on {y.device.type}; compiled are float32 and float64 on the CPU")
    if y.numel() == 0:
        raise Unsupported("the state is empty")
    t, symbol = torch.empty((), dtype=y.dtype, device="meta"), torch.empty_like(y, device="meta")
    if torch.is_grad_enabled() and y.requires_grad:
        raise Unsupported("gradients flow through the initial state")
    recorder = _Recorder(differentiable=torch.is_grad_enabled())
    try:
        with torch.no_grad(), recorder:
            result = field(t, symbol)
    except Unsupported:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise Unsupported(f"it cannot be recorded ({type(error).__name__}: {reason})") from error
    return Recording(recorder.calls, t, symbol, result)


class _Recorder(TorchDispatchMode):
    def __init__(self, *, differentiable: bool):
        super().__init__()
        self.calls: list[Call] = []
        self._differentiable = differentiable

    def __torch_dispatch__(self, op: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        kwargs = kwargs or {}
        with self:  # in inference mode composite operations such as mT arrive whole
            parts = op.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        if torch.Tag.nondeterministic_seeded in op.tags:
            raise Unsupported(f"it draws random numbers ({op})")
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if self._differentiable and any(tensor.requires_grad for tensor in tensors):
            raise Unsupported("gradients flow through its parameters (torch.no_grad() switches them off)")
        if not any(map(is_symbol, tensors)) or op.overloadpacket in _SHAPE_ONLY:
            return op(*tree_map(_on_cpu, args), **tree_map(_on_cpu, kwargs))
        if op._schema.is_mutable:
            raise Unsupported(f"it changes a tensor in place ({op})")
        if op.overloadpacket.__name__ in COMPOSITES:
            with self:
                return COMPOSITES[op.overloadpacket.__name__](*args, **kwargs)
        outputs = op(*tree_map(_on_meta, args), **tree_map(_on_meta, kwargs))
        self.calls.append(Call(op, args, kwargs, tree_flatten(outputs)[0]))
        return outputs


_aten = torch.ops.aten
_RESHAPES = {_aten.view, _aten._unsafe_view}  # outside of a recording, strides may differ
_SHAPE_ONLY = {
    _aten.zeros_like, _aten.ones_like, _aten.full_like, _aten.empty_like,
    _aten.new_zeros, _aten.new_ones, _aten.new_full, _aten.new_empty,
}  # fmt: skip


def is_symbol(leaf: object) -> bool:
    """Whether a leaf of a call's arguments is a tensor that depends on t or y."""
    return isinstance(leaf, Tensor) and leaf.device.type == "meta"


def _on_cpu(leaf: object) -> object:
    """Constants are made on the CPU even where the field asks for the device of its (meta) state."""
    if is_symbol(leaf):
        return torch.empty_like(leaf, device="cpu")
    return torch.device("cpu") if isinstance(leaf, torch.device) and leaf.type == "meta" else leaf


def _on_meta(leaf: object) -> object:
    """What depends on the state has no values, even where the field names a device for it."""
    if isinstance(leaf, torch.device):
        return torch.device("meta")
    return leaf.to("meta") if isinstance(leaf, Tensor) else leaf
