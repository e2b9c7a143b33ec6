"""Tracing of functions of tensors: the ATen calls of one evaluation, with everything constant
already computed.

A function runs once on meta tensors, which have a shape and no values. So calls that depend on its
inputs are recorded, a function that branches on values or leaves torch raises here and is never
recorded with the wrong branch, and calls on constants alone (the parameters of a projection at its
context, for example) are done once and for all. Constants stay
references: no values are copied.

Readers of a trace are the emitter of compiled fields, the certificates, and torch itself
(`Trace.module`). Tracing by torch's make_fx takes seven times as long, which short runs would
notice.
"""

import functools
import operator
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.types import Args, Field, Kwargs, Operation, TensorFunction, Tensors, TensorTuple
from romkit.engine._torch import DispatchMode, tree_flatten, tree_leaves, tree_map
from romkit.engine.build import Unsupported
from romkit.engine.decompositions import decompositions


class Call(NamedTuple):
    """One recorded call: arguments as given, meta tensors standing for values that depend on the
    inputs.
    """

    op: Operation
    args: Args
    kwargs: Kwargs
    outputs: list[Tensor]

    @property
    def name(self) -> str:
        """Name of the ATen operation, without its overload."""
        return self.op.overloadpacket.__name__

    @property
    def symbols(self) -> list[Tensor]:
        """Arguments that depend on the inputs."""
        return [leaf for leaf in tree_leaves((self.args, self.kwargs)) if is_symbol(leaf)]


class Trace(NamedTuple):
    """The calls in order, the meta tensors of the inputs, and the result or a tuple of them (meta,
    or constants).
    """

    calls: list[Call]
    inputs: TensorTuple
    result: Tensor | TensorTuple

    def module(self, dtype: torch.dtype | None = None) -> Callable[..., Tensor | TensorTuple]:
        """Rebuild a callable from the trace; `dtype` is a precision other than that of
        the inputs.
        """
        graph = _Graph(self.inputs, dtype)
        for call in self.calls:
            graph.add(call)
        return graph.module(self.result)

    def replaced(self, change: Callable[[object], object]) -> "Trace":
        """Return the trace with other leaves in its arguments and its result."""
        calls = []
        for call in self.calls:
            args, kwargs = tree_map(change, (call.args, call.kwargs))
            calls.append(Call(call.op, args, kwargs, call.outputs))
        return Trace(calls, self.inputs, tree_map(change, self.result))

    def place_constants(self) -> "Trace":
        """Return the calls with all constants on the CPU, where they are read as indices and
        packed.
        """
        copies: dict[int, Tensor] = {}

        def moved(leaf: object) -> object:
            constant = isinstance(leaf, Tensor) and not is_symbol(leaf)
            return copies.setdefault(id(leaf), leaf.cpu()) if constant else leaf

        return self.replaced(moved)

    def parted(self, *late: Tensor) -> tuple[list[Call], list[Call]]:
        """Return calls that depend on none of these inputs, and those that do."""
        early, dependent = [], []
        moving = {id(symbol) for symbol in late}
        for call in self.calls:
            if moving.isdisjoint(map(id, call.symbols)):
                early.append(call)
            else:
                dependent.append(call)
                moving.update(map(id, call.outputs))
        return early, dependent


