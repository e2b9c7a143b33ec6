"""States of a first-order model after any time, in steps whose number follows from the error."""

import functools

import numpy as np
import torch
from torch import Tensor

from romkit.core.types import Array, Field
from romkit.engine.threads import one_thread
from romkit.models.fields import Model
from romkit.models.flow import Flow
from romkit.solvers import RK4
from romkit.solvers.base import Run, scored

LARGEST = 1e12
"""State that counts as lost."""

MANY = 1e6
"""Steps of a flow in its life, so that compiling pays."""

START = 100
"""Steps of a latent field that the search for their number begins with."""

TOLERANCE = 1e-9
"""Largest error of a flow, relative to the size of the states."""

MOST = 2**20
"""Steps of a flow that are not doubled any more."""


class TimeMap:
    """States after a time, in Runge-Kutta steps whose number follows from the error, or by the
    model's own solver.

    Steps are of one length, so that differences of states, of which Newton's method makes its
    matrix, are free of changes of the step.

    Args:
        model: full or reduced.
        size: (d,) of the states.
        steps: fixed number of steps; None for as many as `TOLERANCE` asks for.
        forced: whether the field depends on the time.
    """

    def __init__(self, model: Model, size: Array, steps: int | None, forced: bool):
        self.model = model
        self.size = torch.from_numpy(size)
        self.forced = forced
        self.controlled = steps is None
        self.steps = steps
        self._checked: tuple[float, Tensor] | None = None
        life = torch.tensor([0.0, MANY], dtype=torch.float64)
        self._solver = RK4(1.0, divergence_threshold=LARGEST)
        self._flow = Flow(model.field, solver=self._solver, expected=life)
        self._forced_runs: dict[tuple[int, float], Run] = {}

    def __call__(self, c: Tensor, w: Tensor, time: float) -> Tensor:
        """Return states (B, d) after a time of states w (B, d), at contexts c (B, p)."""
        if self.controlled:
            solver = self.model.solver(c)
            if solver is not None and type(solver) is not RK4:
                times = torch.tensor([0.0, time], dtype=w.dtype)
                field = self.model.field(c)
                return solver(field, w, times).states[:, -1]
            if not self._control(solver, c[:1], w[:1], time):
                return torch.full_like(w, torch.nan)
        assert self.steps is not None  # controlled otherwise
        return self._integrate(c, w, time, self.steps)

    def course(self, c: Tensor, w: Tensor, time: float, *, looks: int = 4096) -> Tensor:
        """Return states (N, d) after even parts of a time of one state w (1, d), the last one at
        its end.

        `looks`: states of an orbit, at most, by which its contraction is integrated.
        """
        solver = self.model.solver(c)
        if self.controlled and solver is not None and type(solver) is not RK4:
            times = torch.linspace(0.0, time, looks + 1, dtype=w.dtype)
            return solver(self.model.field(c), w, times).states[0, 1:]
        steps = self.steps or START
        every = max(1, steps // looks)
        steps = every * -(-steps // every)
        ends = torch.arange(0, steps + 1, every, dtype=w.dtype)
        return self._sample_steps(c, w, time, steps, ends)[0, 1:]

    def _control(
        self,
        solver: RK4 | None,
        c: Tensor,
        w: Tensor,
        time: float,
        *,
        more: int = 8,
        usable: float = 1e-6,
        order: int = 4,
    ) -> bool:
        """Double the number of steps until the end of a single run is accurate, or as accurate as a
        motion that stretches rounding errors lets it be; whether it can be used.

        `more`: times the steps of an orbit nearby after which the motion, and not its
        steps, is what stretches errors: they would be 4 000 times smaller.

        `usable`: error of a flow above which Newton's method finds no orbit of the field:
        its differences take steps of this length.

        `order`: coefficients of the Runge-Kutta method.
        """
        if self._is_checked(w, time):
            return True
        most = MOST
        if self.steps is None:
            self.steps = START
            if solver is not None:
                self.steps = int(np.ceil(time / solver.dt))
        elif self._checked is not None:
            most = more * self.steps
        tried: list[tuple[float, int]] = []
        steps = self.steps
        coarse = self._integrate(c, w, time, steps)
        while not tried or (tried[-1][0] > TOLERANCE and steps < most):
            fine = self._integrate(c, w, time, 2 * steps)
            # where both are lost, so is the state, and more steps do not help
            if not bool(coarse.isfinite().all() | fine.isfinite().any()):
                return True
            # Richardson: the error of the fine one
            error = self._largest(coarse - fine) / (2**order - 1) / (1 + self._largest(fine))
            tried.append((error if np.isfinite(error) else np.inf, steps))
            steps *= 2
            coarse = fine
        error, best = min(tried)
        if error > usable:
            return False
        self.steps = best
        self._checked = time, w
        return True

    def _largest(self, w: Tensor) -> float:
        """Return largest component of states (B, d), in units of their size."""
        return float((w / self.size).abs().max())

    def _is_checked(self, w: Tensor, time: float, *, moved: float = 0.1) -> bool:
        """Tell whether the error was seen near this state and time.

        `moved`: relative change of time or state after which the error is looked at again.
        """
        if self._checked is None:
            return False
        before, state = self._checked
        size = 1 + self._largest(w)
        if self._largest(w - state) >= moved * size:
            return False
        return abs(time - before) < moved * min(time, before)

    def _integrate(self, c: Tensor, w: Tensor, time: float, steps: int) -> Tensor:
        """Return states (B, d) after a time, in so many steps."""
        ends = torch.tensor([0.0, float(steps)], dtype=w.dtype)
        return self._sample_steps(c, w, time, steps, ends)[:, -1]

    def _sample_steps(self, c: Tensor, w: Tensor, time: float, steps: int, ends: Tensor) -> Tensor:
        """Return states (B, N, d) after numbers (N,) of steps of a time."""
        step = time / steps
        if not self.forced:
            speed = torch.full((len(c),), step, dtype=c.dtype)
            return self._flow(w, c, ends, speed)
        size = w.shape[1]
        y = torch.cat([w, c], dim=1)  # (B, d + p)
        run = self._forced_run(y, size, step)
        states, _ = scored(run(y, ends), LARGEST)  # (B, N, d + p)
        return states[..., :size]

    def _forced_run(self, y: Tensor, size: int, step: float) -> Run:
        """Solver of a forced field whose time counts steps, recorded once for so many members."""
        key = len(y), step
        if key not in self._forced_runs:
            field: Field = functools.partial(self._forced_rate, step, size)
            life = torch.tensor([0.0, MANY], dtype=y.dtype)
            with torch.no_grad(), one_thread():
                self._forced_runs[key], _ = self._solver.prepare(field, y, life, "auto", "")
        return self._forced_runs[key]

    def _forced_rate(self, step: float, size: int, t: Tensor, y: Tensor) -> Tensor:
        """Return forced field of states with their contexts (B, d + p), for one length of a step:
        members do not share a time that depends on their values.
        """
        w = y[:, :size]
        c = y[:, size:]
        rate = self.model.field(c)(step * t, w)
        return torch.cat([step * rate, 0 * c], dim=1)
