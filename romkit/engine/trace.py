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
import math
import operator
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import Field
from romkit.engine._torch import (
    TorchDispatchMode,
    get_decompositions,
    tree_flatten,
    tree_leaves,
    tree_map,
)
from romkit.engine.build import Unsupported

Axes = int | Sequence[int] | None


class Call(NamedTuple):
    """One recorded call: arguments as given, meta tensors standing for values that depend on the
    inputs.
    """

    op: Callable
    args: tuple
    kwargs: dict
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
    inputs: tuple[Tensor, ...]
    result: Tensor | tuple[Tensor, ...]

    def module(
        self, dtype: torch.dtype | None = None
    ) -> Callable[..., Tensor | tuple[Tensor, ...]]:
        """Turn the trace back into a function of tensors; `dtype` is a precision other than that of
        the inputs.
        """
        graph, constants, own = torch.fx.Graph(), {}, self.inputs[0].dtype
        nodes = {id(symbol): graph.placeholder(f"input{k}") for k, symbol in enumerate(self.inputs)}

        def given(leaf: object) -> object:
            if is_symbol(leaf):
                return nodes[id(leaf)]
            if isinstance(leaf, Tensor):
                name = f"constant{len(constants)}"
                constants[name] = leaf.to(dtype) if dtype and leaf.is_floating_point() else leaf
                return graph.get_attr(name)
            return dtype if dtype and leaf == own else leaf

        for call in self.calls:
            op = (
                torch.reshape if call.name in ("view", "_unsafe_view") else call.op
            )  # strides may differ then
            args, kwargs = tree_map(given, (call.args, call.kwargs))
            node = graph.call_function(op, args, kwargs)
            single = [type(found.type) for found in call.op._schema.returns] == [torch.TensorType]
            for k, output in enumerate(call.outputs):
                nodes[id(output)] = (
                    node if single else graph.call_function(operator.getitem, (node, k))
                )
        graph.output(tree_map(given, self.result))
        return torch.fx.GraphModule(constants, graph)

    def replaced(self, change: Callable[[object], object]) -> "Trace":
        """The trace with other leaves in its arguments and its result."""
        calls = [
            Call(call.op, *tree_map(change, (call.args, call.kwargs)), call.outputs)
            for call in self.calls
        ]
        return Trace(calls, self.inputs, tree_map(change, self.result))

    def parted(self, *late: Tensor) -> tuple[list[Call], list[Call]]:
        """Calls that depend on none of these inputs, and those that do."""
        parts, moving = ([], []), {id(symbol) for symbol in late}
        for call in self.calls:
            moves = not moving.isdisjoint(map(id, call.symbols))
            parts[moves].append(call)
            moving.update(map(id, call.outputs) if moves else ())
        return parts


