"""What the arithmetic alone costs: the matrix products of one step, counted and replayed, and the memory they touch."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.measuring import median_seconds
from benchmarks.training.problem import Problem

PRODUCTS = (torch.ops.aten.bmm.default, torch.ops.aten.mm.default)
LARGE = 1024
"""Size of the square matrices whose product runs at the highest rate of a core."""


class Products(TorchDispatchMode):
    """Records the shapes of the matrix products that run inside it."""

    def __init__(self):
        super().__init__()
        self.shapes: list[tuple[torch.Size, torch.Size]] = []

    def __torch_dispatch__(
        self, function: Callable, types: tuple, args: tuple = (), kwargs: dict[str, object] | None = None
    ) -> object:
        if function in PRODUCTS:
            self.shapes.append((args[0].shape, args[1].shape))
        return function(*args, **(kwargs or {}))


def floor(problem: Problem, repeats: int) -> dict[str, float]:
    """Per seed and step: operations, bytes, and what they cost at the rates measured on this core.

    `peak_ms` is the time of the products at the rate of a large one, `replay_ms` that of the products at their own
    sizes with nothing between them, `memory_ms` that of moving each operand and each result once.
    """
    shapes = _products_of_a_step(problem)
    operands = [(torch.randn(a), torch.randn(b)) for a, b in shapes]
    results = [a @ b for a, b in operands]
    flops = sum(2 * result.numel() * a.shape[-1] for result, (a, _) in zip(results, operands, strict=True))
    size = sum(4 * (r.numel() + a.numel() + b.numel()) for r, (a, b) in zip(results, operands, strict=True))
    replay = median_seconds(
        lambda: [torch.matmul(a, b, out=r) for r, (a, b) in zip(results, operands, strict=True)], repeats
    )
    seeds = len(problem.seeds)
    return {
        "megaflop": flops / seeds / 1e6,
        "megabyte": size / seeds / 1e6,
        "peak_gflop_per_s": _peak_rate(repeats) / 1e9,
        "replay_gflop_per_s": flops / replay / 1e9,
        "peak_ms": flops / _peak_rate(repeats) / seeds * 1e3,
        "replay_ms": replay / seeds * 1e3,
        "memory_ms": size / _copy_rate(results[0], repeats) / seeds * 1e3,
    }


def _products_of_a_step(problem: Problem) -> list[tuple[torch.Size, torch.Size]]:
    objective, flat = problem.objective(0.0)
    batch, theta = next(problem.batches(problem.seeds)), flat.read().requires_grad_()
    with Products() as products:
        torch.autograd.grad(flat.function(objective)(theta, *batch).sum(), theta)
    return products.shapes


def _peak_rate(repeats: int) -> float:
    """Floating-point operations per second of a large product."""
    a, b, result = (torch.randn(LARGE, LARGE) for _ in range(3))
    return 2 * LARGE**3 / median_seconds(lambda: torch.matmul(a, b, out=result), repeats)


def _copy_rate(like: Tensor, repeats: int) -> float:
    """Bytes per second, read and written, of copies of tensors that stay in the cache."""
    other = torch.empty_like(like)
    return 2 * 4 * like.numel() * 100 / median_seconds(lambda: [other.copy_(like) for _ in range(100)], repeats)