class _Graph:
    """A trace as a graph of torch.fx in the making.

    Args:
        inputs: of the trace.
        dtype: precision other than that of the inputs, if any.
    """

    def __init__(self, inputs: Sequence[Tensor], dtype: torch.dtype | None):
        self._graph = torch.fx.Graph()
        self._constants: Tensors = {}
        self._traced_dtype, self._dtype = inputs[0].dtype, dtype
        self._nodes = {}
        for k, symbol in enumerate(inputs):
            self._nodes[id(symbol)] = self._graph.placeholder(f"input{k}")

    def add(self, call: Call) -> None:
        """Append a call."""
        op = call.op
        if call.name in ("view", "_unsafe_view"):  # strides may differ then
            op = torch.reshape
        args, kwargs = tree_map(self._argument, (call.args, call.kwargs))
        node = self._graph.call_function(op, args, kwargs)
        returned = [type(value.type) for value in call.op._schema.returns]
        if returned == [torch.TensorType]:
            self._nodes[id(call.outputs[0])] = node
            return
        # torch returns several results as a tuple
        for k, output in enumerate(call.outputs):
            self._nodes[id(output)] = self._graph.call_function(operator.getitem, (node, k))

    def module(self, result: Tensor | TensorTuple) -> torch.fx.GraphModule:
        """Return the graph as a function that gives this result of the trace."""
        self._graph.output(tree_map(self._argument, result))
        return torch.fx.GraphModule(self._constants, self._graph)

    def _argument(self, leaf: object) -> object:
        """Return a leaf of the arguments of a call as the graph has it."""
        if is_symbol(leaf):
            return self._nodes[id(leaf)]
        if isinstance(leaf, Tensor):
            return self._constant(leaf)
        if self._dtype is not None and leaf == self._traced_dtype:
            return self._dtype
        return leaf

    def _constant(self, tensor: Tensor) -> torch.fx.Node:
        if self._dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(self._dtype)
        name = f"constant{len(self._constants)}"
        self._constants[name] = tensor
        return self._graph.get_attr(name)


def trace(
    function: Callable[..., Tensor | TensorTuple],
    *examples: Tensor,
    keep: Collection[str] = (),
) -> Trace:
    """Return the calls of function(*examples), at the shapes, dtypes and device of these tensors.

    Args:
        function: of tensors.
        *examples: its arguments.
        keep: names of operations that are recorded as they are, not as several simpler ones.

    Raises:
        Unsupported: the function needs values, random numbers or gradients, or changes a constant
            in place.
    """
    if torch.is_grad_enabled() and any(example.requires_grad for example in examples):
        raise Unsupported("gradients flow through its inputs")
    # without values, no decision of the function can depend on them
    symbols = tuple(torch.empty_like(example, device="meta") for example in examples)

    def run(function: TensorFunction) -> Trace:
        recorder = _Recorder(examples[0].device, keep, differentiable=torch.is_grad_enabled())
        with torch.no_grad(), recorder:
            result = function(*symbols)
        return Trace(needed(recorder.calls, result), symbols, result)

    try:
        try:
            return run(function)
        except _InPlace:
            return run(torch.func.functionalize(function))
    except Unsupported:
        raise
    except Exception as error:  # of any kind: the function is the user's
        lines = str(error).splitlines()
        reason = lines[0] if lines else ""
        if isinstance(error, InputError):
            # of code in NumPy, which is as right, and meets a tensor without numbers here
            raise Unsupported("it computes outside of torch, so that it runs as it is") from error
        words = "it calls more than torch's operations, so that it runs as it is"
        raise Unsupported(f"{words} ({type(error).__name__}: {reason})") from error


def needed(calls: Sequence[Call], result: Tensor | TensorTuple) -> list[Call]:
    """Return the calls that the result depends on."""
    # a call whose results nobody reads may be one without a compiled form
    wanted = {id(leaf) for leaf in tree_leaves(result)}
    backwards = []
    for call in reversed(calls):
        if not wanted.isdisjoint(map(id, call.outputs)):
            backwards.append(call)
            wanted.update(map(id, call.symbols))
    return backwards[::-1]


def trace_field(field: Field, y: Tensor) -> Trace:
    """Return the calls of field(t, y) at the shape and dtype of y (..., d), for the compiled
    engine.

    Raises:
        Unsupported: y is neither on a CPU nor on a GPU of CUDA, or as `trace`.
    """
    # refuse unless states like y can be compiled
    kind = y.device.type
    if kind not in ("cpu", "cuda") or y.dtype not in (torch.float64, torch.float32):
        compiled = "compiled are float32, float64 on cpu and cuda"
        raise Unsupported(f"the state is {y.dtype} on {kind}; {compiled}")
    if y.numel() == 0:
        raise Unsupported("the state is empty")
    t = y.new_empty(())
    if not isinstance(field, Parametrised):
        return trace(field, t, y)
    if y.is_cuda:
        raise Unsupported("parameters that change are compiled on a CPU alone")
    return field.recorded(t, y)


