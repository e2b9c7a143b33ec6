"""Ensembles of reduced models: mean and interval of their forecasts, and its calibration."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import FilePath, Mask, Part, validated
from romkit.core.errors import (
    DivergenceWarning,
    ExtrapolationWarning,
    FileError,
    InputError,
    warn,
)
from romkit.core.files import atomic_folder, expanded, read_list, write_list
from romkit.core.tensors import divisor
from romkit.core.types import Array, frozen
from romkit.data import DIMS, check_states, open_dataset, save_dataset, trajectories
from romkit.data.schema import add_trajectories
from romkit.integrators import LearnedField
from romkit.numerics import normal_factor
from romkit.projections import Projection
from romkit.verbs.calibration import Calibration
from romkit.verbs.follow import follow
from romkit.verbs.forecast import forecast
from romkit.verbs.storage import load, save

NUMBERS = 20_000_000
"""Largest number of state components held at once; more trajectories are followed in parts."""

RELIABILITY = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels of a reliability diagram."""

PROJECTION, LAW, CALIBRATION = "projection.safetensors", "law.safetensors", "calibration.nc"

CHECKSUMS = "ensemble.json"
"""List of the other files of a saved ensemble with their checksums, written after them."""


@validated
@frozen
class Ensemble:
    """Reduced models side by side: a stack of projections with a stack of laws, from seeds or
    bootstraps.

    Args:
        projection: a stack (`romkit.fit(..., seeds=range(5))`, or `bootstrap`).
        law: a stack of as many laws, as their fit on that stack gives it.
        calibration: what validation says about errors; without it, intervals are those of a normal
            distribution with the spread of the members, which are too narrow as a rule.

    Raises:
        InputError: a single projection, or another number of laws.

    Example:
        >>> import romkit
        >>> from romkit.laws import DMD
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
            raise InputError(
                "projection",
                expected="a stack",
                got="a single one",
                fix="fit with seeds=range(5), or make bootstraps: romkit.bootstrap(projection, law, data)",
            )
        if self.law.domain is None:  # a law that does not know how many it is
            return
        shape = tuple(self.law.domain.reach.shape)
        if shape != (len(self),):
            raise InputError(
                "law",
                expected=f"a stack of {len(self)}",
                got=f"{shape[0]}" if shape else "a single one",
                fix="fit it on this stack: law.fit(projection, data)",
            )

    def __len__(self) -> int:
        return self.projection.seeds

    @validated
    def follow(self, data: xr.Dataset, *, level: Part = 0.9, **options: object) -> xr.Dataset:
        """Return the ensemble along the trajectories of a dataset: `romkit.follow` with an
        interval.

        Args:
            data: as of `romkit.follow`.
            level: share of the truth that is to be within the interval.
            **options: `solver` and `engine` of `romkit.follow`.

        Returns:
            `state`, the mean of the members; `spread`, their standard deviation, NaN where one is
            left; `lower` and `upper`; `lost`, the share of members that diverged; distances from
            what was trained on, the largest of the members.
        """
        for name in options:
            checks.one_of("options", name, ("solver", "engine"))
        return self._add_interval(self._mean_and_spread(data, None, **options), level)

    @validated
    def forecast(self, *, level: Part = 0.9, **options: object) -> xr.Dataset:
        """Return the ensemble from a state: `romkit.forecast`, whose arguments it takes, with an
        interval as in `follow`.

        The state is on `component`; `romkit.data.fields` gives it the variables and dimensions of
        the data.
        """
        run = forecast(self.projection, dynamics=self.law, on_components=True, **options)
        single = "trajectory" not in run.dims
        run = self._member_statistics(add_trajectories(run), None)
        band = self._add_interval(run, level)
        return band.squeeze("trajectory") if single else band

    @validated
    def calibrated(
        self,
        validation: xr.Dataset,
        *,
        members: Mask | None = None,
    ) -> "Ensemble":
        """Calibrate intervals on trajectories that nothing was fitted to; returns a new ensemble.

        A lost forecast has an infinite error, so that where 5 % are lost, intervals from level 95 %
        on are infinite.

        Args:
            validation: the trajectories.
            members: (members, trajectories) true where a member has not seen a trajectory, and
                follows it; by default none has seen any.

        Raises:
            InputError: fewer than two trajectories.
        """
        seen = None if members is None else members.numpy()
        with warnings.catch_warnings():
            # lost forecasts are warned of below, by what they mean for intervals
            warnings.simplefilter("ignore", DivergenceWarning)
            run = self._mean_and_spread(validation, seen)
        truth = trajectories(validation, "state").numpy()
        error = truth - run["state"].values
        observed = np.isfinite(truth)
        lost = np.isnan(error) & observed
        error[lost] = np.inf
        _warn_lost(lost, observed)
        deviation = divisor(run["state_std"].values.astype("float64"))
        spread = run["spread"].values
        times = run["time"].values
        calibration = Calibration.fit(times, error, spread, deviation)
        return replace(self, calibration=calibration)

    @validated
    def reliability(self, data: xr.Dataset, *, levels: Sequence[Part] = RELIABILITY) -> xr.Dataset:
        """Return share of the truth within intervals of several levels, on data that nothing was
        fitted to.

        Returns:
            `coverage` (level), and `coverage_of` (level, trajectory); missing values do not count.
        """
        run = self._mean_and_spread(data, None)
        truth = trajectories(data, "state").numpy()
        error = np.abs(truth - run["state"].values)
        scale = self._scale(run)
        missing = ~np.isfinite(truth)
        coverage, of_trajectories = [], []
        for level in levels:
            half = self._factor(level) * scale
            within = np.ma.array(error <= half, mask=missing)
            coverage.append(within.mean())
            of_trajectories.append(within.mean((1, 2)).filled(0.0))
        coords = {"level": list(levels)}
        coords |= {name: c for name, c in run.coords.items() if c.dims == ("trajectory",)}
        variables = {
            "coverage": ("level", coverage),
            "coverage_of": (("level", "trajectory"), np.stack(of_trajectories)),
        }
        return xr.Dataset(variables, coords)

    @validated
    def save(self, folder: FilePath) -> Path:
        """Write projection, law and calibration into a folder, which is made.

        An earlier ensemble is replaced once the new one is complete. A list of checksums tells a
        folder whose files are from two ensembles from one.
        """
        folder = expanded(folder)
        with atomic_folder(folder) as staged:
            save(self.projection, staged / PROJECTION)
            save(self.law, staged / LAW)
            if self.calibration is not None:
                save_dataset(self.calibration.to_dataset(), staged / CALIBRATION)
            write_list(staged / CHECKSUMS, {})
        return folder

    @classmethod
    @validated
    def load(cls, folder: FilePath) -> "Ensemble":
        """Read what `save` wrote.

        Raises:
            FileError: files that are missing, damaged, or do not belong together.
        """
        folder = expanded(folder)
        facts = read_list(folder / CHECKSUMS)
        projection = load(folder / PROJECTION)
        law = load(folder / LAW)
        calibration = None
        if CALIBRATION in facts["files"]:
            calibration = Calibration.from_dataset(open_dataset(folder / CALIBRATION))
        try:
            return cls(projection, law, calibration)
        except InputError as error:
            raise FileError(
                folder, problem=f"holds no ensemble ({error})", fix="give a folder by save"
            ) from error

    def _mean_and_spread(
        self, data: xr.Dataset, members: Array | None, **options: object
    ) -> xr.Dataset:
        """Return mean and spread of the members, without an interval."""
        check_states(data)
        of_a_trajectory = len(self) * math.prod(data.sizes[dim] for dim in DIMS[1:])
        at_once = max(1, NUMBERS // of_a_trajectory)
        bands = []
        for begin in range(0, data.sizes["trajectory"], at_once):
            rows = slice(begin, begin + at_once)
            run = follow(self.projection, data.isel(trajectory=rows), dynamics=self.law, **options)
            of_members = None if members is None else members[:, rows]
            bands.append(self._member_statistics(run, of_members))
        if len(bands) == 1:
            return bands[0]
        return xr.concat(bands, "trajectory", data_vars="minimal", coords="minimal")

    def _member_statistics(self, run: xr.Dataset, members: Array | None) -> xr.Dataset:
        """Mean and spread of the finite ones of some members (B, C), all by default."""
        state = run["state"].transpose("seed", *DIMS)
        every = np.ma.masked_invalid(state.values)  # (B, C, T, n)
        values = every
        if members is not None:
            # values (B, C, T, n) of some members (B, C) of each trajectory; others are masked
            unused = np.broadcast_to(~members[:, :, None, None], every.shape)
            values = np.ma.masked_where(unused, every)
        middle = values.mean(0)
        # it needs two members
        spread = values.std(0, ddof=1)
        named = f"mean of {len(values)} members"
        units = state.attrs.get("units", "1")
        of_members = [name for name, values in run.data_vars.items() if "seed" in values.dims]
        band = run.drop_vars(of_members)
        if "state_distance" in run:
            # as the warning has it, which counts every member
            distance = run["state_distance"].max("seed", keep_attrs=True)
            band = band.assign(state_distance=distance)
        diverged = {"units": "1", "long_name": "share of the members that diverged"}
        deviation = {"units": units, "long_name": "standard deviation of the members"}
        return band.assign(
            state=(DIMS, middle.filled(np.nan), {"units": units, "long_name": named}),
            spread=(DIMS, spread.filled(np.nan), deviation),
            lost=(run["status"] != 0).mean("seed").assign_attrs(diverged),
        )

    def _add_interval(self, run: xr.Dataset, level: float) -> xr.Dataset:
        half = self._factor(level) * self._scale(run)
        return add_interval(run, half, level)

    def _scale(self, run: xr.Dataset) -> Array:
        if self.calibration is None:
            return run["spread"].values
        lead = run["time"].values - run["time"].values[0]
        spread = run["spread"].values
        _warn_excess(self.calibration.excess(lead, spread)[:, -1])
        return self.calibration.scale(lead, spread)

    def _factor(self, level: float) -> float:
        if self.calibration is None:
            return normal_factor(level)
        return self.calibration.factor(level)


def _warn_excess(excess: Array, *, unlike: float = 2.0) -> None:
    """Say where members disagree by far more than on the trajectories of the calibration.

    `unlike`: spread of a forecast, in the largest one of validation, from which on a forecast
    warns.
    """
    number = int((excess > unlike).sum())
    if number == 0:
        return
    which = f" of {number} of {len(excess)} forecasts" if len(excess) > 1 else ""
    warn(
        f"the members{which} disagree up to {excess.max():.2g} times as much as on the runs that "
        "calibrated the intervals, from starts unlike theirs, say. Intervals are as many times as "
        "wide. Runs from such starts would tell.",
        ExtrapolationWarning,
    )


def add_interval(run: xr.Dataset, half: Array, level: float) -> xr.Dataset:
    """Return a run with `lower` and `upper`, so far from its state."""
    state = run["state"]
    ends = {"lower": state.values - half, "upper": state.values + half}
    attrs = {"units": state.attrs.get("units", "1"), "level": level}
    variables = {}
    for name, values in ends.items():
        named = attrs | {"long_name": f"{name} end of the {level:.0%} interval"}
        variables[name] = (state.dims, values, named)
    return run.assign(variables)


def _warn_lost(lost: Array, known: Array) -> None:
    """Say what share of the known values (V, T, n) no member reached, and which intervals that
    leaves finite.
    """
    if not lost.any():
        return
    share = lost.sum() / known.sum()
    number = lost.any((1, 2)).sum()
    warn(
        f"{number} of {len(lost)} forecasts are lost, {share:.0%} of their values. Intervals above "
        f"{1 - share:.0%} are infinite. Shorten the forecasts, or take another law.",
        DivergenceWarning,
    )


T = TypeVar("T")


def stacked(laws: list[T], join: Callable[[list[Tensor]], Tensor] = torch.stack) -> T:
    """Return laws of one kind and one size as a stack, or stacks as one by `torch.cat`; the
    context's scaling is shared.
    """
    law = laws[0]
    if torch.is_tensor(law):
        return join(laws)
    if isinstance(law, tuple):
        if all(isinstance(x, str) for x in law):  # names are the same in all of them
            return law
        return tuple(stacked(list(values), join) for values in zip(*laws, strict=True))
    if not is_dataclass(law):
        return law
    joined = {}
    for name in {field.name for field in fields(law)} - {"context"}:
        joined[name] = stacked([getattr(member, name) for member in laws], join)
    return replace(law, **joined)
