"""The claims of the paper about idempotency, latent geometry, its propositions and the bifurcation."""

from collections.abc import Callable, Sequence

import numpy as np

from studies.paper.config import METHODS
from studies.paper.judging import Part, claim, fact, lower, missing, spread, values
from studies.paper.results import Results

SYSTEMS = ("lorenz96", "pendulum")
BASELINES = METHODS[1:]
TABLE_STEPS = (1, 5, 10, 15)
EXACT = ("cae", "ncae")
INEXACT = tuple(method for method in METHODS if method not in EXACT)
Test = Callable[[np.ndarray], np.ndarray]
ROUNDING = 1e-9
"""Largest relative error that counts as rounding in float64, through functions and back."""


def idempotency(results: Results, system: str, method: str, step: int) -> np.ndarray | None:
    """Ours in the table of idempotency."""
    return values(results, "idempotency", system, method, f"step {step}", "idempotency_error")


@claim("cAE and NcAE are idempotent to rounding (errors near 1e-5) at all 15 steps, on both systems.")
def exact_methods(results: Results) -> Sequence[Part]:
    return [_at_most(results, system, method, 5e-5) for system in SYSTEMS for method in EXACT]


@claim("All other methods are four orders of magnitude and more above.")
def four_orders(results: Results) -> Sequence[Part]:
    parts = []
    for system in SYSTEMS:
        exact = [e for method in EXACT if (e := idempotency(results, system, method, 1)) is not None]
        for method in INEXACT:
            theirs = idempotency(results, system, method, 1)
            if theirs is None or not exact:
                parts.append(missing(f"{system}, {method}"))
                continue
            worst = max(exact, key=np.mean)
            parts.append(lower(f"{system}, exact methods below 1e-4 x {method}, step 1", worst, theirs, below=1e-4))
    return parts


@claim("On Lorenz96 the errors of the other methods grow from step to step, those of FiLM+AE beyond all bounds by 5.")
def growth(results: Results) -> Sequence[Part]:
    parts = [_grows(results, method) for method in INEXACT]
    film = idempotency(results, "lorenz96", "film-ae", 5)
    label = "film-ae above 1000 at step 5"
    return [*parts, missing(label) if film is None else fact(f"{label}: {spread(film)}", bool(np.mean(film) > 1e3))]


@claim("On the pendulum the unconstrained methods stay bounded near 0.1; Context-cAE does not.")
def bounded_on_the_pendulum(results: Results) -> Sequence[Part]:
    parts = []
    for method in INEXACT:
        last = idempotency(results, "pendulum", method, TABLE_STEPS[-1])
        if last is None:
            parts.append(missing(method))
            continue
        bounded = bool(np.mean(last) < 1)
        parts.append(fact(f"{method}, step 15: {spread(last)}", bounded != (method == "context-cae")))
    return parts


@claim("FiLM+AE's idempotency error on the pendulum varies over seeds by more than its mean, at every step.")
def film_varies_by_its_mean(results: Results) -> Sequence[Part]:
    parts = []
    for step in TABLE_STEPS:
        errors = idempotency(results, "pendulum", "film-ae", step)
        label = f"step {step}"
        parts.append(
            missing(label) if errors is None else fact(f"{label}: {spread(errors)}", np.std(errors) > np.mean(errors))
        )
    return parts


@claim("SoftNcAE drifts less than FiLM+AE under repeated projection on Lorenz96, but does drift.")
def soft_in_between(results: Results) -> Sequence[Part]:
    parts = []
    for step in TABLE_STEPS[1:]:
        soft, film = (idempotency(results, "lorenz96", method, step) for method in ("soft-ncae", "film-ae"))
        parts.append(lower(f"step {step}, soft-ncae below film-ae", soft, film))
    return [*parts, _grows(results, "soft-ncae")]


