"""Flow of a first-order model over any time, by one compiled field for all contexts."""

import functools

import numpy as np
import torch
from torch import Tensor

from romkit.core.types import Field
from romkit.engine import Parametrised
from romkit.engine.threads import one_thread
from romkit.inference.models import Model
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

MOVED = 0.1
"""Relative change of time or state after which the error is looked at again."""

ORDER = 4
"""Coefficients of the Runge-Kutta method."""


class Flow:
    """States after a time, in Runge-Kutta steps whose number follows from the error, or by the
    model's own solver.

    Args:
        model: full or reduced.
        size: (d,) of the states.
        steps: fixed number of steps; None for as many as `TOLERANCE` asks for.
        forced: whether the field depends on the time.
    """

    def __init__(self, model: Model, size: np.ndarray, steps: int | None, forced: bool):
        self.model, self.size, self.forced = model, torch.from_numpy(size), forced
        self.controlled = steps is None
        self.steps = steps
        self._checked: tuple[float, Tensor] | None = None
        self._fields: dict[int, Parametrised] = {}
        self._runs: dict[tuple[int, float | None], Run] = {}

    def __call__(self, c: Tensor, w: Tensor, time: float) -> Tensor:
        """States (B, d) after a time of states w (B, d), at contexts c (B, p)."""
        if self.controlled:
            solver = self.model.solver(c)
            if solver is not None and type(solver) is not RK4:
                times = torch.tensor([0.0, time], dtype=w.dtype)
                return solver(self.model.field(c), w, times).states[:, -1]
            self._control(solver, c[:1], w[:1], time)
        return self._in_steps(c, w, time, self.steps)

    def _control(self, solver: RK4 | None, c: Tensor, w: Tensor, time: float) -> None:
        """Double the number of steps until the end of a single run is accurate."""
        if self._is_checked(w, time):
            return
        if self.steps is None:
            self.steps = START if solver is None else int(np.ceil(time / solver.dt))
        coarse = self._in_steps(c, w, time, self.steps)
        while self.steps < MOST:
            fine = self._in_steps(c, w, time, 2 * self.steps)
            error = float(((coarse - fine) / self.size).abs().max()) / (2**ORDER - 1)
            if error <= TOLERANCE * float(1 + (fine / self.size).abs().max()):
                break
            # where both are lost, so is the state, and more steps do not help
            if not bool(coarse.isfinite().all() | fine.isfinite().any()):
                return
            self.steps, coarse = 2 * self.steps, fine
        self._checked = time, w

    def _is_checked(self, w: Tensor, time: float) -> bool:
        """Whether the error was seen near this state and time."""
        if self._checked is None:
            return False
        before, state = self._checked
        moved = float(((w - state) / self.size).abs().max())
        return moved < MOVED * float(1 + (w / self.size).abs().max()) and abs(
            time - before
        ) < MOVED * min(time, before)

    def _in_steps(self, c: Tensor, w: Tensor, time: float, steps: int) -> Tensor:
        ends = torch.tensor([0.0, float(steps)], dtype=w.dtype)
        if self.forced:
            step = time / steps
            y = torch.cat([w, c], dim=1)  # (B, d + p)
            run = self._run(functools.partial(self._forced, step, w.shape[1]), y, (len(w), step))
            return scored(run(y, ends), LARGEST)[0][:, -1, : w.shape[1]]
        pace = torch.full((len(c), 1), time / steps, dtype=c.dtype)
        values = torch.cat([c, pace], dim=1)  # (B, p + 1)
        if len(w) not in self._fields:
            self._fields[len(w)] = Parametrised(self._paced, values)
        field = self._fields[len(w)]
        run = self._run(field, w, (len(w), None))
        field.bind(values)
        return scored(run(w, ends), LARGEST)[0][:, -1]

    def _run(self, field: Field, y: Tensor, key: tuple[int, float | None]) -> Run:
        """Solver of a field whose time counts steps, recorded once for so many members."""
        if key not in self._runs:
            life = torch.tensor([0.0, MANY], dtype=y.dtype)
            solver = RK4(1.0, divergence_threshold=LARGEST)
            with torch.no_grad(), one_thread():
                self._runs[key], _ = solver.prepare(field, y, life, "auto", "")
        return self._runs[key]

    def _paced(self, values: Tensor) -> Field:
        """Autonomous field of contexts and lengths of a step (B, p + 1), for all periods."""
        field, pace = self.model.field(values[:, :-1]), values[:, -1:]
        return lambda t, y: pace * field(t, y)

    def _forced(self, step: float, size: int, t: Tensor, y: Tensor) -> Tensor:
        """Forced field of states with their contexts (B, d + p), for one length of a step: members
        do not share a time that depends on their values.
        """
        w, c = y[:, :size], y[:, size:]
        rate = self.model.field(c)(step * t, w)
        return torch.cat([step * rate, 0 * c], dim=1)
