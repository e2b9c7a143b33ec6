"""What every contestant integrates: the Galerkin field of an NcAE of Lorenz96, each context with a trajectory."""

from typing import NamedTuple

import torch
from torch import Tensor

import romkit
from romkit.core.types import Field
from romkit.integrators import Galerkin
from romkit.projections import NcAE, Normalization, Projection
from romkit.projections.operator import Operator
from romkit.systems import Lorenz96
from romkit.systems.problem import ConstantPath

DT = 0.01
STEPS = 100
"""Steps of RK4 between two outputs, which are one time unit apart."""


class Problem(NamedTuple):
    """The operator at C contexts, the full-order field f, the latent one g, and states x0 (C, n) and z0 (C, m)."""

    operator: Operator
    f: Field
    g: Field
    x0: Tensor
    z0: Tensor

    def times(self, intervals: int) -> Tensor:
        """0, 1, ..., intervals."""
        return torch.arange(intervals + 1, dtype=self.z0.dtype, device=self.z0.device) * (STEPS * DT)


def make_problem(contexts: int, device: str = "cpu") -> Problem:
    """The pretrained NcAE, float64, started from waves that have settled a little."""
    return _problem(Lorenz96(transient=20.0), romkit.load("ncae-lorenz96"), contexts, device)


def untrained_problem(n: int, contexts: int) -> Problem:
    """An untrained NcAE 2-18-n on a ring of n variables."""
    system = Lorenz96(n=n, transient=1.0)
    normalization = Normalization.from_dataset(system.dataset(F=[3.14, 3.18], duration=0.1))
    projection = NcAE(normalization, torch.Generator().manual_seed(0), layers=(2, 18, n), embedding=(1, 2, 2, 2))
    return _problem(system, projection, contexts, "cpu")


def _problem(system: Lorenz96, projection: Projection, contexts: int, device: str) -> Problem:
    parameter = system.context[0]
    F = torch.linspace(parameter.low, parameter.high, contexts, dtype=torch.float64).unsqueeze(-1)
    x0 = system.start(F)[0].to(device)
    operator = projection.double().to(device)(F.to(device))
    problem = system.problem(ConstantPath(operator), F.to(device))
    return Problem(operator, problem.field, Galerkin().field(problem), x0, operator.encode(x0))
