"""Hidden contexts that drift within runs: their paths, and a law of their own."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
import xarray as xr

from romkit.core.boundary import Count, Positive, validated
from romkit.core.errors import InputError
from romkit.core.polynomials import Monomials
from romkit.core.types import Array, NameSequence, frozen
from romkit.hidden.context import HiddenContext, hidden_context
from romkit.hidden.family import Structure
from romkit.hidden.reading import SHORTEST, assign_hidden, described, known_names
from romkit.hidden.search import EXACT, Trial, is_as_good


@validated
def drifting_context(
    runs: xr.Dataset | pd.DataFrame,
    *,
    pieces: Count = 4,
    context: NameSequence | None = None,
    latent_dim: Count | None = None,
) -> "DriftingContext":
    """Find a hidden context that drifts slowly within runs, and a law dc/dt = g(c, z) of its own.

    Each run is cut into pieces that have a context each, as `hidden_context` finds it. The law is
    the simplest of which predictions of the changes in runs that were left out are within one
    standard error of the best: none, a constant, linear in c, with the mean latents, or with their
    mean products of degree two.

    Args:
        runs: trajectories with even times.
        pieces: of each run.
        context: names of the parameters that are known.
        latent_dim: see `hidden_context`.

    Raises:
        InputError: fewer than two pieces, uneven times, or pieces of fewer than six samples.

    Source: Ljung, Söderström (1983), Theory and practice of recursive identification, for
    parameters that follow a law of their own.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t, k = np.linspace(0, 6, 31), np.array([1.0, 1.2, 1.5, 1.7, 2.0])
        >>> w = np.sqrt(k)[:, None]
        >>> states = np.stack([np.cos(w * t), -w * np.sin(w * t)], axis=-1)
        >>> runs = romkit.data.from_arrays(states, t)
        trajectories  5 of up to 31 samples, n = 2
        state         state (component 2), float64
        context       none
        time          0 ... 6, every 0.2
        rates         none given; estimated where needed
        >>> romkit.hidden.drifting_context(runs, pieces=2).law
        'none'
    """
    data = described(runs, context)
    recorded = known_names(data, None, context)
    length = data.sizes["time"] // pieces
    if pieces < 2 or length < SHORTEST:
        expected = f"two or more, of {SHORTEST} samples or more"
        raise InputError("pieces", expected=expected, got=pieces, fix="give longer runs")
    times = data["time"].values
    steps = np.diff(times)
    if steps.max() > 1.001 * steps.min():
        fix = "bring them to even ones by romkit.data.resampled"
        raise InputError("runs", expected="even times", got="uneven ones", fix=fix)
    cut = [data.isel(time=slice(k * length, (k + 1) * length)) for k in range(pieces)]
    together = xr.concat([c.assign_coords(time=times[:length]) for c in cut], "trajectory")
    hidden = hidden_context(together, context=recorded, latent_dim=latent_dim)
    values = hidden.values["value"].values.reshape(pieces, -1, hidden.number)
    middles = times[0] + steps[0] * (length * np.arange(pieces) + (length - 1) / 2)
    path = values.transpose(1, 0, 2)  # (C, pieces, r)
    designs = _designs(data, hidden, path, middles)
    rates = np.diff(path, axis=1) / (length * steps[0])  # (C, pieces - 1, r)
    trials = {name: Trial(Structure(0, 0, 0), _errors(x, rates)) for name, x in designs.items()}
    best = min(trials.values(), key=lambda trial: trial.error)
    law = next(name for name, trial in trials.items() if is_as_good(trial, best))
    g = np.linalg.pinv(np.concatenate(designs[law])) @ np.concatenate(rates)
    columns = {}
    for k, name in enumerate(hidden.names):
        columns[name] = _interpolate(path[..., k], middles, times)
    errors = {name: trial.error for name, trial in trials.items()}
    return DriftingContext(hidden, assign_hidden(data, recorded, columns), law, g, errors)


def _interpolate(values: Array, middles: Array, times: Array) -> Array:
    """Interpolate values (C, pieces) in the middles of pieces: (C, T)."""
    return np.stack([np.interp(times, middles, row) for row in values])


def _designs(
    data: xr.Dataset, found: HiddenContext, path: Array, middles: Array
) -> dict[str, Array]:
    """Return terms (C, pieces - 1, q) of laws of the context by name, from the simplest on."""
    times = data["time"].values
    frame = found.frame
    states = torch.from_numpy(data["state"].values.astype(float))
    w = frame.scale.scaled(frame.latents(states))  # (C, T, m)
    between = [(times >= a) & (times <= b) for a, b in itertools.pairwise(middles)]
    # the first monomial is one, and those of higher degree stand behind
    terms = Monomials(w.shape[-1], 2)(w).numpy()
    mean = np.stack([np.nanmean(terms[:, segment], 1) for segment in between], 1)
    c = (path[:, 1:] + path[:, :-1]) / 2
    design, latents = mean[..., :1], 1 + w.shape[-1]
    return {
        "none": design[..., :0],
        "constant": design,
        "c": np.concatenate([design, c], -1),
        "c and z": np.concatenate([mean[..., :latents], c], -1),
        "c and products of z": np.concatenate([mean, c], -1),
    }


def _errors(design: Array, rates: Array) -> torch.Tensor:
    """Return root mean square errors (C,) of rates of runs, by a linear law of the others, relative to
    the rates of all.
    """
    size = np.sqrt(np.square(rates).mean())
    errors = []
    for run in range(len(rates)):
        kept = np.arange(len(rates)) != run
        g = np.linalg.pinv(np.concatenate(design[kept])) @ np.concatenate(rates[kept])
        errors.append(np.sqrt(np.square(rates[run] - design[run] @ g).mean()))
    relative = torch.tensor(errors) / (size if size > 0 else 1.0)
    return relative.double().clamp(min=EXACT)


@frozen
class DriftingContext:
    """Hidden context that drifts within runs.

    Attributes:
        found: hidden contexts of the pieces.
        runs: the runs, with hidden parameters along their times: straight lines between the middles
            of the pieces.
        law: terms of dc/dt = g(c, z).
        coefficients: of these terms (q, r), constant, latents in units of the fit, and c.
        errors: of rates in left-out runs, relative to the rates, by terms.
    """

    found: HiddenContext
    runs: xr.Dataset
    law: str
    coefficients: Array
    errors: dict[str, float]

    def rate(self, c: Array, w: Array) -> Array:
        """Rate of the context c (r,) at latents w (m,) in units of the fit."""
        if self.law == "none":
            return np.zeros_like(c)
        degree = {"c and z": 1, "c and products of z": 2}.get(self.law, 0)
        terms = np.ones(1)
        if degree:
            terms = Monomials(len(w), degree)(torch.from_numpy(w)).numpy()
        if self.law != "constant":
            terms = np.concatenate([terms, c])
        return terms @ self.coefficients

    @validated
    def forecast(
        self,
        initial_state: Array,
        hidden: Sequence[float],
        *,
        duration: Positive,
        dt: Positive,
        **known: float,
    ) -> xr.Dataset:
        """Forecast state and context together, from a state (n,) and a context on.

        Args:
            initial_state: (n,).
            hidden: context (r,) at the beginning.
            duration: length of the forecast.
            dt: interval of the output.
            **known: known parameters.
        """
        from scipy.integrate import solve_ivp  # slow to import

        placed = self.found
        scale, motion = placed.frame.scale, placed.discovery.motion
        family = placed.discovery.posterior.family
        fixed, _ = placed._placed_context(known)
        state = torch.from_numpy(np.asarray(initial_state, dtype=float))
        start = scale.scaled(placed.frame.latents(state)).numpy()
        m = len(start)

        def rates(_: float, joint: Array) -> Array:
            w, c = joint[:m], joint[m:]
            law = family.at(fixed, torch.from_numpy(c)[None])
            along = motion.terms(torch.from_numpy(w)) @ law.weights[0]
            return np.concatenate([along.numpy() / scale.tau, self.rate(c, w)])

        times = dt * np.arange(round(duration / dt) + 1)
        begin = np.concatenate([start, np.asarray(hidden, dtype=float)])
        run = solve_ivp(rates, (0, times[-1]), begin, t_eval=times, rtol=1e-8, atol=1e-10)
        states = placed.frame.states(torch.from_numpy(run.y[:m].T)).numpy()
        coords = {"time": times, "component": placed.data["component"].values}
        context = (("time", "parameter"), run.y[m:].T)
        forecast = {"state": (("time", "component"), states), "context": context}
        return xr.Dataset(forecast, coords | {"parameter": list(placed.names)})

    def __repr__(self) -> str:
        errors = ", ".join(f"{error:.2g} ({name})" for name, error in self.errors.items())
        return f"{self.found!r}\ndrift           {self.law}\nleft-out error  {errors}"
