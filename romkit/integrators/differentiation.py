"""Rates of sampled signals, where none were recorded."""

import torch
from torch import Tensor

from romkit import checks
from romkit.errors import InputError


def differentiate(x: Tensor, times: Tensor, *, order: int = 1, window: int = 5, degree: int = 4) -> Tensor:
    """The derivative of x (..., T, k) by time, from a polynomial through the neighbours of each sample.

    Exact for polynomials of this degree. The defaults are central differences of order four; for noisy data take a
    longer window and a lower degree.

    Args:
        x: samples at evenly spaced times.
        times: (T,).
        order: 1 or 2, of the derivative.
        window: samples the polynomial is fitted to, an odd number above the degree.
        degree: of the polynomial, at least `order`.

    Raises:
        InputError: uneven times, fewer samples than the window, or settings that do not fit each other.

    Source: Savitzky, Golay (1964); scipy.signal.savgol_filter.
    """
    from scipy.signal import savgol_filter  # slow to import, and seldom needed

    checks.at_least("order", order, 1)
    checks.at_least("degree", degree, order)
    if checks.at_least("window", window, degree + 1) % 2 == 0:
        raise InputError("window", expected="an odd number", got=window, fix=f"take {window + 1}")
    if x.shape[-2] < window:
        raise InputError("x", expected=f"at least {window} times", got=x.shape[-2], fix="shorten the window")
    steps = times.diff()
    dt = steps.mean().item()
    if not bool(((steps - dt).abs() <= 1e-6 * abs(dt)).all()):
        got = f"steps from {steps.min().item():g} to {steps.max().item():g}"
        raise InputError("times", expected="evenly spaced times", got=got, fix="interpolate to an even grid first")
    rates = savgol_filter(x.double().cpu().numpy(), window, degree, deriv=order, delta=dt, axis=-2, mode="interp")
    return torch.from_numpy(rates).to(x)