class Parametrised:
    """A field f(t, y) that depends on parameters of its members, recorded once for all their
    values.

    Calls that depend on the parameters alone leave the trace; `bind` makes them again, and their
    results are constants of the trace, whose memory stays.

    Args:
        family: field at parameters (N, p).
        values: (N, p) of the first parameters.
    """

    def __init__(self, family: Callable[[Tensor], Field], values: Tensor):
        self._family, self._early, self._constants = family, None, ()
        self.bind(values)

    def bind(self, values: Tensor) -> None:
        """Give the parameters other values (N, p)."""
        self._values, self._field = values, None
        if self._early is not None:
            # in place, since kernels read the same memory in every run
            for constant, value in zip(self._constants, self._early(values), strict=True):
                constant.copy_(value)

    def __call__(self, t: Tensor, y: Tensor) -> Tensor:
        if self._field is None:
            self._field = self._family(self._values)
        return self._field(t, y)

    def recorded(self, t: Tensor, y: Tensor) -> Trace:
        """Return calls that depend on t or y."""
        family = self._family
        recorded = trace(lambda t, y, values: family(values)(t, y), t, y, self._values)
        t, y, values = recorded.inputs
        early, late = recorded.parted(t, y)
        used = {id(leaf) for leaf in tree_leaves(recorded.result)}
        for call in late:
            used.update(map(id, call.symbols))
        # what later calls read of the parameters, and of what was computed of them alone
        between = {}
        for leaf in (values, *(output for call in early for output in call.outputs)):
            if id(leaf) in used:
                between[id(leaf)] = leaf
        self._early = Trace(early, (values,), tuple(between.values())).module()
        self._constants = []
        for value in self._early(self._values):
            self._constants.append(value.clone(memory_format=torch.contiguous_format))
        constants = dict(zip(between, self._constants, strict=True))
        dependent = Trace(late, (t, y), recorded.result)
        return dependent.replaced(lambda leaf: constants.get(id(leaf), leaf))


def is_symbol(leaf: object) -> bool:
    """Tell whether a leaf of a call's arguments is a tensor that depends on the inputs."""
    return isinstance(leaf, Tensor) and leaf.device.type == "meta"


class _InPlace(Unsupported):
    """Verdict on a function that works in place, which `torch.func.functionalize` may rewrite."""


