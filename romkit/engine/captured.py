"""Steps on a GPU: one of them is captured as a CUDA graph and launched again and again, with nothing copied between."""

from collections.abc import Callable

import torch
from torch import Tensor

from romkit.core.types import Field
from romkit.engine.compiled import Unsupported
from romkit.engine.fast_path import Traced, captured

Step = Callable[[Field, Tensor, Tensor, Tensor], Tensor]
"""(field, t, y, h) -> the state one step of length h later."""

TOLERANCE = 1e3
"""Units of rounding, of the largest component, by which a captured step may differ from torch's own."""


class CapturedSteps:
    """The counterpart of `RungeKutta` for states on a GPU: what is launched is a step, whatever it consists of.

    Args:
        step: of the method.
        field: f(t, y).
        t: time to try it at, a scalar as y is.
        y: (..., d) state to try it at.
        h: length of the step to try.
        fused: whether torch compiles the step before it is captured, into a few kernels in place of hundreds.

    Raises:
        Unsupported: the step cannot be traced or captured (the message says why), or disagrees with torch.
    """

    def __init__(self, step: Step, field: Field, t: Tensor, y: Tensor, h: Tensor, *, fused: bool):
        self.t, self.y, self.h = t.clone(), y.clone(), h.to(y)
        expected = step(field, t, y, self.h)

        def forward(t: Tensor, y: Tensor, h: Tensor) -> Tensor:
            return step(field, t, y, h)

        forward = Traced(forward) if fused else forward

        def advance(t: Tensor, y: Tensor, h: Tensor) -> None:
            y.copy_(forward(t, y, h))
            t.add_(h)

        try:
            self.graph, _ = captured(advance, (self.t, self.y, self.h))
        except RuntimeError as failure:
            reason = str(failure).strip().splitlines()[0]
            raise Unsupported(f"its step cannot be captured ({reason})") from failure
        allowed = TOLERANCE * torch.finfo(y.dtype).eps * expected.abs().amax(-1, keepdim=True)
        close = ((self._after(t, y, h, 1) - expected).abs() <= allowed) | ~expected.isfinite()
        if not bool(close.all()):
            raise Unsupported("its captured step disagrees with torch")

    def _after(self, t: Tensor, y: Tensor, h: Tensor, steps: int) -> Tensor:
        for own, given in ((self.t, t), (self.y, y), (self.h, h)):
            own.copy_(given)
        for _ in range(steps):
            self.graph.replay()
        return self.y

    def integrate(self, t: Tensor, h: Tensor, steps: Tensor, threshold: float, y: Tensor, states: Tensor) -> None:
        """As `RungeKutta.integrate`, for tensors on the GPU; `steps` (K,) on the CPU."""
        for k, number in enumerate(steps.tolist()):
            states[k] = self._after(t[k], y, h[k], number)
            y.copy_(torch.where((states[k].abs() <= threshold).all(-1, keepdim=True), states[k], 0.0))
