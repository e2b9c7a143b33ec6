"""Plain numbers in data of others: packed integers, fill values, masks and complex fields."""

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core.types import Array

PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
"""Attributes that say how stored values become numbers."""

FILL = np.float32(9.969209968386869e36)
"""Value of numbers in netCDF that were never written."""


MARKS = (
    999,
    9999,
    99999,
    999999,
    999.9,
    9999.9,
    999.99,
    9999.99,
    1e10,
    1e15,
    1e20,
    1e30,
    1e32,
    1e34,
    1e35,
    1e36,
    1e38,
)
"""Numbers, with either sign, that are written where a value is missing."""

FAR = 5.0
"""Distance of such a number from the others, in their range, from which on it is taken for a mark."""


def decoded(data: xr.Dataset) -> tuple[xr.Dataset, list[str]]:
    """Return data whose values are real numbers, NaN where they are missing; and sentences for
    warnings.

    Packed integers are unpacked. Fill values, and values outside the range that is declared as
    valid, are missing. Complex fields become two fields of real numbers.
    """
    notes: list[str] = []
    for name, variable in data.variables.items():
        values = _in_native_order(_numbers_of_pandas(variable))
        if any(key in values.attrs for key in PACKING):
            values = xr.conventions.decode_cf_variable(name, values, decode_times=False)
        values, missing = _valid(values)
        if missing:
            notes.append(f"{missing} values of {name} lie outside its valid range: missing")
        notes += _doubtful_marks(str(name), values)
        if values is not variable:
            data = _with_variable(data, name, values)
    data, fields = _with_real_fields(data)
    return data, [*notes, *fields]


def _with_variable(data: xr.Dataset, name: object, values: xr.Variable) -> xr.Dataset:
    if name in data.coords:
        return data.assign_coords({name: values})
    return data.assign({name: values})


def _with_real_fields(data: xr.Dataset) -> tuple[xr.Dataset, list[str]]:
    """Return data with two fields in place of each complex one, and sentences for warnings."""
    notes = []
    is_complex = [name for name, values in data.data_vars.items() if values.dtype.kind == "c"]
    for name in is_complex:
        fields = {f"{name}_real": data[name].real, f"{name}_imag": data[name].imag}
        data = data.drop_vars([name]).assign(fields)
        notes.append(f"{name} is complex; its parts {' and '.join(fields)} are variables")
    return data, notes


def _in_native_order(variable: xr.Variable) -> xr.Variable:
    """Return numbers in the byte order of this machine: netCDF-3 has another one, which torch
    refuses.
    """
    dtype = variable.dtype
    if not isinstance(dtype, np.dtype) or dtype.isnative:
        return variable
    return variable.astype(dtype.newbyteorder("="))


def _numbers_of_pandas(variable: xr.Variable) -> xr.Variable:
    """Nullable numbers of pandas as floats, NaN where they are missing."""
    if not isinstance(variable.dtype, pd.api.extensions.ExtensionDtype):
        return variable
    if not pd.api.types.is_numeric_dtype(variable.dtype):
        return variable
    column = pd.Series(variable.data)
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return xr.Variable(variable.dims, values, variable.attrs)


def _valid(variable: xr.Variable) -> tuple[xr.Variable, int]:
    """Return values with NaN outside the declared range, and how many of these there are."""
    # a declared range is in stored numbers, and packed ones have been unpacked by their reader
    is_stored = not any(key in variable.encoding for key in ("scale_factor", "add_offset"))
    if variable.dtype.kind != "f" or not is_stored or variable.chunks is not None:
        return variable, 0
    values = variable.values
    low, high = _range(variable)
    # comparisons with NaN are false, so that missing values do not count twice
    outside = (values < low) | (values > high) | (values == FILL)
    if not outside.any():
        return variable, 0
    masked = np.where(outside, np.nan, values)
    return variable.copy(data=masked), int(outside.sum())


def _doubtful_marks(name: str, variable: xr.Variable) -> list[str]:
    """Return a warning where the largest or smallest number looks like a mark of what is missing.

    It stays a number: 999 may have been measured.
    """
    if variable.dtype.kind not in "fiu" or variable.chunks is not None or variable.ndim == 0:
        return []
    # one pass: only the ends of the range can lie far from all others
    values = variable.values[np.isfinite(variable.values)]
    if values.size < 2:
        return []
    for extreme in (values.min(), values.max()):
        if _is_doubtful(extreme, values):
            number = int((values == extreme).sum())
            fix = f"if it means missing: data.where(data[{name!r}] != {extreme:g})"
            return [f"{name} is {extreme:g} in {number} places, far from all others; {fix}"]
    return []


def _is_doubtful(extreme: np.number, values: Array) -> bool:
    """Tell whether a number is one of the usual marks, and far from all others."""
    size = abs(float(extreme))
    if not np.isclose(size, MARKS, rtol=1e-6).any():
        return False
    others = values[values != extreme]
    if not others.size:
        return False
    spread = max(np.ptp(others), 1)
    distance = abs(extreme - np.median(others))
    return bool(distance > FAR * spread)


def _range(variable: xr.Variable) -> tuple[float, float]:
    low = -np.inf
    high = np.inf
    if np.size(variable.attrs.get("valid_range", ())) == 2:
        low, high = np.ravel(variable.attrs["valid_range"])
    low = variable.attrs.get("valid_min", low)
    high = variable.attrs.get("valid_max", high)
    try:
        return float(low), float(high)
    except (TypeError, ValueError):  # text, which says nothing of a range
        return -np.inf, np.inf
