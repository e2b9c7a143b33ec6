"""The channel flow past a cylinder, from the steady flow to vortex shedding, over the Reynolds
number.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import torch
import xarray as xr
from annotated_types import Ge, Le
from numpy.random import Generator
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import NotNegative, Positive, validated
from romkit.core.broadcast import align
from romkit.core.runtime import track
from romkit.core.types import Args, Array, ContextFunction, Field, TensorMap, TensorTuple
from romkit.data import ContextParameter, context_matrix, trajectories
from romkit.solvers.base import Prepared, Solver, is_bounded
from romkit.systems.base import System
from romkit.systems.cylinder_wake.elements import (
    MESHES,
    Discretisation,
    Matrix,
    convected,
    discretisation,
)
from romkit.systems.cylinder_wake.flow import integrate, steady
from romkit.systems.terms import Term

Map = Callable[[Array], Array]
"""A linear map of rows: (B, n) to (B, k), float64."""


class LinearMap(torch.autograd.Function):
    """x (..., n) -> (..., k) by a linear map of rows in NumPy, with its transpose for gradients.

    It computes in float64 on the CPU, and gives back the precision of x.
    """

    @classmethod
    def build(cls, matrix: Matrix) -> TensorMap:
        """x -> A x along the last axis."""
        return lambda x: cls.apply(
            x, lambda rows: (matrix @ rows.T).T, lambda rows: (matrix.T @ rows.T).T
        )

    @classmethod
    def symmetric(cls, function: Map) -> TensorMap:
        """Return a map that is its own transpose."""
        return lambda x: cls.apply(x, function, function)

    @staticmethod
    def forward(x: Tensor, function: Map, transposed: Map) -> Tensor:
        rows = x.detach().reshape(-1, x.shape[-1]).to("cpu", torch.float64).numpy()
        image = torch.from_numpy(np.ascontiguousarray(function(rows))).to(x)
        return image.reshape(*x.shape[:-1], -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: Args, output: Tensor) -> None:
        ctx.function, ctx.transposed = inputs[1:]

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: object) -> Tensor:
        return LinearMap.apply(tangent, ctx.function, ctx.transposed)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return LinearMap.apply(gradient, ctx.transposed, ctx.function), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: Args, x: Tensor, function: Map, transposed: Map
    ) -> tuple[Tensor, int]:
        return LinearMap.apply(x.movedim(in_dims[0], 0), function, transposed), 0


DIAMETER = 0.1
"""Diameter of the cylinder in m; with the mean inflow of 1 m/s, Re = 0.1 / ν."""

FORCE = 2 / DIAMETER
"""Factor from a force per density to a coefficient, 2 F / (ρ U² D)."""

Reynolds = Annotated[float, Ge(1), Le(10_000)]


@validated
@dataclass(frozen=True)
class CylinderWake(System):
    """u_t + (u · ∇) u = -∇p + ν ∇²u,  ∇ · u = 0,  in a channel of 2.2 m x 0.41 m with a cylinder,
    Re = 0.1 / ν.

    The flow of Schäfer and Turek (1996), 2D-2, at any Reynolds number: parabolic inflow of mean 1
    m/s, no slip on walls and cylinder, no stress at the outlet. Taylor-Hood finite elements; the
    state is the velocity at all nodes, boundaries included, and its metric the mass matrix.
    Pressure is no part of it: differences of states are free of divergence, and such modes do not
    see it. Trajectories start from the steady flow with a whirl behind the cylinder, and lead
    through the transient to the shedding of vortices. Time steps are of second order, implicit but
    for convection.

    Needs scikit-fem: `pip install -e ".[flow]"`.

    Args:
        mesh: one of `MESHES`: "coarse" (n = 2460), "standard" (7142), "fine" (16 934 or so).
        disturbance: velocity of the whirl in m/s.
        step: of the full model in s; convection limits it, to 0.0005 on the standard mesh.
        dt: sampling interval in s.
        transient: in which the whirl leaves through the outlet.
        duration: length of the recorded trajectories.

    What you should see: a steady wake up to Re of about 50, above it a street of vortices with a
    Strouhal number that rises from 0.27 to 0.31. Drag, lift and Strouhal number at Re = 100 on each
    mesh are in studies/wake/RESULTS.md.
    Source: Schäfer, Turek (1996), Benchmark computations of laminar flow around a cylinder.

    Example:
        >>> import romkit
        >>> wake = romkit.systems.CylinderWake(mesh="coarse")
        >>> wake.state_size, wake.context_names, wake.time_units
        (2460, ('Re',), 's')
    """

    mesh: Annotated[str, checks.choice(MESHES)] = "standard"
    disturbance: NotNegative = 0.3
    step: Positive = 0.0005
    dt: Positive = 0.008
    transient: NotNegative = 2.0
    duration: Positive = 10.0
    horizon: Positive = 10.0

    name = "cylinder-wake"
    only_solver = "BDF2, convection extrapolated"
    context = (ContextParameter("Re", "1", 30.0, 150.0, "Reynolds number of the mean inflow"),)
    context_may_move = False
    time_units = "s"

    @property
    def flow(self) -> Discretisation:
        """The finite elements."""
        return discretisation(self.mesh)

    @functools.cached_property
    def state_names(self) -> list[str]:
        """u0, v1, ...: velocity along the channel or across, and number."""
        return [f"{'uv'[along]}{k}" for k, along in enumerate(self.flow.along)]

    @property
    def state_units(self) -> list[str]:
        """Velocities."""
        return ["m/s"] * self.flow.n

    @property
    def state_size(self) -> int:
        """n."""
        return self.flow.n

    @property
    def weight(self) -> Matrix:
        """The mass matrix in m²: uᵀ W u is twice the kinetic energy per density and depth."""
        return self.flow.mass

    def weigh(self, x: Tensor, u: Tensor, c: Tensor) -> Tensor:
        return self._linear("mass")(u.mT).mT

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        friction = DIAMETER / c * self._linear("stiffness")(x)
        return self._free(-self._convection(x, x) - friction)

    def terms(self) -> tuple[Term, ...]:
        def convection(x: Tensor, y: Tensor) -> Tensor:
            return -self._convection(x, y)

        def friction(x: Tensor) -> Tensor:
            return -self._linear("stiffness")(x)

        viscosity = lambda c: DIAMETER / c  # noqa: E731
        return (
            Term(2, convection, symmetric=self._free),
            Term(1, friction, viscosity, symmetric=self._free),
        )

    @validated
    def forces(self, x: Tensor, c: Tensor) -> Tensor:
        """Return coefficients of drag and lift (..., 2) of states (..., n) at contexts (..., p)."""
        checks.last_axis("x", x.shape, self.state_size, "the components of the state")
        checks.last_axis("c", c.shape, 1, "the Reynolds number")
        c = align(c, x)
        tensors.broadcast(x=x[..., 0], c=c[..., 0])
        friction = DIAMETER / c * self._linear("stiffness")(x)
        load = self._convection(x, x) + friction
        functionals = torch.from_numpy(self.flow.force_functionals).to(x)
        return -FORCE * load @ functionals

    def annotate(self, data: xr.Dataset) -> xr.Dataset:
        contexts = torch.from_numpy(context_matrix(data))
        states = trajectories(data, "state")
        coefficients = self.forces(states, contexts).numpy()  # (C, T, 2)
        for k, name in enumerate(("drag", "lift")):
            attrs = {"units": "1", "long_name": f"{name} coefficient"}
            data[name] = (("trajectory", "time"), coefficients[..., k], attrs)
        return data

    def train_contexts(self, rng: Generator) -> Array:
        """Denser where shedding sets in."""
        reynolds = [30.0, 40.0, 45.0, 52.0, 60.0, 70.0, 85.0, 100.0, 120.0, 150.0]
        return np.array(reynolds)[:, None]

    def initial_state(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        flow = self.flow
        # behind the cylinder, in m and m²
        distance = ((flow.places - (0.35, 0.25)) ** 2).sum(-1)
        whirl = self.disturbance * np.exp(-distance / 0.002)
        fixed = np.setdiff1d(np.arange(flow.n), flow.free)
        whirl[fixed] = 0
        # all velocities are free of divergence, and so is what disturbs them
        divergence = flow.divergence @ whirl
        whirl -= flow.solve(flow.leray, np.zeros(flow.n), divergence)
        starts = [self.steady(reynolds) + whirl for reynolds in contexts[:, 0].tolist()]
        return torch.from_numpy(np.stack(starts))

    @validated
    def steady(self, reynolds: Reynolds) -> Array:
        """(n,) the steady flow, stable or not.

        Raises:
            InputError: Newton's method does not find it: at Reynolds numbers far beyond those of
                training.
        """
        return _steady(self.mesh, reynolds).copy()

    def default_solver(self, context: Tensor | ContextFunction) -> Solver:
        assert isinstance(context, Tensor)  # that stays
        return BDF2(self.flow, self.step, DIAMETER / context[..., 0])

    def _linear(self, name: str) -> TensorMap:
        return LinearMap.build(getattr(self.flow, name))

    def _free(self, tested: Tensor) -> Tensor:
        """Return the divergence-free velocities whose products with all others are these."""
        flow = self.flow

        def free(rows: Array) -> Array:
            return flow.solve(flow.leray, rows.T).T

        return LinearMap.symmetric(free)(tested)

    def _convection(self, x: Tensor, y: Tensor) -> Tensor:
        """∫ (x · ∇) y · test."""
        changes = convected(self._point_values(x), self._point_values(y))
        return self._linear("tested")(torch.cat(changes, dim=-1))

    def _point_values(self, x: Tensor) -> TensorTuple:
        """u, v, uₓ, u_y, vₓ and v_y (..., q) at the quadrature points."""
        sampled = self._linear("sampled")(x)
        return sampled.unflatten(-1, (6, -1)).unbind(-2)


@functools.lru_cache(maxsize=64)
def _steady(mesh: str, reynolds: float) -> Array:
    return steady(discretisation(mesh), DIAMETER / reynolds)


@dataclass(frozen=True, eq=False)
class BDF2(Solver):
    """Time steps of second order, implicit but for convection, which is extrapolated; a viscosity
    for each member.
    """

    flow: Discretisation = field(repr=False)
    step: float
    viscosity: Tensor = field(repr=False)

    divergence_threshold = 1e3

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        def run(y: Tensor, times: Tensor) -> Tensor:
            shape = (len(times), *y.shape)
            states = y.new_full(shape, torch.nan)
            n = y.shape[-1]
            runs = states.view(len(times), -1, n)
            members = runs.unbind(1)
            starts = y.reshape(-1, n)
            viscosities = self.viscosity.flatten().tolist()
            for member, start, nu in zip(members, starts, viscosities, strict=True):
                self._fill(member, start, nu, times, label)
            return states

        return run, "SciPy"

    def _fill(self, states: Tensor, start: Tensor, nu: float, times: Tensor, label: str) -> None:
        """Write the states (T, n) of a member, until it is lost."""
        samples = integrate(self.flow, start.numpy(), nu, times.numpy(), self.step)
        for i in track(range(len(times)), f"{label}, Re = {DIAMETER / nu:g}"):
            states[i] = torch.from_numpy(next(samples))
            if not bool(is_bounded(states[i], self.divergence_threshold)):
                return
