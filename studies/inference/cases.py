"""Observations to infer contexts from: noisy windows of simulated trajectories, and the bound for their contexts."""

import functools
from dataclasses import dataclass, replace

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.solvers import RK4

SETTLING = 60.0
"""Time over which the derivative of the state by the context grows, before the window, for the bound."""


@dataclass(frozen=True)
class Case:
    """Observations of one kind.

    Attributes:
        system, projection: names.
        training: number of contexts with known values, at random in the range.
        draws: number of observed trajectories, each at a context of its own.
        duration, interval: of the window.
        sensors: number of observed components, evenly spaced.
        noise: standard deviation, relative to that of the component in training.
        spare: time within which a window begins at random, so that its phase is unknown.
    """

    system: str
    projection: str
    training: int
    draws: int
    duration: float
    interval: float
    sensors: int
    noise: float
    spare: float

    @functools.cached_property
    def model(self) -> romkit.systems.System:
        """The full model."""
        return romkit.systems.SYSTEMS[self.system]()

    @property
    def rows(self) -> list[int]:
        """Numbers of the sensors."""
        return np.arange(0, self.model.state_size, self.model.state_size / self.sensors).astype(int).tolist()

    def reduced(self) -> romkit.projections.Projection:
        """The projection."""
        return romkit.load(self.projection)

    def noises(self) -> np.ndarray:
        """Standard deviations of the noise of the sensors."""
        return self.noise * self.reduced().frame.state_std.double().numpy()[self.rows]

    def contexts(self, count: int, seed: int, beyond: tuple[float, float] | None = None) -> np.ndarray:
        """(count, p) at random in the training range, or beyond its ends by these parts of its width."""
        rng = np.random.default_rng(seed)
        low, high = np.array([(parameter.low, parameter.high) for parameter in self.model.context]).T
        share = rng.uniform(size=(count, len(low)))
        if beyond is not None:
            share = rng.uniform(*beyond, size=share.shape)
            share = np.where(rng.uniform(size=share.shape) < 0.5, -share, 1 + share)
        return low + (high - low) * share

    def runs(self, contexts: np.ndarray) -> xr.Dataset:
        """Trajectories at these contexts, sampled at the interval."""
        named = dict(zip(self.model.context_names, contexts.T, strict=True))
        data = self.model.dataset(duration=self.spare + self.duration + self.interval, **named)
        return data.isel(time=slice(None, None, round(self.interval / self.model.dt)))

    def known(self) -> xr.Dataset:
        """Trajectories with known contexts."""
        return self.runs(self.contexts(self.training, seed=1))

    def observed(self, beyond: tuple[float, float] | None = None) -> tuple[xr.Dataset, np.ndarray]:
        """Noisy windows of all components, and their contexts (draws, p)."""
        contexts = self.contexts(self.draws, 2, beyond)
        runs, rng, count = self.runs(contexts), np.random.default_rng(3), round(self.duration / self.interval) + 1
        starts = rng.integers(runs.sizes["time"] - count + 1, size=self.draws)
        windows = np.stack([x[k : k + count] for x, k in zip(runs["state"].values, starts, strict=True)])
        std = self.noise * self.reduced().frame.state_std.double().numpy()
        noisy = windows + std * rng.standard_normal(windows.shape)
        coords = {"time": np.arange(count) * self.interval, "component": runs["component"].values}
        return xr.Dataset({"state": (("trajectory", "time", "component"), noisy)}, coords), contexts

    def bound(self) -> np.ndarray:
        """Cramer-Rao bounds (draws, p) for standard errors, for a phase that is unknown and an orbit that attracts.

        The derivative of the state by the context obeys the linearised equation. After a while only its share along
        the orbit depends on where it began, and that is a shift of the phase.
        """
        system, contexts = self.model, torch.from_numpy(self.contexts(self.draws, 2))
        early = replace(system, transient=system.transient - SETTLING)
        n, p = system.state_size, contexts.shape[1]
        x = torch.zeros(len(contexts), n * (1 + p), dtype=torch.float64)
        x[:, :n] = early.start(contexts)[0]

        def field(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            state, derivatives = y[:, :n], y[:, n:].unflatten(1, (p, n))
            rates = [system.rhs(t, state, contexts)]
            for k in range(p):
                along = torch.zeros_like(contexts)
                along[:, k] = 1.0
                f = functools.partial(system.rhs, t)
                rates.append(torch.func.jvp(f, (state, contexts), (derivatives[:, k], along))[1])
            return torch.cat(rates, dim=1)

        starts = SETTLING + torch.from_numpy(np.random.default_rng(3).uniform(0, self.spare, self.draws))
        times = torch.arange(0, SETTLING + self.spare + self.duration + self.interval, self.interval)
        y = RK4(system.step if system.step else system.dt)(field, x, times, engine="torch").states
        count, bounds = round(self.duration / self.interval) + 1, []
        for k, start in enumerate(starts):
            window = y[k, int(start / self.interval) :][:count]
            phase = system.rhs(times[0], window[:, :n], contexts[k]).unsqueeze(1)
            slopes = torch.cat([window[:, n:].unflatten(1, (p, n)), phase], dim=1)[..., self.rows]
            slopes = (slopes / torch.from_numpy(self.noises())).movedim(1, -1).flatten(0, 1)
            bounds.append(torch.linalg.inv(slopes.mT @ slopes).diagonal()[:p].sqrt())
        return torch.stack(bounds).numpy()
