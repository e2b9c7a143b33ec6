"""Board of the families whose parameters are told."""

import time
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from benchmarks.outside import ours
from benchmarks.outside.families import FAMILIES, Runs

MOST = 32
"""Most test runs of each environment: of small states; of fields four."""

FIELD = 20
"""Components from which on a state is a field."""


@cache
def runs_of(name: str, split: str) -> Runs:
    family = FAMILIES[name]
    size = len(family.start(np.random.default_rng(0)))
    return family.solved(split, None if split == "train" or size < FIELD else 4)


def errors(name: str, complete: bool) -> dict[str, float]:
    """Mean square errors on new starts in the same and in new environments; number of terms; how
    many forecasts are lost, which count as far off as the mean of the truth.
    """
    family, train = FAMILIES[name], runs_of(name, "train")
    states, parameters = train.flat()
    data = ours.dataset(states, train.times, dict(zip(family.names, parameters.T, strict=True)))
    began = time.process_time()
    forecast, law = ours.of_runs(data, complete)
    found = {"seconds": time.process_time() - began}
    lost = 0
    for where, split in (("same", "test"), ("new", "new test")):
        test = runs_of(name, split)
        truth, parameters = test.flat()
        run = forecast(
            initial_state=truth[:, 0],
            duration=test.times[-1],
            dt=test.times[1],
            **dict(zip(family.names, parameters.T, strict=True)),
        )
        path = ours.states_of(run).reshape(truth.shape)
        finite = np.isfinite(path)
        lost += int((~finite.all((1, 2))).sum())
        found[where] = float(np.mean((np.where(finite, path, truth.mean()) - truth) ** 2))
    return found | {"lost": lost, "terms": ours.terms_of(law)}


def tasks(name: str) -> dict[str, dict[str, Callable[[], dict[str, float]]]]:
    """What `learn` does and, of a small state, what `law` of the complete state does."""
    size = len(FAMILIES[name].start(np.random.default_rng(0)))
    calls = {f"{ours.NAME}, learn": partial(errors, name, False)}
    if size < FIELD:
        calls[f"{ours.NAME}, law"] = partial(errors, name, True)
    return {"labels": calls}
