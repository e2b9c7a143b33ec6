"""Velocities of data that were recorded without: a named method, stretch by stretch between missing
samples.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core import checks
from romkit.core.boundary import Mask, validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.data.layout import Layout, layout_of
from romkit.data.schema import DIMS, check_states, complete
from romkit.data.times import even_step, pieces

Differentiate = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(x (T, n), t (T,)) -> ẋ (T, n); what pysindy's differentiation methods are."""

WINDOWS = (5, 7, 9, 13, 17, 25, 35, 49, 69)
"""Samples of the windows that are tried, each about √2 times the one before."""

DEGREES = (4, 2)
"""Degrees of the polynomials that are tried in each window."""


class Smoothing(NamedTuple):
    """A window of samples and the degree of the polynomial in it; a rule for x (T, n) at even times
    (T,).
    """

    window: int
    degree: int

    def __call__(self, x: np.ndarray, t: np.ndarray, order: int = 1) -> np.ndarray:
        from scipy.signal import savgol_filter  # slow to import, and seldom needed

        step = float(np.diff(t).mean())
        return savgol_filter(
            x, self.window, self.degree, deriv=order, delta=step, axis=0, mode="interp"
        )


@validated
def with_velocity(data: xr.Dataset, *, method: str | Differentiate = "auto") -> xr.Dataset:
    """`data` with a variable `velocity`, estimated from its states; its attribute `method` says
    how.

    Args:
        data: in romkit's schema. Stretches between missing samples are taken one by one; those that
            are too short for the method have no velocity.
        method: "savitzky-golay": a polynomial through a window of samples, evenly spaced; window
            and degree are those that predict left-out samples best, so noise makes the window
            longer. "gradient": central differences of second order, for uneven times, without
            smoothing. "auto": the first where times are even, else the second. Or a function of (x
            (T, n), t (T,)), `pysindy.SmoothedFiniteDifference()` say.

    Raises:
        InputError: an unknown method, or one that needs even times.

    Source: Savitzky, Golay (1964); Craven, Wahba (1979) for leave-one-out.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.5)
        >>> estimated = romkit.data.with_velocity(data.drop_vars("velocity"))
        >>> bool(abs(estimated.velocity - data.velocity).max() < 1e-2)
        True
    """
    check_states(data)
    times, whole = data["time"].values.astype(np.float64), complete(data, ("state",))
    x = data["state"].transpose(*DIMS).values
    rule, name, shortest = _differentiator(method, x, times, whole, layout_of(data))
    velocity = differentiated(x, times, stretches(whole, shortest), rule)
    if not np.isfinite(velocity).any():
        got, fix = (
            f"stretches shorter than {shortest} samples",
            "record velocities, or sample more densely",
        )
        raise InputError("data", expected="states to differentiate", got=got, fix=fix)
    return data.assign(
        velocity=(DIMS, velocity, {"long_name": "time derivative of the state", "method": name})
    )


def stretches(whole: np.ndarray, shortest: int = 1) -> list[tuple[int, slice]]:
    """Trajectory and times of each stretch without a missing sample, of samples (C, T) that are
    complete or not.
    """
    found = [(k, piece) for k, row in enumerate(whole) for piece in pieces(row)]
    return [(k, piece) for k, piece in found if piece.stop - piece.start >= shortest]


def differentiated(
    x: np.ndarray, times: np.ndarray, parts: Sequence[tuple[int, slice]], rule: Differentiate
) -> np.ndarray:
    """Rates of x (C, T, n) in these stretches, NaN elsewhere.

    Raises:
        InputError: a rule that gives another shape.
    """
    rates = np.full(
        x.shape, np.nan, dtype=np.result_type(x, np.float32)
    )  # states may be whole numbers
    for part in parts:
        rate = np.asarray(rule(x[part].astype(np.float64), times[part[1]]))
        if rate.shape != x[part].shape:
            expected, got = (
                f"a method that gives the shape of its states, {x[part].shape}",
                f"{rate.shape}",
            )
            raise InputError(
                "method", expected=expected, got=got, fix="return a velocity for each state"
            )
        rates[part] = rate
    return rates


