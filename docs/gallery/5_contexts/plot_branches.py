"""Where a steady state loses its stability
========================================

`romkit.continuation` follows an equilibrium along the context and finds its bifurcations. The example is the
temperature of a stirred reactor, a system of three lines, which ignites at one fold and goes out at another.
"""

import torch

import romkit
from romkit.data import ContextParameter
from romkit.plotting import plot_branches
from romkit.systems import System


class Reactor(System):
    """dx/dt = -x + D (B - x) exp(x / (1 + x / γ)) for the temperature x above that of the feed; B = 12, γ = 20."""

    name, state_names = "stirred reactor", ["temperature"]
    context = (ContextParameter("D", "1", 0.0, 0.2, "Damköhler number"),)
    dt, duration, horizon = 0.01, 10.0, 10.0

    def rhs(self, t, x, c):
        return -x + c * (12 - x) * torch.exp(x / (1 + x / 20))

    def initial_state(self, contexts, rng):
        return contexts.new_zeros(len(contexts), 1)


branch = romkit.continuation(Reactor(), start=[0.0], D=(0.001, 0.1), points=400)
for kind, D in zip(branch.special_kind.values, branch.special_parameter.values, strict=True):
    print(f"{kind} at D = {D:.4f}")
figure = plot_branches(branch)
