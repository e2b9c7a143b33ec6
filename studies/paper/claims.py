"""The claims of the paper about accuracy, ablation and robustness, each with the numbers that decide it."""

from collections.abc import Sequence

import numpy as np

from studies.paper.config import ABLATIONS, METHODS, OOD_DISTANCES, SIGMAS
from studies.paper.judging import ENTRIES, Part, claim, entry, fact, lower, missing, spread, values
from studies.paper.results import Results
from studies.paper.tables import METHOD_OF

SYSTEMS = ("lorenz96", "pendulum")
BASELINES = METHODS[1:]
UNCONSTRAINED = ("ae", "context-ae", "film-ae", "soft-ncae")
POSITION, VELOCITY = "position_rmse", "velocity_rmse"
OOD = tuple(f"ood +{distance:.0%}" for distance in OOD_DISTANCES)
NOISE = tuple(f"sigma={sigma:.2f}" for sigma in SIGMAS)
NOISE_TABLES = tuple(f"{when}_noise_{kind}" for when in ("train", "test") for kind in ("state", "context", "both"))


def clean(results: Results, system: str, method: str, metric: str) -> np.ndarray | None:
    """Ours in the table of reconstruction."""
    return values(results, "reconstruction", system, method, "clean", metric)


@claim("NcAE reconstructs velocities better than every baseline, on both systems.")
def best_velocity(results: Results) -> Sequence[Part]:
    return [_beats(results, system, method, VELOCITY) for system in SYSTEMS for method in BASELINES]


@claim("NcAE reconstructs the positions of Lorenz96 better than every baseline.")
def best_position_lorenz96(results: Results) -> Sequence[Part]:
    return [_beats(results, "lorenz96", method, POSITION) for method in BASELINES]


@claim("On the positions of the pendulum NcAE is better than every baseline but FiLM+AE, which is slightly better.")
def second_position_pendulum(results: Results) -> Sequence[Part]:
    ours, film = (clean(results, "pendulum", method, POSITION) for method in ("ncae", "film-ae"))
    others = [_beats(results, "pendulum", method, POSITION) for method in BASELINES if method != "film-ae"]
    return [*others, lower("film-ae below ncae", film, ours)]


@claim("On the pendulum FiLM+AE's position error varies about five times as much over seeds as NcAE's.")
def film_varies(results: Results) -> Sequence[Part]:
    return [_varies_more(results, "pendulum", "film-ae", POSITION, 2.5)]


@claim("On the pendulum NcAE has about 75 % less position error than cAE and Context-cAE.")
def three_quarters_less(results: Results) -> Sequence[Part]:
    ours = clean(results, "pendulum", "ncae", POSITION)
    pairs = [(method, clean(results, "pendulum", method, POSITION)) for method in ("cae", "context-cae")]
    return [lower(f"ncae below 0.3 x {method}", ours, theirs, below=0.3) for method, theirs in pairs]


@claim("Context-cAE is no better than cAE on the pendulum, in positions and velocities.")
def concatenation_does_not_help(results: Results) -> Sequence[Part]:
    parts = []
    for metric in (POSITION, VELOCITY):
        plain, joint = (clean(results, "pendulum", method, metric) for method in ("cae", "context-cae"))
        part = lower(f"{metric}, context-cae below cae", joint, plain)
        parts.append(part if plain is None or joint is None else fact(part.numbers, part.outcome != "yes"))
    return parts


@claim("On Lorenz96 NcAE's velocity error is an order of magnitude below that of every unconstrained method.")
def order_of_magnitude(results: Results) -> Sequence[Part]:
    ours = clean(results, "lorenz96", "ncae", VELOCITY)
    pairs = [(method, clean(results, "lorenz96", method, VELOCITY)) for method in UNCONSTRAINED]
    return [lower(f"ncae below 0.15 x {method}", ours, theirs, below=0.15) for method, theirs in pairs]


@claim("SoftNcAE varies more over seeds than NcAE, on both systems, so the hard constraint stabilises training.")
def soft_varies(results: Results) -> Sequence[Part]:
    pairs = [(system, metric) for system in SYSTEMS for metric in (POSITION, VELOCITY)]
    return [_varies_more(results, system, "soft-ncae", metric, 1.0) for system, metric in pairs]


@claim("With one modulation channel NcAE is less accurate than with both, on both systems.")
def both_channels(results: Results) -> Sequence[Part]:
    parts = []
    for system in SYSTEMS:
        for metric in (POSITION, VELOCITY):
            both, *single = (
                values(results, "ablation_modulation", system, method, "clean", metric)
                for method in ("ncae", *ABLATIONS)
            )
            for name, one in zip(ABLATIONS, single, strict=True):
                parts.append(lower(f"{system}, {metric}, ncae below {name}", both, one))
    return parts


@claim("Training with the slope channel alone is unstable (2 and 3 of 10 runs diverge), with the bias channel stable.")
def slope_is_unstable(results: Results) -> Sequence[Part]:
    parts = []
    for system in SYSTEMS:
        for method, unstable in (("ncae-slope", True), ("ncae-bias", False), ("ncae", False)):
            data = results.find("clean", system, method)
            if data is None:
                parts.append(missing(f"{system}, {method}"))
                continue
            lost = int(data["diverged"].sum())
            label = f"{system}, {method}: {lost} of {data.sizes['seed']} seeds diverge"
            parts.append(fact(label, (lost > 0) == unstable))
    return parts