def trace(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    *examples: Tensor,
    keep: Collection[str] = (),
) -> Trace:
    """The calls of function(*examples), at the shapes, dtypes and device of these tensors.

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
    symbols = tuple(torch.empty_like(example, device="meta") for example in examples)

    def run(function: Callable[..., Tensor]) -> Trace:
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
        reason = (str(error).splitlines() or [""])[0]
        raise Unsupported(f"it cannot be recorded ({type(error).__name__}: {reason})") from error


def needed(calls: Sequence[Call], result: Tensor | tuple[Tensor, ...]) -> list[Call]:
    """The calls that the result depends on."""
    wanted, kept = {id(leaf) for leaf in tree_leaves(result)}, []
    for call in reversed(calls):
        if any(id(output) in wanted for output in call.outputs):
            kept.append(call)
            wanted.update(map(id, call.symbols))
    return kept[::-1]


def trace_field(field: Field, y: Tensor) -> Trace:
    """The calls of field(t, y) at the shape and dtype of y (..., d), for the compiled engine.

    Raises:
        Unsupported: y is neither on a CPU nor on a GPU of CUDA, or as `trace`.
    """
    if y.device.type not in ("cpu", "cuda") or y.dtype not in (torch.float64, torch.float32):
        raise Unsupported(
            f"the state is {y.dtype} on {y.device.type}; compiled are float32, float64 on cpu and cuda"
        )
    if y.numel() == 0:
        raise Unsupported("the state is empty")
    if y.is_cuda and isinstance(field, Parametrised):
        raise Unsupported("parameters that change are compiled on a CPU alone")
    t = y.new_empty(())
    return field.recorded(t, y) if isinstance(field, Parametrised) else trace(field, t, y)


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
            for constant, value in zip(self._constants, self._early(values), strict=True):
                constant.copy_(value)

    def __call__(self, t: Tensor, y: Tensor) -> Tensor:
        self._field = self._field or self._family(self._values)
        return self._field(t, y)

    def recorded(self, t: Tensor, y: Tensor) -> Trace:
        """Calls that depend on t or y."""
        whole = trace(lambda t, y, values: self._family(values)(t, y), t, y, self._values)
        early, late = whole.parted(*whole.inputs[:2])
        used = {id(leaf) for call in late for leaf in call.symbols} | set(
            map(id, tree_leaves(whole.result))
        )
        known = [*whole.inputs[2:], *(output for call in early for output in call.outputs)]
        between = {id(leaf): leaf for leaf in known if id(leaf) in used}
        self._early = Trace(early, whole.inputs[2:], tuple(between.values())).module()
        self._constants = [
            value.clone(memory_format=torch.contiguous_format)
            for value in self._early(self._values)
        ]
        constants = dict(zip(between, self._constants, strict=True))
        return Trace(late, whole.inputs[:2], whole.result).replaced(
            lambda leaf: constants.get(id(leaf), leaf)
        )


def is_symbol(leaf: object) -> bool:
    """Whether a leaf of a call's arguments is a tensor that depends on the inputs."""
    return isinstance(leaf, Tensor) and leaf.device.type == "meta"


class _InPlace(Unsupported):
    """Verdict on a function that works in place, which `torch.func.functionalize` may rewrite."""


