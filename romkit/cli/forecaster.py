"""Models that commands forecast with: a projection with a law, an ensemble, or a learned model."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import romkit
from romkit.cli import inputs
from romkit.core.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

    from romkit.integrators import LearnedField


class Forecaster(NamedTuple):
    """A model of a file or folder.

    Attributes:
        projection, law: of the model.
        forecast: from a state, with the options of the command line.
        needs_inputs: whether inputs have to be given.
        began: times of the runs, where forecasts depend on the time since the first of them.
        interval: of the runs, None where it is not known.
        is_drawn: whether forecasts get a picture.
    """

    projection: "romkit.projections.Projection"
    law: "LearnedField"
    forecast: "Callable[..., xr.Dataset]"
    needs_inputs: bool
    began: "xr.DataArray | None" = None
    interval: float | None = None
    is_drawn: bool = True


LEVEL = 0.9
"""Probability that intervals claim by default."""


def forecaster_of(
    model: str, dynamics: str | None, level: float | None, device: str | None
) -> Forecaster:
    """Forecaster of a file with a law, or of a folder."""
    if os.path.isdir(model):
        return _of_folder(Path(model), level, device)
    _check_no_level(level)
    if dynamics is None:
        raise InputError(
            "--dynamics", expected="a law", got="none", fix="add --dynamics law.safetensors"
        )
    projection = inputs.load("projection", model)
    law = inputs.load("law", dynamics)
    assert isinstance(projection, romkit.projections.Projection)
    assert isinstance(law, romkit.integrators.LearnedField)
    forecast = partial(romkit.forecast, projection, dynamics=law, device=device)
    return Forecaster(projection, law, forecast, bool(law.control_names), is_drawn=False)


def _check_no_level(level: float | None) -> None:
    """Raise where a level is asked for, and there is no interval."""
    if level is None:
        return
    raise InputError(
        "--level",
        expected="a model with bars",
        got="one without",
        fix="leave it out, or give the folder of an ensemble",
    )


def _of_folder(folder: Path, level: float | None, device: str | None) -> Forecaster:
    """Forecaster in a folder: that of a learned model, or of an ensemble."""
    from romkit.core.files import LEARNED  # with torch, which help is spared

    if (folder / LEARNED).is_file():
        return _of_learned(romkit.Learned.load(folder), level, device)
    ensemble = romkit.Ensemble.load(folder)
    if level is None:
        level = LEVEL
    forecast = partial(ensemble.forecast, level=level, device=device)
    law = ensemble.law
    return Forecaster(ensemble.projection, law, forecast, bool(law.control_names))


def _of_learned(learned: "romkit.Learned", level: float | None, device: str | None) -> Forecaster:
    """Forecaster of a learned model, which knows its rhythm."""
    is_interpolated = learned.interpolated is not None
    knows_inputs = is_interpolated or learned.period is not None
    settings: dict[str, Any] = {}
    if not is_interpolated:
        settings["device"] = device
    if not is_interpolated and learned.intervals is None:
        _check_no_level(level)
    elif level is not None:
        settings["level"] = level
    needs_inputs = bool(learned.law.control_names) and not knows_inputs
    times = learned.train["time"]
    forecast = partial(learned.forecast, **settings)
    return Forecaster(
        learned.projection,
        learned.law,
        forecast,
        needs_inputs,
        began=times if knows_inputs else None,
        interval=interval_of(learned.train),
    )


def interval_of(data: "xr.Dataset", of_runs: float | None = None) -> float:
    """Return mean interval between the times of a dataset; of one with a single time, that of the
    runs of a model, where it is known.
    """
    if data.sizes["time"] < 2 and of_runs is not None:
        return of_runs
    if data.sizes["time"] < 2:
        raise InputError(
            "--dt",
            expected="an interval for data of a single time",
            got="none",
            fix="add --dt 0.1, say",
        )
    return float(data["time"].diff("time").mean())
