"""Bifurcations and periods of reduced models beside those of the full models."""

from collections.abc import Callable

import numpy as np
import torch

import romkit
from romkit.data import ContextParameter
from romkit.integrators import DYNAMICS
from romkit.projections import Projection
from romkit.systems import CylinderWake, KuramotoSivashinsky, Lorenz96, System
from studies.runner import Numbers, Study, frozen
from studies.wake.data import BASIS
from studies.wake.stability import critical, full_growth

Found = dict[str, object]

RINGS = ((10.0, 12.0), (16.0, 14.0), (16.0, 18.0))
"""Lengths between which steady waves of one crest, and of two, change their stability."""

TRAINED = (8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 15.0, 16.0, 17.0, 17.5, 18.0)
"""Lengths of the rings whose waves, in all phases, make the basis."""

SIDES = ((3.155, 3.133), (3.17, 3.193))
"""Forcings along which the waves of number 8 and 7 are followed, away from the change between them."""


class Textbook(System):
    """A system of one parameter by its formula."""

    dt, duration, horizon = 0.01, 1.0, 1.0
    context = (ContextParameter("r", "1", -1.0, 1.0, "parameter"),)

    def __init__(self, formula, size):
        self.formula, self.name, self.state_names = (
            formula,
            "textbook",
            [f"x{k}" for k in range(size)],
        )

    def rhs(self, t, x, c):
        return torch.stack(self.formula(*x.unbind(-1), c[..., 0]), dim=-1)

    def initial_state(self, contexts, rng):
        return contexts.new_zeros(len(contexts), len(self.state_names))


