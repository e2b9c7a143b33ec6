"""An ensemble of reduced models: its mean, an interval, and how often the truth is within."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import xarray as xr

from romkit import checks
from romkit.boundary import FilePath, Part, checked
from romkit.data import DIMS, check_states, open_dataset, save_dataset, trajectories
from romkit.ensemble.calibration import Calibration
from romkit.errors import DivergenceWarning, FileError, InputError, warn
from romkit.files import expanded, make_folder
from romkit.follow import follow
from romkit.forecast import forecast
from romkit.integrators import LearnedField
from romkit.projections import Projection
from romkit.saving import load, save

NUMBERS = 20_000_000
"""Of the states of all members at once: more trajectories are followed one part after the other."""

RELIABILITY = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels of a reliability diagram."""

FILES = ("projection.safetensors", "law.safetensors", "calibration.nc")


@checked
@dataclass(frozen=True, eq=False)
class Ensemble:
    """Reduced models side by side: a stack of projections with a stack of laws, from seeds or bootstraps.

    Args:
        projection: a stack (`romkit.fit(..., seeds=range(5))`, or `bootstrap`).
        law: a stack of as many laws, as their fit on that stack gives it.
        calibration: what validation says about errors; without it, intervals are those of a normal distribution with
            the spread of the members, which are too narrow as a rule.

    Raises:
        InputError: a single projection, or another number of laws.

    Example:
        >>> import romkit
        >>> from romkit.integrators import DMD
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.16, 3.18])
        >>> stack = romkit.fit("ncae", data, epochs=5, seeds=range(3), verbose=False)
        >>> ensemble = romkit.Ensemble(stack, DMD().fit(stack, data))
        >>> band = ensemble.forecast(initial_state=data.state[0, 0], duration=0.1, dt=0.01, F=3.15)
        >>> len(ensemble), band.state.dims, bool((band.lower <= band.upper).all())
        (3, ('time', 'component'), True)
    """

    projection: Projection
    law: LearnedField
    calibration: Calibration | None = None

    def __post_init__(self):
        if self.projection.seeds is None:
            fix = "fit with seeds=range(5), or make bootstraps: romkit.bootstrap(projection, law, data)"
            raise InputError("projection", expected="a stack", got="a single one", fix=fix)
        stack = None if self.law.domain is None else tuple(self.law.domain.reach.shape)
        if stack not in (None, (len(self),)):
            got, fix = f"{stack[0]}" if stack else "a single one", "fit it on this stack: law.fit(projection, data)"
            raise InputError("law", expected=f"a stack of {len(self)}", got=got, fix=fix)

    def __len__(self) -> int:
        return self.projection.seeds

    @checked
    def follow(self, data: xr.Dataset, *, level: Part = 0.9, **options: object) -> xr.Dataset:
        """The ensemble along the trajectories of a dataset: `romkit.follow` with an interval.

        Args:
            data: as of `romkit.follow`.
            level: share of the truth that is to be within the interval.
            **options: `solver` and `engine` of `romkit.follow`.

        Returns:
            `state`, the mean of the members; `spread`, their standard deviation, NaN where one is left; `lower` and
            `upper`; `lost`, the share of members that diverged; distances from what was trained on, the means.
        """
        for name in options:
            checks.one_of("options", name, ("solver", "engine"))
        return self._with_interval(self._reduced(data, None, **options), level)

    @checked
    def forecast(self, *, level: Part = 0.9, **options: object) -> xr.Dataset:
        """The ensemble from a state: `romkit.forecast`, whose arguments it takes, with an interval as in `follow`."""
        run = forecast(self.projection, dynamics=self.law, **options)
        single = "trajectory" not in run.dims
        run = _summary(run.expand_dims("trajectory") if single else run, None)
        band = self._with_interval(run, level)
        return band.squeeze("trajectory") if single else band

    @checked
    def calibrated(self, validation: xr.Dataset) -> "Ensemble":
        """The same ensemble, with intervals that hold on trajectories that nothing was fitted to.

        A lost forecast has an infinite error, so that where 5 % are lost, intervals from level 95 % on are infinite.

        Raises:
            InputError: fewer than two trajectories.
        """
        return self._calibrated(validation, None)

    @checked
    def reliability(self, data: xr.Dataset, *, levels: Sequence[Part] = RELIABILITY) -> xr.Dataset:
        """How often the truth is within intervals of several levels, on data that nothing was fitted to.

        Returns:
            `coverage` (level), and `coverage_of` (level, trajectory); missing values do not count.
        """
        run = self._reduced(data, None)
        truth = trajectories(data, "state").numpy()
        error, known = np.abs(truth - run["state"].values), np.isfinite(truth)
        scale = self._scale(run)
        within = [(error <= self._factor(level) * scale) & known for level in levels]
        rows = np.stack([each.sum((1, 2)) / np.maximum(known.sum((1, 2)), 1) for each in within])
        means = [each.sum() / known.sum() for each in within]
        coords = {"level": list(levels)} | {n: c for n, c in run.coords.items() if c.dims == ("trajectory",)}
        return xr.Dataset({"coverage": ("level", means), "coverage_of": (("level", "trajectory"), rows)}, coords)

    @checked
    def save(self, folder: FilePath) -> Path:
        """Write projection, law and calibration into a folder, which is made."""
        folder = expanded(folder)
        make_folder(folder)
        save(self.projection, folder / FILES[0])
        save(self.law, folder / FILES[1])
        (folder / FILES[2]).unlink(missing_ok=True)  # that of an earlier one is none of this one
        if self.calibration is not None:
            save_dataset(self.calibration.to_dataset(), folder / FILES[2])
        return folder

    @classmethod
    @checked
    def load(cls, folder: FilePath) -> "Ensemble":
        """Read what `save` wrote.

        Raises:
            FileError: files that are missing, damaged, or do not belong together.
        """
        folder = expanded(folder)
        projection, law = (load(folder / name) for name in FILES[:2])
        there = (folder / FILES[2]).exists()
        calibration = Calibration.from_dataset(open_dataset(folder / FILES[2])) if there else None
        try:
            return cls(projection, law, calibration)
        except InputError as error:
            raise FileError(folder, problem=f"holds no ensemble ({error})", fix="give a folder by save") from error

    def _calibrated(self, data: xr.Dataset, members: np.ndarray | None) -> "Ensemble":
        """By trajectories of which each is followed by members (B, C) that have not seen it; None for all."""
        run = self._reduced(data, members)
        truth = trajectories(data, "state").numpy()
        error = truth - run["state"].values
        known = np.isfinite(truth)
        lost = np.isnan(error) & known
        error[lost] = np.inf
        _warn_of_lost(lost, known)
        parts = (run["time"].values, error, run["spread"].values, run["state_std"].values.astype("float64"))
        return replace(self, calibration=Calibration.of(*parts))

    def _reduced(self, data: xr.Dataset, members: np.ndarray | None, **options: object) -> xr.Dataset:
        """Mean and spread of the members, without an interval."""
        check_states(data)
        C = data.sizes["trajectory"]
        at_once = max(1, NUMBERS // (len(self) * math.prod(data.sizes[dim] for dim in DIMS[1:])))
        parts = []
        for first in range(0, C, at_once):
            some = slice(first, min(first + at_once, C))
            run = follow(self.projection, data.isel(trajectory=some), dynamics=self.law, **options)
            parts.append(_summary(run, None if members is None else members[:, some]))
        return parts[0] if len(parts) == 1 else xr.concat(parts, "trajectory", data_vars="minimal", coords="minimal")

    def _with_interval(self, run: xr.Dataset, level: float) -> xr.Dataset:
        half = self._factor(level) * self._scale(run)
        state, dims = run["state"], run["state"].dims
        named = {"units": state.attrs.get("units", "1"), "level": level}
        return run.assign(
            lower=(dims, state.values - half, {**named, "long_name": f"lower end of the {level:.0%} interval"}),
            upper=(dims, state.values + half, {**named, "long_name": f"upper end of the {level:.0%} interval"}),
        )

    def _scale(self, run: xr.Dataset) -> np.ndarray:
        if self.calibration is None:
            return run["spread"].values
        return self.calibration.scale(run["time"].values - run["time"].values[0], run["spread"].values)

    def _factor(self, level: float) -> float:
        return NormalDist().inv_cdf((1 + level) / 2) if self.calibration is None else self.calibration.factor(level)


def _warn_of_lost(lost: np.ndarray, known: np.ndarray) -> None:
    """Say what share of the known values (V, T, n) no member reached, and which intervals that leaves finite."""
    if lost.any():
        share = lost.sum() / known.sum()
        said = f"{lost.any((1, 2)).sum()} of {len(lost)} trajectories are lost, {share:.0%} of their values"
        fix = "shorten them, or take another law"
        warn(f"forecasts of {said}: intervals are infinite from level {1 - share:.0%} on; {fix}", DivergenceWarning)


def _summary(run: xr.Dataset, members: np.ndarray | None) -> xr.Dataset:
    """Mean and spread over the finite ones of some members (B, C), all by default."""
    state = run["state"].transpose("seed", *DIMS)
    values = state.values if members is None else np.where(members[:, :, None, None], state.values, np.nan)
    counted = np.isfinite(values)
    number = counted.sum(0)
    mean = np.where(counted, values, 0.0).sum(0) / np.where(number, number, np.nan)
    square = np.where(counted, np.square(values - mean), 0.0).sum(0)
    spread = np.sqrt(square / np.where(number > 1, number - 1, np.nan))
    units = state.attrs.get("units", "1")
    found = run.drop_vars([name for name, x in run.data_vars.items() if "seed" in x.dims])
    if "state_distance" in run:
        found = found.assign(state_distance=run["state_distance"].mean("seed", keep_attrs=True))
    lost = (run["status"] != 0).mean("seed").assign_attrs(units="1", long_name="share of the members that diverged")
    return found.assign(
        state=(DIMS, mean, {"units": units, "long_name": f"mean of {state.sizes['seed']} members"}),
        spread=(DIMS, spread, {"units": units, "long_name": "standard deviation of the members"}),
        lost=lost,
    )
