"""What goes through a compiled field again and again: Runge–Kutta steps, and those of Newton's method."""

import ctypes

from torch import Tensor

from romkit.engine.compiled.kernel import Kernel, at


class RungeKutta(Kernel):
    """RK4 for ẏ = f(t, y)."""

    loop = "rk4.hpp"
    arrays = 7

    def integrate(self, t: Tensor, h: Tensor, steps: Tensor, threshold: float, y: Tensor, states: Tensor) -> None:
        """Integrate over K intervals; interval k starts at t[k] and takes steps[k] steps of length h[k].

        Args:
            t: (K,) of the dtype of y.
            h: (K,) of the dtype of y.
            steps: (K,) int64.
            threshold: members that exceed it start again from zero after the output.
            y: (..., d), contiguous; left at the last state.
            states: (K, ..., d), contiguous; filled with the state at the end of each interval.
        """
        arguments = [at(t), at(h), at(steps), ctypes.c_int64(len(t)), self._real(threshold), at(y), at(states)]
        self._library.integrate(*arguments, *self._constants())


class Newton(Kernel):
    """Newton's method whose step is f(t, y)."""

    loop = "newton.hpp"
    arrays = 2

    def settle(self, t: float, y: Tensor, *, start: int, iterations: int, tolerance: float) -> None:
        """Add f(t, y) to y until that is a small step.

        Args:
            t: time, the same for all steps.
            y: (..., d), contiguous; left where the steps end.
            start: a step is as long as its components from this one on.
            iterations: largest number of steps.
            tolerance: length of the last step of a member, relative to 1 + the norm of those components.
        """
        limits = [ctypes.c_int64(start), ctypes.c_int64(iterations), self._real(tolerance)]
        self._library.settle(self._real(t), *limits, at(y), *self._constants())
