"""The fast path of a training step: compiled by torch, and on a GPU also captured as one CUDA graph."""

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from romkit.training.optimizers import State
from romkit.training.optimizers.base import Step

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])

WARM_UP = 3
"""Runs before the capture, in which torch compiles the step and its libraries allocate their workspaces."""


def accelerate(step: Step, device: torch.device) -> Step:
    """`step`, faster from about the tenth call on: compiled, and on a GPU captured with the optimizer in one graph."""
    compiled = compile_anew(step)
    return Captured(compiled) if device.type == "cuda" else compiled


def compile_anew(function: F) -> F:
    """`function`, compiled on its first call.

    torch counts how often it has compiled the code of a function, whatever the function closes over, and from the
    ninth model of a process on would silently leave it as it is. So it forgets here what it compiled before; what of
    that is still called compiles once more.
    """
    torch.compiler.reset()
    return torch.compile(function, dynamic=False)


def compiled_or_eager(run: Callable[[bool], T], compiled: bool) -> tuple[T, bool]:
    """What run(compiled) gives and whether it was compiled; run(False) where that fails, with a warning.

    A run must change nothing before it ends. Compilers and drivers differ from machine to machine, and training is the
    same without, only slower. An error that has another cause comes again from run(False).
    """
    if compiled:
        try:
            return run(True), True
        except RuntimeError as failure:  # of torch.compile, or of the capture of a CUDA graph
            why = str(failure).strip().splitlines()[:2]
            warnings.warn(f"training goes on without compiling, and slower: {' '.join(why)}", stacklevel=2)
    return run(False), False


class Captured:
    """A step as one CUDA graph: a single launch, in place of one per kernel, which is what small nets wait for.

    A graph reads and writes fixed memory, so arguments are copied in and results out; all calls need the shapes of
    the first.
    """

    def __init__(self, step: Step):
        self.step = step
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, state: State, lr: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
        arguments = [*_leaves(state), lr, *batch]
        if self.graph is None:
            self._capture(arguments, len(state.moments))
        for fixed, given in zip(self.arguments, arguments, strict=True):
            fixed.copy_(given)
        self.graph.replay()
        after, losses = self.results
        return _state([leaf.clone() for leaf in _leaves(after)], len(after.moments)), losses.clone()

    def _capture(self, arguments: list[Tensor], moments: int) -> None:
        self.arguments = [argument.clone() for argument in arguments]
        leaves, (lr, *batch) = self.arguments[: moments + 3], self.arguments[moments + 3 :]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self.step(_state(leaves, moments), lr, *batch)
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.results = self.step(_state(leaves, moments), lr, *batch)


def _leaves(state: State) -> list[Tensor]:
    return [state.theta, state.count, state.alive, *state.moments]


def _state(leaves: list[Tensor], moments: int) -> State:
    theta, count, alive, *rest = leaves
    return State(theta, tuple(rest[:moments]), count, alive)
