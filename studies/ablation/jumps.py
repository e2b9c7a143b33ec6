"""Thresholds by which `romkit.data.describe` and `learn` say that a state jumps: alarms on smooth sets, and jumps found.

`python -m studies.ablation.jumps` writes jumps.json: the ten sets of studies/first_afternoon, at all samples and at each
fourth one, have no jumps; bouncing balls, neurons that are reset and doses have some, at four intervals of sampling.
"""

import itertools
import json
from pathlib import Path

import numpy as np

from romkit.data.habits import _leaps
from studies.first_afternoon.sets import SETS, measure

BESIDE, FASTER, LEAST = (3, 5, 9), (4.0, 8.0, 16.0), (0.0, 0.1, 0.3)


def falling(height: float, times: np.ndarray) -> np.ndarray:
    """Return the velocity (T,) of a ball that is dropped, and bounces once."""
    impact = np.sqrt(2 * height / 9.81)
    return np.where(times < impact, -9.81 * times, 0.8 * 9.81 * impact - 9.81 * (times - impact))


def firing(current: float, times: np.ndarray) -> np.ndarray:
    """Return the voltage (T,) of a neuron that leaks and integrates, reset to 0 where it reaches 1."""
    return current * (1 - np.exp(-(times % np.log(current / (current - 1)))))


def dosed(rate: float, times: np.ndarray) -> np.ndarray:
    """Return a concentration (T,) that decays, and rises by 1 at each dose."""
    since = times[:, None] - 3.0 * np.arange(4)
    return np.where(since >= 0, np.exp(-rate * np.maximum(since, 0)), 0.0).sum(1)


JUMPS = ((falling, (1.0, 1.2, 1.5)), (firing, (1.5, 1.8, 2.0)), (dosed, (0.3, 0.5, 0.8)))


def smooth_courses() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return courses (C, T) of each component of sets without jumps, and their times."""
    courses = []
    for source in SETS.values():
        data, _ = measure(source)
        for values, every in itertools.product(data.data_vars.values(), (1, 4)):
            columns = values.values.reshape(*values.shape[:2], -1)[:, ::every]
            times = data["t"].values[::every]
            courses += [(columns[..., k], times) for k in range(columns.shape[-1])]
    return courses


def jumping_courses() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return courses (C, T) of components that jump, and their times."""
    courses = []
    for (course, values), interval in itertools.product(JUMPS, (0.005, 0.01, 0.02, 0.04)):
        end = 0.9 if course is falling else 8.0
        times = np.arange(0, end, interval)
        courses.append((np.stack([course(value, times) for value in values]), times))
    return courses


def main() -> None:
    """Count courses with an alarm for each choice of the thresholds."""
    smooth, jumping = smooth_courses(), jumping_courses()
    rows = []
    for beside, faster, least in itertools.product(BESIDE, FASTER, LEAST):
        settings = {"beside": beside, "times_faster": faster, "least": least}
        alarms, found = (
            sum(len(_leaps(*course, **settings)) > 0 for course in courses)
            for courses in (smooth, jumping)
        )
        rows.append(settings | {"alarms": alarms, "found": found})
    result = {"smooth": len(smooth), "jumping": len(jumping), "rows": rows}
    Path(__file__).with_name("jumps.json").write_text(json.dumps(result, indent=1) + "\n")
    print(len(smooth), len(jumping), *rows, sep="\n")


if __name__ == "__main__":
    main()
