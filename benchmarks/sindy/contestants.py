"""Who is timed: each fits all problems and returns coefficients (S, terms, 3)."""

from collections.abc import Callable

import numpy as np
import pysindy

from benchmarks.sindy.problem import DT, Problem
from romkit.integrators import SINDy

SETTINGS = {"threshold": 0.1, "alpha": 0.05}
ROMKIT, PYSINDY, STLSQ = "romkit, SINDy.fit", "pysindy, SINDy.fit", "pysindy, STLSQ.fit alone"

Fit = Callable[[], np.ndarray]


def make_contestants(problem: Problem, degree: int) -> dict[str, Fit]:
    """romkit fits the stack at once, pysindy in a loop: whole, and its regression alone with the library given."""
    pairs = [(z.numpy(), dz.numpy()) for z, dz in zip(*problem, strict=True)]
    thetas = [pysindy.PolynomialLibrary(degree=degree).fit_transform(z) for z, _ in pairs]
    single = len(pairs) == 1

    def romkit() -> np.ndarray:
        z, dz = (x[0] if single else x for x in problem)
        found = SINDy(degree=degree, **SETTINGS).fit_samples(z, dz).coefficients.numpy()
        return found[None] if single else found

    def whole() -> np.ndarray:
        return np.stack([_pysindy(z, dz, degree) for z, dz in pairs])

    def alone() -> np.ndarray:
        rows = zip(thetas, pairs, strict=True)
        return np.stack([pysindy.STLSQ(**SETTINGS).fit(np.asarray(t), dz).coef_.T for t, (_, dz) in rows])

    return {ROMKIT: romkit, PYSINDY: whole, STLSQ: alone}


def _pysindy(z: np.ndarray, dz: np.ndarray, degree: int) -> np.ndarray:
    library = pysindy.PolynomialLibrary(degree=degree)
    model = pysindy.SINDy(optimizer=pysindy.STLSQ(**SETTINGS), feature_library=library)
    return model.fit(z, t=DT, x_dot=dz).coefficients().T


class Disagreement(AssertionError):
    """Contestants do not compute the same."""


def check(contestants: dict[str, Fit]) -> float:
    """Largest difference of romkit's coefficients from those of the others, which have the same support."""
    found = {name: np.asarray(fit()) for name, fit in contestants.items()}
    ours, worst = found[ROMKIT], 0.0
    for name, theirs in found.items():
        if not np.array_equal(ours != 0, theirs != 0):
            raise Disagreement(f"{name} has another support")
        worst = max(worst, float(np.abs(ours - theirs).max()))
    if worst > 1e-6:
        raise Disagreement(f"coefficients differ by {worst:.1e}")
    return worst
