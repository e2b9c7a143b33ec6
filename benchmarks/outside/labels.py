"""Board of the families, with their parameters told and not told."""

import time
from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np
import xarray as xr

import romkit
from benchmarks.outside import ours
from benchmarks.outside.families import FAMILIES, Runs

FIELD = 20
"""Components from which on a state is a field."""


@cache
def runs_of(name: str, split: str) -> Runs:
    family = FAMILIES[name]
    size = len(family.start(np.random.default_rng(0)))
    return family.solved(split, None if split == "train" or size < FIELD else 4)


def errors(name: str, complete: bool) -> dict[str, float]:
    """Return mean square errors on new starts in the same and in new environments; number of terms;
    how many forecasts are lost, which count as far off as the mean of the truth.
    """
    family, train = FAMILIES[name], runs_of(name, "train")
    states, parameters = train.flat()
    context = dict(zip(family.names, parameters.T, strict=True))
    data = ours.dataset(states, train.times, context, family.grid)
    began = time.process_time()
    call, law = ours.of_runs(data, complete)

    def same(start: np.ndarray, environment: int, **when: float) -> xr.Dataset:
        return call(initial_state=start, **told(family.known[environment]), **when)

    def new(start: np.ndarray, environment: int, **when: float) -> xr.Dataset:
        return call(initial_state=start, **told(family.new[environment]), **when)

    def told(values: np.ndarray) -> dict[str, float]:
        return dict(zip(family.names, values.tolist(), strict=True))

    found = {"seconds": time.process_time() - began} | _errors(
        name, {"test": same, "new test": new}
    )
    return found | ours.terms_of(law)


def errors_untold(name: str) -> dict[str, float]:
    """Return the same where the parameters are not told: of new environments a run each is."""
    family, train = FAMILIES[name], runs_of(name, "train")
    states, _ = train.flat()
    data = ours.dataset(states, train.times)
    each = len(states) // len(family.known)
    group = ("trajectory", np.arange(len(states)) // each)
    began = time.process_time()
    hidden = romkit.hidden_context(data.assign_coords(environment=group), "environment")
    seconds = time.process_time() - began

    def same(start: np.ndarray, environment: int, **when: float) -> xr.Dataset:
        return hidden.forecast(start, group=environment, **when)

    placed = [
        hidden.place(ours.dataset(run, train.times)).context for run in runs_of(name, "new").states
    ]

    def new(start: np.ndarray, environment: int, **when: float) -> xr.Dataset:
        return hidden.forecast(start, **placed[environment], **when)

    found = {"seconds": seconds, "number": hidden.number}
    return found | _errors(name, {"test": same, "new test": new})


def _errors(name: str, forecasts: Mapping[str, Callable[..., xr.Dataset]]) -> dict[str, float]:
    """Return errors of forecasts from first states (runs, n) in an environment, by split."""
    found, lost = {}, 0
    for where, split in (("same", "test"), ("new", "new test")):
        test, squares = runs_of(name, split), []
        for environment, truth in enumerate(test.states):
            run = forecasts[split](
                truth[:, 0], environment, duration=test.times[-1], dt=test.times[1]
            )
            path = ours.states_of(run).reshape(truth.shape)
            finite = np.isfinite(path)
            lost += int((~finite.all((1, 2))).sum())
            squares.append((np.where(finite, path, truth.mean()) - truth) ** 2)
        found[where] = float(np.mean(squares))
    return found | {"lost": lost}


def tasks(name: str) -> dict[str, dict[str, Callable[[], dict[str, float]]]]:
    """Return what `learn` does and, of a small state, what `law` of the complete state does; and
    what `hidden_context` does without the parameters.
    """
    size = len(FAMILIES[name].start(np.random.default_rng(0)))
    calls = {f"{ours.NAME}, learn": partial(errors, name, False)}
    if size < FIELD:
        calls[f"{ours.NAME}, law"] = partial(errors, name, True)
    calls[f"{ours.NAME}, hidden_context"] = partial(errors_untold, name)
    return {"labels": calls}
