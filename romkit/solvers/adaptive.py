"""Adaptive solvers of torchdiffeq behind romkit's signature."""

from torch import Tensor

from romkit.boundary import Times, checked
from romkit.errors import InputError
from romkit.solvers.embedded import EmbeddedPair
from romkit.solvers.rest import error_norm, masked, resting, resting_start
from romkit.types import Field

STOPPING = ("dopri8", "bosh3")
"""Pairs that are worse between their steps than at the end of each."""


class Adaptive(EmbeddedPair):
    """An embedded Runge–Kutta pair with step-size control, by torchdiffeq.

    The whole batch shares one step, but the error norm is the worst member's, so the tolerances hold for
    each. A member whose state or derivative leaves the finite range is held where it is, because torchdiffeq
    would otherwise abort the batch. Between steps there is torchdiffeq's interpolation, but "dopri8" and "bosh3", whose
    interpolation errs by thousands of tolerances, end a step at every output time.

    Args:
        method: one of `PAIRS`.
        rtol, atol: relative and absolute tolerance per step.

    Source: R. T. Q. Chen, torchdiffeq; Dormand & Prince (1980) for the default pair.

    Example:
        >>> import torch
        >>> from romkit.solvers import Adaptive
        >>> times = torch.linspace(0, 1, 5, dtype=torch.float64)
        >>> solution = Adaptive(rtol=1e-8, atol=1e-8)(lambda t, y: -y, torch.ones(3, 2, dtype=torch.float64), times)
        >>> solution.states.shape, solution.status.tolist()
        (torch.Size([3, 5, 2]), [0, 0, 0])
        >>> bool((solution.states[0, -1] - torch.exp(-times[-1])).abs().max() < 1e-6)
        True
    """

    PAIRS = ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun")

    def _integrate(self, field: Field, y0: Tensor, times: Tensor) -> Tensor:
        held, start = resting(field, self.divergence_threshold), resting_start(y0, self.divergence_threshold)
        stops = {"step_t": times[1:]} if self.method in STOPPING else {}
        control = {"rtol": self.rtol, "atol": self.atol, "options": {"norm": _worst_member} | stops}
        import torchdiffeq  # it brings half of scipy along

        try:
            states = torchdiffeq.odeint(held, start, times, method=self.method, **control)
        except AssertionError as error:  # its steps have become too short to move
            expected, fix = "a tolerance that steps can reach", "raise rtol or atol, or take RK4"
            got = f"{self.rtol:g} and {self.atol:g}"
            raise InputError("rtol, atol", expected=expected, got=got, fix=fix) from error
        return masked(field, y0, times, states, self.divergence_threshold)


def _worst_member(error: Tensor) -> Tensor:
    return error_norm(error).max()


@checked
def odeint(field: Field, y0: Tensor, times: Times) -> Tensor:
    """States (T, ..., d) at `times` (T,), to train a field with: gradients flow through, and there is no status.

    torchdiffeq's fixed-step method of order four (the 3/8 rule), one step between two times, so that members of a
    batch do not influence each other.

    Example:
        >>> import torch
        >>> from romkit.solvers import odeint
        >>> rate = torch.tensor(1.0, requires_grad=True)
        >>> states = odeint(lambda t, y: -rate * y, torch.ones(1), torch.linspace(0, 1, 11))
        >>> states[-1].sum().backward()
        >>> states.shape, rate.grad.round(decimals=3)
        (torch.Size([11, 1]), tensor(-0.3680))
    """
    import torchdiffeq

    return torchdiffeq.odeint(field, y0, times, method="rk4")