class _Recorder(DispatchMode):
    """Mode of torch that records calls on meta tensors, and makes those on constants."""

    def __init__(self, device: torch.device, keep: Collection[str], *, differentiable: bool):
        super().__init__()
        self.calls: list[Call] = []
        self._device, self._keep, self._differentiable = device, keep, differentiable

    def __torch_dispatch__(
        self,
        op: Operation,
        types: object,
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        kwargs = kwargs or {}
        with self:  # in inference mode composite operations such as mT arrive whole
            decomposed = op.decompose(*args, **kwargs)
        if decomposed is not NotImplemented:
            return decomposed
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        self._check(op, tensors)
        name = op.overloadpacket.__name__
        if name in _SHAPE_ONLY or not any(map(is_symbol, tensors)):
            return op(*tree_map(self._real, args), **tree_map(self._real, kwargs))
        if op._schema.is_mutable:
            raise _InPlace(f"it changes a tensor in place ({op})")
        if op in decompositions() and name not in self._keep:
            with self:
                return decompositions()[op](*args, **kwargs)
        if "Tensor" not in str(op._schema).rpartition("->")[2]:  # about shapes, or it raises
            return op(*args, **kwargs)
        return self._recorded(op, args, kwargs, tensors)

    def _check(self, op: Operation, tensors: Sequence[Tensor]) -> None:
        """Raise where a call must not be recorded, whatever it is."""
        if torch.Tag.nondeterministic_seeded in op.tags:
            raise Unsupported(f"it draws random numbers ({op})")
        if self._differentiable and any(tensor.requires_grad for tensor in tensors):
            how = "torch.no_grad() switches them off"
            raise Unsupported(f"gradients flow through its parameters ({how})")

    def _recorded(
        self,
        op: Operation,
        args: Args,
        kwargs: Kwargs,
        tensors: list[Tensor],
    ) -> object:
        """Return results of a call on meta tensors, which is kept."""
        args, kwargs = tree_map(self._real_device, (args, kwargs))
        output = _shaped(op, args, kwargs, tensors)
        if output is not None:
            self.calls.append(Call(op, args, kwargs, [output]))
            return output
        shape: Sequence[int] = ()
        if op.namespace == "prims":
            # Inner operations of torch, with which it works out shapes of derivatives that are zero,
            # do not broadcast.
            shape = torch.broadcast_shapes(*(x.shape for x in tensors))
        on_meta = functools.partial(_strip_storage, shape)
        outputs = op(*tree_map(on_meta, args), **tree_map(on_meta, kwargs))
        self.calls.append(Call(op, args, kwargs, tree_flatten(outputs)[0]))
        return outputs

    def _real(self, leaf: object) -> object:
        """Constants are made on the device of the inputs, where the function asks for that of its
        meta tensors.
        """
        if is_symbol(leaf):
            return torch.empty_strided(
                leaf.shape, leaf.stride(), dtype=leaf.dtype, device=self._device
            )
        return self._real_device(leaf)

    def _real_device(self, leaf: object) -> object:
        return self._device if isinstance(leaf, torch.device) and leaf.type == "meta" else leaf


def _shaped(op: Operation, args: Args, kwargs: Kwargs, tensors: Sequence[Tensor]) -> Tensor | None:
    """Return result on the meta device of a call that works entry by entry, or that joins or
    multiplies tensors of one precision; None of others.

    Torch's own functions of shapes import its compiler or SymPy at these calls, which takes up to
    two seconds.
    """
    if op.namespace != "aten":
        return None
    if torch.Tag.pointwise in op.tags and len(op._schema.returns) == 1:
        shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
        # the precision is that of a call on single numbers, which have as many axes
        single = op(*tree_map(_single, args), **tree_map(_single, kwargs))
        return single.new_empty(shape, device="meta")
    name = op.overloadpacket.__name__
    leading = tensors[0]
    alike = all(x.dtype == leading.dtype and x.ndim == leading.ndim for x in tensors)
    if not alike:
        return None
    if name in _JOINED:
        shape = _JOINED[name](tensors, *args[1:], **kwargs)
        return leading.new_empty(shape, device="meta")
    # torch says what is wrong with others
    if name in ("mm", "bmm") and leading.shape[-1] == tensors[1].shape[-2]:
        return leading.new_empty((*leading.shape[:-1], tensors[1].shape[-1]), device="meta")
    return None


def _single(leaf: object) -> object:
    """Return a tensor with a single number in place of one of a call's arguments."""
    if isinstance(leaf, Tensor):
        return torch.ones((1,) * leaf.ndim, dtype=leaf.dtype)
    return leaf


def _stacked_shape(tensors: Sequence[Tensor], dim: int = 0) -> list[int]:
    """Return shape of tensors side by side along an axis of their own."""
    shape = list(tensors[0].shape)
    shape.insert(dim % (len(shape) + 1), len(tensors))
    return shape


def _joined_shape(tensors: Sequence[Tensor], dim: int = 0) -> list[int]:
    """Return shape of tensors one after the other along an axis that they have."""
    shape = list(tensors[0].shape)
    shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
    return shape


_JOINED = {"stack": _stacked_shape, "cat": _joined_shape}


_SHAPE_ONLY = {
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
}  # fmt: skip


def _strip_storage(shape: Sequence[int], leaf: object) -> object:
    """Move a tensor or a device to "meta", where tensors have shapes and no numbers; expand scalars
    to `shape`.
    """
    if isinstance(leaf, Tensor):
        on_meta = leaf.to("meta")
        return on_meta if leaf.ndim else on_meta.expand(shape)
    return torch.device("meta") if isinstance(leaf, torch.device) else leaf