@claim("NcAE has the lowest condition number of the latent covariance and the lowest variation of the latent speed.")
def latent_geometry(results: Results) -> Sequence[Part]:
    parts = []
    for system in SYSTEMS:
        for metric in ("latent_covariance_cn", "latent_velocity_cv"):
            ours = values(results, "latent_geometry", system, "ncae", "clean", metric)
            for method in BASELINES:
                theirs = values(results, "latent_geometry", system, method, "clean", metric)
                parts.append(lower(f"{system}, {metric}, ncae below {method}", ours, theirs))
    return parts


@claim("SoftNcAE's latent axes on Lorenz96 are degenerate (condition number 26 on average, ten times NcAE's and more).")
def soft_axes(results: Results) -> Sequence[Part]:
    ours, soft = (
        values(results, "latent_geometry", "lorenz96", method, "clean", "latent_covariance_cn")
        for method in ("ncae", "soft-ncae")
    )
    return [lower("ncae below 0.1 x soft-ncae", ours, soft, below=0.1)]


@claim("Proposition 3.1: every context gives an idempotent projection, also far from the training range.")
def proposition_idempotency(results: Results) -> Sequence[Part]:
    return [_proposition(results, s, "far_idempotency", lambda v: v < ROUNDING, "at most") for s in SYSTEMS]


@claim("Proposition 3.2: encoding at one context and decoding at another is a diffeomorphism of the two manifolds.")
def proposition_diffeomorphism(results: Results) -> Sequence[Part]:
    return [
        *(_proposition(results, s, "round_trip", lambda v: v < ROUNDING, "there and back, at most") for s in SYSTEMS),
        *(
            _proposition(results, s, "smallest_stretch", lambda v: v > 1e-6, "smallest singular value of Dφ")
            for s in SYSTEMS
        ),
    ]


@claim("Proposition 3.3: the manifold moves at most by L ‖δ‖ when the context moves by δ, in Hausdorff distance.")
def proposition_hausdorff(results: Results) -> Sequence[Part]:
    label = "largest Hausdorff distance over L ‖δ‖"
    return [_proposition(results, s, "hausdorff_ratio", lambda v: v <= 1 + 1e-3, label) for s in SYSTEMS]


@claim("Lorenz96 changes at F = 3.163 from a travelling wave of wave number 8 to one of wave number 7.")
def bifurcation(results: Results) -> Sequence[Part]:
    data = results.bifurcation
    if data is None:
        return [missing("wave numbers over F")]
    F, numbers = data["forcing"].values, data["wave_number"].values
    changes = np.flatnonzero(np.diff(numbers))
    places = ", ".join(f"{numbers[k]} to {numbers[k + 1]} between {F[k]:.4f} and {F[k + 1]:.4f}" for k in changes)
    first, last = int(numbers[0]), int(numbers[-1])
    return [
        fact(f"wave number {first} at F = {F[0]:.3f}, {last} at F = {F[-1]:.3f}", (first, last) == (8, 7)),
        fact(f"changes: {places or 'none'}", len(changes) == 1),
        fact("the change is within 0.003 of 3.163", len(changes) == 1 and abs(F[changes[0]] - 3.163) < 0.003),
    ]


def _at_most(results: Results, system: str, method: str, bound: float) -> Part:
    data = results.find("clean", system, method)
    if data is None:
        return missing(f"{system}, {method}")
    errors = data["idempotency_error"].values
    label = f"{system}, {method}: largest mean over the steps {errors.mean(0).max():.2g}"
    return fact(label, bool(errors.mean(0).max() <= bound))


def _grows(results: Results, method: str) -> Part:
    first, last = (idempotency(results, "lorenz96", method, step) for step in (1, TABLE_STEPS[-1]))
    return lower(f"{method}, step 1 below step 15", first, last)


def _proposition(results: Results, system: str, name: str, holds: Test, label: str) -> Part:
    data = results.find("clean", system, "ncae")
    if data is None:
        return missing(system)
    measured = data[name].values
    low, high = measured.min(), measured.max()
    return fact(f"{system}, {label}: {low:.2g} to {high:.2g} over seeds", bool(np.all(holds(measured))))
