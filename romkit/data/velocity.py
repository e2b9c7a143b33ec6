"""Velocities of data that were recorded without: a named method, stretch by stretch between missing
samples.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import xarray as xr

from romkit.core import checks
from romkit.core.boundary import Mask, unchecked, validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array
from romkit.data.controls import smooth_stretches
from romkit.data.layout import Layout, layout_of
from romkit.data.schema import DIMS, check_states, complete
from romkit.data.times import even_step, stretches

Differentiate = Callable[[Array, Array], Array]
"""(x (T, n), t (T,)) -> ẋ (T, n); what pysindy's differentiation methods are."""

WINDOWS = (5, 7, 9, 13, 17, 25, 35, 49, 69)
"""Samples of the windows that are tried, each about √2 times the one before."""

DEGREES = (4, 2)
"""Degrees of the polynomials that are tried in each window."""

COMPONENTS = 50
"""Components, about, by which window and degree are chosen."""


@dataclass(frozen=True)
class Smoothing:
    """A window of samples and the degree of the polynomial in it; a rule for x (T, n) at even times
    (T,).
    """

    window: int
    degree: int

    def __call__(self, x: Array, t: Array, order: int = 1) -> Array:
        from scipy.signal import savgol_filter  # slow to import, and seldom needed

        step = float(np.diff(t).mean())
        return savgol_filter(
            x, self.window, self.degree, deriv=order, delta=step, axis=0, mode="interp"
        )


