"""Plain numbers in data of others: packed integers, fill values, masks and complex fields."""

import numpy as np
import pandas as pd
import xarray as xr

from romkit.readers.names import Guess, Guesses

PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
"""Attributes that say how stored values become numbers."""

FILL = np.float32(9.969209968386869e36)
"""Value of numbers in netCDF that were never written."""


MISSING = {
    "-", "--", "---", ".", "..", "...", "*", "**", "***", "?",
    "na", "n.a.", "n.a", "nd", "n.d.", "none", "missing", "nodata", "no data",
}  # fmt: skip
"""Marks of numbers that are missing, in small letters, beside those that pandas knows."""


def decoded(data: xr.Dataset, guesses: Guesses) -> xr.Dataset:
    """Return data whose values are real numbers, NaN where they are missing.

    Packed integers are unpacked. Fill values, and values outside the range that is declared as
    valid, are missing. Complex fields become two fields of real numbers.
    """
    for key, variable in data.variables.items():
        name = str(key)
        values = _in_native_order(_numbers_of_pandas(variable))
        if any(about in values.attrs for about in PACKING):
            values = xr.conventions.decode_cf_variable(name, values, decode_times=False)
        values = _valid(name, values, guesses)
        _say_doubtful_mark(name, values, guesses)
        if values is not variable:
            is_coord = key in data.coords
            data = data.assign_coords({key: values}) if is_coord else data.assign({key: values})
    for key in [key for key, values in data.data_vars.items() if values.dtype.kind == "c"]:
        fields = {f"{key}_real": data[key].real, f"{key}_imag": data[key].imag}
        data = data.drop_vars([key]).assign(fields)
        guesses.append(Guess("variables", ", ".join(fields), f"parts of {key}, which is complex"))
    return data


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


def _valid(name: str, variable: xr.Variable, guesses: Guesses) -> xr.Variable:
    """Return values with NaN outside the declared range, and where nothing was ever written."""
    # a declared range is in stored numbers, and packed ones have been unpacked by their reader
    is_stored = not any(key in variable.encoding for key in ("scale_factor", "add_offset"))
    if variable.dtype.kind != "f" or not is_stored or variable.chunks is not None:
        return variable
    values = variable.values
    low, high = _range(variable)
    # comparisons with NaN are false, so that missing values do not count twice
    outside = (values < low) | (values > high) | (values == FILL)
    if not outside.any():
        return variable
    guesses.append(Guess("missing", name, f"{int(outside.sum())} values outside its valid range"))
    return variable.copy(data=np.where(outside, np.nan, values))


def _say_doubtful_mark(
    name: str,
    variable: xr.Variable,
    guesses: Guesses,
    *,
    marks: tuple[float, ...] = (
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
    ),
    far: float = 5.0,
) -> None:
    """Say where the largest or smallest number looks like a mark of what is missing.

    It stays a number: 999 may have been measured.

    `marks`: numbers, with either sign, that are written where a value is missing.

    `far`: distance of such a number from the others, in their range, from which on it is taken
    for a mark.
    """
    if variable.dtype.kind not in "fiu" or variable.chunks is not None or variable.ndim == 0:
        return
    # one pass: only the ends of the range can lie far from all others
    values = variable.values[np.isfinite(variable.values)]
    if values.size < 2:
        return
    for extreme in (values.min(), values.max()):
        others = values[values != extreme]
        is_mark = np.isclose(abs(float(extreme)), marks, rtol=1e-6).any()
        if is_mark and others.size:
            spread = max(np.ptp(others), 1)
            if abs(extreme - np.median(others)) > far * spread:
                fix = f"if it means missing: data.where(data[{name!r}] != {extreme:g})"
                number = values.size - others.size
                why = f"{extreme:g} in {number} places, far from all others; {fix}"
                guesses.append(Guess("number", name, why))
                return


def _range(variable: xr.Variable) -> tuple[float, float]:
    about = variable.attrs
    ends = np.ravel(about.get("valid_range", ()))
    low, high = ends if ends.size == 2 else (-np.inf, np.inf)
    try:
        return float(about.get("valid_min", low)), float(about.get("valid_max", high))
    except (TypeError, ValueError):  # text, which says nothing of a range
        return -np.inf, np.inf
