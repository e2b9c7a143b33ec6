"""Observations to infer contexts from: noisy windows of the full model, and the bound for their
contexts.
"""

import functools
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.integrators import DYNAMICS
from romkit.systems import SYSTEMS, System
from studies.pretrained.models import HELD_OUT_RE, UNSEEN_RE
from studies.wake import data as wake
from studies.wake.reduced import LAST

DIRECTIONS, STEP = 12, 1e-5
"""Random directions of the initial state that are unknown to the bound, and step of its
differences.
"""


@dataclass(frozen=True)
class Case:
    """Observations of one kind.

    Attributes:
        system, projection: names.
        training: number of contexts with known values, at random in the range of the projection.
        draws: number of observed trajectories, each at a context of its own.
        duration, interval: of the window; a duration of 0 is a snapshot.
        sensors: number of observed components.
        noise: standard deviation, relative to that of the states in training, root mean square over
            components.
        settling: time before the earliest window in which the state forgets where it began.
        spare: time within which a window begins at random.
        seed: of contexts, initial states, phases and noise.
        placed: name of the dynamics by which `romkit.sensors` chooses the sensors; evenly spaced
            without.
    """

    system: str
    projection: str
    training: int
    draws: int
    duration: float
    interval: float
    sensors: int
    noise: float
    settling: float
    spare: float
    seed: int
    placed: str = ""

    @functools.cached_property
    def model(self) -> System:
        """The full model."""
        return SYSTEMS[self.system]()

    @property
    def count(self) -> int:
        """Number of times of a window."""
        return round(self.duration / self.interval) + 1

    @functools.cached_property
    def reduced(self) -> romkit.projections.Projection:
        """The projection."""
        return romkit.load(self.projection)

    def pod(self, modes: int) -> romkit.projections.Projection:
        """Modes of the known states of a ring, turned by every fourth point, so that the model has
        its symmetry.
        """
        some = self.known.isel(time=slice(None, None, 5))
        turned = [some.roll(component=turn) for turn in range(0, some.sizes["component"], 4)]
        return romkit.fit("pod", xr.concat(turned, "trajectory"), latent_dim=modes, verbose=False)

    @functools.cached_property
    def known(self) -> xr.Dataset:
        """Trajectories with known contexts."""
        return self.runs(self.contexts(self.training, self.seed), self.seed)

    @functools.cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise, in the unit of the state."""
        return self.noise * float(np.sqrt(self.known.state.values.var((0, 1)).mean()))

    @functools.cached_property
    def rows(self) -> list[int]:
        """Numbers of the sensors."""
        n = len(self.reduced.frame.state_names)
        if not self.placed:
            return np.arange(0, n, n / self.sensors).astype(int).tolist()
        given = {
            "training": self.known,
            "noise": self.sigma,
            "times": np.arange(self.count) * self.interval,
        }
        given |= {"dynamics": DYNAMICS[self.placed](), "system": self.full}
        return romkit.sensors(self.reduced, self.sensors, **given).component.values.tolist()

    @property
    def full(self) -> System:
        """System of the components that sensors see."""
        return self.model

    def contexts(
        self, count: int, seed: int, beyond: tuple[float, float] | tuple = ()
    ) -> np.ndarray:
        """(count, p) at random in the range of the projection, or beyond its ends by these parts of
        its width.
        """
        rng, frame = np.random.default_rng(seed), self.reduced.frame
        share = rng.uniform(-1, 1, size=(count, len(frame.context_names)))
        if beyond:
            share = np.where(share < 0, -1, 1) * (1 + 2 * rng.uniform(*beyond, size=share.shape))
        return (
            (frame.context_shift + frame.context_scale * torch.from_numpy(share)).double().numpy()
        )

    def runs(self, contexts: np.ndarray, seed: int) -> xr.Dataset:
        """Return trajectories at these contexts, from random initial states, sampled at the
        interval.
        """
        parts = self.model.start(torch.from_numpy(contexts), np.random.default_rng(seed))
        return self._simulated(parts, contexts, self.settling + self.spare + self.duration)

    def _simulated(
        self, parts: tuple, contexts: np.ndarray, duration: float, dt: float | None = None
    ) -> xr.Dataset:
        given = dict(zip(self.model.context_names, contexts.T, strict=True))
        given |= dict(zip(("initial_state", "initial_velocity"), parts, strict=False))
        return romkit.simulate(self.model, duration=duration, dt=dt or self.interval, **given)

    def windows(
        self, beyond: tuple[float, float] | tuple = (), before: float = 0.0
    ) -> tuple[xr.Dataset, np.ndarray]:
        """Windows of trajectories of the full model, which begin some time before, and contexts
        (draws, p).
        """
        contexts, rng = (
            self.contexts(self.draws, self.seed + 1, beyond),
            np.random.default_rng(self.seed + 3),
        )
        runs, early = self.runs(contexts, self.seed + 2), round(before / self.interval)
        first = round(self.settling / self.interval) - early
        starts = first + rng.integers(round(self.spare / self.interval) + 1, size=self.draws)
        at = xr.DataArray(
            starts[:, None] + np.arange(early + self.count), dims=("trajectory", "time")
        )
        rows = xr.DataArray(np.arange(self.draws), dims="trajectory")
        variables = {
            name: runs[name].isel(trajectory=rows, time=at).drop_vars("time")
            for name in runs.data_vars
        }
        times = np.arange(early + self.count) * self.interval
        return xr.Dataset(variables).assign_coords(
            time=times, component=runs.component.values
        ), contexts

    def seen(self, states: np.ndarray) -> np.ndarray:
        """Components of the full state by those of the model; linear, but for a constant."""
        return states

    def observed(self, beyond: tuple[float, float] | tuple = ()) -> tuple[xr.Dataset, np.ndarray]:
        """Noisy windows of all components, and their contexts (draws, p)."""
        windows, contexts = self.windows(beyond)
        x = self.seen(windows.state.values)
        x = x + self.sigma * np.random.default_rng(self.seed + 4).standard_normal(x.shape)
        coords = {"time": windows.time.values, "component": list(self.reduced.frame.state_names)}
        return xr.Dataset({"state": (("trajectory", "time", "component"), x)}, coords), contexts

    @functools.cached_property
    def inside(self) -> tuple[xr.Dataset, np.ndarray]:
        """Observations within the range, and their contexts."""
        return self.observed()

    def bound(self) -> np.ndarray:
        """Cramer-Rao bounds (draws, p) for standard errors, where neither context nor initial state
        is known.

        The initial state, at the beginning of the settling time, is unknown along random
        directions, which span all those that are not forgotten until the window. Derivatives are
        differences of the full model's trajectories.
        """
        windows, contexts = self.windows(before=self.settling)
        names, p = ("state", "velocity")[: self.model.order], contexts.shape[1]
        start = np.stack([windows[name].values[:, 0] for name in names], axis=1).astype(
            float
        )  # (draws, order, n)
        spread = np.stack([windows[name].values.std((0, 1)) for name in names])
        rng, half = np.random.default_rng(0), self.reduced.frame.context_scale.double().numpy()
        moves = STEP * rng.standard_normal((DIRECTIONS, *spread.shape)) * spread / DIRECTIONS**0.5
        x = np.tile(start, (2, p + DIRECTIONS, 1, 1, 1))
        c = np.tile(contexts, (2, p + DIRECTIONS, 1, 1))
        for k, side in enumerate((1, -1)):
            x[k, p:] += side * moves[:, None]
            c[k, range(p), :, range(p)] += side * STEP * half[:, None]
        parts, rows = list(x.reshape(-1, *spread.shape).swapaxes(0, 1)), c.reshape(-1, p)
        if self.settling:
            settled = self._simulated(parts, rows, self.settling, self.settling)
            parts = [settled[name].values[:, -1] for name in names]
        ends = (
            parts[0][:, None]
            if self.count == 1
            else self._simulated(parts, rows, self.duration).state.values
        )
        ends = self.seen(ends)[..., self.rows].reshape(*x.shape[:3], -1)
        slopes = ((ends[0] - ends[1]) / (2 * STEP * self.sigma)).transpose(1, 2, 0)
        along = np.linalg.qr(slopes[..., p:])[0]
        slopes = slopes[..., :p] - along @ (along.swapaxes(1, 2) @ slopes[..., :p])
        variances = np.linalg.inv(slopes.swapaxes(1, 2) @ slopes).diagonal(axis1=1, axis2=2)
        return half * np.sqrt(variances)


@dataclass(frozen=True)
class Wake(Case):
    """Observations of the wake on its orbit: runs of studies/wake, at Reynolds numbers of its own,
    in 64 modes.
    """

    @functools.cached_property
    def model(self) -> System:
        """Galerkin projection on the modes."""
        return self.full.through(self.basis)

    @functools.cached_property
    def basis(self) -> romkit.bases.Basis:
        """Modes of the runs."""
        return romkit.load(wake.BASIS)

    @functools.cached_property
    def full(self) -> System:
        return SYSTEMS[self.system]()

    @functools.cached_property
    def known(self) -> xr.Dataset:
        contexts = np.array([wake.TRAIN + HELD_OUT_RE]).T
        runs = self.runs(contexts, 0)
        given = {
            "times": runs.time.values,
            "time_units": self.full.time_units,
            "contexts": contexts,
        }
        given |= {"state_names": self.full.state_names, "state_units": self.full.state_units}
        states = {"state": self.seen(runs.state.values)}
        return romkit.data.make_dataset(
            states, context=self.full.context, attrs=self.full.provenance(), **given
        )

    def contexts(self, count: int, seed: int, beyond: tuple = ()) -> np.ndarray:
        return np.random.default_rng(seed).choice(UNSEEN_RE, size=(count, 1))

    def runs(self, contexts: np.ndarray, seed: int) -> xr.Dataset:
        every = round(self.interval / 0.016)
        runs = romkit.data.open_dataset(wake.COORDINATES)[["state"]].isel(
            time=slice(-LAST, None, every)
        )
        return runs.isel(
            trajectory=[int(np.argmin(abs(runs.Re.values - re))) for re in contexts[:, 0]]
        )

    def seen(self, states: np.ndarray) -> np.ndarray:
        return self.basis.decode(torch.from_numpy(states).double()).numpy()