@validated
def needing_velocity(data: xr.Dataset) -> xr.Dataset:
    """`data` as it is where it has velocities; else with estimated ones, and a warning that says
    so.

    Example:
        >>> import warnings
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.5).drop_vars("velocity")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     estimated = romkit.data.velocity.needing_velocity(data)
        >>> caught[0].category.__name__, "velocity" in estimated
        ('DataWarning', True)
    """
    if "state" not in data or "velocity" in data:
        return data
    data = with_velocity(data)
    method = data["velocity"].attrs["method"]
    fix = "to estimate them once: data = romkit.data.with_velocity(data)"
    warn(f"velocities are not in the data; estimated by {method}; {fix}", DataWarning)
    return data


def _differentiator(
    method: object, x: np.ndarray, times: np.ndarray, whole: np.ndarray, layout: Layout
) -> tuple[Differentiate, str, int]:
    """Differentiation rule, its name, and the fewest samples that it needs."""
    if callable(method):
        return method, getattr(method, "__name__", type(method).__name__), 5
    checks.one_of("method", method, ("auto", "savitzky-golay", "gradient"))
    step = even_step(times)
    if method == "savitzky-golay" and step is None:
        fix = "take method='gradient', or resample the data"
        raise InputError(
            "method",
            expected="evenly spaced times for 'savitzky-golay'",
            got="uneven steps",
            fix=fix,
        )
    longest = max(piece.stop - piece.start for _, piece in stretches(whole))
    if method == "gradient" or step is None or longest < WINDOWS[0]:
        return (
            lambda x, t: np.gradient(x, t, axis=0, edge_order=1),
            "gradient (central differences)",
            2,
        )
    owner = np.repeat(
        np.arange(len(layout.variables)), [variable.size for variable in layout.variables]
    )
    some = slice(None, None, max(1, x.shape[-1] // 50))
    part, owner = x[..., some].astype(np.float64), owner[some]
    scale = np.sqrt(
        np.bincount(owner, np.nanvar(part, axis=(0, 1)), len(layout.variables))[owner]
    )  # of its variable
    best = smoothest(part / np.where(scale > 0, scale, 1.0), whole)
    return best, f"savitzky-golay (window {best.window}, degree {best.degree})", best.window


@validated
def smoothest(x: np.ndarray, whole: Mask) -> Smoothing:
    """The window and degree whose polynomials predict a sample best from the others in its window.

    Args:
        x: (C, T, n) trajectories.
        whole: (C, T) which samples are complete.

    Raises:
        InputError: shapes that do not match, or no complete sample.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t = 0.05 * np.arange(200)
        >>> noise = 0.1 * np.random.default_rng(0).normal(size=200)
        >>> whole = np.ones((1, 200), dtype=bool)
        >>> window, degree = romkit.data.velocity.smoothest((np.sin(t) + noise)[None, :, None], whole)
        >>> window > romkit.data.velocity.smoothest(np.sin(t)[None, :, None], whole).window  # noise makes it longer
        True
    """
    whole = np.asarray(whole)
    if x.ndim != 3 or whole.shape != x.shape[:2] or not whole.any():
        expected, got = (
            "(C, T, n) with (C, T) samples, some complete",
            f"shapes {x.shape} and {whole.shape}",
        )
        raise InputError("x, whole", expected=expected, got=got, fix="match the axes")
    parts = [x[part] for part in stretches(whole)]
    typical = sorted(map(len, parts))[len(parts) // 2]
    tried = [
        Smoothing(w, d)
        for w in WINDOWS
        for d in DEGREES
        if w > d + 1 and (w <= typical or w == WINDOWS[0])
    ]
    return min(tried, key=lambda each: _left_out_error(parts, each))


def _left_out_error(parts: list[np.ndarray], smoothing: Smoothing) -> float:
    """Mean square of (x - x̂) / (1 - h): what a polynomial without the sample itself misses it by."""
    from scipy.signal import savgol_coeffs, savgol_filter

    window, degree = smoothing
    half, own = window // 2, savgol_coeffs(window, degree)[window // 2]
    total, count = 0.0, 0
    for x in parts:
        if len(x) >= max(window, 3 * half):
            sample = x[:, :: max(1, x.shape[1] // 50)].astype(np.float64)
            inner = slice(half, len(x) - half)
            miss = (sample - savgol_filter(sample, window, degree, axis=0))[inner] / (1 - own)
            total, count = total + float(np.square(miss).sum()), count + miss.size
    return total / count if count else np.inf