def twisted(x, y, p, q, r):
    """Return a cycle of period 2π whose band has half a twist: it doubles its period at r = 0."""
    along, across, turn = ((1 + x) * p + y * q) / 2, (y * p + (1 - x) * q) / 2, 1 - x**2 - y**2
    growth = r - p * along - q * across
    first, second = growth * along - (p - along) - q / 2, growth * across - (q - across) + p / 2
    return [turn * x - y, turn * y + x, first, second]


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset."""
    rows = Study("regimes").presets[preset].items()
    return [
        Numbers(title, f"studies.regimes.tasks:{row.pop('of')}", frozen(row)) for title, row in rows
    ]


def textbook() -> Found:
    """Return parameters of bifurcations that are known in closed form."""
    brusselator = Textbook(lambda x, y, r: [1 - (r + 1) * x + x**2 * y, r * x - x**2 * y], 2)
    cusp, fork = Textbook(lambda x, r: [r + x - x**3], 1), Textbook(lambda x, r: [r * x - x**3], 1)
    cycle = {
        "kind": "orbits",
        "start": [1.0, 0.0, 0.0, 0.0],
        "period": 6.0,
        "points": 12,
        "steps": 200,
    }
    cases = {
        "Hopf point of the Brusselator": (
            romkit.continuation(brusselator, start=[1.0, 0.5], r=(0.5, 4.0)),
            2.0,
        ),
        "fold": (romkit.continuation(cusp, start=[-1.3], r=(-1.0, 1.0)), 2 / np.sqrt(27)),
        "pitchfork": (romkit.continuation(fork, start=[0.0], r=(-1.0, 1.0)), 0.0),
        "period doubling": (romkit.continuation(Textbook(twisted, 4), r=(-0.1, 0.2), **cycle), 0.0),
    }
    return {
        name: [float(branch["special_parameter"][0]), exact]
        for name, (branch, exact) in cases.items()
    }


def rings(rank: int, points: int = 100) -> Found:
    """Where steady waves on a ring change their stability: POD-Galerkin, and the full model beside
    it.

    Modes come from waves in all phases: turning the ring is then a symmetry of the reduced model,
    too.
    """
    system = KuramotoSivashinsky()
    data = system.dataset(L=TRAINED, duration=30.0)
    snapshots = torch.from_numpy(data["state"].values[:, ::20]).flatten(0, 1)
    basis = romkit.basis(torch.cat([snapshots.roll(k, -1) for k in range(system.n)]), rank)
    through, found = system.through(basis), []
    for first, last in RINGS:
        start = basis.encode(torch.from_numpy(data["state"].values[TRAINED.index(first), -1]))
        branch = romkit.continuation(through, start=start, points=points, L=(first, last))
        full = romkit.verify(branch, system)
        kinds, distance = branch["special_kind"].values, float(full["distance"].max())
        each = zip(
            kinds, branch["special_parameter"].values, full["special_parameter"].values, strict=True
        )
        turns = branch["frequency"].values
        found += [
            [str(kind), r, f, turn, distance]
            for (kind, r, f), turn in zip(each, turns, strict=True)
        ]
    return {"special": found}


def rings_by_flow() -> Found:
    """Hopf points of the shipped flow, from steady waves in several phases; those from which none
    is found are left.
    """
    system, flow = KuramotoSivashinsky(), romkit.load("flow-kuramoto-sivashinsky")
    state, found = system.dataset(L=16.0, duration=0.1)["state"].values[0, -1], []
    for turn in range(0, system.n // 2, 4):
        try:
            branch = romkit.continuation(
                flow, start=np.roll(state, turn), system=system, points=60, L=(16.0, 18.0)
            )
        except romkit.errors.InputError:
            continue
        hopf = branch["special_parameter"].values[branch["special_kind"].values == "Hopf"]
        found.append(float(hopf[0]) if len(hopf) else float("nan"))
    return {"phases": system.n // 8, "Hopf": found}


def wake(rank: int) -> Found:
    """Where the steady flow past the cylinder begins to shed vortices: POD-Galerkin in the modes of
    studies/wake.
    """
    system, basis = CylinderWake(), romkit.load(BASIS).truncated(rank)
    start = basis.encode(torch.from_numpy(system.steady(45.0)))
    branch = romkit.continuation(system.through(basis), start=start, Re=(45.0, 60.0))
    kinds = branch["special_kind"].values.tolist()
    first = kinds.index("Hopf")
    return {
        "kinds": kinds,
        "Re": float(branch["special_parameter"][first]),
        "frequency": float(branch["frequency"][first]),
        "full": critical(full_growth, np.array([49.0, 50.0])),
    }


def waves(model: str, dynamics: str, points: int = 60) -> Found:
    """Return periods of the waves of Lorenz96 on both sides of their change of number, by a shipped
    model.
    """
    projection = romkit.load(model)
    return periods(lambda first, last: projection, dynamics, points)


def waves_by_modes(ranks: tuple[int, int], points: int = 60) -> Found:
    """Return periods of the waves by POD-Galerkin, with as many modes of each wave of its own,
    which begins pure.
    """
    system, projections = Lorenz96(), {}
    for sides, number, rank in zip(SIDES, (8, 7), ranks, strict=True):
        F = np.linspace(*sides, 5)
        start = F[:, None] + np.sin(2 * np.pi * number * np.arange(system.n) / system.n)
        run = romkit.simulate(system, initial_state=start, F=F, duration=60.0).sel(
            time=slice(50.0, None)
        )
        projections[sides] = romkit.fit("pod", run, latent_dim=rank, verbose=False)
    return periods(lambda *sides: projections[sides], "galerkin", points)


def periods(
    projection_of: Callable[[float, float], Projection], dynamics: str, points: int
) -> Found:
    """Return periods of the waves on both sides of their change of number, by the projection for
    each.
    """
    system, found = Lorenz96(), {}
    for first, last in SIDES:
        projection = projection_of(first, last)
        state = system.start(torch.tensor([[first]], dtype=torch.float64))[0]
        settled = {"initial_state": state[0], "duration": 30.0, "dt": 0.01, "F": first}
        reduced = {"dynamics": DYNAMICS[dynamics](), "system": system}
        latent = romkit.forecast(projection, **settled, **reduced)["latent"].values[-1]
        period = 3.09 if first < 3.163 else 2.55
        branch = romkit.continuation(
            projection,
            kind="orbits",
            start=latent,
            period=period,
            points=points,
            steps=200,
            **reduced,
            F=(first, last),
        )
        full = romkit.verify(branch, system, every=4)
        at = full["point"].values
        found[f"{first} to {last}"] = {
            "F": full["F"].values.tolist(),
            "reduced": branch["period"].values[at].tolist(),
            "full": full["period"].values.tolist(),
            "stable": [bool(each) for each in branch["stable"].values[at]],
            "distance": float(full["distance"].max()),
        }
    return found
