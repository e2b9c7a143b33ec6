"""Plain numbers in data of others: packed integers, fill values, masks and complex fields."""

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core.types import Array
from romkit.readers.names import Guess, Guesses

PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
"""Attributes that say how stored values become numbers."""

FILL = np.float32(9.969209968386869e36)
"""Value of numbers in netCDF that were never written."""


def decoded(data: xr.Dataset, guesses: Guesses) -> xr.Dataset:
    """Return data whose values are real numbers, NaN where they are missing.

    Packed integers are unpacked. Fill values, and values outside the range that is declared as
    valid, are missing. Complex fields become two fields of real numbers.
    """
    for key, variable in data.variables.items():
        values = _convert_nullable(variable)
        if any(about in values.attrs for about in PACKING):
            values = xr.conventions.decode_cf_variable(str(key), values, decode_times=False)
        if values.dtype.kind in "fiu" and values.chunks is None and values.ndim:
            values = _valid(str(key), values, guesses)
            _say_doubtful_mark(str(key), values.values, guesses)
        if values is not variable:
            data = data.assign({key: values})  # a coordinate stays one
    is_complex = [key for key, values in data.data_vars.items() if values.dtype.kind == "c"]
    for key in is_complex:
        fields = {f"{key}_real": data[key].real, f"{key}_imag": data[key].imag}
        data = data.drop_vars([key]).assign(fields)
        guesses.append(Guess("variables", ", ".join(fields), f"parts of {key}, which is complex"))
    return data


def _convert_nullable(variable: xr.Variable) -> xr.Variable:
    """Return nullable numbers of pandas as floats, NaN where they are missing, and numbers in the
    byte order of this machine: netCDF-3 has another one, which torch refuses.
    """
    dtype = variable.dtype
    if isinstance(dtype, np.dtype):
        return variable if dtype.isnative else variable.astype(dtype.newbyteorder("="))
    if not pd.api.types.is_numeric_dtype(dtype):
        return variable
    values = pd.Series(variable.data).to_numpy(dtype=np.float64, na_value=np.nan)
    return xr.Variable(variable.dims, values, variable.attrs)


def _valid(name: str, variable: xr.Variable, guesses: Guesses) -> xr.Variable:
    """Return values with NaN outside the declared range, and where nothing was ever written."""
    # a declared range is in stored numbers, and packed ones have been unpacked by their reader
    if variable.dtype.kind != "f" or {"scale_factor", "add_offset"} & variable.encoding.keys():
        return variable
    about = variable.attrs
    ends = np.ravel(about.get("valid_range", ()))
    try:
        low, high = ends if ends.size == 2 else (-np.inf, np.inf)
        low, high = float(about.get("valid_min", low)), float(about.get("valid_max", high))
    except (TypeError, ValueError):  # text, which says nothing of a range
        low, high = -np.inf, np.inf
    values = variable.values
    # comparisons with NaN are false, so that missing values do not count twice
    outside = (values < low) | (values > high) | (values == FILL)
    if not outside.any():
        return variable
    guesses.append(Guess("missing", name, f"{int(outside.sum())} values outside its valid range"))
    return variable.copy(data=np.where(outside, np.nan, values))


def _say_doubtful_mark(
    name: str,
    values: Array,
    guesses: Guesses,
    *,
    marks: str = "999 9999 99999 999999 999.9 9999.9 999.99 9999.99 "
    "1e10 1e15 1e20 1e30 1e32 1e34 1e35 1e36 1e38",
    far: float = 5.0,
) -> None:
    """Say where the largest or smallest number looks like a mark of what is missing.

    It stays a number: 999 may have been measured.

    `marks`: numbers, with either sign, that are written where a value is missing.

    `far`: distance of such a number from the others, in their range, from which on it is taken
    for a mark.
    """
    finite = values[np.isfinite(values)]
    # one pass: only the ends of the range can lie far from all others
    for extreme in (finite.min(), finite.max()) if finite.size > 1 else ():
        ordinary = finite[finite != extreme]
        is_mark = np.isclose(abs(float(extreme)), np.array(marks.split(), float), rtol=1e-6).any()
        if not is_mark or not ordinary.size:
            continue
        if abs(extreme - np.median(ordinary)) > far * max(np.ptp(ordinary), 1):
            fix = f"if it means missing: data.where(data[{name!r}] != {extreme:g})"
            number = finite.size - ordinary.size
            why = f"{extreme:g} in {number} places, far from all others; {fix}"
            guesses.append(Guess("number", name, why))
            return