@validated
def with_velocity(data: xr.Dataset, *, method: str | Differentiate = "auto") -> xr.Dataset:
    """Return `data` with a variable `velocity`, estimated from its states; its attribute `method`
    says how.

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
    times = data["time"].values.astype(np.float64)
    is_complete = complete(data, ("state",))  # (C, T)
    x = data["state"].transpose(*DIMS).values
    layout = layout_of(data)
    smooth = smooth_stretches(data, is_complete)
    rule, name, shortest = _differentiator(method, x, times, smooth, layout)
    velocity = differentiated(x, times, stretches(smooth, shortest), rule)
    if not np.isfinite(velocity).any():
        raise InputError(
            "data",
            expected="states to differentiate",
            got=f"stretches shorter than {shortest} samples",
            fix="record velocities, or sample more densely",
        )
    about = {"long_name": "time derivative of the state", "method": name}
    return data.assign(velocity=(DIMS, velocity, about))


def differentiated(
    x: Array, times: Array, places: Sequence[tuple[int, slice]], rule: Differentiate
) -> Array:
    """Return rates of x (C, T, n) in these stretches, NaN elsewhere.

    Raises:
        InputError: a rule that gives another shape.
    """
    # states may be whole numbers, rates are none
    rates = np.full(x.shape, np.nan, dtype=np.result_type(x, np.float32))
    for place in places:
        states = x[place].astype(np.float64)
        _, stretch = place
        rate = np.asarray(rule(states, times[stretch]))
        if rate.shape != states.shape:
            raise InputError(
                "method",
                expected=f"a method that gives the shape of its states, {states.shape}",
                got=f"{rate.shape}",
                fix="return a velocity for each state",
            )
        rates[place] = rate
    return rates


@validated
def needing_velocity(data: xr.Dataset) -> xr.Dataset:
    """Add estimated velocities to data without any, with a warning.

    Example:
        >>> import warnings
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.5).drop_vars("velocity")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     estimated = romkit.data.velocity.needing_velocity(data)
        >>> caught[0].category.__name__, "velocity" in estimated
        ('DataWarning', True)
    """
    # without states, those who need them say so
    if "state" not in data or "velocity" in data:
        return data
    data = with_velocity(data)
    method = data["velocity"].attrs["method"]
    fix = "to estimate them once: data = romkit.data.with_velocity(data)"
    warn(f"velocities are not in the data; estimated by {method}; {fix}", DataWarning)
    return data


def _differentiator(
    method: object, x: Array, times: Array, is_complete: Array, layout: Layout
) -> tuple[Differentiate, str, int]:
    """Return the rule of differentiation, its name, and the fewest samples it needs."""
    if callable(method):
        name = getattr(method, "__name__", type(method).__name__)
        return method, name, 5
    checks.one_of("method", method, ("auto", "savitzky-golay", "gradient"))
    is_even = even_step(times) is not None
    if method == "savitzky-golay" and not is_even:
        raise InputError(
            "method",
            expected="evenly spaced times for 'savitzky-golay'",
            got="uneven steps",
            fix="take method='gradient', or resample the data",
        )
    longest = max(piece.stop - piece.start for _, piece in stretches(is_complete))
    if method == "gradient" or not is_even or longest < WINDOWS[0]:
        return _central_differences, "gradient (central differences)", 2
    best = unchecked(smoothest)(_scale_variables(x, layout), torch.from_numpy(is_complete))
    rule = cast("Differentiate", best)  # a named tuple that can be called
    return rule, f"savitzky-golay (window {best.window}, degree {best.degree})", best.window


def _central_differences(x: Array, t: Array) -> Array:
    return np.gradient(x, t, axis=0, edge_order=1)


def _scale_variables(x: Array, layout: Layout) -> Array:
    """Return some components of x (C, T, n), in root mean squares of their variable.

    Without, the variable with the largest numbers would choose the window for all.
    """
    sizes = [variable.size for variable in layout.variables]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    every = max(1, x.shape[-1] // COMPONENTS)
    sample = x[..., ::every].astype(np.float64)  # (C, T, k)
    owner = owner[::every]  # (k,)
    variance_of_components = np.nanvar(sample, axis=(0, 1))
    variance = np.bincount(owner, variance_of_components, len(sizes))
    scale = np.sqrt(variance[owner])
    scale[~(scale > 0)] = 1.0
    return sample / scale


@validated
def smoothest(x: Array, whole: Mask) -> Smoothing:
    """Return the window and degree whose polynomials predict a sample best from the others in its
    window.

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
        >>> rule = romkit.data.velocity.smoothest((np.sin(t) + noise)[None, :, None], whole)
        >>> rule.window > romkit.data.velocity.smoothest(np.sin(t)[None, :, None], whole).window  # noise makes it longer
        True
    """
    is_whole = np.asarray(whole)
    if x.ndim != 3 or is_whole.shape != x.shape[:2] or not is_whole.any():
        raise InputError(
            "x, whole",
            expected="(C, T, n) with (C, T) samples, some complete",
            got=f"shapes {x.shape} and {is_whole.shape}",
            fix="match the axes",
        )
    runs = [x[place] for place in stretches(is_whole)]
    lengths = sorted(map(len, runs))
    typical = lengths[len(lengths) // 2]
    candidates = []
    for window, degree in itertools.product(WINDOWS, DEGREES):
        # a longer window would leave the rates of most stretches missing; one sample more than
        # coefficients, or nothing is smoothed and 1 - h is zero
        if window > degree + 1 and window in (WINDOWS[0], min(window, typical)):
            candidates.append(Smoothing(window, degree))
    return min(candidates, key=lambda smoothing: _validation_error(runs, smoothing))


def _validation_error(runs: list[Array], smoothing: Smoothing) -> float:
    """Return mean square of (x - x̂) / (1 - h): what a polynomial without the sample itself misses
    it by.
    """
    from scipy.ndimage import convolve1d
    from scipy.signal import savgol_coeffs

    window, degree = smoothing.window, smoothing.degree
    half = window // 2
    weights = savgol_coeffs(window, degree)
    influence = weights[half]  # h, of a sample on its own fit
    total, count = 0.0, 0
    for x in runs:
        if len(x) < max(window, 3 * half):
            continue
        every = max(1, x.shape[1] // COMPONENTS)
        sample = x[:, ::every].astype(np.float64)
        # savgol_filter would also fit polynomials to the ends, which takes ten times as long
        residual = sample - convolve1d(sample, weights, axis=0, mode="constant")
        # at the ends the window is cut, and h another
        miss = residual[half : len(x) - half] / (1 - influence)
        total += float(np.square(miss).sum())
        count += miss.size
    return total / count if count else np.inf
