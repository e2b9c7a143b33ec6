"""The flow of a field, recorded once for every context."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import Entries, Field
from romkit.engine import Parametrised
from romkit.engine.threads import one_thread
from romkit.integrators.base import default_solver
from romkit.models.match import check_field
from romkit.models.reduced import ReducedModel
from romkit.solvers import Solver, checked_step
from romkit.solvers.adaptive import even_steps
from romkit.solvers.base import Run, scored
from romkit.solvers.checked import ALLOWED

FEWEST, MOST = 8, 256
"""Members that are integrated at once: a single one, or powers of two from the first to the second."""


class _Recorded(NamedTuple):
    """A field of so many members, and the solver that was made ready for it."""

    field: Parametrised
    run: Run
    threshold: float


class Flow:
    """States of a field after some time, at contexts that change from call to call.

    The field is recorded, and compiled where that pays, once for each number of members. What
    depends on the context alone, such as a hyper-network, is computed once in a call and not in
    each step.

    Args:
        field_of: the field at contexts (M, p).
        solver: of the equation.
        engine: "auto", "torch" or "compiled" (see `romkit.engine`).
        expected: times of all that the flow is for; "auto" compiles where that pays for them. Those
            of the first call by default.

    Raises:
        InputError: at the first call, a field that cannot be compiled although it has to be.
    """

    def __init__(
        self,
        field_of: Callable[[Tensor], Field],
        *,
        solver: Solver | None,
        engine: str = "auto",
        expected: Tensor | None = None,
    ):
        self._field_of = field_of
        self._solver, self._engine = solver, engine
        self._expected = expected
        self._recorded: dict[int, _Recorded] = {}

    def __getstate__(self) -> Entries:
        """Attributes without compiled fields, which each process compiles for itself."""
        return vars(self) | {"_recorded": {}}

    def __call__(self, w: Tensor, c: Tensor, times: Tensor, speed: Tensor | None = None) -> Tensor:
        """Return states (M, T, d), NaN from a divergence on.

        Args:
            w: (M, d) at `times[0]`.
            c: (M, p) contexts in physical units.
            times: (T,).
            speed: (M,) factors of the field, 1 by default.
        """
        if len(times) == 1:
            return w.unsqueeze(1)
        if speed is None:
            speed = torch.ones(len(w), dtype=w.dtype)
        parameters = torch.cat([c, speed.unsqueeze(-1)], dim=-1)  # (M, p + 1)
        pieces = []
        with torch.no_grad(), one_thread():
            for states, rows in zip(w.split(MOST), parameters.split(MOST), strict=True):
                pieces.append(self._piece(states, rows, times))
            return torch.cat(pieces)

    def _piece(self, w: Tensor, parameters: Tensor, times: Tensor) -> Tensor:
        number = len(w)
        # the last member is repeated up to a power of two, so that few numbers are recorded
        rows = torch.arange(_padded(number)).clamp(max=number - 1)
        w = w[rows]
        parameters = parameters[rows]
        if len(rows) not in self._recorded:
            self._recorded[len(rows)] = self._record(w, parameters, times)
        recorded = self._recorded[len(rows)]
        recorded.field.bind(parameters)
        states, _ = scored(recorded.run(w, times), recorded.threshold)
        return states[:number]

    def _record(self, w: Tensor, parameters: Tensor, times: Tensor) -> _Recorded:
        field = Parametrised(self._family, parameters)
        if self._solver is None:
            self._solver = self._default_solver(field, w, parameters[:, :-1], times)
        expected = self._expected
        if expected is None:
            expected = times
        run, _ = self._solver.prepare(field, w, expected, self._engine, "")
        return _Recorded(field, run, self._solver.divergence_threshold)

    def _default_solver(self, field: Field, w: Tensor, c: Tensor, times: Tensor) -> Solver:
        """Solver of all calls, from the first one."""
        return default_solver()

    def _family(self, parameters: Tensor) -> Field:
        """Return the field at contexts and speeds (M, p + 1)."""
        c = parameters[:, :-1]
        speed = parameters[:, -1:]
        rate = self._field_of(c)
        return lambda t, w: speed * rate(t, w)


class LatentFlow(Flow):
    """Flow of the latent field of a reduced model.

    Args:
        model: whose dynamics have a latent field.
        solver: of the latent equation; the default of `romkit.follow` for the times of the first
            call.
        engine, expected: as of `Flow`.
        tolerance: relative error of states by steps of one length, found at the first call, so that
            differences of states are free of changes of the step.

    Raises:
        InputError: dynamics without a latent field.
    """

    def __init__(
        self,
        model: ReducedModel,
        *,
        solver: Solver | None = None,
        engine: str = "auto",
        tolerance: float | None = None,
        expected: Tensor | None = None,
    ):
        check_field(model.dynamics)
        self.model = model
        self._tolerance = tolerance
        super().__init__(self._field, solver=solver, engine=engine, expected=expected)

    def _field(self, c: Tensor) -> Field:
        return self.model.fix_context(c).field

    def _default_solver(self, field: Field, w: Tensor, c: Tensor, times: Tensor) -> Solver:
        # steps of one length in a run, at least
        fewest_steps = 8
        if self._tolerance is not None:
            rtol = self._tolerance / ALLOWED
            longest = float(times[-1] - times[0]) / fewest_steps
            step = checked_step(field, w, times, rtol=rtol, dt=longest, make=even_steps, order=5)
            return even_steps(step)
        return default_solver(self.model.fix_context(c).problem, times)


def _padded(number: int) -> int:
    if number == 1:
        return 1
    return max(FEWEST, 1 << (number - 1).bit_length())
