"""What only exact projections guarantee, in numbers: certificates at ten contexts, and energies
over many steps.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.integrators import Galerkin, Hamiltonian, LatentDynamics
from romkit.projections import Path, Projection
from romkit.solvers import RK4, ImplicitMidpoint, Solver
from romkit.systems.problem import Problem
from romkit.tasks import Task

PIECES = 10
"""Pairs are drawn in so many pieces."""

STATES = 10
"""Of the motion, at which the lift is tested, about."""


@dataclass(frozen=True)
class Certificates(Task):
    """Bounds of a pretrained model at contexts drawn from its training range, and random pairs that
    might violate them.

    Attributes:
        method: of the pretrained model, ncae or flow.
        system: by name.
        radius: of the ball about the mean state, in its unit; infinite for all states.
        contexts: how many.
        pairs: of states and contexts, at each context, drawn from the balls, or from one twice as
            large as the data.
        share: radius of the ball of contexts, of half the length of the range's diagonal.
    """

    code_version: ClassVar[int] = 4
    method: str
    system: str
    radius: float
    contexts: int
    pairs: int
    share: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.system}-{self.method}-certificates-{self.radius:g}"

    def run(self) -> xr.Dataset:
        model = romkit.load(f"{self.method}-{self.system}").double().requires_grad_(False)
        system = romkit.systems.SYSTEMS[self.system]()
        low, high = np.array([(p.low, p.high) for p in system.context]).T
        drawn = torch.from_numpy(
            np.random.default_rng(0).uniform(low, high, size=(self.contexts, len(low)))
        )
        rows, reach = [], self.share * float(np.linalg.norm(high - low)) / 2
        for c in drawn:
            bounds = romkit.certify(model, c, radius=self.radius, context_radius=reach)
            stretched = [
                self._stretched(model, c, reach, bounds.sel(map=which))
                for which in bounds["map"].values
            ]
            rows.append(bounds.drop_attrs().assign(of_pairs=("map", stretched)))
        found = xr.concat(rows, "context", coords="minimal", compat="override", join="exact")
        named = {p.name: ("context", drawn[:, k].numpy()) for k, p in enumerate(system.context)}
        attrs = {
            "system": self.system,
            "method": self.method,
            "kind": "certificates",
            "context_radius": reach,
        }
        return found.assign_coords(named).assign_attrs(attrs)

    def _stretched(
        self, model: Projection, c: Tensor, context_radius: float, row: xr.Dataset
    ) -> float:
        """Return the largest ratio of what random pairs move to what the bounds of states and
        contexts allow.
        """
        frame, draw = model.frame, torch.Generator().manual_seed(1)
        center, reach, most = frame.state_shift, 2 * frame.state_scale.norm().item(), 0.0
        if row["map"] == "decoder":
            center = model(c).encode(center)
        reach = min(float(row.radius), reach)
        for _ in range(PIECES):
            a, b = _ball(center, reach, (2, self.pairs // PIECES), draw)
            at, there = _ball(c, context_radius, (2, self.pairs // PIECES), draw)
            moved = (_mapped(model, row, a, at) - _mapped(model, row, b, there)).norm(dim=-1)
            allowed = float(row.upper) * (a - b).norm(dim=-1)
            if context_radius:
                allowed += float(row.context_upper) * (at - there).norm(dim=-1)
            most = max(most, (moved / allowed).max().item())
        return most


def _mapped(model: Projection, row: xr.Dataset, x: Tensor, c: Tensor) -> Tensor:
    P = model.operator(c)
    return {"encoder": P.encode, "decoder": P.decode, "projection": P}[str(row["map"].values)](x)


def _ball(center: Tensor, radius: float, lead: tuple[int, ...], draw: torch.Generator) -> Tensor:
    """Return points (*lead, n), uniform in a ball."""
    n = len(center)
    directions = torch.randn(*lead, n, generator=draw, dtype=torch.float64)
    lengths = radius * torch.rand(*lead, 1, generator=draw, dtype=torch.float64) ** (1 / n)
    return center + lengths * directions / directions.norm(dim=-1, keepdim=True)


@dataclass(frozen=True)
class Energy(Task):
    """How the pendulum's reduced motion keeps its energy, with one dynamics and solver.

    Attributes:
        structure: True for Hamilton's equations and the midpoint rule, False for Galerkin's and
            RK4.
        dt: step, in s.
        steps: how many.
        every: energies are kept at each so manyth.
    """

    code_version: ClassVar[int] = 2
    structure: bool
    dt: float
    steps: int
    every: int

    @property
    def name(self) -> str:
        return f"pendulum-energy-{'midpoint' if self.structure else 'rk4'}-{self.dt:g}"

    def run(self) -> xr.Dataset:
        system, model = (
            romkit.systems.Pendulum(),
            romkit.load("ncae-pendulum").double().requires_grad_(False),
        )
        c = torch.tensor([[0.4, 0.5, 0.6, 0.5]], dtype=torch.float64)
        with torch.no_grad():
            problem = system.problem(Path.constant(model(c)), c)
            dynamics, solver = self._method()
            start = dynamics.start(problem, torch.zeros((), dtype=torch.float64), system.start(c))
            times = torch.arange(0, self.steps + 1, self.every, dtype=torch.float64) * self.dt
            solution = dynamics.solve(problem, start, times, solver=solver, engine="compiled")
            energy = system.energy(c)(*problem.decode(problem.path.at(times[0]), solution.states))[
                0
            ]
            symplecticity = _symplecticity(
                problem, solution.states[0, :: max(1, len(times) // STATES)]
            )
        found = {"energy_error": ("time", ((energy - energy[0]) / energy[0]).numpy())}
        attrs = {
            "kind": "energy",
            "solver": str(solver),
            "steps": self.steps,
            "symplecticity": symplecticity,
        }
        return xr.Dataset(found, {"time": times.numpy()}).assign_attrs(attrs)

    def _method(self) -> tuple[LatentDynamics, Solver]:
        return (
            (Hamiltonian(), ImplicitMidpoint(self.dt))
            if self.structure
            else (Galerkin(), RK4(self.dt))
        )


def _symplecticity(problem: Problem, states: Tensor) -> float:
    """Return largest entry of Dᵀ Ω D - Ω for the derivative D of the lift at latent states (K, 2m)."""
    P, t, H, errors = (
        problem.path.at(torch.zeros(())),
        torch.zeros((), dtype=torch.float64),
        Hamiltonian(),
        [],
    )
    for w in states:
        y = H.momentum(problem, t, w.unsqueeze(0))
        D = torch.func.jacfwd(lambda y: H.lift(problem, t, y))(y)[0, :, 0]
        errors.append((D.T @ _form(P.state_size) @ D - _form(P.latent_dim)).abs().max().item())
    return max(errors)


def _form(n: int) -> Tensor:
    return torch.kron(
        torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64),
        torch.eye(n, dtype=torch.float64),
    )