class _Recorder(TorchDispatchMode):
    """Mode of torch that records calls on meta tensors, and makes those on constants."""

    def __init__(self, device: torch.device, keep: Collection[str], *, differentiable: bool):
        super().__init__()
        self.calls: list[Call] = []
        self._device, self._keep, self._differentiable = device, keep, differentiable

    def __torch_dispatch__(
        self, op: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        kwargs = kwargs or {}
        with self:  # in inference mode composite operations such as mT arrive whole
            parts = op.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        if torch.Tag.nondeterministic_seeded in op.tags:
            raise Unsupported(f"it draws random numbers ({op})")
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if self._differentiable and any(tensor.requires_grad for tensor in tensors):
            raise Unsupported(
                "gradients flow through its parameters (torch.no_grad() switches them off)"
            )
        if not any(map(is_symbol, tensors)) or op.overloadpacket.__name__ in _SHAPE_ONLY:
            return op(*tree_map(self._real, args), **tree_map(self._real, kwargs))
        if op._schema.is_mutable:
            raise _InPlace(f"it changes a tensor in place ({op})")
        if op in decompositions() and op.overloadpacket.__name__ not in self._keep:
            with self:
                return decompositions()[op](*args, **kwargs)
        if not any(
            "Tensor" in str(given.type) for given in op._schema.returns
        ):  # about shapes, or it raises
            return op(*args, **kwargs)
        args, kwargs = tree_map(self._real_device, (args, kwargs))
        # Inner operations of torch, with which it works out shapes of derivatives that are zero, do
        # not broadcast.
        shape = (
            torch.broadcast_shapes(*(x.shape for x in tensors)) if op.namespace == "prims" else ()
        )
        on_meta = functools.partial(_on_meta, shape)
        outputs = op(*tree_map(on_meta, args), **tree_map(on_meta, kwargs))
        self.calls.append(Call(op, args, kwargs, tree_flatten(outputs)[0]))
        return outputs

    def _real(self, leaf: object) -> object:
        """Constants are made on the device of the inputs, where the function asks for that of its
        meta tensors.
        """
        return (
            torch.empty_like(leaf, device=self._device)
            if is_symbol(leaf)
            else self._real_device(leaf)
        )

    def _real_device(self, leaf: object) -> object:
        return self._device if isinstance(leaf, torch.device) and leaf.type == "meta" else leaf


_SHAPE_ONLY = {
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
}  # fmt: skip


def _on_meta(shape: Sequence[int], leaf: object) -> object:
    """A leaf on the device of symbols, even where the function names another; scalars expanded to
    `shape`.
    """
    if isinstance(leaf, Tensor):
        return leaf.to("meta") if leaf.ndim else leaf.to("meta").expand(shape)
    return torch.device("meta") if isinstance(leaf, torch.device) else leaf


# -- operations that are recorded as several simpler ones --------------------------------------------------------------

DECOMPOSED = (
    "_log_softmax", "_softmax", "celu", "diag_embed", "elu", "gelu", "hardtanh", "leaky_relu", "lerp",
    "linalg_vector_norm", "logsumexp", "masked_fill", "native_layer_norm", "softplus", "std",
)  # fmt: skip
"""Operations for which torch's own decompositions are taken."""


def axes_of(x: Tensor, given: Axes = None) -> list[int]:
    """The axes as a list; all of them where none is given."""
    return [given] if isinstance(given, int) else list(given or range(x.ndim))


def _variance(
    x: Tensor, dims: Axes = None, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """Variance along axes, as torch.var."""
    axes = axes_of(x, dims)
    degrees = max(
        0, math.prod(x.shape[axis] for axis in axes) - (1 if correction is None else correction)
    )
    return (x - x.mean(axes, True)).square().sum(axes, keepdim) * (
        1 / degrees if degrees else math.nan
    )


def _variance_and_mean(x: Tensor, dims: Axes = None, **options: object) -> tuple[Tensor, Tensor]:
    """Variance and mean along axes, as torch.var_mean."""
    return _variance(x, dims, **options), x.mean(axes_of(x, dims), bool(options.get("keepdim")))


def _extreme(reduce: Callable[..., Tensor]) -> Callable[..., object]:
    """Largest or smallest elements, as torch.max or torch.min."""

    def extreme(x: Tensor, dim: int | None = None, keepdim: bool = False) -> object:
        if dim is None:
            return reduce(x, axes_of(x))
        values = reduce(x, dim, keepdim)
        return values, torch.empty_like(
            values, dtype=torch.int64
        )  # where they are: has no compiled form

    return extreme


def _remainder(a: Tensor, b: Tensor | float) -> Tensor:
    """Remainder with the sign of the divisor."""
    rest = torch.fmod(a, b)
    return torch.where(
        (rest != 0) & ((rest < 0) != torch.lt(torch.as_tensor(b), 0)), rest + b, rest
    )


def _multiply_and_add(x: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha a b, of matrices or batches of them."""
    product = torch.bmm(a, b) if a.ndim == 3 else torch.mm(a, b)
    return torch.add(x if beta == 1 else beta * x, product, alpha=alpha)


OWN = {
    "addmm": _multiply_and_add,
    "all": lambda x, *rest: (x != 0).amin(*rest or (axes_of(x),)),
    "any": lambda x, *rest: (x != 0).amax(*rest or (axes_of(x),)),
    "baddbmm": _multiply_and_add,
    "copy": lambda x, source, *_: source.to(x.dtype).expand(x.shape),
    "dot": lambda a, b: (a * b).sum(),
    "max": _extreme(torch.amax),
    "min": _extreme(torch.amin),
    "mv": lambda a, b: torch.mm(a, b.unsqueeze(-1)).squeeze(-1),
    "remainder": _remainder,
    "var": _variance,
    "var_mean": _variance_and_mean,
}
"""Decompositions of this package, where torch has none or one in terms of its inner operations."""


@functools.cache
def decompositions() -> dict[Callable, Callable]:
    """All decompositions, by overload."""
    aten = torch.ops.aten
    packets = {getattr(aten, name): function for name, function in OWN.items()}
    own = {
        getattr(packet, name): function
        for packet, function in packets.items()
        for name in packet.overloads()
    }
    return dict(get_decompositions([getattr(aten, name) for name in DECOMPOSED])) | own
