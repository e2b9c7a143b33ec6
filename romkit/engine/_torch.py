"""Names of torch that are no part of its public interface, in one place for the next version.

All were tried with torch 2.13.0 on a CPU, the version of constraints.txt; on a GPU the captured
steps ran with 2.11.0. Options of Inductor change from version to version, and a failure of it is a warning.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import (
    TreeSpec,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

from romkit.core.types import Kwargs

__all__ = [
    "DispatchMode",
    "OpOverload",
    "TreeSpec",
    "compile_graph",
    "get_decompositions",
    "operations_once",
    "recorded",
    "shapes_of",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
]

INDUCTOR_LOGGER = "torch._inductor.ir"
"""Logger of warnings about operations that Inductor's library calls through Python."""

OpOverload = torch._ops.OpOverload


class DispatchMode(TorchDispatchMode):
    """Mode that sees all calls of torch's operations within it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # else the first call imports all of torch's tracers, which takes more than a second
        return False


# torch's tracers need SymPy, whose import takes half a second: it waits until one of them is used


def recorded(function: Callable[..., object], arguments: Sequence[Tensor]) -> torch.fx.GraphModule:
    """Return the ATen operations of a call."""
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function)(*arguments)


def operations_once(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return the graph with each operation once; none may change its arguments."""
    from torch.fx.passes.dialect.common.cse_pass import CSEPass

    return CSEPass()(graph).graph_module


def shapes_of(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors without values, by which graphs are compiled."""
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    # without a `ShapeEnv` torch caches nothing
    fake = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True, allow_non_fake_inputs=True)
    return [fake.from_tensor(tensor) for tensor in tensors]


def compile_graph(graph: torch.fx.GraphModule, examples: list[Any], options: Kwargs) -> object:
    """Return a graph of ATen operations compiled by Inductor."""
    return torch._inductor.compile(graph, examples, options=options)
