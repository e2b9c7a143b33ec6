"""Full and reduced models as first-order fields, as branches and filters see them."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.errors import InputError
from romkit.core.types import Array, Field
from romkit.integrators import LatentField
from romkit.models.match import Dynamics, check_field
from romkit.models.reduced import ReducedModel
from romkit.projections import Projection
from romkit.projections.storage import check_single
from romkit.solvers import Solver
from romkit.systems import System


class FullModel:
    """A full model of first order.

    Attributes:
        names: of the components of the state; a velocity stands behind its state.
        context_names: of the parameters.
        units: of the parameters, by name.
        order: 1, or 2 of a mechanical system.
        span: of time that its runs take.
        domain: states that its field is known at; None where that is everywhere.
    """

    domain = None

    def __init__(self, system: System):
        self.system = system
        self.order = system.order
        self.span = max(system.duration, system.horizon)
        self.names = list(system.phase_names)
        self.context_names = system.context_names
        self.units = {parameter.name: parameter.units for parameter in system.context}

    def field(self, c: Tensor) -> Field:
        """f(t, w) at contexts (B, p)."""
        return self.system.phase_field(c)

    def solver(self, c: Tensor) -> Solver:
        """Solver at contexts (B, p)."""
        return self.system.solver_at(c)

    def decode(self, c: Tensor, w: Tensor) -> Tensor | None:
        """Return states (B, n) of the full model behind a basis; None without a basis."""
        basis = self.system.basis
        if basis is None:
            return None
        return basis.decode(w)

    def encode(self, c: Tensor, states: Sequence[Tensor]) -> Tensor:
        """First-order states (B, d) of states, and of velocities, (B, n)."""
        return torch.cat(tuple(states), dim=-1)

    def start(self, c: Tensor, start: Tensor) -> Array:
        """First-order state (d,) of a user's."""
        _check_one_state(start, [len(self.names)])
        return start.double().numpy()

    def typical(self, c: Tensor) -> Array:
        """Return a state (d,) of the size that the system has."""
        initial: object = self.system.initial_state(c, None)
        if not isinstance(initial, tuple):
            initial = (tensors.tensor("initial_state", initial),)
        rows = [values[0].double().reshape(-1) for values in initial]
        state = torch.cat(rows).numpy()
        size = len(self.names)
        # behind a basis a system may start from full states
        if len(state) != size:
            return np.zeros(size)
        return state


class LatentModel:
    """A latent field of first order.

    Attributes are those of `FullModel`, and

    Attributes:
        reduced: the reduced model, at no context yet.
        size: d, of the latent state.

    Raises:
        InputError: a stack of projections; dynamics without a field.
    """

    def __init__(self, projection: Projection, dynamics: Dynamics | None, system: System | None):
        # span of time in which a latent field, whose runs may take any, is asked for a pulse
        span = 100.0
        check_single(projection)
        self.reduced = ReducedModel.build(projection, dynamics, system)
        check_field(self.reduced.dynamics)
        frame = projection.frame
        self.order = self.reduced.order
        self.size = self.reduced.latent_size
        self.names = [f"z{k}" for k in range(self.size)]
        self.context_names = frame.context_names
        self.units = dict(zip(frame.context_names, frame.context_units, strict=True))
        self.span = span
        self.domain = self.reduced.dynamics.domain

    def field(self, c: Tensor) -> Field:
        """f(t, w) at contexts (B, p)."""
        problem = self.reduced.fix_context(c).problem
        dynamics = self.reduced.dynamics
        assert isinstance(dynamics, LatentField)
        return dynamics.field(problem)

    def solver(self, c: Tensor) -> None:
        """None: any solver will do."""

    def decode(self, c: Tensor, w: Tensor) -> Tensor:
        """Return states (B, n) of the full model, or of its image in a basis."""
        states = self.reduced.fix_context(c).decode(w)
        return torch.cat(states, -1)

    def encode(self, c: Tensor, states: Sequence[Tensor]) -> Tensor:
        """Latent states (B, d) of full states, and of velocities, (B, n)."""
        latents = torch.zeros((), dtype=torch.float64)
        return self.reduced.fix_context(c).start(latents, tuple(states))

    def start(self, c: Tensor, start: Tensor) -> Array:
        """Latent state (d,) of a latent or a full one."""
        if start.shape == (self.size,):
            return start.double().numpy()
        full = self.order * len(self.reduced.projection.frame.state_names)
        _check_one_state(start, [self.size, full])
        states = start.double().unsqueeze(0).chunk(self.order, -1)
        return self.encode(c, states)[0].numpy()

    def typical(self, c: Tensor) -> Array:
        """Zeros: latent coordinates have no size of their own."""
        return np.zeros(self.size)


def _check_one_state(start: Tensor, sizes: Sequence[int]) -> None:
    """Raise where a start is not one state of one of these sizes."""
    if start.ndim == 1 and len(start) in sizes:
        return
    shapes = " or ".join(f"({size},)" for size in sizes)
    raise InputError(
        "start",
        expected=f"one state {shapes}",
        got=f"shape {tuple(start.shape)}",
        fix="give the last state of a run, say",
    )


Model = FullModel | LatentModel


def find_model(
    source: System | Projection, dynamics: Dynamics | None, system: System | None
) -> Model:
    """Return model of a source: a system, or a projection with its dynamics.

    Raises:
        InputError: dynamics or a system beside a system; dynamics without a field.
    """
    if isinstance(source, Projection):
        return LatentModel(source, dynamics, system)
    fix = "give it with a projection, or drop it"
    checks.absent("beside a system", fix, dynamics=dynamics, system=system)
    return FullModel(source)