@claim("Out of the training range NcAE has the best velocities at every distance, on both systems.")
def best_velocity_beyond(results: Results) -> Sequence[Part]:
    return [_best(results, "ood_context", system, condition, VELOCITY) for system in SYSTEMS for condition in OOD]


@claim("NcAE's errors grow monotonically with the distance from the training range.")
def monotone_beyond(results: Results) -> Sequence[Part]:
    return [
        _monotone(results, "ood_context", system, OOD, metric) for system in SYSTEMS for metric in (POSITION, VELOCITY)
    ]


@claim("FiLM+AE fails out of the training range on Lorenz96 (velocity error at +50 % some hundred times that at 0 %).")
def film_fails_beyond(results: Results) -> Sequence[Part]:
    inside = clean(results, "lorenz96", "film-ae", VELOCITY)
    outside = values(results, "ood_context", "lorenz96", "film-ae", "ood +50%", VELOCITY)
    return [lower("clean below 0.02 x +50 %", inside, outside, below=0.02)]


@claim("Of the 72 conditions with noise, at training or at evaluation, NcAE is best in 47, more than any other method.")
def best_under_noise(results: Results) -> Sequence[Part]:
    winners, total = noise_winners(results)
    if not winners:
        return [missing("conditions with noise")]
    ours, others = winners.get("ncae", 0), {k: n for k, n in winners.items() if k != "ncae"}
    counts = ", ".join(f"{method} {count}" for method, count in sorted(winners.items(), key=lambda item: -item[1]))
    measured = sum(winners.values())
    label = f"lowest mean error in {measured} measured conditions of {total}: {counts}"
    share = f"ncae in {ours} of {measured} ({ours / measured:.0%}; 47 of 72 is 65 %)"
    return [fact(label, ours > max(others.values(), default=0)), fact(share, ours / measured >= 47 / 72)]


@claim("NcAE's errors grow monotonically with the noise.")
def monotone_under_noise(results: Results) -> Sequence[Part]:
    return [
        _monotone(results, table, system, NOISE, metric)
        for table in NOISE_TABLES
        for system in SYSTEMS
        for metric in (POSITION, VELOCITY)
    ]


def noise_winners(results: Results) -> tuple[dict[str, int], int]:
    """How many of the conditions with noise each method has the lowest mean error in, and how many there are.

    A condition counts if all methods of its table were measured.
    """
    winners: dict[str, int] = {}
    conditions = [(t, s, c, m) for t in NOISE_TABLES for s in SYSTEMS for c in NOISE for m in (POSITION, VELOCITY)]
    for table, system, condition, metric in conditions:
        means = _means(results, table, system, condition, metric)
        if means and all(mean is not None for mean in means.values()):
            best = min(means, key=lambda method: means[method])
            winners[best] = winners.get(best, 0) + 1
    return winners, len(conditions)


def _means(results: Results, table: str, system: str, condition: str, metric: str) -> dict[str, float | None]:
    """Mean over seeds of each method that the paper has in this table."""
    means = {}
    for name, method in METHOD_OF.items():
        if (table, system, name, condition, metric) in ENTRIES:
            ours = values(results, table, system, method, condition, metric)
            means[method] = None if ours is None else float(np.mean(ours))
    return means


def _beats(results: Results, system: str, method: str, metric: str) -> Part:
    ours, theirs = (clean(results, system, name, metric) for name in ("ncae", method))
    return lower(f"{system}, ncae below {method}", ours, theirs)


def _best(results: Results, table: str, system: str, condition: str, metric: str) -> Part:
    """Whether NcAE is below the best baseline of a column."""
    means = {
        k: m for k, m in _means(results, table, system, condition, metric).items() if k != "ncae" and m is not None
    }
    label = f"{system}, {condition}"
    if not means:
        return missing(label)
    rival = min(means, key=lambda method: means[method])
    ours, theirs = (values(results, table, system, name, condition, metric) for name in ("ncae", rival))
    return lower(f"{label}, ncae below the best baseline, {rival}", ours, theirs)


def _varies_more(results: Results, system: str, method: str, metric: str, factor: float) -> Part:
    ours, theirs = (clean(results, system, name, metric) for name in ("ncae", method))
    label = f"{system}, {metric}"
    if ours is None or theirs is None:
        return missing(label)
    published = [entry("reconstruction", system, name, "clean", metric).std for name in ("ncae", method)]
    numbers = f"standard deviation {np.std(theirs):.2g} ({method}) against {np.std(ours):.2g} (ncae)"
    return fact(
        f"{label}: {numbers}; published {published[1]:g} against {published[0]:g}", _wider(theirs, ours, factor)
    )


def _wider(theirs: np.ndarray, ours: np.ndarray, factor: float) -> bool:
    return bool(np.std(theirs) > factor * np.std(ours))


def _monotone(results: Results, table: str, system: str, conditions: Sequence[str], metric: str) -> Part:
    label = f"{table}, {system}, {metric}"
    rows = [values(results, table, system, "ncae", condition, metric) for condition in conditions]
    rows.insert(0, clean(results, system, "ncae", metric))
    if any(row is None for row in rows):
        return missing(label)
    means = [float(np.mean(row)) for row in rows]
    return fact(f"{label}: {' -> '.join(spread(row) for row in rows)}", bool(np.all(np.diff(means) > 0)))
