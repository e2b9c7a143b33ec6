"""A system as it is seen through a basis: a system of its coordinates."""

import numpy as np
import torch
from torch import Tensor

from romkit.bases import Basis, weigher
from romkit.broadcast import align
from romkit.errors import InputError
from romkit.problem import Parts
from romkit.systems.base import System
from romkit.systems.quadratic import Projected, Quadratic
from romkit.types import ContextFunction, Field

METRIC = 1e-8
"""Largest error of Vᵀ W V = I in the metric of the system."""


class SystemThroughBasis(System):
    """ẏ = Vᵀ W f(x̄ + V y; c): Galerkin projection onto a basis, which is orthonormal in the metric W of the system.

    Where f is a polynomial, tensors of r coordinates replace it without error, and nothing but `start` depends on n.
    Galerkin and Petrov-Galerkin dynamics of a projection behind the basis see nothing else of the full model: on this
    system they are what they are on the full one.

    Args:
        system: that gives its terms.
        basis: of its states.

    Attributes:
        full: the system.
        basis: the basis.

    Raises:
        InputError: a system without terms, of second order, of other states or with another metric than the basis.

    Source: Holmes, Lumley, Berkooz, Rowley (2012), Turbulence, Coherent Structures, Dynamical Systems and Symmetry,
    section 4.
    """

    transient = 0.0

    def __init__(self, system: System, basis: Basis):
        check_fits(system, basis)
        terms = system.terms()
        if not terms:
            fix = f"write terms() of {type(system).__name__}, or roll out in full space"
            raise InputError("system", expected="one that gives its terms", got=f"{system.name} without", fix=fix)
        self.full, self.basis = system, basis
        self.name, self.context, self.time_units = f"{system.name}-through-basis", system.context, system.time_units
        self.context_may_move = system.context_may_move
        self.dt, self.duration, self.horizon = system.dt, system.duration, system.horizon
        self.projected = Projected(terms, basis)

    @property
    def state_names(self) -> list[str]:
        """y0, ..., y{r-1}, from the largest to the smallest singular value."""
        return [f"y{k}" for k in range(self.basis.rank)]

    @property
    def state_units(self) -> list[str]:
        """That of the states, if they share one, times that of the root of the weight."""
        units = {*self.full.state_units}
        return [units.pop() if len(units) == 1 else "mixed"] * self.basis.rank

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        return self.projected.at(c)(x)

    def field(self, context: Tensor | float | ContextFunction | None = None, **named: object) -> Field:
        if callable(context):
            return super().field(context)
        c = self._context_tensor(context, named)
        return lambda t, x: self.projected.at(align(c.to(x), x))(x)

    def quadratic(self, context: Tensor) -> Quadratic:
        return self.projected.at(context)

    def initial_state(self, contexts: Tensor, rng: np.random.Generator | None) -> Tensor:
        return self.basis.encode(self.full.initial_state(contexts, rng))

    def start(self, contexts: Tensor, rng: np.random.Generator | None = None) -> Parts:
        return tuple(self.basis.encode(part) for part in self.full.start(contexts, rng))

    def train_contexts(self, rng: np.random.Generator) -> np.ndarray:
        return self.full.train_contexts(rng)

    def test_contexts(self) -> np.ndarray:
        return self.full.test_contexts()


def check_fits(system: System, basis: Basis) -> None:
    """Raise InputError unless the basis is one of the states of the system, orthonormal in its metric."""
    if system.order != 1:
        fix = "write it as ẋ = f(x)"
        raise InputError("system", expected="a first-order one", got=f"{system.name}, of second order", fix=fix)
    if system.state_size != basis.size:
        expected, fix = f"a basis of {system.state_size} components, as {system.name} has", "use one of its data"
        raise InputError("basis", expected=expected, got=f"one of {basis.size}", fix=fix)
    gram = basis.modes.mT @ weigher(system.weight, basis.size)(basis.modes)
    error = (gram - torch.eye(basis.rank, dtype=gram.dtype)).abs().max().item()
    if error > METRIC or (type(system).weigh is not System.weigh and system.weight is None):
        fix = "make it with romkit.basis(data, weight=system.weight)"
        got = f"Vᵀ W V = I up to {error:.1e}"
        raise InputError("basis", expected=f"modes orthonormal in the metric of {system.name}", got=got, fix=fix)
