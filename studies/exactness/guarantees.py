"""What only exact projections guarantee, in numbers: certificates at ten contexts, and energies over many steps."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.integrators import Galerkin, Hamiltonian, LatentDynamics
from romkit.problem import ConstantPath, Problem
from romkit.projections import Operator
from romkit.solvers import RK4, ImplicitMidpoint, Solver
from studies.runner import Task

PIECES = 10
"""Pairs are drawn in so many pieces."""

STATES = 10
"""Of the motion, at which the lift is tested, about."""


@dataclass(frozen=True)
class Certificates(Task):
    """Bounds of a pretrained NcAE at contexts drawn from its training range, and random pairs that might violate them.

    Attributes:
        system: by name.
        radius: of the ball about the mean state, in its unit; infinite for all states.
        contexts: how many.
        pairs: of states, at each context, drawn from the ball, or from one that is twice as large as the data.
    """

    code_version: ClassVar[int] = 1
    system: str
    radius: float
    contexts: int
    pairs: int

    @property
    def name(self) -> str:
        return f"{self.system}-certificates"

    def run(self) -> xr.Dataset:
        model = romkit.load(f"ncae-{self.system}").double().requires_grad_(False)
        system = romkit.systems.SYSTEMS[self.system]()
        low, high = np.array([(p.low, p.high) for p in system.context]).T
        drawn = torch.from_numpy(np.random.default_rng(0).uniform(low, high, size=(self.contexts, len(low))))
        rows = []
        for c in drawn:
            bounds = romkit.certify(model, c, radius=self.radius)
            stretched = [self._stretched(model(c), model, row) for row in bounds["map"].values]
            rows.append(bounds.drop_attrs().assign(of_pairs=("map", stretched)))
        found = xr.concat(rows, "context", coords="minimal", compat="override", join="exact")
        named = {p.name: ("context", drawn[:, k].numpy()) for k, p in enumerate(system.context)}
        return found.assign_coords(named).assign_attrs(system=self.system, kind="certificates")

    def _stretched(self, P: Operator, model: romkit.projections.Projection, which: str) -> float:
        """The largest ratio of distances over random pairs."""
        normalization, draw = model.normalization, torch.Generator().manual_seed(1)
        reach, most = min(self.radius, 2 * normalization.state_scale.norm().item()), 0.0
        map_, center = {
            "encoder": (P.encode, normalization.state_shift),
            "decoder": (P.decode, P.encode(normalization.state_shift)),
            "projection": (P, normalization.state_shift),
        }[which]
        for _ in range(PIECES):
            a, b = _ball(center, reach, (2, self.pairs // PIECES), draw)
            most = max(most, ((map_(a) - map_(b)).norm(dim=-1) / (a - b).norm(dim=-1)).max().item())
        return most


def _ball(center: Tensor, radius: float, lead: tuple[int, ...], draw: torch.Generator) -> Tensor:
    """Points (*lead, n), uniform in a ball."""
    n = len(center)
    directions = torch.randn(*lead, n, generator=draw, dtype=torch.float64)
    lengths = radius * torch.rand(*lead, 1, generator=draw, dtype=torch.float64) ** (1 / n)
    return center + lengths * directions / directions.norm(dim=-1, keepdim=True)


@dataclass(frozen=True)
class Energy(Task):
    """How the pendulum's reduced motion keeps its energy, with one dynamics and solver.

    Attributes:
        structure: True for Hamilton's equations and the midpoint rule, False for Galerkin's and RK4.
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
        system, model = romkit.systems.Pendulum(), romkit.load("ncae-pendulum").double().requires_grad_(False)
        c = torch.tensor([[0.4, 0.5, 0.6, 0.5]], dtype=torch.float64)
        with torch.no_grad():
            problem = system.problem(ConstantPath(model(c)), c)
            dynamics, solver = self._method()
            start = dynamics.start(problem, torch.zeros((), dtype=torch.float64), system.start(c))
            times = torch.arange(0, self.steps + 1, self.every, dtype=torch.float64) * self.dt
            solution = dynamics.solve(problem, start, times, solver=solver, engine="compiled")
            energy = system.energy(c)(*problem.decode(problem.path.at(times[0]), solution.states))[0]
            symplecticity = _symplecticity(problem, solution.states[0, :: max(1, len(times) // STATES)])
        found = {"energy_error": ("time", ((energy - energy[0]) / energy[0]).numpy())}
        attrs = {"kind": "energy", "solver": str(solver), "steps": self.steps, "symplecticity": symplecticity}
        return xr.Dataset(found, {"time": times.numpy()}).assign_attrs(attrs)

    def _method(self) -> tuple[LatentDynamics, Solver]:
        return (Hamiltonian(), ImplicitMidpoint(self.dt)) if self.structure else (Galerkin(), RK4(self.dt))


def _symplecticity(problem: Problem, states: Tensor) -> float:
    """Largest entry of Dᵀ Ω D - Ω for the derivative D of the lift at latent states (K, 2m)."""
    P, t, H, errors = problem.path.at(torch.zeros(())), torch.zeros((), dtype=torch.float64), Hamiltonian(), []
    for w in states:
        y = H.momentum(problem, t, w.unsqueeze(0))
        D = torch.func.jacfwd(lambda y: H.lift(problem, t, y))(y)[0, :, 0]
        errors.append((D.T @ _form(P.state_size) @ D - _form(P.latent_dim)).abs().max().item())
    return max(errors)


def _form(n: int) -> Tensor:
    return torch.kron(torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64), torch.eye(n, dtype=torch.float64))
