"""Names of torch that are no part of its public interface, in one place for the next version.

All were tried with torch 2.13.0 on a CPU, the version of constraints.txt; on a GPU the captured
steps ran with 2.11.0. Options of Inductor change from version to version, and a failure of it is a warning.
"""

import torch
from torch._decomp import get_decompositions
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.dialect.common.cse_pass import CSEPass
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import (
    TreeSpec,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

__all__ = [
    "CSEPass",
    "FakeTensorMode",
    "OpOverload",
    "ShapeEnv",
    "TorchDispatchMode",
    "TreeSpec",
    "compile_graph",
    "get_decompositions",
    "make_fx",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
]

INDUCTOR_LOGGER = "torch._inductor.ir"
"""Logger of warnings about operations that Inductor's library calls through Python."""

OpOverload = torch._ops.OpOverload


def compile_graph(graph: torch.fx.GraphModule, examples: list, options: dict) -> object:
    """A graph of ATen operations compiled by Inductor."""
    return torch._inductor.compile(graph, examples, options=options)
