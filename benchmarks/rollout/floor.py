"""What the arithmetic alone costs: the matrix products of one step at the rate of a large one, and the memory."""

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.measuring import median_seconds
from benchmarks.rollout.problem import Problem

LARGE = {"cpu": 1024, "cuda": 8192}
"""Size of the square matrices whose product runs at the highest rate of a core, or of a GPU."""

NUMBERS = {"cpu": 2**15, "cuda": 2**28}
"""Numbers in a copy: one that stays in the second-level cache of a core, one that fills a GPU."""

STAGES = 4
"""Evaluations of the field in a step of RK4."""


def floor(problem: Problem, repeats: int) -> dict[str, float]:
    """Per step of RK4 and trajectory: operations of the matrix products, bytes of what they read, and times in µs.

    Weights, biases and slopes are read once for each evaluation of the field for all contexts.
    """
    with FlopCounterMode(display=False) as counter:
        problem.g(problem.times(0)[0], problem.z0)
    contexts = len(problem.z0)
    flops = STAGES * counter.get_total_flops() / contexts
    size = STAGES * 8 * sum(tensor.numel() for tensor in _constants(problem)) / contexts
    peak, copy = _peak_rate(problem.z0, repeats), _copy_rate(problem.z0, repeats)
    return {
        "kiloflop": flops / 1e3,
        "kilobyte": size / 1e3,
        "peak_gflop_per_s": peak / 1e9,
        "copy_gbyte_per_s": copy / 1e9,
        "arithmetic_us": flops / peak * 1e6,
        "memory_us": size / copy * 1e6,
    }


def _constants(problem: Problem) -> list[Tensor]:
    layers = problem.operator._maps.decoder
    return [problem.operator.context, *(x for layer in layers for x in (layer.phi_t, layer.beta, *layer.activation))]


def _peak_rate(like: Tensor, repeats: int) -> float:
    """Floating-point operations per second of a large product."""
    device, size = like.device.type, LARGE[like.device.type]
    a, b, result = (torch.randn(size, size, dtype=like.dtype, device=device) for _ in range(3))
    return 2 * size**3 / median_seconds(lambda: torch.matmul(a, b, out=result), repeats, device)


def _copy_rate(like: Tensor, repeats: int) -> float:
    """Bytes per second, read and written, of copies."""
    device, size = like.device.type, NUMBERS[like.device.type]
    source = torch.randn(size, dtype=like.dtype, device=device)
    target = torch.empty_like(source)
    return 2 * 8 * size * 100 / median_seconds(lambda: [target.copy_(source) for _ in range(100)], repeats, device)
