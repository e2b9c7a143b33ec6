"""Inputs of a forecast: those of its data, or those of a file of any kind."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import romkit
from romkit.core import checks
from romkit.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from romkit.integrators import LearnedField

FIX = "give a file with them by --control"


def read(file: str, names: Sequence[str], unit: str) -> "xr.Dataset":
    """Return inputs of these names in a file, at times in a unit: `control` (time, input), or a
    column for each of them.

    Raises:
        InputError: columns that are not along the time alone.
    """
    from romkit.data.conversions import times_in_unit
    from romkit.data.spelling import full_name

    source = romkit.data.open_dataset(file) if file.endswith(".nc") else romkit.open(file)
    known = [str(name) for name in source.data_vars]
    columns = [full_name(name, known) for name in names]
    if "control" not in known and names and set(columns) <= set(known):
        source = _joined(source[columns], names)
    return times_in_unit("--control", source, unit)


def _joined(columns: "xr.Dataset", names: Sequence[str]) -> "xr.Dataset":
    """Return columns as one variable `control` (time, input), with inputs of these names."""
    import xarray as xr

    from romkit.data.controls import INPUT_UNITS
    from romkit.data.names import unit_of

    along = {column.dims for column in columns.data_vars.values()}
    if len(along) > 1 or len(columns.dims) != 1:
        got = f"dims {', '.join(map(str, columns.dims))}"
        raise InputError("--control", expected="inputs along the time alone", got=got, fix=FIX)
    (time,) = columns.dims
    units = [unit_of(column) for column in columns.data_vars.values()]
    values = columns.to_array("input").transpose(time, "input")
    labels = {"input": list(names), INPUT_UNITS: ("input", units)}
    control = xr.DataArray(values.variable, {time: columns[time], **labels}, name="control")
    return control.rename({time: "time"}).to_dataset()


def inputs_of(
    source: "xr.Dataset", law: "LearnedField", trajectory: int, duration: float
) -> "Callable[[float], np.ndarray]":
    """Return inputs of a law as a function of the time since the first sample of a dataset."""
    import torch

    from romkit.data.controls import control_of, inputs_in_units

    names = law.control_names
    dims = source["control"].dims if "control" in source else ()
    if {*dims} - {"trajectory"} != {"time", "input"}:
        raise InputError(
            "--control",
            expected=f"control (time, input) of {', '.join(names)}",
            got=f"dims {dims}" if dims else "data without it",
            fix=FIX,
        )
    control = inputs_in_units("--control", source["control"], names, law.control_unit)
    source = control.to_dataset(name="control")
    if "trajectory" in dims:
        checks.index("--trajectory", trajectory, source.sizes["trajectory"])
        source = source.isel(trajectory=trajectory)
    times = romkit.data.times_of(source)
    since = times - times[0]
    # times in files are rounded
    if since[-1] < duration * (1 - 1e-9):
        raise InputError(
            "--control",
            expected=f"inputs up to {duration:g} after the first state",
            got=f"up to {since[-1]:g}",
            fix=FIX,
        )
    moved = source.assign_coords(time=since).expand_dims("trajectory")
    course = control_of(moved, law.held)
    assert course is not None  # there is an input
    return lambda t: course(torch.tensor(t, dtype=torch.float64)).numpy()
