"""Lorenz 63 by romkit and pysindy: single problems and stacks, timed in turns on one core, and
romkit on a GPU beside them.
"""

import contextlib
import io
import itertools
import statistics
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
import pysindy
import torch
from torch import Tensor

import romkit
from benchmarks.harness import Disagreement, Parts, Result, in_turns
from romkit.data import from_arrays
from romkit.laws import SINDy
from romkit.solvers import RK4

DT = 0.01
SETTINGS = {"threshold": 0.1, "alpha": 0.05}
ROMKIT, PYSINDY, STLSQ = "romkit, SINDy.fit", "pysindy, SINDy.fit", "pysindy, STLSQ.fit alone"
ON_GPU = "romkit, SINDy.fit on the GPU"

LONGEST = 50_000
"""Samples of one trajectory; a problem of more has several of them."""

Fit = Callable[[], np.ndarray]
"""Fit of all S problems, which returns coefficients (S, terms, 3)."""


def make_problem(problems: int, samples: int) -> tuple[Tensor, Tensor]:
    """Return states and rates (S, N, 3) with ρ from 26 to 32; a single problem has ρ = 28."""
    rho = (
        torch.linspace(26, 32, problems, dtype=torch.float64)
        if problems > 1
        else torch.tensor([28.0]).double()
    )
    start = torch.tensor([-8.0, 8.0, 27.0], dtype=torch.float64).repeat(problems, 1)
    trajectories = max(1, samples // LONGEST)
    if trajectories > 1:
        # chaos makes different trajectories of starts beside each other
        beside = torch.linspace(0, 1, trajectories, dtype=torch.float64)
        starts = start.repeat_interleave(trajectories, 0) + beside.repeat(problems)[:, None]
        z, rates = trajectories_of(rho.repeat_interleave(trajectories), starts, LONGEST)
        return z.reshape(problems, -1, 3), rates.reshape(problems, -1, 3)
    return trajectories_of(rho, start, samples)


def trajectories_of(rho: Tensor, start: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Return states and rates (S, N, 3) from starts (S, 3), each with its ρ (S,)."""

    def lorenz(t: Tensor | None, state: Tensor) -> Tensor:
        x, y, z = state.unbind(-1)
        own = rho.reshape(-1, *(1 for _ in range(x.ndim - 1)))
        return torch.stack([10 * (y - x), x * (own - z) - y, x * y - 8 / 3 * z], dim=-1)

    z = RK4(DT)(lorenz, start, torch.arange(samples, dtype=torch.float64) * DT).states
    return z, lorenz(None, z)


def make_contestants(z: Tensor, rates: Tensor, degree: int, device: str = "cpu") -> dict[str, Fit]:
    """romkit fits the stack at once, pysindy in a loop; STLSQ alone is given the matrix of the
    library. On a GPU the samples are there already, and the coefficients come back.
    """
    pairs = [(states.numpy(), dz.numpy()) for states, dz in zip(z, rates, strict=True)]
    thetas = [
        np.asarray(pysindy.PolynomialLibrary(degree=degree).fit_transform(states))
        for states, _ in pairs
    ]

    def ours(z: Tensor, rates: Tensor) -> np.ndarray:
        samples = (z[0], rates[0]) if len(pairs) == 1 else (z, rates)
        law = SINDy(degree=degree, **SETTINGS).fit_samples(*samples)
        return law.coefficients.numpy(force=True).reshape(len(pairs), -1, 3)

    def whole(states: np.ndarray, dz: np.ndarray) -> np.ndarray:
        library = pysindy.PolynomialLibrary(degree=degree)
        model = pysindy.SINDy(optimizer=pysindy.STLSQ(**SETTINGS), feature_library=library)
        return model.fit(states, t=DT, x_dot=dz).coefficients().T

    on_gpu = {}
    if device == "cuda":
        on_gpu = {ON_GPU: partial(ours, z.cuda(), rates.cuda())}
    return on_gpu | {
        ROMKIT: partial(ours, z, rates),
        PYSINDY: lambda: np.stack([whole(*pair) for pair in pairs]),
        STLSQ: lambda: np.stack(
            [
                pysindy.STLSQ(**SETTINGS).fit(t, dz).coef_.T
                for t, (_, dz) in zip(thetas, pairs, strict=True)
            ]
        ),
    }


def check(contestants: dict[str, Fit]) -> float:
    """Return largest difference of romkit's coefficients from the others'.

    Raises:
        Disagreement: another support, or a difference over 1e-6.
    """
    ours, worst = contestants[ROMKIT](), 0.0
    for name, fit in contestants.items():
        theirs = fit()
        if not np.array_equal(ours != 0, theirs != 0):
            raise Disagreement(f"{name} has another support")
        worst = max(worst, float(np.abs(ours - theirs).max()))
    if worst > 1e-6:
        raise Disagreement(f"coefficients differ by {worst:.1e}")
    return worst


def by_folds(states: np.ndarray, *, blocks: int = 6) -> pysindy.SINDy:
    """Fit with the degree and the threshold that explain rates of left-out blocks of time best: as
    many of both, and of folds, as `SINDy` of romkit has.
    """
    parts = np.array_split(states, blocks)

    def fitted(runs: list[np.ndarray], degree: int, threshold: float) -> pysindy.SINDy:
        library = pysindy.PolynomialLibrary(degree=degree)
        model = pysindy.SINDy(optimizer=pysindy.STLSQ(threshold), feature_library=library)
        return model.fit(runs, t=DT)

    def score(degree: int, threshold: float) -> float:
        scores = []
        for fold in range(1, blocks):
            kept = parts[:fold] + parts[fold + 1 :]
            scores.append(fitted(kept, degree, threshold).score(parts[fold], t=DT))
        return float(np.mean(scores))

    grid = itertools.product(SINDy.DEGREES, (0.01, 0.1, 1.0))
    return fitted([states], *max(grid, key=lambda settings: score(*settings)))


def by_default(samples: int, repeats: int) -> list[dict[str, object]]:
    """Least CPU times of fits by default settings to a run whose rates are not told, and what their
    laws are: romkit chooses settings by forecasts, and refines the law along the run.
    """
    z, rates = make_problem(1, samples)
    states, exact = z[0], rates[0].numpy()
    with contextlib.redirect_stdout(io.StringIO()):
        data = from_arrays(z.numpy(), DT)
    projection = romkit.fit("identity", data, verbose=False)
    fits = {
        "romkit, SINDy().fit": lambda: SINDy().fit(projection, data),
        "pysindy, SINDy().fit": lambda: pysindy.SINDy().fit(states.numpy(), t=DT),
        "pysindy, settings by folds": lambda: by_folds(states.numpy()),
    }
    rounds = in_turns(fits, repeats)
    law, *models = (run() for run in fits.values())
    found = [law.predict(states).numpy(), *(model.predict(states.numpy()) for model in models)]
    terms = [law.coefficient_count]
    terms += [int((model.coefficients() != 0).sum()) for model in models]
    rows = []
    for (name, times), path, number in zip(rounds.items(), found, terms, strict=True):
        error = np.linalg.norm(path - exact) / np.linalg.norm(exact)
        cpu_ms = 1e3 * min(cpu for cpu, _ in times)
        rows.append({"fit": name, "cpu_ms": cpu_ms, "terms": number, "error": float(error)})
    return rows


def measure(config: SimpleNamespace, device: str, found: Result) -> Parts:
    """Milliseconds of each case: least and median CPU time, least wall time. Other load disturbs
    the least least.
    """
    cases = found.setdefault("cases", [])
    if device == "cpu" and "by_default" not in found:
        found["by_default"] = by_default(2_000, config.repeats)
    planned, repeats = config.cases, config.repeats
    if device == "cuda":
        planned, repeats = config.cases_cuda, config.repeats_cuda
    for problems, samples in planned[len(cases) :]:
        problem = make_problem(problems, samples)
        contestants = make_contestants(*problem, config.degree, device)
        difference, times = check(contestants), {}
        for name, rounds in in_turns(contestants, repeats, device).items():
            cpu, wall = ([t * 1e3 for t in column] for column in zip(*rounds, strict=True))
            times[name] = {
                "cpu_ms": min(cpu),
                "median_ms": statistics.median(cpu),
                "wall_ms": min(wall),
            }
        cases.append(
            {
                "problems": problems,
                "samples": samples,
                "difference": difference,
                "contestants": times,
            }
        )
        yield
