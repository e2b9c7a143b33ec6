"""Adaptive solvers of torchode behind romkit's signature: every member of a batch has its own step."""

from types import ModuleType

import torch
from torch import Tensor

from romkit.errors import InputError
from romkit.solvers.embedded import EmbeddedPair
from romkit.solvers.rest import error_norm, masked, resting, resting_start
from romkit.types import Field


class PerMember(EmbeddedPair):
    """An embedded Runge–Kutta pair whose step size is controlled for each member by itself, by torchode.

    A member that needs small steps does not shorten those of the others, and members do not influence each other's
    results; all of them are evaluated together until the last one is done. A member whose state or derivative leaves
    the finite range is held where it is, because torchode would otherwise stop the batch.

    Since members are at different times, a batch needs a field that does not depend on t. torchode is installed by
    `pip install "romkit[torchode]"`.

    Args:
        method: one of `PAIRS`.
        rtol, atol: relative and absolute tolerance per step.

    Source: Lienen & Günnemann (2022), torchode: A parallel ODE solver for PyTorch; Dormand & Prince (1980) and
    Tsitouras (2011) for the pairs.

    Example:
        >>> import torch
        >>> from romkit.solvers import PerMember
        >>> times = torch.linspace(0, 1, 5, dtype=torch.float64)
        >>> rates = torch.tensor([[1.0], [10.0]], dtype=torch.float64)
        >>> solution = PerMember()(lambda t, y: -rates * y, torch.ones(2, 1, dtype=torch.float64), times)
        >>> solution.states.shape, solution.status.tolist()
        (torch.Size([2, 5, 1]), [0, 0])
    """

    PAIRS = ("dopri5", "tsit5", "heun")

    def _integrate(self, field: Field, y0: Tensor, times: Tensor) -> Tensor:
        torchode = _torchode()
        rows = resting_start(y0, self.divergence_threshold).reshape(-1, y0.shape[-1])
        if len(rows) > 1:
            _check_autonomous(field, y0, times)
        if len(times) == 1:
            return y0.unsqueeze(0)
        held = resting(field, self.divergence_threshold)
        term = torchode.ODETerm(
            lambda t, y: held(times[0] + t[0], y.reshape(y0.shape)).reshape(y.shape), with_stats=False
        )
        control = torchode.IntegralController(self.atol, self.rtol, term=term, norm=error_norm).to(y0.device)
        states = torchode.solve_ivp(term, rows, times - times[0], method=self.method, controller=control).ys
        return masked(field, y0, times, states.movedim(1, 0).reshape(len(times), *y0.shape), self.divergence_threshold)


def _torchode() -> ModuleType:
    try:
        import torchode
    except ImportError as error:
        fix = 'pip install "romkit[torchode]", or solver=Adaptive(...)'
        raise InputError("solver", expected="torchode to be installed", got="none", fix=fix) from error
    return torchode


def _check_autonomous(field: Field, y0: Tensor, times: Tensor) -> None:
    """The field at y0 has to be the same at the start, at the end, and at no time at all."""
    start, *others = (field(t, y0) for t in (times[0], times[-1], torch.full_like(times[0], torch.nan)))
    if not all(torch.allclose(start, other, rtol=0, atol=0, equal_nan=True) for other in others):
        raise InputError(
            "field",
            expected="one that does not depend on t, since members are at different times",
            got="one that does",
            fix="use Adaptive or RK4, or integrate the members one by one",
        )
